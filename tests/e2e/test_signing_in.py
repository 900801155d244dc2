"""A sign-in that is bound to a connection works behind the proxy, also with bodies (NTLM, and Negotiate with it)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_bytes
from shutil import which

import pytest

from e2e.origin import LOOPBACK, PATIENCE
from e2e.plain_origin import PlainHandler, PlainOrigin
from e2e.proxy import Proxy, mitmdump, read_answer

USER, PASSWORD = "anna", "password"
#: MD4 of the password in UTF-16, which Python has no more
NT_HASH = bytes.fromhex("8846f7eaee8fb117ad06bdd830b7586c")
_SIGNATURE = b"NTLMSSP\0"
#: unicode, NTLM, its second version, and names of the target
_FLAGS = 0x00880201
_TARGET = "HOME".encode("utf-16-le")
_TARGETS = struct.pack("<HH", 2, len(_TARGET)) + _TARGET + struct.pack("<HH", 0, 0)


def proof_of(challenge: bytes, user: str, domain: str, rest: bytes) -> bytes:
    """Spec: [MS-NLMP], 3.3.2: NTProofStr, for what else a client has to say."""
    key = hmac.digest(NT_HASH, (user.upper() + domain).encode("utf-16-le"), hashlib.md5)
    return hmac.digest(key, challenge + rest, hashlib.md5)


def challenge_message(challenge: bytes) -> bytes:
    """Spec: [MS-NLMP], 2.2.1.2."""
    at = 48
    target = struct.pack("<HHI", len(_TARGET), len(_TARGET), at)
    targets = struct.pack("<HHI", len(_TARGETS), len(_TARGETS), at + len(_TARGET))
    head = _SIGNATURE + struct.pack("<I", 2) + target + struct.pack("<I", _FLAGS) + challenge + bytes(8) + targets
    return head + _TARGET + _TARGETS


def authenticate_message(challenge: bytes) -> bytes:
    """Spec: [MS-NLMP], 2.2.1.3."""
    rest = b"\x01\x01" + bytes(6) + bytes(8) + token_bytes(8) + bytes(4) + _TARGETS + bytes(4)
    response = proof_of(challenge, USER, "", rest) + rest
    user, at, fields, data = USER.encode("utf-16-le"), 64, b"", b""
    for part in (b"", response, b"", user, b"", b""):
        fields += struct.pack("<HHI", len(part), len(part), at + len(data))
        data += part
    return _SIGNATURE + struct.pack("<I", 3) + fields + struct.pack("<I", _FLAGS) + data


def is_right(message: bytes, challenge: bytes) -> bool:
    """Whether who has sent the last message knows the password, and the challenge."""
    part = [struct.unpack_from("<HHI", message, at) for at in (20, 28, 36)]
    response, domain, user = (message[at : at + length] for length, _, at in part)
    known = proof_of(challenge, user.decode("utf-16-le"), domain.decode("utf-16-le"), response[16:])
    return hmac.compare_digest(known, response[:16])


class _Handler(PlainHandler):
    """Answers who has signed in on this connection; all others are asked to."""

    #: of the connection
    challenge = b""
    is_known = False

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        message = base64.b64decode(given)
        asked = ["NTLM", "Negotiate"]
        if message[8:9] == b"\x01":
            self.is_known, self.challenge = False, token_bytes(8)
            asked = [f"{scheme} {base64.b64encode(challenge_message(self.challenge)).decode()}"]
        elif message[8:9] == b"\x03":
            self.is_known = bool(self.challenge) and is_right(message, self.challenge)
            self.challenge = b""
        answer = hashlib.sha256(body).hexdigest().encode() if self.is_known else b"who are you?"
        self.send_response(200 if self.is_known else 401)
        for one in () if self.is_known else asked:
            self.send_header("WWW-Authenticate", one)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_GET = do_POST  # noqa: N815


class AskingOrigin(PlainOrigin):
    """A server, over http and https, that knows whom it serves by their connection."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda connection: _Handler(connection, self), folder)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Iterator[Proxy]:
    """A proxy of which each host is such a server."""
    with (
        AskingOrigin(tmp_path_factory.mktemp("asking")) as origin,
        mitmdump(tmp_path_factory.mktemp("proxy"), origin, policy=policy) as running,
    ):
        yield running


SCHEMES = pytest.mark.parametrize("scheme", ["http", "https"])


@SCHEMES
@pytest.mark.parametrize("size", [20, pytest.param(300_000, marks=pytest.mark.thorough), 3_000_000])
@pytest.mark.parametrize("way", [["--data-binary"], ["--upload-file"]], ids=["POST", "PUT"])
def test_curl_signs_in_and_uploads(asking: Proxy, tmp_path: Path, scheme: str, way: list[str], size: int) -> None:
    if which("curl") is None or "NTLM" not in subprocess.run(["curl", "-V"], capture_output=True, text=True).stdout:
        pytest.skip("there is no curl that knows NTLM")
    body = b"0123456789" * (size // 10)
    (tmp_path / "body").write_bytes(body)
    given = [*way, f"{'@' if way == ['--data-binary'] else ''}{tmp_path / 'body'}"]
    command = ["curl", "-sS", "--fail", "-x", asking.url, "--cacert", str(asking.authority), "--ntlm"]
    urls = [f"{scheme}://good.test/a", f"{scheme}://good.test/b"]
    command += ["-u", f"{USER}:{PASSWORD}", *given, urls[0], *given[: 2 if way == ["--upload-file"] else 0], urls[1]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == (hashlib.sha256(body).hexdigest() * 2, "")


class Program:
    """A program that sends its body in each step of a sign-in, and goes on by the connection that it signed in on.

    Use as a context manager.
    """

    def __init__(self, proxy: Proxy, scheme: str) -> None:
        self._connection: http.client.HTTPConnection
        if scheme == "https":
            trusted = ssl.create_default_context(cafile=str(proxy.authority))
            self._connection = http.client.HTTPSConnection(LOOPBACK, proxy.port, context=trusted, timeout=PATIENCE)
            self._connection.set_tunnel("good.test", 443)
        else:
            self._connection = http.client.HTTPConnection(LOOPBACK, proxy.port, timeout=PATIENCE)
        self._target = "/" if scheme == "https" else "http://good.test/"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, body: bytes, message: bytes | None = None, way: str = "NTLM") -> tuple[int, str, bytes]:
        headers = {"Host": "good.test"}
        if message is not None:
            headers["Authorization"] = f"{way} {base64.b64encode(message).decode()}"
        self._connection.request("POST", self._target, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.headers.get("WWW-Authenticate", ""), answer.read()

    def sign_in(self, body: bytes, way: str = "NTLM") -> tuple[int, str, bytes]:
        assert self.send(body)[0] == 401
        status, asked, _ = self.send(body, _SIGNATURE + struct.pack("<II", 1, _FLAGS) + bytes(16), way)
        assert status == 401
        assert asked.startswith(f"{way} ")
        return self.send(body, authenticate_message(base64.b64decode(asked.split()[1])[24:32]), way)


@SCHEMES
@pytest.mark.parametrize("way", ["NTLM", "Negotiate"])
def test_a_program_signs_in_with_a_body_in_each_step(asking: Proxy, scheme: str, way: str) -> None:
    body = b'{"key": "value"}'
    right = (200, "", hashlib.sha256(body).hexdigest().encode())
    with Program(asking, scheme) as program:
        assert program.sign_in(body, way) == right
        assert program.send(body) == right  # by the connection that is known
        assert program.sign_in(body, way) == right  # that connection ended behind it


@SCHEMES
@pytest.mark.parametrize("body", [b"GET /secret/ HTTP/1.1\r\nHost: path.test\r\n\r\n", b"{ /x?", b" /x?"])
def test_no_connection_is_kept_behind_a_body_that_may_be_taken_for_a_request(
    asking: Proxy, scheme: str, body: bytes
) -> None:
    with Program(asking, scheme) as program:
        assert program.sign_in(body)[0] == 401


class OddOrigin(PlainOrigin):
    """A server that reads no body, and takes any word of a line for a method, or nothing."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        #: the targets of each connection
        self.targets: list[list[bytes]] = []

    def _answer(self, connection: socket.socket) -> None:
        targets: list[bytes] = []
        self.targets.append(targets)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
            while b"\r\n\r\n" in received:
                head, _, received = received.partition(b"\r\n\r\n")
                targets.append(head.split(b"\r\n")[0].split(b" ")[1])
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                if b"connection: close" in head.lower():
                    connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{ /secret/?",
        *(pytest.param(one, marks=pytest.mark.thorough) for one in (b'{"key": "value"}', b" /secret/?", b'{"key":1} ')),
    ],
)
def test_no_body_begins_the_next_request(tmp_path: Path, policy: Path, body: bytes) -> None:
    head = (
        b"POST http://path.test/%d HTTP/1.1\r\nHost: path.test\r\nAuthorization: NTLM T\r\nContent-Length: %d\r\n\r\n"
    )
    with OddOrigin() as origin, mitmdump(tmp_path, origin, policy=policy) as proxy, proxy.connect() as connection:
        for number in range(2):
            connection.sendall(head % (number, len(body)) + body)
            assert read_answer(connection).status == 401
    found = [target for targets in origin.targets for target in targets]
    assert found in ([b"/0", b"/1"], [b"/0", b'"value"}POST'])  # what is no path is nowhere
    assert len(origin.targets) == (1 if body in (b'{"key": "value"}', b"{") else 2)


def test_nobody_signs_in_on_another_connection(asking: Proxy) -> None:
    with Program(asking, "http") as one, Program(asking, "http") as other:
        _, asked, _ = one.send(b"{}", _SIGNATURE + struct.pack("<II", 1, _FLAGS) + bytes(16))
        message = authenticate_message(base64.b64decode(asked.split()[1])[24:32])
        assert other.send(b"{}", message)[0] == 401
        assert one.send(b"{}", message)[0] == 200
        assert other.send(b"{}")[0] == 401
