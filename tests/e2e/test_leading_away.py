"""Nothing leads a browser to where nothing is filtered: redirects, alternative services, WebSockets over HTTP/2."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from e2e.origin import LOOPBACK, Origin, write_certificate
from e2e.policies import replace
from e2e.proxy import PATIENCE, Proxy, mitmdump, request_head

ALTERNATIVE = b'h3=":443"; ma=86400'


class AlternativeOrigin:
    """An origin of HTTP/2 that offers an alternative in a frame, in its headers and in its trailers."""

    def __init__(self, folder: Path) -> None:
        self._listening = socket.create_server((LOOPBACK, 0))
        self.https_port: int = self._listening.getsockname()[1]
        self.http_port = 0
        certificate, key = write_certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._context.set_alpn_protocols(["h2"])
        self.targets: list[bytes] = []

    def __enter__(self) -> AlternativeOrigin:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        try:
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()
        except OSError:
            return  # it is closed

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            with self._context.wrap_socket(connection, server_side=True) as tls:
                config = h2.config.H2Configuration(client_side=False, header_encoding=None)
                state = h2.connection.H2Connection(config)
                state.initiate_connection()
                tls.sendall(state.data_to_send())
                while data := tls.recv(65536):
                    for event in state.receive_data(data):
                        if isinstance(event, h2.events.RequestReceived):
                            self._answer(state, event)
                    tls.sendall(state.data_to_send())
        except OSError:
            return

    def _answer(self, state: h2.connection.H2Connection, event: Any) -> None:
        self.targets.append(dict(event.headers)[b":path"])
        number = event.stream_id
        state.advertise_alternative_service(ALTERNATIVE, stream_id=number)
        state.advertise_alternative_service(ALTERNATIVE, origin=b"https://good.test")
        fields = [(b"alt-svc", ALTERNATIVE), (b"alt-svc", b"h2=other.test:443"), (b"alt-svc", b"clear")]
        state.send_headers(number, [(b":status", b"200"), (b"x-kept", b"yes"), *fields])
        state.send_data(number, b"from the origin")
        state.send_headers(number, [(b"x-trailer", b"yes"), (b"alt-svc", ALTERNATIVE)], end_stream=True)


@pytest.fixture(scope="module")
def alternative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlternativeOrigin]:
    with AlternativeOrigin(tmp_path_factory.mktemp("alternative")) as running:
        yield running


@pytest.fixture(scope="module")
def alternatively(tmp_path_factory: pytest.TempPathFactory, origin: Origin, policy: Path) -> Iterator[Proxy]:
    """A proxy that reaches an origin of the test's own, at any port."""
    options = {"upstream_others": "true"}
    with mitmdump(tmp_path_factory.mktemp("others"), origin, policy=policy, options=options) as running:
        yield running


def http2_events(
    proxy: Proxy, host: str, *requests: list[tuple[str, str]], end_stream: bool = True, **config: Any
) -> list[Any]:
    """What happens on a connection of HTTP/2 through the proxy until the last request is over, or the connection."""
    context = proxy.tls()
    context.set_alpn_protocols(["h2"])
    found: list[Any] = []
    with context.wrap_socket(proxy.tunnel(host, 443), server_hostname=host) as tls:
        assert tls.selected_alpn_protocol() == "h2"
        tls.settimeout(PATIENCE)
        settings = h2.config.H2Configuration(client_side=True, header_encoding=None, **config)
        state = h2.connection.H2Connection(settings)
        state.initiate_connection()
        for request in requests:
            state.send_headers(state.get_next_available_stream_id(), request, end_stream=end_stream)
        tls.sendall(state.data_to_send())
        ends = (h2.events.StreamEnded, h2.events.StreamReset, h2.events.ConnectionTerminated)
        while sum(isinstance(event, ends) for event in found) < len(requests) and (data := tls.recv(65536)):
            found += state.receive_data(data)
            tls.sendall(state.data_to_send())
    return found


def of_kind(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def get(host: str, path: str) -> list[tuple[str, str]]:
    return [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", path)]


@pytest.mark.parametrize(
    ("mode", "options", "kept"),
    [
        ("block", {}, [b"clear"]),
        pytest.param("block", {"stream_large_bodies": "1"}, [b"clear"], marks=pytest.mark.thorough),
        ("tag", {}, [b"clear"]),
        ("off", {}, [ALTERNATIVE, b"h2=other.test:443", b"clear"]),
    ],
    ids=["block", "streamed", "tag", "off"],
)
def test_alternative_services_are_taken_out_wherever_the_filter_is_on(
    tmp_path: Path,
    policy: Path,
    alternative: AlternativeOrigin,
    mode: str,
    options: dict[str, str],
    kept: list[bytes],
) -> None:
    with mitmdump(tmp_path, alternative, policy=policy, mode=mode, options=options) as running:
        events = http2_events(running, "good.test", get("good.test", "/"))
    (response,) = of_kind(events, h2.events.ResponseReceived)
    assert [value for name, value in response.headers if name == b"alt-svc"] == kept
    assert (b"x-kept", b"yes") in response.headers
    (trailers,) = of_kind(events, h2.events.TrailersReceived)
    expected = [(b"x-trailer", b"yes")] + ([(b"alt-svc", ALTERNATIVE)] if mode == "off" else [])
    assert [tuple(field) for field in trailers.headers] == expected
    assert of_kind(events, h2.events.AlternativeServiceAvailable) == []


def test_a_group_for_which_the_filter_is_off_keeps_them(tmp_path: Path, alternative: AlternativeOrigin) -> None:
    policy = replace(tmp_path / "policy.yaml", "layers: []\ngroups: [{name: all, clients: [127.0.0.1], mode: off}]\n")
    with mitmdump(tmp_path, alternative, policy=policy) as running:
        events = http2_events(running, "good.test", get("good.test", "/"))
    (response,) = of_kind(events, h2.events.ResponseReceived)
    assert (b"alt-svc", ALTERNATIVE) in [tuple(field) for field in response.headers]


@pytest.mark.parametrize("ending", [b"\r", b"\n ", b"\r\n\t", b"\r\r", b"\0\r"])
def test_no_line_end_hides_an_alternative_service(alternatively: Proxy, ending: bytes) -> None:
    hidden = b"%bAlt-Svc: %b" % (ending, ALTERNATIVE)
    with socket.create_server((LOOPBACK, 0)) as server, alternatively.connect() as client:
        client.sendall(request_head(b"http://good.test:%d/" % server.getsockname()[1], b"good.test"))
        with server.accept()[0] as origin:
            reason = hidden if b"\n" not in ending else b""
            origin.sendall(b"HTTP/1.1 200 OK%b\r\nX: y%b\r\nContent-Length: 0\r\n\r\n" % (reason, hidden))
            head = b"".join(iter(lambda: client.recv(65536), b""))
    lines = head.replace(b"\n", b"\r").split(b"\r")
    assert lines[0].startswith(b"HTTP/1.1 200 OK")
    assert [line for line in lines if line.strip().lower().startswith(b"alt-svc")] == []


def test_no_field_behind_the_chunks_of_http_1_goes_on(alternatively: Proxy) -> None:
    with socket.create_server((LOOPBACK, 0)) as server, alternatively.connect() as client:
        client.sendall(request_head(b"http://good.test:%d/" % server.getsockname()[1], b"good.test"))
        with server.accept()[0] as origin:
            chunks = b"2\r\nok\r\n0\r\nAlt-Svc: %b\r\n\r\n" % ALTERNATIVE
            origin.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.endswith(b"\r\n\r\n2\r\nok\r\n0\r\n\r\n")


def test_where_a_redirect_leads_is_decided_when_it_is_requested(proxy: Proxy, origin: Origin) -> None:
    with origin.watch() as arrived, proxy.client() as client:
        redirect = client.get("http://good.test/away?http://ads.test/page")
        assert (redirect.status_code, redirect.headers["location"]) == (301, "http://ads.test/page")
        assert client.get(redirect.headers["location"]).status_code == 403
    assert [request.target for request in arrived.requests] == [b"/away?http://ads.test/page"]


# -- WebSocket over HTTP/2 ---------------------------------------------------------------------------------------------


def websocket(host: str, path: str) -> list[tuple[str, str]]:
    """Spec: RFC 8441, 5."""
    method = [(":method", "CONNECT"), (":protocol", "websocket")]
    return [*method, *get(host, path)[1:], ("sec-websocket-version", "13"), ("origin", "https://good.test")]


def test_a_websocket_over_http_2_is_not_offered(proxy: Proxy, origin: Origin) -> None:
    events = http2_events(proxy, "good.test", get("good.test", "/"))
    settings = [event.changed_settings for event in of_kind(events, h2.events.RemoteSettingsChanged)]
    key = h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL
    assert [one[key].new_value for one in settings if key in one and one[key].new_value] == []


@pytest.mark.parametrize(("host", "path"), [("ads.test", "/chat"), ("path.test", "/secret/chat")])
@pytest.mark.parametrize("end_stream", [False, True])
def test_a_blocked_one_that_is_asked_for_all_the_same_does_not_arrive(
    proxy: Proxy, origin: Origin, host: str, path: str, end_stream: bool
) -> None:
    with origin.watch() as arrived:
        events = http2_events(
            proxy,
            host,
            websocket(host, path),
            end_stream=end_stream,
            validate_outbound_headers=False,
        )
    accepted = [event for event in of_kind(events, h2.events.ResponseReceived) if (b":status", b"200") in event.headers]
    assert accepted == []
    assert arrived.requests == []
