"""Clients on the page as the log has them: what the policy's ``clients`` keeps out of the log is not shown here.

An order for a pseudonym is resolved here, by the clients of which the proxy has decided requests since its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hushlist.admin.admin_store import ActionError
from hushlist.journal.log_record import Privacy, who
from hushlist.policy.groups import address_text
from hushlist.policy.proxy_settings import LoggedClients
from hushlist.proxy.statistics import Asker

#: keys of an answer whose values are about clients; others, as sessions, are about administrators
_ABOUT_CLIENTS = ("grants", "blocks", "codes", "result", "detail")
#: what is shown of a client where the log has none
SOMEBODY = "somebody"


def named_by(pseudonym: str, askers: Iterable[tuple[Asker, int]], privacy: Privacy) -> str:
    """The address, or the user as ``user:NAME``, that a pseudonym stands for.

    Raises:
        ActionError: no client with that pseudonym is known, or the log has no pseudonyms.
    """
    if privacy.clients is LoggedClients.PSEUDONYM:
        for asker, _ in askers:
            address = address_text(asker.address) if asker.address else None
            if address is not None and who("client", address, privacy) == pseudonym:
                return address
            if asker.user is not None and who("user", asker.user, privacy) == pseudonym:
                return f"user:{asker.user}"
    raise ActionError(
        f"{pseudonym}: nobody of that name has asked since the proxy was started: name an address or a user"
    )


def masked(answer: Mapping[str, object], privacy: Privacy) -> dict[str, object]:
    """An answer of the interface, with each client in it as the log may have it."""
    if privacy.clients is LoggedClients.KEEP:
        return dict(answer)
    return {key: _masked(value, privacy, key in _ABOUT_CLIENTS) for key, value in answer.items()}


def _masked(value: object, privacy: Privacy, is_about_clients: bool) -> object:
    if isinstance(value, list | tuple):
        return [_masked(item, privacy, is_about_clients) for item in value]
    if not isinstance(value, Mapping):
        return value
    shown = {key: _masked(item, privacy, is_about_clients or key in _ABOUT_CLIENTS) for key, item in value.items()}
    if is_about_clients and isinstance(client := value.get("client"), str):
        shown["client"] = shown_client(client, privacy)
    return shown


def shown_client(client: str, privacy: Privacy) -> str:
    """An address, ``user:NAME`` or ``group:NAME`` as it may be shown; a group is a word of the policy, and stays."""
    kind, _, name = client.partition(":")
    if kind == "group":
        return client
    shown = who("user", name, privacy) if kind == "user" else who("client", client, privacy)
    return shown or SOMEBODY
