"""Changes the heads of requests and answers by the policy's ``heads`` and by filters of lists.

A dry run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.policy.part_needs import has_value
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.header_names import as_read
from hushlist.extensions.files.file_names import name_of_target
from hushlist.extensions.files.file_outcome import FileOutcome
from hushlist.extensions.files.file_rules import FileFacts
from hushlist.extensions.files.upload_look import media_types_of
from hushlist.extensions.heads.cookies import changed_cookies
from hushlist.extensions.heads.head_rules import HeadRule
from hushlist.extensions.heads.listed_heads import listed_rules
from hushlist.proxy import parts
from hushlist.proxy.bounds.body_looks import look_at_answer
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.runtime import Runtime

#: key of a flow's metadata: what was changed, by which lines of the policy
CHANGED = "hushlist_heads"


class HeadChanges(parts.Part):
    """Carries out the rules of a policy's ``heads``, and before these what filters of its lists say of heads."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        super().__init__(runtime, loops)
        self._outcome, self._has_rules = FileOutcome(runtime), False
        #: the judgement of each request that was let through, and the rules that may be about its answer
        self._let_through: WeakKeyDictionary[http.HTTPFlow, tuple[Judgement, tuple[HeadRule, ...]]] = (
            WeakKeyDictionary()
        )

    def follow(self, policy: Policy) -> None:
        """Know whether the policy has rules of its own."""
        self._has_rules = has_value(policy, ("heads",))

    def change(self, flow: http.HTTPFlow, judgement: Judgement) -> bool:
        """Change the head of a request that is let through."""
        if not (self._has_rules or judgement.decision.matches) or judgement.settings.mode == "tag":
            return False
        return sum(_change(flow, flow.request, rule) for rule in _fitting(judgement, "request")) > 0

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Remember a request whose answer rules may be about."""
        if not (self._has_rules or judgement.decision.matches or self._let_through):
            return
        if isinstance(used, http.HTTPFlow) and (rules := tuple(_fitting(judgement, "answer"))):
            self._let_through[used] = judgement, rules
        elif isinstance(used, http.HTTPFlow):
            self._let_through.pop(used, None)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Block the answer to a request that was let through, or change its head."""
        answer = flow.response
        if answer is None or flow not in self._let_through:
            return
        judgement, rules = self._let_through[flow]
        media_types = media_types_of(answer.headers.get_all("content-type"))
        fields = answer.headers.fields
        fitting = [rule for rule in rules if rule.fits_answer(answer.status_code, media_types, fields)]
        for rule in fitting:
            if rule.blocks and (page := self._page(flow, judgement, rule, media_types)) is not None:
                look_at_answer(flow, lambda *_: True, lambda *_, page=page: page)
                return
        for rule in fitting:
            if judgement.settings.mode != "tag":
                _change(flow, answer, rule)

    def _page(
        self, flow: http.HTTPFlow, judgement: Judgement, rule: HeadRule, media_types: tuple[str, ...]
    ) -> http.Response | None:
        """The page in place of an answer, and the line in the log; ``None`` in a dry run."""
        assert flow.response is not None
        seen = FileFacts(media_types=media_types, names=(name_of_target(flow.request.data.path),)).seen
        match = rule.match(f"{flow.response.status_code} {', '.join(media_types)}".strip())._replace(file=seen)
        return self._outcome.page(flow, judgement, match)


def _fitting(judgement: Judgement, way: str) -> Iterable[HeadRule]:
    now = datetime.now(UTC)
    rules = (*listed_rules(judgement.decision), *judgement.settings.of("heads"))
    return (rule for rule in rules if rule.way == way and rule.fits_request(judgement, now))


def _change(flow: http.HTTPFlow, message: http.Message, rule: HeadRule) -> bool:
    """Take out, replace and add fields; whether that has changed anything."""
    before = message.headers.fields
    if rule.cookies is not None:
        message.headers.fields = tuple(changed_cookies(before, rule.cookies, rule.spared))
    gone = rule.remove | {as_read(name.lower().encode()) for name, _ in rule.set}
    kept = tuple(pair for pair in message.headers.fields if as_read(pair[0].lower()) not in gone)
    first, more = (
        tuple((name.encode(), value.encode()) for name, value in pairs) for pairs in (rule.before, rule.set + rule.add)
    )
    message.headers.fields = first + kept + more
    if message.headers.fields == before:
        return False
    flow.metadata[CHANGED] = f"{flow.metadata.get(CHANGED, '')} {rule.source}:{rule.line}".strip()
    return True
