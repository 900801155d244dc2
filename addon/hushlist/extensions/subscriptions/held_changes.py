"""What a version of a list that is held back would change: lines that are new, and lines that would be gone.

    python -m hushlist.extensions.subscriptions.held_changes NEW [OLD]

compares two versions in a process of the lowest priority, since the proxy's decides requests, and prints one JSON
object. It reads a part of all lines at a time, and is ended after a while.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hushlist.core.routes import ActionError
from hushlist.core.system.files import LONGEST_WHOLE, open_regular, reason_of
from hushlist.core.system.memory import LatestEntries
from hushlist.core.system.package_code import path_to_package
from hushlist.extensions.subscriptions.line_differences import differing_lines

#: lines of each side of a difference that are shown, and characters of each
SHOWN, _LONGEST = 200, 200
#: seconds that comparing may take; two versions of 64 MiB take some ten
PATIENCE = 60.0
#: octets of lines that are compared at once: these take some twenty times as much memory
AT_ONCE = 1 << 23
#: differences that are kept
_MOST = 8
_ELSEWHERE = "it cannot be compared here: {}; 'hushlist diff' can"


class HeldChange(NamedTuple):
    """How many lines are new or gone, and the first of them in order."""

    added: int
    removed: int
    added_lines: list[str]
    removed_lines: list[str]


class HeldChanges:
    """Compares two versions once, whoever looks how often; two pairs are not compared at one time."""

    def __init__(self) -> None:
        self._kept: LatestEntries[tuple[str, str], HeldChange | str] = LatestEntries(_MOST)
        self._turn = Lock()

    def between(self, old: Path | None, new: Path) -> HeldChange:
        """What is new in the second of two versions, whose files are named by their digests; ``ActionError``."""
        pair = ("" if old is None else old.stem, new.stem)
        change = self._kept.get(pair)
        if change is None:
            if not self._turn.acquire(blocking=False):
                raise ActionError("another version is being compared: try again in a moment")
            try:
                change = self._kept[pair] = _compared(old, new)
            finally:
                self._turn.release()
        if isinstance(change, str):
            raise ActionError(change)
        return change


def _compared(old: Path | None, new: Path) -> HeldChange | str:
    """The difference, or why these versions cannot be compared; ``ActionError`` if no process can do so now."""
    paths = [new] if old is None else [new, old]
    try:
        for path in paths:
            open_regular(path, LONGEST_WHOLE).close()
    except OSError as error:
        raise ActionError(_ELSEWHERE.format(reason_of(error))) from error
    # "-P": do not import code from the folder where the proxy was started
    command = [sys.executable or "", "-P", "-m", __name__, *map(str, paths)]
    try:
        done = subprocess.run(  # noqa: S603  our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, **path_to_package()},
            timeout=PATIENCE,
            check=True,
        )
        return HeldChange(**json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return _ELSEWHERE.format(f"it takes more than {PATIENCE:g} seconds")
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        raise ActionError(_ELSEWHERE.format(f"no other process could do so ({error})")) from error


def compare(old: Path | None, new: Path) -> HeldChange:
    """The difference of two files; comments, empty lines and repetitions do not count."""
    numbers = [0, 0]
    shown: list[list[bytes]] = [[], []]
    for gone, came in differing_lines(old, new, AT_ONCE):
        for at, lines in enumerate((came, gone)):
            numbers[at] += len(lines)
            shown[at] = nsmallest(SHOWN, (*shown[at], *nsmallest(SHOWN, lines)))
    return HeldChange(numbers[0], numbers[1], _texts(shown[0]), _texts(shown[1]))


def _texts(lines: Iterable[bytes]) -> list[str]:
    return [line[:_LONGEST].decode("utf-8", "backslashreplace") for line in lines]


def main() -> None:
    if hasattr(os, "nice"):
        os.nice(19)
    new, *old = map(Path, sys.argv[1:])
    print(json.dumps(compare(old[0] if old else None, new)._asdict()))


if __name__ == "__main__":
    main()
