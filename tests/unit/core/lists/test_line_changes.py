"""What changed between two versions of a list, and which number each line has now."""

from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.line_changes import line_changes, numbered
from hushlist.core.match.line_numbers import LineRuns

#: one is longer than what is compared at once
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"long" * 5000 + b"\n"]), max_size=30)


def runs_of(old: list[bytes], new: list[bytes]) -> tuple[LineRuns, set[int]]:
    """What became of the lines that stay, and the numbers of those that are gone."""
    changes = line_changes(BytesIO(b"".join(old)), BytesIO(b"".join(new)), 99)
    assert changes is not None
    (gone, gone_numbers), (came, came_numbers) = numbered(changes)
    assert [old[number - 1] for number in gone_numbers] == gone
    assert [new[number - 1] for number in came_numbers] == came
    runs = LineRuns.of([(1, 1), *((own.old + len(own.gone), own.new + len(own.came)) for own in changes)])
    stay = [number for number in range(1, len(old) + 1) if number not in gone_numbers]
    assert [runs.now(number) for number in stay] == [n for n in range(1, len(new) + 1) if n not in came_numbers]
    assert [new[runs.now(number) - 1] for number in stay] == [old[number - 1] for number in stay]
    return runs, set(gone_numbers)


@given(LINES, LINES, LINES)
def test_each_line_that_stays_is_followed_through_changes(
    one: list[bytes], two: list[bytes], three: list[bytes]
) -> None:
    first, gone = runs_of(one, two)
    second, gone_then = runs_of(two, three)
    both = first.then(second)
    for number in set(range(1, len(one) + 1)) - gone:
        if first.now(number) not in gone_then:
            assert both.now(number) == second.now(first.now(number))
    assert LineRuns.of_numbers(list(both.numbers)) == LineRuns(list(both.firsts), list(both.now_at))


def test_a_last_line_without_its_end_is_another_one() -> None:
    old, new = b"a\nb\nc", b"a\nb\nc\nd"
    for before, after, changed in ((old, old, []), (old, new, [(3, [b"c"], 3, [b"c\n", b"d"])])):
        changes = line_changes(BytesIO(before), BytesIO(after), 9)
        assert changes is not None
        assert [tuple(change) for change in changes] == changed


def test_long_lists_are_compared_in_parts_and_not_if_too_much_differs() -> None:
    old = [b"%d.example\n" % number for number in range(300_000)]
    new = [*old[:1000], b"x\n", *old[1000:200_000], *old[205_000:]]
    changes = line_changes(BytesIO(b"".join(old)), BytesIO(b"".join(new)), 5001)
    assert changes is not None
    assert [(own.old, len(own.gone), own.new, own.came) for own in changes] == [
        (1001, 0, 1001, [b"x\n"]),
        (200_001, 5000, 200_002, []),
    ]
    assert line_changes(BytesIO(b"".join(old)), BytesIO(b"".join(new)), 5000) is None
