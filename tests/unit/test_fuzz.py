"""Whatever octets arrive: every parser gives a result or one of its own errors, and in time linear in their length.

Real texts are cut, spliced and stuffed; ``--hypothesis-profile=long --timeout=0`` tries 500 times as many. Random
octets alone, and what each parser makes of what it accepts, are in the tests of its own module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from struct import Struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hushlist.core.match.index_file import IndexFileError
from unit.hostile import octets
from unit.parsers import PARSERS
from unit.parsers.index import index_answers, index_samples
from unit.parsers.table import Parser

#: an edit: where it begins and how much it takes, in parts of 65,536 of the text, what is put there, and how often
Edit = tuple[int, int, bytes, int]
_WHOLE = 1 << 16
_NUMBERS = Struct("<HHBHB")
_FRAGMENTS = (
    *(
        b"",
        b"\n",
        b"\r\n",
        b"\0",
        b" ",
        b"\t",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\x85",
    ),
    *(
        b'"',
        b"'",
        b"\\",
        b"(",
        b")",
        b"[",
        b"]",
        b"{",
        b"}",
        b"<",
        b">",
        b"#",
        b"%",
        b"*",
        b"&",
        b"!",
        b"|",
        b",",
        b";",
    ),
    *(b":", b"@", b"/", b"..", b"--", b"+", b"=", b"~", b"^", b"$", b"0", b"-1", b"1e999", b"9" * 30, b"null", b"true"),
    *("٣", "²", "İ", "ß", "e\u0301", "\u202e", "\u2028", "\ufeff", "。", "\U0001f600", "\ud800"),
)
_PIECES = [piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass") for piece in _FRAGMENTS]


def edited(text: bytes, edits: Sequence[Edit]) -> bytes:
    """The text with these edits, one after the other."""
    for at, taken, put, times in edits:
        start = at * len(text) // _WHOLE
        end = start + (taken * len(text) // _WHOLE if taken > _WHOLE // 2 else taken % 4)
        text = text[:start] + put * times + text[end:]
    return text


def mutated(samples: Sequence[bytes], units: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Real texts, with pieces of each other and of what may mean something, once or many times.

    All edits are drawn at once, as octets: to draw each by itself takes longer than all that is tested.
    """
    pieces = sorted({*_PIECES, *units, *(piece for one in samples for piece in one.split()[:50])})

    def edit(text: bytes, own: bytes, drawn: bytes) -> bytes:
        edits = []
        for at, taken, kind, number, times in _NUMBERS.iter_unpack(drawn[len(drawn) % _NUMBERS.size :]):
            puts = (pieces, samples, [own])[kind % 3]
            edits.append((at, taken, puts[~number % len(puts)], (1, 1, 1, 2, 40)[times % 5]))
        return edited(text, edits)

    numbers = st.binary(min_size=2 * _NUMBERS.size, max_size=6 * _NUMBERS.size - 1)
    return st.builds(edit, st.sampled_from(samples), octets(), numbers)


def reads(parser: Parser, text: bytes) -> bool:
    """Whether it gives a result; ``False`` where it gives one of its errors."""
    try:
        parser.read(text)
    except parser.errors:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_whatever_a_text_becomes_it_gives_a_result_or_our_own_error(parser: Parser) -> None:
    samples = list(parser.samples())

    @settings(deadline=None, max_examples=settings.default.max_examples // 2)
    @given(mutated(samples, parser.units))
    def read(text: bytes) -> None:
        reads(parser, text)

    read()


def test_at_least_one_real_text_is_read() -> None:
    for name, parser in PARSERS.items():
        assert any(reads(parser, sample) for sample in parser.samples()), name


# -- time --------------------------------------------------------------------------------------------------------------

#: octets of a long text, and how many times shorter another is
LONG, TIMES = (8 if settings.default.derandomize else 96) * 1024, 8
#: seconds of processor time in which a text is read that nobody could call slow
QUICK = 0.04 if settings.default.derandomize else 0.08
#: what is quadratic takes 64 times as long for a text 8 times as long; what is linear 8 times
QUADRATIC, MOST_TIMES = TIMES**2, 3 * TIMES
_REPEATED = (
    b"a",
    b".",
    b"/",
    b"%25",
    b"/../",
    b"(",
    b"[",
    b'"',
    b" ",
    b"\n",
    b"a.b c\n",
    b",",
    b"\\",
    b"\xcc\x81",
    b"\xff",
)


def processor_seconds(work: Callable[[], object]) -> float:
    """What this thread takes of the processor, however busy the machine is with others."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def stuffed(sample: bytes, unit: bytes, length: int) -> list[bytes]:
    """Texts of about a length, with a unit repeated: alone, and within the sample."""
    many = unit * (length // len(unit))
    middle = len(sample) // 2
    return [many, sample[:middle] + many + sample[middle:]]


@pytest.mark.thorough
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_long_text_takes_time_that_grows_as_its_length(parser: Parser) -> None:
    sample = next(iter(parser.samples()))[:2000]
    whatever_the_length = min(seconds_of(parser, b"") for _ in range(2))
    for unit in (*_REPEATED, *parser.units):
        texts = [stuffed(sample, unit, LONG // TIMES**power) for power in (2, 1, 0)]
        for shortest, short, long in zip(*texts, strict=True):
            taken = seconds_of(parser, short)
            if taken > QUICK:  # long enough to be compared: it is not worth while to wait for the whole
                check_growth(parser, unit, shortest, short)
            # What an eighth shows to be quick as a whole, even if it takes quadratic time, is read whole at night.
            elif (taken - whatever_the_length) * QUADRATIC > QUICK or not settings.default.derandomize:
                check_growth(parser, unit, short, long)


def seconds_of(parser: Parser, text: bytes) -> float:
    return processor_seconds(lambda: reads(parser, text))


def check_growth(parser: Parser, unit: bytes, short: bytes, long: bytes) -> None:
    """The long text takes at most so many times as long as its eighth, if it takes long at all."""
    taken = seconds_of(parser, long)
    if taken > QUICK and taken > MOST_TIMES * seconds_of(parser, short):
        # once more, in case that something else came between
        taken, alone = seconds_of(parser, long), seconds_of(parser, short)
        assert taken < MOST_TIMES * alone, f"{taken:.2f} s for {unit!r}..., {alone:.4f} s for an eighth of it"


# -- the index file ----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(mutated(index_samples(), ()))
@example(index_samples()[0] + index_samples()[1])
def test_a_changed_index_file_is_refused_or_answers_as_before(file: bytes) -> None:
    known = [index_answers(sample) for sample in index_samples()]
    try:
        answers = index_answers(file)
    except IndexFileError:
        return
    assert answers in known
