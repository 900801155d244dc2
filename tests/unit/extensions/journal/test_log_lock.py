"""The lock that the log's writers share, and what a follower of the log leaves open."""

from __future__ import annotations

import gc
import sys
import threading
import time
from pathlib import Path

import pytest

from hushlist.extensions.journal import log_files
from hushlist.extensions.journal.log_database import follow
from hushlist.extensions.journal.log_files import CURRENT, locked


def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path: Path) -> None:
    is_locked = threading.Event()

    def hold() -> None:
        with locked(tmp_path):
            is_locked.set()
            time.sleep(0.1)

    other = threading.Thread(target=hold)
    other.start()
    is_locked.wait()
    with locked(tmp_path):  # TimeoutError, if it did not wait
        pass
    other.join()


def test_a_lock_that_is_kept_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "PATIENCE", 0.05)
    with (
        locked(tmp_path),
        pytest.raises(TimeoutError, match="another process does not let go of it") as caught,
        locked(tmp_path),
    ):
        pass
    (file,) = tmp_path.iterdir()
    assert str(file) in str(caught.value)


def test_a_lock_is_given_back_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        assert len([*tmp_path.iterdir()]) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / CURRENT).touch()
    gc.collect()  # what earlier tests left
    before = set(Path("/proc/self/fd").iterdir())
    with locked(tmp_path):
        pass
    follower = follow(tmp_path)
    assert next(follower) == next(follower) == []
    follower.close()
    follower.close()
    assert set(Path("/proc/self/fd").iterdir()) <= before
