"""The formats of lists by name, and by the name of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hushlist.lists.csv_column import read_csv
from hushlist.lists.filter_lists import read_adblock, read_chromium
from hushlist.lists.hash_lists import read_hashed_uris, read_safebrowsing_raw, read_sha256
from hushlist.lists.list_source import ListDefaults, ProblemReport
from hushlist.lists.plain_lists import (
    read_addresses,
    read_dnsmasq,
    read_domains,
    read_hosts,
    read_squidguard_domains,
    read_squidguard_expressions,
    read_squidguard_urls,
    read_urls,
)
from hushlist.lists.rpz import read_rpz
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Rule
from hushlist.system.files import LONGEST_DOCUMENT, LONGEST_LIST, LONGEST_WHOLE

#: octets of a source -> its rules, one by one in the order of their lines, with errors and warnings in the report;
#: the report is complete after the last rule
ListReader = Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule]]


class ListFormat(NamedTuple):
    """How to read a list."""

    read: ListReader
    #: whether lines do not depend on each other, so that a source can be cut into chunks of lines; each chunk has its
    #: own report, which knows its first line
    is_by_line: bool

    @property
    def longest(self) -> int:
        """The most octets that a source may have."""
        if self.is_by_line:
            return LONGEST_LIST
        return LONGEST_DOCUMENT if self.read is read_yaml else LONGEST_WHOLE


FORMATS: dict[str, ListFormat] = {
    "yaml": ListFormat(read_yaml, is_by_line=False),
    "hashed-uris": ListFormat(read_hashed_uris, is_by_line=True),
    "domains": ListFormat(read_domains, is_by_line=True),
    "hosts": ListFormat(read_hosts, is_by_line=True),
    "urls": ListFormat(read_urls, is_by_line=True),
    "squidguard-urls": ListFormat(read_squidguard_urls, is_by_line=True),
    "dnsmasq": ListFormat(read_dnsmasq, is_by_line=True),
    "rpz": ListFormat(read_rpz, is_by_line=False),
    "adblock": ListFormat(read_adblock, is_by_line=True),
    "chromium": ListFormat(read_chromium, is_by_line=True),
    "csv": ListFormat(read_csv, is_by_line=False),
    "addresses": ListFormat(read_addresses, is_by_line=True),
    "sha256": ListFormat(read_sha256, is_by_line=True),
    "safebrowsing-raw": ListFormat(read_safebrowsing_raw, is_by_line=False),
}
#: format of a folder -> the names of its files and their formats; any file may be missing
FOLDERS: Mapping[str, Mapping[str, ListFormat]] = {
    "squidguard": {
        "domains": ListFormat(read_squidguard_domains, is_by_line=True),
        "urls": FORMATS["squidguard-urls"],
        "expressions": ListFormat(read_squidguard_expressions, is_by_line=True),
    },
}
_ENDINGS = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".hashed": "hashed-uris",
    ".hosts": "hosts",
    ".dnsmasq": "dnsmasq",
    ".rpz": "rpz",
    ".adblock": "adblock",
    ".csv": "csv",
    ".netset": "addresses",
    ".ipset": "addresses",
}
_NAMES = {"domains": "domains", "urls": "squidguard-urls", "hosts": "hosts", "dnsmasq.conf": "dnsmasq"}


def list_format_of(path: Path) -> str | None:
    """The format of a file by its name, or ``None``; the names without an ending are squidGuard's and the system's.

    >>> list_format_of(Path("ads.yaml")), list_format_of(Path("ut1/games/domains")), list_format_of(Path("list.txt"))
    ('yaml', 'domains', None)
    """
    return _ENDINGS.get(path.suffix.lower()) or _NAMES.get(path.name)
