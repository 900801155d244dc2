"""Proxy auto-configuration (PAC) as a list: what its conditions send to a proxy that is none.

Read are ``if (... || ...)`` whose alternatives are ``dnsDomainIs``, ``localHostOrDomainIs``, ``shExpMatch``,
``isInNet`` or ``host ==``, and which return a proxy at an address of the machine itself, or at 0.0.0.0, by its text or
by a variable that has it. What else a script does is left out, and it is never run.

Spec: https://developer.mozilla.org/docs/Web/HTTP/Guides/Proxy_servers_and_tunneling/Proxy_Auto-Configuration_PAC_file
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import EVERY_HOST, RuleMaker, leads_nowhere

_COMMENTS = re.compile(rb"//.*", re.DOTALL)
#: texts, comments, words, and signs
_TOKEN = re.compile(
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(//[^\n]*+|/\*(?>[^*]+|\*(?!/))*(?:\*/|\Z))|([A-Za-z_$][\w$]*+)|(\|\||&&|===?|[^\s])"""
)
_PROXY = re.compile(r"(?:PROXY|HTTPS?|SOCKS[45]?)\s+\[?([0-9A-Fa-f.:]*[0-9a-fA-F:])\]?:[0-9]+", re.IGNORECASE)
_NAMES = {"dnsdomainis": ".", "localhostordomainis": "", "shexpmatch": "*", "isinnet": "/"}
_UNCLEAR = "a condition that is more than alternatives of names"


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens, line, seen = list[tuple[str, str, int]](), 1, 0
    for token in _TOKEN.finditer(text):
        line, seen = line + text.count("\n", seen, token.start()), token.start()
        quoted, comment, word, sign = token.groups()
        if quoted:
            tokens.append(("text", re.sub(r"\\(.)", r"\1", quoted[1:-1]), line))
        elif not comment:
            tokens.append(("word", word, line) if word else ("sign", sign, line))
    return tokens


def read_pac(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    r"""The rules of a script.

    >>> octets = b'no = "PROXY 0.0.0.0:9";\nif (dnsDomainIs(host, ".a.example") ||\n host == "b.example") {return no}'
    >>> rules = read_pac(octets, ListDefaults(), ProblemReport("f"))
    >>> [(rule.line, str(rule.pattern)) for rule in rules]
    [(2, 'a.example/'), (3, 'b.example/')]
    """
    lines = (text for _, text in numbered_lines(octets, report, is_foreign=True, comments=_COMMENTS))
    tokens, maker = _tokens("\n".join(lines)), RuleMaker(defaults, report)
    texts = {
        tokens[at][1]: tokens[at + 2][1]
        for at in range(len(tokens) - 2)
        if tokens[at][0] == "word" and tokens[at + 1][1] == "=" and tokens[at + 2][0] == "text"
    }
    place = 0
    while place < len(tokens):
        kind, word, line = tokens[place]
        place += 1
        if kind != "word" or word != "if" or tokens[place : place + 1] == [] or tokens[place][1] != "(":
            continue
        start, place = place + 1, _end_of(tokens, place)
        condition, returned = tokens[start : place - 1], _returned(tokens, place, texts)
        if returned is None or not (proxy := _PROXY.match(returned)) or not leads_nowhere(proxy[1]):
            maker.kind("if", line, "a condition that does not lead to a proxy that is none")
        else:
            yield from _alternatives(maker, condition, line)


def _end_of(tokens: list[tuple[str, str, int]], place: int) -> int:
    """The place behind the parenthesis that closes the one at a place."""
    depth = 0
    while place < len(tokens):
        kind, sign, _ = tokens[place]
        depth += (kind == "sign" and sign == "(") - (kind == "sign" and sign == ")")
        place += 1
        if not depth:
            break
    return place


def _returned(tokens: list[tuple[str, str, int]], place: int, texts: dict[str, str]) -> str | None:
    """What the statement at a place returns, if that is a text or a variable with one."""
    place += tokens[place : place + 1] != [] and tokens[place][1] == "{"
    if [token[1] for token in tokens[place : place + 1]] != ["return"] or len(tokens) < place + 2:
        return None
    kind, word, _ = tokens[place + 1]
    return word if kind == "text" else texts.get(word)


def _alternatives(maker: RuleMaker, condition: list[tuple[str, str, int]], line: int) -> Iterator[Rule]:
    """The rules of a condition."""
    start = depth = 0
    for at, (kind, sign, _) in enumerate([*condition, ("sign", "||", line)]):
        depth += (kind == "sign" and sign == "(") - (kind == "sign" and sign == ")")
        if depth == 0 and (kind, sign) == ("sign", "||"):
            yield from _alternative(maker, condition[start:at], line)
            start = at + 1


def _alternative(maker: RuleMaker, tokens: list[tuple[str, str, int]], line: int) -> Iterator[Rule]:
    words = [word for _, word, _ in tokens]
    if words in (["0"], ["false"]):
        return iter(())
    kinds, at = [kind for kind, _, _ in tokens], tokens[0][2] if tokens else line
    function = words[0].lower().lstrip("_") if words else ""
    if len(words) == 3 and words[1] in ("==", "===") and words[0] == "host" and kinds[2] == "text":
        return maker.host(words[2], at)
    is_call = words[1:2] == ["("] and words[-1] == ")" and words[3:4] == [","] and kinds[4:5] == ["text"]
    if not is_call or function not in _NAMES or words[2] not in ("host", "url"):
        return maker.kind(" ".join(words), at, _UNCLEAR)
    value, how = words[4], _NAMES[function]
    if how == "/" and len(words) == 8:
        return maker.address(f"{value}/{words[6]}", at)
    if len(words) != 6 or how == "/" or (words[2] == "url" and how != "*"):
        return maker.kind(" ".join(words), at, _UNCLEAR)
    if how != "*":
        return maker.host(value.lstrip("."), at)
    if not value.strip("*"):
        return maker.left_out(value, at, EVERY_HOST)
    if words[2] == "host":
        name = value.removeprefix("*.")
        return maker.glob(value, at) if any(sign in name for sign in "*?") else maker.host(name, at)
    pattern = value if value.startswith("*") else f"|{value}"
    return maker.pattern(pattern if value.endswith("*") else f"{pattern}|", at, of_names=False)
