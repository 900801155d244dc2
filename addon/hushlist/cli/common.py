"""What the commands share: exit codes, their parsers, URLs as they are given, and text for terminals."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from hushlist.errors import Problem, UrlError

GOOD, FOUND, BAD = 0, 1, 2

#: what parsers of commands are added to; argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command = Callable[[argparse.Namespace], int]

# -- parsers -----------------------------------------------------------------------------------------------------------


def add_command(
    commands: Commands, name: str, command: Command, text: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add a command, and say what it does."""
    parser = commands.add_parser(name, help=text, description=sentence(text), epilog=epilog)
    parser.set_defaults(command=command)
    return parser


def add_urls_command(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Add a command that takes URLs; ``urls_of`` gives them."""
    parser = add_command(commands, name, command, text)
    parser.add_argument("urls", nargs="+", metavar="URL", help="a URL; '-' reads one a line from standard input")
    return parser


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a policy."""
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="the policy file (default: the one that is shipped)"
    )


def parse_number(text: str) -> int:
    """A number from 1 on, with at most nine digits.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")


def sentence(text: str) -> str:
    """A help text as a description.

    >>> sentence("print it")
    'Print it.'
    """
    return f"{text[0].upper()}{text[1:]}."


# -- input -------------------------------------------------------------------------------------------------------------


def urls_of(arguments: argparse.Namespace) -> Iterator[bytes]:
    """The URLs as octets, as they were given; a line's end belongs to no URL."""
    for url in arguments.urls:
        if url == "-":
            yield from map(without_end, sys.stdin.buffer)
        else:
            yield os.fsencode(url)


def expand_folders(names: Iterable[str]) -> list[str]:
    """Files, with those that are in a folder in its place, by name; not those in folders of it, nor hidden ones."""
    return [file for name in names for file in (_files_in(Path(name)) if Path(name).is_dir() else [name])]


def _files_in(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def without_end(line: bytes) -> bytes:
    r"""A line without its end, be that of Unix or of Windows.

    >>> without_end(b"a\r\n"), without_end(b"a\n"), without_end(b"a")
    (b'a', b'a', b'a')
    """
    return line.removesuffix(b"\n").removesuffix(b"\r")


def each(urls: Iterable[bytes], show: Callable[[bytes], object]) -> int:
    """Show each URL; one that cannot be read is named on standard error, and the rest goes on."""
    code = GOOD
    for url in urls:
        try:
            show(url)
        except UrlError as error:
            code = complain(error)
    return code


# -- output ------------------------------------------------------------------------------------------------------------


def complain(what: object) -> int:
    """Say on standard error what is wrong; gives the exit code for that."""
    print(f"hushlist: {what}", file=sys.stderr, flush=True)
    return BAD


def print_warnings(problems: Iterable[Problem]) -> None:
    """What is odd about a policy and its lists, on standard error."""
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)


def print_lines(lines: Iterable[str]) -> None:
    """Lines, on standard output."""
    for line in lines:
        print(line)


def readable(url: bytes) -> str:
    """A URL to be read; what is no text is shown as escapes."""
    return url.decode("utf-8", "backslashreplace")


def counted(number: int, one: str, many: str) -> str:
    """A number of things.

    >>> counted(1, "entry", "entries"), counted(2000, "entry", "entries")
    ('1 entry', '2,000 entries')
    """
    return f"{number:,} {one if number == 1 else many}"
