"""The table of third parties."""

from hushlist.core.url.request import canonical_host
from hushlist.tools.audit.third_parties import places_at, role_at, roles, table
from hushlist.tools.visit.page_verdict import limits


def test_the_table_has_canonical_hosts_once_and_signals_that_there_are() -> None:
    entries = [(entry, name) for name, row in table().items() for entry in row["hosts"]]
    assert len({entry for entry, _ in entries}) == len(entries)
    for entry, name in entries:
        host, slash, path = entry.encode().partition(b"/")
        assert canonical_host(host) == host
        assert role_at(places_at(host), b"https://" + host + (slash + path or b"/")) == name
    assert {role.signal for role in roles().values()} - {None} <= limits().keys()
