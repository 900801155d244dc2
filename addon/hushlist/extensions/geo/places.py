"""Countries and networks of addresses, by a database in MaxMind's format.

The file is copied to a place without a name, and mapped there: whatever becomes of the file, what is in use stays. A
new one is read with the policy; one that cannot be used is an error, and the policy before stays in use.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from hushlist.core.extension import load
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.match.checks import CheckedRequest
from hushlist.core.policy.key_types import TEXT, Reading, each_of, numbers
from hushlist.core.policy.keys import Type
from hushlist.core.url.host import is_address, tunnelled_ipv4
from hushlist.core.url.request import readable_host

_COUNTRY = re.compile(r"[A-Za-z]{2}")
_NUMBER = re.compile(r"(?:AS)?([0-9]{1,10})", re.IGNORECASE)
#: where databases have them: MaxMind's and DB-IP's; IPinfo's
_OF_COUNTRY, _OF_NETWORK = ("country", "country_code"), ("autonomous_system_number", "asn")


class GeoDatabase:
    """A database that is open."""

    def __init__(self, path: Path) -> None:
        """Open a copy of a file.

        Raises:
            ValueError: it is no such database, or not whole; or the package that reads it is not installed.
            OSError: it cannot be read.
        """
        try:
            package: Any = load("maxminddb")
        except ImportError as error:
            raise ValueError("the package maxminddb is missing: pip install 'hushlist[geo]'") from error
        with path.open("rb") as file, NamedTemporaryFile(suffix=".mmdb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            try:
                self._reader = package.open_database(copy.name, package.MODE_MMAP)
            except package.InvalidDatabaseError as error:
                raise ValueError("it is no database in MaxMind's format, or not whole") from error
        self._invalid: type[Exception] = package.InvalidDatabaseError

    def of(self, address: str) -> dict[str, Any]:
        """What it has of an address; nothing, if it has nothing, or is damaged there."""
        with suppress(ValueError, self._invalid):
            entry = self._reader.get(address)
            return entry if isinstance(entry, dict) else {}
        return {}


def find_country(request: CheckedRequest, places: frozenset[str], database: GeoDatabase) -> bytes | None:
    """The address, and its country, if that is one of these."""
    return _find(request, database, _country, places)


def find_network(request: CheckedRequest, places: frozenset[str], database: GeoDatabase) -> bytes | None:
    """The address, and the number of its network, if that is one of these."""
    return _find(request, database, _network, places)


def _find(
    request: CheckedRequest, database: GeoDatabase, place_of: Callable[[dict[str, Any]], str], places: frozenset[str]
) -> bytes | None:
    for address in _addresses(request):
        place = place_of(database.of(address))
        if place in places:
            return f"{address} is in {place}".encode()
    return None


def _addresses(request: CheckedRequest) -> Iterator[str]:
    """The addresses of a request: its host, where its names lead, and what is inside these."""
    for name in (request.host, *request.leads):
        with suppress(ValueError):
            host = readable_host(name)
            if is_address(host):
                yield str(ip_address(host.strip(b"[]").decode()))
                if (inner := tunnelled_ipv4(host)) is not None:
                    yield inner.decode()


def _country(entry: dict[str, Any]) -> str:
    for key in _OF_COUNTRY:
        value = entry.get(key)
        code = value.get("iso_code") if isinstance(value, dict) else value
        if isinstance(code, str) and _COUNTRY.fullmatch(code):
            return code.upper()
    return ""


def _network(entry: dict[str, Any]) -> str:
    for key in _OF_NETWORK:
        if match := _NUMBER.fullmatch(str(entry.get(key, ""))):
            return f"AS{match[1]}"
    return ""


# -- keys --------------------------------------------------------------------------------------------------------------


def _country_of(text: str) -> str | None:
    return text.upper() if _COUNTRY.fullmatch(text) else None


def _read_database(fields: MappingReader, key: str, reading: Reading) -> GeoDatabase | None:
    path = reading.file(fields, key)
    if path is None:
        return None
    try:
        return GeoDatabase(path)
    except (OSError, ValueError) as error:
        fields.error(key, str(error), path.name)
        return None


COUNTRIES = each_of(_country_of, "expected a code of two letters, as of ISO 3166-1")
DATABASE = Type(_read_database, TEXT)
NETWORKS = numbers(1, (1 << 32) - 1, lambda every: frozenset(f"AS{number}" for number in every))
