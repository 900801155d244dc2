"""Network filters: each option, against URLs and their contexts."""

from hushlist.core.match.context import Context
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.network_filter import UrlInContext
from unit.rows import each_row

URL = "https://cdn.ads.example/v1/Ad.js?u=1"
#: of a script of another site
CONTEXT = Context("www.news.example", "script", is_third_party=True, method="GET")
BY_POST = Context("www.ads.example", "image", is_third_party=False, method="POST")
PAGE = Context("cdn.ads.example", "document", is_third_party=False, method="GET")


def fits(text: str, context: Context = CONTEXT, url: str = URL, *, may_guess: bool = False) -> bool:
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    return parse_filter(text).fits(UrlInContext(url.encode(), host.encode(), context, may_guess=may_guess))


@each_row(
    ("text", "expected"),
    [
        ("||ads.example^", True),
        ("||s.example^", False),
        ("||cdn.ads.example/v1/", True),
        ("||ads.example/v1", True),
        ("||ADS.example/*/ad.js", True),
        ("||ads.example^*?u=", True),
        ("|https://cdn.", True),
        ("https:*/ad.js", True),
        ("https:*ads*/ad.js*u=", True),
        ("http:*/ad.js", False),
        ("/v1/*/v1/", False),
        ("|http://cdn.", False),
        ("|cdn.", False),
        ("/ad.js", True),
        ("/ad.js|", False),
        ("?u=1|", True),
        ("/ad^", False),
        ("/ad.js^u^", True),
        ("?u=1^", True),
        ("?u=1^|", True),
        ("/ad.js^u=^^", False),
        ("/v1^ad.js?", True),
        ("/v1^ad.js/", False),
        ("/ad.js?u=1^", True),
        ("/AD.js$match-case", False),
        ("/Ad.js$match-case", True),
        ("/v[0-9]\\/ad/", True),
        ("/v[0-9]\\/ad/$match-case", False),
        ("/v[2-9]\\/ad/", False),
        ("||ads.*^", True),
        ("||*.example^", True),
        ("||*.cdn.ads.example^", False),
        ("||*.js^", False),
        ("||*.js?u=1|", False),
        ("||*.ads.example/v1/", True),
        ("||ads.example^|", True),
        ("||ads.example:443^", False),
    ],
)
def test_a_pattern_fits_urls(text: str, expected: bool) -> None:
    assert fits(text) is expected


@each_row(
    ("options", "of_other", "of_own", "of_page"),
    [
        ("script", True, False, False),
        ("~script", False, True, False),
        ("script,image", True, True, False),
        ("document", False, False, True),
        ("doc,script", True, False, True),
        ("all", True, True, True),
        ("script,popup", True, False, False),
        ("third-party", True, False, False),
        ("3p", True, False, False),
        ("css,xhr,frame,beacon,object-subrequest", False, False, False),
        ("xhr,popunder", False, False, False),
        ("~third-party", False, True, False),
        ("1p", False, True, False),
        ("first-party,image", False, True, False),
        ("domain=news.example", True, False, False),
        ("from=news.example|ads.example", True, True, False),
        ("domain=~news.example", False, True, False),
        ("domain=news.example|~www.news.example", False, False, False),
        ("domain=news.*", True, False, False),
        ("domain=~news.*", False, True, False),
        ("to=ads.example", True, True, False),
        (r"domain=/^www\.n.ws\.example$/", True, False, False),
        (r"domain=~/^www\.n.ws\.(example|net)$/", False, True, False),
        (r"domain=/^(x|y)\./|ads.example,script,~css", False, False, False),
        (r"script,to=/^cdn[0-9]*\.[a-z]{1,5}\./", True, False, False),
        ("strict1p", False, False, False),
        ("strict3p", True, True, False),
        ("~strict1p", True, True, False),
        ("redirect=noop.js", True, False, False),
        ("redirect=1x1.gif:5", False, True, False),
        ("redirect=nooptext", True, True, False),
        ("redirect=google-analytics_analytics.js:5", True, False, False),
        ("redirect=click2load", True, True, False),
        ("redirect=noop.js,image", False, True, False),
        ("rewrite=abp-resource:blank-js", True, False, False),
        ("empty", True, True, False),
        ("mp4,domain=news.example", False, False, False),
        ("to=~cdn.ads.example", False, False, False),
        ("to=ads.*|~x.example", True, True, False),
        ("denyallow=ads.example|x.example", False, False, False),
        ("denyallow=x.example", True, True, False),
        ("method=get", True, False, False),
        ("method=~get", False, True, False),
        ("method=post|put", False, True, False),
        ("important", True, True, False),
        ("xhr,css,frame,beacon,font,media,object,other,websocket", False, False, False),
        ("_,script", True, False, False),
    ],
)  # fmt: skip
def test_options_narrow_a_filter(options: str, of_other: bool, of_own: bool, of_page: bool) -> None:
    text = f"/v1/${options}"
    assert (fits(text), fits(text, BY_POST), fits(text, PAGE)) == (of_other, of_own, of_page)


def test_options_begin_where_nothing_else_follows() -> None:
    url = "https://cdn.ads.example/v1/$a/b$script/?c=$d"
    assert fits("/v1/$a/b$script/?c=$", url=url)
    assert fits("/v1/$a/b$script", url=url)
    assert not fits("/v1/$a/b$image", url=url)
    assert fits(r"/v1\/\$[a-z]$/", url="https://cdn.ads.example/v1/$a")
    assert not fits(r"/v1\/\$[a-z]$/", url=url)
    assert fits(r"/v1$/$domain=/^(www|x),?\.news\.example$/,script", url="https://cdn.ads.example/v1")


def test_a_strict_party_needs_the_page() -> None:
    unknown = Context(kind="script")
    assert not fits("/v1/$strict1p", unknown)
    assert fits("/v1/$strict1p", unknown, may_guess=True)
    assert not fits("/v1/$strict1p", Context(is_third_party=True), may_guess=True)
    assert fits("/v1/$strict3p", Context(is_third_party=True))
    assert fits("/v1/$strict1p", Context("cdn.ads.example", "script"))


def test_a_page_is_meant_by_a_whole_host_or_where_it_is_named() -> None:
    assert fits("||ads.example^$important", PAGE)
    assert fits("||ads.example^$~third-party", PAGE)
    assert not fits("||ads.example^$~image", PAGE)
    assert not fits("||ads.example/", PAGE)


@each_row("options", ["script", "~script", "3p", "~third-party", "domain=a.example", "domain=~a.example",
                                     "method=get", "method=~get"])  # fmt: skip
def test_what_is_not_known_fits_an_option_only_by_a_guess(options: str) -> None:
    assert not fits(f"/v1/${options}", Context())
    assert fits(f"/v1/${options}", Context(), may_guess=True)
    assert parse_filter(f"/v1/${options}").names_context


def test_an_international_name_is_compared_as_a_browser_sends_it() -> None:
    assert fits("||bücher.example/ä", url="https://www.xn--bcher-kva.example/%C3%A4")
    assert fits("/ä.js", url="https://a.example/%c3%a4.js")
    assert fits("/v1/$domain=bücher.example", Context("xn--bcher-kva.example", "script", True, "GET"))


@each_row(
    ("one", "other"),
    [
        ("||a.example^$script,3p", "||a.example^$third-party,~first-party,script"),
        ("||a.example/Activity?", "||a.example/activity?"),
        ("/ad$domain=a.example|~b.a.example", "/ad*$from=~B.a.example|a.example"),
        ("/ad$xhr,doc", "/ad$document,xmlhttprequest"),
        ("@@||a.example^$document", "@@*$domain=a.example,all"),
        (r"/ad\d/$image", r"/ad\d/$image,image"),
    ],
)
def test_two_that_mean_the_same_are_equal_and_one_takes_the_other_back(one: str, other: str) -> None:
    first, second, back = map(parse_filter, (one, other, f"{other}{',' if '$' in other else '$'}badfilter"))
    assert first == second
    assert first.digest == second.digest != back.digest == first.badfilter_digest


@each_row(
    "other",
    [
        *("@@/Ad$script", "/Ad$script,important", "/Ad$script,match-case", "/Ad/$script", "/Ad$image", "/Ad$script,3p"),
        *(
            "/Ad$script,strict1p",
            "/Ad$script,strict3p",
            "/Ad$script,domain=a.example",
            "/Ad$script,to=a.example",
            "/Ad$script,method=get",
            "/Ads$script",
        ),
    ],
)
def test_two_that_mean_something_else_are_different(other: str) -> None:
    one = parse_filter("/Ad$script")
    assert one != parse_filter(other)
    assert one.badfilter_digest != parse_filter(f"{other},badfilter").digest


def test_whom_an_option_names_is_told_from_whom_it_leaves_out() -> None:
    keys = [
        f"/ad$script,{option}"
        for option in ("domain=a.example", "domain=~a.example", "to=a.example", "denyallow=a.example")
    ]
    assert len({parse_filter(key).digest for key in keys}) == 4


@each_row(
    ("text", "words", "guide"),
    [
        ("||cdn.ads.example^*/banner/x", [b"cdn", b"ads", b"example", b"banner"], b"cdn.ads.example"),
        ("||ads.", [b"ads"], b""),
        ("banner", [], b""),
        ("/banner", [], b""),
        ("/Banner.js$match-case", [b"banner"], b""),
        ("ad/banner|", [b"banner"], b""),
        ("|https://x-", [b"https", b"x"], b""),
        ("/^https:\\/\\/[a-z]+\\.ads\\.example\\/x/", [b"https", b"ads", b"example"], b""),
        ("||a.example/x", [b"a", b"example"], b"a.example"),
    ],
)
def test_words_are_those_that_every_url_has_that_fits(text: str, words: list[bytes], guide: bytes) -> None:
    own = parse_filter(text)
    assert (own.words, own.guide) == (words, guide)


@each_row(
    ("text", "pairs"),
    [
        ("||cdn.ads.example^*/banner/x", [b"cdn ads", b"ads example"]),
        ("/a/*/b/c^", [b"b c"]),
        ("x/ads/Big^banner.js", [b"ads big", b"big banner"]),
        ("/^https:\\/\\/[a-z]+\\.ads\\.example\\/x/", [b"ads example"]),
        ("/banner", []),
    ],
)
def test_pairs_are_words_that_every_url_has_in_a_row_that_fits(text: str, pairs: list[bytes]) -> None:
    assert parse_filter(text).pairs == pairs
