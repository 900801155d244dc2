"""Lists as arguments of commands: their files, their format, and what a policy would say of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from hushlist.cli.common import print_warnings
from hushlist.errors import Problem, SourceError
from hushlist.lists.formats import FOLDERS, FORMATS, format_of
from hushlist.lists.popular import read_popular
from hushlist.lists.source import Defaults, Report, read_octets
from hushlist.match.hashing import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.policy.policy import ListError, ListFile, list_files
from hushlist.url.hashed import VARIANTS


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how lists are read."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *FOLDERS),
        metavar="NAME",
        help=f"the lists' format (default: what a list's name tells): {', '.join((*FORMATS, *FOLDERS))}",
    )
    parser.add_argument(
        "--prefix-length",
        type=int,
        choices=range(SHORTEST_PREFIX, FULL_LENGTH + 1),
        metavar="OCTETS",
        help="how long the hashes of a list of the format safebrowsing-raw are",
    )
    parser.add_argument(
        "--variant", choices=tuple(VARIANTS), help="how the author of hashed URIs canonicalized (default: n)"
    )


def files_of(paths: Iterable[Path], arguments: argparse.Namespace) -> list[ListFile]:
    """The files of lists, each once.

    Raises:
        SourceError: with all that are none.
    """
    problems: list[Problem] = []
    files = {file.path.absolute(): file for path in paths for file in _files(path, arguments, problems)}
    if problems:
        raise SourceError(problems)
    return list(files.values())


def _files(path: Path, arguments: argparse.Namespace, problems: list[Problem]) -> Iterator[ListFile]:
    defaults = Defaults(variant=arguments.variant, prefix_length=arguments.prefix_length)
    try:
        yield from list_files(path, arguments.format or format_of(path), defaults)
    except ListError as error:
        problems.append(Problem(str(path), 0, "list", str(error)))


def popular_domains(path: Path | None) -> tuple[bytes, ...]:
    """The canonical hosts of a file, the most popular first; what cannot be read is named on standard error.

    Raises:
        SourceError: the file cannot be read.
    """
    if path is None:
        return ()
    report = Report(str(path))
    octets = read_octets(path, report)
    if octets is None:
        raise SourceError(report.errors)
    domains = tuple(read_popular(octets, report))
    print_warnings(report.warnings)
    return domains
