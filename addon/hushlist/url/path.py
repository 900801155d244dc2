"""Paths: dot segments and slashes."""

from __future__ import annotations

import re


def remove_dot_segments(path: bytes) -> bytes:
    """Resolve "." and ".." of a path that begins with a slash, in linear time; ``rfc3986`` has it for any path.

    >>> remove_dot_segments(b"/a/b/c/./../../g"), remove_dot_segments(b"/a/.."), remove_dot_segments(b"/..a/...")
    (b'/a/g', b'/', b'/..a/...')

    Spec: RFC 3986, 5.2.4; Safe Browsing v4, Canonicalization, path, 1
    """
    if b"/." not in path:
        return path
    out: list[bytes] = []
    segments = path[1:].split(b"/")
    for segment in segments:
        if segment == b"..":
            if out:
                out.pop()
        elif segment != b".":
            out.append(segment)
    if segments[-1] in (b".", b".."):
        out.append(b"")
    return b"/" + b"/".join(out)


_SLASHES = re.compile(rb"/{2,}")


def collapse_slashes(path: bytes) -> bytes:
    """Replace runs of slashes with one.

    Spec: Safe Browsing v4, Canonicalization, path, 2
    """
    return _SLASHES.sub(b"/", path) if b"//" in path else path


_PARAMETERS = re.compile(rb";[^/]*")


def remove_parameters(path: bytes) -> bytes:
    """Leave out the parameters of every segment, as servers in Java do before they resolve dot segments.

    >>> remove_parameters(b"/a;b=c/..;/d;e")
    b'/a/../d'

    Spec: Java Servlet 6.0, 3.5.2
    """
    return _PARAMETERS.sub(b"", path)


_PERCENT_U = re.compile(rb"%[uU]([0-9A-Fa-f]{4})")


def unescape_percent_u(path: bytes) -> bytes:
    """Undo the escapes that only IIS knows.

    >>> unescape_percent_u(b"/%u0073ecret")
    b'/secret'
    """
    return _PERCENT_U.sub(lambda match: chr(int(match[1], 16)).encode("utf-8", "surrogatepass"), path)


def slashes_from_backslashes(path: bytes) -> bytes:
    """Take backslashes for slashes, as some servers do."""
    return path.replace(b"\\", b"/")
