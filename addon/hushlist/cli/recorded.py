"""Options of the commands that decide recorded requests."""

from __future__ import annotations

import argparse
import re

from hushlist.audit.work import default_jobs


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
        "--jobs", type=number_of, default=default_jobs(), metavar="N", help="processes (default: one a core)"
    )


def number_of(text: str) -> int:
    """A number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not re.fullmatch("0*[1-9][0-9]{0,17}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
