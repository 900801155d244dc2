"""What ``hushlist doctor`` looked at, and how it is.

An extension's ``checks`` is a function from a policy, and the seconds of Unix time, to what it has to say of them.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
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

    about: str
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


def examine_writing(name: str, folder: Path) -> Diagnosis:
    """Whether a folder can be written, or made."""
    there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), folder)
    if os.access(there, os.W_OK | os.X_OK):
        return Diagnosis(About.FILES, GOOD, f"{name} can be written: {folder}")
    advice = f"give {there} to the user who runs the filter"
    return Diagnosis(About.FILES, WRONG, f"{name} cannot be written: {folder}", advice)
