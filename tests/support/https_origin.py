"""A real HTTPS server on loopback whose certificate an authority of its own signed; pages answer as they like.

``page`` may be octets, or a function that writes to the connection itself.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = BaseHTTPRequestHandler


@dataclass
class Page:
    """What the server answers to a path."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    #: writes the answer itself
    write: Callable[[Handler], None] | None = None


class HttpsOrigin:
    """The server; use it as a context manager. Requests are kept as pairs of path and headers."""

    def __init__(self, folder: Path, *, is_plain: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        #: what clients have to trust, by the environment variable SSL_CERT_FILE
        self.authority = folder / "authority.pem"
        origin = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                origin.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                page = origin.pages.get(self.path, Page(b"there is none", 404))
                with suppress(OSError):  # the client has gone
                    origin.answer(self, page)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Answers)
        self.port: int = self._server.server_address[1]
        self.url = f"{'http' if is_plain else 'https'}://localhost:{self.port}"
        if not is_plain:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*write_chain(folder, self.authority))
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )

    def answer(self, handler: Handler, page: Page) -> None:
        """Write an answer."""
        if page.write is not None:
            handler.close_connection = True
            page.write(handler)
            return
        validators = {
            "ETag": handler.headers.get("If-None-Match"),
            "Last-Modified": handler.headers.get("If-Modified-Since"),
        }
        is_same = any(text is not None and text == page.headers.get(name) for name, text in validators.items())
        handler.send_response(304 if is_same else page.status)
        for name, text in page.headers.items():
            handler.send_header(name, text)
        if not is_same:
            handler.send_header("Content-Length", str(len(page.body)))
        handler.end_headers()
        if not is_same:
            handler.wfile.write(page.body)

    def __enter__(self) -> HttpsOrigin:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def write_chain(folder: Path, authority: Path) -> tuple[Path, Path]:
    """A certificate for loopback and its key, signed by an authority that is made for it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority.test")])
    now = datetime.datetime.now(datetime.UTC)

    def builder(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = builder(issuer, authority_key.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    root = root.add_extension(usage, critical=True)
    authority.write_bytes(root.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    leaf = builder(subject, key.public_key()).add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate, secret = folder / "server.pem", folder / "server.key"
    certificate.write_bytes(leaf.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret
