"""The faults of workers behind HAProxy: see ``faults.fleet_table``; ``tests/faults/run.py`` prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from e2e.haproxy import HAPROXY
from e2e.origin import Origin
from faults.fleet_lab import FleetLab
from faults.fleet_table import FLEET_FAULTS, FleetFault, try_fleet

pytestmark = [
    pytest.mark.skipif(not HAPROXY, reason="there is no haproxy"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback"),
    pytest.mark.xdist_group("fleet faults"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetLab]:
    """Two workers behind HAProxy."""
    folder = tmp_path_factory.mktemp("fleet")
    with Origin(folder) as origin, FleetLab(folder / "lab", origin).running() as running:
        yield running


@pytest.mark.parametrize("fault", FLEET_FAULTS, ids=lambda fault: fault.name)
def test_what_users_notice_of_a_fault_of_the_fleet(lab: FleetLab, fault: FleetFault) -> None:
    traffic = try_fleet(fault, lab)
    print(f"{traffic.answered} answered, {len(traffic.lost)} lost, the longest after {traffic.longest:.2f} s")
