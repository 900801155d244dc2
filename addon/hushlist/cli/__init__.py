"""``hushlist``: what the proxy would do, from the command line.

In: arguments, and standard input. Out: text or JSON, and an exit code. Open first: this file, then ``common``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from hushlist import __version__
from hushlist.cli.common import BAD, Parser, add_choice, complain, complain_of
from hushlist.core.errors import HushlistError, SourceError

#: module of this package -> its commands, in the order of the help: what people need first is on top. Only the
#: requested command's module is imported, so that canonicalizing a URL costs neither a database nor a policy.
_COMMANDS = {
    "policy_commands": ("check", "explain", "compile"),
    "helper_command": ("helper",),
    "init_command": ("init",),
    "import_command": ("import",),
    "operation.update_command": ("update", "lists"),
    "operation.log_command": ("log",),
    "operation.doctor_command": ("doctor",),
    "operation.override_command": ("override",),
    "operation.admin_command": ("admin",),
    "operation.fleet_commands": ("fleet", "store"),
    "list_commands": ("lint", "diff"),
    "audit_command": ("audit",),
    "leak_command": ("leak",),
    "publishing.hide_command": ("hide",),
    "publishing.serve_command": ("serve-lists",),
    "publishing.sign_commands": ("keypair", "sealkey", "sign", "verify"),
    "url_commands": ("canonicalize", "expressions", "hash", "prefixes", "compare", "extract"),
    "specification_commands": ("parse", "hrn", "conformance"),
    "shell_commands": ("completion", "man"),
}
#: the first command of each group in the help -> its heading
_GROUPS = {
    "check": "ask a policy",
    "log": "while the filter runs",
    "lint": "test lists",
    "hide": "publish lists",
    "canonicalize": "look at URLs",
    "completion": "set up a shell",
}


class _GroupedParser(Parser):
    """The parser of all commands, whose help has them in groups."""

    def format_help(self) -> str:
        """The help, with a heading above each group."""
        text = super().format_help()
        for command, heading in _GROUPS.items():
            text = re.sub(rf"\n(?=    (?:\x1b\[[0-9;]*m)*{command}\b)", f"\n\n  {heading}:\n", text, count=1)
        return text


def run() -> None:
    """The console script."""
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:  # most likely, our output cannot be written: flushing the rest would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # the reader of a pipe may close it early
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
        return complain_of(error.problems)
    except HushlistError as error:
        return complain(error)


@cache
def make_parser(command: str = "") -> argparse.ArgumentParser:
    """A parser for one command and those of the same module; for all commands if there is no such command."""
    parser = _GroupedParser(
        prog="hushlist",
        description="Canonicalize URLs, hash their expressions, and ask a policy what it does with them and why.",
        epilog="Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, the log has no such "
        "record, or an update changes more than it may; 2 wrong usage or bad input.",
    )
    parser.add_argument("--version", action="version", version=f"hushlist {__version__}")
    parser._positionals.title = "commands, each with a help of its own"
    commands = add_choice(parser, parser_class=Parser)
    for module in [name for name, own in _COMMANDS.items() if command in own] or _COMMANDS:
        import_module(f"{__name__}.{module}").add_to(commands)
    return parser
