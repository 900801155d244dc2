"""The table of network filters: what it finds is what fits, and what it reads is no more than is asked for."""

from collections.abc import Iterable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.match.context import KINDS, Context
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import FILTERED, IndexFileError
from hushlist.core.match.index_writer import assemble, merge_all
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.match.rule_collector import RunCollector
from hushlist.core.match.rule_match import Match
from hushlist.extensions.adblock import filter_table, network_filter
from hushlist.extensions.adblock.filter_index import FilterIndex
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.filter_table import MOST_OF_KEY
from hushlist.extensions.adblock.network_filter import MOST_WORK, NetworkFilter, UrlInContext, Work
from support.engines import index_of


def index_with(filters: Iterable[str], layer: str = "") -> Index:
    rules = []
    for line, text in enumerate(filters, 1):
        action = Action.ALLOW if text.startswith("@@") else Action.BLOCK
        rules.append(Rule(parse_filter(text), Terms(action, "list", "file", layer=layer), line))
    return index_of(rules)


UNKNOWN = Context()


def filters_matching(index: Index, url: str, context: Context = UNKNOWN, *, is_stopped: bool = True) -> list[str]:
    name = url.partition("://")[2].partition("/")[0].encode()
    host = index.on_host(name)
    asked = UrlInContext(url.encode(), name, context)
    matches = (*host.matches, *fitting(index, asked, is_stopped=is_stopped))
    return sorted(str(match.rule.pattern) for match in matches)


def filters_of(index: Index) -> FilterIndex:
    filters = index.filters["adblock"]
    assert isinstance(filters, FilterIndex)
    return filters


def fitting(index: Index, asked: UrlInContext, *, is_stopped: bool = False) -> list[Match]:
    """The filters that fit, without those for the whole host."""
    is_named = index.on_host(asked.host).bits & FILTERED != 0
    return filters_of(index).find(asked, is_named=is_named, is_stopped=is_stopped) if index.filters else []


HOSTS = ["a.example", "b.a.example", "ads.example", "x.net"]
PATHS = ["/", "/ads/a.js", "/b/ads.js?x=1", "/banner", "/a.example/x", "/ADS/"]
FILTERS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "@@"]),
    st.sampled_from([
        *("||a.example^", "||ads.example/", "||a.example/ads/", "/ads/", "ads", "|https://ads.", ".js|", "/ads^*x=",
          "||x.net^$important", "/(ads|b)\\/a/", "||*.example^", "||a.example^*.js", "banner"), "^ads^",
          "/ads/a.", "^b/ads.js", ".net/ads^", "|https://b.a.example/",
    ]),
    st.sampled_from(["", "$script", "$~image", "$3p", "$domain=x.net", "$domain=~x.net", "$domain=x.*|ads.example",
                     "$to=a.example", "$match-case", "$badfilter", "$document"]),
).filter(lambda own: own.count("$") < 2)  # fmt: skip


@given(st.lists(FILTERS, max_size=12), st.sampled_from(HOSTS), st.sampled_from(PATHS), st.sampled_from(["", *HOSTS]),
       st.sampled_from(["", *KINDS]), st.sampled_from([None, True, False]))  # fmt: skip
def test_what_is_found_is_what_fits(
    filters: list[str], host: str, path: str, page: str, kind: str, party: bool | None
) -> None:
    context = Context(page, kind, party, "GET")
    asked = UrlInContext(f"https://{host}{path}".encode(), host.encode(), context)
    parsed = list(map(parse_filter, filters))
    taken_back = {own.digest for own in parsed if own.is_badfilter}
    whole = UrlInContext(f"http://{host}/".encode(), host.encode(), context)
    fitting = {own.digest for own in parsed if not own.is_badfilter and own.fits(whole if own.is_of_hosts else asked)}
    expected = fitting - {own.digest for own in parsed if own.badfilter_digest in taken_back}
    texts = filters_matching(index_with(filters), f"https://{host}{path}", context)
    assert {parse_filter(text).digest for text in texts} == expected


def test_exceptions_are_looked_for_only_where_something_stops() -> None:
    index = index_with(["@@/ads/$script", "||a.example/ads/x"])
    script = Context("x.net", "script", True, "GET")
    assert filters_matching(index, "https://x.net/ads/", script, is_stopped=False) == []
    assert filters_matching(index, "https://x.net/ads/", script) == ["@@/ads/$script"]
    assert len(filters_matching(index, "https://a.example/ads/x", script, is_stopped=False)) == 2


def test_one_takes_back_only_those_of_its_own_layer() -> None:
    text = "||a.example/ads/"
    rules = [
        Rule(parse_filter(own), Terms(Action.BLOCK, "list", "file", layer=layer), 1)
        for layer, own in (("one", text), ("two", text), ("two", f"{text}$badfilter"))
    ]
    index = index_of(rules)
    asked = UrlInContext(b"https://a.example/ads/", b"a.example", Context())
    matches = fitting(index, asked)
    assert [match.rule.terms.layer for match in matches] == ["one"]


def test_a_host_knows_whether_filters_are_below_it() -> None:
    index = index_with(["||ads.example/x", "@@||b.example/x"])
    assert not index.has_general_filters
    assert index.on_host(b"www.ads.example").bits == FILTERED
    assert index.on_host(b"www.ads.example").has_rules_below
    assert index.on_host(b"b.example").bits & ~FILTERED
    assert not index.on_host(b"other.example").bits
    assert index_with(["/ads/"]).has_general_filters
    assert not index_with(["@@||a.example^"]).has_general_filters


_NAMES = "|".join(f"x{number}.example" for number in range(600))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "number"), [("w{}x^ads$image,domain=~d{}.example", 16_000),
                                              (f"/w{{}}x/ads$image,domain=d{{}}.example|{_NAMES}", 400)],
                         ids=["many", "long"])  # fmt: skip
@pytest.mark.thorough
def test_a_list_can_make_a_request_take_only_so_long(text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def read_filter(text: str, **marks: bool) -> NetworkFilter:
        read.append(text)
        return parse_filter(text, **marks)

    monkeypatch.setattr(filter_table, "parse_filter", read_filter)
    index = index_with(text.format(one, one) for one in range(number))
    url = b"https://a.example/" + b"/".join(b"w%dx/ads" % one for one in range(number))
    for _ in range(2):  # what is read is kept, and that changes nothing
        asked = UrlInContext(url, b"a.example", Context("", "image"))
        fitting(index, asked)
        assert asked.work.spent == {0}
    assert len(read) < number


def test_a_list_has_few_filters_for_each_word_and_chooses_words_by_itself() -> None:
    costly = [f"zq{number:05}xj" for number in range(3 * MOST_OF_KEY)]
    worded = [f"/login/*zq{number}" for number in range(2 * MOST_OF_KEY)]
    first, second = (
        RunCollector(number, layer, is_of_filters=True) for number, layer in enumerate(("first", "second"))
    )
    for collector, source, filters in (
        (first, "a.txt", [*costly, *worded, "/login/ads?", "||fine.example/x"]),
        (second, "b.txt", ["/login/track", *(f"/only{number}/login?" for number in range(MOST_OF_KEY))]),
    ):
        layer = "first" if collector is first else "second"
        terms = Terms(Action.BLOCK, source, source, layer=layer)
        collector.add(Rule(parse_filter(text), terms, line) for line, text in enumerate(filters, 1))
    parts = [first.finish(), second.finish()]
    file = BytesIO()
    directory = assemble(file, parts, merge_all(parts))
    assert directory.filter_lists == {"adblock": (("a.txt", "first"), ("b.txt", "second"))}
    left_out = [text for _, text, _ in parts[0].left_out]
    assert left_out == [*costly[MOST_OF_KEY:], *worded[MOST_OF_KEY:]]
    line, _, why = parts[0].left_out[0]
    assert (line, why) == (
        MOST_OF_KEY + 1,
        "the list has more than 128 filters that name no word: each costs time on every such request",
    )
    assert "'login'" in parts[0].left_out[-1][2]
    assert parts[1].left_out == []
    index = Index(file.getvalue())
    asked = UrlInContext(b"https://a.example/login/track/only7/login?", b"a.example", UNKNOWN)
    assert [str(own.rule.pattern) for own in fitting(index, asked)] == ["/login/track", "/only7/login?"]
    assert asked.work.left > MOST_WORK * 8 // 10
    assert asked.work.spent == set()
    assert filters_matching(index, "https://a.example/login/ads?") == ["/login/ads?"]


def test_a_list_that_is_spent_hides_no_filter_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_filter, "MOST_OF_LIST", 1 << 16)
    many = [(f"/w{number}x/*zq", "many") for number in range(40)]
    index = index_of(
        [
            Rule(parse_filter(text), Terms(Action.BLOCK, source, source, layer=source), line)
            for line, (text, source) in enumerate([*many, ("/w1x/w2x?", "few")])
        ]
    )
    url = b"https://a.example/w1x/w2x?" + b"/".join(b"w%dx" % number for number in range(40))
    asked = UrlInContext(url, b"a.example", UNKNOWN, work=Work(1 << 10))
    assert [str(own.rule.pattern) for own in fitting(index, asked)] == ["/w1x/w2x?"]
    assert asked.work.spent == {0}
    assert filters_of(index).name_of(0) == ("many", "many")


def test_a_broken_table_is_refused() -> None:
    index = index_with(["||ads.example/x"])
    section = index.directory.sections["adblock words texts"]
    octets = bytearray(index._octets[:])
    text = octets.index(b"||ads.example/x", section.offset)
    octets[text : text + 5] = b"/(((("
    octets[text + 14] = ord("/")
    with pytest.raises(IndexFileError, match="a filter cannot be read"):
        filters_matching(Index(bytes(octets)), "https://ads.example/x")
    del index.directory.sections["adblock words fan"]
    with pytest.raises(IndexFileError, match="its filters cannot be read"):
        index._open_filters("adblock", {})


@pytest.mark.parametrize("number", [1, 100], ids=["found by the host", "found by words"])
def test_only_filters_that_name_the_host_are_found_where_only_they_are_asked_for(number: int) -> None:
    filters = filters_of(index_with([*(f"||a.example/w{own}x/" for own in range(number)), "/w0x/", "@@/w0x/"]))
    assert filters is not None
    asked = UrlInContext(b"https://www.a.example/w0x/", b"www.a.example", UNKNOWN)
    for only_named, expected in (
        (True, {"||a.example/w0x/", "@@/w0x/"}),
        (False, {"||a.example/w0x/", "/w0x/", "@@/w0x/"}),
    ):
        matches = filters.find(asked, is_named=True, is_stopped=False, only_named=only_named)
        assert {str(match.rule.pattern) for match in matches} == expected
