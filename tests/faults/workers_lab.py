"""Workers of ``hushlist proxy`` that can be restarted, killed and spoiled under load; and what is tried."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from e2e.origin import LOOPBACK, PATIENCE, Origin
from e2e.policies import replace, simple_policy
from e2e.proxy import SCRIPTS, Proxy, running, write_authority
from faults.fleet_lab import CLIENTS, SECRET, Traffic, under_load
from faults.fleet_table import FleetFault
from support.environment import environment

#: what a proxy says, once for each worker, when it has come to serve
SERVES = "mitmproxy has started"
#: seconds between two requests of a client
PACE = 0.01


@contextmanager
def workers(
    folder: Path,
    origin: Origin,
    policy: Path,
    number: int = 2,
    options: Mapping[str, object] | None = None,
    scripts: Sequence[str] = (),
    mode: str = "regular",
) -> Iterator[Proxy]:
    """A ``hushlist proxy`` on a free port of loopback, until the block ends; all workers serve."""
    folder.mkdir(exist_ok=True)
    write_authority(folder)
    settings = {"confdir": folder, "flow_detail": 0, "ssl_insecure": "true", "hushlist_policy": policy}
    settings |= {"upstream_http": origin.http_port, "upstream_https": origin.https_port} | (options or {})
    command = [
        *(sys.executable, "-m", "hushlist", "proxy", "--workers", str(number), "--"),
        *("--mode", mode, "--listen-host", LOOPBACK, "--listen-port", "0"),
        *(part for name in ("upstream.py", *scripts) for part in ("-s", str(SCRIPTS / name))),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
    ]
    with running(command, folder) as (process, log):
        port = int(log.wait_for(rf"listening at {re.escape(LOOPBACK)}:(\d+)")[1])
        log.wait_for(rf"(?s)({SERVES}.*){{{number}}}")
        yield Proxy(process, log, port, folder / "mitmproxy-ca-cert.pem")


def children(proxy: Proxy) -> list[int]:
    """The processes of the workers, the oldest first."""
    task = Path(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children")
    return [int(word) for word in task.read_text(encoding="ascii").split()]


class WorkersLab:
    """Two workers."""

    def __init__(self, folder: Path, origin: Origin) -> None:
        self.folder, self.origin, self.policy = folder, origin, folder / "policy.yaml"
        self.proxy: Proxy
        folder.mkdir(parents=True, exist_ok=True)
        simple_policy(folder, f"fine.test{SECRET}")
        self.good = self.policy.read_text(encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[WorkersLab]:
        """All of it, until the block ends."""
        folders = {"XDG_CACHE_HOME": self.folder / "cache", "XDG_STATE_HOME": self.folder / "state"}
        with environment(folders), workers(self.folder, self.origin, self.policy) as self.proxy:
            yield self

    def under_load(self) -> AbstractContextManager[Traffic]:
        """Clients ask until the block ends, and some time before and after it."""
        return under_load(self.proxy.port, self.proxy.authority, PACE)

    def restart(self) -> str:
        """Have the workers restarted; what was said until that is over."""
        before = len(self.proxy.log)
        self.proxy.process.send_signal(signal.SIGHUP)
        self.proxy.log.wait_for("workers are (not )?restarted", before, 6 * PATIENCE)
        return self.proxy.log.text(before)


def _restarted(lab: WorkersLab) -> None:
    before = children(lab.proxy)
    said = lab.restart()
    assert "all workers are restarted: 2" in said
    assert "unfinished" not in said
    assert not {*before} & {*children(lab.proxy)}


def _killed(lab: WorkersLab) -> None:
    before, (killed, *_) = len(lab.proxy.log), children(lab.proxy)
    os.kill(killed, signal.SIGKILL)
    lab.proxy.log.wait_for("worker . ended by SIGKILL, and is started again", before)
    lab.proxy.log.wait_for(SERVES, before, 3 * PATIENCE)


def _stands_still(lab: WorkersLab) -> None:
    stopped, *_ = children(lab.proxy)
    os.kill(stopped, signal.SIGSTOP)
    try:
        with lab.proxy.connect() as first:  # until one has come to its socket, and is taken by the other
            first.sendall(b"GET http://fine.test/ HTTP/1.1\r\nHost: fine.test\r\n\r\n")
        assert all(lab.proxy.get("http://fine.test/").status_code == 200 for _ in range(20))
    finally:
        os.kill(stopped, signal.SIGCONT)


def _policy_broken(lab: WorkersLab) -> None:
    before, (killed, *_) = len(lab.proxy.log), children(lab.proxy)
    replace(lab.policy, "layers: none\n")
    try:
        lab.proxy.log.wait_for("(?s)(the last good rules stay.*){2}", before)
        assert "the workers are not restarted: the ones before go on" in lab.restart()
        before = len(lab.proxy.log)
        os.kill(killed, signal.SIGKILL)
        lab.proxy.log.wait_for("worker . ended by SIGKILL, and is started again", before)
        lab.proxy.log.wait_for("worker . does not start", before, 3 * PATIENCE)
    finally:
        replace(lab.policy, lab.good)
    lab.proxy.log.wait_for(SERVES, before, 3 * PATIENCE)


WORKER_FAULTS = (
    FleetFault("all workers are restarted by SIGHUP", _restarted),
    FleetFault(
        "a worker is killed by SIGKILL",
        _killed,
        "what was on its way at it has no answer, and is asked again",
        lost=CLIENTS,
    ),
    FleetFault("a worker stands still by SIGSTOP", _stands_still, "what was on its way at it waits until it goes on"),
    FleetFault(
        "the policy is broken, workers are restarted and one is killed",
        _policy_broken,
        "what was on its way at the killed one has no answer",
        lost=CLIENTS,
    ),
)
