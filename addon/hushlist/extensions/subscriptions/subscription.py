"""Lists that are fetched: where from, how often, and what proves that they are the publisher's.

>>> from pathlib import Path
>>> from hushlist.core.lists.list_source import ProblemReport
>>> from hushlist.core.lists.yaml_nodes import YamlNode
>>> from hushlist.core.policy.key_types import names_of
>>> entry = {"url": YamlNode(3, "https://lists.example/ads.hosts"), "every": YamlNode(4, "6h")}
>>> reading = Reading(Path("policy.yaml"), ProblemReport("policy.yaml"))
>>> fields = MappingReader(YamlNode(3, entry), ("url", *names_of(SUBSCRIPTION_KEYS)), reading.report)
>>> read_subscription(fields, reading).every
21600
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import TEXT, Reading, converted, read_rows
from hushlist.core.policy.keys import Type
from hushlist.core.policy.times import seconds_of
from hushlist.extensions.subscriptions import SUBSCRIPTION_KEYS
from hushlist.extensions.subscriptions.gate_limits import GateLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from urllib.parse import SplitResult

    from hushlist.extensions.subscriptions.list_outcome import ListUpdate
    from hushlist.extensions.subscriptions.list_store import ListStore
    from hushlist.extensions.subscriptions.minisign import PublicKey

#: why a policy cannot be used whose list was never fetched
NO_COPY = "there is no copy of it yet"
_LEAST, _MOST, _OLDEST = 15 * 60, 30 * 86400, 365 * 86400
_SHA256 = re.compile("[0-9A-Fa-f]{64}")
#: octets that a URL may have on the wire
WEB_URL = re.compile(r"https?://[\x21-\x7e]{1,2000}", re.IGNORECASE)
#: what can only be the line of a public key
_KEY = re.compile("RW[A-Za-z0-9+/]{54}")


class ListServer(Protocol):
    """Brings a list by a protocol of its own, together with others of its server."""

    @property
    def kind(self) -> str:
        """What such lists are called."""

    @property
    def account(self) -> str:
        """What the lists have in common that are asked for together."""

    def store(self, policy: Path) -> ListStore:
        """What is known of the server; it has no copies."""

    def wait_at_start(self, lists: Iterable[SubscribedList]) -> None:
        """A proxy starts: of these, have the server's lists wait that are due, as long as it says."""

    def update(
        self, policy: Path, lists: Sequence[SubscribedList], *, only_due: bool, own_ports: Sequence[int]
    ) -> Iterator[ListUpdate]:
        """Update lists of the server, and say of each what became of it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a policy says of a list that is fetched."""

    url: str
    #: seconds between two fetches; ``None``: what the list says itself, or a day
    every: int | None = None
    #: of the only content that it may have, in hexadecimal
    sha256: str | None = None
    #: of its publisher, and where the signature is
    key: PublicKey | None = None
    signature: str = ""
    #: whether the policy is used without it until there is a copy
    is_optional: bool = False
    #: seconds since the source was last asked with success, after which the proxy is not ready; ``None``: any
    max_age: int | None = None
    #: the line of the policy that names it
    line: int = 0
    #: what brings it, if it is of a server with a protocol of its own; ``url`` then is only its name
    server: ListServer | None = None

    @property
    def identity(self) -> str:
        """What names its copies: those that another key or digest proved, or none, are not taken for its own."""
        kind = (self.server.kind,) if self.server else ()
        return "\n".join((*kind, self.url, self.sha256 or "", self.key.line if self.key else ""))


@dataclass(frozen=True, slots=True)
class SubscribedList:
    """A list that is fetched, whether or not there is a copy: its subscription, how it is read, and its copies."""

    subscription: Subscription
    #: ``None``: the content tells it
    form: str | None
    defaults: ListDefaults
    gate: GateLimits
    store: ListStore
    #: the names of the extensions of other packages in use, whose formats the content may have
    foreign: tuple[str, ...] = ()


def _span(most: int, text: str) -> int | None:
    seconds = seconds_of(text)
    return seconds if seconds is not None and _LEAST <= seconds <= most else None


def parts_of(url: str) -> SplitResult | None:
    """The parts of a URL that names a host, and a port that there can be or none; ``None`` for another."""
    from urllib.parse import urlsplit  # most policies start faster without it

    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts
    return None


def _fault_of(url: str) -> str | None:
    """Why a URL cannot be fetched."""
    if not WEB_URL.fullmatch(url):
        return "expected an address with https:// or http://, as a browser sends it: A-labels, and escapes for the rest"
    parts = parts_of(url)
    if parts is None:
        return "it names no host and port"
    if "@" in parts.netloc:
        return "a name and a password in an address would be shown: they cannot be used"
    return "what is behind # is never sent" if parts.fragment else None


def _key(fields: MappingReader, key: str, reading: Reading) -> PublicKey | None:
    text = fields.text(key)
    if text is None:
        return None
    from hushlist.extensions.subscriptions.minisign import PublicKey, SignatureError

    octets: bytes | str = text.strip()
    if not _KEY.fullmatch(text.strip()) and "\n" not in text.strip():
        beside = reading.beside(text, fields.line_of(key))
        if beside is None:
            return None
        octets = beside[1]
    try:
        return PublicKey.parse(octets)
    except SignatureError as error:
        fields.error(key, str(error), f"{key}: {text}")
        return None


def _digest(text: str) -> str | None:
    return text.lower() if _SHA256.fullmatch(text) else None


EVERY = converted(partial(_span, _MOST), "expected a time from 15m to 30d, such as 12h or 1d12h")
SHA256 = converted(_digest, "expected 64 hexadecimal digits")
KEY = Type(_key, TEXT)
MAX_AGE = converted(partial(_span, _OLDEST), "expected a time from 15m to 365d, such as 3d")


def read_subscription(fields: MappingReader, reading: Reading) -> Subscription | None:
    """The subscription in the mapping of a list; ``None`` if it has no URL that can be fetched."""
    url, values = fields.text("url"), read_rows(SUBSCRIPTION_KEYS, fields, reading)
    if "signature" in values and "key" not in fields:
        fields.error("signature", "without a key, nothing is verified")
    for name, address in (("url", url), ("signature", values.get("signature"))):
        if address is not None and (why := _fault_of(address)):
            fields.error(name, why, f"{name}: {address}")
            return None
    if url is None:
        return None
    if not url.lower().startswith("https:") and "sha256" not in fields and "key" not in fields:
        why = "over http, anybody on the way can change it: use https, or give its sha256 or the key of its publisher"
        fields.error("url", why, f"url: {url}")
        return None
    return Subscription(**{"signature": f"{url}.minisig", **values}, url=url, line=fields.line_of("url"))
