"""``hushlist compile``: compiles the lists of a policy into the cache."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushlist.cli.common import (
    GOOD,
    Commands,
    add_command,
    add_policy,
    print_json,
    print_lines,
    print_warnings,
    shown_progress,
)
from hushlist.compiling.compile_report import unused_categories
from hushlist.compiling.policy_compiler import compile_policy
from hushlist.policy import shipped_policy


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "compile the lists of a policy into the cache, where the proxy finds them, and report what became of them"
    parser = add_command(commands, "compile", run_compile, text)
    add_policy(parser)
    parser.add_argument(
        "--popular",
        type=Path,
        metavar="FILE",
        help="popular domains, one a line or as rank,domain: rules that cover one get a warning "
        "(the index is then another than the proxy's)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the report as a JSON object, with the file of the index"
    )


def run_compile(arguments: argparse.Namespace) -> int:
    """Print the report; warnings go to standard error, and so does progress, if that is a terminal."""
    with shown_progress() as progress:
        compiled = compile_policy(
            arguments.policy or shipped_policy(), popular=arguments.popular, progress=progress, may_do_without=False
        )
    print_warnings([*unused_categories(compiled.policy, compiled.index), *compiled.report.warnings])
    if arguments.json:
        index = compiled.index
        about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": len(index)}
        print_json({**about, **compiled.report.as_dict()})
    else:
        print_lines(compiled.report.table())
    return GOOD
