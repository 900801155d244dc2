"""From a request to a decision."""

import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.engine import MOST_HOSTS
from hushlist.errors import UrlError
from hushlist.match.hashing import full_hash
from hushlist.match.rule import Action
from hushlist.url.request import Request, canonical_forms, request_of
from hushlist.url.safebrowsing import canonicalize
from unit.hostile import LONG, engine_of, octets, rules_of, seconds


def request(*hosts: bytes, target: bytes = b"/", scheme: bytes = b"http") -> Request:
    return Request(scheme, hosts or (b"h.example",), 443 if scheme == b"https" else 80, target)


def sha1(text: bytes) -> str:
    return f"hashed:sha1={hashlib.sha1(text).hexdigest()}"


# -- requests from URLs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h.example", Request(b"http", (b"h.example",), 80, b"/")),
        ("HTTPS://u:p@h.example/p?q#f", Request(b"https", (b"h.example",), 443, b"/p?q", b"f", b"u:p")),
        ("h.example:8080/p?", Request(b"http", (b"h.example",), 8080, b"/p?")),
        (" http://h\t.example/#", Request(b"http", (b"h.example",), 80, b"/", b"")),
        ("http://[::1]:1/", Request(b"http", (b"[::1]",), 1, b"/")),
        ("ftp://h.example/", Request(b"ftp", (b"h.example",), 21, b"/")),
        ("wss://h.example/", Request(b"wss", (b"h.example",), 443, b"/")),
        ("http://h.example:65535/", Request(b"http", (b"h.example",), 65535, b"/")),
        ("http://h.example:000000080/", Request(b"http", (b"h.example",), 80, b"/")),
        ("http://h.example:" + "0" * 5000, Request(b"http", (b"h.example",), 0, b"/")),
        ("https:h.example/p", Request(b"https", (b"h.example",), 443, b"/p")),
        (b"http://h.example/\xff", Request(b"http", (b"h.example",), 80, b"/\xff")),
    ],
)
def test_a_url_is_the_request_that_a_browser_makes(url: bytes | str, expected: Request) -> None:
    assert request_of(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mailto:me@h.example", "it names no host"),
        ("http:///x", "it names no host"),
        ("http://h.example:65536/", "its port is no number up to 65535"),
        ("http://h.example:99999999/", "its port is no number up to 65535"),
        ("http://h.example:x/", "its port is no number up to 65535"),
    ],
)
def test_a_url_that_a_browser_could_not_ask_for_is_no_request(url: str, reason: str) -> None:
    with pytest.raises(UrlError, match=reason):
        request_of(url)


@pytest.mark.parametrize(
    ("given_request", "url"),
    [
        (Request(b"http", (b"h", b"other"), 80, b"/p"), b"http://h/p"),
        (Request(b"https", (b"h",), 80, b"/p"), b"https://h:80/p"),
        (Request(b"https", (b"::1",), 443, b"/"), b"https://[::1]/"),
        (Request(b"", (), 0, b""), b"://:0"),
    ],
)
def test_a_request_has_a_url_for_people(given_request: Request, url: bytes) -> None:
    assert given_request.url == url


@given(octets().map(b"http://".__add__))
def test_the_first_form_of_a_url_s_request_is_the_canonical_url(url: bytes) -> None:
    try:
        asked = request_of(url)
        (host,) = asked.hosts
        forms = canonical_forms(asked, host)
        canonical = canonicalize(url)
    except UrlError:
        return
    assert forms[0].join() == canonical


# -- whatever arrives --------------------------------------------------------------------------------------------------

EVERYTHING = engine_of(
    f"""
    rules:
      - {{expression: h.example/a, action: allow}}
      - {{address: 0.0.0.0/0, action: tag}}
      - {{sha256: {full_hash(b"a.example/").hex()[:8]}}}
      - hashed:md5=be96302a0468481aca954431cf293e05
      - {{uri: '{sha1(b"http://h.example/a")}+query'}}
      - {{uri: '{sha1(b"http://h.example/a")}+frag'}}
    """
)


def requests() -> st.SearchStrategy[Request]:
    hosts = st.lists(octets() | st.sampled_from([b"h.example", b"1.2.3.4", b"a.example"]), max_size=10).map(tuple)
    schemes = st.sampled_from([b"http", b"https", b"ws", b""]) | octets()
    return st.builds(Request, schemes, hosts, st.integers(0, 65535), octets(), st.none() | octets())


@given(requests(), st.sampled_from([Action.BLOCK, Action.PASS]))
def test_whatever_arrives_gets_a_decision(arrived: Request, unparsable: Action) -> None:
    decision = EVERYTHING.decide(arrived)
    assert isinstance(decision.action, Action)
    assert isinstance(str(decision), str)
    assert decision.as_dict()["action"] == decision.action.value
    if decision.fault is not None:
        engine = engine_of("rules: []", unparsable=unparsable)
        assert engine.decide(arrived).action is unparsable


@pytest.mark.parametrize(
    ("hosts", "fault"),
    [
        ((), "the request goes by 0 hosts"),
        (
            tuple(b"h%d.example" % number for number in range(MOST_HOSTS + 1)),
            f"the request goes by {MOST_HOSTS + 1} hosts",
        ),
        ((b"h.example", b""), "it names no host"),
        ((b"...",), "it names no host"),
        ((b"a/b",), "there is a delimiter in the host"),
        ((b"a%2fb",), "there is a delimiter in the host"),
        ((b"a%252fb",), "there is a delimiter in the host"),
        ((b"a@b",), "there is a delimiter in the host"),
        ((b"a\\b",), "there is a delimiter in the host"),
        ((b"a?b",), "there is a delimiter in the host"),
        ((b"a#b",), "there is a delimiter in the host"),
    ],
)
@pytest.mark.parametrize("unparsable", [Action.BLOCK, Action.PASS])
def test_what_cannot_be_read_is_decided_by_the_policy(hosts: tuple[bytes, ...], fault: str, unparsable: Action) -> None:
    decision = engine_of("rules: []", unparsable=unparsable).decide(Request(b"http", hosts, 80, b"/"))
    assert (decision.action, decision.fault, decision.winner) == (unparsable, fault, None)


def test_as_many_hosts_as_a_request_may_have_are_read() -> None:
    hosts = tuple(b"h%d.example" % number for number in range(MOST_HOSTS))
    assert engine_of("rules: [h3.example]").decide(request(*hosts)).action is Action.BLOCK


def test_a_name_that_cannot_be_read_does_not_excuse_one_that_is_blocked() -> None:
    engine = engine_of("rules: [blocked.example]", unparsable=Action.PASS)
    assert engine.decide(request(b"blocked.example", b"a/b")).action is Action.BLOCK


@pytest.mark.parametrize("scheme", [b"", b"a b", b"a/b", b"%", b"a:b", b"a\\b", b"a?b", b"1"])
def test_no_scheme_shifts_the_host(scheme: bytes) -> None:
    engine = engine_of("rules: [blocked.example]")
    arrived = Request(scheme, (b"blocked.example",), 80, b"/%41")
    assert engine.decide(arrived).action is Action.BLOCK


# -- names, readings, layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [(b"blocked.example", b"good.example"), (b"good.example", b"blocked.example")])
def test_of_several_names_the_strictest_decides(hosts: tuple[bytes, ...]) -> None:
    engine = engine_of("rules: [{expression: good.example, action: allow}]", "rules: [blocked.example]")
    decision = engine.decide(request(*hosts))
    assert decision.action is Action.BLOCK
    assert decision.url == b"http://blocked.example/"
    assert sorted(found.text for found in decision.matches) == ["blocked.example/", "good.example/"]


@pytest.mark.parametrize(
    "host",
    [
        *(b"BLOCKED.Example", b"blocked.example.", b"www.blocked.example", b"blocked..example", b"%62locked.example"),
        *(b"blocked%2eexample", b"%2562locked.example", "blocked。example".encode(), "ｂｌｏｃｋｅｄ.example".encode()),
        *("blo\u00adcked.example".encode(), "bloc\u212aed.example".encode()),
    ],
)
def test_no_spelling_of_a_blocked_host_passes(host: bytes) -> None:
    assert engine_of("rules: [blocked.example]").decide(request(host)).action is Action.BLOCK


@pytest.mark.parametrize(
    "host", [b"127.0.0.1", b"0x7f.1", b"2130706433", b"::ffff:7f00:1", b"[::ffff:127.0.0.1]", b"127.1."]
)
def test_no_spelling_of_a_blocked_address_passes(host: bytes) -> None:
    assert engine_of("rules: [127.0.0.1]").decide(request(host)).action is Action.BLOCK
    assert engine_of("rules: [address: 127.0.0.0/8]").decide(request(host)).action is Action.BLOCK


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"/bad/x",
            b"/bad/",
            b"//bad/x",
            b"/./bad/x",
            b"/x/../bad/x",
            b"/%62ad/x",
            b"/%2562ad/x",
            b"/bad%2fx",
            b"/\tbad/x",
        ),
        *(b"/x//../bad/", b"/bad/../x", b"/x\\..\\bad\\x", b"/x/..%5cbad/x", b"\\bad\\x", b"bad/x", b"/%2e%2e/bad/x"),
        *(b"/bad/x?q", b"/bad/?", b"/bad/x#f", b"/bad//x"),
    ],
)
def test_no_spelling_of_a_blocked_path_passes(target: bytes) -> None:
    assert engine_of("rules: [h.example/bad/]").decide(request(target=target)).action is Action.BLOCK


@pytest.mark.parametrize(
    "target", [b"/bad.html", b"/bad.html?", b"/bad.html?q", b"/bad.html#x", b"/bad.html#x?y", b"/bad.html?q#x"]
)
def test_nothing_appended_to_a_blocked_file_s_path_lets_it_pass(target: bytes) -> None:
    # A server may take an unescaped "#" on the wire for the beginning of a fragment, as nginx does.
    assert engine_of("rules: [h.example/bad.html]").decide(request(target=target)).action is Action.BLOCK


def test_an_allowed_path_is_no_way_into_a_blocked_one() -> None:
    engine = engine_of("rules: [{expression: h.example/good/, action: allow}]", "rules: [h.example/bad/]")
    assert engine.decide(request(target=b"/good/x")).action is Action.ALLOW
    assert engine.decide(request(target=b"/good/../bad/")).action is Action.BLOCK
    assert engine.decide(request(target=b"/bad/../good/")).action is Action.BLOCK


def test_an_allowed_uri_does_not_open_another_host_that_the_request_goes_by() -> None:
    rules = f"rules: [{{uri: '{sha1(b'http://good.example/x')}', action: allow}}]"
    engine = engine_of(rules, "rules: [blocked.example]")
    assert engine.decide(request(b"good.example", target=b"/x")).action is Action.ALLOW
    assert engine.decide(request(b"blocked.example", b"good.example", target=b"/x")).action is Action.BLOCK
    assert engine.decide(request(b"good.example", b"blocked.example", target=b"/x")).action is Action.BLOCK


@pytest.mark.parametrize("target", [b"/bad/../good", b"/bad\\../good", b"/bad/..\\good"])
def test_an_allowed_uri_is_no_way_into_a_blocked_path(target: bytes) -> None:
    rules = f"rules: [{{uri: '{sha1(b'http://h.example/good')}', action: allow}}]"
    engine = engine_of(rules, "rules: [h.example/bad/]")
    assert engine.decide(request(target=b"/good")).action is Action.ALLOW
    assert engine.decide(request(target=target)).action is Action.BLOCK


def test_an_administrator_s_allow_beats_every_list() -> None:
    engine = engine_of(
        "rules: [{expression: h.example, action: allow}]", "rules: [h.example/a/b/c]", "rules: [h.example]"
    )
    decision = engine.decide(request(target=b"/a/b/c"))
    assert decision.action is Action.ALLOW
    assert [found.rule.terms.layer for found in decision.matches] == ["first", "second", "third"]


# -- every kind of rule ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "url", "blocks"),
    [
        ("a.example", "https://x.a.example/y", True),
        (f"{{sha256: {full_hash(b'a.example/b/').hex()}}}", "https://x.a.example/b/c", True),
        (f"{{sha256: {full_hash(b'a.example/b/').hex()[:8]}}}", "https://x.a.example/b/c", True),
        (f"{{sha256: {full_hash(b'a.example/b/').hex()[:8]}}}", "https://x.a.example/c", False),
        (f"'{sha1(b'http://www.thus.net')}'", "http://www.thus.net", True),
        (f"'{sha1(b'http://www.thus.net')}'", "http://WWW.thus.net:80/?q", True),
        (f"'{sha1(b'http://www.thus.net')}'", "https://www.thus.net/", False),
        (f"'{sha1(b'http://www.thus.net')}'", "http://www.thus.net:81/", False),
        (f"'{sha1(b'http://www.thus.net:81/x')}'", "http://www.thus.net:81/x", True),
        (f"'{sha1(b'http://www.thus.net#end')}+frag'", "http://www.thus.net#end", True),
        (f"'{sha1(b'http://www.thus.net#end')}+frag'", "http://www.thus.net", False),
        (f"'{sha1(b'http://a.example/x?q')}+query'", "http://a.example/x?q", True),
        (f"'{sha1(b'http://a.example/x?q')}+query'", "http://a.example/x?r", False),
        (f"'{sha1(b'http://a.example/x')}'", "http://a.example/x?r", True),
        (f"'{sha1(b'http://a.example/abc')}'", "http://a.example/a%62c", True),
        (f"'{sha1(b'http://a.example/abc')}'", "http://a.example/a%2562c", True),
        (f"'{sha1(b'http://127.0.0.1/x')}'", "http://0x7f.1/x", True),
        (f"'{sha1(b'http://111.11.101.1/x')}'", "http://111.011.101.001/x", True),  # as the draft reads it
        (f"'{sha1(b'http://xn--bcher-kva.example/')}'", "http://bücher.example/", True),
        (f"{{uri: 'hashed:md5={hashlib.md5(b'http://a.example/x').hexdigest()}'}}", "http://a.example/x", True),
        (f"{{uri: 'hashed:x-sha256={hashlib.sha256(b'http://a.example/x').hexdigest()}'}}", "http://a.example/x", True),
        ("{address: 10.0.0.0/8}", "http://10.1.2.3/", True),
    ],
)
def test_every_kind_of_rule_blocks(rule: str, url: str, blocks: bool) -> None:
    decision = engine_of(f"rules: [{rule}]").decide(request_of(url))
    assert (decision.action is Action.BLOCK) is blocks


def test_a_list_s_variant_is_what_its_hashed_uris_are_compared_by() -> None:
    text = f"rules: ['{sha1(b'http://a.example/test/image.jpg')}']"
    asked = request_of("http://a.example/Test//Image.JPEG")
    assert engine_of(f"variant: p\n{text}").decide(asked).action is Action.BLOCK
    assert engine_of(text).decide(asked).action is Action.PASS


def test_an_expired_rule_is_inert_the_day_after() -> None:
    engine = engine_of("rules: [{expression: h.example, expires: 2026-12-31}]")
    last, after = datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert engine.decide(request(), last).action is Action.BLOCK
    assert engine.decide(request(), after).action is Action.PASS


def test_an_expired_allow_no_longer_opens() -> None:
    engine = engine_of("rules: [{expression: h.example, action: allow, expires: 2026-12-31}]", "rules: [h.example]")
    assert engine.decide(request(), datetime(2027, 1, 1, tzinfo=UTC)).action is Action.BLOCK


def test_deciding_changes_nothing() -> None:
    asked = request(b"a.example", target=b"/b/../c")
    assert EVERYTHING.decide(asked) == EVERYTHING.decide(asked)


def test_rules_below_each_other_all_match() -> None:
    rules = rules_of("rules: [h.example, h.example/a/, www.h.example, www.h.example/a/b]")
    decision = engine_of("rules: [h.example, h.example/a/, www.h.example, www.h.example/a/b]").decide(
        request(b"www.h.example", target=b"/a/b")
    )
    assert len(decision.matches) == len(rules)


@pytest.mark.parametrize(
    "arrived",
    [
        pytest.param(request(target=b"/%" + b"25" * (LONG // 2)), id="nested escapes"),
        pytest.param(request(b"%" + b"25" * (LONG // 2)), id="nested escapes in the host"),
        pytest.param(request(b"." * LONG), id="dots"),
        pytest.param(request(b"a." * (LONG // 2) + b"a"), id="labels"),
        pytest.param(request("ü".encode() * (LONG // 2)), id="unicode"),
        pytest.param(request(b"1" * LONG), id="digits"),
        pytest.param(request(b"0" * LONG + b"9"), id="octal digits"),
        pytest.param(request(b":" * LONG), id="colons"),
        pytest.param(request(target=b"/.." * LONG), id="dot segments"),
        pytest.param(request(target=b"/a\\.." * LONG), id="backslashes"),
        pytest.param(request(target=b"/" * LONG), id="slashes"),
        pytest.param(request(target=b"/a" * LONG), id="folders"),
        pytest.param(
            request(*(b"a." * 1000 + b"%d" % number for number in range(8)), target=b"/a/.." * 9000), id="names"
        ),
    ],
)
@pytest.mark.parametrize("rule", ["a.a.a.a.a.a.a.a/a/a/a/a/a/a/a/a/", "{uri: 'hashed:x-sha256=" + "0" * 64 + "'}"])
def test_an_attack_costs_linear_time(arrived: Request, rule: str) -> None:
    engine = engine_of(f"rules: [{rule}, {{sha256: '00000000'}}]")
    assert seconds(lambda: engine.decide(arrived)) < 2
