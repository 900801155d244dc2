"""YAML rule lists: every kind of rule, and every kind of error."""

from datetime import date
from functools import partial

import pytest

from hushlist.core.lists import list_keys
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.lists.yaml_rules import read_yaml
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.policy.key_types import names_of
from support.readings import read_list
from unit.rows import each_row

PREFIX = "ba7816bf"
FULL = PREFIX * 8
SHA1 = f"hashed:sha1={'0' * 40}"
PATTERNS = "expression, sha256, sealed, address, uri"
RULE_KEYS = f"{PATTERNS}, match, action, category, reason, expires, with, for, during"
LIST_KEYS = ", ".join(names_of(list_keys.LIST_KEYS))


read = partial(read_list, read_yaml, source="f.yaml")


@each_row(
    ("rule", "pattern"),
    [
        ("ads.example", "ads.example/"),
        ("'https://Video.Example/live/'", "video.example/live/"),
        ("{expression: ads.example}", "ads.example/"),
        ("{expression: 'https://ads.example/%7eX?', match: simple}", "https://ads.example/%7eX? (match: simple)"),
        ("{match: syntax, expression: 'http://Ads.example/a/../%7eX'}", "http://ads.example/~X (match: syntax)"),
        ("{expression: 'http://Ads.example:80', match: scheme}", "http://ads.example/ (match: scheme)"),
        ("{expression: 'http://ads.example:81/', match: scheme}", "http://ads.example:81/ (match: scheme)"),
        (
            "{expression: 'https://bücher.example/é', match: scheme}",
            "https://xn--bcher-kva.example/%C3%A9 (match: scheme)",
        ),
        ("{expression: 'https://ads.example/é', match: simple}", "https://ads.example/é (match: simple)"),
        ("{expression: 'http://[::1]/', match: simple}", "http://[::1]/ (match: simple)"),
        (f"{{sha256: {PREFIX}}}", f"sha256:{PREFIX}"),
        (f"{{sha256: '{FULL.upper()}'}}", f"sha256:{FULL}"),
        ("{sha256: 12345678}", "sha256:12345678"),  # to YAML's own rules, a number
        ("{address: 10.0.0.0/8}", "10.0.0.0/8"),
        ("{address: '::1'}", "::1/128"),
        (f"'{SHA1}'", SHA1),
        (f"'{SHA1.upper()}'", SHA1),
        (f"{{uri: '{SHA1}+query'}}", f"{SHA1}+query"),
        (f"{{uri: 'hashed:md5={'0' * 32}'}}", f"hashed:md5={'0' * 32}"),
        (f"{{uri: 'hashed:x-sha256={'0' * 64}'}}", f"hashed:x-sha256={'0' * 64}"),
    ],
)
def test_every_kind_of_rule_is_read(rule: str, pattern: str) -> None:
    rules, errors, warnings = read(f"rules:\n  - {rule}")
    assert [(str(rule.pattern), rule.line) for rule in rules] == [(pattern, 2)]
    assert errors == warnings == []


def test_a_rule_says_where_it_stands_and_what_it_asks_for() -> None:
    (rule,), _, _ = read(
        "name: hrn://list.example/all\ncategory: hrn://list.example/ads\nrules:\n"
        "  - reason: why\n    action: tag\n    expires: 2026-12-31\n    expression: ads.example\n"
    )
    assert (rule.terms.list, rule.terms.source, rule.line) == ("hrn://list.example/all", "f.yaml", 7)
    assert (rule.terms.action, rule.terms.category, rule.terms.reason) == (Action.TAG, "hrn://list.example/ads", "why")
    assert rule.terms.expires == date(2026, 12, 31)


def test_the_policy_s_defaults_come_before_the_list_s() -> None:
    head = "name: hrn://l.example/own\nreason: own\naction: tag\nvariant: p\n"
    text = f"{head}rules: [ads.example, {{expression: a.example, action: allow}}]"
    rules, _, _ = read(text, ListDefaults(name="policy's", action=Action.BLOCK))
    assert [(rule.terms.list, rule.terms.reason, rule.terms.action) for rule in rules] == [
        ("policy's", "own", Action.BLOCK),
        ("policy's", "own", Action.ALLOW),
    ]


@pytest.mark.parametrize("variant", ["n", "p"])
def test_a_list_says_how_its_hashed_uris_were_made(variant: str) -> None:
    (rule,), _, _ = read(f"variant: {variant}\nrules: ['{SHA1}']")
    assert rule.pattern.key.variant == variant  # type: ignore[union-attr]


@each_row(
    ("text", "errors"),
    [
        # the file
        ("", [f"f.yaml:1: nothing: expected a mapping with {LIST_KEYS}"]),
        ("- ads.example", [f"f.yaml:1: a list: expected a mapping with {LIST_KEYS}"]),
        ("ads.example", [f"f.yaml:1: 'ads.example': expected a mapping with {LIST_KEYS}"]),
        ("reason: x", ["f.yaml:1: rules: the list has none; an empty one is written 'rules: []'"]),
        ("rules:", ["f.yaml:1: rules: expected a list, not nothing"]),
        ("rules: ads.example", ["f.yaml:1: rules: expected a list, not text"]),
        ("rules: {a: b}", ["f.yaml:1: rules: expected a list, not a mapping"]),
        ("rule: []\nrules: []", [f"f.yaml:1: rule: unknown key; did you mean 'rules'? (known: {LIST_KEYS})"]),
        ("rules: []\nrules: []", ["f.yaml:2: rules: the key is given twice (first in line 1)"]),
        ("name:\nrules: []", ["f.yaml:1: name: expected text, not nothing"]),
        ("reason: ''\nrules: []", ["f.yaml:1: reason: expected text, not nothing"]),
        (f"title: {'t' * 201}\nrules: []", ["f.yaml:1: title: it has 201 characters, and 200 are the most"]),
        (
            f"rules:\n- {{address: '::1', reason: {'r' * 501}}}",
            ["f.yaml:2: reason: it has 501 characters, and 500 are the most"],
        ),
        ("action: skip\nrules: []", ["f.yaml:1: action: skip: expected one of allow, block, warn, tag, pass"]),
        ("variant: x\nrules: []", ["f.yaml:1: variant: x: expected one of n, p"]),
        # a rule
        ("rules: [[]]", ["f.yaml:1: rule: expected an expression, a hashed URI or a mapping, not a list"]),
        ("rules: [~]", ["f.yaml:1: rule: expected an expression, a hashed URI or a mapping, not nothing"]),
        ("rules:\n-", ["f.yaml:2: rule: expected an expression, a hashed URI or a mapping, not nothing"]),
        ("rules: [{}]", [f"f.yaml:1: rule: expected exactly one of {PATTERNS}"]),
        ("rules: [{action: tag}]", [f"f.yaml:1: rule: expected exactly one of {PATTERNS}"]),
        (
            f"rules: [{{expression: a.example, sha256: {PREFIX}}}]",
            [f"f.yaml:1: expression and sha256: expected exactly one of {PATTERNS}"],
        ),
        (
            "rules:\n- expression: a.example\n  colour: red",
            [f"f.yaml:3: colour: unknown key (known: {RULE_KEYS})"],
        ),
        (
            "rules:\n- expression: a.example\n  expression: b.example",
            ["f.yaml:3: expression: the key is given twice (first in line 2)"],
        ),
        ("rules: [{expression: [a]}]", ["f.yaml:1: expression: expected text, not a list"]),
        ("rules:\n- com..\n- '..'", ["f.yaml:3: ..: it names no host"]),
        (
            "rules: ['*.ads.example']",
            [
                "f.yaml:1: *.ads.example: '*' is no wildcard here; a rule fits its host, all hosts below it, "
                "and all paths below it: write 'ads.example'"
            ],
        ),
        ("rules: [a b]", ["f.yaml:1: a b: there is white space in it"]),
        (
            "rules: ['http://https://a.example/']",
            ["f.yaml:1: http://https://a.example/: what stands in front of '://' is no host"],
        ),
        ("rules: ['a.example,b.example']", ["f.yaml:1: a.example,b.example: no name of a host has ',' in it"]),
        ("rules: [{sha256: abc}]", ["f.yaml:1: abc: expected pairs of hexadecimal digits"]),
        ("rules: [{sha256: abcdef}]", ["f.yaml:1: abcdef: expected 8 to 64 hexadecimal digits, not 6"]),
        ("rules: [{address: 10.0.0.1/8}]", ["f.yaml:1: 10.0.0.1/8: 10.0.0.1/8 has host bits set"]),
        (
            "rules: [{address: ads.example}]",
            ["f.yaml:1: ads.example: 'ads.example' does not appear to be an IPv4 or IPv6 network"],
        ),
        (
            "rules: ['hashed:sha1=0x']",
            ["f.yaml:1: hashed:sha1=0x: expected '+frag', '+query' or the end (at character 14)"],
        ),
        (
            "rules: ['hashed:sha1=0']",
            ["f.yaml:1: hashed:sha1=0: sha1 has 40 hexadecimal digits, not 1 (at character 14)"],
        ),
        (
            "rules: [{uri: 'http://a.example/'}]",
            ["f.yaml:1: http://a.example/: a hashed URI begins with 'hashed:' (at character 1)"],
        ),
        (
            "rules: [{expression: a.example, action: drop}]",
            ["f.yaml:1: action: drop: expected one of allow, block, warn, tag, pass"],
        ),
        (
            "rules: [{expression: a.example, expires: tomorrow}]",
            ["f.yaml:1: expires: tomorrow: expected a day such as 2026-12-31"],
        ),
    ],
)
def test_every_error_names_file_line_what_and_why(text: str, errors: list[str]) -> None:
    assert read(text)[1] == errors


@each_row("length", [8, 10, 62])
@each_row("head", ["", "action: allow\n"])
def test_a_prefix_never_allows(length: int, head: str) -> None:
    own = "" if head else ", action: allow"
    _, errors, _ = read(f"{head}rules:\n- {{sha256: '{FULL[:length]}'{own}}}")
    line = 3 if head else 2
    assert errors == [
        f"f.yaml:{line}: {FULL[:length]}: only a full hash of 64 hexadecimal digits can allow, not a prefix of one"
    ]


@each_row(
    ("url", "rung", "why"),
    [
        ("ads.example/x", "simple", "what 'match' compares is a whole URL; write http:// or https:// in front"),
        ("ftp://ads.example/", "scheme", "what 'match' compares is a whole URL; write http:// or https:// in front"),
        (
            "http://ads.example/?q#x",
            "scheme",
            "'match' compares neither user information nor fragments: leave them out",
        ),
        (
            "http://ads.example",
            "syntax",
            "with 'match: syntax' it fits no request: write 'http://ads.example/', or a higher rung",
        ),
        (
            "HTTP://ads.example/",
            "simple",
            "with 'match: simple' it fits no request: write 'http://ads.example/', or a higher rung",
        ),
        (
            "http://Bücher.example/",
            "syntax",
            "with 'match: syntax' it fits no request: write 'http://xn--bcher-kva.example/', or a higher rung",
        ),
        ("http://ads.example:99999/", "scheme", "its port is no number up to 65535"),
        ("http://a%2fb.example/", "scheme", "there is a delimiter in the host"),
    ],
)
def test_a_whole_url_that_no_request_fits_is_an_error(url: str, rung: str, why: str) -> None:
    rules, errors, _ = read(f"rules:\n- action: tag\n  expression: '{url}'\n  match: {rung}")
    assert (rules, errors) == ([], [f"f.yaml:3: {url}: {why}"])


def test_a_password_in_a_whole_url_is_not_shown() -> None:
    assert "s3cr3t" not in str(read("rules: [{expression: 'http://me:s3cr3t@ads.example/', match: scheme}]"))


@each_row("pattern", [f"sha256: {FULL}", "address: 10.0.0.0/8", f"uri: 'hashed:sha1={'0' * 40}'", f"sha256: {PREFIX}"])
def test_only_an_expression_has_a_rung(pattern: str) -> None:
    why = "only an expression can have it; what says how a hashed URI is compared is its variant"
    assert read(f"rules:\n- {pattern}\n  match: simple")[:2] == ([], [f"f.yaml:3: match: {why}"])
    assert read("rules: [{expression: 'http://a.example/', match: odd}]")[1] == [
        "f.yaml:1: match: odd: expected one of simple, syntax, scheme"
    ]


def test_all_bad_rules_of_a_file_are_reported_in_the_order_of_their_places() -> None:
    text = "rules:\n- a.example\n- '..'\n- {sha256: x}\n- b.example\n- {action: nope}\naction: drop\nname: []\n"
    rules, errors, _ = read(text)
    assert errors == [
        "f.yaml:3: ..: it names no host",
        "f.yaml:4: x: expected pairs of hexadecimal digits",
        "f.yaml:6: action: nope: expected one of allow, block, warn, tag, pass",
        f"f.yaml:6: rule: expected exactly one of {PATTERNS}",
        "f.yaml:7: action: drop: expected one of allow, block, warn, tag, pass",
        "f.yaml:8: name: expected text, not a list",
    ]
    assert [str(rule.pattern) for rule in rules] == ["a.example/", "b.example/"]


@pytest.mark.parametrize(
    ("rule", "warning", "read_rules"),
    [
        ("hashed:sha512=00", "skipped: unknown algorithm 'sha512' (known: md5, sha1, x-sha256)", 0),
        ("hashed:x-mine=00+query", "skipped: unknown private identifier 'x-mine' (known: md5, sha1, x-sha256)", 0),
        (f"{SHA1}+frag", "a proxy never sees a fragment: '+frag' can match only where a source keeps them", 1),
    ],
)
def test_what_can_be_used_but_not_as_written_is_a_warning(rule: str, warning: str, read_rules: int) -> None:
    rules, errors, warnings = read(f"rules:\n- a.example\n- '{rule}'")
    assert len(rules) == 1 + read_rules
    assert errors == []
    assert warnings == [f"f.yaml:3: {rule}: {warning}"]


def test_a_list_that_covers_hosts_has_no_rule_for_less_and_its_hashes_say_so() -> None:
    uri = "hashed:md5=aa1102d3fca83fdbb93b86cf9acc4068"
    text = (
        f"covers: hosts\nrules:\n- h.example\n- {{sha256: {PREFIX}}}\n- {{address: 192.0.2.0/24}}\n- h.example/x\n"
        f"- {uri}\n- {{expression: 'http://h.example/', match: simple}}"
    )
    rules, errors, _ = read(text)
    assert [rule.pattern.is_of_host for rule in rules if isinstance(rule.pattern, ExpressionHash)] == [True]
    why = "the list says 'covers: hosts', and this is for less than a host"
    less = {6: "h.example/x", 7: uri, 8: "http://h.example/ (match: simple)"}
    assert errors == [f"f.yaml:{line}: {what}: {why}" for line, what in less.items()]
    in_policy, _, _ = read(f"rules: [{{sha256: {PREFIX}}}]", ListDefaults(covers="hosts"))
    assert [getattr(rule.pattern, "is_of_host", None) for rule in in_policy] == [True]
