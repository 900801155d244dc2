"""What a policy says of temporary unblocks: who may have them, by what, of what and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report
from hushlist.policy.grants import SCOPES
from hushlist.policy.passphrase import parse_stored

_OFF = "off"
_SWITCH = ("on", _OFF)
#: minutes; a longer unblock is for the command line
MOST_MINUTES = 24 * 60
_KEYS = ("passphrase", "codes", "scopes", "minutes")


@dataclass(frozen=True, slots=True)
class Unblocking:
    """What a block page offers."""

    #: as ``hushlist override passphrase`` prints it; ``None``: there is none
    passphrase: str | None = None
    #: whether single-use codes are taken
    codes: bool = True
    #: what can be unblocked, the first is chosen at first
    scopes: tuple[str, ...] = ("host", "url")
    minutes: tuple[int, ...] = (15, 60)


def read_unblocking(node: Node, report: Report) -> Unblocking | None:
    """``off``, ``on`` (codes alone), or a mapping; ``None`` where nothing is offered."""
    if node.value in _SWITCH:
        return Unblocking() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"unblock: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = Fields(node, _KEYS, report)
    passphrase = fields.text("passphrase")
    if passphrase is not None:
        try:
            parse_stored(passphrase)
        except ValueError as error:
            report.error(fields.line_of("passphrase"), "passphrase", str(error))
            passphrase = None
    default = Unblocking()
    found = Unblocking(
        passphrase=passphrase,
        codes=fields.choice("codes", _SWITCH) != _OFF,
        scopes=tuple(_read_scopes(fields, report)) if "scopes" in fields else default.scopes,
        minutes=tuple(_read_minutes(fields, report)) if "minutes" in fields else default.minutes,
    )
    if found.passphrase is None and not found.codes and "passphrase" not in fields:
        report.error(node.line, "unblock", "it takes neither a passphrase nor codes")
    return found


def _read_scopes(fields: Fields, report: Report) -> Iterator[str]:
    for item in fields.items("scopes"):
        if item.value in SCOPES:
            yield str(item.value)
        else:
            report.error(item.line, f"scopes: {item}", f"expected some of {', '.join(SCOPES)}")
    _check_some(fields, "scopes", f"expected some of {', '.join(SCOPES)}", report)


def _read_minutes(fields: Fields, report: Report) -> Iterator[int]:
    yield from fields.numbers("minutes", MOST_MINUTES, least=1)
    _check_some(fields, "minutes", f"expected numbers from 1 to {MOST_MINUTES}", report)


def _check_some(fields: Fields, key: str, expected: str, report: Report) -> None:
    """Report an empty list, with which nothing could be unblocked."""
    node = fields.node(key)
    if node is not None and node.value == []:
        report.error(node.line, key, f"{expected}, not an empty list")
