"""Names that are gone, by name servers on loopback that answer, deny, lie, are silent, cut and are forged."""

import asyncio
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, create_server, socket
from threading import Thread

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.policy_file import list_files
from hushlist.tools.audit import alive_job
from hushlist.tools.audit.alive_job import (
    NameSearch,
    NameServer,
    Outcome,
    State,
    Verdict,
    listed_names,
    parse_name_server,
)
from unit.cli.running import Run

START = datetime(2026, 11, 21, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: how a name, or any below a zone that begins with a dot, is answered; others are denied by the root
Zone = Mapping[str, str]


def bound_twice() -> tuple[socket, socket]:
    """Sockets of UDP and TCP at one port, which is free for both."""
    while True:
        udp = socket(AF_INET, SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        try:
            return udp, create_server(udp.getsockname())
        except OSError:
            udp.close()


class Server:
    """A name server; ``asked`` are the names by UDP, in order."""

    def __init__(self, zone: Zone) -> None:
        self.zone, self.questions = dict(zone), list[str]()
        self._udp, self._tcp = bound_twice()
        self.address = NameServer("127.0.0.1", self._udp.getsockname()[1])
        for serve in (self._serve_udp, self._serve_tcp):
            Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        for listening in (self._udp, self._tcp):
            listening.close()

    def _serve_udp(self) -> None:
        while True:
            try:
                message, peer = self._udp.recvfrom(512)
            except OSError:
                return
            name, how = self._look_up(message)
            self.questions.append(name)
            if how == "cut":
                self._udp.sendto(answer(message, 0x8200), peer)
            elif how == "forged":
                for forged in (bytes((message[0] ^ 1,)) + message[1:], message[:13] + b"~" + message[14:]):
                    self._udp.sendto(answer(forged, 0x8003, zone=b"\0"), peer)
                self._udp.sendto(reply(message, "alive"), peer)
            elif how != "silent":
                self._udp.sendto(reply(message, how), peer)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection:
                message = connection.recv(512)[2:]
                whole = reply(message, "alive")
                connection.sendall(len(whole).to_bytes(2) + whole)

    def _look_up(self, message: bytes) -> tuple[str, str]:
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode())
            at += 1 + message[at]
        name = ".".join(labels)
        return name, self.zone.get(name) or self.zone.get("." + name.partition(".")[2]) or self.zone.get(".", "denied")


def answer(message: bytes, flags: int, *, address: bytes = b"", zone: bytes | None = None) -> bytes:
    head = message[:2] + struct.pack("!5H", flags, 1, bool(address), zone is not None, 0)
    record = b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 60, 4) + address if address else b""
    authority = b"" if zone is None else zone + struct.pack("!2HIH", 6, 1, 60, 0)
    return head + message[12:] + record + authority


def reply(message: bytes, how: str) -> bytes:
    return {
        "alive": lambda: answer(message, 0x8180, address=bytes((192, 0, 2, 1))),
        "empty": lambda: answer(message, 0x8180),
        "nowhere": lambda: answer(message, 0x8180, address=bytes(4)),
        "denied": lambda: answer(message, 0x8183, zone=b"\0"),
        "made up": lambda: answer(message, 0x8183),
        "other zone": lambda: answer(message, 0x8183, zone=b"\x03rpz\0"),
        "alias": lambda: answer(message, 0x8183, address=bytes(4), zone=b"\0"),
        "failed": lambda: answer(message, 0x8182),
        "refused": lambda: answer(message, 0x8185),
        "broken": lambda: answer(message, 0x8183, zone=b"\xc0\xff"),
    }[how]()


@contextmanager
def servers(*zones: Zone) -> Iterator[list[Server]]:
    serving = [Server(zone) for zone in zones]
    try:
        yield serving
    finally:
        for each in serving:
            each.close()


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Asks servers for names, so many hours after the start."""
    monkeypatch.setattr(alive_job, "PATIENCE", 0.3)

    def run(serving: list[Server], *names: str, hours: float = 0) -> Outcome:
        now = START + hours * HOUR
        state = State(tmp_path / "state.json", int(now.timestamp()))
        search = NameSearch([each.address for each in serving], 100_000, lambda: now, state)
        return asyncio.run(search.run([name.encode() for name in names]))

    return run


Ask = Callable[..., Outcome]


def verdicts(outcome: Outcome) -> dict[str, str]:
    return {name.decode(): str(verdict) for name, verdict in outcome.verdicts.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "after_a_day"),
    [
        ("alive", Verdict.ALIVE),
        ("empty", Verdict.ALIVE),
        ("cut", Verdict.ALIVE),
        ("forged", Verdict.ALIVE),
        ("denied", Verdict.DEAD),
        *((how, Verdict.UNKNOWN) for how in ("silent", "failed", "refused", "broken", "nowhere")),
        *((how, Verdict.UNKNOWN) for how in ("made up", "other zone", "alias")),
    ],
)
def test_only_denials_by_the_zone_a_day_apart_make_a_name_dead(ask: Ask, how: str, after_a_day: Verdict) -> None:
    name = "a.site.example"
    with servers({name: how}) as serving:
        first, second = (ask(serving, name, hours=hours).verdicts[name.encode()] for hours in (0, 24))
    assert first is (Verdict.DENIED if after_a_day is Verdict.DEAD else after_a_day)
    assert second is after_a_day


@pytest.mark.parametrize(
    ("hours", "ways", "expected"),
    [
        ((0, 23.9), ("denied", "denied"), "denied"),
        ((0, 30, 31), ("denied", "alive", "denied"), "alive"),  # it was asked for less than a day ago
        ((0, 30, 60), ("denied", "alive", "denied"), "denied"),
        ((0, 30, 60), ("denied", "silent", "denied"), "dead"),
        ((0, 25, 26), ("denied", "denied", "alive"), "dead"),
        ((0, 25, 50), ("denied", "denied", "alive"), "alive"),
        ((0, -48, 1), ("denied", "denied", "denied"), "dead"),  # the clock went back, and the first denial with it
        ((0, 24 * 121), ("denied", "denied"), "denied"),  # forgotten
    ],
)
def test_what_was_said_is_kept_from_run_to_run(
    ask: Ask, hours: tuple[float, ...], ways: tuple[str, ...], expected: str
) -> None:
    with servers({}) as serving:
        for moment, how in zip(hours, ways, strict=True):
            serving[0].zone["a.example"] = how
            found = ask(serving, "a.example", hours=moment)
    assert verdicts(found) == {"a.example": expected}


def test_a_name_is_dead_only_if_each_resolver_that_counts_said_so_twice(ask: Ask) -> None:
    with servers({}, {"b.example": "alive", "c.example": "failed"}) as (one, other):
        names = ("a.example", "b.example", "c.example")
        ask([one], *names)
        # the other one denies the first name only now
        assert set(verdicts(ask([one, other], *names, hours=25)).values()) == {"denied", "alive", "unknown"}
        assert verdicts(ask([one, other], *names, hours=50)) == {
            "a.example": "dead",
            "b.example": "alive",
            "c.example": "unknown",
        }


@pytest.mark.slow
def test_resolvers_that_answer_for_everything_do_not_count(ask: Ask) -> None:
    lying, hijacked, wild = {".": "alive"}, {".": "nowhere"}, {".site.example": "alive", ".example": "nowhere"}
    with servers(lying, hijacked, {".": "silent"}, wild, {}) as serving:
        addresses = [str(each.address) for each in serving]
        names = ("a.site.example", "b.site.example")
        ask(serving, *names)
        found = ask(serving, *names, hours=24)
        assert list(found.refused) == addresses[:3]
        assert ["answers for names" in why for why in found.refused.values()] == [True, True, False]
        assert found.wildcards == {addresses[3]: {"site.example"}}
        assert set(verdicts(found).values()) == {"dead"}
        # one name beside serves the whole zone, in each run
        assert sum(name.endswith(".site.example") and name not in names for name in serving[3].questions) == 2
        assert set(verdicts(ask(serving[3:4], *names, hours=48)).values()) == {"unknown"}
        assert verdicts(ask(serving[:3], *names, hours=72)) == {}


def test_an_interrupted_run_goes_on_where_it_was(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}.example" for number in range(8)]
    monkeypatch.setattr(alive_job, "AT_ONCE", 1)
    with servers({}) as serving:
        state = State(tmp_path / "state.json", int(START.timestamp()))
        search = NameSearch([serving[0].address], 100_000, lambda: START, state)

        def stop(_: str, done: int, __: int) -> None:
            if done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(search.run([name.encode() for name in names], stop))
        assert set(json.loads((tmp_path / "state.json").read_text())["names"]) == set(names[:3])
        serving[0].questions.clear()
        assert set(verdicts(ask(serving, *names)).values()) == {"denied"}
        assert serving[0].questions[1:] == names[3:]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"names": {"a": 1}}', '{"names": {"a": ["x", 1e99, []]}}', "[" * 99999]
)
def test_a_file_that_is_no_state_is_told_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(SourceError, match="it is no state of 'hushlist lint --alive'"):
        State(path, 0)
    assert path.read_text() == text


def test_only_names_that_somebody_registered_are_asked_for(tmp_path: Path) -> None:
    texts = {
        "a.domains": "a.example\nco.uk\nexample\nx.onion\n192.0.2.1\n",
        "b.adblock": "||a.example^\n||c.example/ads/\n/banner/*\n",
        "c.yaml": "rules:\n- {address: 192.0.2.0/24}\n- {sha256: '" + "0" * 64 + "'}\n"
        "- {expression: 'http://d.example/x?y', match: simple}\n- {expression: b.a.example/x}\n",
    }
    files = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        files += list_files(tmp_path / name, name.partition(".")[2], ListDefaults())
    names, others = listed_names(files)
    places = {name.decode(): [f"{Path(each.source).name}:{each.line}" for each in at] for name, at in names.items()}
    assert places == {
        "a.example": ["a.domains:1", "b.adblock:1"],
        "b.a.example": ["c.yaml:5"],
        "c.example": ["b.adblock:2"],
        "d.example": ["c.yaml:4"],
    }
    assert others == 7


@pytest.mark.parametrize(
    "text",
    ["", "x", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1:65536", "[::1", "::1]", "[::1]x", "a:b", "1.2.3", "192.0.2.1:٣"],
)
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ValueError):
        parse_name_server(text)


def test_the_command_names_dead_names_and_what_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    Path("a.domains").write_text("gone.example\nalive.example\n192.0.2.1\n")
    days_ago = int(datetime.now(UTC).timestamp()) - 2 * alive_job.DAY
    with servers({"alive.example": "alive"}, {".": "alive"}) as (one, liar):
        Path("state").write_text(json.dumps({"names": {"gone.example": [days_ago, days_ago, [str(one.address)]]}}))
        options = [
            "lint",
            "a.domains",
            "--format",
            "domains",
            "--alive",
            "--state",
            "state",
            "--resolver",
            str(one.address),
        ]
        assert run(*options, "--resolver", str(liar.address)) == (
            1,
            "a.domains:1: dead: gone.example\n"
            "2 names: 1 dead, 0 denied, 1 alive, 0 unknown; 1 rule has no name to ask for\n",
            f"{liar.address}: it answers for names that nobody can have: what it says does not count\n",
        )
        code, out, _ = run(*options, "--json")
        dead, summary = map(json.loads, out.splitlines())
        assert (code, dead) == (1, {"source": "a.domains", "line": 1, "name": "gone.example"})
        assert summary["summary"]["alive"] == 1
        assert "no resolver is left" in run(*options[:-1], str(liar.address))[2]
    for wrong in (["--alive", "--state", "state"], ["--alive", "--resolver", "127.0.0.1"], ["--rate", "3"]):
        assert run("lint", "a.domains", *wrong)[0] == 2
