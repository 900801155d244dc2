"""The policy's ``alerts``: of what people are told, who, when not, and how often until somebody has seen it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hushlist.core.errors import UrlError, did_you_mean
from hushlist.core.extension import HAPPENINGS
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import DEFAULT
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    converted,
    list_of,
    mapping,
    matching,
    names_of,
    number,
    read_rows,
    schema_of_category,
    schema_of_rows,
    schema_of_words,
    some_of,
    switch,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.times import seconds_of
from hushlist.extensions.notify.notify_channels import NAME

NEW_DEVICE, HELD_BACK = "new-device", "held-back"
#: what is no decision
EVENTS = (NEW_DEVICE, HELD_BACK, *HAPPENINGS)
DOH, VPN, TRANSLATORS = "doh", "vpn", "translators"
#: ways around a filter
AROUND = (DOH, VPN, TRANSLATORS)
ACTIONS = (Action.BLOCK, Action.WARN, Action.ALLOW, Action.TAG)
_MOST_TIMES, _MOST_AGAIN = 10_000, 100
_LEAST_SECONDS, _MOST_SECONDS = 1, 7 * 86400
#: seconds in which there is no second notice, without ``within``
WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an alert is about: each condition that is there has to hold, by one of its values."""

    category: tuple[str, ...] = ()
    action: tuple[Action, ...] = ()
    list: tuple[str, ...] = ()
    search: bool = False
    around: tuple[str, ...] = ()
    event: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Escalation:
    """What is done while nobody has seen an alert."""

    #: seconds before each further notice
    after: float
    to: tuple[str, ...] = ()
    #: how many there are at most
    times: int = 10


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    when: Conditions
    #: groups, and users as ``user:NAME``; empty: everybody
    whom: tuple[str, ...] = ()
    times: int = 1
    #: seconds
    within: float = WITHIN
    #: channels; empty: all
    to: tuple[str, ...] = ()
    #: no notice goes out while it is on
    quiet: Schedule | None = None
    escalate: Escalation | None = None

    @property
    def is_of_events(self) -> bool:
        return bool(self.when.event)


def _some(parse: Callable[[str, MappingReader, Reading], Any], item: Schema | Callable[[], Schema]) -> Type:
    """One value or several; ``ValueError`` and ``UrlError`` of ``parse`` are errors of the policy."""

    def read(fields: MappingReader, key: str, reading: Reading) -> tuple[Any, ...] | None:
        fields.refuse_empty(key, "expected at least one")
        parsed = []
        for node in fields.some(key):
            if not isinstance(node.value, str) or not node.value:
                reading.report.error(node.line, key, f"expected text, not {node.kind}")
                continue
            try:
                parsed.append(parse(node.value, fields, reading))
            except (ValueError, UrlError) as error:
                reading.report.error(node.line, f"{key}: {node.value}", str(error))
        return tuple(parsed) or None

    return Type(read, lambda: some_of(item() if callable(item) else item, minItems=1))


def _one_of(choices: Iterable[str], kind: type[str] = str) -> Callable[[str, MappingReader, Reading], str]:
    words = tuple(map(str, choices))

    def parse(text: str, *_: object) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}{did_you_mean(text, words)}")
        return kind(text)

    return parse


def _category(text: str, _: MappingReader, reading: Reading) -> str:
    return reading.category(text)


def _seconds(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is None or not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise ValueError("expected a time such as 10m or 1h30m, at most 7d")
    return float(seconds)


def _schedule(fields: MappingReader, key: str, reading: Reading) -> Schedule | None:
    name = fields.text(key)
    if name is None:
        return None
    if name not in reading.schedules:
        hint = f"known: {', '.join(reading.schedules)}" if reading.schedules else "the policy has none"
        fields.error(key, f"there is no such schedule{did_you_mean(name, reading.schedules)} ({hint})", name)
    return reading.schedules.get(name)


_TIME = converted(
    _seconds, schema={"type": "string", "pattern": "^(?=[0-9])(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?$"}
)
_NAMES = _some(lambda text, *_: text, TEXT)
_WHEN_KEYS = (
    Key("category", _some(_category, schema_of_category)).says("""categories, or names such as `tiktok`: of a rule that
        fits, whatever is subordinate counts, too"""),
    Key(
        "action", _some(_one_of(ACTIONS, Action), schema_of_words(ACTIONS))
    ).says("""what was done: `block`, `warn`, `allow`
        or `tag`"""),
    Key("list", _NAMES).says("lists, by name or title, of which a rule fits"),
    Key("search", switch).says("`on`: only what somebody [searched for](searches.md)"),
    Key("around", _some(_one_of(AROUND), schema_of_words(AROUND))).says("""tries to go around the filter: `doh`, `vpn`
        or `translators`: see [Ways around](alerts.md#what-it-can-be-about)"""),
    Key("event", _some(_one_of(EVENTS), schema_of_words(EVENTS))).says("""what is no request: `new-device`,
        `refused-certificate` or `held-back`"""),
)
_ESCALATION_KEYS = (
    Key("after", _TIME, is_required=True).says("the time before each further notice, such as `15m`"),
    Key("to", _NAMES).says("who gets them, as in `to`; without it, those of the first"),
    Key("times", number(1, _MOST_AGAIN)).says("how many there are at most: 1 to 100 (default: 10)"),
)
_KEYS = (
    Key("name", matching(NAME, "expected a name of letters, digits, - and _"), is_required=True).says("""what it is
        called: letters, digits, `-` and `_`"""),
    Key(
        "when",
        mapping(_WHEN_KEYS, lambda fields, reading: Conditions(**read_rows(_WHEN_KEYS, fields, reading))),
        is_required=True,
    ).says("what it is about; each of its keys has to fit"),
    Key("for", _NAMES, into="whom").says("""groups, and users as `user:NAME`, whose doings count; without it,
        everybody's"""),
    Key("times", number(1, _MOST_TIMES)).says("how often it has to happen: 1 to 10000 (default: 1)"),
    Key("within", _TIME).says("in which time, such as `10m` (the default); no second notice comes within it"),
    Key("to", _NAMES).says("the channels of `notify` that are told, by their names; without it, all"),
    Key("quiet", Type(_schedule, TEXT)).says("a schedule: while it is on, notices wait for its end"),
    Key("escalate", mapping(_ESCALATION_KEYS, lambda fields, reading: _escalation(fields, reading))).says("""further
        notices until somebody has said that they have seen it"""),
)


def _escalation(fields: MappingReader, reading: Reading) -> Escalation | None:
    fields.require("after", "escalate")
    values = read_rows(_ESCALATION_KEYS, fields, reading)
    return Escalation(**values) if "after" in values else None


def _named(fields: MappingReader, key: str) -> list[str]:
    """The names in the list of another key of the policy, right or wrong."""
    items = [item.value for item in fields.some(key)]
    names = [item["name"].value for item in items if isinstance(item, dict) and "name" in item]
    return [name for name in names if isinstance(name, str)]


def _check_names(node: YamlNode, keys: Iterable[str], names: Iterable[str], what: str, reading: Reading) -> None:
    names, entry = tuple(names), node.value if isinstance(node.value, dict) else {}
    for key in keys:
        for item in entry[key].items if key in entry else ():
            if isinstance(item.value, str) and item.value not in names and not item.value.startswith("user:"):
                near = did_you_mean(item.value, names)
                why = f"there is no such {what}{near} (known: {', '.join(names) or 'none'})"
                reading.report.error(item.line, f"{key}: {item.value}", why)


def _says_nothing(when: YamlNode) -> bool:
    """Whether no condition is given, right or wrong."""
    conditions = when.value if isinstance(when.value, dict) else {}
    return all(key == "search" for key in conditions)


def _alerts(fields: MappingReader, key: str, reading: Reading) -> tuple[Alert, ...]:
    channels, groups = _named(fields, "notify"), [*_named(fields, "groups"), DEFAULT]
    alerts: dict[str, Alert] = {}
    for node in fields.items(key):
        reader = MappingReader(node, names_of(_KEYS), reading.report)
        for needed in ("name", "when"):
            reader.require(needed, key)
        values = read_rows(_KEYS, reader, reading)
        entry = node.value if isinstance(node.value, dict) else {}
        _check_names(node, ("to",), channels, "channel", reading)
        if "escalate" in entry:
            _check_names(entry["escalate"], ("to",), channels, "channel", reading)
        _check_names(node, ("for",), groups, "group", reading)
        when = values.get("when")
        if when == Conditions() and _says_nothing(entry["when"]):
            reader.error("when", "it is about nothing: expected at least one condition")
        if when is not None and when.event and any((when.category, when.action, when.list, when.search, when.around)):
            reader.error("when", "an event is no request: it has no other condition")
        if "name" not in values or when is None:
            continue
        if values["name"] in alerts:
            reader.error("name", "more than one alert has this name", values["name"])
        alerts[values["name"]] = Alert(**values)
    if alerts and not channels and fields.node("notify") is None:
        reading.report.error(fields.line_of(key), key, "the policy has no 'notify': nobody would be told")
    return tuple(alerts.values())


ALERTS = Type(_alerts, lambda: list_of(schema_of_rows(_KEYS, name="alert")), _KEYS)
