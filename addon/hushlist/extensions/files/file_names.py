"""The names that a file may get at a client: of ``Content-Disposition`` in all its spellings, and of its address.

Clients differ in what they take, so that every name counts which one of them may take.

Spec: RFC 6266, 4.3; RFC 8187, 3.2; RFC 2231, 3 (continuations, which some clients read); RFC 2047 (which some read,
though it is none of a parameter's)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from urllib.parse import unquote, unquote_to_bytes

#: characters of a header, and of a name, that are read
_LONGEST = 4096
#: name, its number in RFC 2231, whether it is extended, its value
_PARAMETER = re.compile(
    r"""(?:^|[;\s"])(?:file)?name\s*(?:\*(\d{1,2}))?(\*)?\s*=\s*("(?:[^"\\]|\\.)*"?|[^;]*)""", re.IGNORECASE | re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
#: what ends a name, or is left out of it, where it becomes a file
_FOLDERS = re.compile(r"[/\\]")
#: white space of every kind
_SPACE = "".join(character for character in map(chr, range(0x3001)) if character.isspace())
_UNSEEN = re.compile(r"[\0-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def names_of_disposition(headers: Iterable[str]) -> Iterator[str]:
    r"""Every name that a client may read in the values of ``Content-Disposition``.

    >>> list(names_of_disposition(["attachment; filename=\"a.txt\"; filename*=UTF-8''a%2Eexe"]))
    ['a.txt', 'a.exe']
    """
    for header in headers:
        continued: dict[int, str] = {}
        for number, is_extended, value in _PARAMETER.findall(header[:_LONGEST]):
            text = value.strip()
            if text[:1] == '"':
                text = _QUOTED_PAIR.sub(r"\1", text[1:].removesuffix('"'))
            if number:
                continued[int(number)] = _extended(text) if is_extended else text
                continue
            yield from map(file_name, _readings(text, is_extended=bool(is_extended)))
        if continued:
            yield file_name("".join(continued[number] for number in sorted(continued)))


def _readings(text: str, *, is_extended: bool) -> Iterator[str]:
    """What clients make of one value: as it is, without its escapes, and as a word of mail."""
    if is_extended:
        yield _extended(text)
        return
    yield text
    if "%" in text:
        yield unquote(text)
    if "=?" in text:
        try:
            yield str(make_header(decode_header(text)))
        except (HeaderParseError, LookupError, UnicodeError):
            return


def _extended(text: str) -> str:
    """A value with a character set and a language, ``UTF-8''a%20b``; what is not so is read without them."""
    charset, mark, rest = text.partition("'")
    octets = unquote_to_bytes(rest.partition("'")[2] if mark else text)
    try:
        return octets.decode(charset if mark and charset else "utf-8", "replace")
    except LookupError:
        return octets.decode("utf-8", "replace")


def name_of_target(target: bytes) -> str:
    """The name in an address: the last segment of its path, without escapes; empty if there is none.

    >>> name_of_target(b"/a/setup%2Eexe?x=1/y")
    'setup.exe'
    """
    path = target.partition(b"?")[0].partition(b"#")[0]
    return file_name(unquote_to_bytes(path.rpartition(b"/")[2][:_LONGEST]).decode("utf-8", "replace"))


def file_name(text: str) -> str:
    """A name as systems make a file of it: without folders, invisible characters, and dots and spaces at its end."""
    return _UNSEEN.sub("", _FOLDERS.split(text[:_LONGEST])[-1]).lstrip(_SPACE).rstrip(f"{_SPACE}.")


def endings_of(name: str) -> list[str]:
    """What stands after each dot of a name but a first one, in lower case: the longest ending first.

    >>> endings_of("logs.TAR.gz"), endings_of(".profile")
    (['tar.gz', 'gz'], [])
    """
    pieces = name.lstrip(".").casefold().split(".")
    return [".".join(pieces[at:]) for at in range(1, len(pieces))]
