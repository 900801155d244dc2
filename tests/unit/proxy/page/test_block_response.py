"""What a blocked client gets."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from mitmproxy import http

from hushlist.core.decide.decision import Decision
from hushlist.core.match.checks import Check
from hushlist.core.match.index import Match
from hushlist.core.match.rule import Action, Anything, ExpressionHash, Rule, Terms
from hushlist.core.url.request import Request, request_of
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.proxy.page.block_response import (
    AnswerKind,
    answer_kind_of,
    block_response,
    explanation_of,
    failure,
)
from hushlist.proxy.page.pages import Explanation, Verdict, page
from support.engines import engine_of, judgement_of
from unit.rows import each_row


def request(path: str = "/", method: str = "GET", **headers: str) -> http.Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.Request.make(method, f"http://h.example{path}", headers=named)


@each_row(
    ("asked", "kind"),
    [
        # Sec-Fetch-Dest comes first
        (request(sec_fetch_dest="document"), AnswerKind.PAGE),
        (request(sec_fetch_dest="iframe"), AnswerKind.PAGE),
        (request(sec_fetch_dest="empty", sec_fetch_mode="navigate"), AnswerKind.PAGE),
        (request(sec_fetch_dest="empty", sec_fetch_mode="cors"), AnswerKind.DATA),
        (request(sec_fetch_dest="frame"), AnswerKind.PAGE),
        (request(sec_fetch_dest="object"), AnswerKind.PAGE),
        (request(sec_fetch_dest="Image", accept="text/html"), AnswerKind.IMAGE),
        (request(sec_fetch_dest="script"), AnswerKind.SCRIPT),
        *(
            (request(sec_fetch_dest=name), AnswerKind.SCRIPT)
            for name in ("worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet")
        ),
        (request(sec_fetch_dest="style"), AnswerKind.STYLE),
        (request("/x.js", sec_fetch_dest="empty"), AnswerKind.DATA),
        *((request(sec_fetch_dest=name), AnswerKind.DATA) for name in ("json", "manifest", "report")),
        (request(sec_fetch_dest="audio"), AnswerKind.MEDIA),
        (request(sec_fetch_dest="video"), AnswerKind.MEDIA),
        (request(sec_fetch_dest="track"), AnswerKind.MEDIA),
        (request(sec_fetch_dest="font"), AnswerKind.MEDIA),
        (request("/x.png", sec_fetch_dest=""), AnswerKind.PAGE),
        (request(sec_fetch_dest="\xff"), AnswerKind.PAGE),
        # then what only a script sends
        (request(x_requested_with="XMLHttpRequest", accept="text/html"), AnswerKind.DATA),
        (request("/x.png", x_requested_with="xmlhttprequest"), AnswerKind.DATA),
        # then Accept
        (request("/x.js", accept="text/html,application/xhtml+xml,*/*;q=0.8"), AnswerKind.PAGE),
        (request("/x.js", accept="image/avif,image/webp,*/*"), AnswerKind.IMAGE),
        (request(accept="text/css,*/*;q=0.1"), AnswerKind.STYLE),
        (request(accept="application/json, text/plain, */*"), AnswerKind.DATA),
        # then the path's ending
        *(
            (request(f"/a{ending}?q.html", accept="*/*"), AnswerKind.IMAGE)
            for ending in (".png", ".GIF", ".jpeg", ".svg", ".ico")
        ),
        (request("/a.js"), AnswerKind.SCRIPT),
        (request("/a.mjs"), AnswerKind.SCRIPT),
        (request("/a.css"), AnswerKind.STYLE),
        (request("/a.json"), AnswerKind.DATA),
        (request("/a.html"), AnswerKind.PAGE),
        (request("/a?b.js"), AnswerKind.PAGE),
        (request("/js"), AnswerKind.PAGE),
        (request("/a.js/b"), AnswerKind.PAGE),
        # then the client: a browser that navigates asks for text/html
        (request(accept="*/*", user_agent="Mozilla/5.0"), AnswerKind.DATA),
        (request(accept="*/*", user_agent="curl/8"), AnswerKind.PAGE),
        (request(), AnswerKind.PAGE),
        # a WebSocket before everything
        (request(upgrade="WebSocket", sec_fetch_dest="websocket"), AnswerKind.WEBSOCKET),
        (request(upgrade="h2c"), AnswerKind.PAGE),
    ],
)
def test_the_answer_fits_where_it_would_be_used(asked: http.Request, kind: AnswerKind) -> None:
    assert answer_kind_of(asked) is kind


ZONE = timezone(timedelta(hours=1))
UNTIL = datetime(2026, 12, 24, 22, 30, tzinfo=ZONE)
EXPLANATION = Explanation(
    url="http://h.example/",
    reason="It is bad",
    category="hrn://c.example/x",
    list="ads",
    rule="ads.yaml:3",
    expression="h.example/",
    until=UNTIL,
    reference="7K3F-29QX",
)
UNBLOCK = Unblock("/.well-known/hushlist/unblock", "token", passphrase=True)


@each_row(
    ("destination", "content_type", "beginning"),
    [
        ("document", "text/html; charset=utf-8", b"<!doctype html>"),
        ("image", "image/gif", b"GIF89a"),
        ("script", "text/javascript; charset=utf-8", b""),
        ("style", "text/css; charset=utf-8", b""),
        ("empty", "application/json", b"{"),
        ("video", "text/plain; charset=utf-8", b""),
    ],
)
def test_every_answer_is_a_403_that_nothing_keeps_or_runs(
    destination: str, content_type: str, beginning: bytes
) -> None:
    response = block_response(request(sec_fetch_dest=destination), EXPLANATION)
    assert response.status_code == 403
    assert response.headers["content-type"] == content_type
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe-eval" not in policy
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-hushlist-reference"] == "7K3F-29QX"
    assert "set-cookie" not in response.headers
    assert response.headers["content-length"] == str(len(response.content or b""))
    assert (response.content or b"").startswith(beginning)
    assert bool(response.content) is bool(beginning)


@pytest.mark.parametrize(("version", "end"), [("HTTP/1.0", "close"), ("HTTP/1.1", "close"), ("HTTP/2.0", None)])
def test_a_tunnel_is_refused_in_words_and_its_connection_ends_where_it_has_one(version: str, end: str | None) -> None:
    connect = request()
    connect.method, connect.http_version = "CONNECT", version
    for response in (block_response(connect, EXPLANATION), failure(connect)):
        assert response.status_code == 403
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.headers.get("connection") == end


def test_a_websocket_is_refused_in_words() -> None:
    response = block_response(request(upgrade="websocket"), EXPLANATION)
    assert (response.status_code, response.content) == (403, b"Blocked: It is bad\n")
    assert "upgrade" not in response.headers


def test_programs_are_told_in_json() -> None:
    response = block_response(request(sec_fetch_dest="empty"), EXPLANATION)
    assert json.loads(response.content or b"") == {
        "blocked": True,
        "kind": "blocked",
        "url": "http://h.example/",
        "original": None,
        "reason": "It is bad",
        "category": "hrn://c.example/x",
        "list": "ads",
        "rule": "ads.yaml:3",
        "expression": "h.example/",
        "until": "2026-12-24T22:30:00+01:00",
        "reference": "7K3F-29QX",
    }


@pytest.mark.parametrize("method", ["HEAD", "head"])
def test_a_head_request_gets_the_headers_alone(method: str) -> None:
    whole, head = block_response(request(), EXPLANATION), block_response(request(method=method), EXPLANATION)
    assert head.raw_content == b""
    assert list(head.headers.items()) == list(whole.headers.items())
    assert head.headers["content-length"] == str(len(whole.content or b""))


@each_row("text", ["\udcff", "a\ud800"])
@each_row("destination", ["document", "empty"])
def test_octets_that_are_no_text_do_not_keep_the_answer_from_being_made(text: str, destination: str) -> None:
    assert block_response(request(sec_fetch_dest=destination), Explanation(*[text] * 7, reference=text)).content


def test_a_decision_is_explained_without_the_folders_of_its_files() -> None:
    engine = engine_of(
        "name: hrn://l.example/ads\nrules: [{expression: h.example, category: 'hrn://c.example/x', reason: Because}]"
    )
    decision = engine.decide(request_of("http://www.h.example/a"))
    assert decision.winner is not None
    decision = decision._replace(winner=decision.winner._replace(until=UNTIL.astimezone(UTC)))
    explanation = explanation_of(judgement_of(decision, reference="7"), ZONE, Verdict.WARNED)
    assert explanation.until is not None
    assert explanation.until.tzinfo is ZONE
    assert explanation == Explanation(
        url="http://www.h.example/a",
        reason="Because",
        category="hrn://c.example/x",
        list="hrn://l.example/ads",
        rule="first.yaml:2",
        expression="h.example/",
        until=UNTIL,
        reference="7",
        kind=Verdict.WARNED,
    )


@pytest.mark.parametrize(
    ("pattern", "until", "german"),
    [
        (Anything(), None, "Nur was erlaubt ist, wird durchgelassen."),
        (Anything(), UNTIL, "Zurzeit wird nur durchgelassen, was erlaubt ist."),
        (Check("rare-ipv4"), None, "Die Adresse ist eine IPv4-Adresse in seltener Schreibweise."),
    ],
)
def test_a_reason_in_the_filter_s_own_words_is_in_the_reader_s_language(
    pattern: Anything | Check, until: datetime | None, german: str
) -> None:
    match = Match(Rule(pattern, Terms(Action.BLOCK, "policy", "p", reason="In English"), 1), b"*", (0, 0), until=until)
    judgement = judgement_of(Decision(Action.BLOCK, b"http://h.example/", (match,), match))
    explanation = explanation_of(judgement, UTC)
    assert german in page(explanation, "de")[0].decode()
    assert explanation.in_english() == "In English"


def test_a_rule_without_a_reason_and_a_request_that_cannot_be_read_are_explained() -> None:
    judgement = judgement_of(engine_of("rules: [h.example]").decide(request_of("h.example")))
    assert explanation_of(judgement, UTC).reason is None
    unreadable = Decision(Action.BLOCK, b"http://me:secret@\xff/", fault="it names no host")
    unread = explanation_of(judgement_of(unreadable)._replace(request=Request(b"http", (b"\xff",), 80, b"/")), UTC)
    assert unread == Explanation("http://\\xff/", fault="it names no host")


def test_only_a_page_offers_to_have_it_unblocked() -> None:
    for destination in ("document", "image", "script", "style", "empty", "video"):
        response = block_response(request(sec_fetch_dest=destination), EXPLANATION, UNBLOCK)
        is_page = destination == "document"
        assert (b"<form" in (response.content or b"")) is is_page
        assert ("sandbox allow-forms" in response.headers["content-security-policy"]) is is_page
        assert ("form-action 'self'" in response.headers["content-security-policy"]) is is_page


def test_the_page_is_in_the_language_that_the_request_asks_for() -> None:
    response = block_response(request(accept_language="tlh, de-AT;q=0.8, fr;q=0.5"), EXPLANATION)
    assert (response.headers["content-language"], response.headers["vary"]) == ("de", "Accept-Language")
    assert "Diese Seite ist gesperrt" in response.text


@each_row("reference", ["a\r\nSet-Cookie: x=1", "ü", "", "a b", "x" * 101])
def test_a_reference_that_is_no_token_stays_out_of_the_headers(reference: str) -> None:
    response = block_response(request(), Explanation("http://h.example/", reference=reference))
    assert "x-hushlist-reference" not in response.headers
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize("target", ["page", "answer_kind_of", "block_response"])
def test_a_failure_is_told_even_where_no_page_can_be_made(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    assert b"<h1>The filter failed</h1>" in (failure(request()).content or b"")
    assert b"h.example" not in (failure(request()).content or b"")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(f"hushlist.proxy.page.block_response.{target}", fail)
    response = failure(request())
    assert response.status_code == 403
    assert response.content == b"The filter failed; nothing passes it unseen.\n"


@each_row(
    ("explanation", "text"),
    [
        (Explanation("u", "Ads", kind=Verdict.FAILED), "Ads"),
        (Explanation("u", kind=Verdict.FAILED), "The filter failed."),
        (Explanation("u", fault="why", kind=Verdict.FAILED), "The filter failed: why."),
        (Explanation("u", fault="why"), "The address cannot be read: why."),
        (Explanation("u"), "A rule of the filter blocks it."),
        (Explanation("", kind=Verdict.GONE), "There is nothing at this address of the filter."),
        (Explanation("u", kind=Verdict.WARNED), "A rule of the filter warns of it."),
    ],
)
def test_programs_are_told_why_in_a_sentence(explanation: Explanation, text: str) -> None:
    assert explanation.in_english() == explanation.as_dict()["reason"] == text


@each_row(
    ("confirmed_by", "reason", "text", "is_by_google"),
    [
        ("https://safebrowsing.googleapis.com", None, "suspected_reason", True),
        ("https://lists.example", None, "suspected_reason", False),
        ("https://lists.example", "Not here", None, False),
        ("", None, "unconfirmed_reason", False),
        (None, None, None, False),
    ],
)
def test_a_prefix_that_was_confirmed_is_told_with_doubt(
    confirmed_by: str | None, reason: str | None, text: str | None, is_by_google: bool
) -> None:
    rule = Rule(ExpressionHash(b"1234"), Terms(Action.BLOCK, "mw-4b", "mw-4b", reason=reason), 1)
    match = Match(rule, b"h.example/", (9, 1), confirmed_by=confirmed_by)
    decision = Decision(Action.BLOCK, b"http://h.example/", (match,), match)
    told = explanation_of(judgement_of(decision), UTC)
    assert (told.text, told.is_by_google, told.reason) == (text, is_by_google, reason)
