"""Reloading: a policy is read again when a file that it came from has changed and then stood still.

Files are looked at and read in a thread, never in the proxy's event loop; what was read is used only if no file changed
meanwhile, so that no decision is made by half a list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from hushlist.engine import Engine
from hushlist.policy.policy import Fingerprint, PolicyError, fingerprint

logger = logging.getLogger(__name__)

#: seconds between two looks at the files; a change has to be seen twice
INTERVAL = 0.5
#: looks after which files that never stand still are read all the same
PATIENCE = 10

_Files = dict[Path, Fingerprint]
#: of a file that has still to be read
UNREAD: Fingerprint = (-1, -1, -1)


def look(files: _Files) -> _Files:
    """The files' fingerprints now."""
    return {path: fingerprint(path) for path in files}


async def watch(read: Callable[[], Engine], files: _Files, swap: Callable[[Engine], None]) -> None:
    """Hand a new engine, by ``read``, to ``swap`` whenever the files have changed; runs until it is cancelled.

    A change that cannot be read is logged, and tried again when a file changes again.
    """
    last_seen = files
    restless = 0
    while True:
        await asyncio.sleep(INTERVAL)
        seen = await asyncio.to_thread(look, files)
        restless = 0 if seen == last_seen else restless + 1
        last_seen = seen
        if seen == files or 0 < restless < PATIENCE:
            continue
        last_seen = files = seen
        try:
            engine = await asyncio.to_thread(read)
            if await asyncio.to_thread(look, engine.policy.files) == engine.policy.files:
                swap(engine)
                last_seen = files = engine.policy.files
            else:  # changed while it was read: what is there now is one more change
                files = dict.fromkeys(engine.policy.files, UNREAD)
        except PolicyError as error:
            # the problems say where; a traceback would say nothing more
            logger.error("hushlist: the change is not used, the last good rules stay:\n%s", error)  # noqa: TRY400
            last_seen = files = {**seen, **error.files}
        except Exception:
            logger.exception("hushlist: the change is not used, the last good rules stay")
