"""The formats of lists by name, and how a file's ending tells one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hushlist.lists.adblock import read_adblock
from hushlist.lists.addresses import read_addresses
from hushlist.lists.chromium import read_chromium
from hushlist.lists.csv_column import read_csv
from hushlist.lists.dnsmasq import read_dnsmasq
from hushlist.lists.hashed_uris import read_hashed_uris
from hushlist.lists.hashes import read_safebrowsing_raw, read_sha256
from hushlist.lists.plain import read_domains, read_hosts, read_urls
from hushlist.lists.rpz import read_rpz
from hushlist.lists.source import Defaults, Report
from hushlist.lists.squidguard import read_squidguard_domains, read_squidguard_expressions, read_squidguard_urls
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Rule

#: octets of a source -> its rules in the order of their lines, one after the other, with errors and warnings in the
#: report; both are complete when the last rule was given
Reader = Callable[[bytes, Defaults, Report], Iterator[Rule]]


class Format(NamedTuple):
    """How a list is read."""

    read: Reader
    #: whether each line stands for itself, so that a source can be cut at any of their ends and read in pieces; the
    #: report of each piece knows its first line, and they are merged
    is_by_line: bool


FORMATS: dict[str, Format] = {
    "yaml": Format(read_yaml, is_by_line=False),
    "hashed-uris": Format(read_hashed_uris, is_by_line=True),
    "domains": Format(read_domains, is_by_line=True),
    "hosts": Format(read_hosts, is_by_line=True),
    "urls": Format(read_urls, is_by_line=True),
    "squidguard-urls": Format(read_squidguard_urls, is_by_line=True),
    "dnsmasq": Format(read_dnsmasq, is_by_line=True),
    "rpz": Format(read_rpz, is_by_line=False),
    "adblock": Format(read_adblock, is_by_line=True),
    "chromium": Format(read_chromium, is_by_line=True),
    "csv": Format(read_csv, is_by_line=False),
    "addresses": Format(read_addresses, is_by_line=True),
    "sha256": Format(read_sha256, is_by_line=True),
    "safebrowsing-raw": Format(read_safebrowsing_raw, is_by_line=False),
}
#: folders by format: the files in them, each of which may be missing, and theirs
FOLDERS: Mapping[str, Mapping[str, Format]] = {
    "squidguard": {
        "domains": Format(read_squidguard_domains, is_by_line=True),
        "urls": FORMATS["squidguard-urls"],
        "expressions": Format(read_squidguard_expressions, is_by_line=True),
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


def format_of(path: Path) -> str | None:
    """The format that a file's name tells (the bare names are squidGuard's and the system's), or ``None``.

    >>> format_of(Path("ads.yaml")), format_of(Path("ut1/games/domains")), format_of(Path("list.txt"))
    ('yaml', 'domains', None)
    """
    return _ENDINGS.get(path.suffix.lower()) or _NAMES.get(path.name)
