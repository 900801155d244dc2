"""What a blocked client gets."""

import json
from html.parser import HTMLParser

import pytest
from mitmproxy import http

from hushlist.match.rule import Action
from hushlist.policy.decision import Decision
from hushlist.proxy.answer import Explanation, Kind, answer, explain, kind_of, page
from hushlist.url.request import request_of
from unit.hostile import engine_of


def request(path: str = "/", method: str = "GET", **headers: str) -> http.Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.Request.make(method, f"http://h.example{path}", headers=named)


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        # Sec-Fetch-Dest comes first
        (request(sec_fetch_dest="document"), Kind.PAGE),
        (request(sec_fetch_dest="iframe"), Kind.PAGE),
        (request(sec_fetch_dest="frame"), Kind.PAGE),
        (request(sec_fetch_dest="object"), Kind.PAGE),
        (request(sec_fetch_dest="Image", accept="text/html"), Kind.IMAGE),
        (request(sec_fetch_dest="script"), Kind.SCRIPT),
        (request(sec_fetch_dest="worker"), Kind.SCRIPT),
        (request(sec_fetch_dest="serviceworker"), Kind.SCRIPT),
        (request(sec_fetch_dest="style"), Kind.STYLE),
        (request("/x.js", sec_fetch_dest="empty"), Kind.DATA),
        (request(sec_fetch_dest="manifest"), Kind.DATA),
        (request(sec_fetch_dest="audio"), Kind.MEDIA),
        (request(sec_fetch_dest="video"), Kind.MEDIA),
        (request(sec_fetch_dest="track"), Kind.MEDIA),
        (request(sec_fetch_dest="font"), Kind.MEDIA),
        (request("/x.png", sec_fetch_dest=""), Kind.PAGE),
        (request(sec_fetch_dest="\xff"), Kind.PAGE),
        # then what only a script sends
        (request(x_requested_with="XMLHttpRequest", accept="text/html"), Kind.DATA),
        (request("/x.png", x_requested_with="xmlhttprequest"), Kind.DATA),
        # then Accept
        (request("/x.js", accept="text/html,application/xhtml+xml,*/*;q=0.8"), Kind.PAGE),
        (request("/x.js", accept="image/avif,image/webp,*/*"), Kind.IMAGE),
        (request(accept="text/css,*/*;q=0.1"), Kind.STYLE),
        (request(accept="application/json, text/plain, */*"), Kind.DATA),
        # then the path's ending
        *(
            (request(f"/a{ending}?q.html", accept="*/*"), Kind.IMAGE)
            for ending in (".png", ".GIF", ".jpeg", ".svg", ".ico")
        ),
        (request("/a.js"), Kind.SCRIPT),
        (request("/a.mjs"), Kind.SCRIPT),
        (request("/a.css"), Kind.STYLE),
        (request("/a.json"), Kind.DATA),
        (request("/a.html"), Kind.PAGE),
        (request("/a?b.js"), Kind.PAGE),
        (request("/js"), Kind.PAGE),
        (request("/a.js/b"), Kind.PAGE),
        # then the client: a browser that navigates asks for text/html
        (request(accept="*/*", user_agent="Mozilla/5.0"), Kind.DATA),
        (request(accept="*/*", user_agent="curl/8"), Kind.PAGE),
        (request(), Kind.PAGE),
        # a WebSocket before everything
        (request(upgrade="WebSocket", sec_fetch_dest="websocket"), Kind.WEBSOCKET),
        (request(upgrade="h2c"), Kind.PAGE),
    ],
)
def test_the_answer_fits_where_it_would_be_used(asked: http.Request, kind: Kind) -> None:
    assert kind_of(asked) is kind


EXPLANATION = Explanation("http://h.example/", "It is bad", "hrn://c.example/x", "ads", "ads.yaml:3", "h.example/")


@pytest.mark.parametrize(
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
    response = answer(request(sec_fetch_dest=destination), EXPLANATION)
    assert response.status_code == 403
    assert response.headers["content-type"] == content_type
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe-eval" not in policy
    assert response.headers["content-length"] == str(len(response.content or b""))
    assert (response.content or b"").startswith(beginning)
    assert bool(response.content) is bool(beginning)


def test_a_websocket_is_refused_in_words() -> None:
    response = answer(request(upgrade="websocket"), EXPLANATION)
    assert (response.status_code, response.content) == (403, b"Blocked: It is bad\n")
    assert "upgrade" not in response.headers


def test_programs_are_told_in_json() -> None:
    response = answer(request(sec_fetch_dest="empty"), EXPLANATION)
    assert json.loads(response.content or b"") == {
        "blocked": True,
        "url": "http://h.example/",
        "reason": "It is bad",
        "category": "hrn://c.example/x",
        "list": "ads",
        "rule": "ads.yaml:3",
        "expression": "h.example/",
    }


@pytest.mark.parametrize("method", ["HEAD", "head"])
def test_a_head_request_gets_the_headers_alone(method: str) -> None:
    whole, head = answer(request(), EXPLANATION), answer(request(method=method), EXPLANATION)
    assert head.raw_content == b""
    assert list(head.headers.items()) == list(whole.headers.items())


class Text(HTMLParser):
    """A page's elements and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = [
    "<script>alert(1)</script>",
    "</dd></dl></main><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x=\'',
    "$facts",
    "${reason}",
    "$",
    "$$reason",
    "{reason}",
    "%(reason)s",
    "&lt;b&gt;",
    "</style><style>*{display:none}",
    "<!--",
    "ünï\u202ecode",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_whatever_came_with_the_request_is_text_on_the_page(value: str) -> None:
    hostile, harmless = (Text(page(Explanation(*[text] * 6))) for text in (value, "harmless"))
    assert hostile.tags == harmless.tags
    assert hostile.attributes == harmless.attributes
    assert hostile.text == harmless.text.replace("harmless", value)
    assert hostile.text.count(value) >= 6


def test_the_page_says_what_why_and_by_which_rule() -> None:
    text = Text(page(EXPLANATION)).text
    for value in ("http://h.example/", "It is bad", "hrn://c.example/x", "ads", "ads.yaml:3", "h.example/"):
        assert value in text


def test_the_page_leaves_out_what_is_not_known_and_needs_nothing_from_outside() -> None:
    html = page(Explanation("http://h.example/", "Why"))
    assert Text(html).tags.count("dt") == 1
    assert "None" not in html
    assert not {"script", "link", "img", "iframe"} & set(Text(html).tags)
    assert not {"src", "href"} & set(Text(html).attributes)


@pytest.mark.parametrize("text", ["\udcff", "a\ud800"])
@pytest.mark.parametrize("destination", ["document", "empty"])
def test_octets_that_are_no_text_do_not_keep_the_answer_from_being_made(text: str, destination: str) -> None:
    assert answer(request(sec_fetch_dest=destination), Explanation(text, text, text, text, text, text)).content


def test_a_decision_is_explained_without_the_folders_of_its_files() -> None:
    engine = engine_of(
        "name: hrn://l.example/ads\nrules: [{expression: h.example, category: 'hrn://c.example/x', reason: Because}]"
    )
    decision = engine.decide(request_of("http://www.h.example/a"))
    assert explain(decision) == Explanation(
        "http://www.h.example/a", "Because", "hrn://c.example/x", "hrn://l.example/ads", "first.yaml:2", "h.example/"
    )


def test_a_rule_without_a_reason_and_a_request_that_cannot_be_read_are_explained() -> None:
    decision = engine_of("rules: [h.example]").decide(request_of("h.example"))
    assert explain(decision).reason == "A rule of the filter blocks it."
    unread = explain(Decision(Action.BLOCK, b"http://\xff/", fault="it names no host"))
    assert unread == Explanation("http://\\xff/", "The address cannot be read: it names no host.")
