"""The formats of lists by name, and how a file's ending tells one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

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
from hushlist.lists.squidguard import SQUIDGUARD_FILES, read_squidguard_urls
from hushlist.lists.yaml_rules import read_yaml
from hushlist.match.rule import Rule

#: octets of a source -> its rules, with errors and warnings in the report
Reader = Callable[[bytes, Defaults, Report], list[Rule]]

FORMATS: dict[str, Reader] = {
    "yaml": read_yaml,
    "hashed-uris": read_hashed_uris,
    "domains": read_domains,
    "hosts": read_hosts,
    "urls": read_urls,
    "squidguard-urls": read_squidguard_urls,
    "dnsmasq": read_dnsmasq,
    "rpz": read_rpz,
    "adblock": read_adblock,
    "chromium": read_chromium,
    "csv": read_csv,
    "addresses": read_addresses,
    "sha256": read_sha256,
    "safebrowsing-raw": read_safebrowsing_raw,
}
#: folders by format: the files in them, each of which may be missing, and their readers
FOLDERS: Mapping[str, Mapping[str, Reader]] = {"squidguard": SQUIDGUARD_FILES}
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
