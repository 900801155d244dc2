"""Progress of long work: a line on standard error, where that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], object] | None]:
    """What shows how much is done; ``None`` where nobody would see it. At the end, the line is removed."""
    if not sys.stderr.isatty():
        yield None
        return
    longest = 0
    # A line that is longer than the terminal could not be removed again; a terminal without a size cuts nothing.
    most = os.get_terminal_size(sys.stderr.fileno()).columns - 1

    def show(what: str, done: int, total: int) -> None:
        nonlocal longest
        part = min(1, done / total) if total else 1
        line = f"{what:<9} [{'#' * int(30 * part):<30}] {part:4.0%}"
        line = line[:most] if most > 0 else line
        longest = max(longest, len(line))
        print(f"\r{line:<{longest}}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r" + " " * longest + "\r", end="", file=sys.stderr, flush=True)
