"""What commands may show of the clients of a store."""

from __future__ import annotations

from pathlib import Path

from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import state_folder
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import privacy_beside
from hushlist.extensions.unblock.overrides import Overrides


def privacy_by(overrides: Overrides, policy: Policy | None) -> Privacy:
    """What may be shown by what the proxies of a store have noted there, and by a policy: the stricter of both."""
    place = overrides.place
    return privacy_beside(overrides.shown(), policy, place.parent if isinstance(place, Path) else state_folder())
