"""What a request of the feed tells of its place: its type, its page, and who asks for it.

In: a record of a decision. Out: what its header fields say, as far as the log might say it. Which tab and which frame
that is, the page works out, who sees the requests of all workers.
"""

from __future__ import annotations

from hushlist.core.decide.decision import LogRecord
from hushlist.core.errors import UrlError
from hushlist.core.match.context import context_of
from hushlist.core.url.request import Request, canonical_host, canonical_url
from hushlist.extensions.journal.log_record import Privacy, shown_url, who

#: Spec: Fetch Metadata, 2.3
_SITES = ("same-origin", "same-site", "cross-site", "none")
_LONGEST_AGENT = 400


def initiator_of(record: LogRecord, privacy: Privacy) -> dict[str, str]:
    """The type, the host of the page, whose party it is, the URL that asks, and the browser; without what is unknown.

    ``by`` is the URL of a page, frame or style sheet, or only its origin: what ``Referer`` says, or else ``Origin``.
    """
    request = record.request
    if request is None or not request.hosts or not request.fields:
        return {}
    try:
        context = context_of(request, canonical_host(request.hosts[0]))
    except UrlError:
        return {}
    party = {None: "", True: "third", False: "first"}[context.is_third_party]
    by = next(filter(None, (_canonical(_said(request, name)) for name in (b"referer", b"origin"))), b"")
    site = _said(request, b"sec-fetch-site").decode("ascii", "replace").lower()
    agent = who("agent", _said(request, b"user-agent")[:_LONGEST_AGENT].decode("ascii", "replace") or None, privacy)
    described = {
        "type": context.kind,
        "page": context.page,
        "party": party,
        "by": shown_url(by, privacy),
        "site": site if site in _SITES else "",
        "agent": agent,
    }
    return {name: value for name, value in described.items() if value}


def _said(request: Request, name: bytes) -> bytes:
    """The value of a field; of one that says two things, nothing."""
    values = {value.strip() for field, value in request.fields if field.lower() == name}
    return values.pop() if len(values) == 1 else b""


def _canonical(url: bytes) -> bytes:
    try:
        return canonical_url(url) if url.lower().startswith((b"http://", b"https://")) else b""
    except UrlError:
        return b""
