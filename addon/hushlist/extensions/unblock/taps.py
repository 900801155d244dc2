"""One tap at a notice: tokens that do one thing, once, for who got the notice.

A token is 256 random bits in an address; only its SHA-256 is stored, with what it does, for whom, and until when. The
functions work within the caller's transaction.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple, TypeVar

from hushlist.core.errors import HushlistError
from hushlist.core.routes import MissingError
from hushlist.extensions.databases.sql import SqlConnection, keep_newest
from hushlist.extensions.unblock.grant_events import GrantEvent, record_event

#: tokens that are kept, and seconds for which those are that cannot act any longer: who uses one is told why
MOST_TAPS = 10_000
KEPT = 7 * 86400.0

_Answer = TypeVar("_Answer")


class TapFault(StrEnum):
    """Why a tap does nothing: keys of the live page's texts."""

    UNKNOWN = "tap_unknown"
    USED = "tap_used"
    OLD = "tap_old"
    #: somebody has answered in another way
    ANSWERED = "tap_answered"


class TapError(HushlistError):
    """A tap did nothing."""

    def __init__(self, fault: TapFault, tap: Tap | None = None) -> None:
        self.fault, self.tap = fault, tap
        super().__init__(
            {
                TapFault.UNKNOWN: "there is no such tap",
                TapFault.USED: "it was tapped before",
                TapFault.OLD: "it is too old",
                TapFault.ANSWERED: "somebody has answered before",
            }[fault]
        )


class Tap(NamedTuple):
    """What a token does."""

    #: what it is about, as ``request:7``
    subject: str
    choice: str
    #: the channel that got the notice
    recipient: str
    until: float
    used: float | None = None

    @property
    def by(self) -> str:
        """Who did it, as histories have it."""
        return f"notice:{self.recipient}"


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()


def make_taps(
    database: SqlConnection, subject: str, choices: Iterable[str], recipient: str, now: float, until: float
) -> dict[str, str]:
    """A token for each choice; only the return value has them."""
    database.execute("DELETE FROM taps WHERE until <= ? OR until > ?", (now - KEPT, now + 366 * 86400.0))
    tokens = {choice: secrets.token_urlsafe(32) for choice in choices}
    query = "INSERT INTO taps (hash, subject, choice, recipient, until) VALUES (?, ?, ?, ?, ?)"
    for choice, token in tokens.items():
        database.execute(query, (_hash(token), subject, choice, recipient, until))
    keep_newest(database, "taps", MOST_TAPS)
    return tokens


def _tap_of(database: SqlConnection, token: str, kind: str, now: float) -> Tap:
    hashed = _hash(token)
    query = "SELECT hash, subject, choice, recipient, until, used FROM taps WHERE hash = ?"
    row = database.execute(query, (hashed,)).fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), hashed) or not row[1].startswith(f"{kind}:"):
        raise TapError(TapFault.UNKNOWN)
    tap = Tap(*row[1:])
    if tap.used is not None:
        raise TapError(TapFault.USED, tap)
    if tap.until <= now:
        raise TapError(TapFault.OLD, tap)
    return tap


def follow_tap(
    transaction: AbstractContextManager[tuple[SqlConnection, float]],
    token: str,
    kind: str,
    answer: Callable[[SqlConnection, Tap, int, float], _Answer],
    *,
    acts: bool,
) -> tuple[Tap, _Answer]:
    """What a token of a kind does, and what ``answer`` makes of it, by its subject's number and the present time.

    With ``acts``, the token is used, and what it is refused for is recorded, unless nobody can say whose it was.

    Raises:
        TapError: it does nothing any more, or ``answer`` found nothing to do (``MissingError``).
    """
    with transaction as (database, now):
        try:
            tap = _tap_of(database, token, kind, now)
            if acts:
                database.execute("UPDATE taps SET used = ? WHERE hash = ?", (now, _hash(token)))
            return tap, answer(database, tap, int(tap.subject.partition(":")[2]), now)
        except MissingError:
            fault = TapError(TapFault.ANSWERED, tap)
        except TapError as error:
            fault = error
        if acts and fault.tap is not None:
            how = f"{fault.tap.subject.replace(':', ' ')}: {fault}"
            record_event(database, GrantEvent(now, "refused", None, None, None, how, fault.tap.by))
    raise fault
