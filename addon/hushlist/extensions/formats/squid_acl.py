"""Squid's configuration: the domains, addresses and expressions of its access lists.

Where lines ``http_access deny NAME`` say which of them are denied, these alone are rules; the domains of ``!OTHER``
behind it are exceptions. A list that is denied only together with others is left out. Files that a list names are lists
of their own, in the formats ``domains`` and ``addresses``. An expression is compared with the host, the whole URL, or
the path with the query; in URLs, case counts unless ``-i`` stands before.

Spec: http://www.squid-cache.org/Doc/config/acl/ and .../http_access/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Rule, RuleBlock
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines, read_lines


def _of_urls(maker: RuleMaker, text: str, line: int) -> Iterator[Rule]:
    return maker.pattern(f"/{text}/", line, of_names=False)


def _of_urls_as_written(maker: RuleMaker, text: str, line: int) -> Iterator[Rule]:
    return maker.pattern(f"/{text}/$match-case", line, of_names=False)


_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "dstdomain": RuleMaker.host,
    "dst": RuleMaker.address,
    "dstdom_regex": RuleMaker.regex,
    "url_regex": _of_urls,
    "urlpath_regex": _of_urls,
}
#: a "^" that is neither in brackets at their beginning nor escaped
_BEGIN = re.compile(r"(?<![\\\[])\^")
_ACCESS = re.compile(rb"^[ \t]*+http_access[ \t]++(deny|allow)[ \t]++([^\r\n#]*[^\s#])", re.MULTILINE)
#: lists that are denied, the most whose lines are read many at once
_MOST_NAMED = 16
_MASK = re.compile(r"(?<![0-9.])([0-9.]++/)(255\.[0-9.]++)")


def read_squid_acl(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
    """Lines such as ``acl ads dstdomain .a.example .b.example``.

    >>> from hushlist.core.match.rule import each_rule
    >>> octets = b"acl ads dstdomain .a.example b.example\\nacl ok dstdomain c.example\\nhttp_access deny ads"
    >>> report = ProblemReport("f")
    >>> [str(rule.pattern) for rule in each_rule(read_squid_acl(octets, ListDefaults(), report))]
    ['a.example/', 'b.example/']
    >>> print(*report.warnings)
    f:2: acl ok dstdomain c.example: left out: an access list that nothing denies by itself
    """
    access = [match.groups() for match in _ACCESS.finditer(octets)]
    denials = [words.decode(errors="replace").split() for does, words in access if does == b"deny"]
    alone = [words for words in denials if all(word == "all" or word[0] == "!" for word in words[1:])]
    denied = {words[0] for words in alone}
    lifted = {word[1:] for words in alone for word in words[1:] if word[0] == "!"}

    def read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
        directive, *words = entry.split()
        if directive == "acl" and len(words) > 1:
            if words[0] in lifted and words[1] == "dstdomain":
                return (rule for name in words[2:] for rule in maker.lift(name.lstrip("."), line))
            return _read(maker, words, entry, line, is_denied=not access or words[0] in denied)
        return iter(()) if directive == "http_access" else maker.kind(entry, line, f"a directive {directive[:40]!r}")

    named = b"|".join(re.escape(name).encode() for name in sorted(denied - lifted)[:_MOST_NAMED]) or rb"(?!)"
    plain = plain_lines(rb"acl (?:%b) dstdomain \.?" % (named if access else rb"\S++"))
    return read_lines(plain, read)(octets, defaults, report)


def _read(maker: RuleMaker, words: list[str], entry: str, line: int, *, is_denied: bool) -> Iterator[Rule]:
    kind, values = words[1], [word for word in words[2:] if word not in ("-n", "--")]
    is_as_written = True
    if kind not in _KINDS:
        maker.kind(entry, line, f"an access list of the type {kind[:40]!r}")
    elif not is_denied:
        maker.kind(entry, line, "an access list that nothing denies by itself")
    else:
        read = _KINDS[kind]
        for value in values:
            if value in ("-i", "+i"):
                is_as_written = value == "+i"
            elif value.startswith('"'):
                maker.kind(value, line, "a file, which the policy has to name as a list of its own")
            elif (regex := _of_path(value) if kind == "urlpath_regex" else value) is None:
                maker.kind(value, line, "an expression of which a part alone is for the beginning of a path")
            else:
                is_cased = is_as_written and read is _of_urls
                yield from (_of_urls_as_written if is_cased else read)(maker, _MASK.sub(r"\1\2", regex), line)


def _of_path(regex: str) -> str | None:
    """An expression for URLs whose path, with the query, fits another; ``None`` if there is none.

    >>> _of_path("^/ads"), _of_path("ads|banner"), _of_path("^/a|b")
    ('^[a-z]+://[^/]*/ads', '^[a-z]+://[^/]*(?=/).*(?:ads|banner)', None)
    """
    host = "^[a-z]+://[^/]*"
    if not _BEGIN.search(regex):
        return rf"{host}(?=/).*(?:{regex})"
    return host + regex[1:] if regex.startswith("^/") and "|" not in regex and not _BEGIN.search(regex[1:]) else None
