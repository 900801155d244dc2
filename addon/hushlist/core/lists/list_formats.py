"""The formats of lists by name, and by the name of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import NamedTuple

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Rule, RuleBlock, each_rule
from hushlist.core.system.files import LONGEST_DOCUMENT, LONGEST_LIST, LONGEST_WHOLE

#: octets of a source -> its rules in the order of their lines, one by one or many at once, with errors and warnings in
#: the report; the report is complete after the last rule
ListReader = Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]


class ListFormat(NamedTuple):
    """How to read a list. Its module is imported when a list is read."""

    #: a module below ``hushlist``, and the function of it that reads
    module: str
    reader: str
    #: whether lines do not depend on each other, so that a source can be cut into chunks of lines; each chunk has its
    #: own report, which knows its first line
    is_by_line: bool

    def read_blocks(self, octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
        """The rules of a source, many at once where that is possible."""
        reader: ListReader = getattr(import_module(f"hushlist.{self.module}"), self.reader)
        return reader(octets, defaults, report)

    def read(self, octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
        """The same rules, one by one."""
        return each_rule(self.read_blocks(octets, defaults, report))

    @property
    def longest(self) -> int:
        """The most octets that a source may have."""
        if self.is_by_line:
            return LONGEST_LIST
        return LONGEST_DOCUMENT if self.reader == "read_yaml" else LONGEST_WHOLE


_SQUIDGUARD = "extensions.formats.squidguard_lists"
FORMATS: dict[str, ListFormat] = {
    "yaml": ListFormat("core.lists.yaml_rules", "read_yaml", is_by_line=False),
    "hashed-uris": ListFormat("core.lists.hash_lists", "read_hashed_uris", is_by_line=True),
    "domains": ListFormat("core.lists.plain_lists", "read_domains", is_by_line=True),
    "hosts": ListFormat("core.lists.plain_lists", "read_hosts", is_by_line=True),
    "urls": ListFormat("core.lists.plain_lists", "read_urls", is_by_line=True),
    "squidguard-urls": ListFormat(_SQUIDGUARD, "read_squidguard_urls", is_by_line=True),
    "dnsmasq": ListFormat("core.lists.plain_lists", "read_dnsmasq", is_by_line=True),
    "rpz": ListFormat("extensions.formats.rpz", "read_rpz", is_by_line=False),
    "adblock": ListFormat("extensions.adblock.filter_lists", "read_adblock", is_by_line=True),
    "adblock-hosts": ListFormat("extensions.adblock.filter_lists", "read_adblock_hosts", is_by_line=True),
    "adblock-dns": ListFormat("extensions.adblock.filter_lists", "read_adblock_dns", is_by_line=True),
    "chromium": ListFormat("extensions.adblock.filter_lists", "read_chromium", is_by_line=True),
    "csv": ListFormat("extensions.formats.csv_column", "read_csv", is_by_line=False),
    "addresses": ListFormat("core.lists.plain_lists", "read_addresses", is_by_line=True),
    "sha256": ListFormat("core.lists.hash_lists", "read_sha256", is_by_line=True),
    "safebrowsing-raw": ListFormat("core.lists.hash_lists", "read_safebrowsing_raw", is_by_line=False),
}
#: of a file whose format neither its name nor its content tells: an error
UNTOLD = ListFormat("core.lists.format_detection", "read_untold", is_by_line=False)
#: format of a folder -> the names of its files and their formats; any file may be missing
FOLDERS: Mapping[str, Mapping[str, ListFormat]] = {
    "squidguard": {
        "domains": ListFormat(_SQUIDGUARD, "read_squidguard_domains", is_by_line=True),
        "urls": FORMATS["squidguard-urls"],
        "expressions": ListFormat(_SQUIDGUARD, "read_squidguard_expressions", is_by_line=True),
    },
}
_ENDINGS = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".hashed": "hashed-uris",
    ".sha256": "sha256",
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
    is_part = path.stem in FOLDERS["squidguard"] and path.suffix[1:].isdecimal()
    return _ENDINGS.get(path.suffix.lower()) or _NAMES.get(path.stem if is_part else path.name)


def files_of_folder(folder: Path, form: str, is_there: Callable[[Path], bool]) -> Iterator[tuple[Path, ListFormat]]:
    """The files of a folder's format that are there: each name, and its parts, such as ``domains.0``, ``domains.1``."""
    for name, own in FOLDERS[form].items():
        if is_there(folder / name):
            yield folder / name, own
        for number in count():
            part = folder / f"{name}.{number}"
            if is_there(part):
                yield part, own
            elif number:  # the first may be .0 or .1
                break
