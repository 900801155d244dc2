r"""The key table of a list of hashes: what each hash stands for, and where that was. It is its author's, and private.

A line is a hash as messages show it, a tab, the file and line, a tab, and the rule in the clear. It can stand in file
names with escapes alone.

>>> table = parse_key_table(b"# x\nsha256:ba7816bf\tads.txt:3\tabc\n", "keys")
>>> table["sha256:ba7816bf"]
KeyEntry(place='ads.txt:3', plaintext='abc')
>>> revealed("- sha256: ba7816bf", table)
'- sha256: ba7816bf (abc, ads.txt:3)'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hushlist.core.errors import Problem, SourceError, printable
from hushlist.core.system.files import LONGEST_LIST, read_regular, replace_file, source_errors
from hushlist.tools.publish.hidden_list import HiddenRule

_HEAD = "# What the hashes of a list stand for: hash, place, rule. Keep it secret.\n"


class KeyEntry(NamedTuple):
    """What a hash stands for."""

    #: file and line
    place: str
    plaintext: str


def write_key_table(path: Path, rules: Iterable[HiddenRule]) -> None:
    """Write the table into a file that only its owner can read; ``SourceError`` if that cannot be done."""
    lines = (
        f"{rule.pattern}\t{printable(rule.source)}:{rule.line}\t{rule.plaintext.decode()}\n"
        for rule in rules
        if rule.plaintext is not None
    )
    with source_errors(path, "key-file"):
        replace_file(path, "".join((_HEAD, *lines)).encode(), is_private=True)


def read_key_table(path: Path | None) -> Mapping[str, KeyEntry]:
    """The entries of a table by hash; none without a path. ``SourceError`` if it cannot be read."""
    if path is None:
        return {}
    with source_errors(path, "key-file"):
        octets = read_regular(path, LONGEST_LIST)
    return parse_key_table(octets, str(path))


def parse_key_table(octets: bytes, source: str) -> dict[str, KeyEntry]:
    """The same of a table's octets; ``source`` is what ``SourceError`` calls it if a line is none of a table."""
    table: dict[str, KeyEntry] = {}
    for number, line in enumerate(octets.decode("utf-8", "replace").split("\n"), 1):
        if line and not line.startswith("#"):
            digest, *entry = line.removesuffix("\r").split("\t")
            if len(entry) != 2:
                why = "expected a hash, a place and a rule, with tabs between"
                raise SourceError([Problem(source, number, "key-file", why)])
            table[digest] = KeyEntry(*entry)
    return table


_HASH = re.compile(r"\bhashed:[a-z0-9.-]+=[0-9a-f]+(?:\+frag|\+query)*|\b[0-9a-f]{8,64}\b")


def revealed(text: str, table: Mapping[str, KeyEntry]) -> str:
    """A text with what the hashes in it stand for, behind each."""

    def reveal(match: re.Match[str]) -> str:
        entry = table.get(match[0]) or table.get(f"sha256:{match[0]}") or table.get(f"sealed:{match[0]}")
        return match[0] if entry is None else f"{match[0]} ({entry.plaintext}, {entry.place})"

    return _HASH.sub(reveal, text) if table else text
