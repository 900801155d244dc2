"""Runs ``hushlist serve-lists`` as a user would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

from e2e.origin import LOOPBACK, PATIENCE
from e2e.preloaded import start_hushlist
from e2e.proxy import Log


@dataclass(frozen=True)
class RunningServer:
    """A server, and where it listens."""

    url: str
    log: Log


@contextmanager
def list_server(folder: Path, *arguments: str, policy: Path | None = None) -> Iterator[RunningServer]:
    """One that publishes lists of a policy, by default ``policy.yaml`` in a folder, which also takes what it keeps."""
    places = {name: str(folder / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
    command = ["serve-lists", "--policy", str(policy or "policy.yaml"), "--listen", f"{LOOPBACK}:0", *arguments]
    process = start_hushlist(command, folder, {**os.environ, **places})
    log = Log(process)
    try:
        yield RunningServer(log.wait_for(r"listening on (https?://\S+)/\n")[1], log)
    finally:
        process.send_signal(SIGTERM)
        process.wait(PATIENCE)
        log.close()
