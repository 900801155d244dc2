"""Conditions in Adblock lists, ``!#if``, ``!#else`` and ``!#endif``: which filters are for a proxy.

A condition says for which blockers, in which browsers, filters are. This filter reads lists as uBlock Origin does, and
is no browser's extension, so that of all names ``ext_ublock`` alone holds. A name that is not known does not hold, and
neither does a condition that cannot be read: its filters are not used, and the report names it.

>>> [*map(holds, ("ext_ublock", "!env_firefox && !adguard", "env_safari || (false && ext_ublock)"))]
[True, True, False]

Spec: https://github.com/gorhill/uBlock/wiki/Static-filter-syntax, Pre-parsing directives;
https://adguard.com/kb/general/ad-filtering/create-own-filters/, Preprocessor directives, Conditions
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hushlist.core.lists.list_source import ProblemReport

#: what this filter is; whatever else may be asked for, it is not
_HOLDS = {
    "ext_ublock": True,
    "true": True,
    **dict.fromkeys(
        (
            *("ext_ubol", "ext_devbuild", "ext_abp", "adguard", "false"),
            *(f"env_{name}" for name in ("chromium", "edge", "firefox", "legacy", "mobile", "mv3", "safari")),
            *(f"cap_{name}" for name in ("html_filtering", "user_stylesheet", "ipaddress")),
            *(f"adguard_app_{name}" for name in ("windows", "mac", "android", "ios", "linux", "cli")),
            *(f"adguard_ext_{name}" for name in ("chromium", "chromium_mv3", "firefox", "edge", "opera", "safari")),
            "adguard_ext_android_cb",
        ),
        False,
    ),
}
_DIRECTIVE = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*+!#(if|else|endif)\b[ \t]*+([^\r\n]{0,1000})", re.MULTILINE)
_NAME, _CONDITION = (
    re.compile(r"[A-Za-z_][A-Za-z0-9_]*+"),
    re.compile(r"(?:\s|&&|\|\||[!()]|[A-Za-z_]|(?<=[A-Za-z0-9_])[0-9])++"),
)
#: what becomes of a part of a condition whose names are 1 and 0, as long as nothing that binds more is left around it
_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile("!([01])"), lambda part: "10"[int(part[1])]),
    (re.compile("(?<!!)[01](?:&&[01])+"), lambda part: "10"["0" in part[0]]),
    (re.compile(r"(?<![!&])[01](?:\|\|[01])+(?!&&)"), lambda part: "01"["1" in part[0]]),
    (re.compile(r"\(([01])\)"), lambda part: part[1]),
)
#: parentheses and negations within each other, and conditions that are open
_DEEPEST, _MOST_OPEN = 16, 64
_NOT_FOR_IT = "a condition that does not hold here: the filters within it are not used"
_UNREADABLE = "a condition that cannot be read: the filters within it are not used"
_TRUE, _FALSE = "true", "false"


def holds(text: str) -> bool:
    """Whether a condition holds; ``ValueError`` if it cannot be read."""
    value = "" if _CONDITION.fullmatch(text) is None else _NAME.sub(lambda name: "01"[_HOLDS.get(name[0], False)], text)
    value = "".join(value.split())
    for _ in range(_DEEPEST):
        for step, result in _STEPS:
            value = step.sub(result, value)
    if value not in ("0", "1"):
        raise ValueError(_UNREADABLE)
    return value == "1"


class Conditions:
    """The conditions that are open at a place of a list."""

    def __init__(self, begin: tuple[str, ...] = ()) -> None:
        """``begin``: those that are open at the begin."""
        self._open = [*begin]

    @property
    def open(self) -> tuple[str, ...]:
        """Of each whether it holds, as the words true and false; the outermost is the first."""
        return tuple(self._open)

    @property
    def hold(self) -> bool:
        return _FALSE not in self._open

    def directive(self, name: str, condition: str) -> str:
        """Take a directive; why its filters are not used, or nothing."""
        if name == "if":
            why = ""
            try:
                is_true = holds(condition)
            except ValueError as error:
                is_true, why = False, str(error)
            if len(self._open) < _MOST_OPEN:
                self._open.append(_TRUE if is_true else _FALSE)
            return why or ("" if is_true else _NOT_FOR_IT)
        if name == "endif":
            self._open = self._open[:-1]
        elif self._open:
            self._open[-1] = _FALSE if self._open[-1] == _TRUE else _TRUE
            return _NOT_FOR_IT if self._open[-1] == _FALSE else ""
        return ""

    def read(self, octets: bytes) -> None:
        """Take all directives of some lines."""
        if b"!#" in octets:
            for match in _DIRECTIVE.finditer(octets):
                self.directive(match[1].decode(), match[2].decode(errors="replace"))


def without_unused(octets: bytes, begin: tuple[str, ...], report: ProblemReport) -> bytes:
    r"""The lines of a list, of which those are empty whose conditions do not hold.

    >>> report = ProblemReport("f")
    >>> without_unused(b"||a^\n!#if env_safari\n||b^\n!#else\n||c^\n!#endif\n||d^", (), report)
    b'||a^\n\n\n\n||c^\n\n||d^'
    >>> print(*report.warnings)
    f:2: !#if env_safari: left out: a condition that does not hold here: the filters within it are not used
    """
    if not begin and b"!#" not in octets:
        return octets
    conditions, start, kept = Conditions(begin), 0, []
    line = report.first_line
    for match in _DIRECTIVE.finditer(octets):
        part = octets[start : match.start()]
        line += part.count(b"\n")
        kept.append(part if conditions.hold else b"\n" * part.count(b"\n"))
        was_used = conditions.hold or match[1] != b"if"
        if (why := conditions.directive(match[1].decode(), match[2].decode(errors="replace"))) and was_used:
            report.tally(line, match[0].decode(errors="replace").strip(), why)
        start = match.end()
    rest = octets[start:]
    kept.append(rest if conditions.hold else b"\n" * rest.count(b"\n"))
    return b"".join(kept)
