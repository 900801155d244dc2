"""The filters of a visit: a mitmdump each, with Hushlist or without, that records or plays."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

_LOOPBACK = "127.0.0.1"
#: seconds until one has started, and for an answer: a large list is compiled first
_PATIENCE = 120
#: mitmdump as a module of this Python has it, wherever its scripts are
_MITMDUMP = "import sys; from mitmproxy.tools.main import mitmdump; sys.exit(mitmdump())"


class VisitError(Exception):
    """A filter or a browser of a visit cannot be started, or has failed."""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, which has ten seconds to do so by itself."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _script(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise VisitError(f"{module} is missing")
    return spec.origin


class FilterProcess:
    """A mitmdump that runs until the block ends; ``folder`` takes what it keeps, ``policy`` is what it decides by."""

    def __init__(self, folder: Path, policy: Path | None, *, plays: bool) -> None:
        token, place = secrets.token_hex(16), folder / "ports.json"
        self._token = token
        self._log = folder / "mitmdump.log"
        options = [
            *("listen_host=127.0.0.1", "listen_port=0", f"confdir={folder / 'authority'}", "connection_strategy=lazy"),
            *("server_replay_reuse=true", "server_replay_refresh=true", "upstream_cert=false" if plays else ""),
            *("server_replay_extra=404" if plays else "", "" if policy is None else f"hushlist_policy={policy}"),
            *("" if policy is None else "hushlist_stream=off", "flow_detail=0", "termlog_verbosity=warn"),
        ]
        scripts = [*([_script("hushlist.proxy.script")] if policy is not None else [])]
        scripts.append(_script("hushlist.tools.visit.filter_script"))
        command = [sys.executable, "-c", _MITMDUMP, *(part for name in scripts for part in ("-s", name))]
        command += [part for option in options if option for part in ("--set", option)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  this Python, and options that are made here
                command,
                env={**os.environ, "HUSHLIST_VISIT": f"{token}:{place}", "XDG_CACHE_HOME": str(folder / "cache")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._opened = ExitStack()
        self._opened.callback(end, self._process)
        try:
            ports: Mapping[str, int] = json.loads(self._until_there(place))
            self.port = ports["proxy"]
            self._control = self._opened.enter_context(
                socket.create_connection((_LOOPBACK, ports["control"]), _PATIENCE)
            )
            self._answers = self._opened.enter_context(self._control.makefile("rb"))
            self._control.sendall(token.encode() + b"\n")
        except BaseException:
            self._opened.close()
            raise

    def _until_there(self, place: Path) -> str:
        end = time.monotonic() + _PATIENCE
        while not place.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise VisitError(f"mitmdump has not started: {said.strip()}")
            time.sleep(0.05)
        return place.read_text(encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def play(self, recording: Path) -> None:
        """Answer from a recording from now on; the requests so far are forgotten."""
        self._ask({"play": str(recording)})

    def record(self, recording: Path | None) -> None:
        """Write to a recording from now on, or no more."""
        self._ask({"record": "" if recording is None else str(recording)})

    def use_policy(self, policy: Path) -> None:
        """Decide by another policy from now on."""
        self._ask({"policy": str(policy)})

    def requests(self) -> list[dict[str, Any]]:
        """Those since the recording was put in."""
        requests: list[dict[str, Any]] = self._ask({})["requests"]
        return requests

    def _ask(self, order: Mapping[str, str]) -> Any:
        try:
            self._control.sendall(json.dumps(order).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise VisitError(f"the filter does not answer: {error}") from error
        if not line:
            raise VisitError("the filter has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise VisitError(answer["error"])
        return answer
