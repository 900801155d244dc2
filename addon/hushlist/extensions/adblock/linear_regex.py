"""Regular expressions of lists, if a search provably takes time linear in the text.

Python's engine tries again where a try fails, so time can grow with a power of the text's length, or faster. A regular
expression is taken if all of this holds; then each place of the text is looked at a bounded number of times:

- it has no look-around and no back-reference, and repeats without bound only single characters;
- its groups are not deep, so that it can be read wherever it is asked for, however deep the caller is;
- all else together can be read in few ways, and has few characters;
- between two unbounded repeats, something has to stand that the first one cannot be, and something that the second one
  cannot be; so does something before the first one, unless the expression begins with ``^``.

What repeats without bound at the very end counts as its least number, since no try fails behind it.

Any other expression is searched for by an automaton (``automaton``), which is slower, and linear whatever it is; that
takes look-arounds, too. What has a back-reference, or needs too many states, is refused.

A letter beyond ASCII stands for its octets in escapes, as a browser sends it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Protocol
from warnings import catch_warnings, simplefilter

from hushlist.extensions.adblock.automaton import Automaton, folded, members_of

#: ways in which all but the unbounded repeats can be read; characters of it
MOST_WAYS = 1 << 8
MOST_CHARACTERS = 1 << 11
_LONGEST = 1 << 11
#: EasyList's have up to 9
_MOST_GROUPS = 64
#: what an octet costs an automaton that knows the set of states, by rough count
_STEP_OF_AUTOMATON = 64
#: a step of a search takes as long as a look for literal text in so many octets
_STEP = 4
_EVERY = frozenset(range(256))


@dataclass(slots=True)
class _Shape:
    """What a regular expression consists of."""

    #: mandatory characters, and unbounded repeats, in order: the octets that each can be
    steps: list[tuple[frozenset[int], bool]] = field(default_factory=list)
    #: literal text, "*" for anything else
    literal: bytearray = field(default_factory=bytearray)
    ways: int = 1
    characters: int = 0
    #: how often the part that is read is repeated
    factor: int = 1


class Searching(Protocol):
    """What searches for an expression: a pattern of Python's, or an automaton."""

    def search(self, text: bytes, /) -> object | None:
        """Something, if the expression is in a text."""


def linear_regex(source: str, *, match_case: bool) -> tuple[Searching, bytes, int]:
    """What searches octets for the expression; its literal text, with ``*`` for anything else, and ``|`` at its ends if
    it has ``^`` and ``$`` there; how often a search may look at each octet, by rough count.

    >>> linear_regex(r"^https?:\\/\\/[a-z]{8,}\\.com\\/x", match_case=False)[1]
    b'|http*://*.com/x*'

    Raises ``ValueError`` with the reason if it is not one, or is not known to be linear.
    """
    if len(source) > _LONGEST:
        raise ValueError("a regular expression that is too long")
    source = source if source.isascii() else _sent(source, match_case=match_case)
    if source.count("(") > _MOST_GROUPS:
        raise ValueError("a regular expression with too many groups")
    octets, flags = source.encode(), 0 if match_case else re.IGNORECASE
    try:
        with catch_warnings():  # "[[" may mean something else in a later Python
            simplefilter("error", FutureWarning)
            nodes = list(_parser.parse(octets, flags))
        begins, ends = (_is_at(nodes[place:][:1], what) for place, what in ((0, sre.AT_BEGINNING), (-1, sre.AT_END)))
        shape = _Shape()
        try:
            _read(nodes, shape, is_mandatory=True, is_last=True)
            _check(shape, is_anchored=begins)
        except _NotLinearError:
            automaton = Automaton(nodes, fold=not match_case)
            literal = b"|" * begins + bytes(_literal(nodes)) + (b"|" if ends else b"*")
            return automaton, literal, _STEP_OF_AUTOMATON * automaton.automata
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise ValueError("a regular expression that is not valid") from error
    literal = b"|" * begins + bytes(shape.literal) + (b"|" if ends else b"*")
    return re.compile(octets, flags), literal, _STEP * shape.ways * (1 if begins else max(1, shape.characters))


def _literal(nodes: Sequence[Any]) -> bytearray:
    """The literal text of nodes, ``*`` for anything else."""
    text = bytearray()
    for code, argument in nodes:
        if code is sre.SUBPATTERN:
            text += _literal(list(argument[3]))
        elif code is sre.LITERAL and argument < 128:
            text += bytes((argument,)).lower()
        elif code not in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            text += b"*"
    return text


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|.", re.DOTALL)


def _sent(source: str, *, match_case: bool) -> str:
    r"""An expression with the octets that a browser sends for letters beyond ASCII.

    >>> _sent("é[aé]", match_case=True), _sent("[^é]", match_case=True)
    ('(?:%C3%A9)(?:[a]|%C3%A9)', '.')
    """
    parts_of_source = []
    for token in _TOKEN.findall(source):
        if token.isascii():
            parts_of_source.append(token)
        elif token[0] != "[":
            parts_of_source.append(f"(?:{_octets(token[-1], match_case=match_case)})")
        elif re.search(r"[^\x00-\x7f]-[^\]]|[^\[^]-[^\x00-\x7f]", token):
            raise ValueError("a regular expression with a range of letters that no URL has as they are")
        else:
            plain = re.sub(r"\\?[^\x00-\x7f]", "", token)
            others = [] if token[1] == "^" else [letter for letter in token if not letter.isascii()]
            parts = [] if plain in ("[]", "[^]") else [plain]
            parts += [_octets(letter, match_case=match_case) for letter in others]
            parts_of_source.append(f"(?:{'|'.join(parts)})" if others else parts[0] if parts else ".")
    return "".join(parts_of_source)


def _octets(letter: str, *, match_case: bool) -> str:
    letters = (letter,) if match_case else dict.fromkeys((letter.lower(), letter.upper()))
    return "|".join("".join(f"%{octet:02X}" for octet in variant.encode()) for variant in letters)


class _NotLinearError(Exception):
    """It is not known of an expression that Python's engine searches for it in linear time."""


def _is_at(node: Sequence[Any], place: Any) -> bool:
    return list(node) == [(sre.AT, place)]


def _read(nodes: Sequence[Any], shape: _Shape, *, is_mandatory: bool, is_last: bool = False) -> None:
    """Add nodes to the shape; ``is_last``: nothing stands behind them."""
    for place, (code, argument) in enumerate(nodes):
        at_end = is_last and place == len(nodes) - 1
        if code is sre.AT:
            continue
        if code is sre.SUBPATTERN:
            if argument[1] or argument[2]:
                raise ValueError("a regular expression with flags")
            _read(list(argument[3]), shape, is_mandatory=is_mandatory, is_last=at_end)
        elif code in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            _repeat(*argument, shape=shape, is_mandatory=is_mandatory, is_last=at_end)
        elif code is sre.BRANCH:
            shape.literal += b"*"
            shape.ways *= len(argument[1])
            for branch in argument[1]:
                _read(list(branch), shape, is_mandatory=False)
        else:
            may_be = _octets_of(code, argument)
            shape.characters += shape.factor
            if is_mandatory:
                shape.steps.append((may_be, False))
                is_plain = code is sre.LITERAL and argument < 128
                shape.literal += bytes((argument,)).lower() if is_plain else b"*"


def _repeat(least: int, most: int, body: Any, *, shape: _Shape, is_mandatory: bool, is_last: bool) -> None:
    nodes = list(body)
    while len(nodes) == 1 and nodes[0][0] is sre.SUBPATTERN and not any(nodes[0][1][1:3]):
        nodes = list(nodes[0][1][3])
    shape.literal += b"*"
    if len(nodes) == 1 and nodes[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
        may_be = _octets_of(*nodes[0])
        shape.characters += shape.factor * max(least, 1)
        if least and is_mandatory:
            shape.steps.append((may_be, False))
        if most is not sre.MAXREPEAT:
            shape.ways *= (most - least + 1) ** shape.factor
            shape.characters += shape.factor * (most - least)
        elif not is_mandatory or shape.factor > 1:
            raise _NotLinearError
        elif not is_last:
            shape.steps.append((may_be, True))
        return
    if most is sre.MAXREPEAT:
        raise _NotLinearError
    ways, factor = shape.ways, shape.factor
    if factor * most > MOST_CHARACTERS:  # or their number would be too long to compute
        raise _NotLinearError
    shape.ways, shape.factor = 1, factor * max(most, 1)
    _read(nodes, shape, is_mandatory=False)
    ways_of_body = shape.ways
    shape.ways, shape.factor = ways, factor
    if ways_of_body > 1 and most > 1:
        raise _NotLinearError
    shape.ways *= ways_of_body * (most - least + 1)


def _octets_of(code: Any, argument: Any) -> frozenset[int]:
    """The octets that one character of an expression can be, in either case."""
    if code is sre.ANY:
        return _EVERY
    if code is sre.LITERAL:
        return folded({argument})
    if code is sre.NOT_LITERAL:
        return _EVERY - folded({argument}) if not chr(argument).isalpha() else _EVERY
    if code is not sre.IN:
        raise _NotLinearError
    is_negated, octets = members_of(argument)
    return _EVERY - octets if is_negated else folded(octets)


def _check(shape: _Shape, *, is_anchored: bool) -> None:
    """Raise ``_NotLinearError`` unless what stands between unbounded repeats holds them apart."""
    if shape.ways > MOST_WAYS or shape.characters > MOST_CHARACTERS:
        raise _NotLinearError
    before: frozenset[int] | None = None
    between: list[frozenset[int]] = []
    for may_be, is_unbounded in shape.steps:
        if not is_unbounded:
            between.append(may_be)
            continue
        if before is not None and not any(before.isdisjoint(octets) for octets in between):
            raise _NotLinearError
        if (before is not None or not is_anchored) and not any(may_be.isdisjoint(octets) for octets in between):
            raise _NotLinearError
        before, between = may_be, []
