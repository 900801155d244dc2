"""Filters about heads: how they are read, what they refuse, what they fit, and what lifts them."""

from __future__ import annotations

import pytest

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.decision import STOPPING, Decision, own_categories
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action, each_rule
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.url.request import StatedContext, request_of
from hushlist.extensions.adblock.filter_lists import read_adblock
from hushlist.extensions.adblock.filter_reader import parse_filter
from hushlist.extensions.adblock.head_options import Cookies, HeadEffect
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.heads.cookies import changed_cookies
from hushlist.extensions.heads.listed_heads import ListedHead, listed_rules, rules_of
from support.policies import write_policy
from unit.rows import each_row


@each_row(
    ("text", "effect"),
    [
        ("||a.example^$csp=script-src 'self'; img-src *", ("csp", "script-src 'self'; img-src *")),
        ("@@||a.example^$csp", ("csp", "", True)),
        ("@@||a.example^$csp=a,subdocument", ("csp", "a", True)),
        (r"||a.example^$permissions=a=()\, b=()", ("permissions", "a=(), b=()")),
        ("||a.example^$permissions=a=()|b=()", ("permissions", "a=(), b=()")),
        ("||a.example^$referrerpolicy=No-Referrer", ("referrerpolicy", "no-referrer")),
        ("||a.example^$removeheader=Refresh", ("removeheader", "refresh")),
        ("||a.example^$removeheader=request:X-Client-Data", ("removeheader", "request:x-client-data")),
        ("||a.example^$removeheader=location,header=Server:x", ("removeheader", "location", False, "server:x")),
        ("||a.example^$cookie", ("cookie", "")),
        (r"$cookie=/__utm[a-z]/;maxAge=3600", ("cookie", "/__utm[a-z]/;maxAge=3600")),
        (
            r"||a.example^$header=set-cookie:/foo\, bar\$/",
            ("header", r"set-cookie:/foo\, bar\$/", False, r"set-cookie:/foo\, bar\$/"),
        ),
        ("@@||a.example^$header", ("header", "", True)),
    ],
)
def test_an_option_has_an_effect(text: str, effect: tuple[object, ...]) -> None:
    own = parse_filter(text)
    assert not own.decides
    assert not own.is_exception  # it lifts nothing that stops a request
    assert own.head is not None
    assert own.head == HeadEffect(*effect)  # type: ignore[arg-type]


@each_row(
    ("options", "why"),
    [
        *((f"removeheader={name}", "less safe") for name in ("Content-Security-Policy", "content_security_policy")),
        *((f"removeheader={name}", "less safe") for name in ("strict-transport-security", "X-Frame-Options", "allow")),
        *((f"removeheader=request:{name}", "less safe") for name in ("origin", "Sec-Fetch-Site", "host", "expect")),
        *((f"removeheader={name}", "less safe") for name in ("Content-Encoding", "trailer", "X-Original-URL")),
        ("removeheader", "no name of a field"),
        ("removeheader=a b", "no name of a field"),
        ("csp", "no value of a field"),
        ("csp=script-src 'self'; report-uri /x", "reports sent"),
        ("csp=report-to x", "reports sent"),
        ("permissions=a=();report-to=x", "reports sent"),
        *((f"permissions={value}", "only forbid") for value in ("a=*", "a=(self)|b=()", "a=()|b", "a=() b")),
        *((f"csp={value}", "less safe") for value in ("frame-ancestors *", "img-src *; Frame-Ancestors")),
        *((f"referrerpolicy={name}", "less safe") for name in ("Unsafe-URL", "no-referrer-when-downgrade", "origin")),
        *((f"cookie=a;{life}", "less safe") for life in ("sameSite=none", "maxAge=1; samesite = None ;sameSite=lax")),
        ("csp=é", "no value of a field"),
        ("referrerpolicy=none", "not known"),
        ("cookie=a;maxAge=x", "no name of a cookie"),
        (r"cookie=/(a)\1/", "regular expression"),
        ("header=a b:c", "no name of a field"),
        ("header", "no name of a field"),
        ("csp=a,removeheader=refresh", "exclude each other"),
        ("cookie,header=a", "exclude each other"),
        ("removeheader=request:cookie,header=a", "goes on before"),
        ("~csp=a", "not known"),
        ("responseheader=a", "decides by the answer"),
    ],
)
def test_what_no_list_may_do_is_refused(options: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_filter(f"||a.example^${options}")


LIST = r"""
||a.example^$csp=one
||a.example^$csp=two
@@||a.example/fine/$csp
@@||a.example/half/$csp=two
||a.example^$csp=three,important
||a.example^$removeheader=refresh
||a.example^$removeheader=refresh,badfilter
@@||b.example^$document
||b.example^$csp=one
||c.example^$csp=one
@@||c.example^
||c.example^$header=x-ad
||d.example^$cookie
@@||d.example^$cookie=kept
e.example##^responseheader(refresh)
f.example##^responseheader(server)
||g.example^$csp=one
||h.example/x$header=x-ad:/^1/
"""


POLICY = """\
categories: {hrn://tests/ads: block}
groups: [{name: grown-ups, clients: [192.0.2.1], categories: {hrn://tests/ads: pass}}]
layers:
- {name: own, lists: [own.yaml]}
- {name: others, lists: [{file: list.txt, format: adblock, category: 'hrn://tests/ads'}]}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    files = {"own.yaml": "rules: [{expression: g.example, action: allow}]\n", "list.txt": LIST}
    compiled = compile_policy(write_policy(tmp_path_factory.mktemp("heads"), POLICY, files))
    return Engine(compiled.policy, compiled.index)


def decided(engine: Engine, url: str, kind: str = "document", client: Client = NOBODY) -> Decision:
    return engine.decide(request_of(url.encode(), StatedContext(page=url.encode(), kind=kind)), client=client)


@each_row(
    ("url", "kind", "does"),
    [
        ("http://a.example/", "document", {"one", "two", "three"}),
        ("http://w.a.example/", "subdocument", {"one", "two", "three"}),
        ("http://a.example/x.png", "image", set()),
        ("http://a.example/x;y/%2e%2e/", "document", {"one", "two", "three"}),  # each once, by whatever readings
        ("http://a.example/fine/", "document", {"three"}),
        ("http://a.example/half/", "document", {"one", "three"}),
        ("http://b.example/", "document", set()),
        ("http://c.example/", "document", {"one"}),
        ("http://d.example/", "image", {"cookies"}),
        ("http://e.example/", "document", {"refresh"}),
        ("http://f.example/", "document", set()),
        ("http://g.example/", "document", set()),  # what an own rule allows keeps its heads
        ("http://h.example/x", "script", {"blocks"}),
    ],
)
def test_filters_hold_where_no_exception_of_their_layer_lifts_them(
    engine: Engine, url: str, kind: str, does: set[str]
) -> None:
    decision = decided(engine, url, kind)
    assert decision.action not in STOPPING
    found: set[str] = set()
    rules = [rule for rule in listed_rules(decision) if rule.way == "answer"]
    assert len({(rule.source, rule.line) for rule in rules}) == len(rules)
    for rule in rules:
        found |= {value for _, value in rule.add} | {name.decode() for name in rule.remove}
        found |= {"cookies"} if rule.cookies else set()
        found |= {"blocks"} if rule.blocks else set()
    assert found == does
    assert [*own_categories(decision)] == []  # a page is not of the category of what changes its head


def test_a_category_that_passes_changes_no_heads(engine: Engine) -> None:
    decision = decided(engine, "http://a.example/", client=Client("192.0.2.1"))
    assert decision.group == "grown-ups"
    assert decision.matches == ()


def test_a_list_that_does_not_block_changes_no_heads() -> None:
    for action in (Action.TAG, Action.ALLOW):
        report = ProblemReport("list")
        assert [*each_rule(read_adblock(b"||a.example^$csp=x", ListDefaults(action=action), report))] == []
        assert "in a list that does not block" in str(report.warnings[0])


def test_only_what_ublock_origin_takes_out_is_taken_out() -> None:
    report = ProblemReport("list")
    lines = b"f.example##^responseheader(server)\n##^responseheader(refresh)\n/a/##^responseheader(refresh)"
    assert [*each_rule(read_adblock(lines, ListDefaults(), report))] == []
    assert [warning.why for warning in report.warnings] == [
        "left out: responseheader(): only location, refresh, report-to and set-cookie can be taken out",
        "left out: responseheader(): it names no host",
        "left out: responseheader(): hosts in it that are no names",
    ]


@each_row(
    ("option", "spared", "field", "left"),
    [
        ("", (), (b"Cookie", b"a=1; b=2"), None),
        ("a", (), (b"Cookie", b"a=1; b=2; a"), b"b=2"),
        ("a", (), (b"cookie", b";; a = 1 ;"), None),
        ("/^_ga/", (), (b"Cookie", b"_ga=1; x_ga=2"), b"x_ga=2"),
        ("", ("b",), (b"Cookie", b"a=1; b=2"), b"b=2"),
        ("a", (), (b"Set_Cookie", b"a=1; Path=/"), None),
        ("a", (), (b"Set-Cookie", b"b=a; a=1"), b"b=a; a=1"),
        ("a;maxAge=0", (), (b"Set-Cookie", b"a=1"), None),
        (
            "a;maxAge=9",
            (),
            (b"Set-Cookie", b"a=1; expires=Thu, 01 Jan 2099 00:00:00 GMT; Secure"),
            b"a=1; Secure; Max-Age=9",
        ),
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1; expires=Thu, 01-Jan-2099 00:00:00 GMT"), b"a=1; Max-Age=9"),
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1; Max-Age=5; max-age=10"), b"a=1; Max-Age=9"),
        # never longer or looser than the site says
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1; Max-Age=5; Max-Age=x"), b"a=1; Max-Age=5; Max-Age=x"),
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1"), b"a=1"),
        (
            "a;maxAge=9",
            (),
            (b"Set-Cookie", b"a=1; Max-Age=9; Expires=Thu, 01 Jan 2099 00:00:00 GMT"),
            b"a=1; Max-Age=9; Expires=Thu, 01 Jan 2099 00:00:00 GMT",
        ),
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1; Max-Age=-1"), b"a=1; Max-Age=-1"),
        (
            "a;maxAge=9",
            (),
            (b"Set-Cookie", b"a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
            b"a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ),
        ("a;maxAge=9", (), (b"Set-Cookie", b"a=1; Expires=soon"), b"a=1; Expires=soon"),
        ("a;sameSite=lax", (), (b"Set-Cookie", b"a=1; SameSite=strict"), b"a=1; SameSite=strict"),
        ("a;sameSite=lax", (), (b"Set-Cookie", b"a=1"), b"a=1; SameSite=Lax"),
        ("a;sameSite=strict", (), (b"Set-Cookie", b"a=1; samesite=None"), b"a=1; SameSite=Strict"),
        ("a;maxAge=9", (), (b"Cookie", b"a=1"), b"a=1"),
    ],
)
def test_cookies_go_by_name(
    option: str, spared: tuple[str, ...], field: tuple[bytes, bytes], left: bytes | None
) -> None:
    changed = [*changed_cookies([field], Cookies.of(option), tuple(map(Cookies.of, spared)))]
    assert [value for _, value in changed] == ([] if left is None else [left])


@each_row(
    ("policy", "own", "last"),
    [
        ("no-referrer", "unsafe-url", "no-referrer"),
        ("same-origin", None, "same-origin"),
        ("strict-origin", "no-referrer", "no-referrer"),  # browsers take the last
        ("strict-origin", None, "strict-origin"),
    ],
)
def test_a_list_s_referrer_policy_tells_no_more_than_the_site_s(policy: str, own: str | None, last: str) -> None:
    report = ProblemReport("list")
    (rule,) = each_rule(read_adblock(f"||a.example^$referrerpolicy={policy}".encode(), ListDefaults(), report))
    pattern = rule.pattern
    assert isinstance(pattern, NetworkFilter)
    assert pattern.head is not None
    (head,) = rules_of(ListedHead(Match(rule, b"", (0, 0)), pattern, pattern.head))
    kept = [] if own is None or head.set else [own]
    assert [*(value for _, value in head.before), *kept, *(value for _, value in head.set)][-1] == last


def test_an_answer_is_blocked_by_the_lists_rule(engine: Engine) -> None:
    (head,) = listed_rules(decided(engine, "http://h.example/x.js", "script"))
    assert [head.fits_answer(200, (), [(b"X_Ad", value)]) for value in (b"12", b"21")] == [True, False]
    pattern, terms, line = head.match("200").rule
    assert (terms.action, terms.category, str(pattern)) == (
        Action.BLOCK,
        "hrn://tests/ads",
        "||h.example/x$header=x-ad:/^1/",
    )
    assert LIST.splitlines()[line - 1] == str(pattern)
