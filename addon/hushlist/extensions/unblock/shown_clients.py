"""What commands may show of the clients of a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import state_folder
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import KEPT, privacy_beside
from hushlist.extensions.unblock.overrides import Overrides


def privacy_by(overrides: Overrides, policy: Policy | None) -> Privacy:
    """What may be shown by what the proxies of a store have noted there, and by a policy: the stricter of both."""
    place = overrides.place
    return privacy_beside(overrides.shown(), policy, place.parent if isinstance(place, Path) else state_folder())


def privacy_at(place: Path | PostgresAddress, policy: Policy | None) -> Privacy:
    """What may be shown of a place's clients, as ``privacy_by`` has it; ``StoreError`` if it cannot be asked."""
    with Overrides(place, time.time) as overrides:
        return privacy_by(overrides, policy)


def privacy_of_store(place: Path | PostgresAddress, policy: Policy | None, tell: Callable[[str], object]) -> Privacy:
    """What may be shown of a place's clients, by what its proxies have noted there and by a policy.

    Where the place cannot be asked and no policy tells, no client has a name; ``tell`` is called with why.
    """
    if isinstance(place, Path) and not place.exists():
        return privacy_beside(KEPT, policy, place.parent)
    try:
        return privacy_at(place, policy)
    except StoreError as error:
        tell(f"what may be shown of clients is not known: {error}")
        return privacy_beside(KEPT, policy, state_folder()) if policy else Privacy(clients=LoggedClients.DROP)
