"""Lets through what pages load that were allowed, and sent to the same client a while ago.

For the pages of a layer or a list with ``with``, only the default action gives way: what a list, a check or a person
blocks stays blocked. For those of a site that somebody has unblocked with what it loads, what lists stop gives way,
too, as it does for the site itself: no check, no quota, and nothing that an administrator blocks. A document never
passes so, and a client cannot make up a page that it did not get.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import monotonic, time
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.errors import UrlError
from hushlist.core.match.checks import Check
from hushlist.core.match.context import Telling, host_of_page
from hushlist.core.match.rule import Action, Anything, Ordered, Rule, TimeLimit
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.request import canonical_host
from hushlist.extensions.needs.ways import FRAMES
from hushlist.extensions.unblock import SITE
from hushlist.extensions.unblock.grants import Grant
from hushlist.extensions.unblock.unblock_handler import UnblockHandler
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


#: a client as the policy knows it: its names, and its group
_Asker = tuple[tuple[str, ...], str | None]


class _Sent(NamedTuple):
    """A page that was sent, or what it has loaded that loads more."""

    moment: float
    #: the rule that allows it, unless a grant does
    rule: Rule | None
    #: whether frames in it pass; how many loads lie between it and the page
    has_frames: bool
    depth: int
    #: by which it loads what lists stop
    grant: Grant | None = None


class PageNeeds(Part):
    """Remembers the pages that were sent, and lets through what they need; only the event loop uses it."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: by layer, and by layer and source of a list; those of rules are in their terms
        self._ways: dict[str | tuple[str, str], str] = {}
        #: client -> canonical host -> what was sent from there
        self._sent: LatestEntries[_Asker, LatestEntries[bytes, _Sent]] = LatestEntries(MOST_CLIENTS)
        #: requests that were let through, for whose answers it is remembered
        self._passed: WeakKeyDictionary[http.HTTPFlow, tuple[_Asker, bytes, _Sent]] = WeakKeyDictionary()
        #: has the sites that are unblocked with what they load, which somebody may do at any time
        self._unblocks: UnblockHandler | None = None

    def follow(self, policy: Policy) -> None:
        """Go by the layers and lists of another policy; pages that it does not allow need nothing any more."""
        self._ways, self._unblocks = _ways_of(policy), self._runtime.part(UnblockHandler)
        self._sent.clear()

    def judged(self, judgement: Judgement, *, may_warn: bool) -> Judgement:
        """The judgement, or that a page which was sent needs the request."""
        decision, request = judgement.decision, judgement.request
        winner = decision.winner
        if decision.action not in STOPPING or winner is None or not self._sent:
            return judgement
        if not request.fields or request.others or decision.inside or decision.fault is not None:
            return judgement
        needed = self._needed_by(judgement)
        if needed is None:
            return judgement
        page, sent = needed
        if sent.grant is not None:
            return self._granted(judgement, page, sent.grant)
        if decision.action is not Action.BLOCK or type(winner.rule.pattern) is not Anything or sent.rule is None:
            return judgement
        if not self._is_free(judgement):
            return judgement
        match = Match(sent.rule, winner.expression, (0, 0), f"{_VIA}{page.decode('ascii', 'replace')}")
        lifted = decision._replace(action=Action.ALLOW, winner=match, matches=(match, *decision.matches))
        return judgement._replace(decision=lifted)

    def _granted(self, judgement: Judgement, page: bytes, grant: Grant) -> Judgement:
        """The judgement, or that the grant of a page's site covers what it loads."""
        decision = judgement.decision
        stopping = [match.rule for match in decision.matches if match.rule.terms.action in STOPPING]
        is_firm = any(isinstance(rule.pattern, Check | Ordered | TimeLimit) for rule in stopping)
        if is_firm or self._grant_of(judgement, page) != grant:
            return judgement
        return judgement._replace(decision=decision._replace(action=Action.ALLOW, grant=grant))

    def _grant_of(self, judgement: Judgement, host: bytes) -> Grant | None:
        """The grant by which a client has a site with what it loads."""
        overrides = None if self._unblocks is None else self._unblocks.overrides
        if overrides is None:
            return None
        names = (*judgement.client.names, f"group:{judgement.decision.group}")
        return overrides.site_of(names, host, time())

    def _needed_by(self, judgement: Judgement) -> tuple[bytes, _Sent] | None:
        """The page that was sent to the client, and asks for the request; ``None``: no page, or a document itself."""
        pages = self._sent.get(_asker_of(judgement))
        if not pages:
            return None
        kind = Telling(judgement.request).said_kind
        if kind == "document":
            return None
        for host in _pages_of(judgement):
            sent = pages.get(host)
            if sent is None or monotonic() - sent.moment > LIFE:
                continue
            if (kind not in ("subdocument", "object") or sent.has_frames) and self._still_counts(sent, judgement):
                return host, sent
        return None

    def _still_counts(self, sent: _Sent, judgement: Judgement) -> bool:
        """Whether the rule that allows a page is for the client now: its schedule may have ended since."""
        engine = self._runtime.engine
        return sent.rule is None or (engine is not None and engine.view(judgement.client).counts(sent.rule.terms))

    def _is_free(self, judgement: Judgement) -> bool:
        """Whether no rule stops the request by any of its names: the default action is not asked of a destination."""
        engine, request = self._runtime.engine, judgement.request
        if engine is None:
            return False
        alone = (request._replace(hosts=(host,), destination=host) for host in request.hosts)
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
        winner, by = judgement.decision.winner, judgement.decision.grant
        if winner is None and not (self._unblocks and self._unblocks.overrides and self._unblocks.overrides.has_sites):
            return  # most requests
        if not isinstance(used, http.HTTPFlow) or judgement.decision.action in STOPPING:
            return
        if (grant := self._grant_of(judgement, judgement.host or b"")) is not None:
            self._note(used, judgement, _Sent(0.0, None, has_frames=False, depth=0, grant=grant))
            return
        is_needed = winner is not None and (winner.via or "").startswith(_VIA)
        if is_needed or (isinstance(by, Grant) and by.scope == SITE):
            needed = self._needed_by(judgement)
            if needed is not None and needed[1].depth < _DEEPEST:
                self._note(used, judgement, needed[1]._replace(depth=needed[1].depth + 1))
        elif winner is not None and judgement.decision.action is Action.ALLOW and (way := self._way_of(winner)):
            self._note(used, judgement, _Sent(0.0, winner.rule, way == FRAMES, 0))

    def _way_of(self, winner: Match) -> str | None:
        terms = winner.rule.terms
        of_rule = dict(terms.values).get("with")
        return of_rule or self._ways.get((terms.layer, terms.source)) or self._ways.get(terms.layer)

    def _note(self, flow: http.HTTPFlow, judgement: Judgement, sent: _Sent) -> None:
        try:
            self._passed[flow] = _asker_of(judgement), canonical_host(judgement.request.hosts[0]), sent
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
        self._sent[client] = pages = self._sent.get(client) or LatestEntries(MOST_PAGES)
        before = pages.pop(host, None)
        if before is not None and before.depth < sent.depth and monotonic() - before.moment <= LIFE:
            pages[host] = before  # it is a page itself
            return
        pages[host] = sent._replace(moment=monotonic())


def _asker_of(judgement: Judgement) -> _Asker:
    return judgement.client.names, judgement.decision.group


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
