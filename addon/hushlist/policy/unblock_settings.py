"""A policy's settings of temporary unblocks: who may have them, with what proof, for what and how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.unblock.credentials import parse_stored
from hushlist.unblock.grants import SCOPES

_OFF = "off"
_SWITCH = ("on", _OFF)
#: most minutes; a longer unblock is for the command line
MOST_MINUTES = 24 * 60
_KEYS = ("passphrase", "codes", "scopes", "minutes")


@dataclass(frozen=True, slots=True)
class UnblockSettings:
    """What a block page offers."""

    #: as ``hushlist override passphrase`` prints it; ``None``: no passphrase
    passphrase: str | None = None
    #: whether single-use codes are accepted
    codes: bool = True
    #: scopes that can be unblocked; the first is the default
    scopes: tuple[str, ...] = ("host", "url")
    minutes: tuple[int, ...] = (15, 60)


def read_unblocking(node: YamlNode, report: ProblemReport) -> UnblockSettings | None:
    """The value: ``off``, ``on`` (codes alone), or a mapping; ``None`` if nothing is offered."""
    if node.value in _SWITCH:
        return UnblockSettings() if node.value == "on" else None
    if not isinstance(node.value, dict):
        report.error(node.line, f"unblock: {node}", f"expected on, off or a mapping with {', '.join(_KEYS)}")
        return None
    fields = MappingReader(node, _KEYS, report)
    passphrase = fields.text("passphrase")
    if passphrase is not None:
        try:
            parse_stored(passphrase)
        except ValueError as error:
            report.error(fields.line_of("passphrase"), "passphrase", str(error))
            passphrase = None
    default = UnblockSettings()
    found = UnblockSettings(
        passphrase=passphrase,
        codes=fields.choice("codes", _SWITCH) != _OFF,
        scopes=tuple(_read_scopes(fields, report)) if "scopes" in fields else default.scopes,
        minutes=tuple(_read_minutes(fields, report)) if "minutes" in fields else default.minutes,
    )
    if found.passphrase is None and not found.codes and "passphrase" not in fields:
        report.error(node.line, "unblock", "it takes neither a passphrase nor codes")
    return found


def _read_scopes(fields: MappingReader, report: ProblemReport) -> Iterator[str]:
    for item in fields.items("scopes"):
        if item.value in SCOPES:
            yield str(item.value)
        else:
            report.error(item.line, f"scopes: {item}", f"expected some of {', '.join(SCOPES)}")
    _check_some(fields, "scopes", f"expected some of {', '.join(SCOPES)}", report)


def _read_minutes(fields: MappingReader, report: ProblemReport) -> Iterator[int]:
    yield from fields.numbers("minutes", MOST_MINUTES, least=1)
    _check_some(fields, "minutes", f"expected numbers from 1 to {MOST_MINUTES}", report)


def _check_some(fields: MappingReader, key: str, expected: str, report: ProblemReport) -> None:
    """Report an empty list: nothing could be unblocked."""
    node = fields.node(key)
    if node is not None and node.value == []:
        report.error(node.line, key, f"{expected}, not an empty list")
