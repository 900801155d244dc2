"""Progress of long work: a line on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], object] | None]:
    """What shows how much is done; ``None`` where nobody would see it. At the end, the line is removed."""
    if not sys.stderr.isatty():
        yield None
        return
    progress = _Progress()
    try:
        yield progress
    finally:
        progress.end()


class _Progress:
    """One line on a terminal, written again and again."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how much is done."""
        part = done / total if total else 1
        print(f"\r{what:<9} [{'#' * int(30 * part):<30}] {part:4.0%}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the line."""
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)
