"""What workers of a machine have counted, told at once: a file for each hour, to which all append, and which all read.

The store has it within a minute. But a client may come to another worker with its next request, which has to know.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     one, other = SharedMinutes(Path(folder)), SharedMinutes(Path(folder))
...     one.tell("user:jo", "hrn://c.example/games", 6000)
...     [*other.heard(6001)], [*other.heard(6001)]
([('user:jo', 'hrn://c.example/games', 6000)], [])
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hushlist.core.system.files import SAFELY
from hushlist.core.system.platform import read_at

#: minutes after the turn of an hour in which somebody may still tell of the one before
_LATE = 2
#: octets that are read at once
_AT_ONCE = 1 << 20


class SharedMinutes:
    """Tells, and hears each minute once, its own too; what cannot be told or heard is in the store soon."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: an open file for each hour, and how far it was read
        self._files: dict[int, tuple[int, int]] = {}

    def tell(self, client: str, category: str, minute: int) -> None:
        """Tell of a minute that was counted."""
        row = json.dumps([client, category, minute]).encode() + b"\n"
        with suppress(OSError):
            os.write(self._open(minute // 60)[0], row)

    def heard(self, minute: int) -> Iterator[tuple[str, str, int]]:
        """What was told since the last time, up to this minute."""
        hour = minute // 60
        hours = (hour,) if hour in self._files and minute % 60 >= _LATE else (hour - 1, hour)
        with suppress(OSError):
            for each in hours:
                for line in self._read(each):
                    client, category, counted = json.loads(line)
                    yield client, category, counted

    def close(self) -> None:
        for file, _ in self._files.values():
            os.close(file)
        self._files.clear()

    def _read(self, hour: int) -> list[bytes]:
        file, place = self._open(hour)
        *lines, _ = read_at(file, _AT_ONCE, place).split(b"\n")
        self._files[hour] = file, place + sum(len(line) + 1 for line in lines)
        return lines

    def _open(self, hour: int) -> tuple[int, int]:
        if hour not in self._files:
            flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | SAFELY
            self._files[hour] = os.open(self._path(hour), flags, 0o600), 0
            for old in [each for each in self._files if each < hour - 1]:
                os.close(self._files.pop(old)[0])
                self._path(old).unlink(missing_ok=True)
        return self._files[hour]

    def _path(self, hour: int) -> Path:
        return self._folder / f"{hour}.minutes"
