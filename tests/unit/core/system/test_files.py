"""Files are regular, and not too long."""

import os
from pathlib import Path

import pytest

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.system import files as module
from hushlist.core.system.files import (
    LONGEST_DOCUMENT,
    LONGEST_LIST,
    LONGEST_WHOLE,
    edit_file,
    lock_file,
    locked,
    open_regular,
    read_regular,
    reason_of,
    replace_file,
    source_files,
    write_private,
)
from unit.rows import each_row


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert read_regular(path, 3) == b"abc"
    with pytest.raises(OSError, match="it is longer than 2 octets, the most that are read"):
        read_regular(path, 2)


def test_a_pipe_a_device_and_a_folder_are_no_files_and_keep_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is no regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_what_becomes_a_pipe_while_it_is_opened_is_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    real, pipe = os.open, tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: real(pipe, flags, *mode))
    with pytest.raises(OSError, match="it is no regular file"):
        open_regular(path)


@each_row("name", FORMATS)
def test_every_format_has_a_bound(name: str) -> None:
    expected = (
        LONGEST_LIST if FORMATS[name].is_by_line else LONGEST_DOCUMENT if FORMATS[name].is_document else LONGEST_WHOLE
    )
    assert FORMATS[name].longest == expected


def test_a_missing_permission_names_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "filter")
    denied = PermissionError(13, "Permission denied", "lists/ads.yaml")
    assert reason_of(denied) == (
        "Permission denied: the user filter has to be able to use it, and to enter the folders above it"
    )
    assert reason_of(FileNotFoundError(2, "No such file or directory")) == "No such file or directory"
    assert reason_of(ValueError("embedded null byte")) == "embedded null byte"


def test_a_file_is_replaced_with_its_permissions_or_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(0o640)
    replace_file(path, b"after")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"after", 0o640)

    def fail(*_: object) -> None:
        raise PermissionError("broken by the test")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(PermissionError, match="broken by the test"):
        replace_file(path, b"never")
    with pytest.raises(PermissionError, match="broken by the test"):
        replace_file(tmp_path / "new", b"never")
    assert path.read_bytes() == b"after"
    assert [*tmp_path.iterdir()] == [path]


def test_a_private_file_is_new_and_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    replace_file(path, b"before")
    replace_file(path, b"private", is_private=True)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"private", 0o600)
    path.unlink()
    write_private(path, b"octets")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"octets", 0o600)
    with pytest.raises(FileExistsError):
        write_private(path, b"never")
    assert path.read_bytes() == b"octets"


def test_what_an_editor_saves_during_an_edit_is_kept(tmp_path: Path) -> None:
    path, saved = tmp_path / "list", [b"a\nb\n", b"a\nb\nc\n"]
    path.write_bytes(b"a\n")

    def edit(octets: bytes) -> bytes:
        if len(saved) == 2:
            path.write_bytes(saved.pop(0))  # in place
        elif saved:
            replace_file(path, saved.pop(0))
        return octets + b"ours\n"

    assert edit_file(path, 99, edit)
    assert path.read_bytes() == b"a\nb\nc\nours\n"
    assert not edit_file(path, 99, lambda octets: octets)


@pytest.mark.posix
def test_who_edits_a_file_waits_for_others_who_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two proxies do; the other one has read it, and replaces it meanwhile."""
    path = tmp_path / "list"
    path.write_bytes(b"a\n")
    other = lock_file(path, 0)
    assert other is not None

    def wait(_: float) -> None:
        replace_file(path, b"a\ntheirs\n")
        os.close(other)

    monkeypatch.setattr(module.time, "sleep", wait)
    assert edit_file(path, 99, lambda octets: octets + b"ours\n")
    assert path.read_bytes() == b"a\ntheirs\nours\n"


@pytest.mark.posix
def test_nobody_waits_for_ever_to_edit_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, moments = tmp_path / "list", iter(range(99))
    path.write_bytes(b"a\n")
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    other = lock_file(path, 0)
    assert other is not None
    with pytest.raises(BlockingIOError, match="others change it again and again"):
        edit_file(path, 99, lambda octets: octets + b"ours\n")
    os.close(other)
    assert path.read_bytes() == b"a\n"


def test_a_lock_is_waited_for_and_given_back_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, moments = tmp_path / "lock", iter(range(99))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    with locked(path, 0), pytest.raises(BlockingIOError, match="another process is at it"), locked(path, 5):
        pass
    assert next(moments) == 7  # it looked until the time was over
    with pytest.raises(RuntimeError), locked(path, 0):
        raise RuntimeError
    other = lock_file(path)
    assert other is not None
    monkeypatch.setattr(module.time, "sleep", lambda _: os.close(other))
    with locked(path, 5):
        assert [*tmp_path.iterdir()] == [path]


def test_what_python_has_compiled_is_no_source(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "folder/c.py", "__pycache__/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = source_files(tmp_path)
    assert sorted(str(Path(entry.path).relative_to(tmp_path)) for entry in found) == ["a.py", "folder/c.py"]
