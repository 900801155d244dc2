"""Writes a list of hashes: as YAML, which keeps the terms of each rule, or as a plain list with a hash a line.

>>> from hushlist.core.match.rule import Action, ExpressionHash
>>> terms = HiddenTerms(Action.BLOCK)
>>> rule = HiddenRule(ExpressionHash(bytes.fromhex("ba7816bf")), terms, b"abc", "f", 1)
>>> print(as_yaml(HiddenList(HashKind.PREFIX, [rule]), ListHead(title="Hidden")), end="")
title: "Hidden"
rules:
  - sha256: ba7816bf
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import yaml

from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.packed_lists import open_list
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.system.files import LONGEST_DOCUMENT, source_errors
from hushlist.core.url.hashed_uri import HashedUri
from hushlist.tools.publish.hidden_list import HashKind, HiddenList, HiddenRule, HiddenTerms

#: kind -> the format of a plain list of these hashes
PLAIN_FORMATS = {HashKind.SHA256: "sha256", HashKind.PREFIX: "sha256", HashKind.HASHED_URI: "hashed-uris"}


class ListHead(NamedTuple):
    """What holds for all rules of a list."""

    title: str | None = None
    #: an ``hrn:`` name; it takes the place of the rules' own
    category: str | None = None
    #: which list it is, an ``hrn:`` name, and what it is for
    name: str | None = None
    description: str | None = None


#: octets in which the head of a list in YAML ends
_LONGEST_HEAD = 1 << 16


def common_head(files: Iterable[ListFile]) -> ListHead:
    """What the heads of lists in YAML say that rules do not have, where all lists say the same."""
    heads = {_head_of(file) for file in files}
    return heads.pop() if len(heads) == 1 else ListHead()


def _head_of(file: ListFile) -> ListHead:
    if file.format is not FORMATS["yaml"]:
        return ListHead()
    with source_errors(file.path, "list"), open_list(file.read_from) as octets:
        text = octets.read(_LONGEST_HEAD).decode("utf-8-sig", "replace")
    end = re.search(r"^rules\s*:", text, re.MULTILINE)
    try:
        keys = yaml.safe_load(text[: end.start()] if end else "")
    except yaml.YAMLError:
        keys = None
    texts = {key: value for key, value in (keys if isinstance(keys, dict) else {}).items() if isinstance(value, str)}
    return ListHead(texts.get("title"), None, texts.get("name"), texts.get("description"))


def text_of(hidden: HiddenList, form: str, head: ListHead) -> tuple[str, list[Problem]]:
    """The text of a list, and what it cannot have, which is taken out of ``hidden``.

    ``SourceError`` if no rule is left, or it is longer than what is read of YAML.
    """
    problems: list[Problem] = []
    if form == "yaml":
        text = as_yaml(hidden, head)
    else:
        hidden.rules, problems = plain_rules(hidden)
        hidden.left_out += len(problems)
        text = as_plain(hidden, head)
    if not hidden.rules:
        raise SourceError([Problem("hide", 0, "lists", "there is no rule in them that these hashes can hide")])
    if form == "yaml" and len(text) > LONGEST_DOCUMENT:
        why = f"as YAML the list is longer than {LONGEST_DOCUMENT:,} octets: write a hash a line (-o NAME.sha256)"
        raise SourceError([Problem("hide", 0, "output", why)])
    return text, problems


def as_yaml(hidden: HiddenList, head: ListHead) -> str:
    rules = [_under(rule, head) for rule in hidden.rules]
    same = _same(rule.terms for rule in rules)
    head_keys = {
        "name": head.name,
        "title": head.title,
        "description": head.description,
        "seal": hidden.seal or None,
        "covers": "hosts" if hidden.rules and hidden.covers_hosts else None,
        "action": None if same.action is Action.BLOCK else same.action.value,
        "category": same.category,
        "reason": same.reason,
        "variant": None if hidden.variant == "n" else hidden.variant,
    }
    lines = [f"{key}: {_quoted(value)}" for key, value in head_keys.items() if value is not None]
    lines.append("rules:" if rules else "rules: []")
    lines += (_written(rule, same) for rule in rules)
    return "\n".join(lines) + "\n"


def as_plain(hidden: HiddenList, head: ListHead) -> str:
    """A list with a hash a line, of rules that ``plain_rules`` gave."""
    texts = {key: value for key in ("name", "title", "description", "category") if (value := getattr(head, key))}
    lines = [f"# {key}: {_quoted(text)}" for key, text in texts.items()]
    lines += [f"seal: {hidden.seal}"] if hidden.seal else []
    return "\n".join([*lines, *map(_plain, hidden.rules)]) + "\n"


def plain_rules(hidden: HiddenList) -> tuple[list[HiddenRule], list[Problem]]:
    """The rules that a list with a hash a line can have, and the others: its policy gives one action to all of them."""
    kept: list[HiddenRule] = []
    problems: list[Problem] = []
    for rule in hidden.rules:
        if why := _why_not(rule):
            what = str(rule.pattern) if rule.plaintext is None else rule.plaintext.decode()
            problems.append(Problem(rule.source, rule.line, what, f"left out: {why}; YAML can have it (-o NAME.yaml)"))
        else:
            kept.append(rule)
    return kept, problems


def _why_not(rule: HiddenRule) -> str:
    """Why a plain list cannot have a rule; empty if it can."""
    terms = rule.terms
    if terms.action is not Action.BLOCK:
        return f"a list with a hash a line has one action, and this is to {terms.action}"
    if terms.expires is not None:
        return "a list with a hash a line has no rule that expires"
    if isinstance(rule.pattern, HashedUri) and rule.pattern.key.variant != "n":
        return "a list with a hash a line does not say its variant"
    return ""


def _under(rule: HiddenRule, head: ListHead) -> HiddenRule:
    return rule if head.category is None else rule._replace(terms=rule.terms._replace(category=head.category))


def _same(terms: Iterable[HiddenTerms]) -> HiddenTerms:
    """What all rules have; where they differ, nothing, and to block."""
    different = {*terms}
    values = [
        {getattr(terms_of_rule, name) for terms_of_rule in different} for name in ("action", "category", "reason")
    ]
    action, category, reason = (next(iter(same)) if len(same) == 1 else None for same in values)
    return HiddenTerms(action or Action.BLOCK, category, reason)


def _plain(rule: HiddenRule) -> str:
    pattern = rule.pattern
    return pattern.value.hex() if isinstance(pattern, ExpressionHash) else str(pattern)


def _written(rule: HiddenRule, same: HiddenTerms) -> str:
    terms = "".join(_own_terms(rule.terms, same))
    key = "uri" if isinstance(rule.pattern, HashedUri) else str(rule.pattern).partition(":")[0]
    if not terms:
        return f"  - {_plain(rule)}" if key == "uri" else f"  - {key}: {_plain(rule)}"
    return f"  - {{{key}: {_plain(rule)}{terms}}}"


def _own_terms(terms: HiddenTerms, same: HiddenTerms) -> Iterator[str]:
    if terms.action is not same.action:
        yield f", action: {terms.action}"
    if terms.category is not None and terms.category != same.category:
        yield f", category: {_quoted(terms.category)}"
    if terms.reason is not None and terms.reason != same.reason:
        yield f", reason: {_quoted(terms.reason)}"
    if terms.expires is not None:
        yield f", expires: {terms.expires}"
    yield from (f", {key}: {value}" for key, value in terms.values)


@cache
def _quoted(text: str) -> str:
    """A text in quotes, in one line of ASCII."""
    dumped: str = yaml.safe_dump(text, default_style='"', width=float("inf"), allow_unicode=False)
    return dumped.rstrip("\n")
