"""The policy file, key by key.

In: a policy file. Out: a ``Policy``: layers of lists, categories, groups and their settings, schedules; or every
problem with file and line. Open first: ``policy_file``, then ``policy_reader``.
"""

from __future__ import annotations

from contextlib import suppress
from os.path import lexists
from pathlib import Path

from hushlist.core.system.files import config_folder

_PACKAGE = Path(__file__).resolve().parent.parent.parent


def shipped_policy() -> Path:
    """The policy that a fresh checkout or an installed package runs with."""
    installed = _PACKAGE / "rules" / "policy.yaml"
    return installed if installed.is_file() else _PACKAGE.parent.parent / "rules" / "policy.yaml"


def household_policy() -> Path:
    """Where the first start writes the policy of this user; ``RuntimeError`` if the user has no home."""
    return config_folder() / "policy.yaml"


def default_policy() -> Path:
    """The policy in use where nobody names one: that of the first start, or else the shipped one."""
    with suppress(RuntimeError):
        if lexists(written := household_policy()):
            return written
    return shipped_policy()
