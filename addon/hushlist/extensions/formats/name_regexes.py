r"""Regular expressions of names: a line each, as Pi-hole has them, or between slashes among other entries, as Blocky.

What is a set of domains becomes rules for these, and anything else a rule that is compared with the names of hosts.
Of Pi-hole's extensions, ``;querytype=`` makes a rule of some queries alone, ``;invert`` one of all other names, and
both are left out; ``;reply=`` changes nothing, since what is blocked is blocked.

Spec: https://docs.pi-hole.net/regex/; https://0xerr0r.github.io/blocky/latest/configuration/#sources
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker, leads_nowhere, plain_lines, read_lines

_LETTER = r"[a-z0-9-]|\\[.-]"
_CHOICE = rf"\((?:\?:)?(?:{_LETTER})++(?:(?>\|(?:{_LETTER})++))*+\)"
_DOMAINS_REGEX = re.compile(
    r"(?P<below>\((?:\\\.\|\^|\^\|\\\.|\.[*+]\\\.\|\^|\^\|\.[*+]\\\.)\)|\^\(\.[*+]\\\.\)[?])?(?P<exact>\^)?"
    rf"(?P<body>(?:(?>{_LETTER}|{_CHOICE}))++)\$"
)
_MOST_CHOICES = 256
#: classes of POSIX, within brackets
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
    "space": r" \t",
    "blank": r" \t",
    "punct": "_.-",
}
_CLASS = re.compile(r"\[:(\w+):\]")


def domains_of_regex(regex: str) -> tuple[list[str], bool]:
    r"""The domains that a regular expression fits, and whether it fits none below them; none where it fits others.

    >>> domains_of_regex(r"(\.|^)ads\.(example|test)$"), domains_of_regex(r"^ads\.example$")
    ((['ads.example', 'ads.test'], False), (['ads.example'], True))
    >>> domains_of_regex(r"^ad[sx]?[0-9]*\.")
    ([], False)
    """
    match = _DOMAINS_REGEX.fullmatch(regex.lower()) if len(regex) < 1000 else None
    if match is None or bool(match["below"]) == bool(match["exact"]):
        return [], False
    parts = [part for part in re.split(rf"({_CHOICE})", match["body"]) if part]
    choices = [part.strip("()").removeprefix("?:").split("|") for part in parts]
    domains = ["".join(words).replace("\\", "") for words in islice(product(*choices), _MOST_CHOICES + 1)]
    return (domains, bool(match["exact"])) if len(domains) <= _MOST_CHOICES else ([], False)


def read_regex(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    """The rules of one of Pi-hole's regular expressions."""
    regex, *extensions = entry.split(";")
    for extension in extensions:
        if extension.partition("=")[0] != "reply":
            return maker.kind(entry, line, f"a regular expression with ;{extension.partition('=')[0][:20]}")
    if domains := domains_of_regex(regex)[0]:
        return (rule for domain in domains for rule in maker.name(domain, line))
    return maker.regex(_CLASS.sub(lambda match: _CLASSES.get(match[1], match[0]), regex), line)


def _read_blocky(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    if len(entry) > 2 and entry[0] == entry[-1] == "/":
        return read_regex(maker, entry[1:-1], line)
    address, *names = entry.split()
    if names and leads_nowhere(address):
        return (rule for name in names for rule in maker.name(name, line))
    return maker.host(entry.removeprefix("*."), line)


read_pihole_regex = read_lines(plain_lines(rb"(?!)"), read_regex, has_trailing_comments=False)
read_blocky = read_lines(plain_lines(rb"(?:\*\.)?"), _read_blocky)
