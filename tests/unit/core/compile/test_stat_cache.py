"""A policy of which nothing has changed is opened without reading its lists; any change is seen."""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.compile import policy_compiler, stat_cache
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.stat_cache import SETTLED, load_policy
from hushlist.core.lists import yaml_documents
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.index import Index
from hushlist.core.match.rule import Action
from hushlist.extensions.subscriptions.list_store import store_of_file

pytestmark = pytest.mark.posix


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexCache:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stat_cache, "SETTLED", -(10**18))  # nothing has changed just now
    return IndexCache()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "layers: [{name: lists, lists: [{file: a.domains, format: domains}, {file: folder, format: squidguard}]}]\n"
    )
    (tmp_path / "a.domains").write_text("a.example\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "domains").write_text("b.example\n")
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The policies that the lists were read for."""
    calls: list[object] = []
    compile_policy = policy_compiler.compile_policy

    def counted(source: Path, **options: Any) -> policy_compiler.Compiled:
        calls.append(source)
        return compile_policy(source, **options)

    monkeypatch.setattr(policy_compiler, "compile_policy", counted)
    return calls


def names(index: Index) -> set[str]:
    hosts = [b"a.example", b"b.example", b"c.example"]
    return {host.decode() for host in hosts if index.on_host(host).matches}


def _same_length_and_time(policy: Path) -> None:
    path = policy.parent / "a.domains"
    stat = path.stat()
    path.write_text("c.example\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _moved_in_place(policy: Path) -> None:
    (policy.parent / "new").write_text("c.example\n")
    (policy.parent / "new").replace(policy.parent / "a.domains")


def _another_file(policy: Path) -> None:
    (policy.parent / "folder" / "urls").write_text("c.example\n")


def _policy(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("a.domains", "folder/domains"))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_same_length_and_time, {"b.example", "c.example"}),
        (_moved_in_place, {"b.example", "c.example"}),
        (_another_file, {"a.example", "b.example", "c.example"}),
        (_policy, {"b.example"}),
    ],
)
def test_any_change_is_seen(
    policy: Path, compiled: list[object], change: Callable[[Path], None], found: set[str]
) -> None:
    load_policy(policy)
    time.sleep(0.02)  # longer than a tick
    change(policy)
    assert names(load_policy(policy)[1]) == found
    assert len(compiled) == 2


def test_what_is_held_back_is_remembered_until_it_is_accepted(
    policy: Path, compiled: list[object], cache: IndexCache
) -> None:
    load_policy(policy)
    time.sleep(0.02)
    (policy.parent / "a.domains").write_text("Too many requests\n")
    first, _ = load_policy(policy)
    again, index = load_policy(policy)
    assert len(compiled) == 2
    assert (again, names(index)) == (first, {"a.example", "b.example"})
    assert [*again.held] == [policy.parent / "a.domains"]
    store = store_of_file(Path(again.source), policy.parent / "a.domains")
    with store.locked():
        assert store.accept()
    accepted, index = load_policy(policy)
    assert (accepted.held, names(index), len(compiled)) == ({}, {"b.example"}, 3)


def _shorter(cache: IndexCache, index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-1])


def _corrupted(cache: IndexCache, index: Path) -> None:
    octets = bytearray(index.read_bytes())
    octets[len(octets) // 2] ^= 1
    index.write_bytes(octets)


def _gone(cache: IndexCache, index: Path) -> None:
    index.unlink()


def _no_record(cache: IndexCache, index: Path) -> None:
    for record in cache.folder.glob("*.stat"):
        record.write_text("[1")


def _damaged_record(cache: IndexCache, index: Path) -> None:
    """One letter of what it has of the policy file, as a disk may have it changed."""
    for record in cache.folder.glob("*.stat"):
        record.write_text(record.read_text().replace('"a.domains"', '"a.domainz"'))


def _deep_record(cache: IndexCache, index: Path) -> None:
    for record in cache.folder.glob("*.stat"):
        record.write_text("[" * 100_000)


def _old_record(cache: IndexCache, index: Path) -> None:
    for record in cache.folder.glob("*.stat"):
        os.utime(record, (time.time() - 90_000,) * 2)


@pytest.mark.parametrize(
    "change", [_shorter, _corrupted, _gone, _no_record, _damaged_record, _deep_record, _old_record]
)
def test_an_index_or_a_record_that_is_not_as_it_was_is_not_used(
    policy: Path, compiled: list[object], cache: IndexCache, change: Callable[[IndexCache, Path], None]
) -> None:
    index = Path(load_policy(policy)[1].source)
    time.sleep(0.02)
    change(cache, index)
    assert names(load_policy(policy)[1]) == {"a.example", "b.example"}
    assert len(compiled) == 2


def test_nothing_is_recorded_of_files_that_changed_just_now(
    policy: Path, compiled: list[object], cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stat_cache, "SETTLED", SETTLED)
    for number in (1, 2):
        load_policy(policy)
        assert len(compiled) == number
    assert not list(cache.folder.glob("*.stat"))


def test_a_write_to_a_mapped_file_is_seen(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # until the system has written the page, no time of the file changes with it
    monkeypatch.setattr(stat_cache, "SETTLED", SETTLED)
    with (policy.parent / "a.domains").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:1] = b"a"
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() + 35 * 10**9)
        assert names(load_policy(policy)[1]) == {"a.example", "b.example"}
        mapped[:1] = b"c"
        assert names(load_policy(policy)[1]) == {"b.example", "c.example"}


def test_a_policy_file_that_changed_just_now_is_read_and_its_lists_are_not(
    policy: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_policy(policy)
    settled = time.time_ns()
    policy.write_text(policy.read_text() + "unparsable: pass\n")
    os.utime(policy, ns=(settled + 10**10,) * 2)
    monkeypatch.setattr(stat_cache, "SETTLED", -5 * 10**9)  # the policy alone is from the future
    changed, index = load_policy(policy)
    assert (changed.unparsable, names(index)) == (Action.PASS, {"a.example", "b.example"})
    assert compiled == [policy]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The documents that were parsed."""
    texts: list[bytes] = []
    read_document = yaml_documents.read_document

    def noted(octets: bytes, report: ProblemReport) -> YamlNode | None:
        texts.append(octets)
        return read_document(octets, report)

    monkeypatch.setattr(yaml_documents, "read_document", noted)
    return texts


def test_a_policy_file_that_is_recorded_is_not_parsed_again(policy: Path, parsed: list[bytes]) -> None:
    first, _ = load_policy(policy)
    parsed.clear()
    again, index = load_policy(policy)
    assert (again, names(index), parsed) == (first, {"a.example", "b.example"}, [])
    policy.write_text(policy.read_text() + "unparsable: pass\n")
    assert load_policy(policy)[0].unparsable is Action.PASS
    assert parsed == [policy.read_bytes()]


def test_what_a_disk_changed_in_a_record_is_no_policy(policy: Path, cache: IndexCache) -> None:
    policy.write_text(policy.read_text() + "default: block\n")
    first, _ = load_policy(policy)
    (record,) = cache.folder.glob("*.stat")
    assert '"block"' in record.read_text()
    record.write_text(record.read_text().replace('"block"', '"pass"'))
    assert load_policy(policy)[0] == first


def test_a_long_policy_file_is_parsed_each_time(policy: Path, parsed: list[bytes], compiled: list[object]) -> None:
    policy.write_text(policy.read_text() + "# a long remark\n" * 5000)
    for _ in range(2):
        load_policy(policy)
    parsed.clear()
    load_policy(policy)
    assert (parsed, len(compiled)) == ([policy.read_bytes()], 1)


def test_nodes_of_other_code_do_not_count(policy: Path, compiled: list[object], cache: IndexCache) -> None:
    """A record whose state is of another version of this code says nothing of what the policy is."""
    load_policy(policy)
    (record,) = cache.folder.glob("*.stat")
    key, held, documents, state, *stat = json.loads(record.read_bytes()[64:])
    (digest,) = documents
    others = {digest: [1, {"layers": [1, []], "unparsable": [1, "pass"]}]}
    for changed, expected in ((others, 2), ({digest: [1]}, 3), ([], 4)):
        octets = json.dumps((key, held, changed, state + " ", *stat)).encode()
        record.write_bytes(sha256(octets).hexdigest().encode() + octets)
        assert load_policy(policy)[0].unparsable is Action.BLOCK
        assert len(compiled) == expected
        assert json.loads(record.read_bytes()[64:])[2] == documents


def test_records_are_private_and_tidied_up(policy: Path, cache: IndexCache) -> None:
    load_policy(policy)
    (record,) = cache.folder.glob("*.stat")
    assert record.stat().st_mode & 0o777 == 0o600
    os.utime(record, (time.time() - 90_000,) * 2)
    cache.tidy()
    assert not record.exists()
    assert list(cache.folder.glob("*.index"))
