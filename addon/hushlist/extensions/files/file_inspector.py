"""Holds downloads against the policy's ``files``, as they flow; hands uploads to ``upload_inspector``.

A download is decided at its head; where a rule is about its content, the head waits until the first octets of the body
are here. What does not tell its length, and grows too large, ends where it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import connection, http

from hushlist.core.decide.decision import Judgement
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.files.checked_files import PATH, CheckedFiles, Place, is_for_file, may_wait
from hushlist.extensions.files.content_coding import CodingError, beginning_of, kinds_of_coded
from hushlist.extensions.files.content_kinds import LONGEST_LOOK, can_tell
from hushlist.extensions.files.file_hashes import FileHasher, hasher_for, listed_match
from hushlist.extensions.files.file_outcome import FileOutcome
from hushlist.extensions.files.file_rules import (
    FileFacts,
    FileRule,
    FileVerdict,
    file_rules_of,
    judge_file,
    kinds_wanted,
)
from hushlist.extensions.files.file_scans import FileScans, scanner_settings
from hushlist.extensions.files.held_upload import Account
from hushlist.extensions.files.member_scanner import BLOCK, NO_MEMBERS, Members, may_have_members
from hushlist.extensions.files.message_facts import codings_of_head, facts_of_download, names_of
from hushlist.extensions.files.safe_look import Looked, SafeLook
from hushlist.extensions.files.unseen_files import match_of_unseen, match_of_unseen_kind, match_of_unseen_members
from hushlist.extensions.files.upload_inspector import UploadInspector
from hushlist.extensions.files.whole_files import (
    TAIL,
    HeldEnd,
    Part,
    Resumed,
    SeenFiles,
    ask_for_whole,
    asks_part,
    open_range_of,
    part_of,
)
from hushlist.proxy import flow_outcome, parts
from hushlist.proxy.bounds.body_looks import look_at_answer
from hushlist.proxy.flow_outcome import HIDDEN, is_open, refuse
from hushlist.proxy.flow_request import SelfConnections, client_of_flow
from hushlist.proxy.runtime import Runtime


class _Download(NamedTuple):
    """A file on its way to a client."""

    flow: http.HTTPFlow
    judgement: Judgement
    #: as far as its head, or more of it, has said
    facts: FileFacts
    codings: str
    #: the part that it is of one, if it is
    part: Part | None
    #: what leaves out the octets that its client has
    resumed: Resumed | None


class FileInspector(parts.Part):
    """Blocks the files of a policy's rules."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        super().__init__(runtime, loops)
        self._runtime = runtime
        #: the judgement of each request that was let through, for whose group there are rules for files
        self._let_through: WeakKeyDictionary[http.HTTPFlow, Judgement] = WeakKeyDictionary()
        self._seen = SeenFiles()
        #: from where on, and of which version, clients have asked for files that are asked for as a whole
        self._resumed: WeakKeyDictionary[http.HTTPFlow, tuple[int, str]] = WeakKeyDictionary()
        self._checked = CheckedFiles(lambda: runtime.template)
        self._outcome = FileOutcome(runtime)
        self._scans = FileScans(self._outcome)
        self._uploads = UploadInspector(runtime, self._outcome, self._scans)

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Remember a request whose files are looked at."""
        if not isinstance(used, http.HTTPFlow) or not file_rules_of(judgement):
            return
        self._let_through[used] = judgement
        self._uploads.passed(used, judgement)

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Refuse an upload that a rule blocks."""
        judgement = self._let_through.get(flow)
        return None if judgement is None else self._uploads.request(flow, judgement)

    def faults(self) -> Iterable[str]:
        """What the scanner failed by, the last time."""
        return self._scans.faults()

    def change(self, flow: http.HTTPFlow, judgement: Judgement) -> bool:
        """Ask for the whole file where a part would say nothing, and the rest was not seen."""
        if (
            not file_rules_of(judgement)
            or judgement.settings.of("ranges") != "whole"
            or judgement.settings.mode == "tag"
            or not asks_part(flow.request, is_beginning_enough=False)
        ):
            return False
        facts = self._seen.of_request(flow) or FileFacts(names=names_of(flow.request, http.Headers()))
        verdict = judge_file(_before_answer(file_rules_of(judgement), facts), facts, datetime.now(UTC))
        if not verdict.is_open or not asks_part(flow.request, is_beginning_enough=not verdict.needs_end):
            return False
        if (open_range := open_range_of(flow.request)) is not None:
            self._resumed[flow] = open_range
        ask_for_whole(flow.request)
        return True

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Have the answer to a request that was let through looked at, if a rule asks for it."""
        judgement, answer = self._let_through.get(flow), flow.response
        if judgement is None or answer is None:
            return
        headers = answer.headers
        facts = facts_of_download(flow.request, headers)
        part = part_of(answer)
        if part is not None and part.first and (seen := self._seen.of_part(flow, part)) is not None:
            facts = facts._replace(kinds=seen.kinds, members=seen.members)
        verdict = judge_file(file_rules_of(judgement), facts, datetime.now(UTC))
        if part is not None and not part.is_whole and self._is_unseen(verdict, part):
            if judgement.settings.of("ranges") == "pass":
                facts = facts._replace(kinds=frozenset({"part"}), listed=(), members=NO_MEMBERS, infection="")
                verdict = judge_file(file_rules_of(judgement), facts, datetime.now(UTC))
            else:
                why = "a part of a file, of which the rest was not seen"
                verdict = FileVerdict(match_of_unseen(judgement, facts, why))
        stops = verdict.match is not None and self._outcome.stops(judgement, verdict.match)
        if stops:
            look_at_answer(flow, lambda *_: True, lambda *_: self._outcome.page(flow, judgement, verdict.match))
            return
        if verdict.match is not None and not verdict.needs_end:
            self._outcome.record(flow, judgement, verdict.match)
        # the page may ask any of the proxies that serve a port together, of which one alone has the file
        waits = verdict.needs_scan and part is None and self._runtime.siblings is None
        waits = waits and may_wait(flow.request, answer, facts.media_types)
        resumed = Resumed.of(answer, self._resumed.pop(flow, None))
        download = _Download(flow, judgement, facts, codings_of_head(headers), part, resumed)
        if judgement.settings.mode == "tag" and verdict.is_open:
            needs_whole = verdict.needs_whole or any(rule.may_look_into(facts) for rule in file_rules_of(judgement))
            self._follow(download, needs_whole=needs_whole, needs_content=verdict.needs_content)
        elif verdict.is_open:
            is_enough = _enough(download, verdict)
            if verdict.needs_scan:
                is_enough = self._enough_to_scan(download, is_enough)
            failure = partial(self._outcome.failure_page, flow, "answer")
            safe = SafeLook(is_enough, partial(self._look, download), failure)
            meanwhile = partial(self._check_meanwhile, flow, judgement) if waits and resumed is None else None
            # a client that has the beginning gets none of it again
            is_slow = verdict.needs_scan and resumed is None
            look_at_answer(flow, safe.is_enough, safe.look, is_slow=is_slow, meanwhile=meanwhile)
        elif verdict.match is None or resumed is not None:
            self._follow(download)

    def _check_meanwhile(
        self, flow: http.HTTPFlow, judgement: Judgement, scan: asyncio.Task[http.Response | None], octets: bytes
    ) -> http.Response | None:
        """The page for somebody who waits for a file that is scanned; ``None``: there is no room for the file."""
        assert flow.response is not None
        answer = flow.response.copy()
        answer.stream, answer.raw_content = False, octets
        page = self._checked.keep(judgement, flow.request.copy(), answer, scan)
        if page is not None:
            self._outcome.waited.add(flow)
        return page

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer whoever waits for a file that is scanned; no origin ever sees an address of such a file."""
        if not is_for_file(flow.request.data.path) or not is_open(flow):
            return None
        flow.metadata[HIDDEN] = True
        return self._hand_out(flow)

    async def _hand_out(self, flow: http.HTTPFlow) -> None:
        """Give a client its file, unless what has asked for it is blocked by now."""
        data, response = flow.request.data, None
        target = data.path.decode("latin-1")
        token = target.removeprefix(f"{PATH}?") if data.method == b"GET" else ""
        try:
            client = client_of_flow(flow)
            place = Place.of(client, flow.request)
            if (before := self._checked.judgement(token, place)) is not None:
                now = self._runtime.judge(before.request, client, goes_on=True)
                now = await self._runtime.confirmed(now, goes_on=True)
                if now is not None and now.stops:
                    self._checked.drop(token)
                    recorded = self._runtime.record(now, flow.request.method, is_live=flow.live)
                    flow_outcome.annotate(flow, recorded)
                    response = self._outcome.respond(flow.request, recorded)
            refuse(flow, lambda request: response or self._checked.take(token, place, request))
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=True)

    @staticmethod
    def _enough_to_scan(download: _Download, is_seen: Callable[[bytes, int], bool]) -> Callable[[bytes, int], bool]:
        """A file is held until its end, if it is not too large, and there is room; and until ``is_seen``."""
        settings, account = scanner_settings(download.judgement), Account(download.flow.client_conn.peername[0])
        is_larger = (download.facts.octets or 0) > settings.largest

        def is_enough(octets: bytes, came: int) -> bool:
            account.set(came)
            return is_seen(octets, came) and (is_larger or came > settings.largest or account.is_full)

        return is_enough

    @staticmethod
    def _is_unseen(verdict: FileVerdict, part: Part) -> bool:
        """Whether a rule would need more of a file than a part that came, or will come."""
        return verdict.needs_end or (verdict.needs_content and (part.first > 0 or part.end < LONGEST_LOOK))

    def _look(self, download: _Download, octets: bytes, is_whole: bool) -> Looked:
        """The page in place of a file of which the first octets are here, or ``None``."""
        _, judgement, facts, codings, *_ = download
        now, unseen = datetime.now(UTC), None
        if facts.kinds is None:
            kinds, why_unseen = kinds_of_coded(octets, codings, is_whole=is_whole)
            if why_unseen and judgement.settings.of("ranges") != "pass":
                unseen = match_of_unseen_kind(judgement, facts, why_unseen)
            facts = facts._replace(kinds=kinds, members=None if _may_have_members(octets, codings) else NO_MEMBERS)
        if is_whole and facts.octets is None:
            facts = facts._replace(octets=len(octets))
        download = download._replace(facts=facts)
        verdict = judge_file(file_rules_of(judgement), facts, now)
        if unseen is not None and not (verdict.match and self._outcome.stops(judgement, verdict.match)):
            verdict = FileVerdict(unseen)
        is_dry = judgement.settings.mode == "tag"
        hasher = None
        if verdict.needs_whole and is_whole and not is_dry:
            hasher = hasher_for(self._runtime.engine, judgement.client, file_rules_of(judgement), codings)
            if not verdict.needs_scan:
                hasher.take(octets)
                download, verdict = self._hashed(download, hasher)
        if verdict.needs_scan and not is_dry and not (verdict.match and self._outcome.stops(judgement, verdict.match)):
            return self._scanned(download, octets, is_whole, hasher)
        return self._looked(download, verdict, is_whole=is_whole)

    def _hashed(self, download: _Download, hasher: FileHasher) -> tuple[_Download, FileVerdict]:
        """What is known of a file by its hashes, and what rules say of it."""
        judgement = download.judgement
        if hasher.why_unseen and judgement.settings.of("ranges") != "pass":
            return download, FileVerdict(match_of_unseen(judgement, download.facts, hasher.why_unseen))
        listed = listed_match(self._runtime.engine, judgement.client, hasher.digests())
        facts = download.facts._replace(listed=listed, members=hasher.members())
        verdict = judge_file(file_rules_of(judgement), facts, datetime.now(UTC))
        if not (verdict.match and self._outcome.stops(judgement, verdict.match)):
            unseen = match_of_unseen_members(judgement, facts)
            verdict = verdict if unseen is None else FileVerdict(unseen)
        return download._replace(facts=facts), verdict

    def _looked(self, download: _Download, verdict: FileVerdict, *, is_whole: bool) -> http.Response | None:
        """What becomes of a file by what was seen of it."""
        flow, judgement, facts, _, part, _ = download
        if verdict.match is not None and self._outcome.stops(judgement, verdict.match):
            return self._outcome.page(flow, judgement, verdict.match)
        if verdict.match is not None:
            self._outcome.record(flow, judgement, verdict.match)
        if facts.kinds is not None and (part is None or not part.first) and flow not in self._outcome.waited:
            self._seen.note(flow, facts, part)
        if (not is_whole or download.resumed) and judgement.settings.mode != "tag":
            self._follow(download, needs_whole=verdict.needs_whole)
        return None

    async def _scanned(
        self, download: _Download, octets: bytes, is_whole: bool, hasher: FileHasher | None
    ) -> http.Response | None:
        """The page in place of a file that is scanned first, or ``None``; ``hasher``: where its hashes count."""
        if hasher is not None:
            await asyncio.to_thread(hasher.take, octets)
            download, verdict = self._hashed(download, hasher)
            if not verdict.needs_scan or (verdict.match and self._outcome.stops(download.judgement, verdict.match)):
                return self._looked(download, verdict, is_whole=is_whole)
        flow, judgement, facts, codings, *_ = download
        assert flow.response is not None
        answer = flow.response.copy()
        infection = await self._scans.infection(flow, judgement, facts, octets if is_whole else None, codings, answer)
        if isinstance(infection, Match):
            return self._outcome.page(flow, judgement, infection)
        facts = facts._replace(infection=infection)
        verdict = judge_file(file_rules_of(judgement), facts, datetime.now(UTC))
        return self._looked(download._replace(facts=facts), verdict, is_whole=is_whole)

    def is_idle(self, *, is_needed: bool) -> bool:
        """Whether there is nothing to do with requests; not once there were addresses that no origin may see."""
        return super().is_idle(is_needed=is_needed) and not self._checked.was_used

    def follow(self, policy: Policy) -> None:
        """The policy is in use from now on; without waiting."""
        self._scans.forget()
        self._checked.forget()

    def _follow(self, download: _Download, *, needs_whole: bool = False, needs_content: bool = False) -> None:
        """Look at a file as it flows: at its size, at all of it, and in a dry run at its beginning, too."""
        flow, judgement, facts, codings, *_ = download
        assert flow.response is not None
        steps: list[Callable[[bytes], bytes]] = []
        if facts.octets is None and (bound := _bound(judgement)) is not None:
            steps.append(partial(self._count, flow, judgement, facts, [0], bound))
        if needs_whole:
            hasher = hasher_for(self._runtime.engine, judgement.client, file_rules_of(judgement), codings)
            tail = 0 if judgement.settings.mode == "tag" else TAIL
            steps.append(HeldEnd(partial(self._ends, download, hasher), partial(self._passes, download, hasher), tail))
        if needs_content:
            steps.append(_Beginning(partial(self._look, download)))
        if download.resumed is not None:
            steps.append(download.resumed)
        if steps:
            flow.response.stream = partial(self._go_through, flow, steps)

    def _go_through(self, flow: http.HTTPFlow, steps: list[Callable[[bytes], bytes]], octets: bytes) -> bytes:
        """What steps leave of the next octets; if one fails, the file ends here, or passes by ``on-failure``."""
        try:
            return _through(steps, octets)
        except Exception as error:
            is_part = any(isinstance(step, Resumed) for step in steps)
            if self._runtime.failure_policy.lets_pass(error, "answer") and not is_part:
                waiting = b"".join(step.waiting for step in steps if isinstance(step, HeldEnd))
                steps.clear()
                return waiting + octets
        steps[:] = [lambda _: b""]
        if flow.killable:
            flow.kill()
        return b""

    def _passes(self, download: _Download, hasher: FileHasher) -> bool:
        """Whether a file of which all has come may end."""
        flow, judgement, facts, *_ = download
        match: Match | None = None
        listed, members = listed_match(self._runtime.engine, judgement.client, hasher.digests()), hasher.members()
        if listed or members != NO_MEMBERS:
            match = self._match_of_rest(download, listed, members)
        if match is None and hasher.why_unseen and judgement.settings.of("ranges") != "pass":
            match = match_of_unseen(judgement, facts, hasher.why_unseen)
        match = match or match_of_unseen_members(judgement, facts._replace(listed=listed, members=members))
        if match is None or self._outcome.record(flow, judgement, match) is None:
            return True
        if flow.killable:
            flow.kill()
        return False

    def _ends(self, download: _Download, hasher: FileHasher, octets: bytes) -> bool:
        """Whether a file ends before these octets, by the members that are in them or before them."""
        flow, judgement, *_ = download
        hasher.take(octets)
        if judgement.settings.mode == "tag" or not hasher.has_news():
            return False
        match = self._match_of_rest(download, (), hasher.members(is_end=False))
        if match is None or not self._outcome.stops(judgement, match):
            return False
        self._outcome.record(flow, judgement, match)
        if flow.killable:
            flow.kill()
        return True

    def _match_of_rest(self, download: _Download, listed: tuple[Match, ...], members: Members) -> Match | None:
        """The rule that decides by what was seen behind the beginning of a file, if it has not decided before."""
        rules, now, facts = file_rules_of(download.judgement), datetime.now(UTC), download.facts
        facts = facts._replace(kinds=facts.kinds or frozenset())
        match = judge_file(rules, facts._replace(listed=listed, members=members), now).match
        before = judge_file(rules, facts, now).match
        return None if match is not None and before is not None and match.rule == before.rule else match

    def _count(
        self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts, counted: list[int], bound: int, octets: bytes
    ) -> bytes:
        """The next octets of a file that does not tell its length; none, and its end, once it is too large."""
        counted[0] += len(octets)
        if counted[0] <= bound or not octets:
            return octets
        match = judge_file(file_rules_of(judgement), facts._replace(octets=counted[0]), datetime.now(UTC)).match
        if match is None or not self._outcome.stops(judgement, match):
            return octets
        if flow.killable:
            self._outcome.record(flow, judgement, match)
            flow.kill()
        return b""


def _may_have_members(octets: bytes, codings: str) -> bool:
    """Whether a file that begins so may be an archive: as it is sent, or without its coding."""
    try:
        beginning = beginning_of(octets, codings, LONGEST_LOOK) or b""
    except CodingError:
        return True
    return may_have_members(octets) or may_have_members(beginning)


def _bound(judgement: Judgement) -> int | None:
    """The least size that a rule for downloads is about."""
    return min((rule.larger_than for rule in file_rules_of(judgement) if rule.larger_than is not None), default=None)


class _Beginning:
    """Looks at the beginning of a body that goes on meanwhile, for a dry run."""

    def __init__(self, look: Callable[[bytes, bool], object]) -> None:
        self._look: Callable[[bytes, bool], object] | None = look
        self._octets = b""

    def __call__(self, octets: bytes) -> bytes:
        """The next octets of the body; none at its end."""
        if self._look is not None:
            self._octets += octets[:LONGEST_LOOK]
            if not octets or len(self._octets) >= LONGEST_LOOK:
                look, self._look = self._look, None
                look(self._octets, not octets)
        return octets


def _enough(download: _Download, verdict: FileVerdict) -> Callable[[bytes, int], bool]:
    """Whether the first octets of a body tell whether it is of a kind that a rule is about."""
    rules, codings = file_rules_of(download.judgement), download.codings
    kinds, sees_members = kinds_wanted(rules), any(rule.may_look_into(download.facts) for rule in rules)
    needed = TAIL + 1 if verdict.needs_whole else BLOCK if sees_members else 0

    def is_enough(octets: bytes, came: int) -> bool:
        # a short archive is seen as a whole
        if sees_members and needed <= came <= TAIL and may_have_members(octets[:BLOCK]):
            return False
        if came < needed or not verdict.needs_content:
            return came >= needed
        return can_tell(octets, kinds) if not codings else came >= LONGEST_LOOK

    return is_enough


def _through(steps: Sequence[Callable[[bytes], bytes]], octets: bytes) -> bytes:
    """What several steps leave of the next octets of a body; none: it has ended."""
    has_ended = not octets
    for step in steps:
        octets = step(octets)
        if not octets and not has_ended:
            break
    return octets


def _before_answer(rules: Sequence[FileRule], facts: FileFacts) -> list[FileRule]:
    """Rules that say nothing of types and sizes as long as no answer has said them."""
    rules = [rule if facts.media_types else replace(rule, types=frozenset()) for rule in rules]
    return [replace(rule, larger_than=None) if facts.octets is None else rule for rule in rules]
