"""The key ``on-failure`` of the policy: what becomes of a request where the filter itself fails.

There is a choice only where a request would stay undecided. ``rules/README.md`` has all the other failures, and why
there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hushlist.lists.document import Fields
from hushlist.lists.source import Report


class Cause(StrEnum):
    """Why a request cannot be decided."""

    #: at the start there was no policy that could be used, and there is none since
    START = "start"
    #: the index of the rules in force cannot be read, or somebody has changed it
    INDEX = "index"
    #: an exception in code of ours
    ERROR = "error"


_CHOICES = ("closed", "open")
_OTHERS = "default"


@dataclass(frozen=True, slots=True)
class OnFailure:
    """The causes for which requests pass; for all others they are refused."""

    open: frozenset[Cause] = frozenset()

    def passes(self, cause: Cause) -> bool:
        """Whether an undecided request passes.

        >>> OnFailure(frozenset({Cause.ERROR})).passes(Cause.ERROR), OnFailure().passes(Cause.ERROR)
        (True, False)
        """
        return cause in self.open


def read_on_failure(fields: Fields, report: Report) -> OnFailure:
    """What ``on-failure`` says, a word or a mapping of causes to words; what is wrong with it reads as ``closed``."""
    node = fields.node("on-failure")
    if node is not None and isinstance(node.value, dict):
        own = Fields(node, (_OTHERS, *Cause), report)
        others = own.choice(_OTHERS, _CHOICES) or "closed"
        # a word that is none is not "whatever holds for the others"
        said = {cause: (own.choice(cause, _CHOICES) or "closed") if cause in own else others for cause in Cause}
    elif node is None or node.value in _CHOICES:
        said = dict.fromkeys(Cause, "closed" if node is None else str(node.value))
    else:
        why = f"expected {', '.join(_CHOICES)} or a mapping with {', '.join((_OTHERS, *Cause))}"
        report.error(node.line, f"on-failure: {node}", why)
        said = dict.fromkeys(Cause, "closed")
    return OnFailure(frozenset(cause for cause, word in said.items() if word == "open"))
