"""From a request to a decision."""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_network
from math import inf
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Excess, UrlError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.patterns import parse_whole_url
from hushlist.core.match.checks import CHECKS, Check
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.index import Host, Index
from hushlist.core.match.rule import RUNGS, Action, Expression, ExpressionHash, Rule, Terms, WholeUrl
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client, Group, GroupSettings, LayerUse
from hushlist.core.policy.pass_through import AlwaysDecrypted
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.policy.recurrence import RecurringDates, RecurringSpans, Schedule
from hushlist.core.policy.scheduled_action import CATEGORY_ACTIONS, DEFAULT_ACTIONS, ScheduledAction
from hushlist.core.url.comparison import RedirectMemory
from hushlist.core.url.hashed_uri import HashedUri, HashKey, hash_uri, parse_hashed_uri
from hushlist.core.url.parts import Parts
from hushlist.core.url.request import MOST_HOSTS, Request, StatedContext, canonical_forms, request_of
from hushlist.extensions.unblock.admin_blocks import NO_BLOCKS, BlockTable
from hushlist.extensions.unblock.grants import Grant, GrantTable
from hushlist.extensions.unblock.overrides import Overrides
from support.engines import engine_of, index_of, rules_of
from unit.core.match.plain_index import SEAL, STEADY, RulesAndRequests, given_rules, octets_of
from unit.hostile import LONG, octets, seconds, urls
from unit.plain_engine import PlainEngine, parts_of
from unit.rows import each_row

TERMS = Terms(Action.BLOCK, "list", "file")
#: for tests of which each example asks for a whole policy's decisions
FEW = settings(STEADY, max_examples=settings.default.max_examples // 2)


def request(*hosts: bytes, target: bytes = b"/", scheme: bytes = b"http") -> Request:
    return Request(scheme, hosts or (b"h.example",), 443 if scheme == b"https" else 80, target)


def sha1(text: bytes) -> str:
    return f"hashed:sha1={hashlib.sha1(text).hexdigest()}"


# -- what is too long --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_row("part", [b"a", b"%2e%2e/", b"%25%32%66", b"a\\%c0%af;", b"/", b"?&"])
@each_row("unparsable", [Action.BLOCK, Action.PASS])
@pytest.mark.thorough
def test_a_target_that_is_too_long_is_decided_by_its_length(part: bytes, unparsable: Action) -> None:
    engine = engine_of("rules: [bad.example, path.example/secret/]", unparsable=unparsable)
    target = b"/" + part * ((4 << 20) // len(part))
    for decide in (
        lambda host: engine.decide(Request(b"http", (host,), 80, target)),
        lambda host: engine.decide_url(b"http://" + host + target),
    ):
        decision = decide(b"h.example")
        # whatever the policy says: else its length would be a way around every rule
        assert (decision.action, decision.fault) == (Action.BLOCK, "its target has more than 65,536 octets")
        assert len(decision.url) < 4096  # so that nothing behind keeps it
        assert decide(b"bad.example").action is Action.BLOCK
        assert seconds(lambda: decide(b"h.example")) < 0.25  # noqa: B023


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
        again = engine.decide(arrived)
        assert again.action is (Action.BLOCK if isinstance(again.fault, Excess) else unparsable)


@each_row(
    ("hosts", "fault"),
    [
        ((), "the request goes by no host"),
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
@each_row("unparsable", [Action.BLOCK, Action.PASS])
def test_what_cannot_be_read_is_decided_by_the_policy(hosts: tuple[bytes, ...], fault: str, unparsable: Action) -> None:
    decision = engine_of("rules: []", unparsable=unparsable).decide(Request(b"http", hosts, 80, b"/"))
    assert (decision.action, decision.fault, decision.winner) == (unparsable, fault, None)


@each_row("unparsable", [Action.BLOCK, Action.PASS])
def test_what_takes_too_much_work_is_blocked_whatever_the_policy_says(unparsable: Action) -> None:
    engine = engine_of("rules: [bad.example, h0.example/secret/]", unparsable=unparsable)
    hosts = tuple(b"h%d.example" % number for number in range(MOST_HOSTS + 1))
    for one, fault in (
        (Request(b"http", hosts, 80, b"/"), f"the request goes by more than {MOST_HOSTS} hosts"),
        (Request(b"http", hosts[:1], 80, b"/%252f..%255c;x/..%253f//" * 4), "its path can be read in too many ways"),
        (Request(b"http", hosts[:4], 80, _RICH), "its names and its path together can be read in too many ways"),
        (
            request(hosts[0])._replace(
                others=tuple(Request(b"http", hosts[:3], 80, _RICH + b"/%d" % n) for n in range(4))
            ),
            "its path can be read in too many ways",
        ),
    ):
        decision = engine.decide(one)
        assert (decision.action, decision.fault, decision.winner) == (Action.BLOCK, fault, None)
        refused = engine.decide(one._replace(hosts=(b"bad.example", *one.hosts)))
        assert (refused.action, [own.text for own in refused.matches]) == (Action.BLOCK, ["bad.example/"])


#: a path with twelve readings
_RICH = b"/a;b/..%2fc;d%5ce/x;y/%2e%2e//z"


def test_a_decision_ends_with_the_first_that_nothing_can_make_stricter(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("rules: [blocked.example, b.example/secret/, c.example/secret/]")
    looked_up: list[bytes] = []
    find_paths = Index.find_paths

    def counted(index: Index, host: Host, *more: Any) -> list[Match]:
        looked_up.append(host.name)
        return find_paths(index, host, *more)

    monkeypatch.setattr(Index, "find_paths", counted)
    others = (Request(b"http", (b"c.example",), 80, b"/x/../%2e"),)
    one = Request(b"http", (b"blocked.example", b"b.example"), 80, _RICH, others=others)
    assert (engine.decide(one).action, looked_up) == (Action.BLOCK, [])
    assert engine.decide(one._replace(hosts=(b"b.example",), fault="it is none")).fault == "it is none"
    assert looked_up == [b"b.example"]


def test_as_many_hosts_as_a_request_may_have_are_read() -> None:
    hosts = tuple(b"h%d.example" % number for number in range(MOST_HOSTS))
    assert engine_of("rules: [h3.example]").decide(request(*hosts)).action is Action.BLOCK


@each_row("scheme", [b"", b"a b", b"a/b", b"%", b"a:b", b"a\\b", b"a?b", b"1"])
def test_no_scheme_shifts_the_host(scheme: bytes) -> None:
    engine = engine_of("rules: [blocked.example]")
    arrived = Request(scheme, (b"blocked.example",), 80, b"/%41")
    assert engine.decide(arrived).action is Action.BLOCK


# -- names, readings, layers -------------------------------------------------------------------------------------------


@each_row("host", [b"127.0.0.1", b"0x7f.1", b"2130706433", b"::ffff:7f00:1", b"[::ffff:127.0.0.1]", b"127.1."])
def test_no_spelling_of_a_blocked_address_passes(host: bytes) -> None:
    assert engine_of("rules: [127.0.0.1]").decide(request(host)).action is Action.BLOCK
    assert engine_of("rules: [address: 127.0.0.0/8]").decide(request(host)).action is Action.BLOCK


@each_row(
    "rule",
    ["10.20.30.40", "address: 10.0.0.0/8", "10.20.30.40/bad/", sha1(b"http://10.20.30.40/bad/")],
)
def test_a_rule_for_an_address_holds_where_a_tunnel_leads_to_it(rule: str) -> None:
    engine = engine_of(f"rules: [{rule}]")
    for host in (b"[2002:a14:1e28::1]", b"2002:A14:1E28::1", b"[2001:0:c000:201::f5eb:e1d7]", b"[::10.20.30.40]"):
        url = b"http://%b/bad/" % (host if host.startswith(b"[") else b"[%b]" % host)
        assert engine.decide(request(host, target=b"/bad/")).action is Action.BLOCK
        assert engine.decide_url(url).action is Action.BLOCK
        assert engine.why_decrypt(request(b"h.example", host, scheme=b"https")) is not None
    assert engine.decide(request(b"[2002:b14:1e28::1]", target=b"/bad/")).action is Action.PASS


def test_the_address_that_a_tunnel_leads_to_allows_nothing_and_needs_no_rule() -> None:
    settings = GroupSettings(default=ScheduledAction(Action.BLOCK, "policy.yaml", 1))
    for address, action in (("2002::/16", Action.ALLOW), ("10.0.0.0/8", Action.BLOCK)):
        engine = engine_of(f"rules: [{{address: '{address}', action: allow}}]")
        engine = Engine(engine.policy._replace(settings=settings), engine.index)
        assert engine.decide(request(b"[2002:a14:1e28::1]")).action is action


@each_row(
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


@each_row("target", [b"/bad.html", b"/bad.html?", b"/bad.html?q", b"/bad.html#x", b"/bad.html#x?y", b"/bad.html?q#x"])
def test_nothing_appended_to_a_blocked_file_s_path_lets_it_pass(target: bytes) -> None:
    # A server may take an unescaped "#" on the wire for the beginning of a fragment, as nginx does.
    assert engine_of("rules: [h.example/bad.html]").decide(request(target=target)).action is Action.BLOCK


def test_an_allowed_path_is_no_way_into_a_blocked_one() -> None:
    engine = engine_of("rules: [{expression: h.example/good/, action: allow}]", "rules: [h.example/bad/]")
    assert engine.decide(request(target=b"/good/x")).action is Action.ALLOW
    assert engine.decide(request(target=b"/good/../bad/")).action is Action.BLOCK
    assert engine.decide(request(target=b"/bad/../good/")).action is Action.BLOCK


@pytest.mark.parametrize("target", [b"/bad/../good", b"/bad\\../good", b"/bad/..\\good"])
def test_an_allowed_uri_is_no_way_into_a_blocked_path(target: bytes) -> None:
    rules = f"rules: [{{uri: '{sha1(b'http://h.example/good')}', action: allow}}]"
    engine = engine_of(rules, "rules: [h.example/bad/]")
    assert engine.decide(request(target=b"/good")).action is Action.ALLOW
    assert engine.decide(request(target=target)).action is Action.BLOCK


# -- whole URLs --------------------------------------------------------------------------------------------------------


def whole_url(text: str, rung: str, action: str = "block") -> str:
    return f"{{expression: '{text}', match: {rung}, action: {action}}}"


@each_row(
    ("text", "rung", "fits", "fits_not"),
    [
        (
            "http://h.example/%7ex?q",
            "simple",
            ["http://h.example/%7ex?q", "http://me:pw@h.example:80/%7ex?q#f"],
            [
                *("http://h.example/~x?q", "http://h.example/%7Ex?q", "http://H.example/%7ex?q"),
                *("https://h.example/%7ex?q", "http://h.example:81/%7ex?q", "http://www.h.example/%7ex?q"),
                *("http://h.example/%7ex", "http://h.example/%7ex?q&", "http://h.example/./%7ex?q"),
            ],
        ),
        (
            "http://h.example/~x/y",
            "syntax",
            ["http://h.example/~x/y", "http://H.EXAMPLE/%7ex/%79", "http://h.example/a/../%7Ex/./y"],
            [
                "http://h.example:8080/~x/y",
                "http://h.example/~x/y/",
                "http://h.example/~X/y",
                "http://h.example/~x%2fy",
            ],
        ),
        (
            "http://bücher.example",
            "scheme",
            ["http://xn--bcher-kva.example/", "http://BÜCHER.example:80", "http://b%c3%bccher.example/"],
            ["http://xn--bcher-kva.example/?", "http://xn--bcher-kva.example:443/", "http://bucher.example/"],
        ),
        (
            "https://a.b.c.d.e.f.g.example:8443/x",
            "scheme",
            ["https://a.b.c.d.e.f.g.example:8443/x", "https://A.b.c.d.e.f.g.example:08443/x"],
            ["https://a.b.c.d.e.f.g.example/x", "https://b.c.d.e.f.g.example:8443/x"],
        ),
        ("http://[::1]:81/", "syntax", ["http://[::1]:81/"], ["http://[::1]/", "http://[::2]:81/"]),
    ],
)
def test_a_whole_url_fits_what_its_rung_takes_for_the_same(
    text: str, rung: str, fits: list[str], fits_not: list[str]
) -> None:
    engine = engine_of(f"rules: [{whole_url(text, rung)}]")
    for urls_, action in ((fits, Action.BLOCK), (fits_not, Action.PASS)):
        for url in map(str.encode, urls_):
            assert (url, engine.decide_url(url).action) == (url, action)
            assert engine.decide(request_of(url)).action is action
    decision = engine.decide_url(fits[0].encode())
    assert decision.winner is not None
    assert (decision.winner.via or "").startswith(f"rung {rung}")


def test_a_decision_tells_the_rung_and_what_was_normalized() -> None:
    engine = engine_of(f"rules: [{whole_url('http://h.example/~x', 'syntax')}]")
    assert str(engine.decide_url(b"http://h.example/~x")) == "http://h.example/~x by first (first.yaml:1, rung syntax)"
    via = "rung syntax, after normalize_escapes, lowercase_host"
    assert str(engine.decide_url(b"http://H.example/%7ex")) == f"http://h.example/~x by first (first.yaml:1, {via})"


def test_the_lower_rung_is_the_more_specific_one() -> None:
    rules = [
        whole_url("http://h.example/~x", rung, action) for rung, action in (("syntax", "warn"), ("scheme", "block"))
    ]
    engine = engine_of(
        f"rules: [h.example, {whole_url('http://h.example/%7ex', 'simple', 'allow')}, {', '.join(rules)}]"
    )
    for path, action in (("%7ex", Action.ALLOW), ("~x", Action.WARN), ("%7Ex", Action.WARN), ("y", Action.BLOCK)):
        assert engine.decide_url(f"http://h.example/{path}".encode()).action is action


def test_a_host_with_a_whole_url_is_no_more_blocked_than_its_paths_and_others_are_decided_at_once() -> None:
    engine = engine_of(f"rules: [h.example, {whole_url('http://h.example/x', 'simple', 'allow')}]")
    assert engine.hosts.has_paths(b"h.example")
    assert engine.hosts.allows_below(b"h.example")
    assert not engine.hosts.has_paths(b"other.example")
    assert engine.decide_host(request()).action is Action.BLOCK


TEXTS_OF_RULES = (
    *("http://h.example/", "http://h.example/a/%2e/b", "https://H.example:8443/%7Ea?q=%41", "http://1.2.3.4/x"),
    *("http://www.h.example/a//b;c?x?", "http://xn--bcher-kva.example/%C3%A9", "https://h.example/a%2Fb"),
)
SPELLINGS = (
    b"",
    b"%2E",
    b"%2e",
    b"/./",
    b"/../",
    b"%7e",
    b"~",
    b":80",
    b":443",
    b"H",
    b"%48",
    b"//",
    b"%2f",
    b"?",
    b"#x",
)


@settings(deadline=None)
@given(st.data(), st.sampled_from(TEXTS_OF_RULES), st.sampled_from(sorted(RUNGS)), octets())
def test_a_whole_url_fits_exactly_the_urls_that_have_its_normal_form(
    data: st.DataObject, text: str, rung: str, noise: bytes
) -> None:
    with suppress(UrlError):
        pattern = parse_whole_url(text, rung)
        engine = engine_of(f"rules: [{whole_url(text, rung)}]")
        place = data.draw(st.integers(7, len(text)))
        spelled = data.draw(st.sampled_from((*SPELLINGS, noise)))
        behind = place + data.draw(st.integers(0, 3))
        arrived = request_of(text.encode()[:place] + spelled + text.encode()[behind:])
        decision = engine.decide(arrived)
        is_same = RUNGS[rung].canonicalize(arrived.url) == pattern.value
        if decision.fault is None:
            assert (decision.action is Action.BLOCK) == is_same


# -- every kind of rule ------------------------------------------------------------------------------------------------


@each_row(
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


def literal(url: str, flags: str = "") -> str:
    """A rule that is the hash of a URL as it stands."""
    return f"{sha1(url.encode())}{flags}"


@each_row(
    "url",
    [
        "http://h.example/a%2fb",
        "http://h.example/a%62",
        "http://h.example/a/../b",
        "http://h.example/a/./index.html",
        "http://h.example/index.html",
        "http://H.Example/a|b",
        "http://h.example:8080/x/..",
        "https://[2001:db8:0:0:0:0:0:1]/",
        "https://[2001:DB8::0:1]/%7e",
        "http://me@h.example/%7E",
    ],
)
def test_a_hash_of_a_url_as_it_stands_fits_it(url: str) -> None:
    """4.3 (2): "no encoding or decoding of escaped characters is done"."""
    engine = engine_of(f"rules: ['{literal(url)}']")
    decision = engine.decide(request_of(url))
    assert (decision.action, decision.matches[0].via) == (Action.BLOCK, "as sent")
    assert engine.decide_url(url.encode()).action is Action.BLOCK
    assert engine.decide(request_of(url + "?q")).action is Action.BLOCK
    assert engine.decide(request_of(url + "x")).action is Action.PASS
    with_query = engine_of(f"rules: ['{literal(url + '?a%2f', '+query')}']")
    assert with_query.decide(request_of(url + "?a%2f")).action is Action.BLOCK
    assert with_query.decide(request_of(url + "?a%2F")).action is Action.PASS
    (match,) = decision.matches
    assert match.rule.pattern == parse_hashed_uri(literal(url))


def test_a_hash_of_a_url_as_it_stands_opens_nothing() -> None:
    """What a canonical form blocks, no other spelling opens (reading 32)."""
    for url in ("http://h.example/x/../secret", "http://h.example/secret?a%2f", "http://h.example/index.html"):
        allow = f"{{uri: '{literal(url, '+query' if '?' in url else '')}', action: allow}}"
        for block in ("h.example/", "'h.example/secret'" if "secret" in url else "h.example/index.html"):
            engine = engine_of(f"rules: [{block}, {allow}]")
            assert engine.decide(request_of(url)).action is Action.BLOCK
        assert engine_of(f"rules: [{allow}]").decide(request_of(url)).action is Action.PASS
    plain = f"{{uri: '{literal('http://h.example/secret')}', action: allow}}"
    assert (
        engine_of(f"rules: [h.example/, {plain}]").decide(request_of("http://h.example/secret")).action is Action.ALLOW
    )


def test_a_password_is_never_shown() -> None:
    url = "http://me:s3cret@h.example/x"
    key = HashKey("sha1", "n", query=False, fragment=False)
    decision = engine_of(f"rules: ['{hash_uri(url, key)}']").decide(request_of(url))
    assert decision.action is Action.BLOCK
    assert "s3cret" not in f"{decision}{decision.as_dict()}{decision.matches}"


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


# -- the answers of an engine that remembers nothing -------------------------------------------------------------------

LAYERS = ("first", "second")
DAYS = (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))
CHECK_TERMS = Terms(Action.BLOCK, "checks", "policy.yaml", layer="first")
CHECK_RULES = tuple(Rule(Check(code), CHECK_TERMS, line) for line, code in enumerate(CHECKS, 1))


def spellings(parts: Parts) -> st.SearchStrategy[Request]:
    """Requests for a canonical URL, spelled in a way that may have other readings, by it alone or by more names."""
    host = parts.host or b""
    target = parts._replace(scheme=None, host=None).join()
    targets = st.sampled_from(
        [
            *(target, target, target, target + b"?", target + b"#f", b"/" + target, b"/." + target, target + b"%20"),
            *(b"/x/.." + target, b"/x//.." + target, b"/\\.." + target, target.replace(b"x", b"%78") + b"/"),
            *(target.replace(b"/", b"%2f"), target + b";x", target + b"%3fq", target.replace(b"?", b"\t?")),
            *(target + b"?a%2fb", target + b"?%2500", target + b"/%0d", target + b"?%00"),
        ]
    )
    hosts = st.sampled_from(
        [
            *((host,),) * 4,
            *((host.upper(),), (host + b".",), (b"www." + host,), (host, host), (host, b"a.b"), (b"a.b", host)),
            *((host, b"a/b"), (host, b""), (), (host, b"a", b"b", b"a.a", b"b.b")),
        ]
    )
    return st.builds(
        Request,
        st.sampled_from([b"http", b"http", b"https", b"HTTP", b""]),
        hosts,
        st.sampled_from([80, 80, 443, 21]),
        targets,
        st.sampled_from([None, None, b"f"]),
        st.sampled_from([None, None, b"me", b"good.example"]),
        st.sampled_from([None, None, None, "the hosts differ"]),
    )


@pytest.mark.slow
@FEW
@given(st.data(), given_rules(LAYERS), st.sets(st.sampled_from(CHECK_RULES)), st.booleans(), st.booleans())
def test_an_engine_that_remembers_decides_as_one_that_does_not(
    data: st.DataObject, given: RulesAndRequests, checks: set[Rule], has_uris: bool, has_learned: bool
) -> None:
    rules = [rule for rule in given.rules if has_uris or not isinstance(rule.pattern, HashedUri)]
    policy = Policy("policy.yaml", (Layer("first", tuple(checks)), Layer("second")), Action.PASS)
    redirect_memory = RedirectMemory(lambda: 0.0) if has_learned else None
    if redirect_memory is not None:
        for parts in given.requested:
            for scheme, port in ((b"http", 80), (b"https", 443)):
                redirect_memory.learn((scheme, parts.host or b"", port), parts.path)
    engine, plain = Engine(policy, index_of(rules), redirect_memory), PlainEngine(policy, rules, redirect_memory)
    arrived = [data.draw(spellings(parts)) for parts in given.requested for _ in range(3)]
    days = [data.draw(st.sampled_from(DAYS)) for _ in range(2)]
    for now in days:
        for request in arrived * 2:
            assert parts_of(engine.decide(request, now)) == parts_of(plain.decide(request, now))
        for url in [parts.join() for parts in given.requested] + [request.url for request in arrived]:
            assert parts_of(engine.decide_url(url, now)) == parts_of(plain.decide_url(url, now))


#: what a URL that looks plain may have in it, or before, or behind
_PIECES = (
    *(b"\t", b"\r", b"\n", b"\0", b" ", b"\x1f", b"\x7f", b"\xff", b"#", b"@", b"\\", b":", b":80", b":443", b":0"),
    *(b":99999", b":65536", b":0080", b"/", b"//", b"/.", b"/..", b"..", b".", b";", b"%", b"%2e", b"%25", b"?", b"&"),
    *(b"a.b", b"good.a.b", b"A.B", b"x", b"bad", b"[::1]", b"1.2.3.4", b"http://", b"https://", b"-", b"_", b"~", b"|"),
)
_PLAIN_LOOKING = (
    *(b"http://a.b/", b"https://a.b/x", b"http://a.b:80/bad/x?q", b"http://good.a.b/bad", b"http://a.b?q"),
    *(
        b"http://a.b",
        b"http://A.b/x",
        b"http://1.2.3.4/bad",
        b"http://0x7f.1/",
        b"http://a.b./bad/",
        b"http://a.b:8080",
    ),
)


def plain_looking() -> st.SearchStrategy[bytes]:
    """URLs with something put into them, somewhere."""

    def put(url: bytes, piece: bytes, place: int) -> bytes:
        place %= len(url) + 1
        return url[:place] + piece + url[place:]

    one = st.builds(put, st.sampled_from(_PLAIN_LOOKING), st.sampled_from(_PIECES), st.integers(0, 40))
    return one | st.builds(put, one, st.sampled_from(_PIECES), st.integers(0, 40))


PLAIN_LOOKING_RULES = """
    rules:
      - a.b/bad/
      - {expression: good.a.b, action: allow}
      - {expression: a.b/x?q, action: tag}
      - {expression: a.b/bad/x, action: allow, expires: 2026-12-31}
      - 127.0.0.1
      - {address: 1.2.0.0/16}
"""


@pytest.mark.slow
@each_row("more", ["", "\n      - hashed:md5=be96302a0468481aca954431cf293e05", f"\n      - {{sha256: {'00' * 4}}}"])
@each_row("unparsable", [Action.BLOCK, Action.PASS])
def test_a_url_that_looks_plain_is_decided_as_its_request(more: str, unparsable: Action) -> None:
    text = PLAIN_LOOKING_RULES.rstrip() + more
    engine = engine_of(text, unparsable=unparsable)
    plain = PlainEngine(engine.policy, rules_of(text, "first.yaml", "first"))

    @FEW
    @given(st.lists(plain_looking() | urls(), min_size=1, max_size=3), st.sampled_from(DAYS))
    def compare(arrived: list[bytes], now: datetime) -> None:
        for url in (*_PLAIN_LOOKING, *arrived, *arrived):  # the hosts are known before the second time, if ever
            decision = parts_of(engine.decide_url(url, now))
            assert decision == parts_of(plain.decide_url(url, now))
            with suppress(UrlError):
                assert decision == parts_of(engine.decide(request_of(url), now))

    compare()


@each_row("url", [b"mailto:me@h.example", b"http:///x", b"http://h.example:65536/", b"", b"http://a b:x/"])
@each_row("unparsable", [Action.BLOCK, Action.PASS])
def test_a_url_that_is_no_request_is_decided_by_the_policy(url: bytes, unparsable: Action) -> None:
    decision = engine_of("rules: [h.example]", unparsable=unparsable).decide_url(url)
    with pytest.raises(UrlError) as error:
        request_of(url)
    assert parts_of(decision) == (unparsable, url, (), None, error.value.reason, "", None)


def test_a_host_that_decides_alone_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    on_host, find_paths = Index.on_host, Index.find_paths
    monkeypatch.setattr(Index, "on_host", lambda index, name: asked.append(name) or on_host(index, name))
    monkeypatch.setattr(Index, "find_paths", lambda index, *args: asked.append(b"path") or find_paths(index, *args))
    engine = engine_of("rules: [blocked.example, other.example/x]")
    for path in (b"", b"/", b"/x?q", b"/%2e%2e//x"):
        assert engine.decide_url(b"http://www.blocked.example" + path).action is Action.BLOCK
        assert engine.decide(request(b"www.blocked.example", target=path)).action is Action.BLOCK
    assert asked.count(b"www.blocked.example") == 1


def test_hosts_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.core.decide.known_hosts.MOST_KNOWN", 8)
    engine = engine_of("rules: [blocked.example]")
    for _ in range(2):
        for number in range(50):
            assert engine.decide(request(b"h%d.blocked.example" % number)).action is Action.BLOCK
            assert engine.decide(request(b"h%d.good.example" % number)).action is Action.PASS
        only = engine.hosts.only
        assert only is not None
        assert len(only.by_name) <= 8


# -- groups, schedules, categories, grants ----------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")
SCHEDULES = (
    None,
    None,
    Schedule("lessons", BERLIN, (RecurringSpans(frozenset(range(5)), None, ((480, 780),)),)),
    Schedule("night", BERLIN, (RecurringSpans(spans=((1290, 1830),)),)),
    # of which nothing is left to come at some moments, and something at all before
    Schedule(
        "once",
        UTC,
        (RecurringSpans(dates=RecurringDates.of([(date(2026, 12, 24).toordinal(), date(2026, 12, 24).toordinal())])),),
    ),
)
TURNS = [
    schedule.next_change(datetime(2026, 12, day, 12, tzinfo=UTC))
    for schedule in SCHEDULES
    if schedule is not None
    for day in (22, 23, 24)
]
MOMENTS = sorted(
    {turn + tick for turn in TURNS if turn is not None for tick in (-timedelta.resolution, timedelta(0))}
    | {datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)}
)
CATEGORIES = ("hrn://c.example", "hrn://c.example/web", "hrn://c.example/web/games", "hrn://c.example/web/games/x")
CLIENTS = (
    *(NOBODY, Client("10.0.0.7"), Client("::ffff:10.0.0.7"), Client("10.0.1.7", "jo", 8080), Client("10.0.1.7", "al")),
    *(Client("fe80::1%eth0", None, 8081), Client("2001:db8::1", "jo"), Client("nonsense", "jo", 8081)),
)


def timed(actions: Sequence[Action] = CATEGORY_ACTIONS) -> st.SearchStrategy[ScheduledAction]:
    return st.builds(
        ScheduledAction,
        st.sampled_from(actions),
        st.just("policy.yaml"),
        st.integers(1, 9),
        st.sampled_from(SCHEDULES),
        st.none() | st.sampled_from(actions),
    )


def group_settings() -> st.SearchStrategy[GroupSettings]:
    default = st.none() | timed(DEFAULT_ACTIONS)
    said = st.dictionaries(st.sampled_from(CATEGORIES), timed(), max_size=3)
    return st.tuples(said, default).map(lambda some: GroupSettings(*some))


def groups() -> st.SearchStrategy[tuple[Group, ...]]:
    uses = st.lists(
        st.builds(LayerUse, st.sampled_from(LAYERS), st.sampled_from(SCHEDULES)), unique_by=lambda use: use[0]
    )
    networks = st.sampled_from([(), (), (ip_network("10.0.0.0/24"),), (ip_network("::/0"), ip_network("10.0.1.7/32"))])
    users = st.sampled_from([frozenset[str](), frozenset({"jo"}), frozenset({"al", "ed"})])
    ports = st.sampled_from([frozenset[int](), frozenset[int](), frozenset({8080}), frozenset({8081, 1})])
    one = st.tuples(uses.map(tuple), group_settings(), st.just({}), networks, users, ports)
    return st.lists(one, max_size=3).map(
        lambda some: tuple(Group(f"group {number}", *group) for number, group in enumerate(some))
    )


def grants_for(asked: Sequence[Parts]) -> st.SearchStrategy[list[Grant]]:
    hosts = {parts.host.decode() for parts in asked if parts.host} | {"b", "a.b"}
    targets = st.one_of(
        st.tuples(st.just("host"), st.sampled_from(sorted(hosts))),
        st.tuples(st.just("url"), st.sampled_from(sorted({parts.join().decode() for parts in asked}))),
        st.tuples(st.just("category"), st.sampled_from(CATEGORIES)),
    )
    names = st.sampled_from([None, "10.0.0.7", "10.0.1.7", "user:jo", "nonsense"])
    until = st.sampled_from([*MOMENTS[::3], datetime(2030, 1, 1, tzinfo=UTC)]).map(datetime.timestamp)
    how = st.sampled_from(["code", "passphrase", "warning"])
    rows = st.lists(st.tuples(targets, names, until, how), max_size=4)
    return rows.map(
        lambda some: [
            Grant(number, *target, client, until, how, "", 0.0)
            for number, (target, client, until, how) in enumerate(some)
        ]
    )


class Granted(Overrides):
    """Grants that are in no file."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._granted = GrantTable(grants)

    def covering(
        self,
        client_names: Iterable[str],
        host: bytes,
        url: bytes,
        categories: Iterable[str],
        now: float,
        *,
        is_warning: bool = False,
        since: float = -inf,
    ) -> Grant | None:
        return self._granted.find(client_names, host, url, categories, now, is_warning=is_warning, since=since)

    def blocks_at(self, now: float) -> BlockTable:
        return NO_BLOCKS


def recategorized(rule: Rule, category: str | None, *, warns: bool) -> Rule:
    action = Action.WARN if warns and rule.terms.action is Action.BLOCK else rule.terms.action
    return rule._replace(terms=rule.terms._replace(category=category, action=action))


@pytest.mark.slow
@FEW
@given(st.data(), given_rules(LAYERS), groups(), group_settings(), st.booleans())
def test_groups_schedules_and_grants_are_as_if_nothing_were_remembered(
    data: st.DataObject, given: RulesAndRequests, some_groups: tuple[Group, ...], for_all: GroupSettings, has_more: bool
) -> None:
    some = [rule for rule in given.rules if has_more or not isinstance(rule.pattern, HashedUri)]
    categories = st.none() | st.sampled_from(CATEGORIES)
    rules = [recategorized(rule, data.draw(categories), warns=data.draw(st.booleans())) for rule in some]
    checks = data.draw(st.sets(st.sampled_from(CHECK_RULES), max_size=2)) if has_more else set()
    during = data.draw(st.sampled_from(SCHEDULES))
    layers = (Layer("first", tuple(checks)), Layer("second", during=during))
    policy = Policy("policy.yaml", layers, Action.PASS, some_groups, for_all)
    granted = data.draw(st.just([]) | grants_for(given.requested))
    engine = Engine(policy, index_of(rules), overrides=Granted(granted) if granted else None)
    plain = PlainEngine(policy, rules, grants=granted)
    arrived = [data.draw(spellings(parts)) for parts in given.requested for _ in range(2)]
    urls = [parts.join() for parts in given.requested]
    for _ in range(4):
        now = data.draw(st.sampled_from(MOMENTS))
        now = data.draw(st.sampled_from([now, now.astimezone(BERLIN)]))
        client = data.draw(st.sampled_from(CLIENTS))
        for request in arrived * 2:
            assert parts_of(engine.decide(request, now, client)) == parts_of(plain.decide(request, now, client))
        for url in urls * 2:
            assert parts_of(engine.decide_url(url, now, client)) == parts_of(plain.decide_url(url, now, client))


NOW = datetime(2026, 12, 24, 12, tzinfo=UTC)
SOON = NOW.timestamp() + 60
PUPIL, OTHER = Client("10.0.0.7"), Client("10.0.0.8")


def lifting(engine: Engine, *grants: tuple[str, str], how: str = "code", **policy: object) -> Engine:
    """The engine, and the pupil's grants of a minute, each a scope and a target."""
    made = [Grant(n, *grant, PUPIL.address, SOON, how, "", 0.0) for n, grant in enumerate(grants, 1)]
    return Engine(engine.policy._replace(**policy), engine.index, overrides=Granted(made))  # type: ignore[arg-type]


def test_a_grant_is_for_its_client_and_its_time() -> None:
    engine = lifting(engine_of("rules: [h.example]"), ("host", "h.example"))
    decision = engine.decide(request(), NOW, PUPIL)
    assert (decision.action, decision.grant and decision.grant.id) == (Action.ALLOW, 1)
    assert str(decision).endswith("(grant 1), or else: h.example/ by first (first.yaml:1)")
    assert engine.decide(request(), NOW, OTHER).action is Action.BLOCK
    assert engine.decide(request(), NOW).action is Action.BLOCK
    assert engine.decide(request(), NOW + timedelta(seconds=60), PUPIL).action is Action.BLOCK


def test_a_target_that_is_unblocked_does_not_open_a_host_that_is_not() -> None:
    engine = lifting(engine_of("rules: [h.example, blocked.example]"), ("host", "h.example"))
    for hosts in ((b"h.example", b"blocked.example"), (b"blocked.example", b"h.example")):
        assert engine.decide(request(*hosts), NOW, PUPIL).action is Action.BLOCK


@each_row("rules", ["rules: [h.example]", "rules: [h.example/good, h.example/bad/]"])
@each_row("target", [b"/bad/../good", b"/bad\\..\\good", b"/good/../good", b"/good#"])
def test_a_url_that_is_unblocked_opens_no_other_reading(rules: str, target: bytes) -> None:
    engine = lifting(engine_of(rules), ("url", "http://h.example/good"))
    assert engine.decide(request(target=b"/good"), NOW, PUPIL).action is Action.ALLOW
    assert engine.decide_url(b"http://h.example/good", NOW, PUPIL).action is Action.ALLOW
    blocked = rules == "rules: [h.example]" or b"bad" in target
    assert (engine.decide(request(target=target), NOW, PUPIL).action is Action.BLOCK) is blocked
    if b"#" not in target:  # which a browser does not send
        url = b"http://h.example" + target
        assert (engine.decide_url(url, NOW, PUPIL).action is Action.BLOCK) is blocked


def test_a_category_that_is_unblocked_opens_what_is_subordinate_and_nothing_else() -> None:
    games, chess, web = (f"hrn://c.example/web{name}" for name in ("/games", "/games/chess", ""))
    bad = "hrn://c.example/bad"
    engine = lifting(
        engine_of(
            f"""
            rules:
              - {{expression: both.example/x, category: '{games}'}}
              - {{expression: both.example, category: '{bad}'}}
              - {{expression: chess.example, category: '{chess}'}}
              - {{expression: web.example, category: '{web}'}}
              - none.example
            """,
            f"rules: [{{expression: below.example, category: '{bad}'}}]",
        ),
        ("category", games),
    )
    actions = {
        host: engine.decide(request(host), NOW, PUPIL).action
        for host in (b"chess.example", b"web.example", b"none.example")
    }
    assert actions == {b"chess.example": Action.ALLOW, b"web.example": Action.BLOCK, b"none.example": Action.BLOCK}
    # what is blocked for something else too stays so, and says for what
    decision = engine.decide(request(b"both.example", target=b"/x"), NOW, PUPIL)
    assert (decision.action, decision.winner and decision.winner.rule.terms.category) == (Action.BLOCK, bad)


def test_a_click_on_a_warning_opens_nothing_that_is_blocked() -> None:
    text = "rules: [{expression: h.example, action: warn}, h.example/bad/, www.h.example]"
    engine = lifting(engine_of(text), ("host", "h.example"), how="warning")
    assert engine.decide(request(), NOW, PUPIL).action is Action.ALLOW
    assert engine.decide(request(), NOW, OTHER).action is Action.WARN
    assert engine.decide(request(target=b"/bad/"), NOW, PUPIL).action is Action.BLOCK
    assert engine.decide(request(b"www.h.example"), NOW, PUPIL).action is Action.BLOCK


def test_no_grant_opens_what_a_check_blocks_or_what_cannot_be_read() -> None:
    engine = engine_of("rules: [h.example]")
    check = Rule(Check("user-information"), Terms(Action.BLOCK, "checks", "policy.yaml", layer="first"), 1)
    grants = [("host", "h.example"), ("url", "http://h.example/")]
    checking = lifting(engine, *grants, layers=(Layer("first", (check,)),))
    below = lifting(engine, *grants, layers=(Layer("first"), Layer("second", (below_of(check),))))
    asked = Request(b"http", (b"h.example",), 80, b"/", userinfo=b"me")
    for one in (checking, below):
        decision = one.decide(asked, NOW, PUPIL)
        assert (decision.action, decision.winner and decision.winner.rule.pattern) == (Action.BLOCK, check.pattern)
        assert one.decide(request(), NOW, PUPIL).action is Action.ALLOW
    unread = Request(b"http", (b"h.example",), 80, b"/", fault="it is none")
    assert checking.decide(unread, NOW, PUPIL).action is Action.BLOCK


def below_of(rule: Rule) -> Rule:
    return rule._replace(terms=rule.terms._replace(layer="second"))


@pytest.mark.parametrize("grant", [("host", "other.example"), ("url", "http://other.example/")])
def test_what_the_default_blocks_can_be_unblocked(grant: tuple[str, str]) -> None:
    settings = GroupSettings(default=ScheduledAction(Action.BLOCK, "policy.yaml", 1))
    engine = lifting(engine_of("rules: []"), grant, settings=settings)
    assert engine.decide(request(b"other.example"), NOW, PUPIL).action is Action.ALLOW
    assert engine.decide(request(b"another.example"), NOW, PUPIL).action is Action.BLOCK


# -- whatever the size of the lists ------------------------------------------------------------------------------------


def engine_and_reads(rules: Iterable[Rule]) -> tuple[Engine, list[int]]:
    """An engine, and the octets that its index reads of its file."""
    octets = octets_of(index_of(rules))
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(length)
        return octets[offset : offset + length]

    return Engine(Policy("policy.yaml", (Layer(""),)), Index(octets, read)), reads


@pytest.mark.slow
@pytest.mark.thorough
def test_a_host_with_100_000_paths_costs_no_more_than_one_with_one() -> None:
    rules = [Rule(Expression(b"h.example/%d" % number), TERMS, number) for number in range(1, 100_001)]
    costs = []
    for some in (rules[41_999:42_000], rules):
        engine, reads = engine_and_reads(some)
        assert engine.decide(request(target=b"/42000")).winner is not None
        assert engine.decide(request(target=b"/x/y/z?q")).action is Action.PASS
        costs.append((len(reads), sum(reads)))
    (few, _), (many, octets) = costs
    assert many <= few + 8
    assert octets < 1 << 14


@pytest.mark.parametrize("length", [9, 12, 31, 32])
def test_hashes_that_begin_alike_are_searched_not_read_through(length: int) -> None:
    first = full_hash(b"h.example/bad")
    alike = [first[:8] + number.to_bytes(24, "big") for number in range(10_000)]
    hashes = sorted({full[:length] for full in [*alike, first]} if length > 12 else {first[:length]})
    hashes += [first[:8] + number.to_bytes(4, "big") + bytes(20) for number in range(10_000)]
    engine, reads = engine_and_reads(Rule(ExpressionHash(value), TERMS, line) for line, value in enumerate(hashes, 1))
    assert engine.decide(request(target=b"/bad")).action is Action.BLOCK
    assert len(reads) < 64
    assert sum(reads) < 1 << 16


# -- a host as a whole -------------------------------------------------------------------------------------------------


def test_a_rule_in_the_clear_that_may_allow_something_on_a_host_is_known_of() -> None:
    good = "hrn://h.example/good"
    block, allow, named = TERMS, TERMS._replace(action=Action.ALLOW), TERMS._replace(category=good)
    rules = [
        *(Rule(Expression(value), block, 1) for value in (b"a.example/", b"a.example/x", b"b.example/", b"c.example/")),
        *(Rule(Expression(value), allow, 2) for value in (b"b.example/x", b"whole.example/")),
        *(Rule(Expression(value), named, 3) for value in (b"c.example/x", b"a.example/x/y")),
        Rule(Expression(b"a.example/z"), TERMS._replace(action=Action.TAG), 4),
    ]
    index = index_of(rules)
    said = GroupSettings(categories={good: ScheduledAction(Action.PASS, "policy.yaml", 1, otherwise=Action.ALLOW)})
    plain, allowing = (
        Engine(Policy("policy.yaml", (Layer(""),), settings=own), index) for own in (GroupSettings(), said)
    )
    hosts = [b"a.example", b"b.example", b"www.b.example", b"c.example", b"whole.example", b"other.example", b"a/b"]
    assert [host for host in hosts if plain.hosts.allows_below(host)] == [b"b.example", b"www.b.example"]
    assert [host for host in hosts if allowing.hosts.allows_below(host)] == hosts[:4]


def test_of_two_lists_the_one_that_allows_counts() -> None:
    """Guides of several parts of the sources are for the same host."""
    allow = TERMS._replace(action=Action.ALLOW, layer="second")
    rules = [Rule(Expression(b"h.example/x"), TERMS, 1), Rule(Expression(b"h.example/y"), allow, 1)]
    for some in (rules, rules[::-1]):
        engine = Engine(Policy("policy.yaml", (Layer(""), Layer("second"))), index_of(some))
        assert engine.hosts.allows_below(b"h.example")


# -- hosts as a whole, and destinations that nobody has named ----------------------------------------------------------

WHOLE = (
    "rules: [blocked.example, path.example/x, {expression: blocked.example/ok, action: allow}, {address: 192.0.2.0/24}]"
)


@each_row(
    ("hosts", "action"),
    [
        ((b"blocked.example",), Action.BLOCK),
        ((b"www.blocked.example",), Action.BLOCK),
        ((b"path.example",), Action.PASS),
        ((b"192.0.2.7",), Action.BLOCK),
        ((b"good.example", b"blocked.example"), Action.BLOCK),
        ((b"a/b",), Action.BLOCK),
        ((), Action.BLOCK),
    ],
)
def test_a_connection_is_decided_by_rules_for_whole_hosts(hosts: tuple[bytes, ...], action: Action) -> None:
    decision = engine_of(WHOLE).decide_host(Request(b"tcp", hosts, 9000, b"/ok"))
    assert decision.action is action
    if hosts == (b"blocked.example",):
        assert decision.url == b"tcp://blocked.example:9000/"


@pytest.mark.parametrize(("host", "has"), [(b"path.example", True), (b"www.path.example", True), (b"a.example", False)])
def test_it_is_known_whether_rules_are_about_less_than_a_host(host: bytes, has: bool) -> None:
    assert engine_of(WHOLE).hosts.has_paths(host) is has


def allow_list(tmp_path: Path) -> Engine:
    (tmp_path / "rules.yaml").write_text(
        "rules: [{expression: good.example, action: allow}, {address: 192.0.2.0/24},"
        " {address: 203.0.113.0/24, action: tag}]"
    )
    (tmp_path / "policy.yaml").write_text("default: block\nlayers: [{name: a, lists: [rules.yaml]}]\n")
    return load_engine(tmp_path / "policy.yaml")


@pytest.mark.parametrize(
    ("names", "destination", "action"),
    [
        ((b"good.example",), b"198.51.100.1", Action.ALLOW),
        ((b"good.example",), b"203.0.113.1", Action.ALLOW),
        ((b"good.example",), b"192.0.2.7", Action.BLOCK),
        ((b"other.example",), b"198.51.100.1", Action.BLOCK),
        ((b"good.example", b"other.example"), b"198.51.100.1", Action.BLOCK),
    ],
)
def test_a_destination_that_nobody_has_named_is_decided_by_rules_alone(
    tmp_path: Path, names: tuple[bytes, ...], destination: bytes, action: Action
) -> None:
    engine = allow_list(tmp_path)
    asked = Request(b"https", (*names, destination), 443, b"/x", destination=destination)
    assert engine.decide(asked).action is action
    assert engine.decide_host(asked).action is action
    tags = [str(tag.rule.pattern) for tag in engine.decide(asked).tags]
    assert tags == (["203.0.113.0/24"] if destination == b"203.0.113.1" else [])
    named = Request(b"https", (*names, destination), 443, b"/x")
    assert engine.decide(named).action is Action.BLOCK


@each_row(
    ("rules", "lifted", "action"),
    [
        ("rules: [www.h.example, {expression: h.example, action: tag}]", "www.h.example", Action.ALLOW),
        ("rules: [{expression: www.h.example, action: tag}, h.example]", "h.example", Action.ALLOW),
        ("rules: [{expression: www.h.example/, action: tag}, h.example]", "other.example", Action.BLOCK),
        ("rules: [www.h.example, h.example]", "www.h.example", Action.ALLOW),
        ("rules: [www.h.example, {expression: h.example, action: allow}]", "www.h.example", Action.ALLOW),
    ],
)
def test_a_tag_neither_opens_nor_blocks_what_is_unblocked(rules: str, lifted: str, action: Action) -> None:
    engine = lifting(engine_of(rules), ("host", lifted))
    assert engine.decide(request(b"www.h.example"), NOW, PUPIL).action is action
    assert engine.decide_url(b"http://www.h.example/", NOW, PUPIL).action is action


# -- what need not be decrypted ----------------------------------------------------------------------------------------


def connection(*hosts: bytes, port: int = 443, destination: bytes | None = None) -> Request:
    """All that is known of a TLS connection."""
    return Request(b"https", hosts, port, b"/", destination=destination)


@pytest.mark.slow
@FEW
@given(st.data(), given_rules(LAYERS), groups(), group_settings(), st.booleans(), st.booleans())
def test_a_connection_that_need_not_be_decrypted_is_decided_as_each_request_in_it(
    data: st.DataObject,
    given: RulesAndRequests,
    some_groups: tuple[Group, ...],
    for_all: GroupSettings,
    has_more: bool,
    has_paths: bool,
) -> None:
    opaque = () if has_more else (ExpressionHash, HashedUri)
    some = [rule for rule in given.rules if not isinstance(rule.pattern, opaque)]
    if not has_paths:
        some = [rule for rule in some if not isinstance(rule.pattern, WholeUrl) and str(rule.pattern).endswith("/")]
    categories = st.none() | st.sampled_from(CATEGORIES)
    rules = [recategorized(rule, data.draw(categories), warns=data.draw(st.booleans())) for rule in some]
    checks = data.draw(st.sets(st.sampled_from(CHECK_RULES), max_size=2)) if has_more else set()
    layers = (Layer("first", tuple(checks)), Layer("second", during=data.draw(st.sampled_from(SCHEDULES))))
    granted = data.draw(st.just([]) | grants_for(given.requested))
    engine = Engine(
        Policy("policy.yaml", layers, Action.PASS, some_groups, for_all),
        index_of(rules),
        overrides=Granted(granted) if granted else None,
    )
    arrived = [data.draw(spellings(parts)) for parts in given.requested]
    arrived += [
        connection(parts.host or b"")._replace(target=b"/" + parts.join().split(b"/", 3)[3])
        for parts in given.requested
    ]
    for now in (data.draw(st.sampled_from(MOMENTS)), data.draw(st.sampled_from(MOMENTS))):
        client = data.draw(st.sampled_from(CLIENTS))
        for request in arrived:
            outer = connection(*request.hosts, port=request.port)
            within = request._replace(scheme=b"https")
            decision = engine.decide(within, now, client)
            if engine.why_decrypt(outer, now, client) is None and within.fault is None and decision.fault is None:
                relayed = engine.decide_host(outer, now, client)
                assert (relayed.action, relayed.matches) == (decision.action, decision.matches)


def test_the_reasons_to_decrypt_a_connection() -> None:
    engine = engine_of(
        f"""
        rules:
          - blocked.example
          - path.example/secret/
          - query.example/?q
          - {whole_url("http://whole.example/x", "simple", "allow")}
          - {{expression: warned.example, action: warn}}
          - {{expression: allowed.example, action: allow}}
          - {{expression: cdn.example, action: tag, category: 'hrn://c.example/cdn/big'}}
          - {{address: 192.0.2.0/24, action: tag}}
        """
    )
    always = AlwaysDecrypted(frozenset([(b"other.example", True)]), categories=frozenset(["hrn://c.example/cdn"]))
    settings = GroupSettings(values={"safe-search": {"google": "strict", "bing": "off"}}, always_decrypted=always)
    engine = Engine(engine.policy._replace(settings=settings), engine.index)
    page, paths, address = "the page is to be shown: ", "there are rules for paths on ", "it goes to an address: "
    reasons = {
        (b"good.example",): None,
        (b"www.allowed.example",): None,
        (b"example",): None,
        (b"blocked.example",): page + "block",
        (b"good.example", b"www.blocked.example"): page + "block",
        (b"warned.example",): page + "warn",
        (b"path.example",): paths + "path.example",
        (b"a.b.c.d.e.path.example",): paths + "a.b.c.d.e.path.example",
        (b"good.example", b"PATH.example."): paths + "path.example",
        (b"query.example",): paths + "query.example",
        (b"whole.example",): paths + "whole.example",
        (b"192.0.2.7",): address,
        (b"0x7f.1", b"good.example"): address,
        (b"www.google.com",): "safe search changes requests to www.google.com",
        (b"www.bing.com",): None,
        (b"www.cdn.example",): "always-decrypt has www.cdn.example",
        (b"www.other.example",): "always-decrypt has www.other.example",
        (b"a/b",): "it cannot be read: there is a delimiter in the host",
        (): "it cannot be read: the request goes by no host",
    }
    told = {hosts: engine.why_decrypt(connection(*hosts)) for hosts in reasons}
    assert {hosts: why and why[: len(reasons[hosts] or why)] for hosts, why in told.items()} == reasons
    assert engine.why_decrypt(connection(b"good.example", b"192.0.2.7", destination=b"192.0.2.7")) is None


def test_without_pages_what_is_blocked_is_decrypted_only_if_something_inside_could_be_allowed() -> None:
    engine = engine_of(
        "rules: [blocked.example, part.example, {expression: part.example/ok, action: allow},"
        " {expression: warned.example, action: warn}]"
    )
    policy = engine.policy._replace(settings=GroupSettings(decrypt="without-pages"))
    engine = Engine(policy, engine.index)
    reasons = {
        b"blocked.example": None,
        b"good.example": None,
        b"part.example": "there are rules for paths on part.example",
        b"warned.example": "the page is to be shown: warn",
    }
    assert {host: engine.why_decrypt(connection(host)) for host in reasons} == reasons


def test_what_cannot_be_seen_through_has_everything_decrypted_where_its_layer_is_asked() -> None:
    path, host = full_hash(b"bad.example/x").hex(), full_hash(b"bad.example/").hex()
    sealed = SEAL.sealer()(b"bad.example/").hex()
    about = "in layer second may be of paths on any host"
    for text, why in (
        (f"rules: [{{sha256: {path}}}]", about),
        (f"rules: [{{sha256: {host[:8]}}}]", about),
        ("rules: [hashed:md5=be96302a0468481aca954431cf293e05]", about),
        (f"covers: hosts\nrules: [{{sha256: {host}}}]", None),
        (f"covers: hosts\nrules: [{{sha256: {host[:8]}}}]", None),
        (f"covers: hosts\nseal: {SEAL.fingerprint}\nrules: [{{sealed: {sealed}}}]", None),
        (f"seal: {SEAL.fingerprint}\nrules: [{{sealed: {sealed}}}]", about),
    ):
        policy = Policy("policy", (Layer("first"), Layer("second")), seals={SEAL.fingerprint: SEAL})
        engine = Engine(policy, index_of(rules_of(text, layer="second")))
        told = engine.why_decrypt(connection(b"good.example"))
        assert (told and told.endswith(why or "-")) is (why and True), text
        free = Group("free", (LayerUse("first"),), GroupSettings(), ports=frozenset({1}))
        engine = Engine(engine.policy._replace(groups=(free,)), engine.index)
        assert engine.why_decrypt(connection(b"good.example"), client=Client(port=1)) is None
        blocks = host[:8] in text or sealed in text
        assert engine.decide_host(connection(b"www.bad.example")).action is (Action.BLOCK if blocks else Action.PASS)


def test_a_check_that_needs_the_requests_has_everything_decrypted() -> None:
    for code in CHECKS:
        rule = Rule(Check(code), TERMS._replace(layer="first"), 1)
        engine = Engine(Policy("policy.yaml", (Layer("first", (rule,)),)), index_of(()))
        needs = f"the check {code} in layer first needs the requests"
        is_of_names = code in ("well-known-port", "rare-ipv4", "names-disagree")
        assert engine.why_decrypt(connection(b"good.example")) == (None if is_of_names else needs)


@pytest.mark.parametrize("hosts", [(b"free.example", b"h.example"), (b"h.example", b"free.example")])
def test_what_a_grant_opens_is_decrypted_whatever_another_name_is_allowed_by(hosts: tuple[bytes, ...]) -> None:
    rules = "rules: [h.example, {expression: free.example, action: allow}]"
    engine = lifting(engine_of(rules), ("url", "https://h.example/"))
    asked = connection(*hosts)
    assert engine.decide(asked._replace(target=b"/other"), NOW, PUPIL).action is Action.BLOCK
    assert engine.why_decrypt(asked, NOW, PUPIL) == "a temporary unblock may be for less than its host"


# -- network filters of Adblock lists ----------------------------------------------------------------------------------

_SCRIPT = StatedContext(b"https://www.news.example/", "script", b"GET")


def filtering(*layers: str, unknown: Action = Action.PASS, default: str = "") -> Engine:
    """An engine of Adblock lists, each a layer, behind a layer of rules in YAML."""
    rules = [*rules_of(default, "first.yaml", "first")] if default else []
    names = [f"list{number}" for number, _ in enumerate(layers)]
    for name, text in zip(names, layers, strict=True):
        report = ProblemReport(name)
        rules += FORMATS["adblock"].read(text.encode(), ListDefaults(layer=name), report)
        assert report.warnings == []
    policy = Policy("policy.yaml", (Layer("first"), *map(Layer, names)), unknown_context=unknown)
    return Engine(policy, index_of(rules))


def request_with(url: str, told: StatedContext | None = _SCRIPT) -> Request:
    return request_of(url)._replace(context=told)


@each_row(
    ("lists", "url", "action"),
    [
        (["||ads.example/a.js$script,third-party"], "https://ads.example/a.js", Action.BLOCK),
        (["||ads.example/a.js$script,third-party"], "https://ads.example/b.js", Action.PASS),
        (["||ads.example/a.js$image"], "https://ads.example/a.js", Action.PASS),
        (["||ads.a.example^\n@@||a.example^"], "https://ads.a.example/", Action.ALLOW),
        (["||ads.a.example^\n@@||a.example^|"], "https://ads.a.example/", Action.ALLOW),
        (["||ads.a.example^$important\n@@||a.example^"], "https://ads.a.example/", Action.BLOCK),
        (["||ads.a.example^\n@@||a.example/ok/$script"], "https://ads.a.example/ok/x", Action.ALLOW),
        (["||ads.a.example^\n@@||a.example/ok/$script"], "https://ads.a.example/x", Action.BLOCK),
        (["||ads.a.example^\n@@/ok/$domain=news.example"], "https://ads.a.example/ok/x", Action.ALLOW),
        (["||ads.a.example^\n@@||news.example^$document"], "https://ads.a.example/x", Action.ALLOW),
        # within its layer alone
        (["@@||a.example^", "||a.example^"], "https://a.example/", Action.BLOCK),
        (["||a.example^\n@@||a.example^", "||a.example/x"], "https://a.example/x", Action.BLOCK),
        (["||a.example^", "@@||a.example^"], "https://a.example/", Action.BLOCK),
        (
            ["@@||news.example^$document\n@@*$domain=news.example\n||a.example^$badfilter", "||a.example^"],
            "https://a.example/",
            Action.BLOCK,
        ),
        (
            ["||a.example/x$script\n||a.example/x$script,badfilter", "||a.example/x$script"],
            "https://a.example/x",
            Action.BLOCK,
        ),
        (["||a.example^\n@@||a.example^", "||b.example^"], "https://a.example/", Action.ALLOW),
        (["@@||a.example^"], "https://a.example/", Action.PASS),
        # the query and the port count, as sent
        (["||a.example/p?id=1"], "https://a.example/p?id=1", Action.BLOCK),
        (["||a.example/p?id=1"], "https://a.example/p?%69d=1", Action.BLOCK),
        (["/ads/banner"], "https://a.example/go?to=%2Fads%2Fbanner", Action.PASS),
        (["||a.example:8443^$script"], "https://a.example:8443/x", Action.BLOCK),
        (["||a.example:8443^$script"], "https://a.example/x", Action.PASS),
        (["||a.example/x$script"], "https://a.example:8443/x", Action.BLOCK),
        (["|https://a.example/x$script"], "http://a.example/x", Action.PASS),
        # each reading of a path
        (["/ads/x.js"], "https://a.example/%61ds/x.js", Action.BLOCK),
        (["/ads/x.js"], "https://a.example/y/..//ads/./x.js", Action.BLOCK),
        (["/%61ds/"], "https://a.example/%61ds/x.js", Action.BLOCK),
        (["||a.example/ads/$script\n@@/fine/"], "https://a.example/fine/../ads/x", Action.BLOCK),
    ],
)
def test_network_filters_decide_as_their_authors_mean_it(lists: list[str], url: str, action: Action) -> None:
    assert filtering(*lists).decide(request_with(url)).action is action


def test_rules_of_the_administrator_and_exceptions_keep_apart() -> None:
    default = "rules: [{expression: a.example/fine/, action: allow}, b.example]"
    engine = filtering("||a.example/*.js$script\n@@||b.example^", default=default)
    assert engine.decide(request_with("https://a.example/fine/x.js")).action is Action.ALLOW
    assert engine.decide(request_with("https://a.example/x.js")).action is Action.BLOCK
    assert engine.decide(request_with("https://b.example/x.js")).action is Action.BLOCK


@pytest.mark.parametrize(("unknown", "action"), [(Action.PASS, Action.PASS), (Action.BLOCK, Action.BLOCK)])
def test_where_the_context_is_not_known_the_policy_says_what_filters_do(unknown: Action, action: Action) -> None:
    engine = filtering("||a.example/x$script,third-party\n@@||a.example/x$domain=b.example", unknown=unknown)
    assert engine.decide(request_with("https://a.example/x", None)).action is action
    assert engine.decide(request_with("https://a.example/x")).action is Action.BLOCK


def test_the_explanation_names_filter_list_line_and_what_was_assumed() -> None:
    engine = filtering("! x\n||a.example/x$script\n@@||a.example/*$domain=news.example")
    decision = engine.decide(request_with("https://a.example/x"))
    assert str(decision) == (
        "https://a.example/x by list0 (list0:3, filter @@||a.example/*$domain=news.example, for script for "
        "www.news.example, third party)"
    )
    assert [match.rule.line for match in decision.matches] == [3, 2]
    assert decision.matches[1].as_dict()["rule"] == "||a.example/x$script"


def test_a_connection_is_decided_by_filters_for_whole_hosts_and_decrypted_for_others() -> None:
    engine = filtering("||ads.a.example^\n||x.example^$important\n@@||fine.ads.a.example^\n||b.example/x")
    decided = [
        engine.decide_host(connection(host)).action for host in (b"ads.a.example", b"x.example", b"fine.ads.a.example")
    ]
    assert decided == [Action.BLOCK, Action.BLOCK, Action.ALLOW]
    assert engine.why_decrypt(connection(b"other.example")) is None
    assert engine.why_decrypt(connection(b"www.b.example")) == "there are rules for paths on www.b.example"
    engine = filtering("/ads/$script")
    assert engine.why_decrypt(connection(b"other.example")) == "rules in layer list0 may be of paths on any host"
    assert engine.hosts.has_paths(b"b.example") is False


def test_a_name_with_exceptions_below_it_is_not_refused_as_a_whole() -> None:
    engine = filtering("||a.example^\n@@||a.example/ok$script\n||b.example^")
    assert (engine.hosts.allows_below(b"a.example"), engine.hosts.allows_below(b"b.example")) == (True, False)


@pytest.mark.parametrize("unknown", [Action.PASS, Action.BLOCK])
def test_a_name_is_decided_by_filters_for_whole_hosts_alone(unknown: Action) -> None:
    engine = filtering("||a.example/\n||b.example^$third-party\n.com^\n||c.example^$important", unknown=unknown)
    for host, action in ((b"a.example", Action.PASS), (b"b.example", Action.PASS), (b"c.com", Action.PASS),
                         (b"www.c.example", Action.BLOCK)):  # fmt: skip
        assert engine.decide(Request(b"dns", (host,), 53, b"/")).action is action
        assert engine.decide_host(connection(host)).action is action


def test_a_check_counts_beside_filters() -> None:
    check = Rule(Check("user-information"), Terms(Action.BLOCK, "checks", "policy.yaml", layer="first"), 1)
    filters = filtering("/ads/").index
    engine = Engine(Policy("policy.yaml", (Layer("first", checks=(check,)), Layer("list0"))), filters)
    every = ("https://a.example/x", "https://me@a.example/x", "https://a.example/ads/", "https://me@a.example/ads/")
    decisions = [engine.decide(request_with(url)) for url in every]
    assert [own.action for own in decisions] == [Action.PASS, Action.BLOCK, Action.BLOCK, Action.BLOCK]
    assert [len(own.matches) for own in decisions] == [0, 1, 1, 2]


def test_a_grant_for_a_host_covers_its_filters() -> None:
    engine = filtering("||a.example/x$script\n@@||a.example/x$script", "||a.example^\n||a.example/x$script")
    assert engine.decide(request_with("https://a.example/x"), NOW, PUPIL).action is Action.BLOCK
    lifted = lifting(engine, ("host", "a.example"))
    assert lifted.decide(request_with("https://a.example/x"), NOW, PUPIL).grant is not None


@pytest.mark.slow
def test_a_url_that_too_many_filters_would_be_compared_with_cannot_be_read() -> None:
    words = [f"w{number}x" for number in range(4000)]
    engine = filtering("\n".join(f"/{word}/*a*b^$script" for word in words), "||b.example^\n@@||b.example/fine$script")
    few, many = (request_with("https://a.example/" + "/".join(words[:number])) for number in (40, 4000))
    assert engine.decide(few).action is Action.PASS
    for request in (
        many,
        request_with(many.url.decode().replace("/w0x", "/%61/../w0x;x=1/")),
        many._replace(hosts=(b"a.example", b"c.example")),
    ):
        decision = engine.decide(request)
        assert (decision.action, decision.winner) == (Action.BLOCK, None)
        assert "too many filters of list0 would have to be compared" in str(decision)
    assert lifting(engine, ("host", "a.example")).decide(many, NOW, PUPIL).action is Action.BLOCK
    engine.policy = engine.policy._replace(unparsable=Action.PASS)
    assert engine.decide(many).action is Action.BLOCK
    blocked = request_with(many.url.decode().replace("a.example", "b.example"))
    assert engine.decide(blocked).action is Action.BLOCK


@pytest.mark.slow
def test_a_list_that_is_spent_turns_off_no_layer_above_it() -> None:
    words = [f"w{number}x" for number in range(4000)]
    costly = "\n".join(f"/{word}/*a*b^$script" for word in words)
    url = "https://a.example/" + "/".join(words)
    above = "rules: [{expression: a.example/w0x/, action: allow}, b.example]"
    engine = filtering(costly, "||b.example^", default=above)
    assert engine.decide(request_with(url)).action is Action.ALLOW
    blocked = engine.decide(request_with(url.replace("a.example", "b.example")))
    assert (blocked.action, blocked.fault) == (Action.BLOCK, None)
    other = engine.decide(request_with(url.replace("a.example", "c.example")))
    assert other.action is Action.BLOCK
    assert "too many filters of list0" in (other.fault or "")


@each_row("rung", RUNGS)
@each_row("target", ["/bad/%2e%2e/good", "/good%2f..%2fbad/x", "/bad;/../good", "/%62ad/x"])
def test_an_allowed_whole_url_is_no_way_into_a_path_that_is_blocked(rung: str, target: str) -> None:
    allowed = whole_url(f"http://h.example{target}", rung, "allow")
    open_, closed = engine_of(f"rules: [{allowed}]"), engine_of(f"rules: [{allowed}]", "rules: [h.example/bad/]")
    url = f"http://h.example{target}".encode()
    forms = canonical_forms(request_of(url), b"h.example")
    assert open_.decide_url(url).action is Action.ALLOW
    if any(form.path.startswith(b"/bad/") for form in forms[1:]):
        assert closed.decide_url(url).action is Action.BLOCK
    else:  # it has one reading, and the administrator's layer comes first
        assert closed.decide_url(url).action is Action.ALLOW
