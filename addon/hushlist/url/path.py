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


def slashes_from_backslashes(path: bytes) -> bytes:
    """Take backslashes for slashes, as some servers do."""
    return path.replace(b"\\", b"/")
