"""Adblock Plus filter lists."""

import pytest

from hushlist.lists.filter_lists import read_adblock
from hushlist.lists.list_source import ListDefaults
from hushlist.match.rule import Action
from unit.lists.reading import read


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("[Adblock Plus 2.0]\n! Title: x\n! x\n\n||a.example^", ["5:a.example/"]),
        ("# x\n#\n##### x\n||a.example^", ["4:a.example/"]),
        ("||A.example^\r\n||bücher.example^\n||192.0.2.1^",
         ["1:a.example/", "2:xn--bcher-kva.example/", "3:192.0.2.1/"]),
        ("||a.example\n||b.example/\n||c.example^*\n||d.example/*",
         ["1:a.example/", "2:b.example/", "3:c.example/", "4:d.example/"]),
        ("||a.example^$important\n||b.example^$all\n||c.example^$document,important\n||d.example^$doc\n||e.example^$match-case",
         ["1:a.example/", "2:b.example/", "3:c.example/", "4:d.example/", "5:e.example/"]),
        ("||a.example/x", ["1:a.example/x", "1:a.example/x/"]),
        ("||a.example/x^", ["1:a.example/x", "1:a.example/x/"]),
        ("||a.example/x/\n||a.example/y/*", ["1:a.example/x/", "2:a.example/y/"]),
        ("|http://a.example/x/\n|https://b.example^\n|http://c.example",
         ["1:a.example/x/", "2:b.example/", "3:c.example/"]),
        ("@@||a.example^\n@@||b.example/x/$important", ["+1:a.example/", "+2:b.example/x/"]),
        ("||localhost^", ["1:localhost/"]),
    ],
)  # fmt: skip
def test_a_host_or_a_path_prefix_is_a_rule(text: str, rules: list[str]) -> None:
    assert read(read_adblock, text) == (rules, [])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("##.ad", "cosmetic"),
        ("x.example##.ad", "cosmetic"),
        ("x.example#@#.ad", "cosmetic"),
        ("x.example#?#.ad:has(a)", "cosmetic"),
        ("x.example#@$#x", "cosmetic"),
        ("x.example$$script", "cosmetic"),
        ("/ad[0-9]+/", "a regular expression"),
        ("/ad[0-9]+/$script", "a regular expression"),
        ("@@/ad/", "a regular expression"),
        ("||x.example^$third-party", "options"),
        ("||x.example^$important,domain=y.example", "options"),
        ("||x.example^$~script", "options"),
        ("||x.example^$popup", "options"),
        ("||x.example/a$b", "options"),
        ("@@||x.example^$document", "options"),
        ("@@||x.example^$all", "options"),
        ("||x.example^$important,badfilter", "badfilter: the filter that it takes back stays"),
        ("||x.*^", "a wildcard"),
        ("||x.example/*/y", "a wildcard"),
        ("/banner/*/img", "a wildcard"),
        ("||x.example/y|", "an end"),
        ("||x.example^y", "a separator"),
        ("||ads.", "a part of a host"),
        ("||ads", "a part of a host"),
        ("||", "a part of a host"),
        ("||u@x.example^", "a part of a host"),
        ("||x.example:81^", "a port"),
        ("||x.example/y?z=", "a query"),
        ("||x.example/#/y", "a fragment"),
        ("&ad_box_", "a plain substring"),
        ("/banner/img", "a plain substring"),
        ("x.example", "a plain substring"),
        ("@@|http://x.example^", "an exception for one host and scheme alone"),
        ("!#include y", "a preprocessor directive"),
        ("!#endif", "a preprocessor directive"),
        ("!#if !adguard", "a condition: the filters that it is about are used in any case"),
        ("!#else", "a condition: the filters that it is about are used in any case"),
    ],
)
def test_everything_else_is_left_out_by_kind(line: str, kind: str) -> None:
    rules, warnings = read(read_adblock, f"||a.example^\n{line}\n||b.example^")
    assert rules == ["1:a.example/", "3:b.example/"]
    assert warnings == [f"2: {line}: left out: {kind}"]


def test_a_kind_is_one_warning_with_its_number_and_first_line() -> None:
    lines = [f"##.ad{number}" for number in range(1500)] + ["x.example", "y.example"]
    assert read(read_adblock, "\n".join(lines))[1] == [
        "1: ##.ad0: left out: cosmetic (the first of 1,500)",
        "1501: x.example: left out: a plain substring (the first of 2)",
    ]


@pytest.mark.parametrize("action", [Action.TAG, Action.ALLOW])
def test_a_list_that_does_not_block_has_no_exceptions(action: Action) -> None:
    rules, warnings = read(read_adblock, "@@||a.example^", ListDefaults(action=action))
    assert (rules, warnings) == ([], ["1: @@||a.example^: left out: an exception, in a list that does not block"])


def test_a_host_that_live_traffic_cannot_have_is_left_out() -> None:
    assert read(read_adblock, "||123^\n||...^") == (
        [],
        [
            "1: 123: left out: a number alone is no host; an address has dots or colons",
            "2: ...: left out: it names no host",
        ],
    )
