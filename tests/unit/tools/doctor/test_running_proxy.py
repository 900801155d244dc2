"""What the doctor says of what answers at the proxy's address; tests/e2e/test_doctor.py has a real proxy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from hushlist.core.diagnosis import About, Condition, Diagnosis
from hushlist.extensions.dashboard import dashboard_server
from hushlist.tools.doctor import running_proxy
from hushlist.tools.doctor.running_proxy import examine_proxy
from support.https_origin import write_chain

LISTENING = "  sl  local_address rem_address   st\n"
READY = b'{"ok": true, "reason": "it is ready"}'


class Proxy:
    """Answers each target as a test says; behind CONNECT, it speaks TLS."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "authority.pem"
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(*write_chain(folder, self.authority))
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.questions: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with suppress(OSError), connection:
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        head = connection.recv(65536).decode("ascii")
        self.questions.append(head.partition(" HTTP")[0])
        assert "Host: localhost" in head or head.startswith("CONNECT")
        status, body = self.answers.get(self.questions[-1], (404, b""))
        if not status:
            return
        if self.questions[-1].startswith("CONNECT") and status == 200:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with self._tls.wrap_socket(connection, server_side=True) as decrypted:
                self._serve(decrypted)
        else:
            connection.sendall(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)

    def examine(self, authority: Path | None = None) -> list[Diagnosis]:
        return list(examine_proxy("127.0.0.1", self.port, authority or self.authority))


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(running_proxy, "HOST", "localhost")  # the certificate has this name
    monkeypatch.setattr(running_proxy, "read_regular", lambda *_: LISTENING.encode())
    own = Proxy(tmp_path)
    own.answers = {
        "GET http://localhost/readyz": (200, READY),
        "CONNECT localhost:443": (200, b""),
        "GET /readyz": (200, READY),
    }
    yield own
    with suppress(OSError):
        own.listener.shutdown(socket.SHUT_RDWR)
    own.listener.close()


def of(condition: Condition, what: str, advice: str = "") -> Diagnosis:
    return Diagnosis(About.PROXY, condition, what, advice)


def through(proxy: Proxy) -> Diagnosis:
    return of(Condition.GOOD, f"https goes through, by the authority {proxy.authority}")


def test_it_asks_for_the_host_of_the_live_page() -> None:
    assert running_proxy.HOST == dashboard_server.HOST


LOGGED = "see what the proxy has logged: journalctl -u hushlist"


def test_a_proxy_that_is_ready_is_asked_by_http_and_by_https(proxy: Proxy) -> None:
    assert proxy.examine() == [of(Condition.GOOD, f"at 127.0.0.1:{proxy.port}: it is ready"), through(proxy)]
    assert proxy.questions == ["GET http://localhost/readyz", "CONNECT localhost:443", "GET /readyz"]


def test_a_proxy_that_is_not_ready_says_why(proxy: Proxy) -> None:
    proxy.answers["GET http://localhost/readyz"] = 503, b'{"ok": false, "reason": "it is stopping"}'
    wrong = of(Condition.WRONG, f"at 127.0.0.1:{proxy.port}: it is stopping", LOGGED)
    assert proxy.examine() == [wrong, through(proxy)]


def test_a_proxy_that_is_ready_says_what_fails_meanwhile(proxy: Proxy) -> None:
    answer = b'{"ok": true, "reason": "it is ready", "warnings": ["the log cannot be written"]}'
    proxy.answers["GET http://localhost/readyz"] = 200, answer
    advice = "it is tried again; the proxy has logged why: journalctl -u hushlist"
    good, warning, _ = proxy.examine()
    assert good == of(Condition.GOOD, f"at 127.0.0.1:{proxy.port}: it is ready")
    assert warning == of(Condition.WARNING, f"at 127.0.0.1:{proxy.port}: the log cannot be written", advice)


def test_one_that_asks_for_a_password_is_asked_nothing_more(proxy: Proxy) -> None:
    proxy.answers["GET http://localhost/readyz"] = 407, READY
    told = f"the proxy at 127.0.0.1:{proxy.port} asks for a name and a password: nothing more was asked"
    assert proxy.examine() == [of(Condition.UNKNOWN, told)]
    assert len(proxy.questions) == 1


def test_one_that_hides_its_page_is_known_by_the_page_for_everybody(proxy: Proxy) -> None:
    proxy.answers["GET http://localhost/readyz"] = 403, b"no"
    proxy.answers["GET http://localhost/setup"] = 200, b""
    told = f"Hushlist answers at 127.0.0.1:{proxy.port}, but does not show this machine its live page"
    hidden = of(Condition.UNKNOWN, told, "ask on the machine itself, or by the policy's live")
    assert proxy.examine() == [hidden, through(proxy)]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ok": true}', b"[" * 100_000])
def test_another_server_is_told_by_its_answer(proxy: Proxy, body: bytes) -> None:
    proxy.answers["GET http://localhost/readyz"] = 200, body
    told = f"what answers at 127.0.0.1:{proxy.port} is not Hushlist: status 200 for its own page"
    advice = "start mitmdump with -s addon/filter.py, or name another --proxy"
    assert proxy.examine() == [of(Condition.WRONG, told, advice)]
    proxy.answers["GET http://localhost/setup"] = 0, b""
    assert proxy.examine() == [of(Condition.WRONG, told, advice)]
    assert proxy.questions[:2] == ["GET http://localhost/readyz", "GET http://localhost/setup"]


def test_where_nothing_listens_nothing_answers(proxy: Proxy) -> None:
    proxy.listener.shutdown(socket.SHUT_RDWR)
    proxy.listener.close()
    (found,) = proxy.examine()
    assert found.condition is Condition.WRONG
    assert found.what.startswith(f"nothing answers at 127.0.0.1:{proxy.port}: ")
    assert found.advice.startswith("start it, ")


def test_without_the_authority_nobody_can_tell_whether_https_works(proxy: Proxy, tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    told = of(Condition.UNKNOWN, f"whether https works: there is no {none}", "name --confdir")
    assert proxy.examine(none)[-1] == told


def test_another_authority_and_a_tunnel_that_ends_are_wrong(proxy: Proxy, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_chain(other, other / "authority.pem")
    found = proxy.examine(other / "authority.pem")[-1]
    assert found.condition is Condition.WRONG
    assert found.what.startswith(f"https goes through, but not by the authority {other / 'authority.pem'}: ")
    assert found.advice.startswith("name the folder that the proxy has: --confdir")
    proxy.answers["CONNECT localhost:443"] = 502, b""
    found = proxy.examine()[-1]
    assert (found.condition, found.advice) == (Condition.WRONG, LOGGED)
    assert found.what.startswith("https does not go through: ")


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        ([], None),
        (["0100007F"], "127.0.0.1: for this machine alone"),
        (["0100007F", "00000000"], "0.0.0.0, 127.0.0.1"),
        (["00000000000000000000000001000000"], "::1: for this machine alone"),
    ],
)
def test_where_it_listens_is_read_from_the_system(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, addresses: list[str], told: str | None
) -> None:
    def read(path: Path, _: int) -> bytes:
        length = {Path("/proc/net/tcp"): 8, Path("/proc/net/tcp6"): 32}[path]
        own = [address for address in addresses if len(address) == length]
        if not own:
            raise FileNotFoundError(path)
        lines = [f"   0: {address}:{proxy.port:04X} 00000000:0000 0A 0\n" for address in own]
        others = [f"   1: 00000000:{proxy.port:04X} 00000000:0000 01 0\n", "   2: 00000000:0001 00000000:0000 0A 0\n"]
        return "".join([LISTENING, *lines, *others]).encode()

    monkeypatch.setattr(running_proxy, "read_regular", read)
    found = [own for own in proxy.examine() if own.about is About.PORTS]
    whole = f"port {proxy.port} is open at {told}"
    assert found == ([] if told is None else [Diagnosis(About.PORTS, Condition.GOOD, whole)])
