"""A request as network filters see it: every URL that it may be for them, and one bound for all of these."""

from collections.abc import Iterable

from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.url.path_interpretations import FormBudget
from hushlist.core.url.request import Request, StatedContext, canonical_forms, request_of
from hushlist.extensions.adblock.filter_index import FilteredRequest, FilterIndex
from hushlist.extensions.adblock.filter_reader import parse_filter
from support.engines import index_of


def seen(request: Request, filters: Iterable[str]) -> FilteredRequest:
    terms = Terms(Action.BLOCK, "list", "file")
    index = index_of([Rule(parse_filter(text), terms, line) for line, text in enumerate(filters, 1)])
    filters = index.filters["adblock"]
    assert isinstance(filters, FilterIndex)
    return filters.of_request(request, FormBudget(), may_guess=False)


def fitting(own: FilteredRequest, request: Request, host: bytes) -> list[list[str]]:
    (form,) = canonical_forms(request, host)
    every = own.matches(host, form, is_first=True, is_named=True, is_stopped=False)
    return [[str(match.rule.pattern) for match in matches] for matches in every]


def test_each_spelling_has_its_own_matches() -> None:
    request = request_of(b"http://h.example:81/%61?u=%2F")
    filters = [
        "|http://h.example:81/%61",
        "|http://h.example/a?u=%2F",
        "||h.example/a?u=/$xmlhttprequest",
        "/a?u=/$image",
    ]
    assert fitting(seen(request, filters), request, b"h.example") == [
        ["|http://h.example:81/%61"],
        [],
        ["|http://h.example/a?u=%2F"],
        [],
    ]


def test_a_websocket_by_its_own_scheme_is_as_the_request_for_one() -> None:
    filters = ("||h.example^$websocket", "|wss://h.example/s", "/s$~third-party,image", "|https://", "/s$websocket,3p")
    by_scheme = request_of(b"wss://h.example/s", StatedContext(b"https://page.example/"))
    by_header = request_of(b"https://h.example/s", StatedContext(b"https://page.example/"))
    by_header.fields = ((b"Upgrade", b"websocket"),)
    expected = [["||h.example^$websocket", "|wss://h.example/s", "/s$websocket,3p"]]
    for request in (by_scheme, by_header):
        assert fitting(seen(request, filters), request, b"h.example") == expected
    own_page = request_of(b"ws://h.example:81/s")
    own_page.fields = ((b"Sec-Fetch-Site", b"cross-site"), (b"Origin", b"http://page.example"))
    assert "/s$websocket,3p" in fitting(seen(own_page, filters), own_page, b"h.example")[0]


def test_all_hosts_and_spellings_have_one_bound() -> None:
    request = request_of(b"http://h.example/ads/x")
    own = seen(request, (f"/ads/x$domain=~d{number}.example" for number in range(100)))
    for number in range(40):
        assert fitting(own, request, b"h%d.h.example" % number) == [[]]
        if own.spent:
            break
    assert 5 < number < 35
    assert own.spent == [("list", "")]
