"""Options of the commands that decide recorded requests."""

from __future__ import annotations

import argparse

from hushlist.audit.work import default_jobs
from hushlist.cli.common import parse_number


def add_as_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks for each record's own moment and client."""
    parser.add_argument(
        "--as-recorded",
        action="store_true",
        help="decide each request for the client and at the time that its record has, where it has them",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how many processes decide."""
    parser.add_argument(
        "--jobs", type=parse_number, default=default_jobs(), metavar="N", help="processes (default: one a core)"
    )
