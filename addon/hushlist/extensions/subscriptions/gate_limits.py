"""The policy's ``gate``: how much a list may change before it is held back, for all lists or for one."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    OFF,
    Reading,
    file,
    flag,
    names_of,
    of_node,
    read_rows,
    read_switch,
    schema_of_switch_or,
    switch,
)
from hushlist.core.policy.keys import NONE, Key, Type

_PERCENT = re.compile(r"([0-9]{1,2})%")


class GateLimits(NamedTuple):
    #: whether it has to be a list of its format
    format: bool = True
    #: the percentage of its rules that it may lose; ``None``: all of them
    loses: int | None = 50
    #: whether the policy says ``loses`` itself: then it holds for short lists, too
    is_own: bool = False
    #: whether it must not newly cover a public suffix, or a popular domain
    suffixes: bool = True
    popular: bool = True
    #: the percentage of the last week's requests that it may open, and of visits that it may stop, by the decision log,
    #: and of ordinary requests; ``None``: all of them
    requests: int | None = 1
    #: whether each version has other rules: then ``loses`` is about their number alone
    rolling: bool = False
    #: popular domains, which no list may newly cover
    file: Path | None = None

    @property
    def is_off(self) -> bool:
        """Whether it may change as it likes."""
        return self == _OFF._replace(is_own=self.is_own, rolling=self.rolling, file=self.file)


_OFF = GateLimits(format=False, loses=None, suffixes=False, popular=False, requests=None)


def _percentage(fields: MappingReader, key: str, _: Reading) -> Any:
    """A percentage; none at all if it is off."""
    text = fields.text(key)
    percent = None if text is None else _PERCENT.fullmatch(text)
    if percent is None and text not in (None, "off"):
        fields.error(key, "expected a percentage such as 50%, or off", f"{key}: {text}")
    return int(percent[1]) if percent else NONE


_PERCENTAGE = Type(_percentage, {"anyOf": [{"type": "string", "pattern": "^(?:[0-9]{1,2}%|off)$"}, OFF]})


def _keys(popular: Type, field: str) -> tuple[Key, ...]:
    return (
        Key("format", switch).says("""`on` (the default): it has to be a list of its format. Held back are a web page, a
            file in which nothing can be used, and one with more bad entries than rules, if that was not so before"""),
        Key("loses", _PERCENTAGE).says("""the percentage of its rules that it may lose or take back (default: `50%`,
            which does not hold for [short lists](lists.md#changes)), or `off`"""),
        Key("requests", _PERCENTAGE).says("""the percentage of the last week's requests that it may open, and of visits
            to sites that it may stop, by the decision log; and of [ordinary requests](lists.md#changes) that it may
            newly stop or open (default: `1%`), or `off`"""),
        Key("rolling", flag).says("""`true`: each version has other rules, as of a list that is new each day; it is
            judged by what it does, and by its size: then `loses` is about the number of rules alone (default:
            `false`)"""),
        Key("suffixes", switch).says("""`on` (the default): no new rule, exception or network filter covers a public
            suffix, a top-level name or as wide a range of addresses"""),
        Key("popular", popular, into=field).says("""for all lists: a file of popular domains, one a line or as
            `rank,domain`, which no new rule covers, as itself or as a hash; for one list: `off`"""),
    )


_KEYS, _LIST_KEYS = _keys(file, "file"), _keys(switch, "")


def _read(node: YamlNode, rows: tuple[Key, ...], before: GateLimits, reading: Reading) -> GateLimits:
    """The limits; a key that is not given is as before."""
    fields = read_switch(node, "gate", names_of(rows), reading.report)
    if isinstance(fields, bool):
        return before if fields else _OFF
    return before._replace(**read_rows(rows, fields, reading), is_own=before.is_own or "loses" in fields)


def limits_of_policy(reading: Reading) -> GateLimits:
    """The limits of lists that have none of their own."""
    limits: GateLimits = reading.values.get("gate", GateLimits())._replace(file=None)
    return limits


GATE = of_node(
    lambda node, reading: _read(node, _KEYS, GateLimits(), reading), partial(schema_of_switch_or, _KEYS, "gate"), _KEYS
)


def _read_of_list(fields: MappingReader, key: str, reading: Reading) -> GateLimits:
    node, before = fields.node(key), limits_of_policy(reading)
    return before if node is None else _read(node, _LIST_KEYS, before, reading)


LIST_GATE = Type(_read_of_list, partial(schema_of_switch_or, _LIST_KEYS, "list-gate"), _LIST_KEYS)
