"""Lists of Safe Browsing: who has them, and what is done with what their server confirms.

>>> from pathlib import Path
>>> from hushlist.core.lists.list_source import ProblemReport
>>> said = {"version": YamlNode(4, "5"), "lists": YamlNode(5, [YamlNode(5, "mw-4b")]),
...         "server": YamlNode(6, "https://lists.school.example")}
>>> service = read_safe_browsing(YamlNode(4, said), Reading(Path("policy.yaml"), ProblemReport("policy.yaml")))
>>> service.url_of("mw-4b"), service.blocks_unanswered
('https://lists.school.example/v5/hashList/mw-4b', False)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar

from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    choice,
    hrn,
    list_of,
    mapping,
    names_of,
    number,
    of_node,
    read_rows,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.url.safebrowsing import is_of_google
from hushlist.extensions.safe_browsing.v4_messages import PlatformType, ThreatEntryType, ThreatType
from hushlist.extensions.subscriptions.subscription import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from hushlist.core.decide.verdict import Confirmed
    from hushlist.core.match.rule_match import Match
    from hushlist.core.url.request import Request
    from hushlist.extensions.safe_browsing.confirmations import Confirmations
    from hushlist.extensions.subscriptions.list_outcome import ListUpdate
    from hushlist.extensions.subscriptions.list_store import ListStore
    from hushlist.extensions.subscriptions.subscription import SubscribedList

#: who has the lists if the policy does not say so
GOOGLE = "https://safebrowsing.googleapis.com"
#: what a server may confirm; anything else is not enforced
THREATS = tuple(threat.name for threat in ThreatType if threat)
#: the words of a name in v5 -> what the list is of. Spec: developers.google.com/safe-browsing/reference/Local.Database
_OF_V5 = {"mw": THREATS[0], "se": THREATS[1], "uws": THREATS[2], "uwsa": THREATS[2], "pha": THREATS[3]}
_V5_NAME = re.compile(r"([a-z0-9]{1,32})-(4|8|16|32)b")
#: the list of hashes that are likely safe
_SAFE = "gc"
_V4_TYPES = (ThreatType, PlatformType, ThreatEntryType)
#: of a list in v4 whose name is a threat type alone
_V4_REST = ("ANY_PLATFORM", "URL")
_SERVER = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]{1,300}(?:/[A-Za-z0-9._~/-]{0,300})?")
_API_KEY = re.compile(r"[A-Za-z0-9_.~-]{1,300}")
_NO_ANSWER = ("pass", "block")
#: seconds: the first pause after a failed answer, and the longest
_FIRST_PAUSE, _LONGEST_PAUSE = 15 * 60.0, 86400.0


@dataclass(frozen=True, slots=True)
class SafeBrowsing:
    """A server of Safe Browsing, as one entry of a policy names it."""

    #: of the protocol: 4 or 5
    version: int
    #: without a slash at the end
    server: str
    #: as the policy writes them
    lists: tuple[str, ...]
    #: a secret; empty if there is none
    api_key: str = field(default="", repr=False)
    #: threat type -> category
    categories: tuple[tuple[str, str], ...] = ()
    #: whether a prefix that fits blocks while nobody confirms or denies it
    blocks_unanswered: bool = False

    @property
    def key(self) -> str:
        """What tells it from others; nothing of the API key is in it."""
        identity = (self.version, self.server, self.lists, self.categories, self.blocks_unanswered)
        return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]

    @property
    def account(self) -> str:
        """Whom the server takes us for: what it says of waits, and its failures, are about that."""
        return hashlib.sha256(repr((self.version, self.server, self.api_key)).encode()).hexdigest()[:16]

    @property
    def is_google(self) -> bool:
        """Whether Google's terms are about what it says."""
        return is_of_google(self.server)

    def url_of(self, name: str) -> str:
        """What people know a list by."""
        return f"{self.server}/v5/hashList/{name}" if self.version == 5 else f"{self.server}/v4/{name}"

    def category_of(self, threat: str) -> str | None:
        return dict(self.categories).get(threat)


@dataclass(frozen=True, slots=True)
class ThreatList:
    """One list of prefixes on a server."""

    kind: ClassVar[str] = "Safe Browsing"

    service: SafeBrowsing
    name: str

    @property
    def types(self) -> tuple[ThreatType, PlatformType, ThreatEntryType]:
        """What names it in v4."""
        names = (self.name.split("/") + list(_V4_REST))[:3] if "/" not in self.name else self.name.split("/")
        return ThreatType[names[0]], PlatformType[names[1]], ThreatEntryType[names[2]]

    @property
    def size(self) -> int:
        """Octets of each of its prefixes in v5, as its name says."""
        return int(self.name.rpartition("-")[2][:-1])

    @property
    def key(self) -> str:
        """What tells it from others."""
        return f"{self.service.key}/{self.name}"

    @property
    def threat(self) -> str | None:
        """The threat that it is a list of: no other counts. ``None`` if its name does not tell: any counts."""
        match = _V5_NAME.fullmatch(self.name)
        return _OF_V5.get(match[1]) if match else self.name.partition("/")[0]

    @property
    def category(self) -> str | None:
        """The category of what it is a list of, as far as its name tells."""
        return None if self.threat is None else self.service.category_of(self.threat)

    def confirmed(self, match: Match, request: Request | None, confirmations: Any, *, is_settled: bool) -> Confirmed:
        """What is known of a prefix that fits (``Confirmer``)."""
        from hushlist.extensions.safe_browsing.confirming import confirmed  # few requests need it

        return confirmed(self, match, request, confirmations, is_settled=is_settled)

    def fault(self, confirmations: Any) -> str | None:
        """Why its server does not answer now, for people."""
        why: str | None = confirmations.fault(self.service)
        return why

    # -- ListServer ------------------------------------------------------------------------------------------------

    @property
    def account(self) -> str:
        """The server, and whom it takes us for."""
        return self.service.account

    def store(self, policy: Path) -> ListStore:
        """What is known of the server: its failures."""
        from hushlist.extensions.safe_browsing.threat_list_update import server_store

        return server_store(policy, self.service)

    def wait_at_start(self, lists: Iterable[SubscribedList]) -> None:
        """Have lists wait that are due when a proxy starts."""
        from hushlist.extensions.safe_browsing.threat_list_update import wait_at_start

        wait_at_start(lists)

    def update(
        self, policy: Path, lists: Sequence[SubscribedList], *, only_due: bool, own_ports: Sequence[int]
    ) -> Iterator[ListUpdate]:
        """Update lists of the server by one question."""
        from hushlist.extensions.safe_browsing.threat_list_update import update_threat_lists

        return update_threat_lists(policy, lists, only_due=only_due, own_ports=own_ports)

    # -- Confirmer -------------------------------------------------------------------------------------------------

    def confirmations(self) -> Confirmations:
        """What asks servers, for programs that can wait."""
        from hushlist.extensions.safe_browsing.confirmations import Confirmations
        from hushlist.extensions.safe_browsing.prefix_service import search_hashes

        return Confirmations(search_hashes)


def back_off(failures: int, random: float) -> float:
    """Seconds for which a server is left alone after so many failed answers in a row; ``random`` is from 0 to 1.

    >>> back_off(1, 0.0), back_off(2, 0.5), back_off(50, 1.0)
    (900.0, 2700.0, 86400.0)

    Spec: Safe Browsing v4, Request Frequency: "MIN((2^(N-1) * 15 minutes) * (RAND + 1), 24 hours)"
    """
    return min(2.0 ** min(failures - 1, 20) * _FIRST_PAUSE * (random + 1), _LONGEST_PAUSE)


def _names(fields: MappingReader) -> Iterator[str]:
    version = fields.node("version")
    is_v4 = version is not None and version.value == "4"
    seen = set()
    for item in fields.items("lists"):
        name = item.value if isinstance(item.value, str) else str(item)
        why = _fault_of_v4(name) if is_v4 else _fault_of_v5(name)
        if why or name in seen:
            fields.report.error(item.line, f"lists: {name}", why or "the name is given twice")
        else:
            yield name
        seen.add(name)
    if "lists" in fields and not seen:
        fields.error("lists", "expected the names of some")


def _fault_of_v5(name: str) -> str | None:
    match = _V5_NAME.fullmatch(name)
    if match is None:
        return "expected a name such as mw-4b, which ends with the length of its hashes"
    return "it lists what is likely safe, and nothing to stop" if match[1] == _SAFE else None


def _fault_of_v4(name: str) -> str | None:
    words = name.split("/")
    if len(words) not in (1, 3):
        return "expected a threat type such as MALWARE, or all three types, such as MALWARE/ANY_PLATFORM/URL"
    for word, types in zip(words, _V4_TYPES, strict=False):
        if word not in [threat_type.name for threat_type in types if threat_type]:
            return f"{word} is none of {', '.join(threat_type.name for threat_type in types if threat_type)}"
    return None


def _fault_of(server: str) -> str | None:
    parts = parts_of(server)
    if parts is None or not _SERVER.fullmatch(server):
        return "expected the address of a server, such as https://lists.example"
    if parts.scheme == "https" or _is_here(parts.hostname or ""):
        return None
    return "over http, anybody on the way could see and change what is asked: use https; only this machine needs none"


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _api_key(fields: MappingReader, key: str, reading: Reading) -> str:
    """The key in a file, which no message quotes; empty if there is none."""
    name = fields.text(key)
    octets = None if name is None else reading.secret(name, fields.line_of(key))
    text = (octets or b"").decode("ascii", "replace").strip()
    if octets is not None and not _API_KEY.fullmatch(text):
        fields.error(key, "it has no API key, alone on one line", f"{key}: {name}")
    return text


def _server(fields: MappingReader, key: str, _: Reading) -> str | None:
    server = (fields.text(key) or GOOGLE).rstrip("/")
    if why := _fault_of(server):
        fields.error(key, why, f"{key}: {server}")
    return server


_OF = ("software that does harm", "pages that deceive, such as phishing", "software that nobody asked for")
_THREAT_KEYS = tuple(
    Key(threat, hrn).says(f"the category of {of}")
    for threat, of in zip(THREATS, (*_OF, "apps that may do harm"), strict=True)
)
_CATEGORY = mapping(
    _THREAT_KEYS,
    lambda fields, reading: tuple(
        (row.name, row.kind.read(fields, row.name, reading)) for row in _THREAT_KEYS if row.name in fields
    ),
)
_NAMES = r"^(?:[a-z0-9]{1,32}-(?:4|8|16|32)b|[A-Z_]+(?:/[A-Z_]+/[A-Z_]+)?)$"
_KEYS = (
    Key("version", number(4, 5), is_required=True).says("of the protocol: `4` or `5`"),
    Key(
        "lists",
        Type(
            lambda fields, _, __: tuple(_names(fields)),
            list_of({"type": "string", "pattern": _NAMES}, minItems=1, uniqueItems=True),
        ),
        is_required=True,
    ).says("""the names of lists: in v5 as the server has them, such as `mw-4b`; in v4 a threat type (`MALWARE`), or all
        three types (`MALWARE/ANY_PLATFORM/URL`)"""),
    Key("server", Type(_server, {"type": "string", "pattern": f"^{_SERVER.pattern}$"})).says("""its address: `https://`,
        or `http://` on this machine; without it, Google's"""),
    Key("api-key-file", Type(_api_key, TEXT), into="api_key").says("""a file with the key that the server asks for,
        private to the proxy's user; Google's server needs one"""),
    Key("category", _CATEGORY, into="categories").says("""the category of what the server confirms, for each type of
        threat"""),
    Key("no-answer", choice(_NO_ANSWER)).says("""what a prefix that fits does while nobody confirms or denies it: `pass`
        (the default) or `block`"""),
)


def read_safe_browsing(node: YamlNode, reading: Reading) -> SafeBrowsing | None:
    """The server that an entry names; ``None`` if there is an error."""
    errors = len(reading.report.errors)
    fields = MappingReader(node, names_of(_KEYS), reading.report)
    for key in ("version", "lists"):
        fields.require(key, "safe-browsing")
    values = {"server": GOOGLE, **read_rows(_KEYS, fields, reading)}
    if values["server"] == GOOGLE:
        fields.require("api-key-file", "api-key-file", "Google's server answers nobody without one: name its file")
    blocks = values.pop("no_answer", "") == "block"
    if len(reading.report.errors) > errors or not values.get("lists"):
        return None
    return SafeBrowsing(**values, blocks_unanswered=blocks)


_PLACES = [{"required": ["server"]}, {"required": ["api-key-file"]}]
SAFE_BROWSING = of_node(read_safe_browsing, partial(schema_of_rows, _KEYS, name="safe-browsing", anyOf=_PLACES), _KEYS)
