"""Lets through what pages load that were allowed, and sent to the same client a while ago.

Only the default action gives way: what a list, a check or a person blocks stays blocked. A document never passes so,
and a client cannot make up a page that it did not get.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.errors import UrlError
from hushlist.core.match.context import Telling, host_of_page
from hushlist.core.match.rule import Action, Anything, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.schedule import ScheduledAction
from hushlist.core.url.request import canonical_host
from hushlist.extensions.needs.ways import FRAMES
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

#: seconds for which a page that was sent may load what it needs
LIFE = 600.0
#: pages of a client, and clients, that are remembered
MOST_PAGES, MOST_CLIENTS = 64, 1 << 12
#: style sheets and scripts load others, which load others
_DEEPEST = 2
_VIA = "needed by "
_PAGE, _LOADS_MORE = (
    re.compile(r"text/html|application/xhtml\+xml"),
    re.compile(r"text/(css|html|javascript)|application/(x-)?javascript"),
)


class _Sent(NamedTuple):
    """A page that was sent, or what it has loaded that loads more."""

    moment: float
    rule: Rule
    #: whether frames in it pass; how many loads lie between it and the page
    has_frames: bool
    depth: int


class PageNeeds(Part):
    """Remembers the pages that were sent, and lets through what they need; only the event loop uses it."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: by layer, and by layer and source of a list; those of rules are in their terms
        self._ways: dict[str | tuple[str, str], str] = {}
        #: client's address -> canonical host -> what was sent from there
        self._sent: dict[str, dict[bytes, _Sent]] = {}
        #: requests that were let through, for whose answers it is remembered
        self._passed: WeakKeyDictionary[http.HTTPFlow, tuple[str, bytes, _Sent]] = WeakKeyDictionary()

    def is_idle(self, policy: Policy | None) -> bool:
        """Whether no default action blocks, so that nothing gives way."""
        settings = [] if policy is None else [group.settings for group in policy.all_groups]
        return not any(Action.BLOCK in _actions(each.default) for each in settings)

    def follow(self, policy: Policy) -> None:
        """Go by the layers and lists of another policy; pages that it does not allow need nothing any more."""
        self._ways = _ways_of(policy)
        self._sent.clear()

    def judged(self, judgement: Judgement, *, may_warn: bool) -> Judgement:
        """The judgement, or that a page which was sent needs the request."""
        decision, request = judgement.decision, judgement.request
        winner = decision.winner
        if decision.action is not Action.BLOCK or winner is None or type(winner.rule.pattern) is not Anything:
            return judgement
        if not request.fields or request.others or decision.inside or decision.fault is not None:
            return judgement
        needed = self._needed_by(judgement)
        if needed is None or not self._is_free(judgement):
            return judgement
        page, sent = needed
        match = Match(sent.rule, winner.expression, (0, 0), f"{_VIA}{page.decode('ascii', 'replace')}")
        lifted = decision._replace(action=Action.ALLOW, winner=match, matches=(match, *decision.matches))
        return judgement._replace(decision=lifted)

    def _needed_by(self, judgement: Judgement) -> tuple[bytes, _Sent] | None:
        """The page that was sent to the client, and asks for the request; ``None``: no page, or a document itself."""
        pages = self._sent.get(judgement.client.address)
        if not pages:
            return None
        kind = Telling(judgement.request).said_kind
        if kind == "document":
            return None
        for host in _pages_of(judgement):
            sent = pages.get(host)
            if sent is None or monotonic() - sent.moment > LIFE:
                continue
            if kind not in ("subdocument", "object") or sent.has_frames:
                return host, sent
        return None

    def _is_free(self, judgement: Judgement) -> bool:
        """Whether no rule stops the request by any of its names: the default action is not asked of a destination."""
        engine, request = self._runtime.engine, judgement.request
        if engine is None:
            return False
        alone = (replace(request, hosts=(host,), destination=host) for host in request.hosts)
        return all(engine.decide(each, client=judgement.client).action not in STOPPING for each in alone)

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Note a request whose answer may load more."""
        winner = judgement.decision.winner
        if not isinstance(used, http.HTTPFlow) or winner is None or judgement.decision.action is not Action.ALLOW:
            return
        if (winner.via or "").startswith(_VIA):
            needed = self._needed_by(judgement)
            if needed is not None and needed[1].depth < _DEEPEST:
                self._note(used, judgement, needed[1]._replace(depth=needed[1].depth + 1))
        elif way := self._way_of(winner.rule.terms):
            self._note(used, judgement, _Sent(0.0, winner.rule, way == FRAMES, 0))

    def _way_of(self, terms: Terms) -> str | None:
        of_rule = dict(terms.values).get("with")
        return of_rule or self._ways.get((terms.layer, terms.source)) or self._ways.get(terms.layer)

    def _note(self, flow: http.HTTPFlow, judgement: Judgement, sent: _Sent) -> None:
        try:
            self._passed[flow] = judgement.client.address, canonical_host(judgement.request.hosts[0]), sent
        except UrlError:  # it was let through unread
            return

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Remember a page that an origin sends, and what it loads that loads more."""
        noted = self._passed.pop(flow, None)
        if noted is None or flow.response is None or flow.response.status_code >= 400:
            return
        client, host, sent = noted
        form = _LOADS_MORE if sent.depth else _PAGE
        if not form.match(flow.response.headers.get("content-type", "").lower()):
            return
        pages = self._sent.pop(client, {})
        if len(self._sent) >= MOST_CLIENTS:
            del self._sent[next(iter(self._sent))]
        self._sent[client] = pages
        before = pages.pop(host, None)
        if before is not None and before.depth < sent.depth and monotonic() - before.moment <= LIFE:
            pages[host] = before  # it is a page itself
            return
        if len(pages) >= MOST_PAGES:
            del pages[next(iter(pages))]
        pages[host] = sent._replace(moment=monotonic())


def _actions(default: ScheduledAction | None) -> Iterator[Action | None]:
    """What a default action is at some time."""
    for each in () if default is None else default.chain():
        yield from (each.action, each.otherwise)


def _ways_of(policy: Policy) -> dict[str | tuple[str, str], str]:
    ways: dict[str | tuple[str, str], str] = {}
    for layer in policy.layers:
        if (way := layer.values.get("with")) is not None:
            ways[layer.name] = way
        for file in layer.lists:
            if (way := file.values.get("with")) is not None:
                ways[layer.name, file.source] = way
    return ways


def _pages_of(judgement: Judgement) -> Iterator[bytes]:
    """The hosts that a request says it comes from."""
    for name, value in judgement.request.fields:
        if name.lower() in (b"origin", b"referer") and (host := host_of_page(bytes(value))):
            yield host
