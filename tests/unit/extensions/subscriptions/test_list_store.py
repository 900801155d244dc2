"""The copies of lists: what is in force, also after a kill, on a full disk, and where two processes are at it."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from hushlist.extensions.subscriptions import list_store
from hushlist.extensions.subscriptions.list_store import ListState, ListStore, forget_others, lists_folder

URL = "https://lists.example/ads.txt"
OLD, NEW, OTHER = b"old.example\n", b"new.example\n", b"other.example\n"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(tmp_path: Path, cache: Path) -> ListStore:
    return ListStore(tmp_path / "policy.yaml", URL, cache)


def use(store: ListStore, octets: bytes) -> None:
    with store.locked():
        store.use(store.keep(octets))


def in_force(store: ListStore) -> bytes | None:
    version = store.current()
    return None if version is None else version.path.read_bytes()


def test_the_last_versions_stay_and_the_newest_is_in_force(store: ListStore) -> None:
    assert store.versions() == ()
    assert store.current() is None
    for octets in (b"1", b"2", b"3", b"4"):
        use(store, octets)
    assert [version.path.read_bytes() for version in store.versions()] == [b"4", b"3", b"2"]
    use(store, b"3")
    assert [version.path.read_bytes() for version in store.versions()] == [b"3", b"4", b"2"]
    names = {entry.name for entry in store.folder.iterdir()}
    lists = {sha256(own).hexdigest() + ".list" for own in (b"2", b"3", b"4")}
    assert names == {*lists, "versions.json", "lock"}  # no state: nothing is known but what is as new


def test_copies_are_private(store: ListStore, cache: Path) -> None:
    before = os.umask(0)
    try:
        use(store, OLD)
    finally:
        os.umask(before)
    for entry in cache.rglob("*"):
        assert entry.stat().st_mode & 0o077 == 0, entry


def test_what_is_held_back_waits_for_a_person(store: ListStore) -> None:
    use(store, OLD)
    with store.locked():
        store.hold_back(store.keep(OTHER), ["first"])
        store.hold_back(store.keep(NEW), ["it loses rules"])
        held = store.held()
        assert held is not None
        assert held.read_bytes() == NEW
        assert (in_force(store), store.state().reasons) == (OLD, ("it loses rules",))
        assert len(list(store.folder.glob("*.list"))) == 2
        version = store.accept()
        assert version is not None
        assert version.path == held
        assert store.accept() is None
    assert (in_force(store), store.held(), store.state().reasons) == (NEW, None, ())
    assert store.state().accepted == sha256(NEW).hexdigest()


def test_rolled_back_is_held_back_until_it_is_accepted(store: ListStore) -> None:
    use(store, OLD)
    with store.locked():
        assert store.roll_back() is None
        store.use(store.keep(NEW))
        back = store.roll_back()
    assert back is not None
    assert (in_force(store), store.state().reasons) == (OLD, ("a person has rolled it back",))
    with store.locked():
        store.accept()
    assert in_force(store) == NEW


@pytest.mark.parametrize("octets", [b"", b"[", b"{}", b'{"held": 7, "faults": "x", "etag": null}', b"[" * 40_000, b"7"])
def test_a_broken_state_is_as_new_and_decides_nothing(store: ListStore, octets: bytes) -> None:
    use(store, OLD)
    (store.folder / "state.json").write_bytes(octets)
    assert store.state() == ListState()
    assert in_force(store) == OLD
    use(store, NEW)
    assert in_force(store) == NEW


@pytest.mark.posix
def test_copies_that_others_could_write_are_not_used(store: ListStore, cache: Path) -> None:
    use(store, OLD)
    cache.chmod(0o777)
    assert store.versions() == ()
    with pytest.raises(PermissionError, match="other users can write there"), store.locked():
        pass


def test_one_process_changes_a_list_at_a_time(store: ListStore) -> None:
    with store.locked(), pytest.raises(BlockingIOError, match="another process is at it"), store.locked(0):
        pass
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with store.locked():
            os.write(write, b".")
            time.sleep(60)
    os.read(read, 1)
    with pytest.raises(BlockingIOError), store.locked(0):
        pass
    os.kill(child, 9)  # which ends its lock
    os.waitpid(child, 0)
    use(store, OLD)
    assert in_force(store) == OLD


def _accept(store: ListStore) -> None:
    store.hold_back(store.keep(NEW), ["why"])
    store.accept()


def _roll_back(store: ListStore) -> None:
    store.use(store.keep(NEW))
    store.roll_back()


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda store: store.use(store.keep(NEW)), _accept, _roll_back])
def test_a_kill_at_any_step_leaves_a_whole_version_in_force(
    store: ListStore, cache: Path, tmp_path: Path, change: Callable[[ListStore], None]
) -> None:
    """Each operation on a file is an audit event, before which a copy is made of what a kill would leave."""
    use(store, OTHER)
    use(store, OLD)
    if (child := os.fork()) == 0:
        steps, is_copying = count(), False

        def hook(event: str, _: object) -> None:
            nonlocal is_copying
            if not is_copying and event in ("open", "os.rename", "os.remove", "os.scandir", "os.mkdir"):
                is_copying = True
                shutil.copytree(cache, tmp_path / f"step{next(steps)}")
                is_copying = False

        try:
            sys.addaudithook(hook)
            with store.locked():
                change(store)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    left = [ListStore(tmp_path / "policy.yaml", URL, folder) for folder in tmp_path.glob("step*")]
    assert len(left) > 8
    assert {in_force(own) for own in left} == {OLD, NEW}
    for own in left:
        for version in own.versions():
            assert sha256(version.path.read_bytes()).hexdigest() == version.digest
        use(own, OTHER)  # and the next one goes on
        assert in_force(own) == OTHER
        assert not list(own.folder.glob("draft*"))


@pytest.mark.posix
def test_a_full_disk_changes_nothing(store: ListStore) -> None:
    import resource

    use(store, OLD)
    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        sys.excepthook = lambda *_: None
        try:
            use(store, b"x" * 100_000)
        except OSError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert in_force(store) == OLD
    assert not list(store.folder.glob("draft*"))


def test_copies_that_no_list_needs_any_longer_are_forgotten_after_a_month(
    store: ListStore, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    gone = ListStore(policy, "gone", cache)
    for own in (store, gone):
        use(own, OLD)
    (lists_folder(policy, cache) / "mine").mkdir()
    forget_others(policy, [store], cache)
    assert in_force(gone) == OLD
    now = time.time()
    monkeypatch.setattr(list_store.time, "time", lambda: now + 31 * 86400)
    forget_others(policy, [store], cache)
    assert in_force(store) == OLD
    assert not gone.folder.exists()
    assert (lists_folder(policy, cache) / "mine").is_dir()
    forget_others(tmp_path / "no.yaml", [], cache)


def test_copies_of_a_policy_that_is_gone_are_forgotten_after_a_month(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each version of a policy has a folder of its own, its copies would fill the disk with the years."""
    policies = [tmp_path / f"{name}.yaml" for name in ("one", "two", "of-an-older-hushlist")]
    for policy in policies:
        policy.touch()
        own = ListStore(policy, "ads", cache)
        use(own, OLD)
        forget_others(policy, [own], cache)
    (lists_folder(policies[2], cache) / "policy").unlink()
    for policy in policies[1:]:
        policy.unlink()
    forget_others(policies[0], [ListStore(policies[0], "ads", cache)], cache)
    assert all(lists_folder(policy, cache).exists() for policy in policies)
    now = time.time()
    monkeypatch.setattr(list_store.time, "time", lambda: now + 31 * 86400)
    forget_others(policies[0], [ListStore(policies[0], "ads", cache)], cache)
    assert [lists_folder(policy, cache).exists() for policy in policies] == [True, False, True]
