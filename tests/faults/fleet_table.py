"""The faults of workers behind HAProxy: what is done under load, and how many requests may be without an answer."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from e2e.origin import Origin
from faults.fleet_lab import CLIENTS, SECRET, FleetLab, Traffic


class Loaded(Protocol):
    """A lab with clients that never stop asking."""

    origin: Origin

    def under_load(self) -> AbstractContextManager[Traffic]: ...


_Lab = TypeVar("_Lab", bound=Loaded)


@dataclass(frozen=True)
class FleetFault(Generic[_Lab]):
    """One way to fail, with what users notice."""

    name: str
    #: does it to a lab under load, and undoes it
    inject: Callable[[_Lab], None]
    notice: str = "nothing"
    #: requests without an answer, at most
    lost: int = 0


def _restarted_one_by_one(lab: FleetLab) -> None:
    for place, worker in enumerate(lab.workers):
        said = worker.end()
        assert "Traceback" not in said
        assert "unfinished" not in said
        worker.start()
        lab.balancer.wait_for("UP", "UP")
        assert place < len(lab.workers)


def _killed(lab: FleetLab) -> None:
    lab.workers[0].end(signal.SIGKILL)
    lab.balancer.wait_for("DOWN", "UP")
    lab.workers[0].start()
    lab.balancer.wait_for("UP", "UP")


def _stands_still(lab: FleetLab) -> None:
    lab.workers[0].send(signal.SIGSTOP)
    try:
        lab.balancer.wait_for("DOWN", "UP")
    finally:
        lab.workers[0].send(signal.SIGCONT)
    lab.balancer.wait_for("UP", "UP")


def _reloaded(lab: FleetLab) -> None:
    for _ in range(3):
        lab.balancer.reload()
        lab.balancer.wait_for("UP", "UP")


def _policy_broken(lab: FleetLab) -> None:
    lab.write_policy("layers: none\n")
    try:
        lab.balancer.wait_for("DOWN", "DOWN")
        assert lab.balancer.states("healthy") == ["UP", "UP"]
    finally:
        lab.write_policy(lab.good)
    lab.balancer.wait_for("UP", "UP")


def _one_is_gone_for_good(lab: FleetLab) -> None:
    lab.workers[1].end()
    lab.balancer.wait_for("UP", "DOWN")
    lab.workers[1].start()
    lab.balancer.wait_for("UP", "UP")


FLEET_FAULTS = (
    FleetFault("all workers are restarted, one by one", _restarted_one_by_one),
    FleetFault("a worker is stopped, and away for a while", _one_is_gone_for_good),
    FleetFault(
        "a worker is killed (SIGKILL)",
        _killed,
        "what was on its way at it has no answer, and is asked again",
        lost=CLIENTS,
    ),
    FleetFault("a worker stands still (SIGSTOP)", _stands_still, "what was on its way at it waits until it goes on"),
    FleetFault("HAProxy is reloaded, three times", _reloaded),
    FleetFault("the policy of all is broken", _policy_broken),
)


def try_fleet(fault: FleetFault[_Lab], lab: _Lab) -> Traffic:
    """Do it under load; what became of the requests.

    Raises: AssertionError: something that is blocked reached the origin, or an answer is wrong, or too many are lost.
    """
    with lab.origin.watch() as arrived, lab.under_load() as traffic:
        fault.inject(lab)
    leaked = [request.target for request in arrived.requests if request.target.startswith(SECRET.encode())]
    assert leaked == [], leaked
    assert traffic.wrong == [], traffic.wrong
    assert len(traffic.lost) <= fault.lost, traffic.lost
    return traffic
