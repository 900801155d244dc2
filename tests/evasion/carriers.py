"""Ways of pupils: a site that is blocked, by the address of a service that shows it or leads to it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from e2e.proxy import request_head
from evasion.entries import Entry, fields, shown

_IT = "http://ads.test/x"
_BASE64 = "aHR0cDovL2Fkcy50ZXN0L3g"
_LEADING = "redirects that tell where"
#: family -> URLs of services, each with an address of ads.test in it; "{}" stands for that address, escaped
SERVICES: dict[str, list[str]] = {
    "translators": [
        "http://translate.google.com/translate?sl=auto&tl=de&u={}",
        "http://translate.google.co.uk/?u=ads.test&op=websites",
        "http://ads-test.translate.goog/x?_x_tr_sl=auto&_x_tr_tl=de",
        "http://www-ads-test.translate.goog/",
        "http://test.translate.goog/x?_x_tr_hp=ads-",
        "http://www.translatetheweb.com/?from=&to=de&a={}",
        "http://translate.yandex.com/translate?url={}&lang=en-de",
        "http://papago.naver.net/website?locale=en&url={}",
    ],
    "archives and caches": [
        f"http://web.archive.org/web/2020/{_IT}",
        f"http://web.archive.org/web/2020if_/{_IT}",
        "http://web.archive.org/web/2020/ads.test",
        f"http://web.archive.org//web/2020/{_IT}",
        "http://web.archive.org/web/2020/http%3A%2F%2Fads%252Etest%2F",
        f"http://archive.ph/newest/{_IT}",
        f"http://archive.today/{_IT}",
        "http://webcache.googleusercontent.com/search?q=cache:abcdefghijkl:ads.test/+words",
        "http://ads-test.cdn.ampproject.org/v/s/other.example/",
    ],
    "what readers of addresses leave out": [
        "http://translate.google.com/translate?u=+{}+",
        "http://corsproxy.io/?url=%C2%A0ht%09tp://ads%0A.test/x%20",
        "http://corsproxy.io/?url=%22ads.test%22",
        "http://webcache.googleusercontent.com/search?q=+CACHE%3Aads.test+words",
        "http://translate.google.com/translate?u=http%3A%2F%2Fads.test%",
        "http://translate.google.com/translate?u=http%253A%252F%252Fads.test%252",
        *(f"http://translate.google.com/translate?u={url}" for url in ("ads.test%C3", "ads.test%zz", "ads.test;%")),
        "http://translate.google.com/translate?u=/ads.test",
        "http://web.archive.org/web/2020id_/ads.test%2/",
    ],
    "image proxies, readers and web proxies": [
        "http://i0.wp.com/ads.test/x.png",
        "http://wsrv.nl/?url=ads.test/x.png",
        "http://external-content.duckduckgo.com/iu/?u={}",
        f"http://r.jina.ai/{_IT}",
        f"http://12ft.io/{_IT}",
        "http://corsproxy.io/?{}",
        f"http://camo.githubusercontent.com/0a/{_IT.encode().hex()}",
        f"http://eu1.croxyproxy.com/?__cpo={_BASE64}",
        f"http://htmlpreview.github.io/?{_IT}",
    ],
    _LEADING: [
        "http://www.google.com/amp/s/ads.test/x",
        "http://www.google.com/url?q={}",
        "http://duckduckgo.com/l/?uddg={}",
        "http://l.facebook.com/l.php?u={}",
        "http://www.youtube.com/redirect?q={}",
        f"http://www.bing.com/ck/a?u=a1{_BASE64}",
        "http://slack-redir.net/link?url={}",
    ],
    "a carrier in a carrier": [
        f"http://translate.google.com/translate?u={quote('https://web.archive.org/web/1/' + _IT, safe='')}",
        f"http://web-archive-org.translate.goog/web/1/{_IT}",
        f"http://web.archive.org/web/1/http://r.jina.ai/http://www.google.com/url?q={_IT}",
        f"http://translate.google.com/translate?u={quote(quote(quote(quote(quote(_IT, safe=''), safe=''))))}",
    ],
    "too many carriers": [
        f"http://web.archive.org/web/1/http://r.jina.ai/http://12ft.io/http://corsproxy.io/?{_IT}",
        f"{'http://web.archive.org/web/1/' * 2000}{_IT}",
        f"http://translate.google.com/translate?{''.join(f'u=http://h{n}.test/&' for n in range(9))}u={_IT}",
        f"http://translate.google.com/translate?x={'a' * 60_000}&u={_IT}",
        f"http://translate.google.com/translate?u={_IT}{'a' * 60_000}",
        f"http://translate.google.com/translate?u=http://ads.test{'%2525' * 10_000}",
        f"http://translate.google.com/translate?u={'http://' * 9000}ads.test/",
    ],
}
#: family -> what carries nothing that is blocked
HARMLESS: dict[str, list[str]] = {
    "services and text": [
        "http://translate.google.com/translate?u=http%3A%2F%2Fgood.test%2F",
        "http://translate.google.com/?text=ads.test",
        "http://www.google.com/search?q=ads.test",
        "http://web.archive.org/web/2020/http://good.test/about/ads.test",
        "http://good.test/about-ads.test",
        "http://good.test/?u=http://ads.test/",
        "http://good-test.translate.goog/",
    ]
}


def entries() -> Iterator[Entry]:
    """Each by HTTP/1.1 and in a tunnel, by HTTP/2 as well."""
    for family, urls in SERVICES.items():
        for url in urls:
            yield from _sent(family, "ads.test", url.replace("{}", quote(_IT, safe="")))


def neighbours() -> Iterator[Entry]:
    """Their neighbours."""
    for family, urls in HARMLESS.items():
        for url in urls:
            yield from _sent(family, "", url)


def _sent(family: str, blocked: str, url: str) -> Iterator[Entry]:
    host, slash, rest = url.removeprefix("http://").partition("/")
    name, target = host.encode(), (slash + rest).encode()
    yield Entry(family, blocked, shown(url), request_head(url.encode(), name))
    if family == _LEADING:
        return  # where only what a rule could need is decrypted, the client asks for what it is led to by itself
    yield Entry(family, blocked, shown(url), request_head(target, name), (host, 443), host)
    yield Entry(family, blocked, shown(url), fields(target, name, scheme=b"https"), (host, 443), host)
