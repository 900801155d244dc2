"""From a request to a decision."""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.decide.engine import Engine, load_engine
from hushlist.errors import UrlError
from hushlist.match.checks import CHECKS, Check
from hushlist.match.expressions import full_hash
from hushlist.match.index import Index
from hushlist.match.index_writer import index_of
from hushlist.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.policy.groups import NOBODY, Client, Group, GroupSettings, LayerUse, group_of
from hushlist.policy.policy_file import Layer, Policy
from hushlist.policy.recurrence import RecurringDates, RecurringSpans
from hushlist.policy.schedule import Schedule
from hushlist.policy.scheduled_action import CATEGORY_ACTIONS, DEFAULT_ACTIONS, ScheduledAction
from hushlist.unblock.grants import Grant, GrantTable
from hushlist.unblock.overrides import Overrides
from hushlist.url.hashed_uri import HashedUri
from hushlist.url.parts import Parts
from hushlist.url.redirects import RedirectMemory
from hushlist.url.request import MOST_HOSTS, Request, request_of
from unit.hostile import LONG, engine_of, octets, rules_of, seconds, urls
from unit.match.plain_index import STEADY, Given, given_rules, octets_of
from unit.plain_engine import PlainEngine, told

TERMS = Terms(Action.BLOCK, "list", "file")


def request(*hosts: bytes, target: bytes = b"/", scheme: bytes = b"http") -> Request:
    return Request(scheme, hosts or (b"h.example",), 443 if scheme == b"https" else 80, target)


def sha1(text: bytes) -> str:
    return f"hashed:sha1={hashlib.sha1(text).hexdigest()}"


# -- what is too long --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [b"a", b"%2e%2e/", b"%25%32%66", b"a\\%c0%af;", b"/", b"?&"])
@pytest.mark.parametrize("unparsable", [Action.BLOCK, Action.PASS])
def test_a_target_that_is_too_long_is_decided_by_its_length(part: bytes, unparsable: Action) -> None:
    engine = engine_of("rules: [bad.example, path.example/secret/]", unparsable=unparsable)
    target = b"/" + part * ((16 << 20) // len(part))
    for decide in (
        lambda host: engine.decide(Request(b"http", (host,), 80, target)),
        lambda host: engine.decide_url(b"http://" + host + target),
    ):
        decision = decide(b"h.example")
        assert (decision.action, decision.fault) == (unparsable, "its target has more than 65,536 octets")
        assert len(decision.url) < 4096  # so that nothing behind keeps it
        assert decide(b"bad.example").action is Action.BLOCK
        assert seconds(lambda: decide(b"h.example")) < 0.5  # noqa: B023


def test_a_host_that_is_too_long_is_decided_by_its_length() -> None:
    decision = engine_of("rules: []").decide_url(b"http://" + b"a." * (8 << 20) + b"example/")
    assert (decision.action, decision.fault) == (Action.BLOCK, "the host is longer than any name can be")


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
        ((), "the request goes by no host"),
        (
            tuple(b"h%d.example" % number for number in range(MOST_HOSTS + 1)),
            f"the request goes by more than {MOST_HOSTS} hosts",
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


@STEADY
@given(st.data(), given_rules(LAYERS), st.sets(st.sampled_from(CHECK_RULES)), st.booleans(), st.booleans())
def test_an_engine_that_remembers_decides_as_one_that_does_not(
    data: st.DataObject, given: Given, checks: set[Rule], has_uris: bool, has_learned: bool
) -> None:
    rules = [rule for rule in given.rules if has_uris or not isinstance(rule.pattern, HashedUri)]
    checks = checks if has_uris else set()
    policy = Policy("policy.yaml", (Layer("first", tuple(checks)), Layer("second")), Action.PASS)
    redirect_memory = RedirectMemory(lambda: 0.0) if has_learned else None
    if redirect_memory is not None:
        for parts in given.asked:
            for scheme, port in ((b"http", 80), (b"https", 443)):
                redirect_memory.learn((scheme, parts.host or b"", port), parts.path)
    engine, plain = Engine(policy, index_of(rules), redirect_memory), PlainEngine(policy, rules, redirect_memory)
    arrived = [data.draw(spellings(parts)) for parts in given.asked for _ in range(3)]
    days = [data.draw(st.sampled_from(DAYS)) for _ in range(2)]
    for now in days:
        for request in arrived * 2:
            assert told(engine.decide(request, now)) == told(plain.decide(request, now))
        for url in [parts.join() for parts in given.asked] + [request.url for request in arrived]:
            assert told(engine.decide_url(url, now)) == told(plain.decide_url(url, now))


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


@pytest.mark.parametrize(
    "more", ["", "\n      - hashed:md5=be96302a0468481aca954431cf293e05", f"\n      - {{sha256: {'00' * 4}}}"]
)
@pytest.mark.parametrize("unparsable", [Action.BLOCK, Action.PASS])
def test_a_url_that_looks_plain_is_decided_as_its_request(more: str, unparsable: Action) -> None:
    text = PLAIN_LOOKING_RULES.rstrip() + more
    engine = engine_of(text, unparsable=unparsable)
    plain = PlainEngine(engine.policy, rules_of(text, "first.yaml", "first"))

    @settings(STEADY, max_examples=2 * settings.default.max_examples)
    @given(st.lists(plain_looking() | urls(), min_size=1, max_size=3), st.sampled_from(DAYS))
    def compare(arrived: list[bytes], now: datetime) -> None:
        for url in (*_PLAIN_LOOKING, *arrived, *arrived):  # the hosts are known before the second time, if ever
            decision = told(engine.decide_url(url, now))
            assert decision == told(plain.decide_url(url, now))
            with suppress(UrlError):
                assert decision == told(engine.decide(request_of(url), now))

    compare()


@pytest.mark.parametrize(
    "url", [b"mailto:me@h.example", b"http:///x", b"http://h.example:65536/", b"", b"http://a b:x/"]
)
@pytest.mark.parametrize("unparsable", [Action.BLOCK, Action.PASS])
def test_a_url_that_is_no_request_is_decided_by_the_policy(url: bytes, unparsable: Action) -> None:
    decision = engine_of("rules: [h.example]", unparsable=unparsable).decide_url(url)
    with pytest.raises(UrlError) as error:
        request_of(url)
    assert told(decision) == (unparsable, url, (), None, error.value.reason, "", None)


@pytest.mark.parametrize("action", ["block", "allow", "tag"])
def test_what_is_remembered_of_a_host_does_not_outlive_its_rule(action: str) -> None:
    rules = f"rules: [{{expression: h.example, action: {action}, expires: 2026-12-31}}, www.h.example/x]"
    engine, url = engine_of(rules), b"http://h.example/"
    for now, expected in ((DAYS[0], Action(action)), (DAYS[1], Action.PASS), (DAYS[0], Action(action))):
        assert engine.decide(request(), now).action is expected
        assert engine.decide_url(url, now).action is expected


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
    monkeypatch.setattr("hushlist.decide.engine.MOST_KNOWN", 8)
    engine = engine_of("rules: [blocked.example]")
    for _ in range(2):
        for number in range(50):
            assert engine.decide(request(b"h%d.blocked.example" % number)).action is Action.BLOCK
            assert engine.decide(request(b"h%d.good.example" % number)).action is Action.PASS
        assert engine._only is not None
        assert len(engine._only.known) <= 8


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
    return st.builds(GroupSettings, st.dictionaries(st.sampled_from(CATEGORIES), timed(), max_size=3), default)


def groups() -> st.SearchStrategy[tuple[Group, ...]]:
    uses = st.lists(
        st.builds(LayerUse, st.sampled_from(LAYERS), st.sampled_from(SCHEDULES)), unique_by=lambda use: use[0]
    )
    networks = st.sampled_from([(), (), (ip_network("10.0.0.0/24"),), (ip_network("::/0"), ip_network("10.0.1.7/32"))])
    users = st.sampled_from([frozenset[str](), frozenset({"jo"}), frozenset({"al", "ed"})])
    ports = st.sampled_from([frozenset[int](), frozenset[int](), frozenset({8080}), frozenset({8081, 1})])
    one = st.builds(Group, st.just(""), uses.map(tuple), group_settings(), networks, users, ports)
    return st.lists(one, max_size=3).map(
        lambda some: tuple(replace(group, name=f"group {number}") for number, group in enumerate(some))
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
    ) -> Grant | None:
        return self._granted.find(client_names, host, url, categories, now, is_warning=is_warning)


def recategorized(rule: Rule, category: str | None, *, warns: bool) -> Rule:
    action = Action.WARN if warns and rule.terms.action is Action.BLOCK else rule.terms.action
    return rule._replace(terms=replace(rule.terms, category=category, action=action))


@STEADY
@given(st.data(), given_rules(LAYERS), groups(), group_settings(), st.booleans())
def test_groups_schedules_and_grants_are_as_if_nothing_were_remembered(
    data: st.DataObject, given: Given, some_groups: tuple[Group, ...], for_all: GroupSettings, has_more: bool
) -> None:
    some = [rule for rule in given.rules if has_more or not isinstance(rule.pattern, HashedUri)]
    categories = st.none() | st.sampled_from(CATEGORIES)
    rules = [recategorized(rule, data.draw(categories), warns=data.draw(st.booleans())) for rule in some]
    checks = data.draw(st.sets(st.sampled_from(CHECK_RULES), max_size=2)) if has_more else set()
    during = data.draw(st.sampled_from(SCHEDULES))
    layers = (Layer("first", tuple(checks)), Layer("second", during=during))
    policy = Policy("policy.yaml", layers, Action.PASS, some_groups, for_all)
    granted = data.draw(st.just([]) | grants_for(given.asked))
    engine = Engine(policy, index_of(rules), overrides=Granted(granted) if granted else None)
    plain = PlainEngine(policy, rules, grants=granted)
    arrived = [data.draw(spellings(parts)) for parts in given.asked for _ in range(2)]
    urls = [parts.join() for parts in given.asked]
    for _ in range(4):
        now = data.draw(st.sampled_from(MOMENTS))
        now = data.draw(st.sampled_from([now, now.astimezone(BERLIN)]))
        client = data.draw(st.sampled_from(CLIENTS))
        for request in arrived * 2:
            assert told(engine.decide(request, now, client)) == told(plain.decide(request, now, client))
        for url in urls * 2:
            assert told(engine.decide_url(url, now, client)) == told(plain.decide_url(url, now, client))


NOW = datetime(2026, 12, 24, 12, tzinfo=UTC)
SOON = NOW.timestamp() + 60
PUPIL, OTHER = Client("10.0.0.7"), Client("10.0.0.8")


def lifting(engine: Engine, *grants: tuple[str, str], how: str = "code", **policy: object) -> Engine:
    """The engine, and the pupil's grants of a minute, each a scope and a target."""
    made = [Grant(n, *grant, PUPIL.address, SOON, how, "", 0.0) for n, grant in enumerate(grants, 1)]
    return Engine(replace(engine.policy, **policy), engine.index, overrides=Granted(made))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("rules", ["rules: [h.example]", "rules: [h.example/good, h.example/bad/]"])
@pytest.mark.parametrize("target", [b"/bad/../good", b"/bad\\..\\good", b"/good/../good", b"/good#"])
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
    return rule._replace(terms=replace(rule.terms, layer="second"))


@pytest.mark.parametrize("grant", [("host", "other.example"), ("url", "http://other.example/")])
def test_what_the_default_blocks_can_be_unblocked(grant: tuple[str, str]) -> None:
    settings = GroupSettings(default=ScheduledAction(Action.BLOCK, "policy.yaml", 1))
    engine = lifting(engine_of("rules: []"), grant, settings=settings)
    assert engine.decide(request(b"other.example"), NOW, PUPIL).action is Action.ALLOW
    assert engine.decide(request(b"another.example"), NOW, PUPIL).action is Action.BLOCK


def test_an_allowed_category_is_no_way_into_a_blocked_path() -> None:
    rule = f"{{uri: '{sha1(b'http://h.example/good')}', category: 'hrn://c.example'}}"
    engine = engine_of(f"rules: [{rule}]", "rules: [h.example/bad/]")
    settings = GroupSettings({"hrn://c.example": ScheduledAction(Action.ALLOW, "policy.yaml", 1)})
    engine = Engine(replace(engine.policy, settings=settings), engine.index)
    assert engine.decide(request(target=b"/good")).action is Action.ALLOW
    assert engine.decide(request(target=b"/bad/../good")).action is Action.BLOCK


def test_a_schedule_of_the_past_counts_for_the_past() -> None:
    once = SCHEDULES[-1]
    settings = GroupSettings(default=ScheduledAction(Action.BLOCK, "policy.yaml", 1, once))
    engine = Engine(replace(engine_of("rules: []").policy, settings=settings), index_of([]))
    later = datetime(2040, 1, 1, tzinfo=UTC)
    actions = [engine.decide(request(), now).action for now in (later, NOW, later, NOW - timedelta(days=3))]
    assert actions == [Action.PASS, Action.BLOCK, Action.PASS, Action.PASS]


def test_a_day_on_which_a_rule_ends_is_one_in_utc_wherever_it_is_asked_for() -> None:
    engine = engine_of("rules: [{expression: h.example, expires: 2026-12-31}]")
    for decide in (lambda now: engine.decide(request(), now), lambda now: engine.decide_url(b"http://h.example/", now)):
        assert decide(datetime(2027, 1, 1, 0, 30, tzinfo=BERLIN)).action is Action.BLOCK
        assert decide(datetime(2027, 1, 1, 1, 0, tzinfo=BERLIN)).action is Action.PASS


def test_groups_never_see_each_other_s_decisions() -> None:
    groups = (
        Group("none", (), GroupSettings(), users=frozenset({"al"})),
        Group("one", (LayerUse("first"),), GroupSettings(), users=frozenset({"jo"})),
    )
    policy = replace(engine_of("rules: [h.example]").policy, groups=groups)
    engine = Engine(policy, index_of(rules_of("rules: [h.example]", "first.yaml", "first")))
    for _ in range(2):
        for user, action, name in (
            ("al", Action.PASS, "none"),
            ("jo", Action.BLOCK, "one"),
            (None, Action.BLOCK, "default"),
        ):
            for decision in (
                engine.decide(request(), NOW, Client("10.0.0.7", user)),
                engine.decide_url(b"http://h.example/", NOW, Client("10.0.0.7", user)),
            ):
                assert (decision.action, decision.group) == (action, name)


def test_without_groups_and_schedules_nobody_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[Client] = []

    def look(groups: Sequence[Group], client: Client) -> Group:
        looked_for.append(client)
        return group_of(groups, client)

    monkeypatch.setattr("hushlist.decide.engine.group_of", look)
    engine = engine_of("rules: [h.example]")
    assert engine.decide(request(), NOW, PUPIL).action is Action.BLOCK
    assert PUPIL not in looked_for


# -- whatever the size of the lists ------------------------------------------------------------------------------------


def engine_and_reads(rules: Iterable[Rule]) -> tuple[Engine, list[int]]:
    """An engine, and the octets that its index reads of its file."""
    octets = octets_of(index_of(rules))
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(length)
        return octets[offset : offset + length]

    return Engine(Policy("policy.yaml", (Layer(""),)), Index(octets, read)), reads


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
    block, allow, named = TERMS, replace(TERMS, action=Action.ALLOW), replace(TERMS, category=good)
    rules = [
        *(Rule(Expression(value), block, 1) for value in (b"a.example/", b"a.example/x", b"b.example/", b"c.example/")),
        *(Rule(Expression(value), allow, 2) for value in (b"b.example/x", b"whole.example/")),
        *(Rule(Expression(value), named, 3) for value in (b"c.example/x", b"a.example/x/y")),
        Rule(Expression(b"a.example/z"), replace(TERMS, action=Action.TAG), 4),
    ]
    index = index_of(rules)
    said = GroupSettings(categories={good: ScheduledAction(Action.PASS, "policy.yaml", 1, otherwise=Action.ALLOW)})
    plain, allowing = (
        Engine(Policy("policy.yaml", (Layer(""),), settings=own), index) for own in (GroupSettings(), said)
    )
    hosts = [b"a.example", b"b.example", b"www.b.example", b"c.example", b"whole.example", b"other.example", b"a/b"]
    assert [host for host in hosts if plain.allows_below(host)] == [b"b.example", b"www.b.example"]
    assert [host for host in hosts if allowing.allows_below(host)] == hosts[:4]


def test_of_two_lists_the_one_that_allows_counts() -> None:
    """Guides of several parts of the sources are for the same host."""
    allow = replace(TERMS, action=Action.ALLOW, layer="second")
    rules = [Rule(Expression(b"h.example/x"), TERMS, 1), Rule(Expression(b"h.example/y"), allow, 1)]
    for some in (rules, rules[::-1]):
        engine = Engine(Policy("policy.yaml", (Layer(""), Layer("second"))), index_of(some))
        assert engine.allows_below(b"h.example")


# -- hosts as a whole, and destinations that nobody has named ----------------------------------------------------------

WHOLE = (
    "rules: [blocked.example, path.example/x, {expression: blocked.example/ok, action: allow}, {address: 192.0.2.0/24}]"
)


@pytest.mark.parametrize(
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
    assert engine_of(WHOLE).has_paths(host) is has


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
