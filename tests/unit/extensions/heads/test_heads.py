"""Rules for heads: how they are read, what fits, and what requests and answers get."""

from __future__ import annotations

from pathlib import Path

from hushlist.extensions.heads.head_rules import HeadRule, why_decrypt
from support.policies import read_whole
from unit.rows import each_row


def rules_of(folder: Path, heads: str) -> tuple[tuple[HeadRule, ...], list[str]]:
    policy, errors = read_whole(folder, f"heads: {heads}\nlayers: []\n")
    return policy.all_groups[-1].settings.of("heads"), errors


@each_row(
    ("heads", "error"),
    [
        ("[{sites: a.example}]", "a rule needs one of block, remove, set, add"),
        ("[{remove: [Content-Length]}]", "expected the name of a field that does not say"),
        ("[{remove: [Transfer_Encoding]}]", "expected the name of a field that does not say"),
        ("[{remove: ['a b']}]", "expected the name of a field that does not say"),
        ("[{set: {Host: b.example}}]", "expected the name of a field that does not say"),
        ("[{set: {X-Original-URL: /b}}]", "expected the name of a field that does not say"),
        ('[{set: {X-A: "a\\r\\nb: c"}}]', "expected ASCII, without line ends"),
        ("[{add: [X-A]}]", "expected a mapping"),
        ("[{status: 600, block: true}]", "expected a status such as 404 or 4xx"),
        ("[{types: html, block: true}]", "expected a media type"),
        ("[{block: false}]", "expected true"),
        ("[{block: true, remove: [X-A]}]", "what is blocked has no head to change"),
        ("[{for: request, block: true}]", "only an answer has it"),
        ("[{for: request, add: {X-A: b}}]", "only an answer has it"),
        ("[{sites: ['a b'], block: true}]", "expected expressions"),
    ],
)
def test_a_mistake_has_its_line_and_reason(tmp_path: Path, heads: str, error: str) -> None:
    _, errors = rules_of(tmp_path, heads)
    assert any(error in told for told in errors)


@each_row(
    ("heads", "fits"),
    [
        ("[{block: true}]", True),
        ("[{status: 404, block: true}]", True),
        ("[{status: [200, 4xx], block: true}]", True),
        ("[{status: 403, block: true}]", False),
        ("[{types: text/*, block: true}]", True),
        ("[{types: text/html, block: true}]", True),
        ("[{types: image/*, block: true}]", False),
        ("[{has: Set_Cookie, block: true}]", True),
        ("[{has: X-A, block: true}]", False),
    ],
)
def test_an_answer_fits_by_all_that_its_head_says(tmp_path: Path, heads: str, fits: bool) -> None:
    (rule,), errors = rules_of(tmp_path, heads)
    assert errors == []
    assert rule.fits_answer(404, ["text/plain", "text/html"], [(b"Set_Cookie", b"a=b")]) is fits


def test_hosts_of_rules_are_decrypted(tmp_path: Path) -> None:
    policy, _ = read_whole(tmp_path, "heads: [{sites: a.example/live, remove: [Cookie], for: request}]\nlayers: []\n")
    settings = policy.all_groups[-1].settings
    said = [why_decrypt(host, settings) for host in (b"w.a.example", b"a.example", b"b.example")]
    assert said == ["header fields are changed of"] * 2 + [None]
