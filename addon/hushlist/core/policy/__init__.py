"""The policy file, key by key.

In: a policy file. Out: a ``Policy``: layers of lists, categories, groups and their settings, schedules; or every
problem with file and line. Open first: ``policy_file``, then ``policy_reader``.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent.parent


def shipped_policy() -> Path:
    """The policy that a fresh checkout or an installed package runs with."""
    installed = _PACKAGE / "rules" / "policy.yaml"
    return installed if installed.is_file() else _PACKAGE.parent.parent / "rules" / "policy.yaml"
