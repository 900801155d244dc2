"""The format of a list by its content: where the file's name does not tell it, and of Adblock lists their language.

Formats whose entries can do more than block are never told so: a list in YAML may allow what it wants.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, blocks
from hushlist.core.lists.patterns import is_sinkhole
from hushlist.core.match.rule import Rule
from hushlist.core.system.files import open_regular

#: octets from which a format is told
HEAD = 1 << 16
_ADDRESS = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]{2,45}"
#: format -> its entries; the first that fits an entry is counted
_ENTRIES = {
    "hashed-uris": re.compile(r"(?i:hashed):\S+"),
    "sha256": re.compile(r"(?:[0-9A-Fa-f]{2}){4,32}|seal:\s*[0-9a-f]{16}"),
    "addresses": re.compile(rf"(?:{_ADDRESS})(?:/[0-9]{{1,3}}|\s*-\s*(?:{_ADDRESS}))?"),
    "dnsmasq": re.compile(r"(?:address|server|local)=/.*"),
    "rpz": re.compile(r"\$(?:ORIGIN|TTL)\s.*|\S+\s+(?:[0-9]+[smhdw]?\s+)?(?:IN\s+)?(?:CNAME|SOA|NS|A|AAAA)\s.*", re.I),
    "adblock": re.compile(r"\|\|.*|@@.*|\|https?:.*|!.*|[^#]*#@?[$%?]{0,2}#.*", re.I),
    "csv": re.compile(r"\"[^\"]*\"(?:,.*)?|(?![A-Za-z][A-Za-z0-9+.-]*://)[^,/\s]*,.*"),
    "urls": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|[^\s/@,|^*$!#][^\s/@,|^*$!#.]*+\.[^\s/@,|^*$!#]++/\S*"),
    "domains": re.compile(r"\.?(?:\*\.)?[\w-]+(?:(?>\.[\w-]+))++\.?"),
}
#: formats that take the entries of the others, which are names and addresses
_WIDER = ("urls", "domains", "addresses")
_COMMENT = re.compile(r"\s*(?:#(?:[\s#].*)?|;.*)?")
_ADBLOCK_HEAD = re.compile(r"\s*(?:\[Adblock|!\s)", re.IGNORECASE)


class Detected(NamedTuple):
    """The format that a file's content tells, or ``None``; and why that is not sure, for people."""

    form: str | None
    doubt: str = ""


def detect_format(path: Path, form: str | None = None) -> Detected:
    """The format of a file: that which its content tells, or which of the Adblock formats a given one is.

    Raises:
        OSError: the file cannot be read.
        ValueError: no file can have that name.
    """
    with open_regular(path) as file:
        octets = file.read(HEAD)
    whole = octets if len(octets) < HEAD else octets[: octets.rfind(b"\n") + 1]
    text = whole.decode(errors="replace").replace("\ufeff", "").replace("\u200b", "")
    if form is None:
        form = format_of_text(text)
    if form in ("adblock", "adblock-hosts"):
        from hushlist.extensions.adblock.adblock_language import language_of  # most policies start faster without it

        return Detected(*language_of(text, form))
    return Detected(form)


def read_untold(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """No rule of a list whose format nothing tells, but why, in the report."""
    next(blocks(octets, report), None)  # says what else it is, such as a web page
    if not report.errors:
        why = f"neither its name nor its content tells its format: give one of {', '.join(FORMATS)}"
        report.error(0, "list", why)
    yield from ()


def format_of_text(text: str) -> str | None:
    """The format of a list's first lines, or ``None`` if no format fits nine of ten entries.

    >>> format_of_text("# x\\n0 a.example\\n"), format_of_text("a.example\\nb.example/x\\n"), format_of_text("a b c")
    ('hosts', 'urls', None)
    """
    if "\0" in text:
        return None
    if _ADBLOCK_HEAD.match(text):
        return "adblock"
    lines = (line.strip() for line in text.splitlines() if not _COMMENT.fullmatch(line))
    counts = Counter(map(_format_of_entry, lines))
    total = counts.total()
    wide = sum(counts[form] for form in _WIDER)
    found, number = counts.most_common(1)[0] if counts else (None, 0)
    if found in _WIDER:
        found, number = next(form for form in _WIDER if counts[form]), wide
    return found if number * 10 >= total * 9 else None


def _format_of_entry(line: str) -> str | None:
    entry = line.partition(" #")[0].rstrip()
    address, *names = entry.split(maxsplit=2)
    if names and names[0] != "-" and (address == "0" or is_sinkhole(address) is not None):
        return "hosts"
    return next((form for form, pattern in _ENTRIES.items() if pattern.fullmatch(entry)), None)
