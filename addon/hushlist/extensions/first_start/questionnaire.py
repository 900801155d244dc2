"""What the first start asks, as data: five screens of rows of questions, for a browser and for a terminal.

An answer is the text of a field of a form. Which questions there are, and what is answered by default, depends on the
answers to those before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from ipaddress import ip_network
from typing import NamedTuple

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import DEFAULT
from hushlist.core.policy.times import read_timezone
from hushlist.proxy.languages import Texts, joined, load_texts, subject_texts

#: the name of a field -> what is in it
Answers = Mapping[str, str]

#: subject -> its list in the catalogue
SUBJECTS = {
    "malware": "hagezi-tif",
    "phishing": "phishing-database",
    "ads": "hagezi-light",
    "adult": "stevenblack-porn",
    "gambling": "stevenblack-gambling",
    "social": "stevenblack-social",
    "doh": "hagezi-doh",
    "bypass": "hagezi-bypass",
}
#: asked as the subjects are, though it is no list
SAFE_SEARCH = "safe_search"
#: for whom something is blocked, and whose a device is
NOBODY, LESSONS, LIMITED, EVERYBODY = "nobody", "lessons", "limited", "everybody"
ANYBODY, FREE = "anybody", "free"

_ALL = ("malware", "phishing")
#: where a filter runs -> what is blocked there for everybody by default, and what for those with limits
_PLACES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "family": ((*_ALL, "ads"), ("adult", "gambling", "bypass", SAFE_SEARCH)),
    "school": ((*_ALL, "ads", "adult", "gambling"), ("social", "bypass", SAFE_SEARCH)),
    "company": ((*_ALL, "doh"), ()),
    "testing": (("ads",), ()),
}
PLACES = tuple(_PLACES)

SCREENS = ("place", "people", "subjects", "times", "admin")
#: characters of an answer, and devices
LONGEST, _MOST_DEVICES = 300, 64
SHORTEST_PASSPHRASE = 10
#: of a family by default: nights before school, and before days without it
_BEDTIMES = ("20:00", "06:30"), ("21:30", "07:30")
_TIME = re.compile("(?:[01][0-9]|2[0-3]):[0-5][0-9]")


class Kind(Enum):
    """How a question is answered."""

    CHOICE = "choice"
    TEXT = "text"
    TIME = "time"
    FLAG = "flag"
    SECRET = "secret"  # noqa: S105


class Question(NamedTuple):
    """One field of a form."""

    name: str
    #: the key of its text
    text: str
    kind: Kind = Kind.TEXT
    default: str = ""
    #: of a choice: the answers, whose texts have the keys ``{text}_{answer}``
    options: tuple[str, ...] = ()


class Row(NamedTuple):
    """Questions about one thing, which may have a title: the key of a text, or a name or address as it is."""

    questions: tuple[Question, ...]
    title: str = ""
    title_key: str = ""


class Device(NamedTuple):
    """A device that was seen on the network; ``name`` may be empty."""

    address: str
    name: str = ""


class Fault(NamedTuple):
    """An answer that cannot be used: the name of its field, and the key of the text that says why."""

    field: str
    text: str


class Person(NamedTuple):
    """Whom a group of the policy is for."""

    name: str
    is_limited: bool
    addresses: tuple[str, ...]
    #: when nothing but what is allowed is open, as times from and until: before school, and before days without it
    bedtimes: tuple[tuple[str, str] | None, ...] = (None, None)


class Household(NamedTuple):
    """All that was answered, and can be used."""

    place: str
    people: tuple[Person, ...]
    #: subject -> for whom it is blocked, if for anybody
    blocked: Mapping[str, str]
    passes_household: bool
    zone: str
    lessons: tuple[str, str] | None
    admin: str
    passphrase: str
    notices: str

    @property
    def limited(self) -> tuple[Person, ...]:
        return tuple(person for person in self.people if person.is_limited)


@cache
def first_start_texts() -> Mapping[str, Texts]:
    """The words of the questions, by language."""
    return joined(load_texts("hushlist.extensions.first_start", ""), subject_texts())


def default_of(question: Question, answers: Answers) -> str:
    return answers.get(question.name, question.default)


# -- the screens -------------------------------------------------------------------------------------------------------


def rows_of(screen: str, answers: Answers, seen: Sequence[Device], zone: str, *, blanks: int = 1) -> list[Row]:
    """The questions of a screen; ``blanks``: rows for devices that were not seen."""
    place = answers.get("place", PLACES[0])
    match screen:
        case "place":
            return [Row((Question("place", "place", Kind.CHOICE, PLACES[0], PLACES),))]
        case "people":
            return list(_device_rows(answers, seen, blanks))
        case "subjects":
            return [*_subject_rows(place, answers), Row((_passing(place),))]
        case "times":
            return [Row((Question("zone", "zone", Kind.TEXT, zone),)), *_time_rows(place, answers)]
    admin = Question("admin", "admin_name"), Question("passphrase", "passphrase", Kind.SECRET)
    return [Row((*admin, Question("again", "again", Kind.SECRET))), Row((Question("notices", "notices"),))]


def _passing(place: str) -> Question:
    return Question("household", "household", Kind.FLAG, "on" if place == "family" else "off")


def _device_rows(answers: Answers, seen: Sequence[Device], blanks: int) -> Iterator[Row]:
    count = _count_of(answers)
    addresses = {answers.get(f"address.{number}", "") for number in range(count)}
    more = [device for device in seen if device.address not in addresses]
    for number in range(min(_MOST_DEVICES, count + len(more) + blanks)):
        here = more[number - count] if count <= number < count + len(more) else Device("")
        yield Row(
            (
                Question(f"address.{number}", "address", Kind.TEXT, here.address),
                Question(f"whose.{number}", "whose", Kind.CHOICE, ANYBODY, (ANYBODY, LIMITED, FREE)),
                Question(f"name.{number}", "name", Kind.TEXT, here.name),
            )
        )


def _count_of(answers: Answers) -> int:
    """Up to which device there are answers."""
    return max((number + 1 for number in range(_MOST_DEVICES) if answers.get(f"address.{number}")), default=0)


def _subject_rows(place: str, answers: Answers) -> Iterator[Row]:
    is_limited = any(person.is_limited for person in people_of(answers))
    options = (NOBODY, *([LESSONS, LIMITED] if is_limited else []), EVERYBODY)
    everybody, limited = _PLACES.get(place, ((), ()))
    for subject in (*SUBJECTS, SAFE_SEARCH):
        blocked = EVERYBODY if subject in everybody else NOBODY
        if subject in limited:
            blocked = LIMITED if is_limited else EVERYBODY
        may_be = options if subject != SAFE_SEARCH else tuple(option for option in options if option != LESSONS)
        question = Question(f"block.{subject}", "block", Kind.CHOICE, blocked, may_be)
        yield Row((question,), title_key=f"subject_{subject}")


def _time_rows(place: str, answers: Answers) -> Iterator[Row]:
    if LESSONS in answers.values():
        yield Row(_span("lessons", ("08:00", "13:00")), title_key="lessons")
    usual = _BEDTIMES if place == "family" else (("", ""), ("", ""))
    for number, person in enumerate(person for person in people_of(answers) if person.is_limited):
        for part, times in zip(("week", "end"), usual, strict=True):
            yield Row(_span(f"bed.{number}.{part}", times), person.name, f"bed_{part}")


def _span(name: str, times: tuple[str, str]) -> tuple[Question, Question]:
    begin, end = times
    return Question(f"{name}.from", "from", Kind.TIME, begin), Question(f"{name}.until", "until", Kind.TIME, end)


# -- the answers -------------------------------------------------------------------------------------------------------


def people_of(answers: Answers) -> list[Person]:
    """The people whose devices were named, in the order of their devices; several of one name are one."""
    people: dict[str, Person] = {}
    for number in range(_MOST_DEVICES):
        address, whose = (answers.get(f"{field}.{number}", "") for field in ("address", "whose"))
        if address and whose in (LIMITED, FREE):
            name = answers.get(f"name.{number}") or address
            before = people.get(name, Person(name, whose == LIMITED, ()))
            addresses = dict.fromkeys((*before.addresses, address))
            people[name] = before._replace(is_limited=before.is_limited or whose == LIMITED, addresses=(*addresses,))
    return list(people.values())


def faults_of(screen: str, answers: Answers, rows: Sequence[Row], *, has_passphrase: bool = True) -> list[Fault]:
    """What is wrong with the answers to a screen; ``has_passphrase``: it asked for one."""
    questions = [question for row in rows for question in row.questions]
    faults = [
        Fault(question.name, "fault_needed")
        for question in questions
        if question.kind is Kind.CHOICE and default_of(question, answers) not in question.options
    ]
    match screen:
        case "people":
            faults += _device_faults(answers, questions)
        case "times":
            faults += _time_faults(answers, questions)
        case "admin":
            faults += _admin_faults(answers, has_passphrase=has_passphrase)
    return faults


def _device_faults(answers: Answers, questions: Sequence[Question]) -> Iterator[Fault]:
    seen = set[str]()
    for question in questions:
        kind, _, number = question.name.partition(".")
        answer = answers.get(question.name, "")
        if kind == "address" and answer:
            try:
                ip_network(answer)
            except ValueError:
                yield Fault(question.name, "fault_address")
            if answer in seen:
                yield Fault(question.name, "fault_twice")
            seen.add(answer)
        is_named = answers.get(f"whose.{number}", ANYBODY) != ANYBODY
        if kind == "address" and not answer and is_named:
            yield Fault(question.name, "fault_needed")
        if kind == "name" and is_named and answer == DEFAULT:
            yield Fault(question.name, "fault_name")


def _time_faults(answers: Answers, questions: Sequence[Question]) -> Iterator[Fault]:
    report = ProblemReport("")
    node = YamlNode(0, {"timezone": YamlNode(0, answers.get("zone", ""))})
    read_timezone(MappingReader(node, ("timezone",), report))
    if report.errors or not answers.get("zone"):
        yield Fault("zone", "fault_zone")
    for question in questions:
        name, _, part = question.name.rpartition(".")
        if part == "from":
            begin, end = (answers.get(f"{name}.{each}", "") for each in ("from", "until"))
            is_span = begin != end and _TIME.fullmatch(begin) and _TIME.fullmatch(end)
            if (begin or end) and not is_span:
                yield Fault(question.name, "fault_times")


def _admin_faults(answers: Answers, *, has_passphrase: bool) -> Iterator[Fault]:
    name, passphrase = answers.get("admin", ""), answers.get("passphrase", "")
    if not name:
        yield Fault("admin", "fault_needed")
    if has_passphrase and len(passphrase) < SHORTEST_PASSPHRASE:
        yield Fault("passphrase", "fault_short")
    elif has_passphrase and passphrase != answers.get("again"):
        yield Fault("again", "fault_differs")
    if answers.get("notices") and webhook_of(answers["notices"]) is None:
        yield Fault("notices", "fault_notices")


def webhook_of(url: str) -> tuple[str, str] | None:
    """The server and the topic of an ntfy address; ``None`` if it is none.

    >>> webhook_of("https://ntfy.sh/our-filter"), webhook_of("ntfy.sh")
    (('https://ntfy.sh', 'our-filter'), None)
    """
    match = re.fullmatch(r"(https://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?)/([-_A-Za-z0-9]{1,64})", url)
    return None if match is None else (match[1], match[2])


def household_of(answers: Answers, zone: str) -> Household:
    """What was answered, without faults; to what was not asked, the answer by default."""
    rows = [row for screen in SCREENS for row in rows_of(screen, answers, (), zone, blanks=0)]
    said = {question.name: default_of(question, answers) for row in rows for question in row.questions}
    people = people_of(said)
    limited = [person for person in people if person.is_limited]
    times = {
        person.name: tuple(_given_span(said, f"bed.{number}.{part}") for part in ("week", "end"))
        for number, person in enumerate(limited)
    }
    named = {subject: said[f"block.{subject}"] for subject in (*SUBJECTS, SAFE_SEARCH)}
    return Household(
        said["place"],
        tuple(person._replace(bedtimes=times.get(person.name, person.bedtimes)) for person in people),
        {subject: whom for subject, whom in named.items() if whom != NOBODY},
        said["household"] == "on",
        said["zone"],
        _given_span(said, "lessons"),
        said["admin"],
        said["passphrase"],
        said["notices"],
    )


def _given_span(said: Answers, name: str) -> tuple[str, str] | None:
    begin, end = said.get(f"{name}.from", ""), said.get(f"{name}.until", "")
    return (begin, end) if begin and end else None
