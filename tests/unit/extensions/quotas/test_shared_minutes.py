"""Workers hear of each other's minutes at once, and of each once."""

from __future__ import annotations

from pathlib import Path

from hushlist.extensions.quotas.shared_minutes import SharedMinutes
from hushlist.extensions.quotas.use_minutes import UseMinutes

GAMES = "hrn://c.example/games"
HOUR = 60


def test_each_minute_is_heard_once_over_the_turns_of_hours(tmp_path: Path) -> None:
    one, other = SharedMinutes(tmp_path), SharedMinutes(tmp_path)
    heard = []
    for minute in range(100 * HOUR, 104 * HOUR):
        one.tell("a", GAMES, minute)
        heard += [*other.heard(minute)]
    assert heard == [("a", GAMES, minute) for minute in range(100 * HOUR, 104 * HOUR)]
    assert len([*tmp_path.iterdir()]) == 2
    one.close()
    other.close()


def test_a_late_word_of_the_hour_before_is_heard_and_the_start_hears_of_that_hour(tmp_path: Path) -> None:
    one, other = SharedMinutes(tmp_path), SharedMinutes(tmp_path)
    assert [*other.heard(100 * HOUR)] == []
    one.tell("a", GAMES, 100 * HOUR - 1)
    assert [*other.heard(100 * HOUR + 1)] == [("a", GAMES, 100 * HOUR - 1)]
    other.close()
    restarted = SharedMinutes(tmp_path)
    assert [*restarted.heard(100 * HOUR + 30)] == [("a", GAMES, 100 * HOUR - 1)]
    one.close()
    restarted.close()


def test_half_a_line_is_heard_when_it_is_whole(tmp_path: Path) -> None:
    other = SharedMinutes(tmp_path)
    assert [*other.heard(6000)] == []
    with (tmp_path / "100.minutes").open("ab", buffering=0) as file:
        file.write(b'["a", "b",')
        assert [*other.heard(6000)] == []
        file.write(b" 6000]\n")
    assert [*other.heard(6000)] == [("a", "b", 6000)]
    other.close()


def test_a_worker_counts_what_another_does_and_keeps_it_if_that_is_killed(tmp_path: Path) -> None:
    one = UseMinutes(None, lambda: 6000.0 * 60, SharedMinutes(tmp_path))
    other = UseMinutes(tmp_path / "state.sqlite", lambda: 6000.0 * 60, SharedMinutes(tmp_path))
    one.note("user:jo", GAMES, 6000)
    assert other.used("user:jo", GAMES, 0, 7000) == 1
    other.exchange()
    restarted = UseMinutes(tmp_path / "state.sqlite", lambda: 6000.0 * 60)
    restarted.exchange()
    assert restarted.used("user:jo", GAMES, 0, 7000) == 1
    for each in (one, other, restarted):
        each.close()
