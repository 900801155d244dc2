"""Hashed URIs: their grammar, and the canonical forms that are hashed (variants N and P as profiles).

>>> parse_hashed_uri("hashed:sha1=87ed28009f511ed7ef630180a229ba257180a481").key
HashKey(algorithm='sha1', variant='n', query=False, fragment=False)

Spec: draft-feather-hashed-uri-03
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hushlist.errors import UrlError
from hushlist.url import normalization
from hushlist.url.host import parse_ipv6
from hushlist.url.iri import convert_to_a_labels, map_to_uri
from hushlist.url.parts import DEFAULT_PORTS, Parts, Profile, split_generic, to_bytes
from hushlist.url.rfc3986 import lowercase_scheme, protect_path

# -- 4.1, 4.2: the grammar ---------------------------------------------------------------------------------------


def _digest(algorithm: str) -> Callable[[bytes], bytes]:
    return lambda data: hashlib.new(algorithm, data, usedforsecurity=False).digest()


#: identifier -> function from octets to digest; "Names beginning with "x-" are available for private use"
ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    "x-sha256": _digest("sha256"),
}
_DIGEST_SIZE = {name: len(function(b"")) for name, function in ALGORITHMS.items()}


class HashKey(NamedTuple):
    """How to compute a hash that can be compared with a hashed URI's."""

    algorithm: str
    #: "n" or "p", a key of VARIANTS
    variant: str
    query: bool
    fragment: bool


@dataclass(frozen=True, slots=True)
class HashedUri:
    """A hashed URI: a digest, and the key that says how to compute one."""

    key: HashKey
    #: 16 octets for md5, 20 for sha1, 32 for x-sha256
    digest: bytes

    def __str__(self) -> str:
        flags = "+frag" * self.key.fragment + "+query" * self.key.query
        return f"hashed:{self.key.algorithm}={self.digest.hex()}{flags}"


class UnknownAlgorithmError(UrlError):
    """The text is a hashed URI, but its algorithm is unknown."""


_HASHED_URI = re.compile(
    r"hashed:(?P<algorithm>[a-z0-9.-]*)(?P<equals>=?)(?P<value>[0-9a-f]*)(?P<flags>(?:\+(?:frag|query)(?![a-z0-9]))*)"
)
#: what is missing if a group is empty
_MISSING = {
    "algorithm": "expected the name of a hash algorithm",
    "equals": "expected '=' behind the name of the algorithm",
    "value": "expected hexadecimal digits",
}


def parse_hashed_uri(text: str, variant: str = "n") -> HashedUri:
    """Read a hashed URI; ``variant`` is the one that the list's author used.

    Raises:
        UnknownAlgorithmError: the algorithm is neither registered nor our own.
        UrlError: it breaks the grammar, at the position given.

    Spec: draft-feather-hashed-uri-03, 4.1: "The entire URI is case-insensitive"
    """
    lower = text.lower() if text.isascii() else text
    match = _HASHED_URI.match(lower)
    if match is None:
        raise UrlError(text, "a hashed URI begins with 'hashed:'", 0)
    for group, why in _MISSING.items():
        if not match[group]:
            raise UrlError(text, why, match.end(group))
    if match.end() != len(lower):
        raise UrlError(text, "expected '+frag', '+query' or the end", match.end())
    algorithm, value, flags = match["algorithm"], match["value"], match["flags"]
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UnknownAlgorithmError(text, f"unknown algorithm {algorithm!r} (known: {known})", len("hashed:"))
    if len(value) != 2 * _DIGEST_SIZE[algorithm]:
        expected = 2 * _DIGEST_SIZE[algorithm]
        raise UrlError(text, f"{algorithm} has {expected} hexadecimal digits, not {len(value)}", match.end("value"))
    return HashedUri(HashKey(algorithm, variant, "+query" in flags, "+frag" in flags), bytes.fromhex(value))


# -- 4.3: generating ---------------------------------------------------------------------------------------------


def hash_uri(url: bytes | str, key: HashKey) -> HashedUri:
    """The hashed URI of a URL; ``UrlError`` if the URL is relative, and there is no base.

    >>> str(hash_uri("HTTP://www.Thus.net#end", HashKey("sha1", "n", query=False, fragment=True)))
    'hashed:sha1=31a79a96e0404778a3b95cb426b04b6114a604a5+frag'

    A flag is set only if the component is there (step 5: "if a #fragment or ?query was retained").
    """
    parts = split_generic(to_bytes(url))
    if parts.scheme is None:
        raise UrlError(url, "it has no scheme; a hashed URI is made of an absolute one")
    used = key._replace(
        query=key.query and parts.query is not None, fragment=key.fragment and parts.fragment is not None
    )
    return HashedUri(used, ALGORITHMS[key.algorithm](hashed_string(parts, used)))


def hashed_string(parts: Parts, key: HashKey) -> bytes:
    """The octets that are hashed: no "trailing zero bytes, a length, delimiting angle brackets, or any other
    ornamentation"."""
    kept = parts._replace(query=parts.query if key.query else None, fragment=parts.fragment if key.fragment else None)
    return VARIANTS[key.variant].apply(kept).join()


def matching_strings(parts: Parts, key: HashKey) -> tuple[bytes, ...]:
    """Every string that a publisher may have hashed for a requested URL.

    ``http://www.thus.net`` and ``http://www.thus.net/`` are the same request, but have different hashes. A component
    with a flag must be there.
    """
    if (key.query and parts.query is None) or (key.fragment and parts.fragment is None):
        return ()
    hashed = hashed_string(parts, key)
    if parts.path not in (b"", b"/"):
        return (hashed,)
    return tuple({hashed, hashed_string(parts._replace(path=b"" if parts.path else b"/"), key)})


# -- Appendix A: the two variants --------------------------------------------------------------------------------

_WEB = (b"http", b"https")


def is_hierarchical(parts: Parts) -> bool:
    """ "Those that use the production "hier_part""; of others, such as mailto:, only the scheme's case changes."""
    return parts.host is not None or parts.path.startswith(b"/")


def normalize_web_escapes(parts: Parts) -> Parts:
    """4.3 (2): no decoding "except where done as part of a canonicalization algorithm for the specific scheme".

    For http and https, escaped unreserved characters are decoded; the draft's ``/a%62c`` shows it.
    """
    if parts.scheme not in _WEB:
        return parts
    return parts.change(normalization.normalize_percent_encoding, "host", "path", "query")


def remove_dot_segments(parts: Parts) -> Parts:
    """4.3 (2): "a relative URI is converted to the equivalent absolute URI", which has no dot segments."""
    absolute = is_hierarchical(parts) and parts.path.startswith(b"/")
    return protect_path(parts._replace(path=normalization.resolve_dot_segments(parts.path))) if absolute else parts


def delete_default_port(parts: Parts) -> Parts:
    """A (3): "if the port is the default port for the scheme, it is deleted"; an empty port is dropped, too."""
    if not parts.port:
        return parts._replace(port=None)
    default = b"%d" % DEFAULT_PORTS.get(parts.scheme or b"", 0)
    return parts._replace(port=None) if parts.port.lstrip(b"0") == default else parts


def lowercase_host(parts: Parts) -> Parts:
    """A (4), variant N: "the scheme and host (if a domain name) are lowercased"."""
    return parts if parts.host is None else parts._replace(host=parts.host.lower())


def lowercase_all(parts: Parts) -> Parts:
    """A (4), variant P: "all the components are lowercased": step (2) leaves out query and fragment."""
    return parts.change(bytes.lower, "userinfo", "host", "path") if is_hierarchical(parts) else parts


_DECIMAL_ADDRESS = re.compile(rb"[0-9]+(?:\.[0-9]+){3}")


def remove_leading_zeroes(parts: Parts) -> Parts:
    """A (5): "the host (if an IP address) and port have all leading zeroes removed"; ``011`` becomes 11, not 9."""
    host, port = parts.host, parts.port
    if host is not None and _DECIMAL_ADDRESS.fullmatch(host):
        host = b".".join(part.lstrip(b"0") or b"0" for part in host.split(b"."))
    elif host is not None and (address := parse_ipv6(host.strip(b"[]"))) is not None:
        host = b"[%s]" % str(address).encode()
    return parts._replace(host=host, port=None if port is None else port.lstrip(b"0") or b"0")


def remove_empty_segments(parts: Parts) -> Parts:
    """A (6), variant P: "all empty path_segments are removed", the last one too."""
    if not is_hierarchical(parts):
        return parts
    return parts._replace(path=b"".join(b"/" + segment for segment in parts.path.split(b"/") if segment))


_ENDINGS = ((b".html", b".htm"), (b".jpeg", b".jpg"), (b".text", b".txt"), (b".ram", b".ra"))


def shorten_ending(parts: Parts) -> Parts:
    """A (7), variant P: the last segment's ``.html``, ``.jpeg``, ``.text``, ``.ram`` are written shorter."""
    if is_hierarchical(parts):
        for long, short in _ENDINGS:
            if parts.path.endswith(long):
                return parts._replace(path=parts.path.removesuffix(long) + short)
    return parts


def remove_index(parts: Parts) -> Parts:
    """A (8): "Scheme "http" only: if the last path_segment is "index.htm" or "index.html", it is removed".

    The draft's own examples keep the slash before it.
    """
    if parts.scheme == b"http":
        for name in (b"/index.htm", b"/index.html"):
            if parts.path.endswith(name):
                return parts._replace(path=parts.path.removesuffix(name) + b"/")
    return parts


def drop_empty_user(parts: Parts) -> Parts:
    """A (9): "including only those components that remain and are not empty strings"."""
    return parts if parts.userinfo else parts._replace(userinfo=None)


#: The draft hashes URIs, so an IRI is first mapped to a URI, as browsers do.
_BOTH_BEFORE = (
    lowercase_scheme,
    map_to_uri,
    convert_to_a_labels,
    normalize_web_escapes,
    remove_dot_segments,
    delete_default_port,
)

HASHED_N = Profile(
    "hashed-n",
    steps=(*_BOTH_BEFORE, lowercase_host, remove_leading_zeroes, remove_index, drop_empty_user),
)
HASHED_P = Profile(
    "hashed-p",
    steps=(
        *_BOTH_BEFORE,
        lowercase_all,
        remove_leading_zeroes,
        remove_empty_segments,
        shorten_ending,
        remove_index,
        drop_empty_user,
    ),
)
#: "two variants - "N" and "P" - which respectively tend towards false negatives and false positives"
VARIANTS = {"n": HASHED_N, "p": HASHED_P}
