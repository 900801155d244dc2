"""The formats of lists by name, and how a file's ending tells one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hushlist.lists.hashed_uris import read_hashed_uris
from hushlist.lists.plain import read_domains, read_hosts, read_urls
from hushlist.lists.source import Defaults, Report
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
}
_ENDINGS = {".yaml": "yaml", ".yml": "yaml", ".hashed": "hashed-uris", ".hosts": "hosts"}
_NAMES = {"domains": "domains", "urls": "urls", "hosts": "hosts"}


def format_of(path: Path) -> str | None:
    """The format that a file's name tells (the bare names are squidGuard's and the system's), or ``None``.

    >>> format_of(Path("ads.yaml")), format_of(Path("ut1/games/domains")), format_of(Path("list.txt"))
    ('yaml', 'domains', None)
    """
    return _ENDINGS.get(path.suffix.lower()) or _NAMES.get(path.name)
