"""A record: what the log says of one decision, without what it must not say.

User information is never part of it; a query, an address and a user's name are by choice. A line is ASCII without any
control character, so nobody who writes a request can begin a line of the log.

>>> to_line({"reference": "003F8KQ71Z", "user": "me\\nyou"})
b'{"reference": "003F8KQ71Z", "user": "me\\\\nyou"}\\n'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from hushlist.errors import UrlError
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.log import Clients, Queries, What
from hushlist.url.request import Request, canonical_url

#: characters of any text in a record
MOST_SHOWN = 4096
#: what stands for the action where the record is of the log itself: some could not be written
LOST = "lost"

#: what is logged of one decision: plain types, in the order of a line; what is not known is not there
Fields = dict[str, object]


class Privacy(NamedTuple):
    """What a record may say."""

    queries: Queries = Queries.KEEP
    clients: Clients = Clients.KEEP
    #: of a kind (``client`` or ``user``) and a name; used for ``Clients.PSEUDONYM`` alone
    pseudonym: Callable[[str, str], str] = lambda kind, name: ""


class Record(NamedTuple):
    """One decision and whom it was about; cheap to make, and spelled out only where it is written."""

    reference: str
    #: seconds since 1970
    moment: float
    decision: Decision
    #: the address; and the name by which the proxy knows the user
    client: str | None = None
    user: str | None = None
    group: str | None = None
    method: str | None = None
    #: it would be blocked, but passed: the dry run
    would_block: bool = False
    #: the temporary override that let it pass
    grant: str | None = None
    #: of the decision, in µs
    duration: int | None = None

    @property
    def octets(self) -> int:
        """About how much memory it holds."""
        asked = self.decision.asked
        return len(asked.target) if isinstance(asked, Request) else len(asked)

    def is_wanted(self, what: What) -> bool:
        """Whether it is logged."""
        decision = self.decision
        if what is What.ALL or decision.action in STOPPING or self.would_block or self.grant is not None:
            return True
        noted = decision.action is not Action.PASS or decision.fault is not None or bool(decision.matches)
        return what is What.NOTED and noted

    def fields(self, privacy: Privacy) -> Fields:
        """What is logged."""
        decision = self.decision
        winner = decision.winner
        terms = None if winner is None else winner.rule.terms
        tags = [{"list": tag.rule.terms.list, "category": tag.rule.terms.category} for tag in decision.tags]
        found: Fields = {
            "reference": self.reference,
            "time": time_text(self.moment),
            "client": who("client", None if self.client is None else address_text(self.client), privacy),
            "user": who("user", self.user, privacy),
            "group": self.group,
            "method": self.method,
            "url": url_of(decision, privacy),
            "action": decision.action.value,
            "would_block": self.would_block or None,
            "layer": terms and terms.layer,
            "category": terms and terms.category,
            "list": terms and terms.list,
            "title": terms and terms.title,
            "rule": winner and terms and f"{terms.source}:{winner.rule.line}",
            "expression": winner and _without_query(_readable(winner.expression), privacy),
            "reason": terms and terms.reason,
            "via": winner and winner.via,
            "tags": tags or None,
            "fault": decision.fault,
            "grant": self.grant,
            "duration": self.duration,
        }
        return {name: _cut(value) for name, value in found.items() if value is not None}


def record_of(
    decision: Decision,
    *,
    reference: str,
    moment: float,
    client: str | None = None,
    user: str | None = None,
    group: str | None = None,
    method: str | None = None,
    would_block: bool = False,
    grant: str | None = None,
    duration: int | None = None,
) -> Record:
    """The record of a decision.

    Args:
        decision: what was decided.
        reference: as the block page shows it.
        moment: seconds since 1970.
        client: the address.
        user: the name by which the proxy knows the user; never a password.
        group: of clients.
        method: of the request.
        would_block: it passed because the policy is only tried out.
        grant: the temporary override that let it pass.
        duration: of the decision, in µs.
    """
    return Record(reference, moment, decision, client, user, group, method, would_block, grant, duration)


def lost_record(reference: str, moment: float, number: int) -> Fields:
    """What the log says about itself where records are missing from it."""
    reason = f"{number} records could not be written"
    return {"reference": reference, "time": time_text(moment), "action": LOST, "reason": reason, "lost": number}


def to_line(fields: Fields) -> bytes:
    """One line of JSON with its end."""
    # json escapes every other control character; the octet of this one appears nowhere but in texts
    return json.dumps(fields).replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def time_text(moment: float) -> str:
    """ISO 8601 in UTC with milliseconds; sorts by time.

    >>> time_text(1_798_151_400.25)
    '2026-12-24T22:30:00.250Z'
    """
    seconds, milliseconds = divmod(int(moment * 1000), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


@lru_cache(1024)
def address_text(client: str) -> str:
    """One form for one address; what is none stays.

    >>> address_text("::ffff:10.0.0.7"), address_text("2001:DB8::0:1")
    ('10.0.0.7', '2001:db8::1')
    """
    try:
        address = ip_address(client)
    except ValueError:
        return client
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def who(kind: str, name: str | None, privacy: Privacy) -> str | None:
    """What may be said of a ``client`` or ``user``."""
    if name is None or privacy.clients is Clients.DROP:
        return None
    return name if privacy.clients is Clients.KEEP else privacy.pseudonym(kind, name)


# -- URLs --------------------------------------------------------------------------------------------------------------

_QUERY = re.compile(r"[?#].*", re.DOTALL)
#: in the authority of a URL within a URL; a canonical URL has none of its own
_USER_WITHIN = re.compile(rb"//[^/?#\\]*@")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
#: as it stands, or escaped however often
_AT = re.compile(rb"@|%(?:25)*40")


def url_of(decision: Decision, privacy: Privacy = Privacy()) -> str:  # noqa: B008  it is immutable
    """The canonical URL, to be read; of one that cannot be read, what is certainly no user information.

    >>> url_of(Decision(Action.BLOCK, fault="its port is no number", asked=b"http://me:se/cret@h:x/?a"))
    'http://h:x/?a'
    """
    octets = decision.canonical
    if octets is None or decision.fault is not None:
        asked = decision.asked if octets is None else octets
        try:
            octets = canonical_url(asked)
        except UrlError:
            octets = _unreadable(asked.url if isinstance(asked, Request) else asked)
    return _without_query(_readable(octets), privacy)


def _readable(octets: bytes) -> str:
    return _USER_WITHIN.sub(b"//", octets).decode("ascii", "backslashreplace")


def _unreadable(url: bytes) -> bytes:
    """Nobody can say where its user information ends; so whatever stands before the last "@" is left out."""
    end = max((at.end() for at in _AT.finditer(url)), default=None)
    if end is None:
        return url
    scheme = _SCHEME.match(url)
    return (scheme[0] if scheme else b"") + url[end:]


def _without_query(text: str, privacy: Privacy) -> str:
    return _QUERY.sub("", text) if privacy.queries is Queries.DROP else text


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > MOST_SHOWN:
        return value[:MOST_SHOWN] + "..."
    return value
