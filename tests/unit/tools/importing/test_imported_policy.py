"""The text of an imported policy: names that are hostile, schedules, groups; and how its folder is written."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.importing.imported_policy import ImportedGroup, ImportedList, ImportedPolicy, by_network, shown
from unit.tools.importing.deciding import Written

HOSTILE = [
    "a: b",
    "null",
    "- x",
    "#",
    "x\ny: z",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    '"',
    "é",
    "[a",
    "{",
    "*a",
    "&a",
    "!t",
    "",
]


def with_list(path: Path, title: str, action: str = "block") -> ImportedPolicy:
    policy = ImportedPolicy(path)
    file = policy.file(title, b"ads.example\n")
    policy.layer("lists").append(ImportedList(file, "domains", shown(title) or "none", action))
    policy.everybody.layers = ["lists"]
    return policy


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    policy = with_list(tmp_path / f"x{name}".replace("\ud800", "").replace("/", ""), name)
    for _ in range(2):
        policy.group(name, clients=["10.0.0.1"]).layers = ["lists"]
    policy.layer("lists").append(ImportedList("lists/none.txt", "domains", shown(name) or "x", command=f"curl {name}"))
    written = Written(policy, tmp_path / "out")
    assert written("ads.example") == "block"
    assert len({group.name for group in written.engine.policy.groups}) == 2


def test_a_policy_that_cannot_be_used_is_not_written(tmp_path: Path) -> None:
    policy = with_list(tmp_path / "x", "x")
    policy.everybody.settings["mode"] = "nonsense"
    with pytest.raises(SourceError, match=r"out.policy\.yaml:\d+: mode: nonsense"):
        policy.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_broad_in_a_list_is_told_but_not_the_list_of_every_address(tmp_path: Path) -> None:
    policy = with_list(tmp_path / "x", "x")
    file = policy.file("broad", b"co.uk\n")
    policy.layer("lists").extend((ImportedList(file, "domains", "broad"), policy.all_addresses()))
    (warning,) = policy.write(tmp_path / "out")
    assert (warning.source, warning.line) == (str(tmp_path / "out" / file), 1)


def test_what_is_for_a_group_alone_is_asked_for_no_one_else(tmp_path: Path) -> None:
    policy = with_list(tmp_path / "x", "x")
    policy.everybody.layers = []
    policy.groups = [ImportedGroup("kids", {"clients": ["10.0.0.1"]}, ["lists"])]
    written = Written(policy, tmp_path / "out")
    assert (written("ads.example"), written("ads.example", "10.0.0.1")) == ("pass", "block")


@pytest.mark.parametrize(
    ("first", "second", "moments"),
    [("day", "week", "1000"), ("day", None, "1010"), (None, None, "1111"), ("day", "outside day", "0000")],
)
def test_two_schedules_hold_together(tmp_path: Path, first: str | None, second: str | None, moments: str) -> None:
    policy = with_list(tmp_path / "x", "x")
    policy.schedule("day", [{"times": "08:00-16:00"}], policy.report(), 1)
    policy.schedule("week", [{"days": "mon-fri"}], policy.report(), 1)
    policy.outside("day")
    layer = policy.layer("timed", policy.both(first, second))
    layer.extend(policy.layers.pop("lists").lists)
    policy.everybody.layers = ["timed"]
    written = Written(policy, tmp_path / "out")
    at = ("2026-11-23T12:00", "2026-11-23T20:00", "2026-11-22T12:00", "2026-11-22T20:00")
    assert "".join("01"[written("ads.example", at=moment) == "block"] for moment in at) == moments


def test_the_complement_of_a_complement_is_the_schedule(tmp_path: Path) -> None:
    policy = ImportedPolicy(tmp_path / "x")
    name = policy.schedule("day", [{"times": "08:00-16:00"}], policy.report(), 1)
    assert policy.outside(policy.outside(name)) == name


def test_the_narrowest_network_is_the_first() -> None:
    pairs = [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.1.1", 1), ("fd00::/8", 3)]
    assert [who for who, _ in by_network(pairs)] == [1, 2, 1, 3]
