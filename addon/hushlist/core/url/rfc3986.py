"""Reference resolution, and the steps of the comparison ladder that every URI takes.

>>> resolve("../g;x?y#s", "http://a/b/c/d;p?q")
b'http://a/b/g;x?y#s'

The rungs are in ``iri``: these steps, after one that does not change a URI.

Spec: RFC 3986, 5.2 and 6.2
"""

from __future__ import annotations

from collections.abc import Callable

from hushlist.core.errors import UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url import normalization
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, split_generic, to_bytes

# -- 5.2: relative resolution ------------------------------------------------------------------------------------


def resolve(reference: bytes | str, base: bytes | str) -> bytes:
    """The target of a reference, by the strict algorithm: a scheme counts even if it is the base's.

    >>> resolve("?y", "http://a/b/c/d;p?q"), resolve("http:g", "http://a/b/c/d;p?q")
    (b'http://a/b/c/d;p?y', b'http:g')

    Only dot segments are normalized ("Normalization of the base URI ... is optional", 5.2.1).

    Raises ``UrlError`` if the base has no scheme.

    Spec: RFC 3986, 5.2.2 and 5.3; for IRIs the same
    """
    octets = to_bytes(base)
    base_parts = split_generic(octets)
    if base_parts.scheme is None:
        raise UrlError(octets, "a base has a scheme: a relative reference cannot be one", 0)
    return transform_reference(split_generic(to_bytes(reference)), base_parts).join()


def transform_reference(reference: Parts, base: Parts) -> Parts:
    """The parts of the target; ``base`` has a scheme.

    Spec: RFC 3986, 5.2.2, "Transform References"
    """
    if reference.scheme is not None:
        target = reference._replace(path=remove_dot_segments(reference.path))
    elif reference.host is not None:
        target = reference._replace(scheme=base.scheme, path=remove_dot_segments(reference.path))
    elif not reference.path:
        query = base.query if reference.query is None else reference.query
        target = base._replace(query=query, fragment=reference.fragment)
    else:
        path = reference.path if reference.path.startswith(b"/") else merge(reference.path, base)
        target = base._replace(path=remove_dot_segments(path), query=reference.query, fragment=reference.fragment)
    return protect_path(target)


def merge(path: bytes, base: Parts) -> bytes:
    """Replace the last segment of the base's path with a relative path (RFC 3986, 5.2.3)."""
    if base.host is not None and not base.path:
        return b"/" + path
    directory, slash, _ = base.path.rpartition(b"/")
    return directory + slash + path


_RELATIVE_PREFIXES = late_pattern(rb"(?:\.\.?/)*")
_SEGMENT = late_pattern(rb"/[^/]*|[^/]+")


def remove_dot_segments(path: bytes) -> bytes:
    """Remove "." and ".." from any path, in linear time; it need not begin with a slash (RFC 3986, 5.2.4).

    >>> remove_dot_segments(b"mid/content=5/../6"), remove_dot_segments(b"../a"), remove_dot_segments(b"a/../b")
    (b'mid/6', b'a', b'/b')
    """
    prefix = _RELATIVE_PREFIXES.match(path)
    path = path[prefix.end() :] if prefix else path  # 2A
    if path in (b".", b".."):  # 2D
        return b""
    if path.startswith(b"/") or b"/." not in path:
        return normalization.resolve_dot_segments(path)
    segments, output = _SEGMENT.findall(path), list[bytes]()
    for segment in segments:
        if segment == b"/..":  # 2C
            del output[-1:]
        elif segment != b"/.":  # 2E; 2B else
            output.append(segment)
    if segments[-1] in (b"/.", b"/.."):
        output.append(b"/")
    return b"".join(output)


_LOOKS_LIKE_SCHEME = late_pattern(rb"[A-Za-z][A-Za-z0-9+.-]*:")


def protect_path(parts: Parts) -> Parts:
    """Put a dot segment before a path that would otherwise be read as an authority or a scheme.

    >>> protect_path(Parts(b"s", None, None, None, b"//b")).join()
    b's:/.//b'

    "If a URI does not contain an authority component, then the path cannot begin with two slash characters" (3.3).
    "A path segment that contains a colon character (e.g., "this:that") cannot be used as the first segment of a
    relative-path reference ... Such a segment must be preceded by a dot-segment (e.g., "./this:that")" (4.2).

    Deviation: for ``s:/a/..//b``, 5.2.4 gives the path ``//b``, and 5.3 would recompose it to ``s://b``, another URI
    (reading 20).
    """
    if parts.host is not None:
        return parts
    if parts.path.startswith(b"//"):
        return parts._replace(path=b"/." + parts.path)
    if parts.scheme is None and _LOOKS_LIKE_SCHEME.match(parts.path):
        return parts._replace(path=b"./" + parts.path)
    return parts


# -- 6.2.2: syntax-based normalization ---------------------------------------------------------------------------


def lowercase_scheme(parts: Parts) -> Parts:
    """6.2.2.1: "the scheme and host are case-insensitive and therefore should be normalized to lowercase"."""
    return parts if parts.scheme is None else parts._replace(scheme=parts.scheme.lower())


def normalize_escapes(parts: Parts) -> Parts:
    """6.2.2.1 and 6.2.2.2: upper-case hex, "decoding any percent-encoded octet that corresponds to an unreserved
    character"."""
    return protect_path(parts.change(normalization.normalize_percent_encoding))


def _lowercase(host: bytes) -> bytes:
    """A host in lower case, its escapes in upper."""
    return normalization.normalize_percent_encoding(host.lower())


def lowercase_host(parts: Parts) -> Parts:
    """6.2.2.1: "the scheme and host are case-insensitive and therefore should be normalized to lowercase"; but the
    digits of an escape "should be normalized to use uppercase letters"."""
    return parts if parts.host is None else parts._replace(host=_lowercase(parts.host))


def remove_dots(parts: Parts) -> Parts:
    """6.2.2.3: "normalizers should remove dot-segments by applying the remove_dot_segments algorithm to the path"
    where they "occur in non-relative paths".

    Deviation: a path that does not begin with a slash stays as it is, also after a scheme. 5.2.4 would turn
    ``s:a/../b`` into ``s:/b``, and would cut text that only looks like segments out of ``mailto:a/../b@c``. The ladder
    must compare "while strictly avoiding false positives" (6.1; reading 20).
    """
    if not parts.path.startswith(b"/") or b"/." not in parts.path:
        return parts
    return protect_path(parts._replace(path=remove_dot_segments(parts.path)))


# -- 6.2.3: scheme-based normalization ---------------------------------------------------------------------------


def remove_port(parts: Parts) -> Parts:
    """ "An explicit ":port", for which the port is empty or the default for the scheme, is equivalent to one where the
    port and its ":" delimiter are elided".

    An empty port means no port in every scheme. If the scheme's default is known, a port is a number "in decimal"
    (3.2.3), so ``:0080`` is ``:80``.
    """
    if parts.scheme is None or parts.port is None:
        return parts
    port, default = parts.port, DEFAULT_PORTS.get(parts.scheme)
    if default is not None and port.isdigit():
        port = port.lstrip(b"0") or b"0"
    is_default = default is not None and port == b"%d" % default
    return parts._replace(port=None if is_default or not port else port)


def complete_path(parts: Parts) -> Parts:
    """ "In general, a URI that uses the generic syntax for authority with an empty path should be normalized to a path
    of "/" "."""
    if parts.scheme is None or parts.host is None or parts.path:
        return parts
    return parts._replace(path=b"/")


def normalize_default_host(parts: Parts) -> Parts:
    """ "When a scheme defines a default for authority and a URI reference to that default is desired, the reference
    should be normalized to an empty authority ... If, however, either the userinfo or port subcomponents are
    non-empty, then the host should be given explicitly".

    Only ``file`` has such a default: an empty host and "localhost" both mean the end user's machine (3.2.2).
    """
    if parts.scheme != b"file" or parts.host not in (b"", b"localhost"):
        return parts
    return parts._replace(host=b"localhost" if parts.userinfo or parts.port else b"")


_AFTER_SIP_HOST = late_pattern(rb"[:;]")


def change_mail_hosts(parts: Parts, change: Callable[[bytes], bytes]) -> Parts:
    """Change the host of each address in a ``mailto`` URI (RFC 6068, 2), in its path and in its fields, in a ``sip`` or
    ``sips`` URI (RFC 3261, 19.1), and in an ``xmpp`` URI (RFC 5122, 2.2): "a subcomponent of path to contain an
    Internet hostname"."""
    if parts.scheme == b"xmpp":  # the path has one, behind an authority as well
        slash = parts.path[: parts.host is not None]
        address, rest, resource = parts.path[len(slash) :].partition(b"/")
        user, at, host = address.rpartition(b"@")
        return parts._replace(path=slash + user + at + change(host) + rest + resource)
    if parts.host is not None or parts.scheme not in (b"mailto", b"sip", b"sips"):
        return parts
    if parts.scheme != b"mailto":
        user, at, host = parts.path.rpartition(b"@")
        end = _AFTER_SIP_HOST.search(host, host.find(b"]") + 1)
        name, rest = (host, b"") if end is None else (host[: end.start()], host[end.start() :])
        return parts._replace(path=user + at + change(name) + rest)
    fields = [
        name + sign + (_change_hosts(value, change) if name.lower() in _WITH_ADDRESSES else value)
        for name, sign, value in _fields(parts)
    ]
    query = None if parts.query is None else b"&".join(fields)
    return parts._replace(path=_change_hosts(parts.path, change), query=query)


#: fields of a message that have addresses as their value
_WITH_ADDRESSES = (b"to", b"cc", b"bcc")


def _fields(parts: Parts) -> list[tuple[bytes, bytes, bytes]]:
    """The fields of a ``mailto`` URI: name, sign, value."""
    return [] if parts.query is None else [field.partition(b"=") for field in parts.query.split(b"&")]


def _change_hosts(addresses: bytes, change: Callable[[bytes], bytes]) -> bytes:
    every = (address.rpartition(b"@") for address in addresses.split(b","))
    return b",".join(local + at + (change(host) if at else host) for local, at, host in every)


def lowercase_mail_host(parts: Parts) -> Parts:
    """ "mailto:Joe@Example.COM" is equivalent to "mailto:Joe@example.com", even though the generic syntax considers
    the path component to be case-sensitive"."""
    return change_mail_hosts(parts, _lowercase)


def join_recipients(parts: Parts) -> Parts:
    """``mailto:?to=a@h`` is another way to write ``mailto:a@h``, and ``mailto:a@h?to=b@h`` to write ``mailto:a@h,b@h``
    (RFC 6068, 2); the order of the addresses counts."""
    if parts.scheme != b"mailto" or parts.host is not None:
        return parts
    fields = _fields(parts)
    recipients = [value for name, sign, value in fields if sign and name.lower() == b"to"]
    if not recipients:
        return parts
    others = [b"".join(field) for field in fields if not (field[1] and field[0].lower() == b"to")]
    path = b",".join(filter(None, (parts.path, *recipients)))
    return protect_path(parts._replace(path=path, query=b"&".join(others) if others else None))


def lowercase_namespace(parts: Parts) -> Parts:
    """A URN's namespace identifier is case-insensitive (RFC 8141, 3.1); what the namespace names is not."""
    if parts.scheme != b"urn" or parts.host is not None:
        return parts
    namespace, colon, name = parts.path.partition(b":")
    return parts._replace(path=namespace.lower() + colon + name)
