"""Who asks for a request, and what for: from header fields, from recordings, and from clients that lie."""

from __future__ import annotations

from hushlist.core.match.context import Context, context_of
from hushlist.core.url.request import Request, StatedContext
from unit.rows import each_row


def context_with(
    headers: str = "", target: bytes = b"/", told: StatedContext | None = None, scheme: bytes = b"https"
) -> Context:
    """The context of a request to cdn.example with such headers, a line each."""
    lines = (line.partition(":") for line in headers.splitlines())
    fields = tuple((name.strip().encode(), value.strip().encode()) for name, _, value in lines)
    request = Request(scheme, (b"cdn.example",), 443, target, method=b"get", fields=fields, context=told)
    return context_of(request, b"cdn.example")


@each_row(
    ("headers", "page", "is_third_party"),
    [
        ("", "", None),
        ("Referer: https://www.news.example/a?b", "www.news.example", True),
        ("referer: HTTPS://me@WWW.News.Example:8443", "www.news.example", True),
        ("Referer: https://www.cdn.example/", "www.cdn.example", False),
        ("Referer: https://cdn.example/", "cdn.example", False),
        ("Referer: https://a.co.uk/\nSec-Fetch-Dest: script", "a.co.uk", True),
        ("Referer: https://192.0.2.7/", "192.0.2.7", True),
        ("Referer: https://0xc0.2.7/", "192.2.0.7", True),
        ("Referer: https://[2001:DB8::1]:80/", "[2001:db8::1]", True),
        ("Referer: https://b\u00fccher.example/", "xn--bcher-kva.example", True),
        # what is no page
        ("Referer: about:blank", "", None),
        ("Referer: /a", "", None),
        ("Referer: news.example", "", None),
        ("Referer: android-app://com.example/", "", None),
        ("Referer: https://", "", None),
        ("Referer: https://a%2fb/", "", None),
        ("Origin: null", "", None),
        ("Origin: moz-extension://0b1c2d", "", None),
        # the origin of the page comes before the Referer, which may be that of a stylesheet in it
        ("Origin: https://news.example\nReferer: https://styles.example/a.css", "news.example", True),
        ("Origin: null\nReferer: https://news.example/", "news.example", True),
        ("Origin: https://news.example", "news.example", True),
        # said twice
        ("Referer: https://a.example/\nReferer: https://a.example/", "a.example", True),
        ("Referer: https://a.example/\nReferer: https://b.example/", "", None),
        ("Referer: https://a.example/\nReferer: https://b.example/\nReferer: https://a.example/", "", None),
        # Sec-Fetch-Site
        ("Sec-Fetch-Site: cross-site", "", True),
        ("Sec-Fetch-Site: same-site", "", False),
        ("Sec-Fetch-Site: same-origin", "cdn.example", False),
        ("Sec-Fetch-Site: none", "cdn.example", False),
        ("Sec-Fetch-Site: odd\nReferer: https://news.example/", "news.example", True),
        ("Sec-Fetch-Site: cross-site\nReferer: https://news.example/", "news.example", True),
        ("Sec-Fetch-Site: same-site\nReferer: https://www.cdn.example/", "www.cdn.example", False),
        ("Sec-Fetch-Site: same-origin\nReferer: https://styles.example/a.css", "cdn.example", False),
        # a stylesheet of the same site asks, in a page of another; or the Referer is not true
        ("Sec-Fetch-Site: cross-site\nReferer: https://cdn.example/a.css", "", True),
        ("Sec-Fetch-Site: same-site\nReferer: https://news.example/", "", False),
        # from http to https of one site
        ("Sec-Fetch-Site: cross-site\nReferer: http://www.cdn.example/", "www.cdn.example", False),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Site: none\nReferer: https://a.example/", "a.example", True),
        # a document is its own page, wherever the link to it stood
        ("Sec-Fetch-Dest: document\nSec-Fetch-Site: cross-site\nReferer: https://a.example/", "cdn.example", False),
        ("Accept: text/html,*/*\nReferer: https://a.example/", "cdn.example", False),
        ("Sec-Fetch-Dest: iframe\nReferer: https://a.example/", "a.example", True),
    ],
)
def test_headers_tell_the_page(headers: str, page: str, is_third_party: bool | None) -> None:
    assert context_with(headers)[::2] == (page, is_third_party)


@each_row(
    ("headers", "target", "kind"),
    [
        ("", b"/", ""),
        *(
            (f"Sec-Fetch-Dest: {destination}\nAccept: text/html", b"/a.png", kind)
            for destination, kind in {
                "document": "document",
                "iframe": "subdocument",
                "frame": "subdocument",
                "Script": "script",
                "worker": "script",
                "serviceworker": "script",
                "style": "stylesheet",
                "image": "image",
                "font": "font",
                "audio": "media",
                "track": "media",
                "embed": "object",
                "empty": "xmlhttprequest",
                "manifest": "other",
                "odd": "document",  # by Accept
            }.items()
        ),
        ("Sec-Fetch-Dest: script\nSec-Fetch-Dest: image", b"/", ""),
        ("Sec-Fetch-Dest: script\nSec-Fetch-Dest: script", b"/", "script"),
        ("Upgrade: WebSocket", b"/a.js", "websocket"),
        ("Sec-Fetch-Mode: websocket\nSec-Fetch-Dest: empty", b"/", "websocket"),
        ("Ping-To: https://a.example/\nSec-Fetch-Dest: empty", b"/", "ping"),
        ("X-Requested-With: XMLHttpRequest\nAccept: text/html, */*; q=0.01", b"/a.js", "xmlhttprequest"),
        ("X-Requested-With: com.example.app\nAccept: */*", b"/a.js", "script"),
        ("Accept: text/css,*/*;q=0.1", b"/", "stylesheet"),
        ("Accept: image/avif,image/webp,*/*", b"/a.js", "image"),
        ("Accept: application/font-woff2;q=1.0,*/*;q=0.1", b"/", "font"),
        ("Accept: video/webm,video/ogg,*/*;q=0.5", b"/", "media"),
        ("Accept: text/event-stream", b"/", "xmlhttprequest"),
        ("Accept: */*", b"/", ""),
        ("Accept: */*", b"/a.b/ads.JS?v=1.css", "script"),
        ("Accept: */*", b"/a.css", "stylesheet"),
        ("", b"/a.woff2", "font"),
        ("", b"/a.html", ""),
        ("", b"/js", ""),
        ("", b"/?a.js", ""),
    ],
)
def test_headers_and_the_path_tell_the_type(headers: str, target: bytes, kind: str) -> None:
    assert context_with(headers, target).kind == kind


def test_a_recording_or_the_administrator_comes_before_the_headers() -> None:
    headers = "Referer: https://news.example/\nSec-Fetch-Dest: image\nSec-Fetch-Site: cross-site"
    told = StatedContext(b"https://shop.example/x", "script", b"post")
    assert context_with(headers, told=told) == Context("shop.example", "script", is_third_party=True, method="POST")
    assert context_with(told=StatedContext(b"www.cdn.example")) == Context(
        "www.cdn.example", "", is_third_party=False, method="GET"
    )
    assert context_with(headers, told=StatedContext(kind="font")) == Context(
        "news.example", "font", is_third_party=True, method="GET"
    )
    assert context_with(told=StatedContext(b"about:blank", "image")) == Context("", "image", None, "GET")
    assert context_with(told=StatedContext(b"https://shop.example/", "document")).page == "cdn.example"
