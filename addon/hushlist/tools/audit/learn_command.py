"""``hushlist learn``: the hosts that a recorded page loads things from, as a list to allow."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from hushlist.cli.common import FINDINGS, GOOD, Commands, add_command, checked, print_lines, print_warnings
from hushlist.core.match.context import host_of_page
from hushlist.core.system.compression import decompressed
from hushlist.core.system.files import open_regular, source_errors
from hushlist.core.url.parts import to_bytes
from hushlist.tools.audit.sites import host_of_url
from hushlist.tools.audit.sources.recorded_request import ReadRecord, RecordedRequest, ResourceType

#: seconds after a page in which what a client asks for counts as the page's, where a recording does not name pages
_LOADING = 30.0
_HEAD = 1 << 12


def add_to(commands: Commands) -> None:
    text = "print the hosts that a recorded page loads things from, as a list; the exit code is 1 if there are none"
    parser = add_command(commands, "learn", run_learn, text)
    parser.add_argument(
        "page",
        type=checked(_page, "names no page: give its URL or its host"),
        metavar="PAGE",
        help="the page, by its URL or host",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        required=True,
        metavar="FILE",
        help="recorded browsing, as of 'hushlist audit': a HAR file, a decision log; told by what is in it",
    )


def _page(text: str) -> bytes:
    host = host_of_page(to_bytes(text))
    if not host:
        raise ValueError(text)
    return host


def run_learn(arguments: argparse.Namespace) -> int:
    """Print a list of the hosts, each with what was loaded from it, but of the page's own host."""
    with source_errors(arguments.source, "learn"):
        needed = needed_hosts(_records(arguments.source), arguments.page)
    hosts = sorted(host for host in needed if host != arguments.page)
    if not hosts:
        print_warnings([f"{arguments.source}: {arguments.page.decode()} loads nothing from other hosts"])
        return FINDINGS
    width = max(map(len, hosts))
    print_lines([f"# What {arguments.page.decode()} loaded, by {arguments.source.name}"])
    print_lines(f"{host.decode().ljust(width)}  # {', '.join(sorted(needed[host]))}" for host in hosts)
    return GOOD


def needed_hosts(records: Iterator[ReadRecord], page: bytes) -> dict[bytes, set[str]]:
    """Hosts, and what was loaded from each, for pages of a canonical host.

    A document is a page that somebody opens. Without the page in a recording, all that a client asks for in the half
    minute after it counts.
    """
    loaded: dict[bytes, set[str]] = {}
    opened: dict[str, float] = {}
    for record in records:
        if not isinstance(record, RecordedRequest) or record.kind is ResourceType.DOCUMENT:
            continue
        host = host_of_url(record.url)
        if host is None or host.startswith(b"["):
            continue
        if record.page is not None:
            is_needed = host_of_page(record.page) == page
        else:
            client, moment = record.client.address, record.time or 0.0
            if host == page:
                opened[client] = moment
            is_needed = 0 <= moment - opened.get(client, -_LOADING - 1) <= _LOADING
        if is_needed:
            loaded.setdefault(host, set()).add(record.kind.value)
    return loaded


def _records(path: Path) -> Iterator[ReadRecord]:
    from hushlist.tools.audit.sources.line_sources import read_lines
    from hushlist.tools.audit.sources.source_formats import FORMATS, source_format_of

    with open_regular(path) as file:
        stream = decompressed(file)
        form = FORMATS["har"] if path.suffix == ".har" else source_format_of(stream.peek(_HEAD)[:_HEAD])
        if form.read_file is not None:
            yield from form.read_file(path, path.name)
        elif form.read_stream is not None:
            yield from form.read_stream(cast(BinaryIO, stream), path.name)
        elif form.read_line is not None:
            yield from read_lines(cast(BinaryIO, stream), path.name, form.read_line)
