"""Safe search: what is changed in a request, and how a policy asks for it."""

import re
from urllib.parse import parse_qs

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.extensions.safe_search.safe_search import (
    RequestRewrite,
    SafeSearchSetting,
    read_safe_search,
    rewrite_for_safe_search,
    safe_host,
    services,
    set_cookies,
    set_parameters,
)
from unit.hostile import octets
from unit.rows import each_row

ALL = dict.fromkeys(services(), "strict")
NAMES = ", ".join(services())
SAFE = ((b"safe", b"active"),)
GOOGLE = b"safe=active&ssui=on"


def target_of(host: bytes, target: bytes, level: str = "strict") -> bytes | None:
    change = rewrite_for_safe_search(host, target, dict.fromkeys(services(), level))
    return change.target if change else None


@each_row(
    ("host", "level", "expected"),
    [
        (b"www.google.com", "strict", b"/search?q=x&safe=active&ssui=on"),
        (b"ipv4.google.com", "strict", b"/search?q=x&safe=active&ssui=on"),
        (b"www.bing.com", "strict", b"/search?q=x&adlt=strict"),
        (b"cc.bing.com", "strict", b"/search?q=x&adlt=strict"),
        (b"duckduckgo.com", "strict", b"/search?q=x&kp=1"),
        (b"duckduckgo.com", "moderate", b"/search?q=x&kp=-1"),
        (b"html.duckduckgo.com", "strict", b"/search?q=x&kp=1"),
        (b"uk.search.yahoo.com", "strict", b"/search?q=x&vm=r"),
        (b"www.qwant.com", "strict", b"/search?q=x&s=2&safesearch=2"),
        (b"api.qwant.com", "moderate", b"/search?q=x&s=1&safesearch=1"),
        (b"www.flickr.com", "strict", b"/search?q=x&safe_search=1"),
        (b"www.flickr.com", "moderate", b"/search?q=x&safe_search=2"),
    ],
)
def test_a_search_gets_the_service_s_parameter(host: bytes, level: str, expected: bytes) -> None:
    change = rewrite_for_safe_search(host, b"/search?q=x", dict.fromkeys(services(), level))
    assert change is not None
    assert (change.level, change.target, change.way.headers, change.way.cookies) == (level, expected, (), ())


@each_row(("level", "value"), [("strict", b"Strict"), ("moderate", b"Moderate")])
@each_row("host", [b"www.youtube.com", b"youtube.com", b"m.youtube.com", b"youtubei.googleapis.com"])
def test_youtube_gets_a_header(host: bytes, level: str, value: bytes) -> None:
    way = SafeSearchSetting((), ((b"YouTube-Restrict", value),), (), safe_host(host, {"youtube": level}))
    change = RequestRewrite("youtube", level, way, None)
    assert rewrite_for_safe_search(host, b"/watch?v=1", {"youtube": level}) == change


@each_row("host", [b"vimeo.com", b"www.vimeo.com", b"player.vimeo.com"])
def test_vimeo_gets_a_cookie(host: bytes) -> None:
    way = SafeSearchSetting((), (), ((b"content_rating", b"7"),), None)
    assert rewrite_for_safe_search(host, b"/1", ALL) == RequestRewrite("vimeo", "strict", way, None)


@each_row(
    ("lines", "expected"),
    [
        ([], b"r=7"),
        ([b""], b"r=7"),
        ([b"r=255"], b"r=7"),
        ([b"a=1; r=255; b=2"], b"a=1; b=2; r=7"),
        ([b"a=1", b"r=255;r=254 ;b"], b"a=1; b; r=7"),
        ([b"R=255; %72=255; %2572=255;+r =255; r"], b"r=7"),
        ([b"a=1,r=255; ar=1; b=r"], b"ar=1; b=r; r=7"),
    ],
)
def test_a_cookie_takes_the_place_of_the_client_s(lines: list[bytes], expected: bytes) -> None:
    assert set_cookies(lines, ((b"r", b"7"),)) == expected


@each_row(
    ("host", "level", "asked"),
    [
        (b"www.google.com", "strict", b"forcesafesearch.google.com"),
        (b"www.google.com", "moderate", b"forcesafesearch.google.com"),
        (b"google.co.uk", "strict", b"forcesafesearch.google.com"),
        (b"ipv4.google.com", "strict", None),
        (b"mail.google.com", "strict", None),
        (b"maps.google.com", "strict", None),
        (b"www.bing.com", "strict", b"strict.bing.com"),
        (b"edgeservices.bing.com", "strict", b"strict.bing.com"),
        (b"bing.com", "strict", None),
        (b"strict.bing.com", "strict", None),
        (b"duckduckgo.com", "strict", b"safe.duckduckgo.com"),
        (b"www.duckduckgo.com", "strict", b"safe.duckduckgo.com"),
        (b"start.duckduckgo.com", "strict", b"safe.duckduckgo.com"),
        (b"start.duckduckgo.com", "moderate", None),
        (b"html.duckduckgo.com", "strict", None),
        (b"www.youtube.com", "strict", b"restrict.youtube.com"),
        (b"m.youtube.com", "moderate", b"restrictmoderate.youtube.com"),
        (b"youtubei.googleapis.com", "strict", b"restrict.youtube.com"),
        (b"www.youtube-nocookie.com", "strict", b"restrict.youtube.com"),
        (b"youtube.com", "strict", None),
        (b"i.ytimg.com", "strict", None),
        (b"search.brave.com", "strict", b"safe.search.brave.com"),
        (b"startpage.com", "strict", b"safe.startpage.com"),
        (b"www.startpage.com", "moderate", b"safe.startpage.com"),
        (b"api.qwant.com", "strict", b"safeapi.qwant.com"),
        (b"www.qwant.com", "strict", None),
        (b"www.google.com", "off", None),
        (b"search.yahoo.com", "strict", None),
        (b"other.example", "strict", None),
    ],
)
def test_a_connection_is_led_to_the_host_that_forces_the_level(host: bytes, level: str, asked: bytes | None) -> None:
    assert safe_host(host, dict.fromkeys(services(), level)) == asked
    assert safe_host(host, {}) is None


@each_row(
    ("host", "asked"),
    [
        (b"search.brave.com", b"safe.search.brave.com"),
        (b"pixabay.com", b"safesearch.pixabay.com"),
        (b"yandex.com.tr", b"213.180.193.56"),
        (b"www.ya.ru", b"213.180.193.56"),
        (b"www.ecosia.org", b"strict-safe-search.ecosia.org"),
    ],
)
def test_where_that_is_what_is_documented_another_host_is_asked(host: bytes, asked: bytes) -> None:
    change = rewrite_for_safe_search(host, b"/search?q=x", ALL)
    assert change is not None
    assert (change.way, change.target) == (SafeSearchSetting((), (), (), asked), None)
    assert rewrite_for_safe_search(asked, b"/search?q=x", ALL) is None


@each_row(
    "host",
    [b"google.com", b"www.google.com", b"google.de", b"www.google.co.uk", b"www.google.com.au", b"ipv6.google.com"],
)
def test_google_is_google_in_every_country(host: bytes) -> None:
    assert target_of(host, b"/search?q=x") == b"/search?q=x&" + GOOGLE


@each_row(
    "host",
    [
        b"google.evil.example",
        b"google.com.evil.example",
        b"www.google.com.evil.example",
        b"notgoogle.com",
        b"google.example",
        b"google",
        b"com",
        b"www.google.com.",
        b"xn--ggle-55da.com",
        b"scholar.google.com",
        b"notbing.com",
        b"bing.com.evil.example",
        b"notyoutube.com",
        b"search.yahoo.com.evil.example",
        b".",
        b"",
        b"[::1]",
        b"192.0.2.1",
    ],
)
def test_a_host_that_only_looks_like_one_is_left_alone(host: bytes) -> None:
    assert rewrite_for_safe_search(host, b"/search?q=x", ALL) is None


@each_row(
    "path", [b"/%73earch", b"//search", b"/x/../search", b"/./search", b"/search;x", b"/x/..%2fsearch", b"/\\search"]
)
def test_a_search_page_counts_in_every_spelling(path: bytes) -> None:
    assert target_of(b"www.google.com", path + b"?q=x") == path + b"?q=x&" + GOOGLE


@each_row(
    ("query", "expected"),
    [
        (b"q=x&safe=off", b"q=x&safe=active"),
        (b"safe=off&q=x", b"q=x&safe=active"),
        (b"safe=off", b"safe=active"),
        (b"", b"safe=active"),
        (b"safe", b"safe=active"),
        (b"safe=", b"safe=active"),
        (b"safe=off&q=x&safe=images", b"q=x&safe=active"),
        (b"safe=active&q=x&safe=off", b"q=x&safe=active"),
        (b"safe=active&q=x&safe=active", b"q=x&safe=active"),
        (b"q=x&%73afe=off", b"q=x&safe=active"),
        (b"q=x&%73%61%66%65=off", b"q=x&safe=active"),
        (b"q=x&%2573afe=off", b"q=x&safe=active"),
        (b"q=x&%u0073afe=off", b"q=x&safe=active"),
        (b"q=x&SAFE=off", b"q=x&safe=active"),
        (b"q=x&Safe=active", b"q=x&safe=active"),
        (b"q=x&+safe+=off", b"q=x&safe=active"),
        (b"q=x&safe=%61ctive", b"q=x&safe=active"),
        (b"q=x&safe=active%00", b"q=x&safe=active"),
        (b"q=x&safe=active=off", b"q=x&safe=active"),
        (b"q=x;safe=off", b"q=x&safe=active"),
        (b"q=x;safe=active", b"q=x&safe=active"),
        (b"q=x&safe=active;y=1", b"q=x&y=1&safe=active"),
        (b"q=x;safe=off&y=1", b"q=x&y=1&safe=active"),
        (b"q=x;safe=off;y=1", b"q=x;y=1&safe=active"),
        (b"q=x#&safe=off", b"q=x&safe=active"),
        (b"q=x&safe=active#", b"q=x&safe=active"),
    ],
)
def test_the_parameter_is_set_whatever_the_client_gave(query: bytes, expected: bytes) -> None:
    assert set_parameters(b"/search?" + query, SAFE) == b"/search?" + expected


@each_row(
    "query",
    [
        b"q=a+b%20c%2Bd&",
        b"&&q=%zz&x",
        b"q=safe",
        b"safe%3Doff",
        b"q=x&safe%3Doff",
        b"unsafe=off",
        b"safer=off&asafe=off",
        b"q=?safe=off",
        b"q=\xff\xc3\xbc",
        b"a=1;b=2",
    ],
)
def test_everything_else_stays_octet_for_octet(query: bytes) -> None:
    assert set_parameters(b"/search?" + query, SAFE) == b"/search?" + query + b"&safe=active"


_PIECES = st.sampled_from(
    b"safe SAFE %73afe ssui kp adlt vm q = & ; # ? % %26 + active on off strict 1 r safe=active &kp=1& / \xff".split()
)
_TARGETS = st.builds(
    b"%b%b".__mod__,
    st.tuples(
        st.sampled_from([b"/search?", b"/search", b"/", b"/?", b"/webhp?q=x&"]),
        st.lists(_PIECES, max_size=12).map(b"".join) | octets(),
    ),
)


@given(_TARGETS)
def test_after_it_a_server_reads_the_parameter_once_and_right(target: bytes) -> None:
    asked = set_parameters(target, SAFE)
    query = asked.partition(b"?")[2].decode("latin-1")
    for seen in (query, query.replace(";", "&")):  # by a server that ends a parameter at "&", and at either
        fields = parse_qs(seen, keep_blank_values=True, encoding="latin-1")
        assert [value for name, values in fields.items() if name.lower() == "safe" for value in values] == ["active"]
    assert b"#" not in asked


def test_a_rewrite_says_what_it_changes_and_by_which_document_but_not_what_was_asked() -> None:
    secret = b"/search?q=secret"
    for service in services().values():
        whole = service.levels["strict"]
        assert str(rewrite_for_safe_search(min(service.led if whole.host else service.hosts), secret, ALL)) == (
            f"{service.title}, strict: {whole} (source: {service.source})"
        )
    source = "(source: chromium.org/developers/design-documents/safesearch)"
    parameters = "safe=active is set in the query, ssui=on is set in the query"
    led = "forcesafesearch.google.com is asked instead"
    for host, target, changes in (
        (b"google.com", secret, f"{led}, {parameters}"),
        (b"ipv6.google.com", secret, parameters),
        (b"google.com", b"/maps", led),
        (b"google.com", secret + b"&safe=active&ssui=on", led),
    ):
        assert str(rewrite_for_safe_search(host, target, ALL)) == f"Google, strict: {changes} {source}"
    assert str(rewrite_for_safe_search(b"www.youtube.com", secret, {"youtube": "moderate"})) == (
        "YouTube, moderate: restrictmoderate.youtube.com is asked instead, the header YouTube-Restrict: Moderate is "
        "set (source: support.google.com/a/answer/6214622)"
    )
    assert str(rewrite_for_safe_search(b"vimeo.com", secret, ALL)) == (
        "Vimeo, strict: the cookie content_rating=7 is set (source: github.com/serv-inc/safe-search, meta/cookie/vimeo)"
    )
    assert str(rewrite_for_safe_search(b"search.brave.com", secret, ALL)) == (
        "Brave Search, strict: safe.search.brave.com is asked instead (source: search.brave.com/help/safesearch)"
    )


def test_every_service_is_whole_and_no_host_is_of_two() -> None:
    hosts = [host for service in services().values() for host in service.hosts]
    assert len(hosts) == len(set(hosts))
    for name, service in services().items():
        assert name == service.name
        assert "strict" in service.levels
        assert set(service.levels) <= {"strict", "moderate"}
        assert all(re.fullmatch(rb"[a-z0-9-]+(\.[a-z0-9-]+)+", host) for host in service.hosts)
        assert all(suffix.startswith(b".") and suffix[1:] in service.hosts for suffix in service.suffixes)
        assert all(service.levels.values())
        is_led = any(setting.host for setting in service.levels.values())
        assert service.led <= service.hosts
        assert bool(service.led) or not is_led
        assert is_led or all(safe_host(host, ALL) is None for host in service.hosts)


def read(text: str) -> tuple[dict[str, str], list[str]]:
    report = ProblemReport("policy.yaml")
    document = read_document(text.encode(), report)
    assert document is not None
    assert isinstance(document.value, dict)
    return dict(read_safe_search(document.value["safe-search"], report)), list(map(str, report.errors))


@each_row(
    ("text", "expected"),
    [
        ("safe-search: strict", ALL),
        ("safe-search: 'off'", dict.fromkeys(services(), "off")),
        ("safe-search: off", dict.fromkeys(services(), "off")),
        ("safe-search: moderate", ALL | dict.fromkeys(("duckduckgo", "youtube", "qwant", "flickr"), "moderate")),
        ("safe-search: [google, bing]", {"google": "strict", "bing": "strict"}),
        ("safe-search: []", {}),
        ("safe-search: {}", {}),
        (
            "safe-search: {google: strict, youtube: moderate, bing: off, yahoo: 'off'}",
            {"google": "strict", "bing": "off", "youtube": "moderate", "yahoo": "off"},
        ),
    ],
)
def test_a_policy_says_it_in_three_ways(text: str, expected: dict[str, str]) -> None:
    assert read(text) == (expected, [])


FORMS = "expected one of strict, moderate, off, a list of services, or a mapping of services to levels"


@each_row(
    ("text", "errors"),
    [
        ("safe-search: on", [f"policy.yaml:1: safe-search: on: {FORMS}"]),
        ("safe-search:", [f"policy.yaml:1: safe-search: {FORMS}"]),
        ("safe-search:\n- gogle\n- bing", [f"policy.yaml:2: safe-search: 'gogle': unknown service (known: {NAMES})"]),
        ("safe-search:\n- [bing]", [f"policy.yaml:2: safe-search: a list: unknown service (known: {NAMES})"]),
        (
            "safe-search:\n  gogle: strict\n",
            [f"policy.yaml:2: gogle: unknown key; did you mean 'google'? (known: {NAMES})"],
        ),
        ("safe-search:\n  youtube: on", ["policy.yaml:2: youtube: on: expected one of strict, moderate, off"]),
        ("safe-search:\n\n  google: moderate", ["policy.yaml:3: google: moderate: expected one of strict, off"]),
        (
            "safe-search:\n  google:\n  bing: [x]",
            ["policy.yaml:2: google: expected text, not nothing", "policy.yaml:3: bing: expected text, not a list"],
        ),
    ],
)
def test_a_mistake_names_its_line_and_what_is_allowed(text: str, errors: list[str]) -> None:
    assert read(text)[1] == errors
