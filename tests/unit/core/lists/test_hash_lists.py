"""Plain lists of hashed URIs."""

from functools import partial

import pytest

from hushlist.core.lists.hash_lists import read_hashed_uris
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.rule import Action
from support.readings import read_list

SHA1 = f"hashed:sha1={'0' * 40}"


read = partial(read_list, read_hashed_uris, source="lists/x.hashed")


def test_one_a_line_with_comments() -> None:
    text = f"# all\r\n\r\n{SHA1} # why\r\n  HASHED:MD5={'A' * 32}+Query\r\n"
    rules, errors, warnings = read(b"\xef\xbb\xbf" + text.encode())
    assert [(str(rule.pattern), rule.line) for rule in rules] == [(SHA1, 3), (f"hashed:md5={'a' * 32}+query", 4)]
    assert {(rule.terms.list, rule.terms.source, rule.terms.action) for rule in rules} == {
        ("x", "lists/x.hashed", Action.BLOCK)
    }
    assert errors == warnings == []


def test_defaults_hold_for_every_rule() -> None:
    defaults = ListDefaults(name="Mine", action=Action.ALLOW, category="hrn://c.example/x", reason="why", variant="p")
    ((rule,), _, _) = read(SHA1.encode(), defaults)
    assert (rule.terms.list, rule.terms.action, rule.terms.category, rule.terms.reason) == (
        "Mine",
        Action.ALLOW,
        "hrn://c.example/x",
        "why",
    )
    assert rule.pattern.key.variant == "p"  # type: ignore[union-attr]


def test_every_bad_line_is_reported_at_once() -> None:
    text = f"{SHA1}\nads.example\n{SHA1}0\nhashed:sha1={'0' * 39}g\n{SHA1}+fragment\nx\xff".encode("latin-1")
    rules, errors, _ = read(text)
    assert len(rules) == 1
    assert errors == [
        "lists/x.hashed:2: ads.example: a hashed URI begins with 'hashed:' (at character 1)",
        f"lists/x.hashed:3: {SHA1}0: sha1 has 40 hexadecimal digits, not 41 (at character 54)",
        f"lists/x.hashed:4: hashed:sha1={'0' * 39}g: expected '+frag', '+query' or the end (at character 52)",
        f"lists/x.hashed:5: {SHA1}+fragment: expected '+frag', '+query' or the end (at character 53)",
        "lists/x.hashed:6: b'\\xff': not UTF-8 (at octet 1)",
    ]


@pytest.mark.parametrize(
    ("line", "why", "count"),
    [
        ("hashed:sha256=00", "skipped: unknown algorithm 'sha256' (known: md5, sha1, x-sha256)", 0),
        (f"{SHA1}+frag", "a proxy never sees a fragment: '+frag' can match only where a source keeps them", 1),
    ],
)
def test_warnings_name_their_line(line: str, why: str, count: int) -> None:
    rules, errors, warnings = read(b"#\n" + line.encode())
    assert len(rules) == count
    assert errors == []
    assert warnings == [f"lists/x.hashed:2: {line}: {why}"]
