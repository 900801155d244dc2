"""The cache of indexes: where it is, what its key is made of, what stays in it."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from hushlist.core.compile import policy_compiler as compiling
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.system.files import lock_file
from hushlist.core.system.platform import is_root

HOUR = 60 * 60


@pytest.fixture
def cache(tmp_path: Path) -> IndexCache:
    return IndexCache(tmp_path / "cache")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "a.hosts").write_text("0.0.0.0 a.example\n")
    (tmp_path / "b.hosts").write_text("0.0.0.0 b.example\n")
    return write_policy(tmp_path, "a.hosts", "b.hosts")


def write_policy(folder: Path, *lists: str, layer: str = "lists") -> Path:
    path = folder / "policy.yaml"
    path.write_text(f"layers: [{{name: {layer}, lists: [{', '.join(lists)}]}}]")
    return path


def index_of(policy: Path, cache: IndexCache, popular: Path | None = None) -> Path:
    return Path(compile_policy(policy, cache=cache, popular=popular).index.source)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every index that was written."""
    built: list[Path] = []
    assemble = compiling.assemble

    def record(file: BinaryIO, *arguments: object) -> object:
        built.append(Path(file.name))
        return assemble(file, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "assemble", record)
    return built


# -- where it is -------------------------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def spoil_by_missing_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)


def spoil_by_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hushlist").write_text("a file")


def spoil_by_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assemble = compiling.assemble

    def fail(file: BinaryIO, *arguments: object) -> object:
        if tmp_path / "hushlist" in Path(file.name).parents:
            raise OSError(28, "No space left on device")
        return assemble(file, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "assemble", fail)


def spoil_by_mode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hushlist").mkdir()
    (tmp_path / "hushlist").chmod(0o777)


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is XDG's")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (spoil_by_missing_home, "Could not determine home directory."),
        (spoil_by_file, "is no folder"),
        (spoil_by_full_disk, "No space left on device"),
        pytest.param(spoil_by_mode, "other users can write there", marks=pytest.mark.posix),
    ],
)
def test_a_cache_that_cannot_be_used_is_done_without_and_that_is_a_warning(
    policy: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch, Path], None],
    why: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spoil(monkeypatch, tmp_path)
    compiled = compile_policy(policy)
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert compiled.temporary == folder
    (warning,) = (problem for problem in compiled.report.warnings if problem.what == "cache")
    assert warning.why.startswith("it cannot be used, and every start compiles anew: ")
    assert why in warning.why
    compiled.let_go()
    assert [*temporary.iterdir()] == []
    compiled.index.verify()


@pytest.mark.posix
def test_another_user_s_folder_is_not_believed(cache: IndexCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.make()
    cache.check()
    monkeypatch.setattr(os, "geteuid", lambda: cache.folder.stat().st_uid + 1)
    owner = cache.folder.stat().st_uid
    if owner == 0:  # root's own is believed by everybody
        os.chown(cache.folder, 12345, -1)
    with pytest.raises(PermissionError, match="another user"):
        cache.check()


@pytest.mark.posix
@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_folder_and_files_are_the_user_s_own(policy: Path, cache: IndexCache, mask: int) -> None:
    before = os.umask(mask)
    try:
        index = index_of(policy, cache)
    finally:
        os.umask(before)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert index.stat().st_mode & 0o777 == 0o600


# -- the key -----------------------------------------------------------------------------------------------------------


def _content(folder: Path) -> None:
    (folder / "a.hosts").write_text("0.0.0.0 c.example\n")


def _comment(folder: Path) -> None:
    (folder / "a.hosts").write_text("# why\n0.0.0.0 a.example\n")


def _path(folder: Path) -> None:
    (folder / "c.hosts").write_bytes((folder / "a.hosts").read_bytes())
    write_policy(folder, "c.hosts", "b.hosts")


def _order(folder: Path) -> None:
    write_policy(folder, "b.hosts", "a.hosts")


def _fewer(folder: Path) -> None:
    write_policy(folder, "a.hosts")


def _twice(folder: Path) -> None:
    write_policy(folder, "a.hosts", "b.hosts", "b.hosts")


def _layer(folder: Path) -> None:
    write_policy(folder, "a.hosts", "b.hosts", layer="other")


def _with(terms: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        write_policy(folder, f"{{file: a.hosts, {terms}}}", "b.hosts")

    return change


TERMS = {
    "action": "action: tag",
    "category": "category: 'hrn://c.example/ads'",
    "reason": "reason: why",
    "title": "title: Ads",
    "name": "name: 'hrn://l.example/ads'",
    "variant": "variant: p",
    "format": "format: urls",
}


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(own, id=own.__name__) for own in (_content, _comment, _path, _order, _fewer, _twice, _layer)),
        *(pytest.param(_with(terms), id=name) for name, terms in TERMS.items()),
    ],
)
def test_what_makes_another_index_is_compiled(
    policy: Path, cache: IndexCache, builds: list[Path], change: Callable[[Path], None]
) -> None:
    first = index_of(policy, cache)
    change(policy.parent)
    assert index_of(policy, cache) != first
    assert len(builds) == 2


def test_another_version_of_the_code_compiles_anew(
    policy: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch, builds: list[Path]
) -> None:
    first = index_of(policy, cache)
    monkeypatch.setattr(compiling, "_code", lambda extensions: "other code")
    assert index_of(policy, cache) != first
    assert len(builds) == 2


# -- what cannot be used -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda octets: b"", id="empty"),
        pytest.param(lambda octets: octets[:20], id="a part of the header"),
        pytest.param(lambda octets: octets[:-1], id="truncated"),
        pytest.param(lambda octets: octets + b"\0", id="longer"),
        pytest.param(lambda octets: octets[:70] + bytes((octets[70] ^ 1,)) + octets[71:], id="corrupted"),
        pytest.param(lambda octets: octets[:8] + bytes(4) + octets[12:], id="older"),
        pytest.param(lambda octets: octets[:8] + b"\xff" * 4 + octets[12:], id="newer"),
        pytest.param(lambda octets: b"no index at all" * 100, id="something else"),
    ],
)
def test_an_index_that_cannot_be_used_is_compiled_anew_silently(
    policy: Path,
    cache: IndexCache,
    builds: list[Path],
    spoil: Callable[[bytes], bytes],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = index_of(policy, cache)
    whole = index.read_bytes()
    index.write_bytes(spoil(whole))
    assert index_of(policy, cache) == index
    assert index.read_bytes() == whole
    assert len(builds) == 2
    assert (caplog.records, capsys.readouterr()) == ([], ("", ""))


def test_an_index_that_is_in_use_is_never_written_to(policy: Path, cache: IndexCache) -> None:
    used = compile_policy(policy, cache=cache)
    path = Path(used.index.source)
    before = path.stat().st_ino
    path.unlink()
    path.write_bytes(b"spoiled")
    compile_policy(policy, cache=cache)
    assert path.stat().st_ino != before
    used.index.verify()


# -- tidying -----------------------------------------------------------------------------------------------------------


def key(number: int) -> str:
    return f"{number:064x}"


def aged(path: Path, hours: float) -> Path:
    path.touch()
    then = time.time() - hours * HOUR
    os.utime(path, (then, then))
    return path


def test_the_last_four_stay_and_what_was_used_within_the_hour(cache: IndexCache) -> None:
    cache.make()
    lately = [aged(cache.path(key(number)), 0.1 * number) for number in range(6)]
    old = [aged(cache.path(key(10 + number)), 2 + number) for number in range(6)]
    cache.tidy()
    assert {*cache.folder.iterdir()} == {*lately}
    for path in lately:
        path.unlink()
    for number, path in enumerate(old):
        aged(path, 2 + number)
    cache.tidy()
    assert {*cache.folder.iterdir()} == {*old[:4]}


@pytest.mark.parametrize(
    ("most", "left"),
    [(700, 6), (300, 3), (250, 2), (50, 2)],  # the last two in any case: the one in use, and the newest
)
def test_of_indexes_that_are_too_large_together_those_used_last_stay(
    cache: IndexCache, monkeypatch: pytest.MonkeyPatch, most: int, left: int
) -> None:
    monkeypatch.setattr("hushlist.core.compile.index_cache.MOST_OCTETS", most)
    cache.make()
    lately = [cache.path(key(number)) for number in range(6)]
    for number, path in enumerate(lately):
        path.write_bytes(bytes(100))
        aged(path, 0.1 + 0.1 * number)
    cache.tidy()
    assert {*cache.folder.iterdir()} == {*lately[:left]}


def test_what_a_writer_left_that_was_ended_is_removed_by_the_next(
    policy: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    folder = cache.make()
    silent, ended, locked, new = (folder / f"compiling-0000000{number}" for number in range(4))
    for own in (silent, ended, locked, new):
        own.mkdir()
        (own / "run").write_text("rows")
    for own in (ended, locked, new):
        (own / "lock").touch()
    with cache.writing() as living:
        writer = lock_file(locked / "lock")
        for own in (silent, ended, locked, Path(living)):
            aged(own, 2)
        monkeypatch.setattr("hushlist.core.compile.list_chunks.RunCollector", fail)
        with pytest.raises(PolicyError):
            compile_policy(policy, cache=cache)
        assert {*folder.glob("compiling-*")} == {Path(living), locked, new}
        assert writer is not None
        os.close(writer)
        cache.tidy()
        assert {*folder.glob("compiling-*")} == {Path(living), new}
        assert (new / "run").read_text() == "rows"


def _named(folder: Path) -> list[Path]:
    """What is called as ours is, or nearly so, and is not."""
    names = ("notes.txt", "a.index", f"{key(1)}.index.bak", f"{key(1).upper()[:-1]}A.index", "tmpdead", "compiling-x")
    files = [folder / name for name in names]
    folders = [folder / f"{key(2)}.index", folder / "photos"]
    for path in folders:
        path.mkdir()
        (path / "file").touch()
    return [*files, folder / "compiling-file0000", *(path / "file" for path in folders)]


def test_what_is_not_surely_ours_stays(cache: IndexCache) -> None:
    foreign = _named(cache.make())
    for path in foreign:
        aged(path, 1000)
        aged(path.parent, 1000)
    cache.tidy()
    assert [path for path in foreign if not path.exists()] == []


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the same user's, with what looks as if it were ours."""
    folder = tmp_path / "elsewhere"
    (folder / "compiling-00000000").mkdir(parents=True)
    folder.chmod(0o700)
    for number in range(10):
        aged(folder / f"{key(number)}.index", 1000)
    aged(folder / "compiling-00000000" / "file", 1000)
    aged(folder / "compiling-00000000", 1000)
    aged(folder / "file", 1000)
    return folder


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.posix
def test_a_link_that_comes_into_the_cache_s_place_while_it_is_tidied_is_not_followed(
    cache: IndexCache, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [aged(cache.make() / f"{key(number)}.index", 2 + number) for number in range(6)]
    before, scandir, moved = files_in(elsewhere), os.scandir, cache.folder.with_name("moved")

    def swap(path: object) -> object:
        if not moved.exists():
            cache.folder.rename(moved)
            cache.folder.symlink_to(elsewhere, target_is_directory=True)
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", swap)
    cache.tidy()
    monkeypatch.undo()
    assert files_in(elsewhere) == before
    assert [path.name for path in files_in(moved)] == [path.name for path in own[:4]]


@pytest.mark.posix
@pytest.mark.skipif(not is_root(), reason="only root gives files away")
def test_another_user_s_files_are_neither_removed_nor_believed(
    policy: Path, cache: IndexCache, builds: list[Path]
) -> None:
    index = index_of(policy, cache)
    others = [aged(cache.path(key(number)), 1000) for number in range(6)]
    for path in (*others, index):
        os.chown(path, 12345, -1)
    cache.tidy()
    assert all(path.exists() for path in others)
    assert index_of(policy, cache) == index
    assert index.stat().st_uid == 0
    assert len(builds) == 2
