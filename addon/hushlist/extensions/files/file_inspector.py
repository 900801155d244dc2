"""Holds answers and uploads against the policy's ``files``, as they flow.

An upload is decided at its head, before an octet of it goes on. A download is decided at its head; where a rule is
about its content, the head waits until the first octets of the body are here. What does not tell its length, and grows
too large, ends where it does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import Decision, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.extensions.files.content_coding import beginning_of
from hushlist.extensions.files.content_kinds import KINDS, LONGEST_LOOK, can_tell, kinds_of
from hushlist.extensions.files.file_names import name_of_target, names_of_disposition
from hushlist.extensions.files.file_rules import FileFacts, FileRule, judge_file
from hushlist.proxy import flow_outcome
from hushlist.proxy.bounds.flowing_bodies import look_at_answer
from hushlist.proxy.flow_outcome import refuse
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.parts import Part
from hushlist.proxy.request_handler import stopped_response
from hushlist.proxy.runtime import Runtime


class FileInspector(Part):
    """Blocks the files of a policy's rules."""

    key = "files"

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        super().__init__(runtime, loops)
        self._runtime = runtime
        #: the judgement of each request that was let through, for whose group there are rules for files
        self._let_through: WeakKeyDictionary[http.HTTPFlow, Judgement] = WeakKeyDictionary()

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Remember a request whose files are looked at."""
        if isinstance(used, http.HTTPFlow) and judgement.settings.of("files"):
            self._let_through[used] = judgement

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Refuse an upload that a rule blocks."""
        judgement = self._let_through.get(flow)
        if judgement is None or not _has_body(flow.request):
            return None
        headers = flow.request.headers
        facts = FileFacts(
            is_upload=True,
            media_type=_media_type(headers),
            names=_names(flow.request, headers),
            octets=_length(headers),
        )
        match = judge_file(_rules(judgement), facts, datetime.now(UTC)).match
        if match is not None and (recorded := self._record(flow, judgement, match)) is not None:
            refuse(flow, lambda request: stopped_response(self._runtime, request, recorded, None))
        return None

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Have the answer to a request that was let through looked at, if a rule asks for it."""
        judgement, answer = self._let_through.get(flow), flow.response
        if judgement is None or answer is None:
            return
        headers = answer.headers
        facts = FileFacts(False, _media_type(headers), _names(flow.request, headers), _length(headers))
        verdict = judge_file(_rules(judgement), facts, datetime.now(UTC))
        if verdict.needs_content:
            codings = _codings(headers)
            facts = facts._replace(kinds=frozenset({"part"})) if _is_inner_part(answer) else facts
            look = partial(self._look, flow, judgement, facts, codings)
            if judgement.settings.mode == "tag":
                answer.stream = _Beginning(look, answer.stream)
            else:
                look_at_answer(flow, _enough(judgement, codings), look)
        elif verdict.match is not None and self._stops(judgement, verdict.match):
            look_at_answer(flow, lambda _: True, lambda octets, is_whole: self._page(flow, judgement, verdict.match))
        elif verdict.match is not None:
            self._record(flow, judgement, verdict.match)
        elif facts.octets is None and (bound := _bound(judgement)) is not None:
            answer.stream = partial(self._count, flow, judgement, facts, [0], bound)

    def _look(
        self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts, codings: str, octets: bytes, is_whole: bool
    ) -> http.Response | None:
        """The page in place of a file of which the first octets are here, or ``None``."""
        if facts.kinds is None:
            beginning = beginning_of(octets, codings, LONGEST_LOOK)
            # where hardly anything is in the first octets of what is coded, the file is behind them
            if beginning is None or (codings and not is_whole and len(beginning) < LONGEST_LOOK // 2):
                facts = facts._replace(kinds=frozenset({"unknown"}))
            else:
                facts = facts._replace(kinds=kinds_of(beginning))
        if is_whole and facts.octets is None:
            facts = facts._replace(octets=len(octets))
        match = judge_file(_rules(judgement), facts, datetime.now(UTC)).match
        if match is not None:
            return self._page(flow, judgement, match)
        if facts.octets is None and (bound := _bound(judgement)) is not None and flow.response is not None:
            flow.response.stream = partial(self._count, flow, judgement, facts, [0], bound)
        return None

    def _count(
        self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts, counted: list[int], bound: int, octets: bytes
    ) -> bytes:
        """The next octets of a file that does not tell its length; none, and its end, once it is too large."""
        counted[0] += len(octets)
        if counted[0] <= bound or not octets:
            return octets
        match = judge_file(_rules(judgement), facts._replace(octets=counted[0]), datetime.now(UTC)).match
        if match is None or not self._stops(judgement, match):
            return octets
        if flow.killable:
            self._record(flow, judgement, match)
            flow.kill()
        return b""

    @staticmethod
    def _stops(judgement: Judgement, match: Match) -> bool:
        return judgement.settings.mode == "block" and match.rule.terms.action is Action.BLOCK

    def _page(self, flow: http.HTTPFlow, judgement: Judgement, match: Match | None) -> http.Response | None:
        """The page in place of a file, and the line in the log; ``None`` if it passes."""
        if match is None:
            return None
        recorded = self._record(flow, judgement, match)
        return None if recorded is None else stopped_response(self._runtime, flow.request, recorded, None)

    def _record(self, flow: http.HTTPFlow, judgement: Judgement, match: Match) -> Judgement | None:
        """Log what a rule has decided; the judgement if it stops the file."""
        action = match.rule.terms.action
        if action is Action.ALLOW:
            return None
        before = judgement.decision
        decision = Decision(action, before.url, (match, *before.matches), match, group=before.group)
        recorded = self._runtime.record(judgement._replace(decision=decision), flow.request.method, is_live=flow.live)
        flow_outcome.annotate(flow, recorded)
        return recorded if recorded.stops else None


def _rules(judgement: Judgement) -> tuple[FileRule, ...]:
    rules: tuple[FileRule, ...] = judgement.settings.of("files")
    return rules


def _bound(judgement: Judgement) -> int | None:
    """The least size that a rule for downloads is about."""
    return min((rule.larger_than for rule in _rules(judgement) if rule.larger_than is not None), default=None)


class _Beginning:
    """Looks at the beginning of a body that goes on meanwhile, for a dry run."""

    def __init__(self, look: Callable[[bytes, bool], object], before: bool | Callable[[bytes], Any]) -> None:
        self._look: Callable[[bytes, bool], object] | None = look
        self._before, self._octets = before, b""

    def __call__(self, octets: bytes) -> Any:
        """The next octets of the body; none at its end."""
        if self._look is not None:
            self._octets += octets[:LONGEST_LOOK]
            if not octets or len(self._octets) >= LONGEST_LOOK:
                look, self._look = self._look, None
                look(self._octets, not octets)
        return self._before(octets) if callable(self._before) else octets


def _enough(judgement: Judgement, codings: str) -> Callable[[bytes], bool]:
    """Whether the first octets of a body tell whether it is of a kind that a rule is about."""
    rules = [rule for rule in _rules(judgement) if rule.needs_content]
    kinds = KINDS.keys() if any(rule.disguised for rule in rules) else {kind for rule in rules for kind in rule.content}
    return lambda octets: can_tell(octets, kinds) if not codings else len(octets) >= LONGEST_LOOK


def _codings(headers: http.Headers) -> str:
    """The codings of a body, but that of its transfer in chunks, with commas between them.

    Spec: RFC 9110, 8.4; RFC 9112, 7
    """
    named = (*headers.get_all("content-encoding"), *headers.get_all("transfer-encoding"))
    codings = (coding.strip().lower() for each in named for coding in each.split(","))
    return ",".join(coding for coding in codings if coding not in ("", "chunked", "identity"))


def _has_body(request: http.Request) -> bool:
    headers = request.headers
    return bool(request.raw_content or request.stream) or "transfer-encoding" in headers or bool(_length(headers))


def _names(request: http.Request, headers: http.Headers) -> tuple[str, ...]:
    names = (*names_of_disposition(headers.get_all("content-disposition")), name_of_target(request.data.path))
    return tuple(filter(None, names))


def _media_type(headers: http.Headers) -> str:
    header: str = headers.get("content-type", "")
    return header.partition(";")[0].partition(",")[0].strip().lower()


def _length(headers: http.Headers) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _is_inner_part(answer: http.Response) -> bool:
    """Whether an answer has a part of a file that is not its beginning, or several.

    Spec: RFC 9110, 14.4
    """
    if answer.status_code != 206:
        return False
    said = answer.headers.get("content-range", "").strip().lower()
    return not said.removeprefix("bytes").strip().startswith("0-")
