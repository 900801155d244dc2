"""Whether a list of the catalogue is still what its row says: it can be fetched, read, and is about as long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from hushlist.core.errors import FetchError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.system.files import LONGEST_LIST
from hushlist.extensions.subscriptions.catalogue import CatalogueEntry
from hushlist.extensions.subscriptions.list_fetch import fetch

#: a list that has become so many times longer or shorter is another one
_FACTOR = 3
#: octets in which a publisher names the licence
_HEAD = 1 << 12
_LICENCE = re.compile(rb"^[#!]\s*Licen[cs]e:\s*(\S+)", re.IGNORECASE | re.MULTILINE)


def check_entry(entry: CatalogueEntry) -> list[str]:
    """What is not as the row says, in words; nothing of a list that comes with Hushlist."""
    if not entry.url:
        return []
    with TemporaryFile() as file:
        try:
            fetch(entry.url, cast(BinaryIO, file), longest=LONGEST_LIST)
        except FetchError as error:
            return [str(error)]
        file.seek(0)
        return list(differences(entry, file.read()))


def differences(entry: CatalogueEntry, octets: bytes) -> Iterator[str]:
    """In what a list's content is not as its row says.

    >>> row = CatalogueEntry("a", "", "", "MIT", "domains", "hrn://c.example", "", "https://h.example", size=9)
    >>> list(differences(row, b"# License: GPL-3.0\\na.example\\nb.example\\n"))
    ['its head names the licence GPL-3.0, and not MIT', 'it has 2 entries, and not about 9']
    >>> list(differences(row, b"<html><body>Gone</body></html>"))
    ['nothing in it can be read as domains']
    """
    licence = _LICENCE.search(octets[:_HEAD])
    if licence is not None and (said := licence[1].decode("ascii", "replace")) != entry.licence:
        yield f"its head names the licence {said}, and not {entry.licence}"
    report = ProblemReport(entry.name)
    number = sum(1 for _ in FORMATS[entry.format].read(octets, ListDefaults(category=entry.category), report))
    if not number:
        yield f"nothing in it can be read as {entry.format}"
    elif report.left_out > number:
        yield f"most of it cannot be read as {entry.format}: {report.left_out} of {report.left_out + number} entries"
    elif entry.size and not entry.size <= _FACTOR * number <= _FACTOR * _FACTOR * entry.size:
        yield f"it has {number} entries, and not about {entry.size}"
