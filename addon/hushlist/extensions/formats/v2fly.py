"""Lists of the V2Ray community: ``domain:``, ``full:``, ``keyword:`` and ``regexp:``; without one of them, a domain.

Attributes (``@ads``) and affiliations (``&list``) behind an entry are not used.

Spec: https://github.com/v2fly/domain-list-community, Structure of data
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker, plain_lines, read_lines

_KINDS: dict[str, Callable[[RuleMaker, str, int], Iterator[Rule]]] = {
    "": RuleMaker.name,
    "domain": RuleMaker.name,
    "full": RuleMaker.name,
    "keyword": RuleMaker.pattern,
    "regexp": RuleMaker.regex,
    "include": lambda maker, text, line: maker.kind(text, line, "a list that it includes: name it in the policy"),
}


def _read(maker: RuleMaker, entry: str, line: int) -> Iterator[Rule]:
    plain = entry.split(" @")[0].split(" &")[0].strip()
    kind, colon, value = plain.partition(":")
    if not colon:
        kind, value = "", plain
    if kind not in _KINDS:
        return maker.left_out(entry, line, f"expected one of {', '.join(_KINDS)[2:]} in front of ':'")
    return _KINDS[kind](maker, value.strip(), line)


read_v2fly = read_lines(plain_lines(rb"(?:domain:|full:)?", rb"(?:[ ][@&][a-z0-9_!-]++)*+"), _read)
