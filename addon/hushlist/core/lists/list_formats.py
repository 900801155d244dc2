"""The formats of lists by name, and by the name of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path, PurePath

from hushlist.core.extension import Extension, ListFormat, built_in, usable_extensions
from hushlist.core.lists.packed_lists import open_list, unpacked_name

_PLAIN, _HASHES = "hushlist.core.lists.plain_lists", "hushlist.core.lists.hash_lists"
_ADDRESS = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]{2,45}"
#: the formats that the core reads
CORE_FORMATS = {
    "yaml": ListFormat(
        "hushlist.core.lists.yaml_rules:read_yaml",
        is_by_line=False,
        endings=(".yaml", ".yml"),
        can_be_sealed=True,
        is_document=True,
    ),
    "hashed-uris": ListFormat(
        f"{_HASHES}:read_hashed_uris", is_by_line=True, endings=(".hashed",), entry=r"(?i:hashed):\S+"
    ),
    "sha256": ListFormat(
        f"{_HASHES}:read_sha256",
        is_by_line=True,
        endings=(".sha256",),
        entry=r"(?:[0-9A-Fa-f]{2}){4,32}|seal:\s*[0-9a-f]{16}",
        can_be_sealed=True,
    ),
    "safebrowsing-raw": ListFormat(f"{_HASHES}:read_safebrowsing_raw", is_by_line=False),
    "hosts": ListFormat(
        f"{_PLAIN}:read_hosts",
        is_by_line=True,
        endings=(".hosts",),
        names=("hosts",),
        entry=rf"(?:0|(?:{_ADDRESS})(?:%\w+)?)\s+(?!-\s)(?=[^#]*[A-Za-z])\S.*",
    ),
    "addresses": ListFormat(
        f"{_PLAIN}:read_addresses",
        is_by_line=True,
        endings=(".netset", ".ipset"),
        entry=rf"(?:{_ADDRESS})(?:/[0-9]{{1,3}}|\s*-\s*(?:{_ADDRESS}))?(?:\s*;.*)?",
    ),
    "urls": ListFormat(
        f"{_PLAIN}:read_urls",
        is_by_line=True,
        entry=r"[A-Za-z][A-Za-z0-9+.-]*://\S+|[^\s/@,|^*$!#][^\s/@,|^*$!#.]*+\.[^\s/@,|^*$!#]++/\S*",
        also=("domains", "addresses"),
    ),
    "domains": ListFormat(
        f"{_PLAIN}:read_domains",
        is_by_line=True,
        names=("domains",),
        entry=r"\.?(?:\*\.)?[\w-]+(?:(?>\.[\w-]+))++\.?",
        also=("addresses",),
    ),
}
#: octets in which the head of a list is looked for, where its name leaves two formats
_HEAD = 1 << 12
#: of a file whose format neither its name nor its content tells: an error
UNTOLD = ListFormat("hushlist.core.lists.format_detection:read_untold", is_by_line=False)


def list_formats(extensions: Iterable[Extension]) -> dict[str, ListFormat]:
    """The core's formats of lists, and those of extensions, by name."""
    return CORE_FORMATS | {name: form for each in extensions for name, form in each.list_formats.items()}


#: the formats of a policy that names no extensions: of lists, and of folders
FORMATS: dict[str, ListFormat] = list_formats(built_in())
FOLDERS: Mapping[str, Mapping[str, ListFormat]] = {
    name: files for each in built_in() for name, files in each.folder_formats.items()
}


def format_named(name: str) -> ListFormat:
    """A format by its name, also of an extension that an installed package brings; ``KeyError`` if there is none."""
    if name in FORMATS:
        return FORMATS[name]
    return list_formats(usable_extensions())[name]


def folder_named(name: str | None) -> Mapping[str, ListFormat] | None:
    """The files of a folder's format; ``None`` if no format of folders has that name."""
    if name is None or name in FOLDERS or name in FORMATS:
        return FOLDERS.get(name or "")
    return next((each.folder_formats[name] for each in usable_extensions() if name in each.folder_formats), None)


@cache
def _by_name() -> tuple[dict[str, str], dict[str, str], frozenset[str]]:
    """Format by the ending of a file's name, format by a whole name, and the names of files in folders' formats."""
    # of several formats with one ending, the content tells whether the first is meant
    endings = {ending: name for name, form in reversed(FORMATS.items()) for ending in form.endings}
    names = {whole: name for name, form in FORMATS.items() for whole in form.names}
    return endings, names, frozenset(name for files in FOLDERS.values() for name in files)


def list_format_of(path: PurePath, foreign: Iterable[Extension] = ()) -> str | None:
    """The format of a file by its name, or ``None``; ``foreign``: extensions of other packages in use.

    Names without an ending are squidGuard's and the system's.


    >>> list_format_of(Path("ads.yaml")), list_format_of(Path("ut1/games/domains")), list_format_of(Path("list.txt"))
    ('yaml', 'domains', None)
    """
    endings, names, parts = _by_name()
    path = unpacked_name(path)
    for extension in foreign:
        for name, form in extension.list_formats.items():
            if path.suffix.lower() in form.endings or path.name in form.names:
                return name
    is_part = path.stem in parts and path.suffix[1:].isdecimal()
    return endings.get(path.suffix.lower()) or names.get(path.stem if is_part else path.name)


def unnamed_reader(path: PurePath, in_use: Container[str] = ()) -> str:
    """Which installed extension that is not in use reads files with such a name; empty if there is none."""
    if list_format_of(path) is None:
        for each in usable_extensions():
            if each.name not in in_use and list_format_of(path, [each]):
                ending = unpacked_name(path).suffix or path.name
                return f"the installed extension {each.name} reads {ending}: add it to 'extensions'"
    return ""


@cache
def _alike(form: str) -> dict[str, re.Pattern[str]]:
    """Formats whose files may be named as those of a format, and what their texts begin with."""
    endings = set(FORMATS[form].endings) if form in FORMATS else set[str]()
    shared = {name: other.head for name, other in FORMATS.items() if other.head and endings & {*other.endings}}
    return {name: re.compile(head) for name, head in shared.items() if name != form}


def by_head(path: Path, form: str) -> str:
    """Which of the formats whose files may be named as those of a format a file begins as, or else the format.

    Raises:
        OSError: the file cannot be read.
        ValueError: no file can have that name.
    """
    if not (alike := _alike(form)):
        return form
    with open_list(path) as file:
        head = file.read(_HEAD).decode(errors="replace").lstrip("\ufeff").replace("\r\n", "\n")
    return next((name for name, pattern in alike.items() if pattern.match(head)), form)


def files_of_folder(folder: Path, form: str, is_there: Callable[[Path], bool]) -> Iterator[tuple[Path, ListFormat]]:
    """The files of a folder's format that are there: each name, and its parts, such as ``domains.0``, ``domains.1``."""
    for name, list_format in (folder_named(form) or {}).items():
        if is_there(folder / name):
            yield folder / name, list_format
        for number in count():
            part = folder / f"{name}.{number}"
            if is_there(part):
                yield part, list_format
            elif number:  # the first may be .0 or .1
                break
