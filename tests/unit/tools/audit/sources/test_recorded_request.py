"""Records: what they are called, and that they never tell user information."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.match.context import KINDS
from hushlist.core.url.request import Request, StatedContext
from hushlist.tools.audit.sources.recorded_request import (
    BrokenRecord,
    RecordedRequest,
    ResourceType,
    resource_type_of_media,
    resource_type_of_name,
    time_of,
)
from unit.rows import each_row


@each_row(
    ("asked", "url"),
    [
        (b"http://me:secret@h.example/@x", b"http://***@h.example/@x"),
        (b"//a@b@h.example/", b"//***@h.example/"),
        (b"http://h.example/a@b", b"http://h.example/a@b"),
        (b"http://h.example?x=http://me@there/", b"http://h.example?x=http://me@there/"),
        (Request(b"https", (b"h.example",), 443, b"/x", b"frag", b"me:secret"), b"https://h.example/x#frag"),
    ],
)
def test_a_url_is_shown_with_its_fragment_but_without_user_information(asked: bytes | Request, url: bytes) -> None:
    assert RecordedRequest(asked).url == url


def test_a_source_tells_page_type_and_method_as_filters_name_them() -> None:
    record = RecordedRequest(b"http://h.example/", kind=ResourceType.XHR, page=b"http://p.example/", method="POST")
    assert record.context == StatedContext(b"http://p.example/", "xmlhttprequest", b"POST")
    kinds = {RecordedRequest(b"", kind=kind).context.kind for kind in ResourceType}
    assert kinds == {"", *KINDS}


def test_a_key_stands_for_the_url_at_its_place() -> None:
    record = RecordedRequest(b"http://h.example/", "s", 1)
    assert record.key == record._replace(method="GET").key
    others = {record._replace(number=2).key, record._replace(source="t").key, record._replace(request=b"x").key}
    assert len({record.key, *others}) == 4


def test_a_key_can_be_made_whatever_octets_a_file_s_name_has() -> None:
    assert RecordedRequest(b"x", "\udcff", 1).key != RecordedRequest(b"x", "\udcfe", 1).key


def test_a_broken_record_is_named_by_its_place() -> None:
    assert str(BrokenRecord("s", 7, "why")) == "s:7: why"
    assert str(BrokenRecord("s", 0, "why")) == "s: why"


@each_row("value", [10**400, float("inf"), float("nan"), -1e18, 1e18, True, "1", None, [1]])
def test_what_no_clock_shows_is_no_time(value: object) -> None:
    assert time_of(value, 1e6) is None


@given(st.integers() | st.floats(), st.sampled_from([1, 1e6]))
def test_a_time_is_one_in_the_calendar_in_every_time_zone(value: float, parts: float) -> None:
    seconds = time_of(value, parts)
    if seconds is not None:
        moment = datetime.fromtimestamp(seconds, UTC)
        assert all(moment.astimezone(timezone(timedelta(hours=hours))).year >= 999 for hours in (-23, 23))


@each_row(
    ("kind", "names"),
    [
        ("document", "document main_frame mainframe Document"),
        ("frame", "subdocument sub_frame subframe iframe frame"),
        ("script", "script"),
        ("style", "style stylesheet css"),
        ("image", "image imageset"),
        ("xhr", "xhr xmlhttprequest fetch eventsource empty"),
        ("font", "font"),
        ("media", "media audio video"),
        ("websocket", "websocket WebSocket"),
        ("ping", "ping beacon"),
        ("object", "object object_subrequest embed"),
        ("other", "csp_report manifest"),
    ],
)
def test_every_name_that_browsers_and_lists_use_is_known(kind: str, names: str) -> None:
    assert {name: resource_type_of_name(name) for name in names.split()} == dict.fromkeys(
        names.split(), ResourceType(kind)
    )


@each_row(
    ("kind", "media_types"),
    [
        ("document", "text/html application/xhtml+xml"),
        ("style", "text/css"),
        ("script", "text/javascript application/javascript application/x-javascript"),
        ("script", "application/ecmascript text/ecmascript"),
        ("xhr", "application/json text/event-stream"),
        ("font", "application/font-woff application/font-woff2 application/x-font-woff"),
        ("font", "application/x-font-ttf application/vnd.ms-fontobject font/woff2"),
        ("media", "application/vnd.apple.mpegurl application/dash+xml audio/ogg video/webm"),
        ("image", "image/png image/svg+xml"),
        ("other", "text/plain application/octet-stream"),
    ],
)
def test_a_response_s_media_type_tells_what_was_asked_for(kind: str, media_types: str) -> None:
    found = {name: resource_type_of_media(name) for name in media_types.split()}
    assert found == dict.fromkeys(media_types.split(), ResourceType(kind))
