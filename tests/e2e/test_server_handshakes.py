"""Servers with which TLS does not begin: the page and the log say why, and what to write."""

from __future__ import annotations

import datetime
import re
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e.origin import LOOPBACK, Origin
from e2e.plain_origin import PlainOrigin
from e2e.proxy import PATIENCE, Proxy, mitmdump
from e2e.test_streaming import read_head

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates as a company's does; ``file`` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A company")])
        self.file, _ = self._write("authority", self._name, self._key, [(x509.BasicConstraints(True, None), True)])

    def sign(self, *names: str) -> tuple[Path, Path]:
        """A certificate for these names, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._write(names[0], subject, key, [(x509.SubjectAlternativeName(map(x509.DNSName, names)), False)])

    def _write(
        self,
        name: str,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
    ) -> tuple[Path, Path]:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - DAY).not_valid_after(now + DAY)
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        certificate, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        pem = serialization.Encoding.PEM
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(pem))
        private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return certificate, private


def answer(tls: socket.socket) -> None:
    """Answer one request."""
    if read_head(tls):
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


@contextmanager
def serving(context: ssl.SSLContext) -> Iterator[int]:
    """A server over TLS on a port of loopback, which answers each connection once."""
    with PlainOrigin(answer, tls=context) as server:
        yield server.https_port


def trusting(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def server_of(authority: Authority, kind: str) -> ssl.SSLContext:
    context = trusting(*authority.sign("other.test" if kind == "another name" else "site.test"))
    if kind.startswith("wants"):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.file)
        if kind.endswith("1.2"):
            context.maximum_version = ssl.TLSVersion.TLSv1_2
    if kind.startswith("speaks"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            version = ssl.TLSVersion.TLSv1 if kind.endswith("1.0") else ssl.TLSVersion.TLSv1_1
            context.minimum_version = context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


#: what a server is like: the words of the page in German, and the option that helps
KINDS = {
    "of a company": ("die der Proxy nicht kennt", "ssl_verify_upstream_trusted_ca=FILE"),
    "another name": ("gilt nicht für diese Website", ""),
    "wants a certificate, by TLS 1.3": ("verlangt ein Zertifikat", "client_certs=FOLDER"),
    "wants a certificate, by TLS 1.2": ("verlangt ein Zertifikat", "client_certs=FOLDER"),
    "speaks TLS 1.0": ("spricht ein altes TLS", "tls_version_server_min=TLS1"),
    "speaks TLS 1.1": ("spricht ein altes TLS", "tls_version_server_min=TLS1"),
}


def test_a_site_that_is_not_there_is_said_in_the_reader_s_language(start: Callable[..., Proxy]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    proxy = start(options={"upstream_others": "true"})
    with proxy.client() as client:
        for url in (f"http://site.test:{port}/", f"https://site.test:{port}/"):
            page = client.get(url, headers={"Accept": "text/html", "Accept-Language": "de"})
            assert (page.status_code, page.headers["content-language"]) == (502, "de")
            assert "Diese Website ist nicht erreichbar" in page.text
            told = client.get(url, headers={"Accept": "application/json"}).json()
            assert (told["blocked"], told["remedy"]) == (False, None)
            assert told["reason"].startswith("The site cannot be reached: its server does not answer")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.thorough if kind.endswith(("TLS 1.2", "TLS 1.0")) else []) for kind in KINDS],
)
def test_the_page_and_the_log_say_why_and_what_to_write(
    start: Callable[..., Proxy], policy: Path, authority: Authority, kind: str
) -> None:
    words, option = KINDS[kind]
    by_option = f" - mitmproxy: --set {option}" if option else ""
    trusted = {} if kind == "of a company" else {"ssl_verify_upstream_trusted_ca": authority.file}
    with serving(server_of(authority, kind)) as port:
        proxy = start(options={"ssl_insecure": "false", "upstream_others": "true", **trusted})
        url = f"https://site.test:{port}/"
        for http2 in (False, True):
            with proxy.client(http2=http2) as client:
                page = client.get(url, headers={"Accept": "text/html", "Accept-Language": "de"})
                assert (page.status_code, page.headers["content-language"]) == (502, "de")
                assert words in page.text
                assert "pass-through: [&#39;=site.test&#39;]" in page.text
                assert option in page.text
                told = client.get(url, headers={"Accept": "application/json"})
                assert (told.status_code, told.json()["blocked"]) == (502, False)
                assert told.json()["remedy"] == f"policy: pass-through: ['=site.test']{by_option}"
                sent = client.post(url, content=b"x" * 100_000, headers={"Accept": "text/html"})
                assert sent.status_code == 502
                assert "This site cannot be reached" in sent.text
        line = proxy.log.wait_for(rf"hushlist: no TLS with site\.test:{port}: .*")[0]
        assert "pass-through: ['=site.test']" in line
        assert str(policy) in line
        assert option in line
        assert proxy.log.text().count("hushlist: no TLS with") == 1


def test_what_helps_does(start: Callable[..., Proxy], authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.sign("client.test")
    (tmp_path / "site.test.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    options = {
        "ssl_insecure": "false",
        "upstream_others": "true",
        "ssl_verify_upstream_trusted_ca": authority.file,
        "client_certs": tmp_path,
        "tls_version_server_min": "TLS1",
    }
    proxy = start(options=options)
    for kind in KINDS:
        if kind != "another name":
            with serving(server_of(authority, kind)) as port:
                assert proxy.get(f"https://site.test:{port}/").text == "ok", kind
    assert "hushlist: no TLS with" not in proxy.log.text()


def test_what_this_machine_trusts_is_told_with_its_store(
    tmp_path: Path, origin: Origin, policy: Path, authority: Authority
) -> None:
    options = {"ssl_insecure": "false", "upstream_others": "true"}
    with serving(server_of(authority, "of a company")) as port, ExitStack() as stack:
        command = ["env", f"SSL_CERT_FILE={authority.file}"]
        proxy = stack.enter_context(mitmdump(tmp_path, origin, policy=policy, options=options, command=command))
        page = proxy.get(f"https://site.test:{port}/", {"Accept": "text/html"})
        assert f"ssl_verify_upstream_trusted_ca={authority.file}" in page.text
        proxy.log.wait_for(re.escape(f"start mitmproxy with --set ssl_verify_upstream_trusted_ca={authority.file}"))


def test_a_server_s_words_are_text(start: Callable[..., Proxy], authority: Authority) -> None:
    """A certificate for no name at all, and a host with markup in its name."""
    with serving(server_of(authority, "another name")) as port:
        options = {"ssl_insecure": "false", "upstream_others": "true"}
        proxy = start(options={**options, "ssl_verify_upstream_trusted_ca": authority.file})
        page = proxy.get(f"https://site.test:{port}/<b>x?{'y' * 5000}", {"Accept": "text/html"})
        assert "<b>" not in page.text
        assert len(page.text) < 40_000


def doctor(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "hushlist", "doctor", *arguments]
    return subprocess.run(
        ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    ).stdout


def test_the_doctor_says_who_trusts_a_server(authority: Authority) -> None:
    certificate, key = authority.sign("localhost")
    with serving(trusting(certificate, key)) as port:
        here = doctor("--server", f"localhost:{port}", SSL_CERT_FILE=str(authority.file))
        assert (
            f"wrong       server: this machine trusts the certificate of localhost:{port}, and mitmproxy does not"
            in here
        )
        assert f"do: start mitmproxy with --set ssl_verify_upstream_trusted_ca={authority.file}" in here
        nobody = doctor("--server", f"localhost:{port}")
        assert f"neither mitmproxy nor this machine trusts the certificate of localhost:{port}" in nobody
    old = server_of(authority, "speaks TLS 1.1")
    with serving(old) as port:
        told = doctor("--server", f"localhost:{port}")
        assert f"localhost:{port} speaks TLSv1.1, which mitmproxy does not" in told
        assert "tls_version_server_min=TLS1" in told
    with socket.create_server((LOOPBACK, 0)) as closed:
        port = closed.getsockname()[1]
    assert f"no connection to localhost:{port}" in doctor("--server", f"localhost:{port}")
