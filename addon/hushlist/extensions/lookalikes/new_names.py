"""Names that are new, by a list with dates, as feeds of newly registered domains have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.match.checks import CheckedRequest
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.policy.key_types import TEXT, Reading, number
from hushlist.core.policy.keys import Type
from hushlist.core.url.host import is_plain_name, to_ascii
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import readable_host

#: days for which a name is new, where nobody says so
USUAL = 30
_LINE = re.compile(r"([^\s,;]+)[\s,;]+([0-9]{4}-[0-9]{2}-[0-9]{2})")


class DatedNames:
    """Registrable domains, and when they were registered: as the number of a day, which takes less memory."""

    def __init__(self, days: Mapping[bytes, int]) -> None:
        self.days = days


def find_new_name(request: CheckedRequest, file: DatedNames, days: int = USUAL) -> bytes | None:
    """The registrable domain of a host, with its date, if it is new."""
    domain = public_suffixes().registrable_domain(readable_host(request.host))
    day = file.days.get(domain)
    if day is None or datetime.now(UTC).toordinal() - day >= days:
        return None
    return domain + f" is new: {date.fromordinal(day)}".encode()


def _read(fields: MappingReader, key: str, reading: Reading) -> DatedNames | None:
    written = fields.text(key)
    dated = None if written is None else reading.beside(written, fields.line_of(key))
    if dated is None:
        return None
    days: dict[bytes, int] = {}
    for at, line in enumerate(dated[1].decode("utf-8", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        name = to_ascii(to_bytes(match[1].lower().strip("."))) if match else b""
        try:
            days[name] = date.fromisoformat(match[2] if match else "").toordinal()
        except ValueError:
            name = b""
        if not is_plain_name(name):
            fields.error(key, f"{dated[0].name}:{at}: expected a name and its date, such as 2026-11-28", text)
            return None
    return DatedNames(days)


FILE = Type(_read, TEXT)
DAYS = number(1, 3650)
