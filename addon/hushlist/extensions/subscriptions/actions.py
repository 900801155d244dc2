"""What administrators do at the live page with the lists that are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import time
from typing import Annotated

from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import Action, ActionError, Done, MissingError, Role, Text
from hushlist.core.system.files import reason_of
from hushlist.extensions.subscriptions.catalogue import CatalogueEntry, read_catalogue, shipped_catalogue
from hushlist.extensions.subscriptions.held_changes import HeldChanges
from hushlist.extensions.subscriptions.list_store import Version
from hushlist.extensions.subscriptions.subscription import SubscribedList

_HELD_CHANGES = HeldChanges()
ListUrl = Annotated[str, Text("the list's url", 8192, 1)]


@dataclass(frozen=True, slots=True)
class VersionStatus:
    digest: str
    since: float


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """A list that is fetched; times are in seconds since 1970."""

    url: str
    title: str | None
    layer: str | None
    checked: float | None
    next_try: float | None
    fault: str | None
    #: the digest of the version that is held back, and why it is
    held: str | None
    versions: list[VersionStatus]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class Held:
    """What would change with the version of a list that is held back: lines that are new, and that would be gone."""

    url: str
    digest: str
    added: int
    removed: int
    reasons: list[str]
    added_lines: list[str]
    removed_lines: list[str]


@dataclass(frozen=True, slots=True)
class CatalogueList:
    """A list of the catalogue."""

    name: str
    #: what it is for
    purpose: str
    publisher: str
    licence: str
    category: str
    #: about how many entries it has; 0: nobody has counted
    size: int
    #: whether it is fetched: else it comes with Hushlist
    is_fetched: bool
    #: whether the policy has it
    is_used: bool


@cache
def _catalogue() -> tuple[CatalogueEntry, ...]:
    return tuple(read_catalogue(shipped_catalogue()).values())


def catalogue(policy: Policy) -> list[CatalogueList]:
    """The lists of the catalogue."""
    used = {subscribed.subscription.url for subscribed in policy.subscribed} | {str(path) for path in policy.files}
    beside = shipped_catalogue().parent
    return [
        CatalogueList(
            *(entry.name, entry.purpose, entry.publisher, entry.licence, entry.category, entry.size),
            is_fetched=bool(entry.url),
            is_used=(entry.url or str(beside / entry.file)) in used,
        )
        for entry in _catalogue()
    ]


def lists(policy: Policy) -> list[SubscriptionStatus]:
    """The lists that are fetched."""
    return [_status_of(subscribed) for subscribed in policy.subscribed]


def held_back(policy: Policy, url: ListUrl) -> Held:
    """What a held back version changes."""
    subscribed = _list_of(policy, url)
    held, current = subscribed.store.held(), subscribed.store.current()
    if held is None:
        raise MissingError("no version of it is held back")
    change = _HELD_CHANGES.between(None if current is None else current.path, held)
    return Held(url, held.stem, reasons=list(subscribed.store.state().reasons), **change._asdict())


def update_list(policy: Policy, url: ListUrl) -> Done[SubscriptionStatus]:
    """Fetch a list now.

    The proxy fetches it within seconds.
    """
    subscribed = _list_of(policy, url)
    with _locked(subscribed):
        if subscribed.subscription.server is not None and not subscribed.store.state().is_due(time()):
            raise ActionError("its server says when it may be asked again, and nobody asks before")
        subscribed.store.note(next_try=0.0)
    return Done(_status_of(subscribed), detail={"url": url})


def accept_list(
    policy: Policy,
    url: ListUrl,
    digest: Annotated[str, Text("the version that was looked at", 64, pattern="^[0-9a-f]{64}$")],
) -> Done[SubscriptionStatus]:
    """Put the held back version into force."""
    subscribed = _list_of(policy, url)
    with _locked(subscribed):
        held = subscribed.store.held()
        if held is None or held.stem != digest:
            raise MissingError("no such version of it is held back any more")
        before = subscribed.store.current()
        subscribed.store.accept()
    return _changed("accepted", subscribed, digest, before)


def roll_back_list(policy: Policy, url: ListUrl) -> Done[SubscriptionStatus]:
    """Go back to the version before.

    The version that was in force is held back from then on.
    """
    subscribed = _list_of(policy, url)
    with _locked(subscribed):
        before, version = subscribed.store.current(), subscribed.store.roll_back()
    if version is None:
        raise MissingError("there is no version before the one in force")
    return _changed("rolled back", subscribed, version.digest, before)


def _changed(kind: str, subscribed: SubscribedList, digest: str, before: Version | None) -> Done[SubscriptionStatus]:
    detail = {"url": subscribed.subscription.url, "digest": digest}
    undo = {"kind": kind, **detail, "before": None if before is None else before.digest}
    return Done(_status_of(subscribed), undo, Role.MANAGE, detail)


def change_back(policy: Policy, how: Mapping[str, object]) -> None:
    subscribed, is_back = _list_of(policy, str(how["url"])), how["kind"] == "rolled back"
    with _locked(subscribed):
        current, *kept = [version.digest for version in subscribed.store.versions()] or [""]
        if current != how["digest"]:
            raise MissingError("another version of the list is in force by now")
        if is_back:
            held = subscribed.store.held()
            kept = [] if held is None else [held.stem]
        if kept[:1] != [how.get("before")]:
            raise MissingError("there is no version to go back to")
        change = subscribed.store.accept if is_back else subscribed.store.roll_back
        change()


def _list_of(policy: Policy, url: str) -> SubscribedList:
    subscribed: SubscribedList | None = next(
        (subscribed for subscribed in policy.subscribed if subscribed.subscription.url == url), None
    )
    if subscribed is None:
        raise MissingError("the policy fetches no such list")
    return subscribed


@contextmanager
def _locked(subscribed: SubscribedList) -> Iterator[None]:
    try:
        with subscribed.store.locked():
            yield
    except OSError as error:
        raise ActionError(f"the list cannot be changed: {reason_of(error)}") from error


def _status_of(subscribed: SubscribedList) -> SubscriptionStatus:
    state, held = subscribed.store.state(), subscribed.store.held()
    return SubscriptionStatus(
        url=subscribed.subscription.url,
        title=subscribed.defaults.title,
        layer=subscribed.defaults.layer,
        checked=state.checked or None,
        next_try=state.next_try or None,
        fault=state.fault or None,
        held=None if held is None else held.stem,
        versions=[VersionStatus(version.digest, version.since) for version in subscribed.store.versions()],
        reasons=list(state.reasons) if state.held else [],
    )


ACTIONS = (
    Action("GET", "/lists", Role.VIEW, lists),
    Action("GET", "/lists/catalogue", Role.VIEW, catalogue),
    Action("POST", "/lists/update", Role.MANAGE, update_list, "asked for an update"),
    Action("GET", "/lists/held", Role.VIEW, held_back),
    Action("POST", "/lists/accept", Role.MANAGE, accept_list, "accepted a list"),
    Action("POST", "/lists/rollback", Role.MANAGE, roll_back_list, "rolled a list back"),
)
UNDOINGS = {"accepted": change_back, "rolled back": change_back}
