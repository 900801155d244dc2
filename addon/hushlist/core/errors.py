"""The package's errors, and text that is safe to print.

Errors carry data, not only a message:

    HushlistError
    ├── UrlError        a URL, host or name that cannot be read
    ├── FetchError      a list, or another answer of a server, that cannot be fetched
    ├── MessageError    a message of the Safe Browsing protocol that cannot be used
    └── SourceError     a policy or a list that cannot be used, with all its problems

A *problem* is one thing wrong at one place of a file; it prints as ``file:line: what: why``.

Text from outside (URLs, names, titles, files) must be ``printable`` before it reaches a terminal or a log.
``logger_of`` does that for log messages, ``escape_message`` for those of others, and ``hushlist.cli.common`` for the
output of commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import logging


#: a module of it cannot be loaded
INCOMPLETE = "the package on the disk is not complete, or is being replaced: {}"


class HushlistError(Exception):
    """Root of every error that this package raises on purpose."""


_USER_INFORMATION = re.compile(r"//[^/?#\\]*@")


def without_user(url: bytes | str) -> bytes | str:
    """A URL without the user information of its authority, which must never be shown or written (RFC 3986, 7.5).

    >>> without_user("http://me:se@cret@h.example/@x"), without_user(b"//me@h.example")
    ('http://h.example/@x', b'//h.example')
    """
    if isinstance(url, bytes):
        if b"@" not in url:  # as most
            return url
        return _USER_INFORMATION.sub("//", url.decode("latin-1")).encode("latin-1")
    return _USER_INFORMATION.sub("//", url)


def printable(text: str | None) -> str:
    r"""Text for a terminal or a log: control characters, line ends and changes of writing direction become escapes.

    >>> print(printable("a\x1b[31m\n\u202eb\u00e9"))
    a\x1b[31m\n\u202ebé
    """
    text = text or ""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


#: characters at which a spreadsheet takes a cell for a formula; some take the wide ones, too
_FORMULA = tuple("=+-@＝＋－＠")


def cell_text(text: str) -> str:
    """Text that is text in a spreadsheet, too.

    >>> cell_text("=1+1"), cell_text("ads.example")
    ("'=1+1", 'ads.example')
    """
    return printable(f"'{text}" if text.startswith(_FORMULA) else text)


#: they shape letters of Persian and Hindi, and are the only ones of their kind that ``one_line`` keeps
_JOINERS = "\u200c\u200d"


def one_line(text: str, most: int = 300) -> str:
    """What a person wrote, as one line of limited length without control characters.

    >>> one_line("  for my\\n homework\\x1b[2J ")
    'for my homework [2J'
    """
    kept = (letter if letter.isprintable() or letter in _JOINERS else " " for letter in text[: 4 * most])
    return " ".join("".join(kept).split())[:most]


def to_json(value: object) -> str:
    r"""One line of JSON that is printable.

    >>> print(to_json({"a": "\x1b\x7f\u202e"}))
    {"a": "\u001b\u007f\u202e"}
    """
    # json escapes every other control character; this one can only be inside a string
    return _encode(value).replace("\x7f", "\\u007f")


#: a value that is within itself would end in an error in any case
_encode = json.JSONEncoder(check_circular=False).encode


def number_of(number: int, singular: str, plural: str) -> str:
    """A number of things.

    >>> number_of(1, "entry", "entries"), number_of(2000, "entry", "entries")
    ('1 entry', '2,000 entries')
    """
    return f"{number:,} {singular if number == 1 else plural}"


def right_aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose columns, but for the last one, are numbers.

    >>> list(right_aligned(("rules", "list"), [("7", "ads"), ("12", "own")]))
    ['rules  list', '    7  ads', '   12  own']
    """
    widths = [max(map(len, column)) for column in list(zip(heads, *rows, strict=True))[:-1]]
    for *numbers, last in (heads, *rows):
        yield "  ".join((*map(str.rjust, numbers, widths), last)).rstrip()


class Lines:
    r"""Text of several lines for a log message; each line is made printable.

    >>> str(Lines("a\x1b[31m\nb"))
    'a\\x1b[31m\nb'
    """

    def __init__(self, text: object) -> None:
        self._text = text

    def __str__(self) -> str:
        return "\n".join(map(printable, str(self._text).split("\n")))


def _make_printable(record: logging.LogRecord) -> bool:
    """A filter of ``logging``: makes messages printable, with their arguments and exceptions; every record passes."""
    if isinstance(record.args, tuple):
        args = record.args
        record.args = tuple(
            argument if isinstance(argument, int | float | Lines) else _Printed(argument) for argument in args
        )
    _tell_exception(record)
    vars(record)[_IS_PRINTABLE] = True
    return True


#: the attribute of a record that is printable, with those of its line ends that are meant
_IS_PRINTABLE = "is_printable"


def escape_message(record: logging.LogRecord, *, has_lines: bool = False) -> None:
    r"""Make a record printable that anybody has logged: its message is one line, and an exception's lines are indented.

    ``has_lines``: the line ends of its message are meant. Messages of ``logger_of`` stay as they are. Raises what the
    message raises where it cannot be made.
    """
    if not hasattr(record, _IS_PRINTABLE):
        message = record.getMessage()
        if not message.isprintable():
            record.msg, record.args = str(Lines(message)) if has_lines else printable(message), ()
        _tell_exception(record)
        vars(record)[_IS_PRINTABLE] = True


def _tell_exception(record: logging.LogRecord) -> None:
    """Tell a record's exception in its message: whoever formats the record would print it as it is."""
    error = record.exc_info and record.exc_info[1]
    if error:
        from traceback import format_exception

        # Its lines are indented, so that none looks like a message.
        lines = "".join(format_exception(error)).splitlines()
        trace = "\n".join(f"  {printable(line)}" for line in lines)
        record.msg, record.args = "%s\n%s", (record.getMessage(), trace)
        record.exc_info = None


class _Printed:
    """A message's argument; ``%s`` and ``%r`` print it safely."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return printable(str(self._value))

    def __repr__(self) -> str:
        return printable(repr(self._value))


def logger_of(module: str) -> logging.Logger:
    """A module's logger; it makes messages printable."""
    import logging

    logger = logging.getLogger(module)
    logger.addFilter(_make_printable)
    return logger


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """The nearest of the words that are known, as a question behind a message; empty if none is near.

    >>> did_you_mean("polisy", ["mode", "policy"]), did_you_mean("x", ["mode", "policy"])
    ("; did you mean 'policy'?", '')
    """
    from difflib import get_close_matches

    near = get_close_matches(word[:80], tuple(words), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


class Excess(str):
    """Why a request is too long, or too much work: whatever the policy says of what cannot be read, it does not pass.

    Else a long enough spelling of an address would be a way around every rule.
    """

    __slots__ = ()


class UrlError(HushlistError, ValueError):
    """A URL, host or name that cannot be read.

    >>> str(UrlError(b"mailto:me", "it names no host"))
    "'mailto:me': it names no host"
    """

    def __init__(self, value: bytes | str, reason: str, position: int | None = None) -> None:
        #: the whole input; the message shows its first 200 bytes or characters, without user information
        self.value = value
        self.reason = reason
        #: offset of the fault in ``value``, in bytes or characters as its type is
        self.position = position
        at = "" if position is None else f" (at position {position})"
        shown = without_user(value)
        # show octets as text is shown, without Python's "b" prefix
        text = repr(shown[:200]).removeprefix("b") + ("..." if len(shown) > 200 else "")
        super().__init__(f"{text}: {reason}{at}")


class FetchError(HushlistError):
    """A list, or another answer of a server, cannot be fetched; the message says why, without any key or prefix."""

    def __init__(self, why: str, retry_after: float = 0.0, *, is_refusal: bool = False) -> None:
        super().__init__(why)
        #: seconds that the server asks to wait
        self.retry_after = retry_after
        #: whether it has answered, with another status than 200
        self.is_refusal = is_refusal


class MessageError(HushlistError, ValueError):
    """A message of the Safe Browsing protocol that cannot be used: a request, an answer, or what is in it."""


class Problem(NamedTuple):
    """One fault at one place of a file.

    >>> str(Problem("lists/ads.yaml", 7, "'com..'", "it names no host"))
    "lists/ads.yaml:7: 'com..': it names no host"
    """

    source: str
    #: counted from 1; 0 if the problem is with the whole file
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        # if the whole file is wrong, name it once
        is_named = not self.line and self.what == PurePath(self.source).name
        return printable(f"{place}: {self.why}" if is_named else f"{place}: {self.what}: {self.why}")


class SourceError(HushlistError):
    """A policy or list cannot be used; carries all its problems in the order given.

    >>> raise SourceError([Problem("p.yaml", 3, "layers", "there is no such file")])
    Traceback (most recent call last):
        ...
    hushlist.core.errors.SourceError: p.yaml:3: layers: there is no such file
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
