"""Several workers by one command: to clients they are one proxy, whatever becomes of one of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.proxy import end_cleanly
from faults.fleet_table import FleetFault, try_fleet
from faults.workers_lab import WORKER_FAULTS, WorkersLab, children

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="several workers need Linux"),
    pytest.mark.xdist_group("workers"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[WorkersLab]:
    """Two workers that tests share."""
    with WorkersLab(tmp_path_factory.mktemp("lab"), origin).running() as lab:
        yield lab


@pytest.mark.parametrize("fault", WORKER_FAULTS, ids=lambda fault: fault.name)
def test_clients_lose_no_more_than_what_is_on_its_way_at_a_killed_worker(
    fault: FleetFault[WorkersLab], lab: WorkersLab
) -> None:
    try_fleet(fault, lab)


def test_all_workers_end_with_the_command(tmp_path: Path, origin: Origin) -> None:
    with WorkersLab(tmp_path / "lab", origin).running() as lab:
        processes = children(lab.proxy)
        end_cleanly(lab.proxy, signal.SIGTERM)
    assert len(processes) == 2
    assert not [number for number in processes if Path(f"/proc/{number}").exists()]
