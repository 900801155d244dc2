"""Shared by the commands: exit codes, parsers, reading URLs, text for terminals, and a progress line.

The progress line goes to standard error, and only if that is a terminal; whatever is printed removes it first. Colors
go to terminals only, and to none where ``NO_COLOR`` is set.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TextIO, TypeAlias, TypeVar

from hushlist.core.errors import Problem, UrlError, printable, to_json
from hushlist.core.extension import Extension, usable_extensions
from hushlist.core.system.files import reason_of

if TYPE_CHECKING:
    from hushlist.extensions.databases.postgres_address import PostgresAddress

GOOD, FINDINGS, BAD = 0, 1, 2
#: an error that no code expects: ``EX_SOFTWARE`` of ``sysexits.h``
DEFECT = 70
#: nobody reads the output any more: as a shell tells of a program that SIGPIPE has ended
CLOSED = 128 + 13
#: most octets of a line of standard input
LONGEST_LINE = 1 << 20

#: the type of the object that commands' parsers are added to; argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command = Callable[[argparse.Namespace], int]
_Read = TypeVar("_Read")


@cache
def installed_extensions() -> tuple[Extension, ...]:
    """The extensions that installed packages bring; a remark says why others cannot be used."""
    return usable_extensions(lambda name, error: remark(f"the extension {name} cannot be used: {error}"))


# -- parsers -----------------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """A parser whose messages escape the arguments that they quote."""

    def error(self, message: str) -> NoReturn:
        """Report wrong arguments, and exit."""
        super().error(printable(message))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse's; but a command refuses what it does not know by itself, with its usage and not that of all."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def add_command(
    commands: Commands, name: str, command: Command, text: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=sentence(text), epilog=epilog)
    parser.set_defaults(command=command)
    return parser


def add_group(commands: Commands, name: str, text: str, about: str | None = None) -> Commands:
    """Add a command that has commands of its own, which are added to the result; ``about`` is told of it at length."""
    parser = commands.add_parser(name, help=text, description=sentence(text) if about is None else about)
    return add_choice(parser)


def add_choice(parser: argparse.ArgumentParser, **more: Any) -> Commands:
    """Let a parser take one of the commands that are added to the result; without one, it says which there are."""

    def list_commands(_: argparse.Namespace) -> NoReturn:
        parser.print_help(sys.stderr)
        parser.exit(BAD, f"{parser.prog}: say which COMMAND\n")

    parser.set_defaults(command=list_commands)
    return parser.add_subparsers(metavar="COMMAND", **more)


def add_urls_command(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Add a command that takes URLs; ``urls_of`` reads them."""
    parser = add_command(commands, name, command, text)
    parser.add_argument("urls", nargs="+", metavar="URL", help="a URL; '-' reads one a line from standard input")
    return parser


def add_list(parser: argparse.ArgumentParser, name: str, lines: Iterable[str], text: str) -> None:
    """Add an option that prints lines and exits, as ``--help`` does."""

    class PrintLines(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
            print_lines(lines)
            parser.exit(GOOD)

    parser.add_argument(name, action=PrintLines, nargs=0, help=text)


def add_policy(
    parser: argparse.ArgumentParser, text: str = "the policy file (default: that of the first start, or the shipped)"
) -> None:
    parser.add_argument("--policy", type=Path, metavar="FILE", help=text)


def parse_number(text: str) -> int:
    """A number from 1 on, with at most nine digits."""
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")


def checked(parse: Callable[[str], _Read], why: str | None = None) -> Callable[[str], _Read]:
    """A type for an argument: if ``parse`` raises ``ValueError``, the user reads why, or else the error's message."""

    def read(text: str) -> _Read:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error) if why is None else f"{text!r} {why}") from error

    return read


@checked
def parse_place(text: str) -> Path | PostgresAddress:
    from hushlist.extensions.databases.postgres_address import parse_postgres_address

    return parse_postgres_address(text) if text.startswith(("postgresql:", "postgres:")) else Path(text)


def sentence(text: str) -> str:
    """A help text as a description.

    >>> sentence("print it")
    'Print it.'
    """
    return f"{text[0].upper()}{text[1:]}."


# -- input -------------------------------------------------------------------------------------------------------------


def urls_of(arguments: argparse.Namespace) -> Iterator[bytes]:
    """The URLs as octets, as given, without line ends.

    Raises:
        UrlError: a line is longer than any URL, or a delimiter stands on one side alone.
    """
    from hushlist.core.url.parts import as_typed  # the other commands start faster without it

    for url in arguments.urls:
        if url == "-":
            yield from map(without_end, _lines(sys.stdin.buffer))
        else:
            yield as_typed(url)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise UrlError(line, f"the line is longer than {LONGEST_LINE:,} octets, the most that are read")
        yield line


def expand_folders(names: Iterable[str]) -> list[str]:
    """Files; a folder is replaced by its files, sorted by name, without hidden files and subfolders."""
    paths: list[str] = []
    for name in names:
        folder = Path(name)
        files = (file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else None
        paths += [name] if files is None else sorted(str(file) for file in files if not file.name.startswith("."))
    return paths


def without_end(line: bytes) -> bytes:
    r"""A line without its line end, Unix or Windows.

    >>> without_end(b"a\r\n"), without_end(b"a\n"), without_end(b"a")
    (b'a', b'a', b'a')
    """
    return line.removesuffix(b"\n").removesuffix(b"\r")


def each(urls: Iterable[bytes], show: Callable[[bytes], object]) -> int:
    """Show each URL; one that cannot be read is reported on standard error, and the others follow."""
    code = GOOD
    for url in urls:
        try:
            show(url)
        except UrlError as error:
            code = complain(error)
    return code


# -- output ------------------------------------------------------------------------------------------------------------


# Only this module prints: text from others can neither start a line of its own nor control a terminal.

#: a word at which a reader looks first -> its color: red, yellow or green
_STYLES = {"block": "31", "hushlist:": "31", "warn": "33", "warning:": "33", "allow": "32", "pass": "32"}


def has_colors(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colors, and its user wants them.

    Spec: https://no-color.org: "when present and not an empty string (regardless of its value)"
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paint(line: str, word: str, stream: TextIO) -> str:
    """A line whose first such word has its color, if the stream shows colors."""
    if word not in _STYLES or not has_colors(stream):
        return line
    return line.replace(word, f"\x1b[{_STYLES[word]}m{word}\x1b[0m", 1)


def complain(what: object) -> int:
    """Print an error on standard error; returns the exit code for it. Of a file, it says who needs a permission."""
    if isinstance(what, OSError) and what.filename:
        what = f"{what.filename}: {reason_of(what)}"
    remark(f"hushlist: {what}", "hushlist:")
    return BAD


def remark(what: object, word: str = "") -> None:
    """Print on standard error what a program that reads the output does not need; a word of it may have a color."""
    _progress_line.remove()
    _print(_paint(printable(str(what)), word, sys.stderr), sys.stderr, flush=True)


def complain_of(problems: Iterable[Problem]) -> int:
    """Print problems in files on standard error; returns the exit code for them."""
    for problem in problems:
        remark(problem)
    return BAD


def print_warnings(problems: Iterable[object]) -> None:
    """Print warnings about a policy and its lists on standard error."""
    for problem in problems:
        remark(f"warning: {problem}", "warning:")


def _print(text: str, stream: TextIO, *, end: str = "\n", flush: bool = False) -> None:
    """Print text; where its reader is gone, the command ends, which no handler of faults of files keeps up."""
    try:
        print(text, file=stream, end=end, flush=flush)
    except BrokenPipeError:
        raise SystemExit(CLOSED) from None


def print_line(*fields: object, is_bold: bool = False, word: str = "") -> None:
    """Print a line of fields with tabs between them on standard output; ``word`` is the action that it tells of."""
    line = _paint("\t".join(printable(str(field)) for field in fields), word, sys.stdout)
    _progress_line.remove()
    _print(f"\x1b[1m{line}\x1b[0m" if is_bold else line, sys.stdout)


def flush_output() -> None:
    """Have whoever reads standard output see it now."""
    _print("", sys.stdout, end="", flush=True)


def print_lines(lines: Iterable[object]) -> None:
    for line in lines:
        print_line(line)


def print_json(value: object) -> None:
    """Print a value as JSON, in one line of ASCII, on standard output."""
    _progress_line.remove()
    _print(to_json(value), sys.stdout)


def readable(url: bytes) -> str:
    """A URL as text; octets that are not text become escapes."""
    return url.decode("utf-8", "backslashreplace")


class _ProgressLine:
    """The line of progress that stands on standard error."""

    def __init__(self) -> None:
        #: characters of the longest line since the last removal; 0: none stands there
        self.longest = 0

    def remove(self) -> None:
        """Overwrite it, so that what comes next begins its line."""
        if self.longest:
            print("\r" + " " * self.longest + "\r", end="", file=sys.stderr, flush=True)
            self.longest = 0


_progress_line = _ProgressLine()


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], object] | None]:
    """A function that shows progress; ``None`` without a terminal. The line is removed at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    # A line longer than the terminal could not be removed; a terminal without a size gets the whole line.
    most = os.get_terminal_size(sys.stderr.fileno()).columns - 1

    def show(what: str, done: int, total: int) -> None:
        part = min(1, done / total) if total else 1
        line = f"{what:<9} [{'#' * int(30 * part):<30}] {part:4.0%}"
        line = line[:most] if most > 0 else line
        _progress_line.longest = max(_progress_line.longest, len(line))
        print(f"\r{line:<{_progress_line.longest}}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        _progress_line.remove()


def acting_user() -> str:
    """Who runs a command, as histories have it."""
    import getpass  # most commands start faster without it

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # in a container the user may have no name
        return "command line"
