"""Names that look like protected ones, and names that are new, as a policy's checks find them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.match.checks import CheckedRequest, Hint
from hushlist.core.match.seal import SealKey
from hushlist.extensions.lookalikes.looks_like import MOST_SPELLINGS, ProtectedNames, find_look_alike, slips, spellings
from support.policies import read_whole, write_policy
from unit.hostile import octets
from unit.rows import each_row

NAMES = (b"paypal.com", b"sparkasse.de", b"modern.example", b"o2.de", "россия.рф".encode("idna"))
KEY = SealKey(bytes(range(32)))
PLAIN = ProtectedNames(NAMES)
HASHED = ProtectedNames((), [sha256(name + b"/").digest() for name in NAMES])
SEALED = ProtectedNames((), [KEY.sealer()(name + b"/") for name in NAMES], KEY.sealer())


def evidence(host: str, names: ProtectedNames = PLAIN) -> str | None:
    found = find_look_alike(CheckedRequest(b"https", host.encode(), 443, b"/", None), names)
    return None if found is None else found.decode()


@each_row(
    ("host", "shown"),
    [
        ("pаypal.com", "xn--pypal-4ve.com (pаypal) looks like paypal.com"),
        ("www.раура1.com", "looks like paypal.com"),
        ("paypa1.com", "paypa1.com looks like paypal.com"),
        ("login.paypa1.net", "paypa1.net looks like paypal.com"),
        ("paypai.com", "looks like paypal.com"),
        ("páypal.com", "looks like paypal.com"),
        ("paypall.com", "looks like paypal.com"),
        ("papyal.com", "looks like paypal.com"),
        ("paypsl.com", "looks like paypal.com"),
        ("sparkase.de", "looks like sparkasse.de"),
        ("5parka5se.de", "looks like sparkasse.de"),
        ("spаrkаsse.de", "looks like sparkasse.de"),
        ("rnodern.example", "looks like modern.example"),
        ("02.de", "looks like o2.de"),
    ],
)
def test_a_name_that_looks_like_a_protected_one_is_found_whether_that_is_told_or_not(host: str, shown: str) -> None:
    for names in (PLAIN, HASHED, SEALED):
        found = evidence(host, names)
        assert found is not None
        assert shown in found


@each_row(
    "host",
    [
        *(
            "paypal.com",
            "www.paypal.com",
            "a.b.paypal.com",
            "россия.рф",
            "bücher.example",
            "o2-shop.de",
            "pay-pal.de",
            "rnost.net",
        ),
        *("paypal.net", "a-b-c-d-e-f-g-h-paypal.com", "raypal.com", "p1.de", "192.0.2.1", "[::1]", "com", "", "a%00b"),
    ],
)
def test_others_pass(host: str) -> None:
    assert [evidence(host, names) for names in (PLAIN, HASHED, SEALED)] == [None] * 3


@each_row(
    ("host", "name"),
    [
        ("www.sparkasse-login.de", "sparkasse.de"),
        ("my-paypal.com", "paypal.com"),
        ("my-paypa1-login.com", "paypal.com"),
        ("secure-modern.example", "modern.example"),
        ("login-pаypal.com", "paypal.com"),
    ],
)
def test_a_name_with_added_words_is_a_hint(host: str, name: str) -> None:
    for names in (PLAIN, HASHED, SEALED):
        found = find_look_alike(CheckedRequest(b"https", host.encode(), 443, b"/", None), names)
        assert isinstance(found, Hint)
        assert f" has words beside {name}" in found.decode()


def test_the_ending_does_not_count_where_the_names_are_told() -> None:
    assert "sparkasse-login.example has words beside sparkasse.de" in str(evidence("sparkasse-login.example"))
    assert evidence("sparkasse-login.example", HASHED) is None


def test_letters_of_latin_look_like_a_protected_name_of_another_script() -> None:
    names = ProtectedNames(["хор.рф".encode("idna")])
    assert "looks like xn--" in str(evidence("xop.рф", names))


def test_the_work_for_a_name_is_bounded() -> None:
    label = "01234567890l" * 5
    assert len(list(spellings(label))) <= MOST_SPELLINGS
    assert len(list(slips("x" * 63))) <= 76 * 63


@given(octets())
def test_no_host_is_too_odd(host: bytes) -> None:
    find_look_alike(CheckedRequest(b"https", host, 443, b"/", None), PLAIN)


# -- in a policy -------------------------------------------------------------------------------------------------------


def engine_of(folder: Path, check: str, files: dict[str, str | bytes]) -> Engine:
    compiled = compile_policy(write_policy(folder, f"layers:\n- name: checks\n  checks:\n    {check}\n", files))
    return Engine(compiled.policy, compiled.index)


def test_a_policy_warns_with_both_spellings_by_names_and_by_a_file(tmp_path: Path) -> None:
    sealed = "# ours\n" + KEY.sealer()(b"paypal.com/").hex() + "\n"
    key = tmp_path / "seal.key"
    files: dict[str, str | bytes] = {"names.txt": "Paypal.com\n", "sealed.txt": sealed}
    write_policy(tmp_path, "layers: []", files)
    key.write_text(KEY.text, "utf-8")
    key.chmod(0o600)
    for number, given_ in enumerate(("names: [paypal.com]", "file: names.txt", "file: sealed.txt, seal: seal.key")):
        engine = engine_of(tmp_path, f"looks-like: {{action: warn, {given_}}}", {"x": str(number)})
        decision = engine.decide_url("https://pаypal.com/login".encode())
        assert decision.action.value == "warn"
        assert "xn--pypal-4ve.com (pаypal) looks like paypal.com" in str(decision)
        assert engine.decide_url(b"https://paypal.com/").action.value == "pass"
        hinted = engine.decide_url(b"https://paypal-login.com/")
        assert (hinted.action.value, "paypal-login.com has words beside paypal.com" in str(hinted)) == ("tag", True)


def test_a_name_is_new_for_as_long_as_the_policy_says(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    files: dict[str, str | bytes] = {"new.csv": f"# feed\nfresh.example,{today}\nold.example\t{today - timedelta(8)}\n"}
    engine = engine_of(tmp_path, "new-name: {action: block, file: new.csv, days: 7}", files)
    said = {
        host: engine.decide_url(f"https://{host}/".encode()).action.value
        for host in ("www.fresh.example", "old.example", "unknown.example")
    }
    assert said == {"www.fresh.example": "block", "old.example": "pass", "unknown.example": "pass"}


@each_row(
    ("check", "why"),
    [
        ("looks-like: {action: warn, names: [nonsense]}", "expected the name of a site"),
        ("looks-like: {action: warn, file: bad.txt}", "bad.txt:1: neither the name of a site nor a SHA-256"),
        ("looks-like: {action: warn, file: none.txt}", "there is no such file"),
        ("new-name: {action: warn}", "file"),
        ("new-name: {action: warn, file: bad.txt}", "bad.txt:1: expected a name and its date"),
        ("mixed-scripts: warn", "expected"),
    ],
)
def test_what_cannot_be_used_is_an_error(tmp_path_factory: pytest.TempPathFactory, check: str, why: str) -> None:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "bad.txt").write_text("no name at all\n", "utf-8")
    _, errors = read_whole(folder, f"layers:\n- name: checks\n  checks:\n    {check}\n")
    assert len(errors) == 1
    assert why in errors[0]
