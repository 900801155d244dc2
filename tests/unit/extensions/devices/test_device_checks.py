"""What ``hushlist doctor`` says of devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.extensions.devices import known_devices
from hushlist.extensions.devices.device_checks import examine_devices
from hushlist.extensions.devices.known_devices import Network
from hushlist.extensions.devices.network_tables import Seen, TableError
from unit.extensions.devices.test_known_devices import DNSMASQ, LEO, MIA, POLICY, TV, policy_of, use
from unit.rows import each_row

LEASES = "var/lib/misc/dnsmasq.leases"


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    yield
    use(Network())


@each_row(
    ("here", "said"),
    [
        ([], ["cannot tell: this machine sees none on its networks"]),
        (None, ["warning: the neighbours of this machine are not known: it has more than 16,384 entries"]),
        (
            [Seen("10.0.0.7", MIA), Seen("2001:db8::7", MIA), Seen("10.0.0.8", LEO)],
            ["good: seen: 2; with a name: 1"],
        ),
        (
            [Seen("10.0.0.7", MIA), Seen("10.0.0.7", TV), Seen("10.0.0.8", LEO)],
            ["good: seen: 1; with a name: 0", "warning: of 1 address it is not sure who has them"],
        ),
    ],
)
def test_it_says_what_is_seen_of_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: list[Seen] | None, said: list[str]
) -> None:
    def neighbours() -> list[Seen]:
        if here is None:
            raise TableError("it has more than 16,384 entries")
        return here

    monkeypatch.setattr(known_devices, "neighbours", neighbours)
    found = [*examine_devices(policy_of(POLICY)[0], 0.0, tmp_path)]
    assert [f"{one.condition}: {one.what}" for one in found] == said
    assert [*examine_devices(policy_of("layers: []")[0], 0.0, tmp_path)] == []


def test_leases_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_devices, "neighbours", list)
    (tmp_path / LEASES).mkdir(parents=True)  # what is no file cannot be read by anybody, root neither
    wrong, _ = examine_devices(policy_of(POLICY)[0], 0.0, tmp_path)
    assert wrong.what.startswith(f"the leases of a DHCP server cannot be read: /{LEASES}: ")
    (tmp_path / LEASES).rmdir()
    (tmp_path / LEASES).write_text(DNSMASQ, encoding="utf-8")
    (good,) = examine_devices(policy_of(POLICY)[0], 0.0, tmp_path)
    assert good.what == "seen: 2; with a name: 1"
