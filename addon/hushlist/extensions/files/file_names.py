"""The names that a file may get at a client: of ``Content-Disposition`` in all its spellings, and of its address.

Clients differ in what they take, so that every name counts which one of them may take.

Spec: RFC 6266, 4.3; RFC 8187, 3.2; RFC 2231, 3 (continuations, which some clients read); RFC 2047 (which some read,
though it is none of a parameter's)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.errors import MessageError
from email.header import decode_header, make_header
from urllib.parse import unquote, unquote_to_bytes

#: stands for a name that is not read, but by a client perhaps; no file has it
UNREAD = "/not read"
#: characters of a header, and of a name, that are read; and headers of a message
_LONGEST, _MOST = 4096, 8
#: whether it is the name of a file, whether it is extended or continued, its number in RFC 2231, whether that piece is
#: extended, its value; each character can be read in one way alone, so that the time is linear
_PARAMETER = re.compile(
    r"""(?:^|[;\s"])(file)?name\s*(\*([0-9]*)(\*?)\s*)?=\s*("(?:[^"\\]|\\.)*"?|[^;]*)""", re.IGNORECASE | re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
#: what ends a name, or is left out of it, where it becomes a file
_FOLDERS = re.compile(r"[/\\]")
#: white space of every kind
_SPACE = "".join(character for character in map(chr, range(0x3001)) if character.isspace())
_UNSEEN = re.compile(r"[\0-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def names_of_disposition(headers: Iterable[str]) -> Iterator[str]:
    r"""Every name that a client may read in the values of ``Content-Disposition``; ``UNREAD`` if there may be more.

    >>> list(names_of_disposition(["attachment; filename=\"a.txt\"; filename*=UTF-8''a%2Eexe"]))
    ['a.txt', 'a.exe']
    """
    for count, header in enumerate(headers):
        if count >= _MOST:
            yield UNREAD
            return
        if len(header) > _LONGEST:
            yield UNREAD
        yield from dict.fromkeys(_names(header[:_LONGEST]))


def _names(header: str) -> Iterator[str]:
    pieces: dict[int, list[str]] = {}
    # a field of a form has a name, too, which is not what people know its file by
    of_files_first = sorted(_PARAMETER.findall(header), key=lambda parameter: not parameter[0])
    for _, mark, number, is_piece_extended, value in of_files_first:
        is_extended = bool(mark) and (bool(is_piece_extended) or not number)
        for text in _spellings(value.strip()):
            if number:
                pieces.setdefault(int(number), []).append(_extended(text) if is_extended else text)
            else:
                yield from _readings(text, is_extended=is_extended)
    if not pieces:
        return
    if any(len(set(texts)) > 1 for texts in pieces.values()):
        yield UNREAD  # which of them goes with which is not said
    numbers = sorted(pieces)
    in_order = [number for at, number in enumerate(numbers) if number == at]
    for read in (in_order, numbers):  # some clients stop where a number is left out
        yield from _readings("".join(pieces[number][0] for number in read), is_extended=False)


def _spellings(value: str) -> Iterator[str]:
    """What clients take for the value: without its quotes; of one without them, all of it or up to a space."""
    if value[:1] == '"':
        yield _QUOTED_PAIR.sub(r"\1", value[1:].removesuffix('"'))
        return
    yield value
    if len(words := value.split(None, 1)) > 1:
        yield words[0]


def _readings(text: str, *, is_extended: bool) -> Iterator[str]:
    """The names that clients make of one value: as it is, without its quotes or escapes, and as a word of mail."""
    if is_extended:
        yield file_name(_extended(text))
        return
    yield file_name(text)
    if text[:1] == "'" or text[-1:] == "'":
        yield file_name(text.strip("'"))
    if "%" in text:
        yield file_name(unquote(text).strip("'"))
    if "=?" in text:
        try:
            yield file_name(str(make_header(decode_header(text))))
        except (MessageError, LookupError, ValueError):
            yield UNREAD


def _extended(text: str) -> str:
    """A value with a character set and a language, ``UTF-8''a%20b``; what is not so is read without them."""
    pieces = text.split("'", 2)
    charset = pieces[0] if len(pieces) > 1 and pieces[0] else "utf-8"
    octets = unquote_to_bytes((pieces[-1] or text.strip("'")).encode("utf-8", "surrogateescape"))
    try:
        return octets.decode(charset, "replace")
    except (LookupError, ValueError):
        return octets.decode("utf-8", "replace")


def name_of_target(target: bytes) -> str:
    """The name in an address: the last segment of its path, without escapes; empty if there is none.

    >>> name_of_target(b"/a/setup%2Eexe?x=1/y")
    'setup.exe'
    """
    path = target.partition(b"?")[0].partition(b"#")[0]
    return file_name(unquote_to_bytes(path.rpartition(b"/")[2][-_LONGEST:]).decode("utf-8", "replace"))


def file_name(text: str) -> str:
    """A name as systems make a file of it: without folders, invisible characters, and dots and spaces at its end.

    Of one that is too long, the end is left, which says what it is.
    """
    return _UNSEEN.sub("", _FOLDERS.split(text[-_LONGEST:])[-1]).lstrip(_SPACE).rstrip(f"{_SPACE}.")


def endings_of(name: str) -> list[str]:
    """What stands after each dot of a name but a first one, in lower case: the longest ending first.

    >>> endings_of("logs.TAR.gz"), endings_of(".profile")
    (['tar.gz', 'gz'], [])
    """
    pieces = name.lstrip(".").casefold().split(".")
    return [".".join(pieces[at:]) for at in range(1, len(pieces))]
