"""Names that mix scripts, as a policy's check finds them."""

from pathlib import Path

import pytest
from hypothesis import given

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.match.checks import CheckedRequest
from hushlist.core.match.rule import Action
from hushlist.core.url.request import Request
from hushlist.extensions.lookalikes.mixed_scripts import find_mixed_scripts
from support.policies import read_whole, write_policy
from unit.hostile import octets
from unit.rows import each_row

POLICY = "layers:\n- name: checks\n  checks: {mixed-scripts: block}\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    compiled = compile_policy(write_policy(tmp_path_factory.mktemp("mixed"), POLICY))
    return Engine(compiled.policy, compiled.index)


def evidence(host: str) -> bytes | None:
    return find_mixed_scripts(CheckedRequest(b"https", host.encode(), 443, b"/", None))


@each_row(
    ("host", "scripts"),
    [
        ("pаypal.example", "Cyrillic and Latin"),
        ("www.xn--pypal-4ve.example", "Cyrillic and Latin"),
        ("gοοgle.example", "Greek and Latin"),
        ("shop.аpple.example", "Cyrillic and Latin"),
        ("россияjapan.example", "Cyrillic and Latin"),
        ("1xbet-россия.example", "Cyrillic and Latin"),
        ("日本россия.example", "Cjk and Cyrillic"),
        ("한국日本の.example", "Cjk and Hangul and Hiragana"),
        ("ﬁсbank.example", "Cyrillic and Latin"),
        ("xn--pypal%2d4ve.example", "Cyrillic and Latin"),
    ],
)
def test_a_label_of_several_scripts_is_found(host: str, scripts: str) -> None:
    found = evidence(host)
    assert found is not None
    assert found.decode().endswith(f": {scripts})")
    assert found.startswith(b"xn--")


@each_row(
    "host",
    [
        *("bücher.example", "россия.рф", "россия.example", "example.com", "пример.испытание", "ελλάδα.gr"),
        *("日本語.jp", "日本のテレビ.example", "abcの日本.example", "テスト2.example", "サーバー.example"),
        *("한국abc.kr", "台灣ㄅㄆ.tw", "भारत.example", "مثال.example", "naïve-1.example", "xn--a.example"),
        *("xn--.example", "ª.example", "192.0.2.1", "[::1]", "a%00b", ""),
    ],
)
def test_what_a_language_writes_passes(host: str) -> None:
    assert evidence(host) is None


def test_a_policy_blocks_requests_and_connections_and_shows_both_spellings(engine: Engine) -> None:
    decision = engine.decide_url("https://pаypal.example/".encode())
    assert decision.action is Action.BLOCK
    assert "xn--pypal-4ve (pаypal: Cyrillic and Latin) by checks" in str(decision)
    assert decision.winner is not None
    assert str(decision.winner.rule.pattern) == "check:mixed-scripts"
    asked = [Request(b"https", (host,), 443, b"/") for host in (b"xn--pypal-4ve.example", b"xn--bcher-kva.example")]
    for decide in (engine.decide, engine.decide_host):
        assert [decide(own).action for own in asked] == [Action.BLOCK, Action.PASS]
    assert engine.why_decrypt(asked[1]) is None


def test_a_check_of_an_extension_that_is_left_out_is_unknown(tmp_path: Path) -> None:
    _, errors = read_whole(tmp_path, f"extensions: [formats]\n{POLICY}")
    assert [error.partition(" (known")[0] for error in errors] == ["4: mixed-scripts: unknown check"]


@given(octets())
def test_no_host_fails(host: bytes) -> None:
    find_mixed_scripts(CheckedRequest(b"https", host, 443, b"/", None))
