"""Notices are handed over without waiting, tried again, and a fault is told once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from queue import Queue
from threading import Event

import pytest

from hushlist.core.extension import Button
from hushlist.extensions.notify import notifier
from hushlist.extensions.notify.delivery import DeliveryError
from hushlist.extensions.notify.notifier import MOST_NOTICES, MOST_OF_CLIENT, WITHIN, Notice, Notifier
from hushlist.extensions.notify.notify_channels import Channel, CommandChannel
from support.clock import Clock

PATIENCE = 60
ONE, OTHER = CommandChannel(("/bin/one", "secret")), CommandChannel(("/bin/other",))
THIRD = CommandChannel(("/bin/third",))
NOTICE = Notice("jo asks", "for games", {"request": {"id": 1}})


class Network:
    """Takes notices, or fails; a test waits for what arrives."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.tried: Queue[tuple[Channel, Notice]] = Queue()

    def __call__(self, channel: Channel, notice: Notice, buttons: Sequence[Button] = (), key: str = "") -> None:
        fault = self.faults.pop(0) if self.faults else None
        self.tried.put((channel, notice))
        if fault is not None:
            raise fault

    def next(self) -> tuple[Channel, Notice]:
        return self.tried.get(timeout=PATIENCE)


def test_every_channel_gets_a_notice() -> None:
    network = Network()
    told = Notifier((ONE, OTHER), network)
    told.send(NOTICE)
    arrived = [network.next(), network.next()]
    assert sorted(channel.name for channel, _ in arrived) == ["the command /bin/one", "the command /bin/other"]
    assert {notice.title for _, notice in arrived} == {"jo asks"}
    told.close()
    ended = [own for own in threading.enumerate() if own.name == "hushlist: notify"]
    for own in ended:
        own.join(PATIENCE)
    assert not any(own.is_alive() for own in ended)


def test_a_group_uses_up_no_notices_of_another() -> None:
    network = Network()
    channels = [CommandChannel((f"/bin/{group}",), groups=(group,)) for group in ("7a", "7b")]
    told = Notifier(channels, network)
    for number in range(MOST_NOTICES + 1):
        told.send(Notice(f"{number}", "", group="7a"))
    told.send(Notice("other", "", group="7b"))
    arrived = [network.next()[1].title for _ in range(MOST_NOTICES + 1)]
    assert "other" in arrived
    assert f"{MOST_NOTICES}" not in arrived
    told.close()


def test_a_channel_of_some_groups_gets_what_is_about_their_clients_alone() -> None:
    """What goes nowhere is not counted as sent."""
    network = Network()
    teacher = CommandChannel(("/bin/teacher",), weekly=True, groups=("7a",))
    told = Notifier((teacher,), network)
    for number in range(MOST_NOTICES):
        told.send(Notice("other", "", group="7b"))
        told.send(Notice(f"{number}", ""))
    told.send(Notice("week", "", html="<p>"))
    told.send(Notice("own", "", group="7a"))
    told.send(Notice("own week", "", html="<p>", group="7a"))
    assert [network.next()[1].title for _ in range(2)] == ["own", "own week"]
    assert network.tried.empty()
    told.close()


def test_a_channel_that_hangs_holds_up_nobody() -> None:
    go_on, network = Event(), Network()

    def hang(channel: Channel, notice: Notice, *_: object) -> None:
        if channel is ONE:
            go_on.wait(PATIENCE)
        network(channel, notice)

    told = Notifier((ONE, OTHER), hang)
    for _ in range(5):
        told.send(NOTICE)
    assert [network.next()[0] for _ in range(5)] == [OTHER] * 5
    told.close()
    go_on.set()


def test_a_fault_is_told_once_without_secrets_and_the_notice_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    network = Network(DeliveryError("the server answered 500"), ValueError("secret"), DeliveryError("again"))
    told = Notifier((ONE,), network, pauses=(0.0, 0.0, 0.0))
    told.send(NOTICE)
    for _ in range(4):
        network.next()
    told.send(NOTICE)
    network.next()  # the thread has told by now how the first one ended
    assert [record.getMessage() for record in caplog.records] == [
        "hushlist: no notice goes out by the command /bin/one: the server answered 500",
        "hushlist: notices go out again by the command /bin/one",
    ]
    told.close()


def test_what_is_sent_again_is_sent_to_those_alone_who_have_not_got_it() -> None:
    network = Network(DeliveryError("some", OTHER), DeliveryError("none"))
    told = Notifier((ONE,), network, pauses=(0.0, 0.0))
    told.send(NOTICE)
    assert [network.next()[0] for _ in range(3)] == [ONE, OTHER, OTHER]
    told.send(NOTICE)
    assert network.next()[0] == ONE
    told.close()


def test_a_notice_is_given_up_after_some_tries() -> None:
    network = Network(*(DeliveryError("no"),) * 3)
    told = Notifier((ONE,), network, pauses=(0.0, 0.0))
    told.send(NOTICE)
    for _ in range(3):
        network.next()
    told.send(Notice("next", ""))
    assert network.next()[1].title == "next"
    told.close()


def test_a_flood_of_notices_ends_after_some(caplog: pytest.LogCaptureFixture) -> None:
    clock, network = Clock(), Network()
    told = Notifier((ONE,), network, clock=clock)
    for number in range(MOST_NOTICES + 5):
        told.send(Notice(str(number), "", client=str(number)))
    assert [network.next()[1].title for _ in range(MOST_NOTICES)] == [str(number) for number in range(MOST_NOTICES)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    clock.now += WITHIN
    told.send(Notice("later", ""))
    assert network.next()[1].title == "later"
    told.close()


def test_one_client_does_not_use_up_the_notices_of_others() -> None:
    clock, network = Clock(), Network()
    told = Notifier((ONE,), network, clock=clock)
    for number in range(MOST_NOTICES):
        told.send(Notice(str(number), "", client="10.0.0.7"))
    told.send(Notice("other", "", client="10.0.0.8"))
    titles = [network.next()[1].title for _ in range(MOST_OF_CLIENT + 1)]
    assert titles == [*map(str, range(MOST_OF_CLIENT)), "other"]
    clock.now += WITHIN
    told.send(Notice("later", "", client="10.0.0.7"))
    assert network.next()[1].title == "later"
    told.close()


def test_the_summary_of_a_week_goes_to_those_who_take_it_and_is_never_one_too_many() -> None:
    network = Network()
    told = Notifier((ONE, replace(OTHER, weekly=True)), network)
    for number in range(MOST_NOTICES + 1):
        told.send(Notice(str(number), "", html="<p>"))
    assert {network.next()[0].name for _ in range(MOST_NOTICES + 1)} == {OTHER.name}
    told.send(NOTICE)
    assert [network.next()[1].title for _ in range(2)] == [NOTICE.title] * 2
    told.close()


def test_what_a_full_queue_does_not_take_is_lost_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifier, "MOST_WAITING", 2)
    go_on, network = Event(), Network()

    def hang(channel: Channel, notice: Notice, *_: object) -> None:
        network(channel, notice)
        go_on.wait(PATIENCE)

    told = Notifier((ONE,), hang)
    told.send(NOTICE)
    network.next()
    for _ in range(4):
        told.send(NOTICE)
    assert "too many notices wait for it" in caplog.text
    told.close()
    go_on.set()


def test_a_policy_with_other_channels_loses_nothing_that_waits_for_those_that_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, go_on, network = Clock(), Event(), Network()

    def hang(channel: Channel, notice: Notice, *_: object) -> None:
        network(channel, notice)
        go_on.wait(PATIENCE)

    told = Notifier((ONE, ONE, OTHER), hang, clock=clock)
    told.send(NOTICE)
    assert sorted(str(network.next()[0]) for _ in range(3)) == sorted(map(str, (ONE, ONE, OTHER)))
    told.send(NOTICE._replace(title="waits"))
    told.use((THIRD, ONE))
    go_on.set()
    assert network.next() == (ONE, NOTICE._replace(title="waits"))
    for number in range(MOST_NOTICES):  # the channel that stays has sent two: its limit goes on, too
        told.send(Notice(str(number), "", client=str(number)))
    assert f"{ONE.name}: {MOST_NOTICES} notices within an hour" in caplog.text
    assert THIRD.name not in caplog.text
    sent = [network.next() for _ in range(2 * MOST_NOTICES - 2)]
    for channel, number in ((ONE, MOST_NOTICES - 2), (THIRD, MOST_NOTICES)):
        assert [notice.title for by, notice in sent if by == channel] == list(map(str, range(number)))
    told.close()


def test_nothing_is_sent_after_the_end_and_nobody_is_needed() -> None:
    Notifier().send(NOTICE)
    network = Network(DeliveryError("no"))
    told = Notifier((ONE,), network, pauses=(3600.0,))
    told.send(NOTICE)
    network.next()
    told.close()
    assert network.tried.empty()


def test_a_notice_for_programs_has_what_people_read() -> None:
    assert NOTICE.as_dict() == {"title": "jo asks", "message": "for games", "request": {"id": 1}}
