"""An upload on its way: held until the rules have said what becomes of it, within the policy's bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mitmproxy import http

from hushlist.core.match.rule_match import Match
from hushlist.core.policy.key_types import choice, converted, mapping, read_rows
from hushlist.core.policy.keys import Key
from hushlist.extensions.files.file_rules import read_size
from hushlist.extensions.files.upload_look import UploadLook

TOO_LONG = "it is longer than what is held"
#: octets of all files that are held at once, and of those of one client
MOST_HELD, MOST_OF_CLIENT = 1 << 28, 1 << 26
#: the octets that are held, by client
_held = Counter[str]()


class Account:
    """Counts what one file holds, as long as it is there."""

    def __init__(self, client: str) -> None:
        self._client, self._octets = client, 0

    def set(self, octets: int) -> None:
        _held[self._client] += octets - self._octets
        self._octets = octets
        if not _held[self._client]:
            del _held[self._client]

    @property
    def is_full(self) -> bool:
        """Whether its client, or all of them, hold too much."""
        return _held[self._client] > MOST_OF_CLIENT or _held.total() > MOST_HELD

    def __del__(self) -> None:
        self.set(0)


@dataclass(frozen=True, slots=True)
class UploadSettings:
    """The policy's ``uploads``."""

    #: octets of one upload that are held
    hold: int = 1 << 23
    #: what becomes of an upload of which not all can be looked at before it goes on: ``block`` or ``pass``
    unseen: str = "block"

    @property
    def blocks_unseen(self) -> bool:
        return self.unseen == "block"


_KEYS = (
    Key("hold", converted(partial(read_size, most=MOST_OF_CLIENT), "expected a size such as 8m, at most 64m")).says(
        "bytes of a form that wait until all of its parts are seen: `8m` if nothing is said"
    ),
    Key("unseen", choice(("block", "pass"))).says("""what becomes of a longer form, and of what the filter cannot read
        for certain: `block` (the default) or `pass`"""),
)
UPLOADS = mapping(_KEYS, lambda fields, reading: UploadSettings(**read_rows(_KEYS, fields, reading)), name="uploads")


class HeldUpload:
    """Takes an upload piece by piece, and gives what may go on.

    Before anything has gone on, what the rules say is for the request's decision; then, ``refuse`` has the page that
    stands in place of an answer.
    """

    def __init__(
        self,
        look: UploadLook,
        settings: UploadSettings,
        refuse: Callable[[], http.Response | None],
        fail: Callable[[Exception], http.Response | None],
        client: str,
        *,
        waits: bool,
    ) -> None:
        """``fail`` has the page if the look fails; ``waits``: as against a dry run, in which all goes on at once."""
        self.look, self._settings, self._refuse, self._fail, self._waits = look, settings, refuse, fail, waits
        #: the page of the request's decision, if the look has failed before that
        self.failure: http.Response | None = None
        self._account = Account(client)
        self._held = bytearray()
        self._goes_on = not waits
        #: whether the request was decided, or the look has failed: whatever is held goes on
        self._is_decided = self._has_failed = False
        #: why not all of it can be looked at
        self.why_unseen = look.why_unseen

    @property
    def matches(self) -> list[Match]:
        return self.look.matches

    @property
    def is_over(self) -> bool:
        """Whether nothing that comes can change anything, and nothing is held."""
        return self._has_failed or (self.look.is_decided and self._goes_on and not self._held)

    def take(self, octets: bytes, has_ended: bool) -> bytes | http.Response | None:
        """What goes on once these octets have come, or have been the last; ``None``: nothing, not even the head."""
        self._hold(octets)
        if self._has_failed:
            return self.drop()
        try:
            goes_on = self._look_at(octets, has_ended)
        except Exception as error:
            self._has_failed, page = True, self._fail(error)
            goes_on = self.drop()
            if page is not None and self._is_decided:
                return page
            self.failure = page
        self._is_decided = self._is_decided or goes_on is not None
        return goes_on

    def _look_at(self, octets: bytes, has_ended: bool) -> bytes | http.Response | None:
        had = len(self.matches), self.why_unseen
        self.look.take(octets)
        if has_ended:
            self.look.end()
        self.why_unseen = self.why_unseen or self.look.why_unseen
        if not self._goes_on:
            if not (has_ended or self.look.is_decided or self._is_too_long()):
                return None
            self._goes_on = True  # or the request's decision refuses it now
        elif had != (len(self.matches), self.why_unseen) and (page := self._refuse()) is not None:
            self.drop()
            return page
        if self._waits and not (has_ended or self.look.is_settled):
            return b""
        return self.drop()

    def _is_too_long(self) -> bool:
        if len(self._held) <= self._settings.hold and not self._account.is_full:
            return False
        if self._settings.blocks_unseen:
            self.why_unseen = TOO_LONG
        return True

    def _hold(self, octets: bytes) -> None:
        self._held += octets
        self._account.set(len(self._held))

    def drop(self) -> bytes:
        """What is held, which is held no more."""
        held = bytes(self._held)
        self._held.clear()
        self._account.set(0)
        return held
