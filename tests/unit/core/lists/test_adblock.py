"""Adblock Plus filter lists."""

import pytest

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action
from hushlist.extensions.adblock.filter_lists import read_adblock, read_adblock_dns, read_adblock_hosts
from support.readings import read_rules
from unit.rows import each_row

ANSWERED = "$redirect-rule: how something is answered that another filter stops; it is answered neutrally here anyway"
REMOVES = "$removeparam: it changes the address, and stops nothing"
BACK = "a regular expression with a back-reference, or another part that no automaton has"
TOO_SHORT = "a pattern that is too short: it would fit nearly every URL"
HINT = "a host on a line of its own: the format 'adblock-hosts' takes it for that host"


@each_row(
    ("text", "rules"),
    [
        ("[Adblock Plus 2.0]\n! Title: x\n! x\n\n||a.example^", ["5:a.example/"]),
        ("# x\n#\n##### x\n||a.example^", ["4:a.example/"]),
        ("||A.example^\r\n||bücher.example^\n||192.0.2.1^",
         ["1:a.example/", "2:xn--bcher-kva.example/", "3:192.0.2.1/"]),
        ("||a.example\n||c.example^*", ["1:a.example/", "2:c.example/"]),
        ("||b.example^$all\n||e.example^$match-case", ["1:b.example/", "2:e.example/"]),
        ("-geoip.js\nad.GIF\n-x.example", ["1:-geoip.js", "2:ad.GIF", "3:-x.example"]),  # no host is called so
        ("||localhost^\n||zip^", ["1:localhost/", "2:zip/"]),
        ("||[2001:DB8::1]^\n||[::1]", ["1:[2001:db8::1]/", "2:[::1]/"]),
        ("||*.a.example^", ["1:a.example/"]),
    ],
)  # fmt: skip
def test_a_filter_for_a_whole_host_is_a_rule_for_it(text: str, rules: list[str]) -> None:
    assert read_rules(read_adblock, text) == (rules, [])


@each_row(
    ("line", "kind"),
    [
        ("##.ad", "cosmetic"),
        ("x.example##.ad", "cosmetic"),
        ("x.example#@#.ad", "cosmetic"),
        ("x.example#?#.ad:has(a)", "cosmetic"),
        ("x.example#@$#x", "cosmetic"),
        ("x.example$$script", "cosmetic"),
        ("||x.example^$popup", "popup: a proxy cannot tell a new window"),
        ("||x.example/a$b", "an option that is not known"),
        ("||x.example^$removeparam=a", REMOVES),
        ("*$removeparam", REMOVES),
        ("||x.example/a.js$redirect-rule=noopjs", ANSWERED),
        ("@@||x.example/a.js$redirect=noopjs", ANSWERED.replace("redirect-rule", "redirect")),
        ("||x.example^$trusted-types=a", "$trusted-types: it changes the header of an answer, and stops nothing"),
        (
            "||x.example^$ipaddress=192.0.2.1",
            "$ipaddress: it decides by the answer, and a request is decided before it is sent",
        ),
        ("||x.example^$strict1p,third-party", "options that exclude each other"),
        ("||x.example^$strict1p,strict3p", "options that exclude each other"),
        (
            r"||x.example^$removeparam=/^utm_[a-z]{1,3}$/,script",
            "$removeparam: it changes the address, and stops nothing",
        ),
        ("||x.example^$domain=/(a+)\\1b/", BACK),
        ("/(a+)\\1b/", BACK),
        ("/a(/", "a regular expression that is not valid"),
        ("||", TOO_SHORT),
        ("*", TOO_SHORT),
        ("x", TOO_SHORT),
        ("||x.example/#/y", "white space or a fragment, which no URL that is asked for has"),
        ("some words", "white space or a fragment, which no URL that is asked for has"),
        ("||x.example^$third-party,first-party", "options that exclude each other"),
        ("||x.example^$method=brew", "a method that is not known"),
        ("||x.example^$domain=/y", "a domain that is no name"),
        ("x.example", HINT),
        ("0.0.0.0 x.example", HINT),
        ("!#include y", "a file that the list includes: it is used where the policy names it as a list of its own"),
        ("!#safari_cb_affinity", "a preprocessor directive"),
    ],
)
def test_everything_else_is_left_out_by_kind(line: str, kind: str) -> None:
    rules, warnings = read_rules(read_adblock, f"||a.example^\n{line}\n||b.example^")
    assert rules == ["1:a.example/", "3:b.example/"]
    assert warnings == [f"2: {line}: left out: {kind}"]


@each_row(
    "line",
    [
        *("||x.example/y", "||x.example/", "|http://x.example^", "||x.example^$important", "||x.example^$document"),
        *("||x.example^$third-party", "||x.example^$~script,domain=y.example", "||x.example:81^", "||x.example/y?z="),
        *(
            "||ads.",
            "||ads",
            "||ads.*^",
            "/banner/*/img",
            "&ad_box_",
            "x.example/",
            "/ad[0-9]+/$script",
            "||x.example/y|",
        ),
        *("||x.example^$important", "||[2001:db8::1]:80^", "||bücher.example/ä", "*$script,domain=x.example"),
    ],
)
def test_every_other_filter_for_requests_is_a_rule_as_it_is_written(line: str) -> None:
    assert read_rules(read_adblock, f"{line}\n@@{line}") == ([f"1:{line}", f"+2:@@{line}"], [])


def test_a_kind_is_one_warning_with_its_number_and_first_line() -> None:
    lines = [f"##.ad{number}" for number in range(1500)] + ["x.example", "y.example"]
    assert read_rules(read_adblock, "\n".join(lines))[1] == [
        "1: ##.ad0: left out: cosmetic (the first of 1,500)",
        f"1501: x.example: left out: {HINT} (the first of 2)",
    ]


@pytest.mark.parametrize("action", [Action.TAG, Action.WARN])
def test_a_list_that_does_not_block_has_no_exceptions(action: Action) -> None:
    rules, warnings = read_rules(read_adblock, "@@||a.example^", ListDefaults(action=action))
    assert (rules, warnings) == ([], ["1: @@||a.example^: left out: an exception, in a list that does not block"])


def test_an_exception_of_a_list_that_allows_is_what_it_allows() -> None:
    text = "@@||a.example^\n||b.example^\n@@||c.example^|\n@@||d.example/x\n@@||e.example^$script\n"
    text += "@@||f.example^$important"
    rules, warnings = read_rules(read_adblock, text, ListDefaults(action=Action.ALLOW))
    assert rules == [
        *("+1:a.example/", "+2:b.example/", "+3:c.example/", "+4:||d.example/x", "+6:||f.example^$important"),
    ]
    why = "an exception for some requests alone, in a list that allows: a client could lie about them"
    assert warnings == [f"5: ||e.example^$script: left out: {why}"]
    rules, warnings = read_rules(read_adblock_dns, "@@|a.example^\n@@/^b[0-9]\\./", ListDefaults(action=Action.ALLOW))
    assert (rules, warnings) == (["+1:|a.example^", "+2:/^b[0-9]\\./"], [])


def test_a_host_that_live_traffic_cannot_have_is_left_out() -> None:
    assert read_rules(read_adblock, "||123^\n||...^\n||[1::2::3]^\n||[:]^") == (
        [],
        [
            "1: 123: left out: a number alone is no host; an address has dots or colons",
            "2: ...: left out: it names no host",
            "3: [1::2::3]: left out: what stands in brackets is no IPv6 address",
            "4: [:]: left out: what stands in brackets is no IPv6 address",
        ],
    )


def test_a_host_on_a_line_of_its_own_means_that_host_where_the_format_says_so() -> None:
    text = (
        "! hosts\na.example\nB.Example # x\n||c.example^\n0.0.0.0 d.example e.example\n192.0.2.1\nbücher.example\n"
        "/banner\n192.0.2.7 g.example\nj.example##.ad\n# k.example\n"
    )
    rules, warnings = read_rules(read_adblock_hosts, text)
    assert rules == [
        *("2:a.example/", "3:b.example/", "4:c.example/", "5:d.example/", "5:e.example/", "6:192.0.2.1/"),
        *("7:xn--bcher-kva.example/", "8:/banner"),
    ]
    assert warnings == [
        "9: 192.0.2.7 g.example: left out: an address that is given to names: it blocks nothing",
        "10: j.example##.ad: left out: cosmetic",
    ]


@each_row(
    ("line", "pattern", "reason"),
    [
        ("||x.example^$doc,reason=tracker", "||x.example^$doc", "tracker"),
        ('||x.example^$all,reason="not theirs, at all"', "x.example/", "not theirs, at all"),
        ("||x.example^$reason='a scam',3p", "||x.example^$3p", "a scam"),
        ("||x.example^$reason=a scam", "x.example/", "a scam"),
        ("||x.example/y,reason=5$script", "||x.example/y,reason=5$script", "of the list"),
        ("||x.example/y?a&reason=5", "||x.example/y?a&reason=5", "of the list"),
        ("||x.example^$script,reason=", "||x.example^$script", "of the list"),
    ],
)
def test_a_filter_says_its_own_reason(line: str, pattern: str, reason: str) -> None:
    defaults = ListDefaults(reason="of the list")
    (rule, other) = read_adblock(f"{line}\n||y.example^$3p".encode(), defaults, ProblemReport("f"))
    assert (str(rule.pattern), rule.terms.reason, other.terms.reason) == (pattern, reason, "of the list")


def test_what_takes_back_an_exception_allows_nothing() -> None:
    lines = b"@@||a.example^$script\n@@||a.example^$script,badfilter\n||a.example^$badfilter"
    actions = [rule.terms.action for rule in FORMATS["adblock"].read(lines, ListDefaults(), ProblemReport("f"))]
    assert actions == [Action.ALLOW, Action.BLOCK, Action.BLOCK]
