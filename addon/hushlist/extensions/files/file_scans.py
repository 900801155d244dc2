"""Files on their way through the scanner that their group's policy has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from mitmproxy import http
from mitmproxy.net.http import http1

from hushlist.core.decide.decision import Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.extensions.files.content_coding import CodingError, Decoder
from hushlist.extensions.files.file_outcome import FileOutcome
from hushlist.extensions.files.file_rules import FileFacts
from hushlist.extensions.files.held_upload import Account
from hushlist.extensions.files.scanner import ScanError, Scanned, Scanner, ScannerSettings
from hushlist.extensions.files.unseen_files import match_of_unseen

#: octets of a coded body that are decoded in one turn of a thread
_DECODED_AT_ONCE = 1 << 18


def scanner_settings(judgement: Judgement) -> ScannerSettings:
    """The scanner of a client's group."""
    settings: ScannerSettings | None = judgement.settings.of("scanner")
    return ScannerSettings() if settings is None else settings


class FileScans:
    """The scanners of a policy's groups."""

    def __init__(self, outcome: FileOutcome) -> None:
        self._outcome = outcome
        self._scanners: dict[ScannerSettings, Scanner] = {}
        #: why the scanner has not said what the last file was
        self._fault = ""

    def forget(self) -> None:
        """Another policy is in use, perhaps with other scanners."""
        self._scanners.clear()

    def faults(self) -> Iterable[str]:
        """What the scanner failed by, the last time."""
        return [f"files are not scanned: {self._fault}"] if self._fault else []

    async def infection(
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
        settings = scanner_settings(judgement)
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
        match = match_of_unseen(judgement, facts, f"not scanned: {why}")
        if what == "block":
            return match
        terms = match.rule.terms._replace(action=Action.TAG)
        self._outcome.record(flow, judgement, match._replace(rule=match.rule._replace(terms=terms)))
        return ""


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
