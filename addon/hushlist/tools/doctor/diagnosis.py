"""What was looked at, and how it is."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

#: what was looked at
About = StrEnum("About", "VERSIONS POLICY LISTS FILES CLOCK AUTHORITY PORTS PROXY SERVER ROUTER")


class Condition(StrEnum):
    """How it is."""

    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"
    #: nothing is claimed: a permission or a program is missing
    UNKNOWN = "cannot tell"


GOOD, WARNING, WRONG, UNKNOWN = Condition


class Diagnosis(NamedTuple):
    """One thing that was looked at."""

    about: About
    condition: Condition
    what: str
    #: what to do, if there is something
    advice: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to do something.

        >>> [Diagnosis(About.CLOCK, one, "").is_finding for one in (Condition.UNKNOWN, Condition.WRONG)]
        [False, True]
        """
        return self.condition in (Condition.WARNING, Condition.WRONG)
