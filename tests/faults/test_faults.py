"""The fault list: see ``faults.table``; ``tests/faults/run.py`` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.origin import Origin
from faults.lab import Lab
from faults.table import FAULTS, Fault, NotHereError, try_running, try_start

RUNNING = [fault for fault in FAULTS if not fault.at_start]
STARTING = [fault for fault in FAULTS if fault.at_start]
#: those of one choice share a proxy, and come one after the other
CHOICES = [pytest.param(choice, marks=pytest.mark.xdist_group(f"faults {choice}")) for choice in ("closed", "open")]


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    """The origin that every host name leads to."""
    with Origin(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture(scope="module", params=CHOICES)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Lab]:
    """A proxy that runs, with one choice of ``on-failure``."""
    lab = Lab(tmp_path_factory.mktemp("faults") / "lab", origin, request.param)
    with lab.running() as proxy:
        assert proxy is not None, lab.said
        yield lab


def name_of(fault: Fault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", RUNNING, ids=name_of)
def test_what_becomes_of_requests_while_something_fails(lab: Lab, fault: Fault) -> None:
    try:
        assert try_running(fault, lab) == fault.expected(lab.choice)
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("choice", ["closed", "open"])
@pytest.mark.parametrize("fault", STARTING, ids=name_of)
def test_what_becomes_of_requests_where_something_fails_at_the_start(
    tmp_path: Path, origin: Origin, fault: Fault, choice: str
) -> None:
    try:
        assert try_start(fault, Lab(tmp_path / "lab", origin, choice)) == fault.expected(choice)
    except NotHereError as error:
        pytest.skip(str(error))
