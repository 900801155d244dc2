"""Files are regular, and not too long."""

import os
from pathlib import Path

import pytest

from hushlist.lists.list_formats import FORMATS
from hushlist.system.files import LONGEST_DOCUMENT, LONGEST_LIST, LONGEST_WHOLE, open_regular, read_regular


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


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_bound(name: str) -> None:
    expected = LONGEST_LIST if FORMATS[name].is_by_line else LONGEST_DOCUMENT if name == "yaml" else LONGEST_WHOLE
    assert FORMATS[name].longest == expected
