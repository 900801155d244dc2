"""The faults of servers of Safe Browsing: what is done to one, and what becomes of its lists and of pages on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faults.threat_lab import BLOCKED, CHOICES, PASSES, ThreatLab, ThreatServer
from hushlist.extensions.subscriptions.list_outcome import Outcome


@dataclass(frozen=True)
class ThreatFault:
    """One way to fail."""

    name: str
    #: does it to a server
    inject: Callable[[ThreatServer], None]
    #: words of an update that fails for that; empty where it would wait for longer than a test
    says: str = ""
    #: whether full hashes are still to be had
    confirms: bool = False

    def expected(self, choice: str) -> str:
        """What becomes of a page that is on the list, and that nobody has asked about before."""
        return BLOCKED if self.confirms or choice == "block" else PASSES


def _refuse(server: ThreatServer) -> None:
    server.fields["Retry-After"] = "7200"
    server.bend = lambda _method, _octets: (503, b"")


def _be_slow(server: ThreatServer) -> None:
    server.answers.clear()


def _cut_off(server: ThreatServer) -> None:
    server.cut = 3


def _stall(server: ThreatServer) -> None:
    server.cut, server.stalls = 3, True


def _lie(server: ThreatServer) -> None:
    server.lies = {"MALWARE", "mw-4b"}


def _send_nonsense(server: ThreatServer) -> None:
    server.bend = lambda _method, _octets: (200, b"<html>Sorry</html>")


THREAT_FAULTS = (
    ThreatFault("it is killed", ThreatServer.stop, "no connection"),
    ThreatFault("it is slow", _be_slow),
    ThreatFault("its checksum lies", _lie, "the checksum is not that of the list", confirms=True),
    ThreatFault("its answers are cut off", _cut_off, "cut off"),
    ThreatFault("it stands still in the middle of an answer", _stall),
    ThreatFault("it answers 503 with Retry-After", _refuse, "the server says 503"),
    ThreatFault("its certificate is another's", ThreatServer.show_another_certificate, "its certificate is not valid"),
    ThreatFault("it answers with a web page", _send_nonsense, "its answer cannot be used"),
)


def try_threat(fault: ThreatFault, lab: ThreatLab) -> dict[str, str]:
    """What becomes of a page that nobody has asked about before, by each choice of ``no-answer``.

    What was blocked before stays so, and all else goes on.

    Raises:
        AssertionError: it does not.
    """
    servers = {choice: lab.servers[fault.name, choice] for choice in CHOICES}
    for server in servers.values():
        fault.inject(server)
    if fault.says:
        for update in lab.update(fault.name):
            assert update.outcome is Outcome.FAILED, update
            assert fault.says in update.why, update.why
    known = [server.listed for server in servers.values()]
    found = lab.seen(*known, *(server.new for server in servers.values()), "ads.test", "good.test")
    assert [found[host] for host in (*known, "ads.test", "good.test")] == [*[BLOCKED] * 3, PASSES], found
    assert "Traceback" not in lab.proxy.log.text()
    return {choice: found[server.new] for choice, server in servers.items()}
