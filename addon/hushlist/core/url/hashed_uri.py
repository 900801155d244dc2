"""Hashed URIs: their grammar, and the canonical forms that are hashed (variants N and P as profiles).

>>> parse_hashed_uri("hashed:sha1=87ed28009f511ed7ef630180a229ba257180a481").key
HashKey(algorithm='sha1', variant='n', query=False, fragment=False)

Spec: draft-feather-hashed-uri-03
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha1, sha256
from typing import NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url import normalization
from hushlist.core.url.host import is_plain_name, parse_ipv6
from hushlist.core.url.iri import convert_to_a_labels, map_to_uri, mapped_to_uri
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, Profile, split_generic, to_bytes
from hushlist.core.url.rfc3986 import lowercase_scheme, protect_path

try:  # OpenSSL takes longer to begin than CPython's own MD5 needs for a URL; a build may lack that
    from _md5 import md5  # type: ignore[import-not-found]
except ImportError:
    from hashlib import md5

# -- 4.1, 4.2: the grammar ---------------------------------------------------------------------------------------


#: identifier -> function from octets to digest; "Names beginning with "x-" are available for private use"
ALGORITHMS: dict[str, Callable[[bytes], bytes]] = {
    "md5": lambda data: md5(data, usedforsecurity=False).digest(),
    "sha1": lambda data: sha1(data, usedforsecurity=False).digest(),
    "x-sha256": lambda data: sha256(data, usedforsecurity=False).digest(),
}
_DIGEST_SIZE = {name: len(function(b"")) for name, function in ALGORITHMS.items()}


class StringKind(NamedTuple):
    """Which string of a URI is hashed."""

    #: "n" or "p", a key of VARIANTS
    variant: str
    query: bool
    fragment: bool


class HashKey(NamedTuple):
    """How to compute a hash that can be compared with a hashed URI's."""

    algorithm: str
    #: the others are those of ``StringKind``
    variant: str
    query: bool
    fragment: bool

    @property
    def kind(self) -> StringKind:
        """Which string is hashed."""
        return StringKind(self.variant, self.query, self.fragment)


class HashedUri(NamedTuple):
    """A hashed URI: a digest, and the key that says how to compute one."""

    key: HashKey
    #: 16 octets for md5, 20 for sha1, 32 for x-sha256
    digest: bytes

    def __str__(self) -> str:
        flags = "+frag" * self.key.fragment + "+query" * self.key.query
        return f"hashed:{self.key.algorithm}={self.digest.hex()}{flags}"


class UnknownAlgorithmError(UrlError):
    """The text is a hashed URI, but its algorithm is unknown."""


_HASHED_URI = late_pattern(
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
        algorithms = ", ".join(ALGORITHMS)
        kind = "private identifier" if algorithm.startswith("x-") else "algorithm"
        raise UnknownAlgorithmError(text, f"unknown {kind} {algorithm!r} (known: {algorithms})", len("hashed:"))
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


def is_hash_of(hashed: HashedUri, url: bytes) -> bool:
    """Whether a hashed URI is made of a URL: of its canonical form, by either reading of P, or of the URL as it stands.

    >>> is_hash_of(hash_uri("http://h/a%2fb", HashKey("sha1", "n", query=False, fragment=False)), b"HTTP://H/a%2Fb")
    True
    """
    parts, key = split_generic(url), hashed.key
    if parts.scheme is None or (key.query and parts.query is None) or (key.fragment and parts.fragment is None):
        return False
    strings = [hashed_string(parts, key), sent_string(parts, key)]
    if key.variant == "p":
        strings += matching_strings([parts], [key.kind])[0]
    return any(string is not None and ALGORITHMS[key.algorithm](string) == hashed.digest for string in strings)


def hashed_string(parts: Parts, key: HashKey | StringKind) -> bytes:
    """The octets that are hashed: no "trailing zero bytes, a length, delimiting angle brackets, or any other
    ornamentation"."""
    return VARIANTS[key.variant].apply(_retained(parts, key)).join()


def sent_string(parts: Parts, kind: HashKey | StringKind) -> bytes | None:
    """The octets that are hashed of a URI as it stands: step (2) alone, where no scheme asks for more than its own
    lower case; ``None`` if a component with a flag is missing, or the variant is P, which is more than that.

    >>> sent_string(split_generic(b"HTTP://h/a%2fb/../c?q"), StringKind("n", query=False, fragment=False))
    b'http://h/a%2fb/../c'
    """
    if kind.variant != "n" or (kind.query and parts.query is None) or (kind.fragment and parts.fragment is None):
        return None
    return lowercase_scheme(_retained(parts, kind)).join()


def _retained(parts: Parts, key: HashKey | StringKind) -> Parts:
    """4.3 (1): "the flags on the latter can be used to determine which to retain"."""
    return parts._replace(query=parts.query if key.query else None, fragment=parts.fragment if key.fragment else None)


# -- Appendix A: the two variants --------------------------------------------------------------------------------

#: scheme -> its default port
_WEB = {b"http": b"80", b"https": b"443"}


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


def convert_host_to_a_labels(parts: Parts) -> Parts:
    """A host becomes the name that is looked up; of what has none, such as ``mailto:``, "only the scheme's case
    changes"."""
    return parts if parts.host is None else convert_to_a_labels(parts)


def remove_dot_segments(parts: Parts) -> Parts:
    """4.3 (2): "a relative URI is converted to the equivalent absolute URI", which has no dot segments.

    Variant P alone: it takes any two URIs for the same that may be (reading 34).
    """
    absolute = is_hierarchical(parts) and parts.path.startswith(b"/")
    return protect_path(parts._replace(path=normalization.resolve_dot_segments(parts.path))) if absolute else parts


def remove_web_dot_segments(parts: Parts) -> Parts:
    """Variant N: "any other changes depend on the specific scheme used"; no browser asks http or https for them."""
    return remove_dot_segments(parts) if parts.scheme in _WEB else parts


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


_DECIMAL_ADDRESS = late_pattern(rb"[0-9]+(?:\.[0-9]+){3}")


def remove_leading_zeroes(parts: Parts) -> Parts:
    """A (5): "the host (if an IP address) and port have all leading zeroes removed"; ``011`` becomes 11, not 9."""
    host, port = parts.host, parts.port
    if host is not None and _DECIMAL_ADDRESS.fullmatch(host):
        host = b".".join(part.lstrip(b"0") or b"0" for part in host.split(b"."))
    elif host is not None and (address := parse_ipv6(host.strip(b"[]"))) is not None:
        # an embedded IPv4 address in hexadecimal: the dotted form is what only some versions of Python write
        embedded = None if address.ipv4_mapped is None else divmod(int(address.ipv4_mapped), 1 << 16)
        host = b"[::ffff:%x:%x]" % embedded if embedded else b"[%s]" % str(address).encode()
    return parts._replace(host=host, port=None if port is None else port.lstrip(b"0") or b"0")


def remove_empty_segments(parts: Parts) -> Parts:
    """A (6), variant P: "all empty path_segments are removed", and the dot that kept the first apart from an authority.

    Deviation: the last one stays, as in the draft's example, whose ``/test/index.html`` becomes ``/test/`` in step (8):
    else the form of that would be ``/test``, and P would not be idempotent (reading 33).
    """
    if not is_hierarchical(parts):
        return parts
    is_protected = parts.host is None and parts.path.startswith(b"/.//")
    path = normalization.merge_slashes(parts.path[2:] if is_protected else parts.path)
    return parts._replace(path=path)


_ENDINGS = {b".html": b".htm", b".jpeg": b".jpg", b".text": b".txt", b".ram": b".ra"}
_LONG_ENDINGS = tuple(_ENDINGS)


def _shorten(path: bytes) -> bytes:
    if path.endswith(_LONG_ENDINGS):
        stem, dot, ending = path.rpartition(b".")
        path = stem + _ENDINGS[dot + ending]
    return path


def shorten_ending(parts: Parts) -> Parts:
    """A (7), variant P: the last segment's ``.html``, ``.jpeg``, ``.text``, ``.ram`` are written shorter."""
    return parts._replace(path=_shorten(parts.path)) if is_hierarchical(parts) else parts


_INDEXES = (b"/index.htm", b"/index.html")


def remove_index(parts: Parts) -> Parts:
    """A (8): "Scheme "http" only: if the last path_segment is "index.htm" or "index.html", it is removed".

    The draft's own examples keep the slash before it.
    """
    is_http = parts.scheme == b"http" and is_hierarchical(parts)
    return parts._replace(path=_without_index(parts.path)) if is_http else parts


def _without_index(path: bytes) -> bytes:
    return path[: path.rindex(b"/") + 1] if path.endswith(_INDEXES) else path


def remove_every_index(parts: Parts) -> Parts:
    """A (8) of variant P, whose (6) has removed what is empty behind an index; again if another one is then the last
    (reading 33)."""
    is_http = parts.scheme == b"http" and is_hierarchical(parts)
    return parts._replace(path=_without_indexes(parts.path)) if is_http else parts


def _without_indexes(path: bytes) -> bytes:
    end = len(path)
    while path.endswith(_INDEXES, 0, last := end - path.endswith(b"/", 0, end)):
        end = path.rindex(b"/", 0, last) + 1
    return path[:end]


def drop_empty_parts(parts: Parts) -> Parts:
    """A (9): "including only those components that remain and are not empty strings": user, and authority."""
    if not parts.userinfo:
        parts = parts._replace(userinfo=None)
    is_empty = parts.host == b"" and parts.userinfo is None and parts.port is None
    return protect_path(parts._replace(host=None)) if is_empty else parts


#: The draft hashes URIs, so an IRI is first mapped to a URI, as browsers do.
_BOTH_BEFORE = (lowercase_scheme, map_to_uri, convert_host_to_a_labels, normalize_web_escapes)

HASHED_N = Profile(
    "hashed-n",
    steps=(
        *_BOTH_BEFORE,
        remove_web_dot_segments,
        delete_default_port,
        lowercase_host,
        remove_leading_zeroes,
        remove_index,
        drop_empty_parts,
    ),
)
HASHED_P = Profile(
    "hashed-p",
    steps=(
        *_BOTH_BEFORE,
        remove_dot_segments,
        delete_default_port,
        lowercase_all,
        remove_leading_zeroes,
        remove_empty_segments,
        shorten_ending,
        remove_every_index,
        drop_empty_parts,
    ),
)
#: "two variants - "N" and "P" - which respectively tend towards false negatives and false positives"
VARIANTS = {"n": HASHED_N, "p": HASHED_P}


# -- what a request is compared with -----------------------------------------------------------------------------


#: what was made of paths, by variant, scheme and path; and of queries with fragments, by scheme and both
StringMemo = dict[tuple[str | bytes | None, ...], tuple[bytes, ...]]
#: path and query of a URL
Target = tuple[bytes, bytes | None]


def matching_strings(
    uris: Iterable[Parts], kinds: Collection[StringKind], memo: StringMemo | None = None
) -> list[list[bytes]]:
    """For each kind, every string that a publisher may have hashed for one of several URLs of the same resource.

    ``http://www.thus.net`` and ``http://www.thus.net/`` are the same request, but have different hashes. A component
    with a flag must be there. A ``memo`` for all calls for one request spares work if it goes by several hosts.
    """
    strings: list[list[bytes]] = [[] for _ in kinds]
    memo = {} if memo is None else memo
    resource: tuple[bytes | None, ...] = ()
    fronts: dict[str, tuple[bytes, ...]] = {}
    for parts in uris:
        if parts[:5] != resource:  # else it is the same but for its query
            resource, origin, fronts = parts[:5], _plain_origin(parts), {}
        ends: tuple[bytes, ...] | None = None
        for of_kind, (variant, has_query, has_fragment) in zip(strings, kinds, strict=True):
            if (has_query and parts.query is None) or (has_fragment and parts.fragment is None):
                continue
            if variant not in fronts:
                fronts[variant] = _fronts(origin, parts, variant, memo)
            end = b""
            if has_query or has_fragment:
                ends = ends or _ends(parts, memo)
                end = (ends[0] if has_query else b"") + (ends[1] if has_fragment else b"")
            for front in fronts[variant]:
                string = front + end
                if string not in of_kind:
                    of_kind.append(string)
    return strings


class StringPlan(NamedTuple):
    """The kinds of one variant, by their places in all kinds; ``None`` if no string of that kind is hashed."""

    variant: str
    #: of the strings without query, and of those with it
    bare: int | None
    queried: int | None


def plan_strings(kinds: Sequence[StringKind]) -> tuple[StringPlan, ...]:
    """What ``web_strings`` makes for these kinds; none has a fragment, since a request for the web has none."""
    places = {kind: place for place, kind in enumerate(kinds)}
    plans = (
        StringPlan(variant, *(places.get(StringKind(variant, query, fragment=False)) for query in (False, True)))
        for variant in VARIANTS
    )
    return tuple(plan for plan in plans if plan[1:] != (None, None))


def web_strings(
    origin: bytes, scheme: bytes, targets: Iterable[Target], plans: Iterable[StringPlan], count: int
) -> list[Sequence[bytes]]:
    """``matching_strings``, but faster, for targets of the web by one plain name, without user and fragment.

    ``origin`` is that of ``web_origin``, and ``plans`` are those of so many (``count``) kinds.
    """
    strings: list[Sequence[bytes]] = [()] * count
    for variant, bare, queried in plans:
        for path, query in targets:
            fronts = [origin + form for form in _paths(variant, scheme, path)]
            if bare is not None:
                strings[bare] = _with(strings[bare], fronts) if strings[bare] else fronts
            if queried is not None and query is not None:
                end = b"?" + _escaped(query)
                ended = [front + end for front in fronts]
                strings[queried] = _with(strings[queried], ended) if strings[queried] else ended
    return strings


def _with(some: Sequence[bytes], others: Sequence[bytes]) -> Sequence[bytes]:
    """Some strings, and those of others that are not among them."""
    return [*some, *(string for string in others if string not in some)]


def web_origin(scheme: bytes, name: bytes, port: int) -> bytes:
    """Scheme and authority of a web URL by a plain name."""
    return scheme + b"://" + name if port == DEFAULT_PORTS[scheme] else b"%s://%s:%d" % (scheme, name, port)


#: characters of a path or query that no step maps or decodes: those of a URI but for the percent sign
_UNCHANGED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;="


def _plain_origin(parts: Parts) -> bytes | None:
    """Scheme and authority if no step of either variant has work to do there but for the port; else ``None``."""
    scheme, userinfo, host, port, _, _, _ = parts
    if scheme not in _WEB or userinfo is not None or host is None or not is_plain_name(host):
        return None
    if port is None or port == _WEB[scheme]:
        return scheme + b"://" + host
    return scheme + b"://" + host + b":" + port if port.isdigit() and port[:1] != b"0" else None


def _fronts(origin: bytes | None, parts: Parts, variant: str, memo: StringMemo) -> tuple[bytes, ...]:
    """The strings without query and fragment: of a web URL, no step looks at the authority and at the path."""
    scheme, path = parts.scheme, parts.path
    if scheme is None or scheme not in _WEB or not parts.host:
        return _slow_fronts(parts, variant)
    if origin is None:
        (origin,) = _slow_fronts(parts._replace(path=b""), variant, (b"",))
    paths = memo.get((variant, scheme, path))
    if paths is None:
        paths = memo[variant, scheme, path] = _paths(variant, scheme, path)
    return tuple([origin + form for form in paths])


#: a path in which no step has anything to map, to decode or to resolve
_PLAIN_PATH = late_pattern(rb"(?:(?>/(?![/.])[A-Za-z0-9\-._~:?#\[\]@!$&'()*+,;=]*+))++")


def _paths(variant: str, scheme: bytes, path: bytes) -> tuple[bytes, ...]:
    """The paths of a web URL's strings. Mostly, of all steps, only those for the path's end have work to do."""
    if _PLAIN_PATH.fullmatch(path) is None:
        escaped = _escaped(path)
        if path[:1] != b"/" or b"/." in escaped:
            slow = Parts(scheme, None, b"h", None, path)
            return tuple(dict.fromkeys(front.removeprefix(scheme + b"://h") for front in _slow_fronts(slow, variant)))
        path = normalization.merge_slashes(escaped) if variant == "p" else escaped
    if variant == "p":
        path = path.lower()
        short = _shorten(path)
        bare = _shorten(path[:-1]) if path[-1:] == b"/" else short
        if scheme == b"http":
            short, bare = _without_indexes(short), _without_indexes(bare)
        return _with_slash(short, bare)
    if path == b"/":
        return path, b""
    return (_without_index(path) if scheme == b"http" else path,)


def _with_slash(path: bytes, bare: bytes) -> tuple[bytes, ...]:
    """The paths of variant P: its own, and those that it has by the letter of (6) and by that of (8) (reading 33).

    ``bare`` is the path of the URI without the slashes at its end.
    """
    bare = bare.removesuffix(b"/")
    slashed = bare + b"/"
    return (bare, slashed) if path in (bare, slashed) else (path, bare, slashed)


def _slow_fronts(parts: Parts, variant: str, paths: Iterable[bytes] = ()) -> tuple[bytes, ...]:
    """The strings without query and fragment of any URI: no step looks at these and at other components."""
    parts, path = parts._replace(query=None, fragment=None), parts.path
    profile = VARIANTS[variant]
    if variant == "p" and not paths and is_hierarchical(parts):
        whole, bare = (profile.apply(parts._replace(path=form)) for form in (path, path.rstrip(b"/")))
        return tuple(whole._replace(path=form).join() for form in _with_slash(whole.path, bare.path))
    paths = paths or ((path, b"" if path else b"/") if path in (b"", b"/") else (path,))
    return tuple(profile.apply(parts._replace(path=form)).join() for form in paths)


def _escaped(component: bytes) -> bytes:
    """The path or query of a web URL, mapped to a URI's characters, with the escapes that both variants have."""
    changed = component.translate(None, _UNCHANGED)
    if not changed:
        return component
    return normalization.normalize_percent_encoding(mapped_to_uri(component) if changed.strip(b"%") else component)


def _ends(parts: Parts, memo: StringMemo) -> tuple[bytes, ...]:
    """Query and fragment of the strings with their delimiters, the same in both variants."""
    scheme, _, _, _, _, query, fragment = parts
    key = scheme, query, fragment
    if key in memo:
        return memo[key]
    changed = ((query or b"") + (fragment or b"")).translate(None, _UNCHANGED)
    if changed:
        kept = Parts(scheme, None, None, None, b"", query, fragment)
        mapped = map_to_uri(kept) if changed.strip(b"%") else kept
        query, fragment = normalize_web_escapes(lowercase_scheme(mapped))[5:]
    ends = memo[key] = b"" if query is None else b"?" + query, b"" if fragment is None else b"#" + fragment
    return ends
