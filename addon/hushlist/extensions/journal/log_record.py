"""A log record: one decision, without private data that must not be logged.

User information of a URL is never logged; the settings say whether a query, an address and a user's name are. A line is
ASCII without control characters, so no request can start a line of its own in the log.

>>> to_line({"reference": "003F8KQ71Z", "user": "me\\nyou"})
b'{"reference": "003F8KQ71Z", "user": "me\\\\nyou"}\\n'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import NamedTuple

from hushlist.core.decide.decision import STOPPING, Decision, LogRecord, original_url
from hushlist.core.errors import UrlError, to_json
from hushlist.core.extension import ALL_BUILT_IN, extensions_named, load
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.normalization import percent_decode_repeatedly
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request, canonical_url
from hushlist.extensions.journal.log_identifiers import is_pseudonym
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries, LoggedRequests

#: in place of an action, for a record about the log itself: some records could not be written
LOST = "lost"
#: the logged fields of one decision: plain types, in the order of a line; unknown fields are left out
LogFields = dict[str, object]


def hiding_of(policy: Policy | None) -> Callable[[str], str]:
    """What takes out of a URL what is only written with ``queries: keep``, by a policy if there is one."""
    names = (ALL_BUILT_IN, *(() if policy is None else policy.extensions))
    hide = [load(extension.hides)(policy) for extension in extensions_named(names) if extension.hides]

    def hidden(text: str) -> str:
        for each in hide:
            text = each(text)
        return text

    return hide[0] if len(hide) == 1 else hidden


@cache
def _hiding() -> Callable[[str], str]:
    return hiding_of(None)


class Privacy(NamedTuple):
    """What a record may contain."""

    queries: LoggedQueries = LoggedQueries.KEEP
    clients: LoggedClients = LoggedClients.KEEP
    #: from a kind (``client`` or ``user``) and a name to a pseudonym; only for ``LoggedClients.PSEUDONYM``
    pseudonym: Callable[[str, str], str] = lambda kind, name: ""
    #: takes out of a URL what is not kept; only for ``LoggedQueries.WITHOUT_SEARCHES``
    hides: Callable[[str], str] = lambda text: _hiding()(text)


def is_wanted(record: LogRecord, what: LoggedRequests) -> bool:
    """Whether a record is logged."""
    decision = record.decision
    if what is LoggedRequests.ALL or decision.action in STOPPING or record.would_block or record.grant is not None:
        return True
    noted = decision.action is not Action.PASS or decision.fault is not None or bool(decision.matches)
    return what is LoggedRequests.NOTED and noted


def lost_record(reference: str, moment: float, number: int) -> LogFields:
    """The record that says that records are missing from the log."""
    reason = f"{number} records could not be written"
    return {"reference": reference, "time": time_text(moment), "action": LOST, "reason": reason, "lost": number}


def to_line(fields: LogFields) -> bytes:
    """One line of JSON, with its line end."""
    return to_json(fields).encode("ascii") + b"\n"


def time_text(moment: float) -> str:
    """ISO 8601 in UTC with milliseconds; sorts by time.

    >>> time_text(1_798_151_400.25)
    '2026-12-24T22:30:00.250Z'
    """
    milliseconds = int(moment * 1000)
    return f"{_second_text(milliseconds // 1000)}.{milliseconds % 1000:03}Z"


@lru_cache(16)
def _second_text(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def who(kind: str, name: str | None, privacy: Privacy) -> str | None:
    """What may be logged about a ``client`` or ``user``."""
    if name is None or privacy.clients is LoggedClients.DROP:
        return None
    return name if privacy.clients is LoggedClients.KEEP else privacy.pseudonym(kind, name)


def logged_name(kind: str, name: str, privacy: Privacy) -> str | None:
    """A ``client`` or ``user`` of a record as it may be shown: it may be older than the setting."""
    is_kept = privacy.clients is LoggedClients.PSEUDONYM and is_pseudonym(name)
    return name if is_kept else who(kind, name, privacy)


def shown_record(fields: LogFields, privacy: Privacy) -> LogFields:
    """A record as it may be shown, which may have been written when more was kept.

    >>> nothing = Privacy(LoggedQueries.DROP, LoggedClients.DROP)
    >>> shown_record({"client": "10.0.0.7", "url": "http://h.example/?q"}, nothing)
    {'url': 'http://h.example/'}
    """
    shown = dict(fields)
    for kind in ("client", "user"):
        if kind in shown:
            shown[kind] = logged_name(kind, str(shown[kind]), privacy)
    if privacy.clients is not LoggedClients.KEEP:
        shown.pop("device", None)
    if without_query(str(url := shown.get("url", "")), privacy) != url and privacy.queries is _PARTLY:
        shown.pop("original", None)
    for name in ("url", "original", "expression"):
        if isinstance(text := shown.get(name), str):
            shown[name] = without_query(text, privacy)
    return {name: value for name, value in shown.items() if value is not None}


_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_PORT = re.compile(r":[0-9]*\Z")


def host_of_record(fields: LogFields) -> str | None:
    """The host of a record's URL.

    >>> host_of_record({"url": "http://h.example:81/x"}), host_of_record({"url": "http://[::1]/"})
    ('h.example', '[::1]')
    """
    return host_of_url(str(fields.get("url", ""))) or None


def host_of_url(url: str) -> str:
    """The host of a record's URL; empty if it has none."""
    match = _HOST.match(url)
    host = match[1] if match else ""
    return _PORT.sub("", host) if ":" in host else host


def file_of_record(fields: LogFields) -> str | None:
    """What the file of a record is: by its content, or else its media type; empty if neither is known.

    >>> file_of_record({"file": {"media_type": "image/png", "kinds": ["program"]}}), file_of_record({"file": {}})
    ('program', '')
    """
    file = fields.get("file")
    if not isinstance(file, dict):
        return None
    kinds = file.get("kinds")
    return " ".join(map(str, kinds)) if isinstance(kinds, list) and kinds else str(file.get("media_type", ""))


# -- URLs --------------------------------------------------------------------------------------------------------------

_PARTLY = LoggedQueries.WITHOUT_SEARCHES
_QUERY = re.compile(r"[?#].*", re.DOTALL)
#: user information in a URL inside a URL; a canonical URL itself has none
_USER_WITHIN = re.compile(rb"//[^/?#\\]*@")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
#: "@", plain or escaped any number of times
_AT = re.compile(rb"@|%(?:25)*40")


def url_of(decision: Decision, privacy: Privacy = Privacy()) -> str:  # noqa: B008  it is immutable
    """The canonical URL as text; for an unreadable URL, only what cannot be user information.

    >>> url_of(Decision(Action.BLOCK, fault="its port is no number", request=b"http://me:se/cret@h:x/?a"))
    'http://h:x/?a'
    """
    return shown_url(_url_octets(decision), privacy)


def _url_octets(decision: Decision) -> bytes:
    canonical = _canonical_of(decision)
    return _unreadable_of(decision) if canonical is None else canonical


def _canonical_of(decision: Decision) -> bytes | None:
    """The canonical URL; ``None`` for an unreadable one."""
    if decision.canonical is not None and decision.fault is None:
        return decision.canonical
    try:
        return canonical_url(decision.request if decision.canonical is None else decision.canonical)
    except UrlError:
        return None


def _unreadable_of(decision: Decision) -> bytes:
    """What may be shown of an unreadable URL."""
    request = decision.request if decision.canonical is None else decision.canonical
    return _unreadable(request.url if isinstance(request, Request) else request)


def shown_urls(decision: Decision, request: Request | None, privacy: Privacy) -> tuple[str, str | None]:
    """The canonical URL of a decision as it may be shown, and the URL as sent, if that is another one."""
    # of this very request, so what it has in other escapes is the same
    is_own = decision.canonical is None and decision.request is request
    if request is not None and is_own and decision.fault is None and (written := request.written_url) is not None:
        return shown_url(written, privacy), None  # as nearly always
    canonical = _canonical_of(decision)
    octets = _unreadable_of(decision) if canonical is None else canonical
    whole = _text_of(octets)
    url = without_query(whole, privacy)
    if request is None or (decision.fault is None and request.is_written(octets)):
        return url, None
    if privacy.queries is _PARTLY and url != whole:
        return url, None  # the original would show what is hidden
    if decision.fault is None and canonical is not None:
        decision = decision._replace(canonical=canonical)  # it is compared with the original, and not made again
    original = original_url(decision, request)
    return url, None if original is None else _shown_original(
        original.decode("ascii", "backslashreplace"), url, privacy, is_own=is_own
    )


def _shown_original(text: str, url: str, privacy: Privacy, *, is_own: bool) -> str | None:
    """A URL as sent, as far as it may be shown beside its canonical URL; ``None`` if it hides something."""
    if privacy.queries is _PARTLY:
        has_own_query = is_own and text.partition("?")[0] == url.partition("?")[0]
        return text if has_own_query or privacy.hides(text) == text else None
    if privacy.queries is LoggedQueries.DROP:
        text = without_query(text, privacy)
        plain = percent_decode_repeatedly(to_bytes(text)).decode("latin-1")
        return None if _QUERY.search(plain) or text == url else text
    return text


def shown_url(octets: bytes, privacy: Privacy) -> str:
    """A canonical URL as text, as far as it may be shown."""
    return without_query(_text_of(octets), privacy)


def _text_of(octets: bytes) -> str:
    """A canonical URL as text, without user information in it."""
    return (_USER_WITHIN.sub(b"//", octets) if b"@" in octets else octets).decode("ascii", "backslashreplace")


def _unreadable(url: bytes) -> bytes:
    """An unreadable URL may have user information anywhere before its last "@", so all of that is left out."""
    end = max((at.end() for at in _AT.finditer(url)), default=None)
    if end is None:
        return url
    scheme = _SCHEME.match(url)
    return (scheme[0] if scheme else b"") + url[end:]


def without_query(text: str, privacy: Privacy) -> str:
    """A URL as far as it may be shown."""
    if privacy.queries is _PARTLY:
        return privacy.hides(text)
    return _QUERY.sub("", text) if privacy.queries is LoggedQueries.DROP else text
