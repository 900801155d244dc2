"""The policy's ``heads``: which header fields requests and answers lose or get, and which answers are blocked.

All rules that fit hold, in their order; an answer is blocked by the first that blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from hushlist.core.decide.decision import Judgement
from hushlist.core.extension import DecryptedNeed
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    any_text,
    category,
    choice,
    list_of,
    names_of,
    of_node,
    read_rows,
    reason,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.scheduled_action import read_during
from hushlist.core.url.header_names import as_read, is_bound
from hushlist.extensions.adblock.head_options import FIELD_NAME, FIELD_VALUE, Cookies, ValueTest
from hushlist.extensions.files.file_rules import ONLY_TRUE, FilePattern
from hushlist.extensions.files.rule_sites import SITES, are_on, hosts_of, is_about

_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)")
_TYPE = re.compile(r"[a-z0-9-]+/(\*|[!#$&^_.+a-z0-9-]+)")


class HeadPattern(FilePattern):
    """The pattern of a rule for heads, as people read it."""

    extension: ClassVar[str] = "heads"


@dataclass(frozen=True, slots=True)
class HeadRule:
    """A rule; all of its conditions have to hold, and of each of them one value."""

    source: str
    line: int
    #: ``request`` or ``answer``
    way: str = "answer"
    #: canonical expressions
    sites: tuple[bytes, ...] = ()
    category: str | None = None
    #: three digits each, or ``4xx``
    status: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    #: a field that is there, by its name as servers read it; and what its value is, if that counts
    has: bytes = b""
    value: ValueTest | None = None
    blocks: bool = False
    #: names as servers read them
    remove: frozenset[bytes] = frozenset()
    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    #: fields that come before others of their names, which hold
    before: tuple[tuple[str, str], ...] = ()
    #: which cookies are taken out or get another life; but those that one of the others names stay as they are
    cookies: Cookies | None = None
    spared: tuple[Cookies, ...] = ()
    #: of a list's filter: its match
    listed: Match | None = None
    reason: str | None = None
    during: Schedule | None = None

    def fits_request(self, judgement: Judgement, now: datetime) -> bool:
        """Whether it is about a request that was decided so, or about its answer."""
        if self.during is not None and not self.during.is_on(now):
            return False
        return is_about(judgement, self.sites, self.category)

    def fits_answer(
        self, status: int, media_types: Iterable[str], fields: Sequence[tuple[bytes, bytes]] | None
    ) -> bool:
        """Whether an answer has such a head, by any of its media types and fields; ``None``: these are not known."""
        if self.status and self.status.isdisjoint((str(status), f"{status // 100}xx")):
            return False
        types = {each for stated in media_types for each in (stated, stated.partition("/")[0] + "/*")}
        if self.types and self.types.isdisjoint(types):
            return False
        return not self.has or fields is None or any(map(self._is_had, fields))

    def _is_had(self, pair: tuple[bytes, bytes]) -> bool:
        name, value = pair
        return as_read(name.lower()) == self.has and (self.value is None or self.value.fits(value.strip()))

    def match(self, evidence: str) -> Match:
        """The match of an answer that is blocked."""
        if self.listed is not None:
            pattern, terms, line = self.listed.rule
            via = ", ".join(filter(None, (self.listed.via, evidence)))
            return self.listed._replace(rule=Rule(pattern, terms._replace(action=Action.BLOCK), line), via=via)
        terms = Terms(Action.BLOCK, "policy", self.source, self.category, self.reason, layer="heads")
        return Match(Rule(HeadPattern("head of an answer"), terms, self.line), evidence.encode(), (0, 0))


def why_decrypt(host: bytes, settings: GroupSettings) -> str | None:
    """Why connections to a canonical host have to be decrypted, for people: its header fields are changed."""
    is_changed = any(are_on(rule.sites, host) for rule in settings.of("heads"))
    return "header fields are changed of" if is_changed else None


def needs_decrypted(settings: GroupSettings) -> Iterator[DecryptedNeed]:
    """The hosts of rules, whose heads nobody sees otherwise."""
    for rule in settings.of("heads"):
        otherwise = "no answer is blocked by its head of" if rule.blocks else "no header field is changed of"
        yield DecryptedNeed("heads", rule.source, rule.line, hosts_of(rule.sites), otherwise)


# -- reading -----------------------------------------------------------------------------------------------------------


def _texts(fields: MappingReader, key: str, form: re.Pattern[str], what: str) -> frozenset[str]:
    texts = [str(item.value).strip() for item in fields.some(key)]
    for text in texts:
        if not form.fullmatch(text.lower()):
            fields.error(key, f"expected {what}", f"{key}: {text}")
    return frozenset(text.lower() for text in texts)


def _some(form: re.Pattern[str], what: str) -> Type:
    return Type(
        lambda fields, key, _: _texts(fields, key, form, what),
        {"anyOf": [{"type": ["string", "integer"]}, list_of({"type": ["string", "integer"]}, minItems=1)]},
    )


def _free(fields: MappingReader, key: str, name: str) -> bytes:
    read = as_read(name.lower().encode())
    if not FIELD_NAME.fullmatch(name) or is_bound(read):
        fields.error(key, "expected the name of a field that does not say where a message ends or goes", name)
    return read


def _names(fields: MappingReader, key: str, _: Reading) -> frozenset[bytes]:
    return frozenset(_free(fields, key, str(item.value)) for item in fields.some(key))


def _pairs(fields: MappingReader, key: str, _: Reading) -> tuple[tuple[str, str], ...]:
    node = fields.node(key)
    if node is None or not isinstance(node.value, dict):
        fields.error(key, "expected a mapping from names of fields to their values")
        return ()
    pairs = [(name, str(value.value).strip()) for name, value in node.value.items()]
    for name, value in pairs:
        _free(fields, key, name)
        if not FIELD_VALUE.fullmatch(value):
            fields.error(key, "expected ASCII, without line ends", f"{name}: {value}")
    return tuple(pairs)


_SOME_TEXT = {"anyOf": [TEXT, list_of(TEXT, minItems=1)]}
_FIELDS_SCHEMA = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}, "minProperties": 1}
_CONDITIONS = (
    Key("sites", SITES).says("expressions, each with what is below it: `video.example/live`"),
    Key("category", category).says("what a rule that fits the address is about, also one that only tags"),
    Key("status", _some(_STATUS, "a status such as 404 or 4xx")).says(
        "of answers: their status, such as `404` or `4xx`"
    ),
    Key("types", _some(_TYPE, "a media type such as text/html or video/*")).says(
        "of answers: media types, such as `text/html` or `video/*`"
    ),
    Key("has", any_text).says("of answers: the name of a field that is there"),
)
_DOINGS = (
    Key("block", ONLY_TRUE, into="blocks").says("`true`: the answer is blocked"),
    Key("remove", Type(_names, _SOME_TEXT)).says("names of fields that go, in every spelling that servers may read"),
    Key("set", Type(_pairs, _FIELDS_SCHEMA)).says("fields that replace those of their names"),
    Key("add", Type(_pairs, _FIELDS_SCHEMA)).says("""of answers: fields that come beside others of their names, such
        as a further `Content-Security-Policy`"""),
)
_KEYS = (
    Key("for", choice(("answer", "request")), into="way").says("`answer` (the default) or `request`: whose head"),
    *_CONDITIONS,
    *_DOINGS,
    Key("reason", reason).says("what the block page says"),
    Key("during", any_text).says("the schedule during which it applies; without one, it always does"),
)
_OF_ANSWERS = ("status", "types", "has", "block", "add")


def _read(node: YamlNode, reading: Reading) -> tuple[HeadRule, ...]:
    rules: list[HeadRule] = []
    for entry in node.items:
        fields = MappingReader(entry, names_of(_KEYS), reading.report)
        values = read_rows([key for key in _KEYS if key.name != "during"], fields, reading)
        values["during"] = read_during(fields, reading.schedules)
        values["has"] = as_read(values.get("has", "").strip().lower().encode("utf-8", "replace"))
        if not any(key.name in fields for key in _DOINGS):
            reading.report.error(entry.line, "heads", f"a rule needs one of {', '.join(names_of(_DOINGS))}")
        for key in _OF_ANSWERS:
            if values.get("way") == "request" and key in fields:
                fields.error(key, "only an answer has it")
        if "block" in fields and any(key in fields for key in ("remove", "set", "add")):
            fields.error("block", "what is blocked has no head to change")
        rules.append(HeadRule(reading.report.source, entry.line, **values))
    return tuple(rules)


HEADS = of_node(_read, lambda: list_of(schema_of_rows(_KEYS, name="head-rule")), _KEYS)
