"""The faults of a database that two proxies share: see ``faults.database``, which prints them as a table, and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.database import DATABASE_FAULTS, DatabaseFault, Site, expected_of, near, try_fault
from postgres import GROUP, Server

pytestmark = GROUP


@pytest.fixture(scope="module")
def site(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with near(tmp_path_factory.mktemp("database"), postgres) as found:
        found.delay = 0.1
        yield found


@pytest.mark.parametrize("fault", DATABASE_FAULTS, ids=lambda fault: fault.name)
def test_what_people_notice_while_the_database_fails(site: Site, fault: DatabaseFault) -> None:
    seen = try_fault(fault, site)
    assert seen == expected_of(fault, seen)
    assert seen.requests > 0
