r"""Path interpretations: the paths that a server may read in a request's path, besides the standard one.

A server, or a chain of servers, is modelled as a sequence of steps. Each step unescapes something, or changes slashes,
dot segments, parameters or a leading authority. Servers differ in which steps they take, in which order and how often.
So every path that any sequence leads to is an interpretation, and the filter decides each. Nearly every path has only
one.

>>> [path for path, _ in path_interpretations(b"/a%2fb/..;x/secret/", None).targets]
[b'/a/b/..;x/secret/', b'/a/b/../secret/', b'/secret/', b'/a/secret/']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url import normalization
from hushlist.core.url.safebrowsing import remove_tab_cr_lf, strip_spaces

#: octets of a path that can be read in several ways; by default, nginx and Apache take 8 KiB
_LONGEST_OF_SEVERAL = 1 << 14
#: octets that the steps may write for one request; of 28,000 recorded requests, one takes 97,000
_MOST_OCTETS = 1 << 17
#: paths that the steps may lead to; those of recorded requests lead to 36 at most
_MOST_PATHS = 64
#: forms of a request, by all its names, readings and targets; recorded ones have 11 at most, by one name
_MOST_FORMS = 40
#: addresses inside a request, inside each other or side by side, that are decided, too
_MOST_INNER = 8
#: octets of a target from which on each of its forms counts as several
_LONG = 1 << 12

#: an octet is found much faster as a number
_NUL, _TAB, _LF, _CR, _SPACE, _HASH, _PERCENT, _SEMICOLON, _QUESTION, _BACKSLASH = b"\0\t\n\r #%;?\\"

_Target = tuple[bytes, bytes | None]


class FormBudget:
    """What may still be done to read one request, and to decide what it may mean: its names, the readings of its path
    and its other targets multiply. It is counted before it is done."""

    __slots__ = ("_forms", "_inner", "_octets", "_paths", "work")

    def __init__(self) -> None:
        self._forms, self._octets, self._paths, self._inner = _MOST_FORMS, _MOST_OCTETS, _MOST_PATHS, _MOST_INNER
        #: extension -> what its matcher may still do
        self.work: dict[str, Any] = {}

    def takes_step(self, octets: int) -> bool:
        """Whether a step may be taken that writes so many octets."""
        self._octets -= octets
        return self._octets >= 0

    def takes_path(self) -> bool:
        """Whether one path more may be reached."""
        self._paths -= 1
        return self._paths >= 0

    def takes_inner(self) -> bool:
        """Whether one address more may be decided that is inside the request."""
        self._inner -= 1
        return self._inner >= 0

    def takes_forms(self, names: int, readings: int, octets: int) -> bool:
        """Whether a target of so many octets may be decided by so many names, each with so many readings.

        One that has a single reading costs its octets once for each name, as any request does; by one name, it is what
        any request is, and not counted.
        """
        if names == readings == 1:
            return True
        number = names * readings * (1 if readings == 1 else 1 + octets // _LONG)
        if number > self._forms:
            return False
        self._forms -= number
        return True


class Readings(NamedTuple):
    """Every interpretation of a path and a query."""

    #: paths and queries, all canonical; the first pair is the Safe Browsing profile's
    targets: tuple[_Target, ...]
    #: whether there are more: finding all would take too long, and no browser sends such a path; then only the first is
    #: in ``targets``
    is_cut: bool


# If a step can lead to another canonical path, the fully unescaped path has one of these, or begins with two slashes.
# The last is IIS's own escape.
_SEVERAL = late_pattern(
    rb"""[\0\t\n\r\\;?\#]
       | [.\x20](?:/|\Z)
       | [\0-\x20]\Z
       | /\([A-Z]\(
       | :\$
       | %[uU][0-9A-Fa-f]{4}""",
    re.VERBOSE,
)


def path_interpretations(path: bytes, query: bytes | None, budget: FormBudget | None = None) -> Readings:
    """The canonical path and query, then every other that a server may read; nearly always there is only one.

    ``path`` begins with a slash. Both are as requested. ``budget`` is that of the whole request.
    """
    stripped = remove_tab_cr_lf(path)
    whole = normalization.percent_decode_repeatedly(stripped)
    queries: dict[bytes | None, bytes | None] = {}
    canonical = _canonical(*_split(whole, query), queries, is_resolved=True)
    is_several = whole[:2] == b"//" or _SEVERAL.search(whole) or normalization.is_overlong(whole)
    if stripped == path and not is_several and not (query and b"#" in query):
        return Readings((canonical,), is_cut=False)
    if len(path) > _LONGEST_OF_SEVERAL:
        return Readings((canonical,), is_cut=True)
    reached = _reached(path, query, budget or FormBudget())
    if reached is None:
        return Readings((canonical,), is_cut=True)
    # A path with escapes or double slashes has the same canonical form as another one that a step leads to.
    targets = {canonical: None}
    for target in reached:
        if not ((_PERCENT in target[0] and normalization.ESCAPE.search(target[0])) or b"//" in target[0]):
            targets[_canonical(*target, queries, is_resolved=False)] = None
    return Readings(tuple(targets), is_cut=False)


def standard_target(path: bytes, query: bytes | None) -> _Target:
    """The first target of ``path_interpretations``, without the work for the others."""
    whole = normalization.percent_decode_repeatedly(remove_tab_cr_lf(path))
    return _canonical(*_split(whole, query), {}, is_resolved=True)


def _reached(path: bytes, query: bytes | None, budget: FormBudget) -> dict[_Target, None] | None:
    """Every path and query that steps lead to, with the fewest steps first; ``None`` if the budget is too small."""
    reached: dict[_Target, None] = {(path, query): None}
    pending = [(path, query)]
    for target in pending:
        for step in _steps(*target):
            written = len(step[0]) + (len(step[1]) if step[1] is not None and step[1] is not target[1] else 0)
            if not budget.takes_step(written):
                return None
            if step not in reached:
                if not budget.takes_path():
                    return None
                reached[step] = None
                pending.append(step)
    return reached


def _steps(path: bytes, query: bytes | None) -> Iterator[_Target]:
    """Every result of one step on a path and a query."""
    if _PERCENT in path:
        for escapes, unescape in _UNESCAPING:
            if escapes.search(path):
                yield unescape(path), query
    if _BACKSLASH in path:
        yield normalization.backslashes_to_slashes(path), query
    if b"//" in path:
        yield normalization.merge_slashes(path), query
        if path[:2] == b"//":
            yield normalization.remove_authority(path), query
    if _SEMICOLON in path:
        yield normalization.remove_parameters(path), query
    if b"/(" in path:
        yield normalization.remove_session(path) or b"/", query
    if b":$" in path:
        yield normalization.remove_streams(path), query
    if b"/." in path:
        yield normalization.resolve_dot_segments(path), query
    if _QUESTION in path:
        yield _split(path, query)
    if _HASH in path:
        yield path.partition(b"#")[0], None
    elif query and _HASH in query:
        yield path, query.partition(b"#")[0]
    # a server may read a target as a browser reads a URL
    if path[-1:] <= b" " or _TAB in path or _LF in path or _CR in path:
        yield remove_tab_cr_lf(strip_spaces(path)), query
    if _NUL in path:
        yield path.partition(b"\0")[0], None
    if path[-1:] in (b".", b" ") or b"./" in path or (_SPACE in path and b" /" in path):
        yield _TRAILING.sub(b"", path), query
    if normalization.is_overlong(path):
        yield normalization.shorten_overlong(path), query


#: octets that Windows drops at the end of a name
# Each alternative looks back over the octet that begins it: a search is faster if every match begins alike.
_TRAILING = late_pattern(rb"[. ](?:(?<=[^/. ][. ])[. ]*|(?<=/\.)\.{2,}|(?<=/\.\. ) *)(?=/|\Z)")

# The ways to unescape once, each with the escapes for which it makes a difference.
_UNESCAPING = (
    (normalization.ESCAPE, normalization.unescape_once),
    # an option of Apache httpd and Tomcat
    (late_pattern(rb"%2[Ff]"), normalization.unescape_all_but_slashes),
    # as RFC 3986 normalizes; only a dot counts, or a digit that completes another escape
    (late_pattern(rb"%2[Ee]|%[0-9A-Fa-f]?%(?:3[0-9]|[46][1-6]|[57]5)"), normalization.unescape_unreserved),
    # of IIS alone
    (late_pattern(rb"%[uU]"), normalization.unescape_percent_u),
)


def _split(path: bytes, query: bytes | None) -> _Target:
    """Split a path at a question mark that was escaped; the rest begins the query."""
    path, mark, rest = path.partition(b"?")
    if mark:
        query = rest if query is None else rest + b"?" + query
    return path, query


def _canonical(
    path: bytes, query: bytes | None, queries: dict[bytes | None, bytes | None], *, is_resolved: bool
) -> _Target:
    """The canonical path and query; ``is_resolved`` says whether dot segments are resolved.

    ``queries`` has the canonical forms of queries that were asked for before; most interpretations have the same.
    """
    path = normalization.percent_decode_repeatedly(path)
    if is_resolved:
        path = normalization.resolve_dot_segments(path)
    path = normalization.merge_slashes(normalization.remove_single_dots(path))
    if query is not None and query not in queries:
        decoded = normalization.percent_decode_repeatedly(remove_tab_cr_lf(query))
        queries[query] = normalization.percent_encode(decoded)
    return normalization.percent_encode(path), queries.get(query)
