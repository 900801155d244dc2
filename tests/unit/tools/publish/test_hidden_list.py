"""What becomes of rules: hashes that fit the same requests, and what cannot be one is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.list_formats import FORMATS, list_format_of
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.url.hashed_uri import HashedUri, HashKey, hash_uri
from hushlist.tools.publish.false_positives import MOST, false_positives
from hushlist.tools.publish.hidden_list import HashKind, HiddenList, default_prefix_length, hide
from hushlist.tools.publish.list_writer import ListHead, as_yaml
from support.engines import engine_of


def hidden_of(folder: Path, name: str, text: str, kind: HashKind = HashKind.SHA256, **how: object) -> HiddenList:
    path = folder / name
    path.write_text(text)
    form = list_format_of(path)
    assert form is not None
    return hide([ListFile(path, FORMATS[form], ListDefaults())], kind, **how)  # type: ignore[arg-type]


# -- one hash a rule ---------------------------------------------------------------------------------------------------


def test_each_rule_is_the_hash_of_its_own_expression(tmp_path: Path) -> None:
    hidden = hidden_of(tmp_path, "ads.hosts", "0.0.0.0 b.example\n0.0.0.0 a.example b.example\n")
    expected = {full_hash(name): name for name in (b"a.example/", b"b.example/")}
    assert [rule.pattern for rule in hidden.rules] == [ExpressionHash(value) for value in sorted(expected)]
    assert {rule.plaintext: rule.line for rule in hidden.rules} == {b"a.example/": 2, b"b.example/": 1}
    assert (hidden.warnings, hidden.left_out) == ([], 0)


def test_the_order_tells_nothing_of_the_source(tmp_path: Path) -> None:
    names = [f"{number}.example" for number in range(50)]
    texts = {
        as_yaml(hidden_of(tmp_path, f"{at}.hosts", "".join(f"0 {name}\n" for name in order)), ListHead())
        for at, order in enumerate((names, names[::-1]))
    }
    assert len(texts) == 1


def test_an_address_becomes_its_expression_and_a_range_is_named(tmp_path: Path) -> None:
    hidden = hidden_of(tmp_path, "a.netset", "192.0.2.1\n2001:db8::1\n192.0.2.0/24\n")
    assert {rule.plaintext for rule in hidden.rules} == {b"192.0.2.1/", b"[2001:db8::1]/"}
    (problem,) = hidden.warnings
    assert (problem.line, problem.what, hidden.left_out) == (3, "192.0.2.0/24", 1)
    assert problem.why == "left out: no hash stands for a range of addresses"


def test_a_rule_with_match_is_named(tmp_path: Path) -> None:
    text = "rules:\n- a.example\n- {expression: 'http://h.example/x', match: simple}\n"
    hidden = hidden_of(tmp_path, "l.yaml", text)
    assert len(hidden.rules) == 1
    (problem,) = hidden.warnings
    assert (problem.line, problem.why) == (3, "left out: no hash is compared as a rule with 'match' is")


def test_what_fits_less_as_a_hash_is_named_once_a_reason(tmp_path: Path) -> None:
    lines = ["1.2.3.4.d.example", "h.example/1/2/3/4/", "h.example/1/2/3/", "a.b.c.d.example", "2.2.3.4.d.example"]
    hidden = hidden_of(tmp_path, "l.yaml", f"rules:\n{''.join(f'- {line}{chr(10)}' for line in lines)}")
    assert len(hidden.rules) == 5
    assert [(problem.line, problem.why) for problem in hidden.warnings] == [
        (2, "its hash fits no host below it: it has more than 5 labels (the first of 2)"),
        (3, "its hash fits no page in that folder: it is deeper than 3"),
    ]


def test_the_hash_of_a_top_level_name_fits_no_host_below_it(tmp_path: Path) -> None:
    text = "rules:\n- zip\n- zap/a.b/\n- '[2001:db8::1]'\n- 192.0.2.1/a\n- fine.example/x\n"
    hidden = hidden_of(tmp_path, "l.yaml", text)
    assert [(problem.line, problem.what, problem.why) for problem in hidden.warnings] == [
        (2, "zip/", "its hash fits no host below it: it has only one label (the first of 2)")
    ]
    for url in (b"http://a.zip/", b"http://a.zap/a.b/c"):
        decisions = [engine_of(own).decide_url(url).action for own in (text, as_yaml(hidden, ListHead()))]
        assert decisions == [Action.BLOCK, Action.PASS]


def test_what_is_a_hash_already_stays(tmp_path: Path) -> None:
    digest, prefix, uri = full_hash(b"a.example/").hex(), full_hash(b"b.example/").hex()[:10], "hashed:md5=" + "0" * 32
    text = f"rules: [{{sha256: {digest}}}, {{sha256: {prefix}}}, '{uri}']"
    hidden = hidden_of(tmp_path, "l.yaml", text)
    assert {str(rule.pattern) for rule in hidden.rules} == {f"sha256:{digest}", f"sha256:{prefix}"}
    assert [rule.plaintext for rule in hidden.rules] == [None, None]
    assert [problem.what for problem in hidden.warnings] == [uri]
    hidden = hidden_of(tmp_path, "l.yaml", text, HashKind.HASHED_URI)
    assert [str(rule.pattern) for rule in hidden.rules] == [uri]
    assert hidden.left_out == 2


def test_a_list_of_hashed_uris_has_one_variant(tmp_path: Path) -> None:
    hidden = hidden_of(tmp_path, "l.yaml", f"variant: p\nrules: ['hashed:md5={'0' * 32}']", HashKind.HASHED_URI)
    assert 'variant: "p"' in as_yaml(hidden, ListHead())
    both = f"variant: p\nrules:\n- hashed:md5={'0' * 32}\n- h.example/page\n"
    hidden = hidden_of(tmp_path, "l.yaml", both, HashKind.HASHED_URI)
    assert {rule.pattern.key.variant for rule in hidden.rules if isinstance(rule.pattern, HashedUri)} == {"p"}
    assert [problem.why for problem in hidden.warnings] == [
        "left out: it is of variant n, and others are of variant p"
    ] * 2


def test_a_page_becomes_hashed_uris_for_both_schemes(tmp_path: Path) -> None:
    text = "rules:\n- h.example/page\n- h.example/find?q=x\n- h.example/folder/\n- h.example\n"
    hidden = hidden_of(tmp_path, "l.yaml", text, HashKind.HASHED_URI)
    expected = {
        hash_uri(f"{scheme}://h.example/{rest}", HashKey("x-sha256", "n", query="?" in rest, fragment=False))
        for scheme in ("http", "https")
        for rest in ("page", "find?q=x")
    }
    assert {rule.pattern for rule in hidden.rules} == expected
    assert [problem.line for problem in hidden.warnings] == [4, 5]


def test_an_index_page_is_named_since_its_hashed_uri_is_that_of_its_folder(tmp_path: Path) -> None:
    text = "rules:\n- h.example/a/index.html\n- h.example/b/index.htm?q\n- h.example/xindex.htm\n"
    hidden = hidden_of(tmp_path, "l.yaml", text, HashKind.HASHED_URI)
    assert [(problem.line, problem.what, problem.why) for problem in hidden.warnings] == [
        (2, "h.example/a/index.html", "its hashed URI for http fits the folder's own page, too (the first of 2)")
    ]
    engine = engine_of(as_yaml(hidden, ListHead()))
    assert engine.decide_url(b"http://h.example/a/").action is Action.BLOCK
    assert engine.decide_url(b"https://h.example/a/").action is Action.PASS


# -- prefixes ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**9))
def test_the_default_length_is_the_shortest_with_less_than_one_false_positive(number: int) -> None:
    length = default_prefix_length(number)
    assert false_positives(number, length, MOST) < 1
    assert length == 4 or false_positives(number, length - 1, MOST) >= 1


def test_prefixes_have_the_default_length_and_exceptions_are_full(tmp_path: Path) -> None:
    lines = [f"||{number}.example^" for number in range(144)]
    hidden = hidden_of(tmp_path, "a.adblock", "\n".join(["@@||fine.example^", *lines]), HashKind.PREFIX)
    assert hidden.prefix_length == 5
    lengths = {
        rule.terms.action: len(rule.pattern.value) for rule in hidden.rules if isinstance(rule.pattern, ExpressionHash)
    }
    assert lengths == {Action.ALLOW: 32, Action.BLOCK: 5}
    hidden = hidden_of(tmp_path, "a.adblock", "\n".join(lines[1:]), HashKind.PREFIX)
    assert hidden.prefix_length == 4
    assert hidden_of(tmp_path, "a.adblock", lines[0], HashKind.PREFIX, prefix_length=7).prefix_length == 7


def test_what_a_badfilter_takes_back_is_not_hidden(tmp_path: Path) -> None:
    lines = ("||a.example^", "||b.example^", "@@||c.example^", "||c.example^", "||a.example^$badfilter",
             "@@||c.example^$badfilter", "||b.example^$badfilter,important", "@@||d.example^$badfilter")  # fmt: skip
    hidden = hidden_of(tmp_path, "a.adblock", "\n".join(lines))
    assert {(rule.terms.action, rule.plaintext) for rule in hidden.rules} == {
        (Action.BLOCK, b"b.example/"), (Action.BLOCK, b"c.example/")
    }  # fmt: skip


# -- broad rules -------------------------------------------------------------------------------------------------------


def test_public_suffixes_and_popular_domains_are_named_with_their_lines(tmp_path: Path) -> None:
    text = "0 fine.example\n0 co.uk\n0 popular.example\n0 x.popular.example\n"
    hidden = hidden_of(tmp_path, "a.hosts", text, popular=(b"www.popular.example",))
    assert [(problem.line, problem.what) for problem in hidden.broad] == [(2, "co.uk/"), (3, "popular.example/")]
    assert "public suffix" in hidden.broad[0].why
    assert "number 1 of the popular domains" in hidden.broad[1].why
    allowed = hidden_of(tmp_path, "l.yaml", "{action: allow, rules: [popular.example]}", popular=(b"popular.example",))
    assert allowed.broad == []


# -- a list that is hidden decides as the list -------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "c", "example"])
HOSTS = st.lists(LABELS, min_size=2, max_size=5).map(".".join)
PATHS = st.lists(st.sampled_from(["x", "y", "z"]), max_size=3).map(lambda names: "".join(f"/{name}" for name in names))
RULES = st.builds(
    lambda host, path, end, action: {"expression": host + path + (end if path else "/"), "action": action},
    HOSTS,
    PATHS,
    st.sampled_from(["", "/", "?q"]),
    st.sampled_from(["block", "allow", "warn", "tag"]),
)
URLS = st.builds(
    lambda below, host, path, end: f"http://{below}{host}{path or '/'}{end}",
    st.sampled_from(["", "www.", "a.b."]),
    HOSTS,
    PATHS,
    st.sampled_from(["", "?q", "?r"]),
)


@pytest.mark.slow
@given(st.lists(RULES, min_size=1, max_size=8), st.lists(URLS, min_size=1, max_size=8))
def test_a_hidden_list_decides_as_the_list_in_the_clear(
    tmp_path_factory: pytest.TempPathFactory, rules: list[dict[str, str]], urls: list[str]
) -> None:
    clear = json.dumps({"rules": rules})
    hidden = hidden_of(tmp_path_factory.getbasetemp(), "clear.yaml", clear)
    before, after = engine_of(clear), engine_of(as_yaml(hidden, ListHead()))
    assert hidden.warnings == []
    for url in urls:
        assert before.decide_url(url.encode()).action is after.decide_url(url.encode()).action
