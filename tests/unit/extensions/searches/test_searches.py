"""Searches and words in addresses: what is typed has one normal form, whatever a pupil tries, and rules for it hold."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.http import Headers
from mitmproxy.test import tutils

from hushlist.cli import main
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import LogRecord
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.rule import Action
from hushlist.core.url.http_head import sends_form
from hushlist.core.url.request import Request, request_of
from hushlist.core.url.request_bodies import with_form
from hushlist.extensions.journal.log_entry import fields_of
from hushlist.extensions.journal.log_keys import LoggedQueries, LogSettings
from hushlist.extensions.journal.log_record import Privacy, hiding_of, shown_record
from hushlist.extensions.searches import engines
from hushlist.extensions.searches.engines import Engines, engine_of, shipped_engines
from hushlist.extensions.searches.search_readings import typed_words
from hushlist.extensions.searches.word_lists import read_searches
from hushlist.extensions.searches.words import MOST_WORDS, combination, combinations_of, words_of
from support.policies import read_whole, write_files, write_policy
from support.readings import read_list
from unit.rows import each_row

FILES = {
    "flag.searches": "# to look out for\nkill+myself\nSuicide\n",
    "fine.searches": "suicide squad\n",
    "own.words": "casino\nfree money\n",
}
POLICY = """
search-forms:
- {host: wiki.school.example, path: /find, keys: 'q,text'}
- {host: shop.example, path: '/tag/{}'}
layers:
- name: searches
  lists:
  - {file: flag.searches, reason: Talk to us, category: 'hrn://school.example/self-harm'}
  - {file: fine.searches, action: allow}
- name: addresses
  lists: [{file: own.words, action: warn}]
"""
GOOGLE = "https://www.google.com/search?q="


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return load_engine(write_policy(tmp_path_factory.mktemp("searches"), POLICY, FILES))


def done(engine: Engine, url: str) -> str:
    return engine.decide_url(url.encode()).action.value


# -- ways of pupils ----------------------------------------------------------------------------------------------------


@each_row(
    "typed",
    [
        "kill+myself",
        "how+to+kill+myself+quickly",
        "KILL+MySelf",
        "kill%20myself",
        "%6bill+%6Dyself",
        "%256bill+myself",
        "kill%2Bmyself",
        "kill%26myself",
        "x%26y=kill+myself",
        "myself%0Akill",
        '"kill"+"myself"!',
        "kill-myself",
        "kill_myself",
        "kill/myself",
        "kill&q=myself",
        "kill;q=myself",
        "kill;myself",
        "a&Q=kill&%71=myself",
        "k%EF%BD%89ll+myself",  # a letter of full width
        "k%E2%80%8Bill+my%C2%ADself",  # a space without width, a soft hyphen
        "ki%E2%80%8Dll+myself",
        "k%D1%96ll+mys%D0%B5lf",  # letters of Cyrillic
        "k%CE%B9ll+myself",  # of Greek
        "%F0%9D%93%80%F0%9D%93%B2%F0%9D%93%B5%F0%9D%93%B5+myself",  # of mathematics
        "%E2%92%A6kill myself".replace(" ", "+"),
        "a+b+c+d+e+f+g+h+i+j+k+kill+myself",
        "kill+a+b+c+d+e+f+myself",
        "+".join(f"w{number}" for number in range(200)) + "+kill+myself",
        "suicide+squad+kill+myself",
        "k%00ill+my%01self",  # controls
        "ki%7Fll+myse%C2%85lf",
        "k%81ill+myself",
        "k%C4%B1ll+myself",  # Turkish
        "K%C4%B0LL+MYSELF",
        "Ki%CC%87ll+myself",
        "&q[]=kill&q%5B1%5D=myself",
    ],
)
def test_whatever_a_pupil_types_is_one_search(engine: Engine, typed: str) -> None:
    decision = engine.decide_url(f"{GOOGLE}{typed}".encode())
    assert decision.winner is not None
    assert (decision.action, decision.winner.text) == (Action.BLOCK, "search.invalid/?kill+myself")
    assert str(decision).endswith("words of it): Talk to us")


@each_row(
    ("url", "expected"),
    [
        (f"{GOOGLE}kill", "pass"),
        (f"{GOOGLE}skill+myself", "pass"),
        (f"{GOOGLE}suicide+squad+film", "pass"),  # an exception
        (f"{GOOGLE}suicide", "block"),
        ("https://www.google.de/search?hl=suicide&q=x", "pass"),
        ("https://www.google.com/complete/search?q=suicide", "pass"),  # a suggestion
        ("https://google.com.evil.example/search?q=suicide", "pass"),
        ("https://www.youtube.com/results?search_query=suicide", "block"),
        ("https://duckduckgo.com/?t=h_&q=suicide", "block"),
        ("https://html.duckduckgo.com/html/?q=suicide", "block"),
        ("https://duckduckgo.com/kill+myself", "block"),
        ("https://duckduckgo.com/how%20to%20kill%20myself?ia=web", "block"),
        ("https://duckduckgo.com/ac/?q=suicide", "pass"),
        ("https://www.duckduckgo.com/suicide", "block"),
        ("https://improving.duckduckgo.com/suicide", "pass"),
        ("https://de.search.yahoo.com/search;_ylt=x?p=suicide", "block"),
        ("https://yandex.ru/search/?text=suicide", "block"),
        ("https://www.baidu.com/s?wd=suicide", "block"),
        ("https://m.baidu.com/from=844b/s?word=suicide", "block"),
        ("https://giphy.com/search/suicide-x", "block"),
        ("https://de.wikipedia.org/w/index.php?search=suicide", "block"),
        ("https://en.wikipedia.org/wiki/Special:Search/suicide", "block"),
        ("https://en.wikipedia.org/wiki/suicide", "pass"),
        (f"{GOOGLE}SU%C4%B0CIDE", "block"),
        ("https://www.bing.com//search?q=suicide", "block"),  # as servers read paths
        ("https://www.bing.com/%73earch/?q=suicide", "block"),
        ("https://wiki.school.example/find?text=suicide", "block"),
        ("https://wiki.school.example/page?text=suicide", "pass"),
        ("https://shop.example/tag/suicide%20note", "block"),
        ("https://a.example/search?q=suicide", "pass"),
        ("https://casino.example/", "warn"),
        ("https://a.example/online-Casino.html", "warn"),
        ("https://a.example/?x=%63asino", "warn"),
        ("https://casinos.example/", "pass"),
        ("https://money.example/free", "warn"),
        ("https://money.example/", "pass"),
    ],
)
def test_places_and_words_are_found(engine: Engine, url: str, expected: str) -> None:
    assert done(engine, url) == expected


def test_an_exception_opens_nothing_else(tmp_path: Path) -> None:
    files = {"a.searches": "suicide squad\n", "b.domains": "google.com\n", "c.searches": "suicide\n"}
    lists = ("[{file: a.searches, action: allow}]", "[b.domains]", "[c.searches]")
    layers = "\n".join(f"- {{name: l{number}, lists: {own}}}" for number, own in enumerate(lists))
    engine = load_engine(write_policy(tmp_path, f"layers:\n{layers}\n", files))
    assert done(engine, f"{GOOGLE}suicide+squad") == "block"
    assert done(engine, "https://duckduckgo.com/?q=suicide+squad") == "block"  # the rule of another layer


def test_a_form_is_decided_as_a_query(engine: Engine) -> None:
    def sent(url: str, form: bytes) -> str:
        request = request_of(url.encode())
        return engine.decide(with_form(request, form, engine.form_keys(request))).action.value

    assert sent("https://html.duckduckgo.com/html/", b"q=kill+myself&b=") == "block"
    assert sent("https://html.duckduckgo.com/html/?q=kill", b"q=my%73elf") == "block"
    assert sent("https://html.duckduckgo.com/html/", b"q=nothing") == "pass"
    assert sent("https://html.duckduckgo.com/html/", b"q=" + b"a" * (1 << 16)) == "block"
    assert sent("https://html.duckduckgo.com/html/", b"%51=kill;myself&secret=suicide") == "block"
    request = request_of(b"https://html.duckduckgo.com/html/?a")
    read = with_form(request, b"user=me&Q=kill\r\nmyself&password=suicide", engine.form_keys(request))
    assert [own.target for own in read.others] == [b"/html/?a&Q=kill%0Amyself"]
    assert engine.form_keys(request_of(b"https://duckduckgo.com/settings")) == frozenset()
    assert engine.form_keys(request_of(b"https://a.example/html/")) == frozenset()


@each_row(
    ("fields", "sends", "expected"),
    [
        ([(b"Content-Type", b"application/x-www-form-urlencoded")], True, "pass"),
        ([(b"Content-Type", b"Application/X-WWW-form-urlencoded; charset=UTF-8")], True, "pass"),
        ([(b"Content-Type", b"application/x-www-form-urlencoded; charset='windows-1252'")], True, "pass"),
        ([(b"Content-Type", b"text/plain, application/x-www-form-urlencoded")], True, "pass"),
        ([(b"content-type", b"application/x-www-form-urlencoded;Charset=utf-16le")], True, "block"),
        ([(b"Content-Type", b'application/x-www-form-urlencoded; charset="utf-7"')], True, "block"),
        ([(b"Content-Type", b"application/x-www-form-urlencoded; charset=utf-8; charset=utf-7")], True, "block"),
        ([(b"Content-Type", b""), (b"Content-Encoding", b"identity")], True, "pass"),
        ([(b"Content-Encoding", b"gzip")], True, "block"),
        ([], True, "pass"),
        ([(b"Content-Type", b"application/json"), (b"Content-Encoding", b"gzip")], False, None),
        ([(b"Content-Type", b"multipart/form-data; boundary=a")], False, None),
    ],
)
def test_which_forms_are_read_or_refused(
    engine: Engine, fields: list[tuple[bytes, bytes]], sends: bool, expected: str | None
) -> None:
    head = tutils.treq(method=b"POST", headers=Headers(fields))
    assert sends_form(head.data) is sends
    request = request_of(b"https://html.duckduckgo.com/html/")._replace(fields=fields)
    decided = [
        engine.decide(with_form(request, form, frozenset((b"q",)))).action.value for form in (b"q=a", b"q=suicide")
    ]
    assert expected is None or decided == [expected, "block"]


# -- hidden lists ------------------------------------------------------------------------------------------------------


@each_row("more", [(), ("--kind", "prefix"), ("--seal", "key")])
def test_a_hidden_list_says_nothing_and_finds_the_same(tmp_path: Path, more: tuple[str, ...]) -> None:
    write_files(tmp_path, FILES)
    key = [str(tmp_path / one) if one == "key" else one for one in more]
    if key and key[0] == "--seal":
        assert main(["sealkey", key[1]]) == 0
    assert main(["hide", str(tmp_path / "flag.searches"), "-o", str(tmp_path / "hidden.yaml"), *key]) == 0
    text = (tmp_path / "hidden.yaml").read_text()
    assert "kill" not in text
    entry = "{file: hidden.yaml, seal: key}" if "seal" in text else "hidden.yaml"
    engine = load_engine(write_policy(tmp_path, f"layers: [{{name: l, lists: [{entry}]}}]\n"))
    assert [done(engine, GOOGLE + typed) for typed in ("Myself%2Bkill", "suicide", "kill")] == [
        "block",
        "block",
        "pass",
    ]
    assert done(engine, "https://a.example/?q=suicide") == "pass"


def test_hidden_words_are_looked_for_where_the_policy_says_so(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    assert main(["hide", str(tmp_path / "own.words"), "-o", str(tmp_path / "hidden.yaml")]) == 0
    layers = "layers: [{name: l, lists: [hidden.yaml]}]\n"
    found = [
        done(load_engine(write_policy(tmp_path, layers + more)), "https://a.example/casino")
        for more in ("", "words-in-addresses: on\n")
    ]
    assert found == ["pass", "block"]


# -- the normal form ---------------------------------------------------------------------------------------------------


@each_row(
    ("text", "words"),
    [
        ("", ()),
        ("a A a", ("a",)),
        ("Straße STRASSE", ("strasse",)),
        ("don't 3rd", ("don", "t", "3rd")),
        ("\u81ea\u6740 x", ("\u81ea", "\u6740", "x")),
        ("\u0441\u0430\u0439\u0442", ("\u0441\u0430\u0439\u0442",)),  # a word of Cyrillic stays one
        ("\u0441\u0430t", ("cat",)),
        ("e\u0301t\u00e9", ("\u00e9t\u00e9",)),
    ],
)
def test_words_have_one_form(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_the_normal_form_is_the_form_of_itself(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=3), max_size=8, unique=True))
def test_of_eight_words_every_combination_of_three_is_looked_for(words: list[str]) -> None:
    found = list(combinations_of(words))
    expected = {combination(own) for size in (1, 2, 3) for own in combinations(words, size)}
    assert (len(found), set(found)) == (len(expected), expected)
    assert len(found) <= 92


def test_long_texts_cost_time_linear_in_them() -> None:
    def numbers(most: int) -> list[int]:
        found = [list(combinations_of([f"w{number}" for number in range(own)])) for own in (9, 64, 65, most)]
        assert [len(set(own)) for own in found] == [len(own) for own in found]
        return [len(own) for own in found]

    assert numbers(MOST_WORDS) == numbers(2 * MOST_WORDS) == [121, 1716, 255, 4091]
    neighbours = [f"w{number}" for number in range(500)]
    assert combination(neighbours[400:403]) in set(combinations_of(neighbours))


def test_each_engine_has_a_source_and_is_found_by_one_of_its_addresses() -> None:
    lines = Path(engines.__file__).with_name("engines.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(rows) >= 50
    for hosts, paths, keys, source in rows:
        assert source
        for host in hosts.split(","):
            name = host.lstrip("=").replace(".*", ".com").encode()
            own = [engine for engine in shipped_engines() if engine.has(b"www." + name)]
            for path in paths.split(","):
                query = f"{keys.partition(',')[0]}=found".encode()
                typed = path.replace("{}", "found").replace("*", "").encode()
                assert typed_words(own, typed, query) == ("found",), (host, path)


# -- what is wrong -----------------------------------------------------------------------------------------------------


def test_lines_that_are_no_search_are_left_out() -> None:
    text = "girl+naughty\na b c d\n!!!\n.Include<more>\n  X \n"
    rules, errors, warnings = read_list(read_searches, text, ListDefaults(), "f")
    assert [(rule.line, str(rule.pattern)) for rule in rules] == [
        (1, "search.invalid/?girl+naughty"),
        (5, "search.invalid/?x"),
    ]
    assert errors == []
    assert [warning.partition("left out: ")[2] for warning in warnings] == [
        "it has more than 3 words",
        "there is no word in it",
        "a file that is included: name it as a list of its own",
    ]


@each_row(
    ("row", "error"),
    [
        ("{host: a.example, path: /x}", "/x: what is typed stands in keys, or is the end of the path"),
        ("{host: a.example, path: '/x/{}', keys: q}", "/x/{}: what is typed stands in keys"),
        ("{host: a.example}", "search-forms: it has no path"),
        ("{host: 'a b', path: /x, keys: q}", "host: a b: expected a host's name"),
        ("{host: a.example, path: x, keys: q}", "path: x: expected a path such as /find"),
        ("a", "'a': expected a mapping with host, path, keys"),
    ],
)
def test_a_wrong_row_has_line_and_reason(tmp_path: Path, row: str, error: str) -> None:
    (told,) = read_whole(tmp_path, f"layers: []\nsearch-forms:\n- {row}\n")[1]
    assert told.startswith(f"3: {error}")


# -- the log -----------------------------------------------------------------------------------------------------------

REMOVED = "(search-removed)"


@each_row(
    ("url", "shown"),
    [
        ("https://www.google.com/search?hl=en&q=kill&oq=kill", f"https://www.google.com/search?{REMOVED}"),
        ("https://duckduckgo.com/kill+myself?ia=web", f"https://duckduckgo.com/{REMOVED}"),
        ("https://www.google.co.uk/maps/search/kill/@1,2", f"https://www.google.co.uk/maps/search/{REMOVED}"),
        ("https://www.google.com/complete/search?client=x&q=kil", f"https://www.google.com/complete/search?{REMOVED}"),
        ("https://www.bing.com/AS/Suggestions?qry=kil", f"https://www.bing.com/AS/Suggestions?{REMOVED}"),
        ("https://wiki.school.example/find;x?text=kill", f"https://wiki.school.example/find;x?{REMOVED}"),
        ("https://shop.example/tag/kill", f"https://shop.example/tag/{REMOVED}"),
        ("HTTPS://WWW%2EGoogle.com.:443/%73earch?%71=kill", f"HTTPS://WWW%2EGoogle.com.:443/%73earch?{REMOVED}"),
        ("https://google.com:x/search?q=kill", f"https://google.com:x/search?{REMOVED}"),
        ("https://h.example/p?r=https%253A%252F%252Fwww.bing.com%252Fsearch%253Fq%253Dkill", f"https://h.example/p?{REMOVED}"),
        ("https://h.example/p?a=1&r=www.bing.com/search?cc=de%26q=kill", f"https://h.example/p?{REMOVED}"),
        ("https://h.example/web/2020/https:/www.google.com/search?q=kill", f"https://h.example/{REMOVED}"),
        ("https://h.example/?r=" + 20 * "a=bing.com/&" + "r=bing.com/?q=kill", f"https://h.example/?{REMOVED}"),
        ("https://www-google-com.translate.goog/search?q=kill", f"https://www-google-com.translate.goog/search?{REMOVED}"),
        ("search.invalid/?kill+myself", f"search.invalid/?{REMOVED}"),
        ("words.invalid/?kill", f"words.invalid/?{REMOVED}"),
        ("google.com/search?q=kill", f"google.com/search?{REMOVED}"),
        *((url, url) for url in (
            "https://www.youtube.com/watch?v=kill",
            "https://www.google.com/",
            "https://h.example/search?q=kill",
            "https://h.example/?u=https://www.youtube.com/watch?v=x",
            "https://notgoogle.com/search?q=kill",
            "google.com/",
            "google.com",
            "https://[::1]:81/?q",
            "\\xff",
            "",
        )),
    ],
)  # fmt: skip
def test_what_was_searched_is_taken_out_of_what_is_written(engine: Engine, url: str, shown: str) -> None:
    hidden = hiding_of(engine.policy)
    assert hidden(url) == shown
    assert hidden(shown) == shown


def test_a_row_may_name_a_host_of_one_label() -> None:
    engine = engine_of("wiki", "/find", "q")
    assert [engine.has(host) for host in (b"wiki", b"www.wiki", b"notwiki")] == [True, True, False]
    assert Engines([engine]).of_host(b"wiki") == [engine]


def test_a_record_has_a_search_only_where_the_policy_says_so(engine: Engine) -> None:
    asked = Request(b"https", (b"www.Google.com",), 443, b"/search?q=kill+%6dyself")
    one = LogRecord("", 0, engine.decide(asked), request=asked)
    kept = fields_of(one, Privacy(LoggedQueries.KEEP))
    assert "kill" in str(kept["url"])
    assert "kill" in str(kept["expression"])
    partly = Privacy(LogSettings().queries)
    fields = fields_of(one, partly)
    assert fields == shown_record(kept, partly)
    assert "self" not in str({**fields, "category": None, "list": None, "rule": None})
    assert (fields["url"], fields["expression"]) == (
        f"https://www.google.com/search?{REMOVED}", f"search.invalid/?{REMOVED}"
    )  # fmt: skip
