r"""Regular expressions that are searched for by an automaton: never does it look at an octet twice.

Python's engine tries one way after the other, and may take long for an expression that is not simple. Here, all ways
are gone at once: at each octet, there is a set of states. So any expression takes time linear in the text, if it has
no back-reference; each octet costs a look-up where the set is known, and else as much as it has states. A look-around,
which has no other in it, is searched for in the whole text first: what is ahead, from the end.

>>> own = Automaton(parse(rb"/(?=[a-z]*\d)(?:[a-z0-9]+-)+x\.js$", 0), fold=True)
>>> [own.search(text) is not None for text in (b"/a-b1-x.js", b"/a1-b-X.JS", b"/ab-x.js", b"/a1-x.jsx")]
[False, True, False, False]

Spec: Thompson, Regular Expression Search Algorithm, 1968
"""

from __future__ import annotations

from collections.abc import Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from hushlist.core.system.memory import BoundedCache

#: states of an automaton and of those for its look-arounds; sets of states, and steps from them, that are kept
MOST_STATES = 1 << 10
_MOST_KEPT = 1 << 12
_MOST_LOOKS = 8
_BEGIN, _END, _BOUNDARY, _FIRST_LOOK = 1, 2, 4, 3
_CONDITIONS = {
    sre.AT_BEGINNING: (_BEGIN, 0),
    sre.AT_BEGINNING_STRING: (_BEGIN, 0),
    sre.AT_END: (_END, 0),
    sre.AT_END_STRING: (_END, 0),
    sre.AT_BOUNDARY: (_BOUNDARY, 0),
    sre.AT_NON_BOUNDARY: (0, _BOUNDARY),
}
_EVERY = frozenset(range(256))
_DIGITS, _SPACES = frozenset(b"0123456789"), frozenset(b" \t\n\r\f\v")
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: _DIGITS,
    sre.CATEGORY_NOT_DIGIT: _EVERY - _DIGITS,
    sre.CATEGORY_SPACE: _SPACES,
    sre.CATEGORY_NOT_SPACE: _EVERY - _SPACES,
    sre.CATEGORY_WORD: _WORD,
    sre.CATEGORY_NOT_WORD: _EVERY - _WORD,
}
_OTHER = "a regular expression with a back-reference, or another part that no automaton has"
_TOO_LARGE = "a regular expression that needs too many states"
#: states that one search may look at in new sets: a tenth of a second
MOST_LOOKED_AT = 1 << 18


class ExhaustedError(Exception):
    """A search has looked at too many states."""


def parse(source: bytes, flags: int) -> list[Any]:
    """The nodes of an expression, as Python reads it."""
    return list(_parser.parse(source, flags))


class Automaton:
    """Searches for an expression."""

    def __init__(self, nodes: Sequence[Any], *, fold: bool, is_backwards: bool = False, is_inner: bool = False) -> None:
        """``fold``: whether case does not count; ``is_backwards``: for what is ahead; ``is_inner``: of a look-around.

        Raises ``ValueError`` with the reason if there is no automaton for it.
        """
        self._fold, self._is_backwards, self._is_inner = fold, is_backwards, is_inner
        #: of each state: the octets that it takes, and the state behind; or the states beside it, and when
        self._octets: list[frozenset[int]] = []
        self._next: list[int] = []
        self._beside: list[list[tuple[int, int, int]]] = []
        self._looks: list[Automaton] = []
        self._has_boundary = False
        self._end = 1 << self._new()
        self._start = 1 << self._sequence(nodes, 0)
        #: states that the last search has looked at, in sets that were not known
        self.looked_at = 0
        #: states, and all beside them where some conditions hold; the states behind an octet
        self._closures = BoundedCache(self._closure_of, _MOST_KEPT)
        self._steps = BoundedCache(self._step_of, _MOST_KEPT)

    @property
    def states(self) -> int:
        """How many states it has, with those of its look-arounds."""
        return len(self._octets) + sum(look.states for look in self._looks)

    @property
    def automata(self) -> int:
        """It, and those of its look-arounds."""
        return 1 + len(self._looks)

    # -- making it -------------------------------------------------------------------------------------------------

    def _new(self) -> int:
        if len(self._octets) >= MOST_STATES:
            raise ValueError(_TOO_LARGE)
        self._octets.append(frozenset())
        self._next.append(0)
        self._beside.append([])
        return len(self._octets) - 1

    def _sequence(self, nodes: Sequence[Any], behind: int) -> int:
        """The first state of nodes one after the other, with a state behind them."""
        for code, argument in nodes if self._is_backwards else reversed(nodes):
            behind = self._node(code, argument, behind)
        return behind

    def _node(self, code: Any, argument: Any, behind: int) -> int:
        if code is sre.SUBPATTERN:
            if argument[1] or argument[2]:
                raise ValueError("a regular expression with flags")
            return self._sequence(list(argument[3]), behind)
        if code in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, body = argument
            return self._repeat(least, most, body, behind)
        state = self._new()
        if code is sre.BRANCH:
            self._beside[state] = [(0, 0, self._sequence(list(branch), behind)) for branch in argument[1]]
        elif code is sre.AT:
            if argument not in _CONDITIONS:
                raise ValueError(_OTHER)
            self._has_boundary = self._has_boundary or _BOUNDARY in _CONDITIONS[argument]
            self._beside[state] = [(*_CONDITIONS[argument], behind)]
        elif code in (sre.ASSERT, sre.ASSERT_NOT):
            if self._is_inner or len(self._looks) >= _MOST_LOOKS:
                raise ValueError("a regular expression with look-arounds within each other, or too many")
            bit = 1 << _FIRST_LOOK + len(self._looks)
            look = Automaton(list(argument[1]), fold=self._fold, is_backwards=argument[0] > 0, is_inner=True)
            self._looks.append(look)
            if self.states > MOST_STATES:
                raise ValueError(_TOO_LARGE)
            self._beside[state] = [(bit, 0, behind) if code is sre.ASSERT else (0, bit, behind)]
        else:
            self._octets[state], self._next[state] = self._octets_of(code, argument), behind
        return state

    def _repeat(self, least: int, most: int, body: Any, behind: int) -> int:
        nodes, first = list(body), behind
        if most is sre.MAXREPEAT:
            first = self._new()
            self._beside[first] = [(0, 0, self._sequence(nodes, first)), (0, 0, behind)]
        else:
            if most > MOST_STATES:
                raise ValueError(_TOO_LARGE)
            for _ in range(most - least):
                optional = self._new()
                self._beside[optional] = [(0, 0, self._sequence(nodes, first)), (0, 0, behind)]
                first = optional
        if least > MOST_STATES:
            raise ValueError(_TOO_LARGE)
        for _ in range(least):
            first = self._sequence(nodes, first)
        return first

    def _octets_of(self, code: Any, argument: Any) -> frozenset[int]:
        if code is sre.ANY:
            return _EVERY - {10}
        if code is sre.LITERAL:
            return self._folded({argument})
        if code is sre.NOT_LITERAL:
            return _EVERY - self._folded({argument})
        if code is not sre.IN:
            raise ValueError(_OTHER)
        is_negated, octets = members_of(argument)
        return _EVERY - self._folded(octets) if is_negated else self._folded(octets)

    def _folded(self, octets: set[int]) -> frozenset[int]:
        return folded(octets) if self._fold else frozenset(octets)

    # -- searching with it -----------------------------------------------------------------------------------------

    def search(self, text: bytes) -> Automaton | None:
        """Itself, if the expression is somewhere in a text; ``ExhaustedError`` if that would take too long."""
        self.looked_at = 0
        conditions = self._conditions(text)
        states, start, end = 0, self._start, self._end
        for place, octet in enumerate(text):
            states = self._closures[states | start, conditions[place]]
            if states & end:
                return self
            states = self._steps[states, octet]
        return self if self._closures[states | start, conditions[-1]] & end else None

    def _places(self, text: bytes, conditions: Sequence[int]) -> list[int]:
        """Where the expression ends, from the left; or where it begins, if the automaton goes backwards."""
        places, states = [], 0
        order = range(len(text), -1, -1) if self._is_backwards else range(len(text) + 1)
        for place in order:
            states = self._closures[states | self._start, conditions[place]]
            if states & self._end:
                places.append(place)
            octet = text[place - 1 : place] if self._is_backwards else text[place : place + 1]
            states = self._steps[states, octet[0]] if octet else 0
        return places

    def _conditions(self, text: bytes) -> list[int]:
        """What holds at each place of a text."""
        conditions = [0] * (len(text) + 1)
        conditions[0] |= _BEGIN
        conditions[-1] |= _END
        if self._has_boundary or any(look._has_boundary for look in self._looks):
            before = False
            for place, octet in enumerate((*text, 0)):
                is_word = octet in _WORD
                conditions[place] |= _BOUNDARY * (is_word is not before)
                before = is_word
        plain = [*conditions] if self._looks else conditions
        for number, look in enumerate(self._looks):
            look.looked_at = 0
            for place in look._places(text, plain):
                conditions[place] |= 1 << _FIRST_LOOK + number
            self.looked_at += look.looked_at
        return conditions

    def _closure_of(self, key: tuple[int, int]) -> int:
        states, conditions = key
        reached, waiting = states, self._each(states)
        while waiting:
            for needed, excluded, state in self._beside[waiting.pop()]:
                if not reached >> state & 1 and conditions & needed == needed and not conditions & excluded:
                    reached |= 1 << state
                    waiting.append(state)
        return reached

    def _step_of(self, key: tuple[int, int]) -> int:
        states, octet = key
        reached = 0
        for state in self._each(states):
            if octet in self._octets[state]:
                reached |= 1 << self._next[state]
        return reached

    def _each(self, states: int) -> list[int]:
        """The numbers of states."""
        numbers = []
        while states:
            low = states & -states
            numbers.append(low.bit_length() - 1)
            states ^= low
        self.looked_at += len(numbers)
        if self.looked_at > MOST_LOOKED_AT:
            raise ExhaustedError
        return numbers


def members_of(items: Any) -> tuple[bool, set[int]]:
    """Whether a class of characters is negated, and the octets that it names."""
    is_negated, octets = False, set[int]()
    for kind, value in items:
        if kind is sre.NEGATE:
            is_negated = True
        elif kind is sre.LITERAL:
            octets.add(value)
        elif kind is sre.RANGE:
            octets.update(range(value[0], value[1] + 1))
        else:
            octets |= _CATEGORIES[value]
    return is_negated, octets


def folded(octets: set[int]) -> frozenset[int]:
    """The octets, in either case."""
    return frozenset(other for octet in octets for other in bytes((octet,)).lower() + bytes((octet,)).upper())
