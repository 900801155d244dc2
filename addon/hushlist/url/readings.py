"""Readings: what a server may take a path for, besides what the specification says.

A pupil would ask in whatever spelling the server reads in one way and the filter in another; so each is decided. Nearly
every path has but one.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from hushlist.url import path, percent
from hushlist.url.parts import Parts
from hushlist.url.profile import Step
from hushlist.url.safebrowsing import OPEN, collapse_slashes, escape, resolve_dot_segments

_PERCENT = ord("%")


def slashes_from_backslashes(parts: Parts) -> Parts:
    """Take backslashes for slashes, as some servers do."""
    return parts._replace(path=path.slashes_from_backslashes(parts.path))


# The first is the profile's own. nginx merges slashes before it resolves dot segments; some applications resolve
# nothing; IIS takes a backslash for a slash.
_PATH_READINGS: tuple[tuple[Step, ...], ...] = (
    (resolve_dot_segments, collapse_slashes),
    (collapse_slashes, resolve_dot_segments),
    (collapse_slashes,),
    (slashes_from_backslashes, resolve_dot_segments, collapse_slashes),
    (slashes_from_backslashes, collapse_slashes, resolve_dot_segments),
    (slashes_from_backslashes, collapse_slashes),
)


def readings(parts: Parts) -> tuple[Parts, ...]:
    r"""The canonical form, and behind it every other that a server may give to the path; nearly always one alone.

    >>> from hushlist.url.safebrowsing import parse
    >>> [r.path for r in readings(parse(b"http://h.example/x//../bad"))]
    [b'/x/bad', b'/bad', b'/x/../bad']

    Raises:
        UrlError: nothing is left of the host.
    """
    asked = parts
    for step in OPEN:
        parts = step(parts)
    name = parts.path
    if not (_PERCENT in asked.path or path.is_overlong(name) or b"/.." in name or b"\\" in name or b";" in name):
        return (escape(collapse_slashes(resolve_dot_segments(parts))),)
    found = []
    for spelled in _spellings(asked, parts):
        # No step makes or removes what is escaped, so that this can be done once for all of them.
        escaped = escape(spelled)
        several = b"/.." in escaped.path or b"\\" in escaped.path
        found += [_read(escaped, steps) for steps in (_PATH_READINGS if several else _PATH_READINGS[:1])]
    if _PERCENT in asked.path:
        found += [escape(parts._replace(path=early)) for early in _resolved_early(asked.path)]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else (found[0],)


def _spellings(asked: Parts, parts: Parts) -> Iterator[Parts]:
    """What the path may be before anything is resolved, the profile's own first; each is made of the one before."""
    yield parts
    if _PERCENT in asked.path and parts.query is not None:
        # To a server, an escaped question mark begins no query.
        whole, query = parts.path + b"?" + parts.query, None
        if asked.query is not None:
            whole, query = map(percent.unescape_repeatedly, (asked.path, asked.query))
        if b"?" in whole:
            yield (parts := parts._replace(path=whole, query=query))
    if b"%u" in parts.path or b"%U" in parts.path:
        yield (parts := parts._replace(path=path.unescape_percent_u(parts.path)))
    if path.is_overlong(parts.path):
        # Dot segments that are written plainly may be resolved before this is decoded.
        yield parts._replace(path=_shortened(path.remove_dot_segments(parts.path)))
        yield (parts := parts._replace(path=_shortened(parts.path)))
    if b";" in parts.path:
        yield parts._replace(path=path.remove_parameters(parts.path))


def _shortened(name: bytes) -> bytes:
    return percent.unescape_repeatedly(path.shorten_overlong(name))


def _resolved_early(asked: bytes) -> Iterator[bytes]:
    """The path where a server resolves dot segments before it unescapes, or unescapes but once before it."""
    for early in (asked, unquote_to_bytes(asked)):
        if _PERCENT in early and b"/." in early:  # else it is one of the other readings
            yield path.collapse_slashes(percent.unescape_repeatedly(path.remove_dot_segments(early)))


def _read(parts: Parts, steps: tuple[Step, ...]) -> Parts:
    for step in steps:
        parts = step(parts)
    return parts
