"""Chromium's filter format."""

from hushlist.extensions.adblock.filter_lists import read_chromium
from support.readings import NO_WILDCARD, read_rules
from unit.rows import each_row

_TOKENS = "a rule fits a query as a whole, not some of its tokens"
_EVERY_SCHEME = "a rule fits every scheme, not one alone"
_OTHER_SCHEME = "no request to a proxy has this scheme"


@each_row(
    ("text", "rules"),
    [
        ("# x\r\na.example # why\r\n", ["2:a.example/"]),
        ("a.example/\nb.example.\nC.Example\n192.0.2.1\n[::1]",
         ["1:a.example/", "2:b.example/", "3:c.example/", "4:192.0.2.1/", "5:[::1]/"]),
        ("a.example/x", ["1:a.example/x", "1:a.example/x/"]),
        ("a.example/x/\nb.example/*\nc.example/x/*", ["1:a.example/x/", "2:b.example/", "3:c.example/x/"]),
        ("user:pass@a.example\nb.example/#x\nc.example:*", ["1:a.example/", "2:b.example/", "3:c.example/"]),
        ("bücher.example", ["1:xn--bcher-kva.example/"]),
        ("localhost", ["1:localhost/"]),
    ],
)  # fmt: skip
def test_a_host_and_a_path_are_rules(text: str, rules: list[str]) -> None:
    assert read_rules(read_chromium, text) == (rules, [])


@each_row(
    ("line", "why"),
    [
        ("*", "no rule fits every host"),
        ("*/x", "no rule fits every host"),
        ("*:8080", "no rule fits every host"),
        (".x.example", "a rule fits the hosts below its own, too; a leading dot excludes them"),
        ("https://x.example", _EVERY_SCHEME),
        ("HTTP://*", _EVERY_SCHEME),
        ("wss://x.example", _EVERY_SCHEME),
        ("chrome://settings", _OTHER_SCHEME),
        ("mailto:me@x.example", _OTHER_SCHEME),
        ("JavaScript:alert(1)", _OTHER_SCHEME),
        ("custom://*", _OTHER_SCHEME),
        ("javascript:*", _OTHER_SCHEME),
        ("x.example:8080", "a rule fits every port, not one alone"),
        ("x.example:8080/y", "a rule fits every port, not one alone"),
        ("x.example/watch?v=V1", _TOKENS),
        ("x.example/watch@v=V1", _TOKENS),
        ("x.example?v=V1*", _TOKENS),
        ("x.example@v", "'@' may stand behind a user or in front of a query"),
        ('["x.example"]', "no name of a host has '[' in it"),
        ("*.x.example", "'*' is no part of a host"),
        ("x.*.example", NO_WILDCARD),
        ("/x", "it names no host"),
    ],
)
def test_what_no_rule_can_express_is_refused_with_the_reason(line: str, why: str) -> None:
    rules, warnings = read_rules(read_chromium, f"a.example\n{line}\nb.example")
    assert rules == ["1:a.example/", "3:b.example/"]
    assert warnings == [f"2: {line}: left out: {why}"]
