"""Things by part, in memory and in files."""

from pathlib import Path

import pytest

from hushlist.extensions.subscriptions import rule_comparison
from hushlist.extensions.subscriptions.rule_comparison import SpillByPart


@pytest.mark.parametrize("most", [1, 3, 100])
def test_all_things_of_a_part_come_again_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(rule_comparison, "MOST_KEPT", most)
    things: SpillByPart[int] = SpillByPart(tmp_path)
    for number in range(10):
        things.add(number % 2, number)
    assert [*things.of(0)] == [0, 2, 4, 6, 8]
    assert [*things.of(1)] == [1, 3, 5, 7, 9]
    assert [*things.of(2)] == []
    assert things.parts == {0, 1}
    assert any(path.is_file() for path in tmp_path.rglob("*")) is (most < 100)
