"""The faults of servers of Safe Browsing: see ``faults.threat_table``; ``tests/faults/run.py`` prints them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.origin import Origin
from faults.threat_lab import CHOICES, ThreatLab
from faults.threat_table import THREAT_FAULTS, ThreatFault, try_threat

pytestmark = pytest.mark.xdist_group("threat faults")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreatLab]:
    """One proxy, with servers for each fault."""
    folder = tmp_path_factory.mktemp("threats")
    names = [fault.name for fault in THREAT_FAULTS]
    with Origin(folder) as origin, ThreatLab(folder / "lab", origin, names).running() as running:
        yield running


@pytest.mark.parametrize("fault", THREAT_FAULTS, ids=lambda fault: fault.name)
def test_what_becomes_of_pages_where_a_server_of_safe_browsing_fails(lab: ThreatLab, fault: ThreatFault) -> None:
    assert try_threat(fault, lab) == {choice: fault.expected(choice) for choice in CHOICES}
