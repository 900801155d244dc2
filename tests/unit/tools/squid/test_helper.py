"""The helper of Squid: what it answers to a line, whatever the line; and the command that serves it."""

from __future__ import annotations

import os
import re
import threading
from datetime import datetime, tzinfo
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.decide.decision import Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.match.checks import Check
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.policy.groups import NOBODY, Client, Group, GroupSettings
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.hashed_uri import HashKey, hash_uri
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.tools.squid import helper as helper_module
from hushlist.tools.squid.helper import LONGEST_LINE, AccessList, Redirector, SquidHelper, cut_lines, serve
from support.engines import engine_of, index_of, rules_of
from unit.hostile import as_squid_escapes, octets, seconds
from unit.rows import each_row

RULES = r"""
rules:
- {expression: blocked.example, reason: Ads, category: 'hrn://c.example/ads'}
- {expression: path.example/live/, reason: "He said \"no\\\" \n and url=x"}
- {expression: tagged.example, action: tag, category: 'hrn://c.example/tagged'}
- {expression: plain.example}
- {address: '2001:db8::/32', reason: Servers have names}
- {expression: warned.example, action: warn}
"""
EXTRAS = b" 192.0.2.7/- jo GET myip=192.0.2.1 myport=3128"
PAGE = "http://page.example/?u=%u&a=%a&i=%i&t=%t&r=%r&l=%l"


def answerer(speech: AccessList | Redirector, engine: Engine | None = None) -> SquidHelper:
    return SquidHelper(engine or engine_of(RULES), speech, pytest.fail)


@pytest.fixture(scope="module")
def acl() -> SquidHelper:
    return answerer(AccessList())


@pytest.fixture(scope="module")
def redirector() -> SquidHelper:
    return answerer(Redirector(PAGE))


UNREADABLE = b'OK message="The address cannot be read: it names no host" log="it names no host"'
ODD = (
    b'OK message="The address cannot be read: there is white space or a control character in its target" '
    b'log="there is white space or a control character in its target"'
)
UNESCAPED = (
    b'OK message="The address cannot be read: it is not escaped as by %#>ru, which squid.conf has to say" '
    b'log="it is not escaped as by %#>ru, which squid.conf has to say"'
)
ADS = (
    b'OK message="Ads - first (first.yaml:3)" tag="hrn://c.example/ads" '
    b'log="blocked.example/ by first (first.yaml:3): Ads"'
)


# -- as an access control list -----------------------------------------------------------------------------------------


@each_row(
    ("line", "answer"),
    [
        (b"http://other.example/ -", b"ERR"),
        (b"http://other.example/", b"ERR"),
        (b"http://blocked.example/a?b -", ADS),
        (b"0 http://blocked.example/ GET -", b"0 " + ADS),
        (b"99 http://other.example/ -", b"99 ERR"),
        (b"18446744073709551615 http://other.example/ -", b"18446744073709551615 ERR"),
        (b"HTTP://BLOCKED.Example:80/", ADS),
        (
            b"http://plain.example/ -",
            b'OK message="A rule of the filter blocks it - first (first.yaml:6)" '
            b'log="plain.example/ by first (first.yaml:6)"',
        ),
        (
            b"http://path.example/live/x",
            rb'OK message="He said \"no\\\"   and url=x - first (first.yaml:4)" '
            rb'log="path.example/live/ by first (first.yaml:4): He said \"no\\\" \\n and url=x"',
        ),
        (
            b"7 http://tagged.example/",
            b'7 ERR tag="hrn://c.example/tagged" log="tagged.example/ by first (first.yaml:5)"',
        ),
        # Squid has no page with a click
        (
            b"http://warned.example/",
            b'OK message="A rule of the filter blocks it - first (first.yaml:8)" '
            b'log="warned.example/ by first (first.yaml:8)"',
        ),
        # a tunnel, by its host
        (b"3 blocked.example:443 CONNECT -", b"3 " + ADS),
        (b"blocked.example:8443", ADS),
        (b"blocked.example:80", ADS),
        (b"path.example:443", b"ERR"),
        (
            b"%5B2001:db8::1%5D:443",
            b'OK message="Servers have names - first (first.yaml:7)" '
            b'log="[2001:db8::1] by first (first.yaml:7): Servers have names"',
        ),
        (
            b"http://%5B2001:db8::1%5D:8080/x",
            b'OK message="Servers have names - first (first.yaml:7)" '
            b'log="[2001:db8::1] by first (first.yaml:7): Servers have names"',
        ),
        (b"%5B2001:470::1%5D:443", b"ERR"),
        # what is none
        (b"", UNREADABLE),
        (b" ", UNREADABLE),
        (b"0 ", b"0 " + UNREADABLE),
        (b"12  x", b"12 " + UNREADABLE),
        (b"mailto:me@blocked.example", UNREADABLE),
        # digits that are no channel, and channels that somebody made up
        (b"0", b"ERR"),
        (b"0 OK", b"0 ERR"),
        (b"0 1 OK", b"0 ERR"),
        (b"1" * 21 + b" http://h.example/", b"ERR"),
        (b"1a http://blocked.example/", b"ERR"),
        (b"-1 http://blocked.example/", b"ERR"),
        (b"\t0 http://blocked.example/", ODD),
        (b"http://other.example/\x01", ODD),
        (b"http://h.example/%250a1%2520OK%250d%250a2 OK", b"ERR"),
        (b"http://h.example/%0A1%20OK%0D%0A2 OK", ODD),
        # not as "%#>ru" escapes it
        (b"http://h.example/%0a", UNESCAPED),
        (b"http://h.example/%2F", UNESCAPED),
        (b"http://blocked.example/%", UNESCAPED),
        (b"http://%62locked.example/", UNESCAPED),
        ("٣ http://h.example/".encode(), b"ERR"),
    ],
)
def test_an_access_control_list_is_told_what_is_to_be_blocked(acl: SquidHelper, line: bytes, answer: bytes) -> None:
    assert acl.answer(line) == answer


@given(st.binary(max_size=40) | octets())
def test_an_access_control_list_is_told_every_octet(octets: bytes) -> None:
    assert helper_module.url_of_acl(as_squid_escapes(octets) + b" -") == octets


@each_row("channel", [b"", b"7 "])
@each_row("fragment", [b"#", b"#x", b"#x?y", b"#/../x", b"#x#y"])
def test_a_fragment_that_was_sent_hides_nothing(channel: bytes, fragment: bytes) -> None:
    page = hash_uri("http://page.example/page", HashKey("sha1", "n", query=False, fragment=False))
    engine = engine_of(f"rules: ['find.example/find?q=secret', {{uri: '{page}'}}]")
    for speech, sent in ((AccessList(), as_squid_escapes(fragment)), (Redirector(PAGE), fragment)):
        helper = answerer(speech, engine)
        for url in (b"http://find.example/find?q=secret", b"http://page.example/page"):
            assert helper.answer(channel + url + sent).startswith(channel + b"OK ")
        assert helper.answer(channel + b"http://page.example/other" + sent) == channel + b"ERR"


def test_of_filters_only_those_for_whole_hosts_decide_tunnels() -> None:
    filters = ["||own.example/", "*$~script", "||blocked.example^$important"]
    rules = [Rule(parse_filter(text), Terms(Action.BLOCK, "list", "file", layer="first"), 1) for text in filters]
    policy = Policy("policy.yaml", (Layer("first"),))
    acl = answerer(AccessList(), Engine(policy, index_of(rules)))
    assert acl.answer(b"own.example:443 -") == b"ERR"
    assert acl.answer(b"http://own.example/ -").startswith(b"OK ")
    assert acl.answer(b"www.blocked.example:443 -").startswith(b"OK ")


def test_a_hashed_uri_of_the_home_page_neither_blocks_nor_opens_a_tunnel() -> None:
    allowed, blocked = (
        hash_uri(f"https://{host}.example/", HashKey("sha1", "n", query=False, fragment=False))
        for host in ("blocked", "open")
    )
    engine = engine_of(
        f"rules: [{{uri: '{allowed}', action: allow}}]", f"rules: [blocked.example/, {{uri: '{blocked}'}}]"
    )
    acl = answerer(AccessList(), engine)
    assert acl.answer(b"https://blocked.example/ -") == b"ERR"
    assert acl.answer(b"blocked.example:443 -").startswith(b"OK ")
    assert acl.answer(b"https://open.example/ -").startswith(b"OK ")
    assert acl.answer(b"open.example:443 -") == b"ERR"


# -- as a redirector ---------------------------------------------------------------------------------------------------


def location(answer: bytes) -> dict[str, str]:
    """The facts in a redirect's URL, by the letters of their placeholders."""
    found = re.fullmatch(rb'(?:\d+ )?OK status=302 url="([!#-\[\]-~]*)"(?: [a-z]+="(?:[^"\\]|\\.)*")*', answer)
    assert found, answer
    return {name: value for name, (value,) in parse_qs(urlsplit(found[1].decode()).query, strict_parsing=True).items()}


def test_a_value_in_a_redirect_is_no_longer_than_servers_read(redirector: SquidHelper) -> None:
    url = "http://blocked.example/" + "x" * 5000
    assert location(redirector.answer(url.encode()))["u"] == url[:1000]


@each_row(
    ("line", "url", "client", "user"),
    [
        (b"http://blocked.example/a" + EXTRAS, "http://blocked.example/a", "192.0.2.7", "jo"),
        (b"http://blocked.example/ 127.0.0.1/- - GET", "http://blocked.example/", "127.0.0.1", "-"),
        (b"http://blocked.example/ ::1/host.example - POST x=", "http://blocked.example/", "::1", "-"),
        (b"blocked.example:443 192.0.2.7/- a/b CONNECT", "blocked.example:443", "192.0.2.7", "a/b"),
        # spaces, where uri_whitespace allows them
        (b"http://blocked.example/a b" + EXTRAS, "http://blocked.example/a b", "192.0.2.7", "jo"),
        (
            b"http://blocked.example/ 1.2.3.4/- eve GET x=y" + EXTRAS,
            "http://blocked.example/ 1.2.3.4/- eve GET x=y",
            "192.0.2.7",
            "jo",
        ),
        (
            b"http://path.example/x y/../../live/ 1.2.3.4/- x a 10.0.0.1/- - odd",
            "http://path.example/x y/../../live/ 1.2.3.4/- x a",
            "10.0.0.1",
            "-",
        ),
        (b"http://path.example/x y/../../live/" + EXTRAS, "http://path.example/x y/../../live/", "192.0.2.7", "jo"),
        # nothing that ends a value, a line or a header
        (
            b'http://blocked.example/"\\%0d%0aSet-Cookie:%20x=1\t&u=2#' + EXTRAS,
            'http://blocked.example/"\\%0d%0aSet-Cookie:%20x=1\t&u=2#',
            "192.0.2.7",
            "jo",
        ),
        (b"http://me:secret@blocked.example/" + EXTRAS, "http://blocked.example/", "192.0.2.7", "jo"),
    ],
)
def test_a_redirect_tells_the_request(redirector: SquidHelper, line: bytes, url: str, client: str, user: str) -> None:
    facts = location(redirector.answer(line))
    assert (facts["u"], facts["a"], facts["i"]) == (url, client, user)
    assert redirector.answer(b"5 " + line) == b"5 " + redirector.answer(line)


def test_a_redirect_tells_the_rule(redirector: SquidHelper) -> None:
    answer = redirector.answer(b"http://blocked.example/" + EXTRAS)
    facts = location(answer)
    assert (facts["t"], facts["r"], facts["l"]) == ("hrn://c.example/ads", "Ads", "first (first.yaml:3)")
    assert answer.endswith(b'" tag="hrn://c.example/ads" log="blocked.example/ by first (first.yaml:3): Ads"')


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"http://other.example/" + EXTRAS, b"ERR"),
        (b"4 other.example:443" + EXTRAS, b"4 ERR"),
        (b"http://other.example/ custom extras", b"ERR"),
        (
            b"2 http://tagged.example/",
            b'2 ERR tag="hrn://c.example/tagged" log="tagged.example/ by first (first.yaml:5)"',
        ),
    ],
)
def test_a_redirector_keeps_what_passes(redirector: SquidHelper, line: bytes, answer: bytes) -> None:
    assert redirector.answer(line) == answer


@pytest.mark.parametrize(
    "url",
    [b"mailto:me:secret@h", b"http://me:secret%40h/", b"http://me:secret@:1x/", b"//u:secret@/", b"secret%40:443"],
)
def test_user_information_is_never_told(acl: SquidHelper, redirector: SquidHelper, url: bytes) -> None:
    for answer in (acl.answer(url), redirector.answer(url + EXTRAS)):
        assert answer.startswith(b"OK")
        assert b"secret" not in answer


@each_row(
    "url",
    [
        *("", "x", "/page", "ftp://h/", "http://", "http:///x", "javascript:alert(1)", "http://%a/", "http://h%%2e/"),
        *('http://h/"', "http://h/ x", "http://h/\n", "http://h/\\", "http://h/ü", "http://h/?%", "http://h/?%20"),
        *("http://h/?%n", "http://h/%%%"),
    ],
)
def test_a_redirect_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(url))):
        Redirector(url)


def test_two_percent_signs_are_one() -> None:
    redirector = answerer(Redirector("https://[::1]:8443/a%%20b?#%r"))
    assert b' url="https://[::1]:8443/a%20b?#Ads" ' in redirector.answer(b"blocked.example:443")


# -- whatever comes ----------------------------------------------------------------------------------------------------

_ANSWER = re.compile(rb'(?:[0-9]{1,20} )?(?:OK|ERR)(?: status=302)?(?: [a-z]+="(?:[^"\\\x00-\x1f\x7f]|\\[\\"])*")*')


def answers_to(helper: SquidHelper, *reads: bytes) -> list[bytes]:
    """The answers to lines that come in pieces."""
    return [helper.answer(line) for lines in cut_lines(reads) for line in lines]


@given(
    st.lists(octets() | octets().map(b"0 http://path.example/live/".__add__), max_size=5).map(b"\n".join),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_each_line_gets_one_answer_however_it_comes(
    acl: SquidHelper, redirector: SquidHelper, text: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    if sum(map(len, pieces)) != len(text):  # cuts behind the end
        pieces = [text]
    for helper in (acl, redirector):
        whole = answers_to(helper, text)
        assert len(whole) == text.count(b"\n") + (not text.endswith(b"\n") and text != b"")
        assert answers_to(helper, *pieces) == whole
        assert all(_ANSWER.fullmatch(answer) for answer in whole)


CHECKED = Policy(
    "policy.yaml",
    (Layer("first", (Rule(Check("encoded-nul"), Terms(Action.BLOCK, "checks", "policy.yaml", layer="first"), 1),)),),
)


@pytest.fixture(scope="module")
def engines() -> list[Engine]:
    """Engines that know hosts alone, paths, hashed URIs, checks, what expires, and clients."""
    hashed = hash_uri(b"http://other.example/page", HashKey("sha1", "n", query=False, fragment=False))
    jo = Group("jo", (), GroupSettings(), users=frozenset(("jo",)))
    by_client = Policy("policy.yaml", (Layer("first"),), groups=(jo,))
    rules = rules_of(RULES, "first.yaml", "first")
    return [
        engine_of("rules: [blocked.example, {expression: tagged.example, action: tag}]"),
        engine_of(RULES),
        engine_of(RULES + f"- {{uri: '{hashed}'}}\n"),
        engine_of("rules: [{expression: blocked.example, expires: 2999-01-01}, path.example/live/]"),
        Engine(CHECKED, index_of(rules)),
        Engine(by_client, index_of(rules)),
    ]


_HOSTS = [b"blocked.example", b"other.example", b"path.example", b"tagged.example", b"a..b", b"warned.example", b"1.2"]
_URLS = st.builds(
    b"".join,
    st.tuples(
        st.sampled_from([b"http://", b"https://", b"HTTP://", b"h://", b""]),
        st.sampled_from(_HOSTS),
        st.sampled_from([b"", b":80", b":8443", b":x"]),
        st.sampled_from([b"", b"/", b"/live/x?y", b"/page", b"/%00", b"/a/../live/", b"?q", b"/#f", b"/a b"])
        | octets(),
    ),
)
_LINES = st.builds(
    b"".join,
    st.tuples(
        st.sampled_from([b"", b"7 ", b"18446744073709551616 ", b"123456789012345678901 ", b"7 8 ", b" "]),
        _URLS,
        st.sampled_from([b"", b" -", b" ", EXTRAS, b" 192.0.2.8/- - GET"]),
    ),
).map(lambda line: line.replace(b"\n", b""))


@given(st.lists(_LINES | octets().map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(0, 5))
def test_many_lines_are_answered_as_each_alone(engines: list[Engine], lines: list[bytes], which: int) -> None:
    for speech in (AccessList(), Redirector(PAGE), Redirector("http://page.example/%t?%u&%%&%r")):
        helper = answerer(speech, engines[which])
        alone = b"".join(answerer(speech, engines[which]).answer(line) + b"\n" for line in lines)
        assert helper.answers(lines) == alone
        assert helper.answers(lines) == alone  # from the caches


def test_what_a_check_finds_is_blocked_on_a_host_that_is_known(engines: list[Engine]) -> None:
    helper = answerer(Redirector(PAGE), engines[4])
    lines = [b"http://other.example/" + path + EXTRAS for path in (b"", b"%00", b"")]
    for _ in range(2):
        assert [answer[:3] for answer in helper.answers(lines).splitlines()] == [b"ERR", b"OK ", b"ERR"]


def test_failures_and_rules_that_expire_are_not_answered_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    engine = engine_of(RULES)
    helper = SquidHelper(_Failing(engine.policy, engine.index), AccessList(), complaints.append)
    for _ in range(2):
        assert helper.answers([b"http://path.example/fail"]) == b'BH message="the filter failed"\n'
    assert len(complaints) == 2
    helper = answerer(AccessList(), engine_of("rules: [{expression: blocked.example, expires: 2030-01-01}]"))
    for day, answer in (("2030-01-01", b"OK"), ("2030-01-02", b"ERR")):
        at = datetime.fromisoformat(f"{day}T12:00+00:00")

        class Clock(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Clock:
                return cls.fromtimestamp(at.timestamp(), tz)  # noqa: B023

        monkeypatch.setattr("hushlist.core.decide.form_decider.datetime", Clock)
        monkeypatch.setattr(helper_module, "time", at.timestamp)
        assert helper.answers([b"http://blocked.example/"] * 2).split()[0] == answer


def test_answers_that_are_kept_are_bounded_and_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_module, "MOST_TEXTS", 1)
    monkeypatch.setattr(helper_module, "MOST_ANSWERED", 2)
    helper = answerer(AccessList())
    lines = [b"http://h%d.example/ -" % number for number in range(5)] + [
        b"http://path.example/%d" % n for n in range(5)
    ]
    for _ in range(2):
        assert helper.answers([*lines, b"http://path.example/live/ -"]).startswith(b"ERR\n" * 10 + b"OK ")


@each_row("channel", [b"", b"17 "])
@each_row("length", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 10 * LONGEST_LINE])
def test_a_line_that_is_too_long_is_answered_and_the_next_ones_too(
    acl: SquidHelper, channel: bytes, length: int
) -> None:
    line = (channel + b"http://other.example/ ").ljust(length, b"x")
    stream = line + b"\n" + channel + b"http://blocked.example/\n"
    expected = [
        b"ERR"
        if length <= LONGEST_LINE
        else b'OK message="The address cannot be read: it is too long" log="it is too long"',
        ADS,
    ]
    for size in (65_536, 4_099, len(stream)):
        reads = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert answers_to(acl, *reads) == [channel + answer for answer in expected]


def test_lines_of_which_one_is_too_long_get_an_answer_each(acl: SquidHelper) -> None:
    lines = [b"http://blocked.example/", b"http://other.example/".ljust(helper_module.LONGEST_TARGET + 1, b"x")]
    assert acl.answers(lines * 2) == b"".join(acl.answer(line) + b"\n" for line in lines * 2)


def test_a_line_without_an_end_takes_no_more_memory_than_a_line() -> None:
    *reads, last = cut_lines([b"x" * 65_536] * 50)
    assert reads == [[]] * 50
    assert list(map(len, last)) == [LONGEST_LINE + 1]


@pytest.mark.slow
@each_row("part", [b"1/a b C ", b"1/a b C x=1 ", b"a ", b" ", b"1/", b"x=1 ", b"%5B"])
def test_a_hostile_line_takes_time_in_proportion_to_its_length(part: bytes) -> None:
    line = b"http://h.example/ " + part * (LONGEST_LINE // len(part) - 5)
    assert seconds(lambda: helper_module.read_rewrite(line)) < 0.2
    assert seconds(lambda: Redirector.url_of(line)) < 0.2
    assert seconds(lambda: helper_module.url_of_acl(as_squid_escapes(line))) < 0.5
    assert seconds(lambda: helper_module.url_to_decide(line)) < 0.2


@each_row("part", [b"x", b"%", b"%25", b"25", b"%2525", b"@", b"%40"])
def test_what_cannot_be_read_is_answered_in_time_in_proportion_to_its_length(
    redirector: SquidHelper, part: bytes
) -> None:
    line = b"mailto:" + part * ((LONGEST_LINE - 100) // len(part))
    assert redirector.answer(line).startswith(b"OK")
    assert seconds(lambda: redirector.answer(line)) < 0.5


@each_row("unparsable", [Action.BLOCK, Action.PASS])
@each_row("line", [b"", b"mailto:me", b"x" * (LONGEST_LINE + 1)])
def test_what_cannot_be_read_is_decided_by_the_policy(unparsable: Action, line: bytes) -> None:
    engine = engine_of("rules: []", unparsable=unparsable)
    is_blocked = unparsable is Action.BLOCK or len(line) > LONGEST_LINE
    expected = b"OK" if is_blocked else b"ERR"
    for speech in (AccessList(), Redirector(PAGE)):
        assert answerer(speech, engine).answer(line).partition(b" ")[0] == expected


class _Failing(Engine):
    def decide_url(self, url: bytes, now: datetime | None = None, client: Client = NOBODY) -> Decision:
        if b"fail" in url:
            raise RuntimeError(url)
        return super().decide_url(url, now, client)


@pytest.mark.parametrize(
    ("speech", "answer"),
    [
        (AccessList(), b'BH message="the filter failed"'),
        (
            Redirector("http://page.example/?r=%r&u=%u"),
            b'OK status=302 url="http://page.example/?r=The%20filter%20failed&u="',
        ),
    ],
)
def test_a_failure_lets_nothing_pass_and_is_reported_without_the_request(
    speech: AccessList | Redirector, answer: bytes
) -> None:
    complaints: list[str] = []
    engine = engine_of(RULES)
    helper = SquidHelper(_Failing(engine.policy, engine.index), speech, complaints.append)
    assert answers_to(helper, b"1 http://fail.example/secret\n2 http://other.example/\n") == [b"1 " + answer, b"2 ERR"]
    (complaint,) = complaints
    assert re.fullmatch(r"failed at a request: RuntimeError at test_helper\.py:\d+", complaint)


@each_row(
    ("asked", "sent"),
    [
        (b"http://Blocked.example:8080/a%7eb", b"http%3A%2F%2FBlocked.example%3A8080%2Fa%257eb"),
        (b"http://blocked.example/x", b"http%3A%2F%2Fblocked.example%2Fx"),
        (b"http://me:pw@blocked.example/\xc3", b"http%3A%2F%2Fblocked.example%2F%C3"),
        (b"blocked.example:443", b"blocked.example%3A443"),
        (b"http://me:pw@blocked.example:x/", b"blocked.example%3Ax%2F"),
    ],
)
def test_a_redirect_may_tell_the_address_as_it_was_sent(asked: bytes, sent: bytes) -> None:
    answer = answerer(Redirector("http://page.example/?o=%o")).answer(asked + EXTRAS)
    assert answer.startswith(b'OK status=302 url="http://page.example/?o=' + sent + b'" ')


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_no_line_waits_for_another(acl: SquidHelper) -> None:
    asked, ask = os.pipe()
    told, tell = os.pipe()
    serving = threading.Thread(target=serve, args=(acl.answers, asked, tell), daemon=True)
    serving.start()
    os.write(ask, b"1 http://other.example/\n2 http://blocked")
    assert os.read(told, 65_536) == b"1 ERR\n"
    os.write(ask, b".example/\n3 http://other.example/\n")
    assert os.read(told, 65_536) == b"2 " + ADS + b"\n3 ERR\n"
    os.write(ask, b"4 http://other.example/")
    os.close(ask)
    assert os.read(told, 65_536) == b"4 ERR\n"
    serving.join(10)
    assert not serving.is_alive()
    for end in (asked, told, tell):
        os.close(end)
