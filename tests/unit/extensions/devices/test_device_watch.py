"""What is told of devices that come, and of networks that cannot be seen."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from hushlist.core.extension import Notice
from hushlist.extensions.devices import device_watch, known_devices
from hushlist.extensions.devices.device_watch import DeviceWatch
from hushlist.extensions.devices.known_devices import NETWORK, Network
from hushlist.extensions.devices.network_tables import Seen, TableError
from unit.extensions.devices.test_known_devices import LEO, MIA, POLICY, TV, policy_of, use

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Seen]]:
    """The neighbours that the kernel has."""
    found: list[Seen] = []
    monkeypatch.setattr(known_devices, "neighbours", lambda: found)
    monkeypatch.setattr(device_watch, "leases", list)
    yield found
    use(Network())


def watch_of() -> tuple[DeviceWatch, list[Notice]]:
    told: list[Notice] = []
    runtime: Any = SimpleNamespace(notify=told.append)
    return DeviceWatch(runtime), told


def test_a_device_that_is_new_and_has_no_name_is_told_of_once(here: list[Seen]) -> None:
    policy, _ = policy_of(POLICY)
    watch, told = watch_of()
    here += [Seen("10.0.0.3", TV)]  # it was there before anybody looked
    watch.look_at_network(policy)
    here += [Seen("10.0.0.7", MIA), Seen("10.0.0.8", LEO), Seen("2001:db8::8", LEO)]
    for _ in range(2):
        watch.look_at_network(policy)
    (notice,) = told
    assert (notice.client, notice.details["mac"], notice.details["random"]) == ("10.0.0.8", LEO, True)
    assert f"10.0.0.8, {LEO}. It has a random MAC" in notice.message
    again, told = watch_of()  # after a start
    again.look_at_network(policy)
    assert told == []


def test_the_first_request_under_a_policy_is_by_whose_device_asks(
    here: list[Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a policy before named devices, and nobody has looked since another one took its place."""
    monkeypatch.setattr(device_watch, "Thread", Mock())  # the look beside requests comes too late
    (policy, _), (without, _) = policy_of(POLICY), policy_of("layers: [{name: own}]\n")
    watch, told = watch_of()
    use(Network())
    for mac in (TV, LEO):
        here[:] = [Seen("10.0.0.3", mac)]
        for each in (policy, without):
            watch.prepare(each)
            watch.follow(each)
            assert NETWORK.macs == {"10.0.0.3": mac}
    here[:] = [Seen("10.0.0.3", MIA)]
    watch.prepare(without)
    assert (NETWORK.macs, told) == ({"10.0.0.3": LEO}, [])
    watch.close()


def test_many_new_devices_are_not_as_many_notices(here: list[Seen]) -> None:
    policy, _ = policy_of(POLICY)
    watch, told = watch_of()
    watch.look_at_network(policy)
    here += [Seen(f"10.0.1.{number}", f"02:00:00:00:00:{number:02x}") for number in range(100)]
    watch.look_at_network(policy)
    assert len(told) == 10


def test_a_table_that_cannot_be_read_is_told_and_nobody_is_known(
    here: list[Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, _ = policy_of(POLICY)
    watch, _ = watch_of()
    here += [Seen("10.0.0.7", MIA)]
    watch.look_at_network(policy)
    assert NETWORK.macs == {"10.0.0.7": MIA}

    def fail() -> list[Seen]:
        raise TableError("it has more than 16,384 entries")

    monkeypatch.setattr(known_devices, "neighbours", fail)
    watch.look_at_network(policy)
    assert NETWORK.macs == {}
    monkeypatch.setattr(device_watch, "Thread", Mock())
    watch.follow(policy)
    assert [*watch.faults()] == ["the neighbours of this machine are not known: it has more than 16,384 entries"]
