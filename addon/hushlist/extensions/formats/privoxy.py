"""Privoxy's action files: the patterns of sections that block, and of those that take that back.

A pattern is a host and a path. A dot in front of the host means the hosts below it, too, and one behind it, any ending;
the path is the beginning of an expression. Sections with other actions, tags, and ports are left out.

Deviation: a host without a dot in front stands for the hosts below it, too, and what a section takes back no later one
blocks.

Spec: https://www.privoxy.org/user-manual/actions-file.html, Patterns
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.lists.list_source import LONGEST_LINE, ListDefaults, ProblemReport, entries
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker

_BLOCK = re.compile(r"(?<!\S)([+-])block(?:\{[^{}]*\})?")
_PLAIN_PATH = re.compile(r"(?:[\w/~%=&:,-]|\\?\.)*")
_TAG = re.compile(r"(?:TAG|CLIENT-TAG|NO-(?:REQUEST|RESPONSE)-TAG|CLIENT-IP)\b.*", re.DOTALL)


def read_privoxy(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Sections such as ``{+block{Ads}}``, with a pattern a line below each.

    >>> lines = (b"{ +block{Ads} }", b".ads.example", b"/ads/", b"{-block}", b"ok.example", b"{+filter}", b"x.example")
    >>> report = ProblemReport("f")
    >>> [str(rule.pattern) for rule in read_privoxy(b"\\n".join(lines), ListDefaults(), report)]
    ['ads.example/', '/^https?:\\\\/\\\\/[^\\\\/]*\\\\/ads\\\\//', '@@||ok.example^']
    >>> print(*report.warnings)
    f:7: x.example: left out: a section without +block
    """
    maker, section, sign = RuleMaker(defaults, report), "", ""
    for line, entry in entries(octets, report, is_foreign=True):
        if entry.startswith("{") or section.endswith("\\"):
            section = "" if len(section) > LONGEST_LINE else section
            section = section.removesuffix("\\") + entry if section.endswith("\\") else entry
            blocks = _BLOCK.search(section.strip("{ ").replace("{+", "{ +")) if not section.startswith("{{") else None
            sign = blocks[1] if blocks else ""
        elif section.startswith("{{"):
            continue  # its version, and names for actions: none is a pattern
        elif not sign:
            maker.kind(entry, line, "a section without +block")
        elif _TAG.fullmatch(entry):
            maker.kind(entry, line, "a tag")
        else:
            yield from _read(maker, entry, line, is_exception=sign == "-")


def _read(maker: RuleMaker, entry: str, line: int, *, is_exception: bool) -> Iterator[Rule]:
    host, slash, path = entry.partition("/")
    host = host.strip()
    if re.search(r":[0-9]*$", host) and not host.startswith("["):
        return maker.kind(entry, line, "a pattern with a port")
    is_plain = not any(sign in host for sign in "*?[") and not host.endswith(".")
    if is_plain and host and not is_exception and _PLAIN_PATH.fullmatch(path):
        return maker.prefix(host.lstrip(".") + slash + path.replace("\\.", "."), line)
    if is_plain and host and is_exception and not path:
        return maker.lift(host.lstrip("."), line)
    regex = rf"^https?:\/\/{_host_regex(host)}\/{_escaped(path)}"
    rules = maker.pattern(f"{'@@' * is_exception}/{regex}/", line, of_names=False)
    return maker.exception(rules, entry, line) if is_exception else rules


def _host_regex(host: str) -> str:
    """An expression of hosts, with a port that may stand behind."""
    if host in ("", "."):
        return r"[^\/]*"
    parts = re.findall(r"\[[^\]]*\]|.", host.strip("."))
    signs = {"*": r"[^.\/]*", "?": r"[^.\/]"}
    middle = "".join(signs.get(part) or (part if len(part) > 1 else re.escape(part)) for part in parts)
    before = r"(?:[^\/]*\.)?" if host.startswith(".") else ""
    behind = r"(?:\.[^\/]*)?" if host.endswith(".") else ""
    return f"{before}{middle}{behind}(?::[0-9]+)?"


def _escaped(path: str) -> str:
    return re.sub(r"(?<!\\)/", r"\\/", path)
