"""Grammars in ABNF: how a rule reads a text, or the place where the text cannot be a sentence of it.

>>> find_rule("URI").parse("http://h:80/").find("port")
Parsed(rule='port', start=9, end=11, parts=())
>>> find_rule("port").accepts("80"), find_rule("port").accepts("8o")
(True, False)

The text before a fault is the beginning of some sentence, and with the character at its position it is of none. Where
a text can be read in several ways, the alternative that the grammar has first is taken, and repetitions take what they
can: "If host matches the rule for IPv4address, then it should be considered an IPv4 address literal and not a reg-name"
(RFC 3986, 3.2.2).

A rule becomes a nondeterministic automaton, which takes no recursion: none of the grammars has any. Its sets of states
are kept as they are met, so that reading takes time linear in the length.

Spec: RFC 5234; the grammars in ``grammars/`` say where they are from
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias

from hushlist.core.errors import UrlError


class Parsed(NamedTuple):
    """A rule, the part of the text that it reads, as offsets in characters, and what its own rules read of that.

    Rules of one character or one escape, such as ``pchar``, are left out.
    """

    rule: str
    start: int
    end: int
    parts: tuple[Parsed, ...]

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Parsed]]:
        """This and all below it in the order of the text, each with its depth."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    def find(self, rule: str) -> Parsed | None:
        """The first that a rule has read."""
        return next((part for _, part in self.walk() if part.rule == rule), None)


class Expected(NamedTuple):
    """What could stand at a place."""

    #: a literal in quotes, or a rule of characters
    what: str
    #: the rule that it would be read by
    rule: str


class GrammarError(UrlError):
    """The text is no sentence of the rule; ``position`` is the offset of the character that has no place there."""

    def __init__(self, text: str, position: int, expected: tuple[Expected, ...], *, may_end: bool) -> None:
        self.expected = expected
        #: whether the text before the position is a sentence
        self.may_end = may_end
        fault = f"{text[position]!r} has no place here" if position < len(text) else "the text ends too early"
        by_rule = [
            f"{' or '.join(dict.fromkeys(element.what for element in group))} ({rule})"
            for rule, group in groupby(expected, key=lambda element: element.rule)
        ]
        wanted = ", ".join([*by_rule, *["or the end"] * may_end])
        super().__init__(text, f"{fault}; expected {wanted}", position)


# -- what ABNF says: RFC 5234, 3 and 4 -------------------------------------------------------------------------------


class _Characters(NamedTuple):
    """One character of the ranges, first and last included."""

    ranges: tuple[tuple[int, int], ...]


class _Literal(NamedTuple):
    """Text in quotes, without regard to case (RFC 5234, 2.3)."""

    text: str


class _Name(NamedTuple):
    name: str


class _Sequence(NamedTuple):
    nodes: tuple[_Node, ...]


class _Choice(NamedTuple):
    nodes: tuple[_Node, ...]


class _Repetition(NamedTuple):
    least: int
    #: None: as often as one likes
    most: int | None
    node: _Node


_Node: TypeAlias = _Characters | _Literal | _Name | _Sequence | _Choice | _Repetition

_RULE = re.compile(r"^([A-Za-z][A-Za-z0-9-]*) = (.*(?:\n +.*)*)$", re.MULTILINE)
_TOKEN = re.compile(
    r"(?<!\s)\s*+(?:(?P<name>[A-Za-z][A-Za-z0-9-]*)|\"(?P<literal>[^\"]*)\"|%x(?P<first>[0-9A-F]+)-(?P<last>[0-9A-F]+)"
    r"|(?P<least>\d*)(?P<star>\*)(?P<most>\d*)|(?P<times>\d+)|(?P<mark>[/()\[\]])|$)"
)


class _Reader:
    """Reads the body of a rule."""

    def __init__(self, body: str) -> None:
        self._tokens = _TOKEN.finditer(body)
        self._token = next(self._tokens)

    def alternation(self) -> _Node:
        """Up to the bracket that ends it, or the end."""
        choices = [self._concatenation()]
        while self._token["mark"] == "/":
            self._advance()
            choices.append(self._concatenation())
        return choices[0] if len(choices) == 1 else _Choice(tuple(choices))

    def _advance(self) -> re.Match[str]:
        token, self._token = self._token, next(self._tokens)
        return token

    def _concatenation(self) -> _Node:
        nodes = []
        while self._token.group().strip() and self._token["mark"] not in ("/", ")", "]"):
            nodes.append(self._repetition())
        return nodes[0] if len(nodes) == 1 else _Sequence(tuple(nodes))

    def _repetition(self) -> _Node:
        token = self._token
        if token["star"]:
            self._advance()
            return _Repetition(int(token["least"] or 0), int(token["most"]) if token["most"] else None, self._element())
        if token["times"]:
            self._advance()
            return _Repetition(int(token["times"]), int(token["times"]), self._element())
        return self._element()

    def _element(self) -> _Node:
        token = self._advance()
        if token["name"]:
            return _Name(token["name"])
        if token["first"]:
            return _Characters(((int(token["first"], 16), int(token["last"], 16)),))
        if token["mark"]:
            inner = self.alternation()
            self._advance()
            return _Repetition(0, 1, inner) if token["mark"] == "[" else inner
        return _Literal(token["literal"])


# -- grammars and rules ----------------------------------------------------------------------------------------------


class Grammar:
    """The rules of a document, and of those that it builds on."""

    def __init__(self, name: str, text: str, base: Grammar | None = None) -> None:
        self.name = name
        self.nodes: dict[str, _Node] = {} if base is None else dict(base.nodes)
        self.nodes |= {match[1]: _Reader(match[2]).alternation() for match in _RULE.finditer(text)}

    def ranges_of(self, node: _Node) -> tuple[tuple[int, int], ...] | None:
        """The characters that a node means, if all its sentences have one character."""
        match node:
            case _Characters(ranges):
                return ranges
            case _Literal(text) if len(text) == 1:
                return tuple((ord(letter), ord(letter)) for letter in sorted({text.lower(), text.upper()}))
            case _Name(name):
                return self.ranges_of(self.nodes[name])
            case _Choice(nodes):
                all_ranges = [self.ranges_of(inner) for inner in nodes]
                inner_ranges = [ranges for ranges in all_ranges if ranges is not None]
                return (
                    tuple(span for ranges in inner_ranges for span in ranges)
                    if len(inner_ranges) == len(all_ranges)
                    else None
                )
        return None

    def is_character(self, node: _Node) -> bool:
        """Whether every sentence of a node is one character or one escape."""
        match node:
            case _Name(name):
                return self.is_character(self.nodes[name])
            case _Choice(nodes):
                return all(map(self.is_character, nodes))
            case _Sequence(nodes):
                return nodes[:1] == (_Literal("%"),)
        return self.ranges_of(node) is not None


class _Step(NamedTuple):
    """A state's way to the next by a character."""

    ranges: tuple[tuple[int, int], ...]
    to: int
    expected: Expected

    def takes(self, character: str) -> bool:
        code = ord(character)
        return any(first <= code <= last for first, last in self.ranges)


_States: TypeAlias = frozenset[int]


def _closure(states: list[int], ways: list[list[int]]) -> _States:
    """The states, and all to which the ways lead from them."""
    reached = set(states)
    while states:
        new = [state for state in ways[states.pop()] if state not in reached]
        reached.update(new)
        states += new
    return frozenset(reached)


class Rule:
    """A rule as an automaton: it begins in state 0 and ends in state 1."""

    def __init__(self, grammar: Grammar, name: str) -> None:
        self.name = name
        self._grammar = grammar
        #: state -> next states that need no character, in the order of preference
        self._free: list[list[int]] = [[], []]
        #: state -> the way by a character; a state has one of the two
        self._step: dict[int, _Step] = {}
        #: state -> the rule that begins here, or None where one ends
        self._marks: dict[int, str | None] = {}
        self._build(_Name(name), 0, 1, name)
        self._begin = _closure([0], self._free)
        self._after: dict[tuple[_States, str], _States] = {}
        self._before: dict[tuple[_States, str], _States] = {}

    # -- building: each function adds what leads from one state to another --

    def _new(self) -> int:
        self._free.append([])
        return len(self._free) - 1

    def _build(self, node: _Node, start: int, end: int, rule: str) -> None:
        match node:
            case _Name(name):
                self._build_rule(name, start, end, rule)
            case _Characters(ranges):
                what = " or ".join(f'"{chr(first)}" to "{chr(last)}"' for first, last in ranges)
                self._step[start] = _Step(ranges, end, Expected(what, rule))
            case _Literal(text):
                self._build_literal(text, start, end, rule)
            case _Sequence(nodes):
                for inner in nodes[:-1]:
                    self._build(inner, start, start := self._new(), rule)
                self._build(nodes[-1], start, end, rule)
            case _Choice(nodes):
                for inner in nodes:
                    self._free[start].append(begin := self._new())
                    self._build(inner, begin, end, rule)
            case _Repetition(least, most, inner):
                self._build_repetition(least, most, inner, start, end, rule)

    def _build_literal(self, text: str, start: int, end: int, rule: str) -> None:
        if not text:
            self._free[start].append(end)
        for at, letter in enumerate(text, 1):
            to = end if at == len(text) else self._new()
            ranges = self._grammar.ranges_of(_Literal(letter))
            assert ranges is not None
            self._step[start] = _Step(ranges, to, Expected(f'"{text[at - 1 :]}"', rule))
            start = to

    def _build_repetition(self, least: int, most: int | None, node: _Node, start: int, end: int, rule: str) -> None:
        for _ in range(least):
            self._build(node, start, start := self._new(), rule)
        if most is None:
            # a loop has a state of its own, to which nothing else leads back
            self._free[start].append(loop := self._new())
            self._free[loop] += [begin := self._new(), end]
            self._build(node, begin, loop, rule)
            return
        for _ in range(most - least):
            self._free[start] += [begin := self._new(), end]
            self._build(node, begin, start := self._new(), rule)
        self._free[start].append(end)

    def _build_rule(self, name: str, start: int, end: int, rule: str) -> None:
        node = self._grammar.nodes[name]
        if name != self.name and self._grammar.is_character(node):
            ranges = self._grammar.ranges_of(node)
            if ranges is not None:
                self._step[start] = _Step(ranges, end, Expected(name, rule))
                return
            self._build(node, start, end, rule)
            for state in _closure([start], self._free):
                if state in self._step:
                    self._step[state] = self._step[state]._replace(expected=Expected(name, rule))
            return
        self._free[start].append(begin := self._new())
        self._marks[begin] = name
        self._free[begin].append(inner := self._new())
        self._build(node, inner, close := self._new(), name)
        self._marks[close] = None
        self._free[close].append(end)

    # -- reading --

    def _forward(self, states: _States, character: str) -> _States:
        after = self._after.get((states, character))
        if after is None:
            ways = [step for step in map(self._step.get, states) if step and step.takes(character)]
            after = self._after[states, character] = _closure([step.to for step in ways], self._free)
        return after

    @cached_property
    def _free_before(self) -> list[list[int]]:
        before: list[list[int]] = [[] for _ in self._free]
        for state, following in enumerate(self._free):
            for other in following:
                before[other].append(state)
        return before

    def _backward(self, states: _States, character: str) -> _States:
        before = self._before.get((states, character))
        if before is None:
            ways = [state for state, step in self._step.items() if step.to in states and step.takes(character)]
            before = self._before[states, character] = _closure(ways, self._free_before)
        return before

    def accepts(self, text: str) -> bool:
        """Whether the text is a sentence of the rule."""
        states = self._begin
        for character in text:
            states = self._forward(states, character)
        return 1 in states

    def parse(self, text: str) -> Parsed:
        """How the rule reads the text; ``GrammarError`` if it is no sentence of it."""
        states = self._begin
        for position, character in enumerate(text):
            after = self._forward(states, character)
            if not after:
                raise self._fault(text, position, states)
            states = after
        if 1 not in states:
            raise self._fault(text, len(text), states)
        return self._parsed(text)

    def _fault(self, text: str, position: int, states: _States) -> GrammarError:
        expected = tuple(self._step[state].expected for state in sorted(states) if state in self._step)
        return GrammarError(text, position, tuple(dict.fromkeys(expected)), may_end=1 in states)

    def _parsed(self, text: str) -> Parsed:
        # position -> the states from which the rest of the text leads to the end, those behind come first
        leading = [_closure([1], self._free_before)]
        for character in reversed(text):
            leading.append(self._backward(leading[-1], character))
        state = position = 0
        #: the rules that are being read: name, start, and parts
        open_rules: list[tuple[str, int, list[Parsed]]] = [("", 0, [])]
        while state != 1:
            if state in self._marks:
                rule = self._marks[state]
                if rule is None:
                    name, start, parts = open_rules.pop()
                    open_rules[-1][2].append(Parsed(name, start, position, tuple(parts)))
                else:
                    open_rules.append((rule, position, []))
            if state in self._step:
                state, position = self._step[state].to, position + 1
            else:
                good = leading[len(text) - position]
                state = next(following for following in self._free[state] if following in good)
        return open_rules[0][2][0]


_FOLDER = Path(__file__).with_name("grammars")


@cache
def grammars() -> tuple[Grammar, ...]:
    """Those of URIs, IRIs, hashed URIs and hrn names."""
    texts = {name: (_FOLDER / f"{name}.abnf").read_text("utf-8") for name in ("uri", "iri", "hashed", "hrn")}
    uri = Grammar("uri", texts["uri"])
    return (uri, Grammar("iri", texts["iri"], uri), Grammar("hashed", texts["hashed"]), Grammar("hrn", texts["hrn"]))


@cache
def find_rule(name: str) -> Rule:
    """A rule by its name, in the first grammar that has it; ``hrn:host`` names the grammar, too.

    Raises ``UrlError`` if there is none. Spec: RFC 5234, 2.1: "Rule names are case insensitive"
    """
    wanted, _, rule = name.lower().rpartition(":")
    for grammar in grammars():
        for rule_name in grammar.nodes:
            if wanted in ("", grammar.name) and rule_name.lower() == rule:
                return Rule(grammar, rule_name)
    raise UrlError(name, "no grammar has this rule; --list-rules prints those that there are")
