"""Until when a decision holds: as long as its category is treated so, and its layer is asked."""

from datetime import datetime
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine

_POLICY = """
timezone: Europe/Berlin
schedules:
  lessons: {times: 08:00-13:00}
  morning: {times: 06:00-12:00}
categories:
  hrn://c.example/games: {action: block, during: morning, otherwise: warn}
layers:
  - {name: lessons, during: lessons, lists: [lessons.yaml]}
  - {name: always, lists: [always.yaml]}
"""


@pytest.mark.parametrize(
    ("url", "until"),
    [
        ("football.example", "13:00"),
        ("games.example", "12:00"),  # the category's treatment ends earlier
        ("ads.example", None),
    ],
)
def test_a_decision_tells_until_when_its_layer_is_asked(tmp_path: Path, url: str, until: str | None) -> None:
    (tmp_path / "policy.yaml").write_text(_POLICY, encoding="utf-8")
    (tmp_path / "lessons.yaml").write_text(
        "rules: [football.example, {expression: games.example, category: 'hrn://c.example/games'}]", encoding="utf-8"
    )
    (tmp_path / "always.yaml").write_text("rules: [ads.example]", encoding="utf-8")
    engine = load_engine(tmp_path / "policy.yaml")
    now = datetime(2026, 11, 16, 9, tzinfo=engine.policy.zone)
    winner = engine.decide_url(f"http://{url}/".encode(), now).winner
    assert winner is not None
    found = winner.until and winner.until.astimezone(engine.policy.zone).strftime("%H:%M")
    assert found == until
