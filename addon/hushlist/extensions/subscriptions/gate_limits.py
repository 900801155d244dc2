"""The policy's ``gate``: how much a list may change before it is held back, for all lists or for one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import SWITCH, read_switch

_KEYS = ("format", "loses", "suffixes", "requests", "rolling")
_PERCENT = re.compile(r"([0-9]{1,2})%")


@dataclass(frozen=True, slots=True)
class GateLimits:
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

    @property
    def is_off(self) -> bool:
        """Whether it may change as it likes."""
        return self == replace(_OFF, is_own=self.is_own, rolling=self.rolling)


_OFF = GateLimits(format=False, loses=None, suffixes=False, popular=False, requests=None)


def read_gate(
    node: YamlNode | None, before: GateLimits, report: ProblemReport, *, is_of_list: bool = False
) -> tuple[GateLimits, MappingReader | None]:
    """The limits, and the mapping that has them, if one does.

    A key that is not given is as ``before``. Of a list, ``popular`` is a switch; else it names a file.
    """
    if node is None:
        return before, None
    fields = read_switch(node, "gate", (*_KEYS, "popular"), report)
    if isinstance(fields, bool):
        return before if fields else _OFF, None
    switches = ("format", "suffixes", "popular") if is_of_list else ("format", "suffixes")
    said = {key: word == "on" for key in switches if (word := fields.choice(key, SWITCH)) is not None}
    if (rolling := fields.choice("rolling", ("true", "false"))) is not None:
        said["rolling"] = rolling == "true"
    limits = replace(before, **said)
    if "loses" in fields:
        limits = replace(limits, loses=_percentage(fields, "loses"), is_own=True)
    if "requests" in fields:
        limits = replace(limits, requests=_percentage(fields, "requests"))
    return limits, fields


def _percentage(fields: MappingReader, key: str) -> int | None:
    """A percentage; ``None`` if it is off."""
    text = fields.text(key)
    percent = None if text is None else _PERCENT.fullmatch(text)
    if percent is None and text not in (None, "off"):
        fields.error(key, "expected a percentage such as 50%, or off", f"{key}: {text}")
    return int(percent[1]) if percent else None
