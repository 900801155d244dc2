"""What administrators see of clients: pages, interface, notices and commands show them as the log may have them.

What the policy's ``clients`` and ``queries`` keep out of the log is not shown elsewhere. An order for a pseudonym is
resolved here, by the clients of which the proxy has decided requests since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.policy.group_table import DeviceNames, device_names
from hushlist.core.policy.groups import UNNAMED, address_text
from hushlist.core.policy.policy_file import Policy
from hushlist.core.routes import ActionError
from hushlist.core.url.host import is_address
from hushlist.core.url.request import canonical_host
from hushlist.extensions.journal.log_identifiers import pseudonyms, read_key
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries
from hushlist.extensions.journal.log_record import Privacy, hiding_of, who, without_query

if TYPE_CHECKING:
    from hushlist.extensions.journal.log_writer import LogWriter

#: keys of an answer whose values are about clients; others, as sessions, are about administrators
_ABOUT_CLIENTS = ("grants", "blocks", "codes", "result", "detail")
#: ``queries`` and ``clients`` of a policy that keeps all
KEPT = ("keep", "keep")
#: what is shown of a client where the log has none
SOMEBODY = "somebody"


def named_by(pseudonym: str, askers: Iterable[tuple[str, str | None]], privacy: Privacy) -> str:
    """The address, or the user as ``user:NAME``, that a pseudonym stands for; ``askers`` have addresses and users.

    Raises:
        ActionError: no client with that pseudonym is known, or the log has no pseudonyms.
    """
    if privacy.clients is LoggedClients.PSEUDONYM:
        for address, user in askers:
            text = address_text(address) if address else None
            if text is not None and who("client", text, privacy) == pseudonym:
                return text
            if user is not None and who("user", user, privacy) == pseudonym:
                return f"user:{user}"
    raise ActionError(
        f"{pseudonym}: nobody of that name has asked since the proxy was started: name an address or a user"
    )


def masked(answer: Mapping[str, object], privacy: Privacy) -> dict[str, object]:
    """An answer of the interface, with each client and each query in it as the log may have it."""
    return {key: _masked(value, privacy, key in _ABOUT_CLIENTS) for key, value in answer.items()}


def masked_item(item: Mapping[str, object], privacy: Privacy) -> dict[str, object]:
    """A grant, a block, a code or what became of one, in plain types, as the log may have it."""
    shown = dict(item)
    for name in ("client", "by"):  # a client does by itself what its code or passphrase is for
        if isinstance(client := item.get(name), str) and (name == "client" or _is_client(client)):
            shown[name] = shown_client(client, privacy)
    if item.get("scope") == "url" and isinstance(target := item.get("target"), str):
        shown["target"] = without_query(target, privacy)
    return shown


def _masked(value: object, privacy: Privacy, is_about_clients: bool) -> object:
    if isinstance(value, list | tuple):
        return [_masked(item, privacy, is_about_clients) for item in value]
    if not isinstance(value, Mapping):
        return value
    shown = {key: _masked(item, privacy, is_about_clients or key in _ABOUT_CLIENTS) for key, item in value.items()}
    return masked_item(shown, privacy) if is_about_clients else shown


def _is_client(name: str) -> bool:
    """Whether a name is that of a client, and not a person's."""
    try:
        return name.startswith("user:") or is_address(canonical_host(name.encode("utf-8", "replace")))
    except UrlError:
        return False


def shown_client(client: str, privacy: Privacy) -> str:
    """An address, ``user:NAME`` or ``group:NAME`` as it may be shown; a group is a word of the policy, and stays."""
    kind, _, name = client.partition(":")
    if kind == "group" or privacy.clients is LoggedClients.KEEP:
        return client
    shown = who("user", name, privacy) if kind == "user" else who("client", client, privacy)
    return shown or SOMEBODY


def device_names_shown(policy: Policy | None, privacy: Privacy) -> DeviceNames | None:
    """What tells the names of devices, where they may be shown."""
    return device_names(policy) if policy is not None and privacy.clients is LoggedClients.KEEP else None


def with_device(client: str, device_of: DeviceNames | None, address: str | None = None) -> str:
    """A client that may be shown, after the name of its device, if it has one; a user may have an ``address``."""
    kind, _, user = client.partition(":")
    if kind == "user":
        return _after_device(client, address or "", user, device_of)
    return client if kind == "group" else _after_device(client, client, None, device_of)


def asker_name(address: str | None, user: str | None, device_of: DeviceNames | None) -> str | None:
    """Who asks, as notices say it, of whom these may be shown; ``None``: neither may."""
    return _after_device(shown, address or "", user, device_of) if (shown := user or address) else None


def _after_device(shown: str, address: str, user: str | None, device_of: DeviceNames | None) -> str:
    device = None if device_of is None else device_of(address, user)
    return shown if device in (None, UNNAMED) else f"{device} ({shown})"


def as_told(privacy: Privacy, said: str) -> Privacy:
    """What may be shown of somebody whose page has told how: the stricter of both; no pseudonym is made later.

    >>> [as_told(Privacy(clients=now), "pseudonym").clients.value for now in LoggedClients]
    ['drop', 'pseudonym', 'drop']
    """
    is_as_strict = said == LoggedClients.KEEP or said == privacy.clients
    return privacy if is_as_strict else privacy._replace(clients=LoggedClients.DROP)


def privacy_of(engine: Engine | None, journal: LogWriter | None) -> Privacy:
    """The log's limits on what may be shown; no limits if the policy has no log. May read the disk."""
    settings = None if engine is None else engine.policy.of("log")
    if engine is None or settings is None:
        return Privacy()
    if journal is not None:
        return journal.privacy()
    clients = LoggedClients.DROP if settings.clients is LoggedClients.PSEUDONYM else settings.clients
    return Privacy(settings.queries, clients, hides=hiding_of(engine.policy))


def clients_shown(engine: Engine | None) -> LoggedClients:
    """What the policy says of clients; as ``privacy_of``, which may have no pseudonyms, but at once."""
    settings = None if engine is None else engine.policy.of("log")
    return LoggedClients.KEEP if settings is None else settings.clients


# -- for commands, which may know no policy ----------------------------------------------------------------------------


def privacy_beside(shown: tuple[str, str], policy: Policy | None, state: Path) -> Privacy:
    """What may be shown by the policy that the proxies of a store use, and by another one; the stricter of both.

    ``shown`` is what ``shown_by`` says of the first. ``state`` is the folder with the key of the pseudonyms:
    without it, clients have no name.
    """
    said = [shown, *([] if policy is None else [shown_by(policy)])]
    queries = _strictest(LoggedQueries, [kept for kept, _ in said])
    clients = _strictest(LoggedClients, [kept for _, kept in said])
    key = None
    if clients is LoggedClients.PSEUDONYM:
        with suppress(OSError, ValueError):
            key = read_key(state)
        clients = LoggedClients.DROP if key is None else clients
    privacy = Privacy(queries, clients, hides=hiding_of(policy))
    return privacy if key is None else privacy._replace(pseudonym=pseudonyms(key))


def shown_by(policy: Policy) -> tuple[str, str]:
    """A policy's ``queries`` and ``clients``: without a log, everything is shown."""
    return KEPT if policy.of("log") is None else (policy.of("log").queries.value, policy.of("log").clients.value)


_Kept = TypeVar("_Kept", bound=StrEnum)


def _strictest(kinds: type[_Kept], said: Iterable[str]) -> _Kept:
    """The last of some values that are in the order of what they keep; what another version says is the last."""
    ordered = list(kinds)
    return max(
        (kinds(value) if value in kinds._value2member_map_ else ordered[-1] for value in said), key=ordered.index
    )
