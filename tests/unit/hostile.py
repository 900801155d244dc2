"""What a pupil who wants past the filter sends, as strategies and samples; and small builders of rules and engines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from hypothesis import strategies as st

#: octets; as long as most servers let a request's target be
LONG = 64 * 1024

_CHUNKS = (
    *(b"http://", b"https:", b"//", b"/", b"\\", b"?", b"#", b"@", b":", b";", b"&", b".", b"..", b"/./", b"/../"),
    *(b"%", b"%2", b"%25", b"%2525", b"%2e", b"%2F", b"%3f", b"%23", b"%40", b"%3A", b"%5b", b"%5c", b"%00", b"%C3"),
    *(b"[", b"]", b"[::1]", b"::ffff:1.2.3.4", b"127.1", b"0x7f", b"017", b"3279880203", b"1.2.3.4", b"80", b"0"),
    *(b"a", b"A", b"b.example", b"EXAMPLE", b"xn--", b"-", b" ", b"\t", b"\r", b"\n", b"\x00", b"\x80", b"\xff"),
    *(text.encode() for text in ("ü", "Ü", "ß", "。", "．", "｡", "…", "１", "％", "／", "\u200d", "\u00ad", "☃", "İ")),
)


def octets() -> st.SearchStrategy[bytes]:
    """Any octets, and those that mean something to a reader of URLs; each is drawn at once, which takes little time."""
    return (
        st.binary(max_size=40)
        | st.binary(max_size=12).map(_chunks)
        | st.binary(min_size=12, max_size=80).map(_chunks_and_octets)
    )


def _chunks(drawn: bytes) -> bytes:
    return b"".join(_CHUNKS[octet % len(_CHUNKS)] for octet in drawn)


def _chunks_and_octets(drawn: bytes) -> bytes:
    pairs = zip(drawn[::2], drawn[1::2], strict=False)
    return b"".join(_CHUNKS[octet % len(_CHUNKS)] if kind % 2 else bytes([octet]) for kind, octet in pairs)


def urls() -> st.SearchStrategy[bytes]:
    """Octets, most of them behind a scheme and a host."""
    hosts = st.sampled_from([b"a.example", b"a.b.c.d.e.f.example", b"1.2.3.4", b"[::1]", b"h"])
    return octets() | octets().map(b"http://".__add__) | st.builds(b"http://%b/%b".__mod__, st.tuples(hosts, octets()))


_SQUID_ESCAPES = re.compile(rb"[\x00-\x20\"#%'<>\[-^`{-\xff]")


def as_squid_escapes(octets: bytes) -> bytes:
    """What Squid 5 makes of a URL for ``%#>ru``, as was seen."""
    return _SQUID_ESCAPES.sub(lambda octet: b"%%%02X" % octet[0][0], octets)


def seconds(work: Callable[[], object]) -> float:
    """How much processor time it takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def rfc3986_5_2_4(path: bytes) -> bytes:
    """The RFC's own words, step by step; quadratic."""
    out = b""
    while path:
        if path.startswith((b"../", b"./")):  # A
            path = path.split(b"/", 1)[1]
        elif path.startswith(b"/./") or path == b"/.":  # B
            path = b"/" + path[3:]
        elif path.startswith(b"/../") or path == b"/..":  # C
            path = b"/" + path[4:]
            out = out[: out.rindex(b"/")] if b"/" in out else b""
        elif path in (b".", b".."):  # D
            path = b""
        else:  # E
            end = path.find(b"/", 1)
            segment = path if end < 0 else path[:end]
            out += segment
            path = path[len(segment) :]
    return out
