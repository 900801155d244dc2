"""What the corpus is made of: a request as it is sent, and what it is a spelling of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.policies import Rule, hashed_uri, sha256

#: the fields of one HTTP/2 request, pseudo headers and all, exactly as they are sent
Fields = Sequence[tuple[bytes, bytes]]

#: what is blocked, by the name that an entry gives it; the rules of the policy that the corpus is sent through
BLOCKED: dict[str, Rule] = {
    "ads.test": "ads.test/",
    "kiosk.test": "kiosk.test/",
    "strasse.test": "strasse.test/",
    "bücher.test": "bücher.test/",
    "xn--x-pib.test": "xn--x-pib.test/",  # IDNA 2003 decodes it, and UTS 46 refuses what that gives
    "full.test": {"sha256": sha256("full.test/")},
    "prefix.test": {"sha256": sha256("prefix.test/", 8)},
    "path.test/secret/": "path.test/secret/",
    "hash.test/secret/": {"sha256": sha256("hash.test/secret/")},
    "path.test/find?q=secret": "path.test/find?q=secret",
    "http://hashed.test/": hashed_uri("http://hashed.test/"),
    "http://hashed.test/page": hashed_uri("http://hashed.test/page"),
    "http://hashed.test/a%2Fb": hashed_uri("http://hashed.test/a%2Fb"),
    "video.test": "video.test/",
    "10.0.0.0/8": {"address": "10.0.0.0/8"},
    "2001:db8:bad::/48": {"address": "2001:db8:bad::/48"},
}
#: of those, hashes that could be about any host: while one is in force, all TLS is decrypted
OPAQUE = tuple(name for name in BLOCKED if name.startswith(("http:", "hash.test")))
#: blocked in a site that is allowed, and so by a layer before the one that allows it
SHUT: dict[str, Rule] = {"open.test/secret/": "open.test/secret/"}
#: whose uploads are blocked, by a rule of the policy's ``files``
KEPT: dict[str, Rule] = {"upload.test/secret/": {"sites": "upload.test/secret/", "for": "upload"}}
ALLOWED: list[Rule] = [
    {"expression": "video.test/live/", "action": "allow"},
    {"expression": "open.test/", "action": "allow"},
]


#: fields by which servers take a request for another, as an origin logs their names; none of them arrives
BELIEVED = frozenset(
    (
        *("x-forwarded-host", "x-host", "x-forwarded-server", "x-original-host", "x-http-host-override", "forwarded"),
        *("x_forwarded_host", "x.forwarded_host", "x-wsgiproxy-http-host", "x-wsgiproxy-path-info"),
        *("x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-override-url", "x_original_url"),
        *("x.rewrite.url", "x-invoke-path", "x-matched-path", "script_name", "x-script-name", "x-forwarded-prefix"),
        *("x-forwarded-path", "x-traversal-path", "x_wsgiproxy_script_name", "x.traversal.path", "destination"),
        *("x-amz-copy-source", "x-oss-copy-source", "x_ms_rename_source"),
    )
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to send: a request, or several in one go, over a connection of its own."""

    family: str
    #: what it is a spelling of, as ``BLOCKED``, ``SHUT`` or ``KEPT`` names it; for a neighbour, what it looks like
    blocked: str
    #: what one sees of the spelling; several ways to send it share it
    spelling: str
    #: octets as they are sent, or an HTTP/2 request
    payload: bytes | Fields
    #: where a CONNECT before it goes to; an HTTP/2 request without one is sent to the proxy over TLS, as browsers do
    tunnel: tuple[str, int] | None = None
    #: TLS in the tunnel, for this name, or without one where it is empty; HTTP/2 always has TLS, by default for the
    #: tunnel's host
    server_name: str | None = None
    #: what becomes of the octets of the ClientHello: each piece is sent by itself
    hello: Callable[[bytes], Sequence[bytes]] | None = None
    #: the session that TLS resumes is that of a connection to the same server, for this name
    resumes: str | None = None
    #: targets of its harmless part, which do arrive
    arrives: tuple[bytes, ...] = ()
    #: whether the client goes where an answer redirects it to
    follows: bool = False
    #: of an HTTP/2 request, behind its fields
    body: bytes = b""

    @property
    def is_fronted(self) -> bool:
        """Whether all names of its TLS are harmless: only who decrypts it knows what it asks for."""
        has_tls = self.server_name is not None or not isinstance(self.payload, bytes)
        return (
            has_tls and self.tunnel is not None and {self.tunnel[0], self.server_name or "good.test"} == {"good.test"}
        )


def shown(octets: bytes | str, most: int = 60) -> str:
    """A spelling as people can read it, in one line."""
    octets = octets.encode() if isinstance(octets, str) else octets
    text = repr(octets)[2:-1]
    return text if len(text) <= most else f"{text[:most]}... ({len(octets)} octets)"


def fields(
    path: bytes = b"/",
    authority: bytes | None = b"good.test",
    *more: tuple[bytes, bytes],
    method: bytes = b"GET",
    scheme: bytes = b"http",
) -> Fields:
    """The fields of an HTTP/2 request."""
    named = [] if authority is None else [(b":authority", authority)]
    return [(b":method", method), (b":scheme", scheme), *named, (b":path", path), *more]
