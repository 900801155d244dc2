"""``hushlist``: what the proxy would do, from the command line.

Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, the log has no such record, or an
update changes more than it may; 2 wrong usage or bad input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from hushlist.cli.common import BAD, complain
from hushlist.errors import HushlistError, SourceError

#: module of this package -> its commands, in the order of the help. Only the module of the command that is asked for is
#: imported, so that canonicalizing a URL costs neither a database nor a policy.
_COMMANDS = {
    "urls": ("canonicalize", "expressions", "hash", "compare", "extract"),
    "compiling": ("compile",),
    "lint": ("lint",),
    "leak": ("leak",),
    "diff": ("diff",),
    "decide": ("check", "explain"),
    "audit": ("audit",),
    "squid": ("helper",),
    "log": ("log",),
    "override": ("override",),
}


def run() -> None:
    """The console script."""
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:  # most likely of our output, where what is left would only fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # whoever closed a pipe has seen enough
        code = BAD if isinstance(error, BrokenPipeError) else complain(error)
    except KeyboardInterrupt:
        code = BAD
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = make_parser(argv[0] if argv else "").parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(arguments.command(arguments))
    except SourceError as error:
        print(error, file=sys.stderr)
        return BAD
    except HushlistError as error:
        return complain(error)


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """A parser that knows one command and those of the same module; all, where it is none."""
    parser = argparse.ArgumentParser(
        prog="hushlist",
        description="Canonicalize URLs, hash their expressions, and ask a policy what it does with them and why.",
        epilog="Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, the log has no such "
        "record, or an update changes more than it may; 2 wrong usage or bad input.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in [name for name, own in _COMMANDS.items() if command in own] or _COMMANDS:
        import_module(f"{__name__}.{module}").add_to(commands)
    return parser
