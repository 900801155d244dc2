"""Lists with a url in a policy."""

from pathlib import Path

import pytest

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.subscriptions.minisign import PublicKey
from hushlist.extensions.subscriptions.subscription import SubscribedList
from support.policies import read_whole
from unit.rows import each_row

URL = "https://lists.example/ads.hosts"
HTTP = URL.replace("https", "http")
KEY = PublicKey.parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")


@pytest.fixture(autouse=True)
def _no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(folder: Path, entry: str) -> tuple[tuple[SubscribedList, ...], list[str]]:
    """The lists that are fetched, and the errors."""
    policy, errors = read_whole(folder, f"layers:\n- name: lists\n  lists:\n  - {{{entry}}}\n")
    return policy.subscribed, errors


def test_a_list_may_have_all_that_a_file_has(tmp_path: Path) -> None:
    (own,), errors = read(
        tmp_path, f"url: '{URL}', every: 1d12h, optional: true, title: Ads, category: 'hrn://a.example'"
    )
    assert errors == []
    assert (own.form, own.defaults.title, own.defaults.layer, own.subscription.every) == (
        "hosts",
        "Ads",
        "lists",
        129600,
    )
    assert (own.subscription.url, own.subscription.signature) == (URL, f"{URL}.minisig")


def test_without_a_copy_it_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    _, errors = read(tmp_path, f"url: '{URL}'")
    policy = tmp_path / "policy.yaml"
    assert errors == [f"4: {URL}: there is no copy of it yet: run 'hushlist update --policy {policy}'"]
    with pytest.raises(PolicyError) as raised:
        compile_policy(policy)
    assert any(path.name == "versions.json" for path in raised.value.files)  # so that the proxy sees its first copy


@each_row(
    ("entry", "error"),
    [
        ("url: 'ftp://a.example/l'", "url: ftp://a.example/l: expected an address with https:// or http://"),
        ("url: ads.hosts", "url: ads.hosts: expected an address with https://"),
        ("url: 'https://'", "url: https://: expected an address"),
        ("url: 'https:///x'", "url: https:///x: it names no host and port"),
        ("url: 'https://a.example:x/'", "it names no host and port"),
        ("url: 'https://a.example:99999/'", "it names no host and port"),
        ("url: 'https://a.example/ b'", "expected an address"),
        ("url: 'https://bücher.example/'", "expected an address with https:// or http://, as a browser sends it"),
        ("url: 'https://me:pw@a.example/'", "a name and a password in an address would be shown"),
        ("url: 'https://a.example/#x'", "what is behind # is never sent"),
        (f"url: '{HTTP}'", "over http, anybody on the way can change it: use https, or give its sha256 or the key"),
        (f"url: '{URL}', every: 14m", "every: 14m: expected a time from 15m to 30d, such as 12h or 1d12h"),
        (f"url: '{URL}', every: 31d", "every: 31d: expected a time"),
        (f"url: '{URL}', every: daily", "every: daily: expected a time"),
        (f"url: '{URL}', every: ''", "every: expected text, not nothing"),
        (f"url: '{URL}', sha256: abc", "sha256: abc: expected 64 hexadecimal digits"),
        (f"url: '{URL}', key: RWz{'A' * 53}", "it is a public key of an unknown kind"),
        (f"url: '{URL}', key: none.pub", "none.pub: there is no such file"),
        (f"url: '{URL}', key: policy.yaml", "key: policy.yaml: it is no public key of minisign"),
        (f"url: '{URL}', signature: 'https://a.example/s'", "signature: without a key, nothing is verified"),
        (f"url: '{URL}', key: {KEY.line}, signature: list.minisig", "signature: list.minisig: expected an address"),
        (f"url: '{URL}', optional: maybe", "optional: maybe: expected one of true, false"),
        (f"url: '{URL}', format: squidguard", "the format squidguard is for folders, and a folder cannot be fetched"),
        (f"url: '{URL}', file: ads.hosts", "file: a list has a file, or a url and how it is fetched"),
        ("file: policy.yaml, every: 1h", "every: a list has a file, or a url and how it is fetched"),
        ("every: 1h", "list: it names no file and no url"),
        ("url: ''", "url: expected text, not nothing"),
    ],
)
def test_what_cannot_be_is_an_error_with_its_line(tmp_path: Path, entry: str, error: str) -> None:
    _, errors = read(tmp_path, f"{entry}, optional: true" if "optional" not in entry and "url: '" in entry else entry)
    assert any(text.startswith("4: ") and error in text for text in errors), errors


@pytest.mark.parametrize("more", [f"sha256: {'0A' * 32}", f"key: {KEY.line}", "key: list.pub"])
def test_http_will_do_where_something_else_proves_the_content(tmp_path: Path, more: str) -> None:
    (tmp_path / "list.pub").write_text(KEY.text)
    (own,), errors = read(tmp_path, f"url: '{HTTP}', optional: true, {more}")
    assert errors == []
    assert own.subscription.sha256 == ("0a" * 32 if "sha256" in more else None)
    assert own.subscription.key == (KEY if "key" in more else None)
    assert (tmp_path / "list.pub" in read_files(tmp_path)) is ("list.pub" in more)


def read_files(folder: Path) -> set[Path]:
    policy = read_policy(folder / "policy.yaml", ProblemReport("policy.yaml"))
    return set(policy.files) if policy else set()


def test_copies_are_told_apart_by_policy_address_and_proof(tmp_path: Path) -> None:
    entries = [
        f"url: '{URL}'",
        f"url: '{URL}?2'",
        f"url: '{URL}', key: {KEY.line}",
        f"url: '{URL}', sha256: {'00' * 32}",
    ]
    folders = {own.store.folder for entry in entries for own in read(tmp_path, f"{entry}, optional: true")[0]}
    assert len(folders) == 4
    (tmp_path / "other").mkdir()
    (own,), _ = read(tmp_path / "other", f"{entries[0]}, optional: true")
    assert own.store.folder not in folders
