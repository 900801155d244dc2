"""What the first start asks, by default and after other answers, and which answers it refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hushlist.extensions import first_start
from hushlist.extensions.first_start.questionnaire import (
    PLACES,
    SCREENS,
    SUBJECTS,
    Device,
    Kind,
    Person,
    faults_of,
    first_start_texts,
    household_of,
    people_of,
    rows_of,
)
from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue
from hushlist.proxy.languages import subject_texts
from unit.extensions.first_start.households import FAMILY
from unit.rows import each_row

TEXTS = first_start_texts()["en"]


def faults(screen: str, **more: str) -> dict[str, str]:
    answers = FAMILY | {name.replace("__", "."): text for name, text in more.items()}
    return dict(faults_of(screen, answers, rows_of(screen, answers, (), "UTC")))


def test_each_subject_is_one_list_of_the_catalogue() -> None:
    catalogue = read_catalogue(shipped_catalogue())
    assert {catalogue[name].category.rpartition("/")[2]: name for name in SUBJECTS.values()} == SUBJECTS
    subjects = {own.category.rpartition("/")[2].replace("-", "_") for own in catalogue.values()}
    assert {f"subject_{subject}" for subject in subjects} == subject_texts()["en"].keys()


def test_every_text_is_used_and_every_question_has_its_texts() -> None:
    needed = set(SCREENS)
    for place in PLACES:
        answers = FAMILY | {"place": place}
        for screen in SCREENS:
            for row in rows_of(screen, answers, (), "UTC"):
                needed |= {row.title_key} - {""}
                for question in row.questions:
                    options = question.options if question.kind is Kind.CHOICE else ()
                    needed |= {question.text, *(f"{question.text}_{option}" for option in options)}
    folder = Path(first_start.__file__).parent
    written = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    needed |= {f"{screen}_lead" for screen in SCREENS} & TEXTS.keys()
    assert needed <= TEXTS.keys()
    assert TEXTS.keys() - needed - subject_texts()["en"].keys() <= set(re.findall(r"\"(\w+)\"", written))


def test_devices_that_were_seen_are_offered_with_their_names_once() -> None:
    seen = [Device("192.168.1.22", "tablet"), Device("192.168.1.50")]
    rows = rows_of("people", {}, seen, "UTC", blanks=2)
    assert [(row.questions[0].default, row.questions[2].default) for row in rows] == [
        *(("192.168.1.22", "tablet"), ("192.168.1.50", "")),
        *(("", ""), ("", "")),
    ]
    rows = rows_of("people", FAMILY, seen, "UTC")
    assert [row.questions[0].default for row in rows] == ["", "", "", "", "", "192.168.1.50", ""]
    many = [Device(f"10.0.0.{number}") for number in range(1, 200)]
    assert len(rows_of("people", {}, many, "UTC")) == 64


def test_devices_of_one_name_are_one_person_s() -> None:
    assert people_of(FAMILY) == [
        Person("Mia", True, ("192.168.1.22", "192.168.1.23")),
        Person("Leo, the elder", True, ("192.168.1.24",)),
        Person("Anna", False, ("192.168.1.30",)),
    ]
    assert people_of({"address.0": "10.0.0.1", "whose.0": "free"}) == [Person("10.0.0.1", False, ("10.0.0.1",))]


@each_row(
    ("place", "whose", "blocked"),
    [
        ("family", "limited", {"malware": 4, "phishing": 4, "ads": 4, "adult": 3, "gambling": 3, "bypass": 3}),
        ("family", "free", {"malware": 2, "phishing": 2, "ads": 2, "adult": 2, "gambling": 2, "bypass": 2}),
        ("school", "free", dict.fromkeys(("malware", "phishing", "ads", "adult", "gambling", "social", "bypass"), 2)),
        ("company", "limited", dict.fromkeys(("malware", "phishing", "doh"), 4)),
        ("testing", "free", {"ads": 2}),
    ],
)
def test_what_is_blocked_by_default_fits_the_place(place: str, whose: str, blocked: Mapping[str, int]) -> None:
    answers = {"place": place, "address.0": "10.0.0.1", "whose.0": whose}
    questions = [row.questions[0] for row in rows_of("subjects", answers, (), "UTC")][: len(SUBJECTS)]
    assert {
        question.name.removeprefix("block."): question.options.index(question.default) + 1
        for question in questions
        if question.default != "nobody"
    } == blocked


def test_times_are_asked_for_whom_they_are() -> None:
    names = [question.name for row in rows_of("times", FAMILY, (), "UTC") for question in row.questions]
    spans = ("lessons", "bed.0.week", "bed.0.end", "bed.1.week", "bed.1.end")
    assert names == ["zone", *(f"{span}.{part}" for span in spans for part in ("from", "until"))]
    assert len(rows_of("times", {"place": "company"}, (), "UTC")) == 1


@each_row(
    ("screen", "answers", "found"),
    [
        ("place", {}, {}),
        ("place", {"place": "ship"}, {"place": "fault_needed"}),
        ("people", {}, {}),
        ("people", {"address__0": "192.168.1.0/24"}, {}),
        ("people", {"address__0": "192.168.1.22/24"}, {"address.0": "fault_address"}),
        ("people", {"address__0": "tablet"}, {"address.0": "fault_address"}),
        ("people", {"address__0": "192.168.1.23"}, {"address.1": "fault_twice"}),
        ("people", {"address__0": ""}, {"address.0": "fault_needed"}),
        ("people", {"name__0": "default"}, {"name.0": "fault_name"}),
        ("people", {"whose__0": "nobody"}, {"whose.0": "fault_needed"}),
        ("subjects", {}, {}),
        ("subjects", {"block__ads": "x"}, {"block.ads": "fault_needed"}),
        ("subjects", {"block__safe_search": "lessons"}, {"block.safe_search": "fault_needed"}),
        ("times", {"lessons__from": "08:00", "lessons__until": "13:00"}, {}),
        ("times", {"zone": "Europe/Nowhere"}, {"zone": "fault_zone"}),
        ("times", {"zone": ""}, {"zone": "fault_zone"}),
        ("times", {"bed__0__week__from": "20:00"}, {"bed.0.week.from": "fault_times"}),
        ("times", {"bed__1__week__from": "06:00"}, {"bed.1.week.from": "fault_times"}),
        ("times", {"bed__1__week__from": "25:00"}, {"bed.1.week.from": "fault_times"}),
        ("admin", {}, {}),
        ("admin", {"admin": ""}, {"admin": "fault_needed"}),
        ("admin", {"passphrase": "short"}, {"passphrase": "fault_short"}),
        ("admin", {"again": "correct horse batterY"}, {"again": "fault_differs"}),
        ("admin", {"notices": "http://ntfy.sh/a"}, {"notices": "fault_notices"}),
        ("admin", {"notices": ""}, {}),
    ],
)
def test_what_cannot_be_used_is_told_at_its_field(
    screen: str, answers: Mapping[str, str], found: Mapping[str, str]
) -> None:
    assert faults(screen, **answers) == found
    assert set(found.values()) <= TEXTS.keys()


def test_what_was_not_asked_is_as_by_default() -> None:
    household = household_of({"place": "school"}, "Asia/Kolkata")
    assert (household.zone, household.people, household.lessons, household.admin) == ("Asia/Kolkata", (), None, "")
    assert household.blocked["social"] == household.blocked["safe_search"] == "everybody"


def test_each_person_s_bedtimes_are_theirs() -> None:
    household = household_of(FAMILY, "UTC")
    assert [person.bedtimes for person in household.people] == [
        (("20:00", "06:30"), ("21:30", "07:30")),
        (("21:00", "06:00"), None),
        (None, None),
    ]
    assert household.lessons == ("08:00", "13:00")
