"""What the head of a list says of itself: where its publisher hears of mistakes, and which version it is.

>>> read_head(b"! Title: Ads\\n! Version: 7\\n! Homepage: https://ads.example/\\n! Issues: https://ads.example/issues\\n")
ListHead(publisher='https://ads.example/issues', version='7')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hushlist.core.errors import one_line, without_user

#: octets of a list that are read for its head
LONGEST_HEAD = 1 << 14
#: of a line: what comments begin with, a key of a few words, and a value
_LINE = re.compile(
    r"^[ \t]*+(?:[!#;*]|//)*+[ \t]*+([A-Za-z][A-Za-z _-]{0,39}+):[ \t]*+(\S[^\r\n]{0,999})", re.MULTILINE
)
#: how keys end, the best first, that name where mistakes are reported
_PUBLISHER = ("issues", "issue", "report", "support", "contact", "e-mail", "email", "mail", "homepage", "home page")
_VERSION = ("version", "last modified", "last updated", "updated", "date")
_URL = re.compile(r"https?://[^\s<>\"'`]{1,500}")
_MAILBOX = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,250}\.[A-Za-z]{2,24}")
_LONGEST_VERSION = 100


class ListHead(NamedTuple):
    #: a URL, or ``mailto:`` and a mailbox; empty: it names none
    publisher: str = ""
    version: str = ""


def read_head(octets: bytes) -> ListHead:
    """The head of a list in any format of lines, or in YAML above its rules."""
    lines = _LINE.finditer(octets[:LONGEST_HEAD].decode("utf-8", "replace"))
    said = [(" ".join(match[1].lower().replace("_", " ").split()), match[2]) for match in lines]
    addresses = map(_address, _ranked(said, _PUBLISHER))
    versions = (one_line(value.strip().strip("\"'"), _LONGEST_VERSION) for value in _ranked(said, _VERSION))
    return ListHead(next(filter(None, addresses), ""), next(filter(None, versions), ""))


def _ranked(said: list[tuple[str, str]], ends: tuple[str, ...]) -> Iterator[str]:
    return (value for end in ends for key, value in said if key == end or key.endswith(f" {end}"))


def _address(value: str) -> str:
    if match := _URL.search(value):
        return str(without_user(match[0].rstrip(".,;)]}")))
    match = _MAILBOX.search(value)
    return "" if match is None else f"mailto:{match[0]}"
