"""Lists as arguments of commands: their files, formats, and the settings that a policy would have for them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from hushlist.cli.common import print_warnings
from hushlist.errors import Problem, SourceError
from hushlist.lists.domain_lists import read_popular
from hushlist.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.lists.list_source import ListDefaults, ProblemReport, read_octets
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.policy.policy_file import ListError, ListFile, list_files
from hushlist.url.hashed_uri import VARIANTS


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
        SourceError: lists do not exist or cannot be used; names all of them.
    """
    problems: list[Problem] = []
    files = {file.path.absolute(): file for path in paths for file in _files(path, arguments, problems)}
    if problems:
        raise SourceError(problems)
    return list(files.values())


def _files(path: Path, arguments: argparse.Namespace, problems: list[Problem]) -> Iterator[ListFile]:
    defaults = ListDefaults(variant=arguments.variant, prefix_length=arguments.prefix_length)
    try:
        yield from list_files(path, arguments.format or list_format_of(path), defaults)
    except ListError as error:
        problems.append(Problem(str(path), 0, "list", str(error)))


def popular_domains(path: Path | None) -> tuple[bytes, ...]:
    """The canonical hosts of a file, the most popular first; unreadable ones are reported on standard error.

    Raises:
        SourceError: the file cannot be read.
    """
    if path is None:
        return ()
    report = ProblemReport(str(path))
    octets = read_octets(path, report)
    if octets is None:
        raise SourceError(report.errors)
    domains = tuple(read_popular(octets, report))
    print_warnings(report.warnings)
    return domains
