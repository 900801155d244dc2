"""What a request of the feed tells of its place, as far as the log might say it."""

from __future__ import annotations

from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.match.rule import Action
from hushlist.core.url.request import Request
from hushlist.extensions.dashboard.initiator import initiator_of
from hushlist.extensions.journal.log_keys import LoggedClients, LoggedQueries
from hushlist.extensions.journal.log_record import Privacy
from unit.rows import each_row

CDN, NEWS = b"cdn.example", b"www.news.example"
PAGE = b"https://www.news.example/a?q=secret"


@each_row(
    ("host", "fields", "told"),
    [
        (CDN, {}, {}),
        (
            CDN,
            {b"Referer": PAGE, b"Sec-Fetch-Dest": b"script", b"Sec-Fetch-Site": b"cross-site"},
            {"type": "script", "page": "www.news.example", "party": "third", "by": PAGE, "site": "cross-site"},
        ),
        (
            NEWS,
            {b"sec-fetch-dest": b"document", b"sec-fetch-site": b"none"},
            {"type": "document", "page": "www.news.example", "party": "first", "site": "none"},
        ),
        (
            NEWS,
            {b"origin": b"https://news.example"},
            {"page": "news.example", "party": "first", "by": "https://news.example/"},
        ),
        (
            CDN,
            {b"referer": b"https://me:word@Shop.example:443/x#y"},
            {"page": "shop.example", "party": "third", "by": "https://shop.example/x"},
        ),
        (CDN, {b"referer": b"about:blank", b"sec-fetch-site": b"elsewhere"}, {}),
        (CDN, {b"referer": b"https://[::x/", b"accept": b"image/png"}, {"type": "image"}),
        (b".", {b"referer": PAGE}, {}),
        (CDN, {b"user-agent": b"Browser/1"}, {"agent": "Browser/1"}),
    ],
)
def test_what_header_fields_say_of_a_request(
    host: bytes, fields: dict[bytes, bytes], told: dict[str, str | bytes]
) -> None:
    wanted = {name: value.decode() if isinstance(value, bytes) else value for name, value in told.items()}
    assert initiator_of(_record(host, fields), Privacy()) == wanted


def test_it_says_what_the_log_might_say() -> None:
    record = _record(CDN, {b"Referer": PAGE, b"User-Agent": b"Browser/1"})
    dropped = initiator_of(record, Privacy(LoggedQueries.DROP, LoggedClients.DROP))
    assert dropped == {"page": "www.news.example", "party": "third", "by": "https://www.news.example/a"}
    named = initiator_of(
        record, Privacy(clients=LoggedClients.PSEUDONYM, pseudonym=lambda kind, name: f"{kind}-{len(name)}")
    )
    assert named["agent"] == "agent-9"


def test_a_field_that_says_two_things_says_nothing() -> None:
    fields = ((b"Referer", PAGE), (b"referer", b"https://other.example/"))
    asked = Request(b"https", (CDN,), 443, b"/a.js", method=b"GET", fields=fields)
    assert "by" not in initiator_of(LogRecord("", 0, Decision(Action.PASS), request=asked), Privacy())


def _record(host: bytes, fields: dict[bytes, bytes]) -> LogRecord:
    asked = Request(b"https", (host,), 443, b"/", method=b"GET", fields=tuple(fields.items()))
    return LogRecord("", 0, Decision(Action.PASS), request=asked)
