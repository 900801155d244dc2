"""Holds answers and uploads against the policy's ``files``, as they flow.

An upload is decided at its head, before an octet of it goes on. A download is decided at its head; where a rule is
about its content, the head waits until the first octets of the body are here. What does not tell its length, and grows
too large, ends where it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import connection, http
from mitmproxy.net.http import http1

from hushlist.core.decide.decision import STOPPING, Decision, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.files.checked_files import PATH, CheckedFiles, Place, is_for_file, may_wait
from hushlist.extensions.files.content_coding import CodingError, Decoder, beginning_of, codings_of, kinds_of_coded
from hushlist.extensions.files.content_kinds import LONGEST_LOOK, can_tell
from hushlist.extensions.files.file_hashes import FileHasher, algorithms_for, listed_match
from hushlist.extensions.files.file_names import name_of_target, names_of_disposition
from hushlist.extensions.files.file_rules import (
    FileFacts,
    FileRule,
    FileVerdict,
    endings_wanted,
    judge_file,
    kinds_wanted,
    rules_about,
)
from hushlist.extensions.files.held_upload import TOO_LONG, Account, HeldUpload, UploadSettings
from hushlist.extensions.files.member_scanner import BLOCK, NO_MEMBERS, Members, may_have_members
from hushlist.extensions.files.multipart import MultipartError
from hushlist.extensions.files.safe_look import Looked, SafeLook
from hushlist.extensions.files.scanner import ScanError, Scanned, Scanner, ScannerSettings
from hushlist.extensions.files.upload_look import Hashing, UploadLook, contents_of, is_form, media_types_of
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
from hushlist.proxy.bounds.flowing_bodies import is_done_for, look_at_answer, look_at_upload
from hushlist.proxy.flow_outcome import HIDDEN, is_open, refuse
from hushlist.proxy.flow_request import SelfConnections, client_of_flow
from hushlist.proxy.page import block_response
from hushlist.proxy.request_handler import stopped_response
from hushlist.proxy.runtime import Runtime

#: octets of a coded body that are decoded in one turn of a thread
_DECODED_AT_ONCE = 1 << 18


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

    key = "files"

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        super().__init__(runtime, loops)
        self._runtime = runtime
        #: the judgement of each request that was let through, for whose group there are rules for files
        self._let_through: WeakKeyDictionary[http.HTTPFlow, Judgement] = WeakKeyDictionary()
        self._seen = SeenFiles()
        #: from where on, and of which version, clients have asked for files that are asked for as a whole
        self._resumed: WeakKeyDictionary[http.HTTPFlow, tuple[int, str]] = WeakKeyDictionary()
        self._checked = CheckedFiles(lambda: runtime.template)
        #: flows that have ended with a page, though the scan of their file goes on
        self._waited: WeakSet[http.HTTPFlow] = WeakSet()
        self._scanners: dict[ScannerSettings, Scanner] = {}
        #: why the scanner has not said what the last file was
        self._fault = ""
        #: uploads that are looked at
        self._uploads: WeakKeyDictionary[http.HTTPFlow, HeldUpload] = WeakKeyDictionary()

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """Remember a request whose files are looked at."""
        if not isinstance(used, http.HTTPFlow) or not _rules(judgement):
            return
        self._let_through[used] = judgement
        is_first = used not in self._uploads and used.request.raw_content is None
        if is_first and used.request.stream and (held := self._held_upload(used, judgement)) is not None:
            self._uploads[used] = held
            look_at_upload(used, held)

    def _held_upload(self, flow: http.HTTPFlow, judgement: Judgement) -> HeldUpload | None:
        """What looks at an upload, if rules are about more than its head says."""
        now = datetime.now(UTC)
        rules = [rule for rule in _rules(judgement) if rule.applies(is_upload=True, now=now)]
        headers = flow.request.headers
        facts = self._facts_of_upload(flow.request)
        verdict, hashing = judge_file(rules, facts, now), None
        if any(rule.listed or rule.members for rule in rules):
            hashing = Hashing(
                partial(self._hasher, judgement, rules),
                partial(self._listed, judgement),
                lambda facts: judge_file(rules, facts, now).needs_whole,
            )
        look = UploadLook(
            rules,
            lambda facts: judge_file(rules, facts, now).match,
            facts,
            _codings(headers),
            headers.get_all("content-type"),
            hashing,
            waits_for_end=verdict.needs_scan or (any(rule.infected for rule in rules)),
        )
        settings = _upload_settings(judgement)
        if look.is_form:
            needs_look = any(
                rule.needs_content or rule.endings or rule.types or rule.listed or rule.infected for rule in rules
            )
        else:
            needs_look = verdict.is_open
        if not needs_look:
            return None
        is_long = (look.is_form or verdict.needs_end) and (facts.octets or 0) > settings.hold
        if is_long and settings.blocks_unseen and not look.why_unseen:
            look.give_up(TOO_LONG)
        return HeldUpload(
            look,
            settings,
            partial(self._refuse_rest, flow, judgement),
            partial(self._failed, flow, "request"),
            flow.client_conn.peername[0],
            waits=judgement.settings.mode != "tag",
        )

    def _facts_of_upload(self, request: http.Request) -> FileFacts:
        headers = request.headers
        kinds = frozenset[str]() if is_form(headers.get_all("content-type")) else None
        return FileFacts(True, _media_types(headers), _names(request, headers), _length(headers), kinds)

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Refuse an upload that a rule blocks."""
        judgement = self._let_through.get(flow)
        if judgement is None or not _has_body(flow.request):
            return None
        facts, now = self._facts_of_upload(flow.request), datetime.now(UTC)
        match = judge_file(_rules(judgement), facts, now).match
        if match is None or match.rule.terms.action not in STOPPING:
            held = self._uploads.get(flow)
            if held is None and (held := self._held_upload(flow, judgement)) is not None:
                held.take(flow.request.raw_content or b"", True)
            if held is not None and (page := held.failure) is not None:
                refuse(flow, lambda _: page)
                return None
            match = match if held is None else self._said_of(held, judgement) or match
        self._refuse(flow, judgement, match)
        needs_scan = any(rule.infected and rule.applies(is_upload=True, now=now) for rule in _rules(judgement))
        if flow.response is None and needs_scan and judgement.settings.mode == "block":
            return self._scan_upload(flow, judgement, facts)
        return None

    def _failed(self, flow: http.HTTPFlow, what: str, error: Exception) -> http.Response | None:
        """The page in place of a file that could not be looked at, unless it passes by the policy's ``on-failure``."""
        passes = self._runtime.failure_policy.lets_pass(error, what)
        return None if passes else block_response.failure(flow.request)

    def _refuse(self, flow: http.HTTPFlow, judgement: Judgement, match: Match | None) -> None:
        if match is not None and (recorded := self._record(flow, judgement, match)) is not None:
            refuse(flow, lambda request: self._respond(request, recorded))

    async def _scan_upload(self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts) -> None:
        """Have an upload scanned as long as its client is there, without whom it goes nowhere."""
        if not await is_done_for(flow, self._refuse_infected(flow, judgement, facts)):
            refuse(flow, block_response.failure)

    async def _refuse_infected(self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts) -> None:
        """Refuse an upload in which the scanner finds something: in all of it, and in each part of a form."""
        now, request = datetime.now(UTC), flow.request
        bodies = [request.raw_content] if request.raw_content is not None else [None]
        codings, content_types = _codings(request.headers), request.headers.get_all("content-type")
        if bodies[0] is not None and facts.kinds is not None:
            settings, account = _upload_settings(judgement), Account(flow.client_conn.peername[0])
            with suppress(CodingError, MultipartError):
                plain = await decoded(bodies[0], codings, settings.hold, account)
                if plain is not None:
                    parts = await asyncio.to_thread(contents_of, content_types, plain)
                    bodies, codings = [plain, *(content for _, content in parts)], ""
                elif settings.blocks_unseen:
                    self._refuse(flow, judgement, _unseen(judgement, facts, TOO_LONG))
                    return
        for body in bodies:
            infection = await self._infection(flow, judgement, facts, body, codings)
            if isinstance(infection, Match):
                match: Match | None = infection
            else:
                seen = facts._replace(
                    kinds=facts.kinds or frozenset(), listed=(), members=NO_MEMBERS, infection=infection
                )
                rules = [rule for rule in _rules(judgement) if rule.infected]
                match = judge_file(rules, seen, now).match
            if match is not None:
                self._refuse(flow, judgement, match)
                return

    def _refuse_rest(self, flow: http.HTTPFlow, judgement: Judgement) -> http.Response | None:
        """The page for an upload of which something has gone on, if a rule blocks the rest."""
        held = self._uploads.get(flow)
        return None if held is None else self._page(flow, judgement, self._said_of(held, judgement))

    def _said_of(self, held: HeldUpload, judgement: Judgement) -> Match | None:
        """The rule that decides about what was seen of an upload."""
        blocking = [match for match in held.matches if match.rule.terms.action in STOPPING]
        if blocking or not held.why_unseen:
            return next(iter([*blocking, *held.matches]), None)
        settings = _upload_settings(judgement)
        rules = _rules(judgement)
        rule = next((rule for rule in rules if rule.applies(is_upload=True, now=datetime.now(UTC))), rules[0])
        action = Action.BLOCK if settings.blocks_unseen else Action.TAG
        return replace(rule, action=action).match(f"not seen: {held.why_unseen}")

    def change(self, flow: http.HTTPFlow, judgement: Judgement) -> bool:
        """Ask for the whole file where a part would say nothing, and the rest was not seen."""
        if (
            not _rules(judgement)
            or judgement.settings.of("ranges") != "whole"
            or judgement.settings.mode == "tag"
            or not asks_part(flow.request, is_beginning_enough=False)
        ):
            return False
        facts = self._seen.of_request(flow) or FileFacts(names=_names(flow.request, http.Headers()))
        verdict = judge_file(_unless_told(_rules(judgement), facts), facts, datetime.now(UTC))
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
        facts = FileFacts(False, _media_types(headers), _names(flow.request, headers), _length(headers))
        part = part_of(answer)
        if part is not None and part.first and (seen := self._seen.of_part(flow, part)) is not None:
            facts = facts._replace(kinds=seen.kinds, members=seen.members)
        verdict = judge_file(_rules(judgement), facts, datetime.now(UTC))
        if part is not None and not part.is_whole and self._is_unseen(verdict, part):
            if judgement.settings.of("ranges") == "pass":
                facts = facts._replace(kinds=frozenset({"part"}), listed=(), members=NO_MEMBERS, infection="")
                verdict = judge_file(_rules(judgement), facts, datetime.now(UTC))
            else:
                verdict = FileVerdict(_unseen(judgement, facts, "a part of a file, of which the rest was not seen"))
        stops = verdict.match is not None and self._stops(judgement, verdict.match)
        if stops:
            look_at_answer(flow, lambda *_: True, lambda octets, is_whole: self._page(flow, judgement, verdict.match))
            return
        if verdict.match is not None and not verdict.needs_end:
            self._record(flow, judgement, verdict.match)
        # the page may ask any of the proxies that serve a port together, of which one alone has the file
        waits = verdict.needs_scan and part is None and self._runtime.siblings is None
        waits = waits and may_wait(flow.request, answer, facts.media_types)
        resumed = Resumed.of(answer, self._resumed.pop(flow, None))
        download = _Download(flow, judgement, facts, _codings(headers), part, resumed)
        if judgement.settings.mode == "tag" and verdict.is_open:
            needs_whole = verdict.needs_whole or any(rule.may_look_into(facts) for rule in _rules(judgement))
            self._follow(download, needs_whole=needs_whole, needs_content=verdict.needs_content)
        elif verdict.is_open:
            is_enough = _enough(download, verdict)
            if verdict.needs_scan:
                is_enough = self._enough_to_scan(download, is_enough)
            safe = SafeLook(is_enough, partial(self._look, download), partial(self._failed, flow, "answer"))
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
            self._waited.add(flow)
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
                    offer = self._runtime.parts.offered(flow.request, recorded)
                    response = stopped_response(self._runtime, flow.request, recorded, offer)
            refuse(flow, lambda request: response or self._checked.take(token, place, request))
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=True)

    @staticmethod
    def _enough_to_scan(download: _Download, is_seen: Callable[[bytes, int], bool]) -> Callable[[bytes, int], bool]:
        """A file is held until its end, if it is not too large, and there is room; and until ``is_seen``."""
        settings, account = _scanner_settings(download.judgement), Account(download.flow.client_conn.peername[0])
        is_told_larger = (download.facts.octets or 0) > settings.largest

        def is_enough(octets: bytes, came: int) -> bool:
            account.set(came)
            return is_seen(octets, came) and (is_told_larger or came > settings.largest or account.is_full)

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
                unseen = _unseen_kind(judgement, facts, why_unseen)
            facts = facts._replace(kinds=kinds, members=None if _may_have_members(octets, codings) else NO_MEMBERS)
        if is_whole and facts.octets is None:
            facts = facts._replace(octets=len(octets))
        download = download._replace(facts=facts)
        verdict = judge_file(_rules(judgement), facts, now)
        if unseen is not None and not (verdict.match and self._stops(judgement, verdict.match)):
            verdict = FileVerdict(unseen)
        is_dry = judgement.settings.mode == "tag"
        hasher = None
        if verdict.needs_whole and is_whole and not is_dry:
            hasher = self._hasher(judgement, _rules(judgement), codings)
            if not verdict.needs_scan:
                hasher.take(octets)
                download, verdict = self._hashed(download, hasher)
        if verdict.needs_scan and not is_dry and not (verdict.match and self._stops(judgement, verdict.match)):
            return self._scanned(download, octets, is_whole, hasher)
        return self._looked(download, verdict, is_whole=is_whole)

    def _hashed(self, download: _Download, hasher: FileHasher) -> tuple[_Download, FileVerdict]:
        """What is known of a file by its hashes, and what rules say of it."""
        judgement = download.judgement
        if hasher.why_unseen and judgement.settings.of("ranges") != "pass":
            return download, FileVerdict(_unseen(judgement, download.facts, hasher.why_unseen))
        facts = download.facts._replace(listed=self._listed(judgement, hasher), members=hasher.members())
        verdict = judge_file(_rules(judgement), facts, datetime.now(UTC))
        if not (verdict.match and self._stops(judgement, verdict.match)):
            unseen = _unseen_members(judgement, facts)
            verdict = verdict if unseen is None else FileVerdict(unseen)
        return download._replace(facts=facts), verdict

    def _looked(self, download: _Download, verdict: FileVerdict, *, is_whole: bool) -> http.Response | None:
        """What becomes of a file by what was seen of it."""
        flow, judgement, facts, _, part, _ = download
        if verdict.match is not None and self._stops(judgement, verdict.match):
            return self._page(flow, judgement, verdict.match)
        if verdict.match is not None:
            self._record(flow, judgement, verdict.match)
        if facts.kinds is not None and (part is None or not part.first) and flow not in self._waited:
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
            if not verdict.needs_scan or (verdict.match and self._stops(download.judgement, verdict.match)):
                return self._looked(download, verdict, is_whole=is_whole)
        flow, judgement, facts, codings, *_ = download
        assert flow.response is not None
        answer = flow.response.copy()
        infection = await self._infection(flow, judgement, facts, octets if is_whole else None, codings, answer)
        if isinstance(infection, Match):
            return self._page(flow, judgement, infection)
        facts = facts._replace(infection=infection)
        verdict = judge_file(_rules(judgement), facts, datetime.now(UTC))
        return self._looked(download._replace(facts=facts), verdict, is_whole=is_whole)

    async def _infection(
        self,
        flow: http.HTTPFlow,
        judgement: Judgement,
        facts: FileFacts,
        octets: bytes | None,
        codings: str,
        answer: http.Response | None = None,
    ) -> str | Match:
        """What the scanner has found in a file; or a match, if it has not said that; no octets: it is too large."""
        if octets == b"":
            return ""
        settings = _scanner_settings(judgement)
        scanner = self._scanners.get(settings) or self._scanners.setdefault(settings, Scanner(settings))
        try:
            account = Account(flow.client_conn.peername[0])
            plain = None if octets is None else await decoded(octets, codings, settings.largest, account)
            if plain is not None:
                request, head = flow.request, b""
                if answer is None:
                    request = _as_scanned(request, plain)
                else:
                    head = http1.assemble_response_head(_as_scanned(answer, plain))
                file = Scanned(plain, http1.assemble_request_head(request), head, judgement.client.address)
                infection, self._fault = await scanner.scan(file), ""
                return infection
            why, what = "it is larger than what is scanned", settings.larger
        except CodingError as error:
            why, what = str(error), settings.on_failure
        except ScanError as error:
            why = self._fault = str(error)
            what = settings.on_failure
        match = _unseen(judgement, facts, f"not scanned: {why}")
        if what == "block":
            return match
        terms = replace(match.rule.terms, action=Action.TAG)
        self._record(flow, judgement, match._replace(rule=match.rule._replace(terms=terms)))
        return ""

    def faults(self) -> Iterable[str]:
        """What the scanner failed by, the last time."""
        return [f"files are not scanned: {self._fault}"] if self._fault else []

    def is_idle(self, policy: Policy | None) -> bool:
        """Whether there is nothing to do with requests; not once there were addresses that no origin may see."""
        return super().is_idle(policy) and not self._checked.was_used

    def follow(self, policy: Policy) -> None:
        """The policy is in use from now on; without waiting."""
        self._scanners.clear()
        self._checked.forget()

    def _follow(self, download: _Download, *, needs_whole: bool = False, needs_content: bool = False) -> None:
        """Look at a file as it flows: at its size, at all of it, and in a dry run at its beginning, too."""
        flow, judgement, facts, codings, *_ = download
        assert flow.response is not None
        steps: list[Callable[[bytes], bytes]] = []
        if facts.octets is None and (bound := _bound(judgement)) is not None:
            steps.append(partial(self._count, flow, judgement, facts, [0], bound))
        if needs_whole:
            hasher = self._hasher(judgement, _rules(judgement), codings)
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
        listed, members = self._listed(judgement, hasher), hasher.members()
        if listed or members != NO_MEMBERS:
            match = self._match_of_rest(download, listed, members)
        if match is None and hasher.why_unseen and judgement.settings.of("ranges") != "pass":
            match = _unseen(judgement, facts, hasher.why_unseen)
        match = match or _unseen_members(judgement, facts._replace(listed=listed, members=members))
        if match is None or self._record(flow, judgement, match) is None:
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
        if match is None or not self._stops(judgement, match):
            return False
        self._record(flow, judgement, match)
        if flow.killable:
            flow.kill()
        return True

    def _match_of_rest(self, download: _Download, listed: tuple[Match, ...], members: Members) -> Match | None:
        """The rule that decides by what was seen behind the beginning of a file, if it has not decided before."""
        rules, now, facts = _rules(download.judgement), datetime.now(UTC), download.facts
        facts = facts._replace(kinds=facts.kinds or frozenset())
        match = judge_file(rules, facts._replace(listed=listed, members=members), now).match
        before = judge_file(rules, facts, now).match
        return None if match is not None and before is not None and match.rule == before.rule else match

    def _hasher(self, judgement: Judgement, rules: Sequence[FileRule], codings: str = "") -> FileHasher:
        """What sees all of a file that rules need to see."""
        is_hashed = any(rule.listed for rule in rules)
        algorithms = algorithms_for(self._runtime.engine, judgement.client) if is_hashed else ()
        endings = endings_wanted(rules)
        return FileHasher(codings, algorithms, endings, sees_members=endings is not None)

    def _listed(self, judgement: Judgement, hasher: FileHasher) -> tuple[Match, ...]:
        return listed_match(self._runtime.engine, judgement.client, hasher.digests())

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

    def _stops(self, judgement: Judgement, match: Match) -> bool:
        return self._decided(judgement, match).stops

    def _decided(self, judgement: Judgement, match: Match) -> Judgement:
        """The judgement of a file; who has gone on past a warning of its address is let through."""
        before, action, engine = judgement.decision, match.rule.terms.action, self._runtime.engine
        decision = Decision(action, before.url, (match, *before.matches), match, group=before.group)
        if action is Action.WARN and engine is not None:
            decision = engine.past_warning(decision, judgement.client)
        return judgement._replace(decision=decision)

    def _page(self, flow: http.HTTPFlow, judgement: Judgement, match: Match | None) -> http.Response | None:
        """The page in place of a file, and the line in the log; ``None`` if it passes."""
        if match is None:
            return None
        recorded = self._record(flow, judgement, match)
        return None if recorded is None else self._respond(flow.request, recorded)

    def _respond(self, request: http.Request, judgement: Judgement) -> http.Response:
        """The page of a file, with what it offers."""
        return stopped_response(self._runtime, request, judgement, self._runtime.parts.offered(request, judgement))

    def _record(self, flow: http.HTTPFlow, judgement: Judgement, match: Match) -> Judgement | None:
        """Log what a rule has decided; the judgement if it stops the file."""
        if match.rule.terms.action is Action.ALLOW:
            return None
        is_live = flow.live or flow in self._waited
        recorded = self._runtime.record(self._decided(judgement, match), flow.request.method, is_live=is_live)
        flow_outcome.annotate(flow, recorded)
        return recorded if recorded.stops else None


def _rules(judgement: Judgement) -> tuple[FileRule, ...]:
    return rules_about(judgement.settings.of("files"), judgement)


def _unseen(judgement: Judgement, facts: FileFacts, why: str) -> Match:
    """The match of the first rule that needs to see more of a file than can be seen; of those that block, if any."""
    now = datetime.now(UTC)
    rules = [rule for rule in _rules(judgement) if rule.needs_content or rule.listed or rule.infected]
    rules = [rule for rule in rules if rule.applies(is_upload=facts.is_upload, now=now)] or [_rules(judgement)[0]]
    # who goes on past a warning has seen nothing of what the others are about
    by_strength = (rule for action in (Action.BLOCK, Action.WARN) for rule in rules if rule.action is action)
    return next(by_strength, rules[0]).match(why)._replace(file=facts.seen)


def _unseen_members(judgement: Judgement, facts: FileFacts) -> Match | None:
    """The match of the first rule that blocks by members, if not all can be seen, and the policy stops such files."""
    why = facts.members.why_unseen if facts.members is not None else ""
    if not why or judgement.settings.of("ranges") == "pass":
        return None
    now, facts = datetime.now(UTC), facts._replace(members=None)
    rules = [rule for rule in _rules(judgement) if rule.applies(is_upload=False, now=now)]
    if not judge_file(rules, facts, now).needs_whole:
        return None
    blocking = (rule for rule in rules if rule.action in STOPPING and rule.waits_for_members(facts))
    return next((rule.match(why, facts) for rule in blocking), None)


def _may_have_members(octets: bytes, codings: str) -> bool:
    """Whether a file that begins so may be an archive: as it is sent, or without its coding."""
    try:
        beginning = beginning_of(octets, codings, LONGEST_LOOK) or b""
    except CodingError:
        return True
    return may_have_members(octets) or may_have_members(beginning)


def _unseen_kind(judgement: Judgement, facts: FileFacts, why: str) -> Match | None:
    """The match of the first rule that blocks by kinds, and fits a download but for them; ``None`` if none counts."""
    now = datetime.now(UTC)
    rules = (rule for rule in _rules(judgement) if rule.needs_content and rule.action in STOPPING)
    fitting = (rule for rule in rules if rule.applies(is_upload=False, now=now) and rule.evidence(facts) is not None)
    rule = next(fitting, None) if judge_file(_rules(judgement), facts, now).needs_content else None
    return None if rule is None else rule.match(why, facts)


def _scanner_settings(judgement: Judgement) -> ScannerSettings:
    settings: ScannerSettings | None = judgement.settings.of("scanner")
    return ScannerSettings() if settings is None else settings


def _upload_settings(judgement: Judgement) -> UploadSettings:
    settings: UploadSettings | None = judgement.settings.of("uploads")
    return UploadSettings() if settings is None else settings


def _bound(judgement: Judgement) -> int | None:
    """The least size that a rule for downloads is about."""
    return min((rule.larger_than for rule in _rules(judgement) if rule.larger_than is not None), default=None)


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
    rules, codings = _rules(download.judgement), download.codings
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


async def decoded(octets: bytes, codings: str, largest: int, account: Account) -> bytes | None:
    """A body without its codings; ``None`` if it is larger than that, or there is no room; raises ``CodingError``."""
    if not codings:
        return octets if len(octets) <= largest else None
    decoder, plain = Decoder(codings), bytearray()

    def decode(coded: bytes) -> None:
        for piece in decoder.decode(coded):
            plain.extend(piece)
            if len(plain) > largest:
                break

    for at in range(0, len(octets), _DECODED_AT_ONCE):
        await asyncio.to_thread(decode, octets[at : at + _DECODED_AT_ONCE])
        account.set(len(plain))
        if len(plain) > largest or account.is_full:
            return None
    return bytes(plain)


_Message = TypeVar("_Message", http.Request, http.Response)


def _as_scanned(message: _Message, plain: bytes) -> _Message:
    """A message whose head fits its body without codings: a scanner might undo what the head says, and see nothing."""
    made = message.copy()
    for name in ("content-encoding", "transfer-encoding"):
        made.headers.pop(name, None)
    made.headers["content-length"] = str(len(plain))
    return made


def _codings(headers: http.Headers) -> str:
    return codings_of((*headers.get_all("content-encoding"), *headers.get_all("transfer-encoding")))


def _has_body(request: http.Request) -> bool:
    headers = request.headers
    return bool(request.raw_content or request.stream) or "transfer-encoding" in headers or bool(_length(headers))


def _names(request: http.Request, headers: http.Headers) -> tuple[str, ...]:
    names = (*names_of_disposition(headers.get_all("content-disposition")), name_of_target(request.data.path))
    return tuple(filter(None, names))


def _media_types(headers: http.Headers) -> tuple[str, ...]:
    return media_types_of(headers.get_all("content-type"))


def _length(headers: http.Headers) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _through(steps: Sequence[Callable[[bytes], bytes]], octets: bytes) -> bytes:
    """What several steps leave of the next octets of a body; none: it has ended."""
    has_ended = not octets
    for step in steps:
        octets = step(octets)
        if not octets and not has_ended:
            break
    return octets


def _unless_told(rules: Sequence[FileRule], facts: FileFacts) -> list[FileRule]:
    """Rules that say nothing of types and sizes as long as none is told."""
    rules = [rule if facts.media_types else replace(rule, types=frozenset()) for rule in rules]
    return [replace(rule, larger_than=None) if facts.octets is None else rule for rule in rules]
