"""Reloading: a policy is read again when one of its files has changed and is then unchanged for a moment.

Files are checked and read in a thread, never in the event loop. The result is used only if no file changed meanwhile,
so that no decision uses half a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from hushlist.decide.engine import Engine
from hushlist.errors import Lines, logger_of
from hushlist.policy.policy_file import Fingerprint, PolicyError, fingerprint

logger = logger_of(__name__)

#: seconds between two checks of the files; a change has to be seen twice
INTERVAL = 0.5
#: checks after which files that keep changing are read nevertheless
PATIENCE = 10

_Files = dict[Path, Fingerprint]
#: stands for a file that has still to be read
UNREAD: Fingerprint = (-1, -1, -1)


def fingerprints_of(files: _Files) -> _Files:
    """The current fingerprints of files."""
    return {path: fingerprint(path) for path in files}


async def watch(read: Callable[[], Engine], files: _Files, swap: Callable[[Engine], None]) -> None:
    """Read a new engine, and pass it to ``swap``, whenever the files have changed; runs until it is cancelled.

    A change that cannot be read is logged, and tried again after the next change.
    """
    last_seen = files
    restless = 0
    while True:
        await asyncio.sleep(INTERVAL)
        seen = await asyncio.to_thread(fingerprints_of, files)
        restless = 0 if seen == last_seen else restless + 1
        last_seen = seen
        if seen == files or 0 < restless < PATIENCE:
            continue
        last_seen = files = seen
        try:
            engine = await asyncio.to_thread(read)
            if await asyncio.to_thread(fingerprints_of, engine.policy.files) == engine.policy.files:
                swap(engine)
                last_seen = files = engine.policy.files
            else:  # changed while it was read: that counts as another change
                files = dict.fromkeys(engine.policy.files, UNREAD)
        except PolicyError as error:
            # the problems have file and line; a traceback would add nothing
            logger.error("hushlist: the change is not used, the last good rules stay:\n%s", Lines(error))  # noqa: TRY400
            last_seen = files = {**seen, **error.files}
        except Exception:
            logger.exception("hushlist: the change is not used, the last good rules stay")
