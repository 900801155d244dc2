"""Holds uploads against the policy's ``files``, as they flow.

An upload is decided at its head, before an octet of it goes on; and as far as rules need it, by its body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from weakref import WeakKeyDictionary

from mitmproxy import http

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.extensions.files.content_coding import CodingError
from hushlist.extensions.files.file_hashes import hasher_for, listed_match
from hushlist.extensions.files.file_outcome import FileOutcome
from hushlist.extensions.files.file_rules import FileFacts, file_rules_of, judge_file
from hushlist.extensions.files.file_scans import FileScans, decoded
from hushlist.extensions.files.held_upload import TOO_LONG, Account, HeldUpload, UploadSettings
from hushlist.extensions.files.member_scanner import NO_MEMBERS
from hushlist.extensions.files.message_facts import codings_of_head, facts_of_upload, has_body
from hushlist.extensions.files.multipart import MultipartError
from hushlist.extensions.files.unseen_files import match_of_unseen
from hushlist.extensions.files.upload_look import Hashing, UploadLook, contents_of
from hushlist.proxy.bounds.body_looks import is_done_for, look_at_upload
from hushlist.proxy.flow_outcome import refuse
from hushlist.proxy.page import block_response
from hushlist.proxy.runtime import Runtime


class UploadInspector:
    """Blocks the uploads of a policy's rules."""

    def __init__(self, runtime: Runtime, outcome: FileOutcome, scans: FileScans) -> None:
        self._runtime, self._outcome, self._scans = runtime, outcome, scans
        #: uploads that are looked at
        self._uploads: WeakKeyDictionary[http.HTTPFlow, HeldUpload] = WeakKeyDictionary()

    def passed(self, flow: http.HTTPFlow, judgement: Judgement) -> None:
        """Look at what a request sends that was let through, if it has just begun."""
        is_first = flow not in self._uploads and flow.request.raw_content is None
        if is_first and flow.request.stream and (held := self._held_upload(flow, judgement)) is not None:
            self._uploads[flow] = held
            look_at_upload(flow, held)

    def _held_upload(self, flow: http.HTTPFlow, judgement: Judgement) -> HeldUpload | None:
        """What looks at an upload, if rules are about more than its head says."""
        now = datetime.now(UTC)
        rules = [rule for rule in file_rules_of(judgement) if rule.applies(is_upload=True, now=now)]
        headers = flow.request.headers
        facts = facts_of_upload(flow.request)
        verdict, hashing = judge_file(rules, facts, now), None
        if any(rule.listed or rule.members for rule in rules):
            hashing = Hashing(
                lambda: hasher_for(self._runtime.engine, judgement.client, rules),
                lambda hasher: listed_match(self._runtime.engine, judgement.client, hasher.digests()),
                lambda facts: judge_file(rules, facts, now).needs_whole,
            )
        look = UploadLook(
            rules,
            lambda facts: judge_file(rules, facts, now).match,
            facts,
            codings_of_head(headers),
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
            partial(self._outcome.failure_page, flow, "request"),
            flow.client_conn.peername[0],
            waits=judgement.settings.mode != "tag",
        )

    def request(self, flow: http.HTTPFlow, judgement: Judgement) -> Awaitable[None] | None:
        """Refuse an upload that a rule blocks."""
        if not has_body(flow.request):
            return None
        facts, now = facts_of_upload(flow.request), datetime.now(UTC)
        match = judge_file(file_rules_of(judgement), facts, now).match
        if match is None or match.rule.terms.action not in STOPPING:
            held = self._uploads.get(flow)
            if held is None and (held := self._held_upload(flow, judgement)) is not None:
                held.take(flow.request.raw_content or b"", True)
            if held is not None and (page := held.failure) is not None:
                refuse(flow, lambda _: page)
                return None
            match = match if held is None else self._said_of(held, judgement) or match
        self._outcome.refuse(flow, judgement, match)
        needs_scan = any(rule.infected and rule.applies(is_upload=True, now=now) for rule in file_rules_of(judgement))
        if flow.response is None and needs_scan and judgement.settings.mode == "block":
            return self._scan_upload(flow, judgement, facts)
        return None

    async def _scan_upload(self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts) -> None:
        """Have an upload scanned as long as its client is there, without whom it goes nowhere."""
        if not await is_done_for(flow, self._refuse_infected(flow, judgement, facts)):
            refuse(flow, block_response.failure)

    async def _refuse_infected(self, flow: http.HTTPFlow, judgement: Judgement, facts: FileFacts) -> None:
        """Refuse an upload in which the scanner finds something: in all of it, and in each part of a form."""
        now, request = datetime.now(UTC), flow.request
        bodies = [request.raw_content] if request.raw_content is not None else [None]
        codings, content_types = codings_of_head(request.headers), request.headers.get_all("content-type")
        if bodies[0] is not None and facts.kinds is not None:
            settings, account = _upload_settings(judgement), Account(flow.client_conn.peername[0])
            with suppress(CodingError, MultipartError):
                plain = await decoded(bodies[0], codings, settings.hold, account)
                if plain is not None:
                    parts = await asyncio.to_thread(contents_of, content_types, plain)
                    bodies, codings = [plain, *(content for _, content in parts)], ""
                elif settings.blocks_unseen:
                    self._outcome.refuse(flow, judgement, match_of_unseen(judgement, facts, TOO_LONG))
                    return
        for body in bodies:
            infection = await self._scans.infection(flow, judgement, facts, body, codings)
            if isinstance(infection, Match):
                match: Match | None = infection
            else:
                seen = facts._replace(
                    kinds=facts.kinds or frozenset(), listed=(), members=NO_MEMBERS, infection=infection
                )
                rules = [rule for rule in file_rules_of(judgement) if rule.infected]
                match = judge_file(rules, seen, now).match
            if match is not None:
                self._outcome.refuse(flow, judgement, match)
                return

    def _refuse_rest(self, flow: http.HTTPFlow, judgement: Judgement) -> http.Response | None:
        """The page for an upload of which something has gone on, if a rule blocks the rest."""
        held = self._uploads.get(flow)
        return None if held is None else self._outcome.page(flow, judgement, self._said_of(held, judgement))

    def _said_of(self, held: HeldUpload, judgement: Judgement) -> Match | None:
        """The rule that decides about what was seen of an upload."""
        blocking = [match for match in held.matches if match.rule.terms.action in STOPPING]
        if blocking or not held.why_unseen:
            return next(iter([*blocking, *held.matches]), None)
        settings = _upload_settings(judgement)
        rules = file_rules_of(judgement)
        rule = next((rule for rule in rules if rule.applies(is_upload=True, now=datetime.now(UTC))), rules[0])
        action = Action.BLOCK if settings.blocks_unseen else Action.TAG
        return replace(rule, action=action).match(f"not seen: {held.why_unseen}")


def _upload_settings(judgement: Judgement) -> UploadSettings:
    settings: UploadSettings | None = judgement.settings.of("uploads")
    return UploadSettings() if settings is None else settings
