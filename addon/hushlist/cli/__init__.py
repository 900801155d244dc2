"""``hushlist``: what the proxy would do, from the command line.

In: arguments, and standard input. Out: text or JSON, and an exit code. Open first: this file, then ``common``.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence
from functools import cache

from hushlist import __version__
from hushlist.cli import common
from hushlist.core.errors import INCOMPLETE, HushlistError, SourceError
from hushlist.core.extension import COMMAND_GROUPS, Command, built_in, load
from hushlist.tools import TOOL_COMMANDS

#: the core's commands; only the requested command's module is imported, so that canonicalizing a URL costs neither a
#: database nor a policy
_COMMANDS = (
    Command(("check", "explain", "compile"), f"{__name__}.policy_commands", "ask a policy"),
    Command(("log",), f"{__name__}.log_command", "while the filter runs"),
    Command(("override",), f"{__name__}.override_command", "while the filter runs"),
    Command(("admin",), f"{__name__}.admin_command", "while the filter runs"),
    Command(
        ("canonicalize", "expressions", "hash", "prefixes", "compare", "extract"),
        f"{__name__}.url_commands",
        "look at URLs",
    ),
    Command(("completion", "man"), f"{__name__}.shell_commands", "set up a shell"),
)


class _GroupedParser(common.Parser):
    """The parser of all commands, whose help has them in groups."""

    def format_help(self) -> str:
        """The help, with a heading above each group."""
        text = super().format_help()
        for group in COMMAND_GROUPS:
            first = next(command.names[0] for command in _all_commands() if command.group == group)
            text = re.sub(rf"\n(?=    (?:\x1b\[[0-9;]*m)*{first}\b)", f"\n\n  {group}:\n", text, count=1)
        return text


@cache
def _all_commands() -> tuple[Command, ...]:
    """All commands, those of installed packages included, in the order of the help."""
    rows = [*_COMMANDS, *TOOL_COMMANDS, *(row for each in built_in() for row in each.commands)]
    rows += (row for each in common.installed_extensions() for row in each.commands)
    return tuple(sorted(rows, key=lambda row: COMMAND_GROUPS.index(row.group)))


def _rows_of(command: str) -> tuple[Command, ...]:
    """The commands that share a module with one; all if there is no such command."""
    for rows in (_COMMANDS, TOOL_COMMANDS, [row for each in built_in() for row in each.commands]):
        if row := next((row for row in rows if command in row.names), None):
            return (row,)
    return tuple(row for row in _all_commands() if command in row.names) or _all_commands()


def run() -> None:
    """The console script."""
    code: object
    try:
        try:
            code = main()
        except SystemExit as end:  # of the parser, or where nobody reads the output any more
            code = end.code
        sys.stdout.flush()
    except OSError as error:  # most likely, our output cannot be written: flushing the rest would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = common.CLOSED if isinstance(error, BrokenPipeError) else common.complain(error)
    except KeyboardInterrupt:
        code = common.BAD
    except Exception:  # a defect of ours: 1 would say that a URL is blocked
        from traceback import print_exc  # most commands start faster without it

        print_exc()
        code = common.DEFECT
    gc.freeze()  # an exit looks through everything for garbage, all code included; the system takes it at once
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = make_parser(argv[0] if argv else "").parse_args(argv)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return int(arguments.command(arguments))
    except ImportError as error:
        if not (error.name or "").startswith("hushlist"):
            raise
        return common.complain(INCOMPLETE.format(error))
    except SourceError as error:
        return common.complain_of(error.problems)
    except HushlistError as error:
        return common.complain(error)


@cache
def make_parser(command: str = "") -> argparse.ArgumentParser:
    """A parser for one command and those of the same module; for all commands if there is no such command."""
    parser = _GroupedParser(
        prog="hushlist",
        description="Canonicalize URLs, hash their expressions, and ask a policy what it does with them and why.",
        epilog="Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, the log has no such "
        "record, or an update changes more than it may; 2 wrong usage or bad input; 70 a defect of Hushlist.",
    )
    parser.add_argument("--version", action="version", version=f"hushlist {__version__}")
    parser._positionals.title = "commands, each with a help of its own"
    commands = common.add_choice(parser, parser_class=common.Parser)
    for row in _rows_of(command):
        load(row.module).add_to(commands)
    return parser
