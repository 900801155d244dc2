"""Lines that are new or gone, counted and looked at alone; in parts where a list is long."""

from pathlib import Path

import pytest

from hushlist.core.compile.list_chunks import ChunkedList, chunk_list
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.policy_file import ListFile
from hushlist.extensions.subscriptions import line_differences
from hushlist.extensions.subscriptions.line_differences import count_changes, shorten


def written(path: Path, *numbers: int) -> Path:
    path.write_text("# a comment\n" + "".join(f"{at}.example\n" for at in numbers))
    return path


def chunked(path: Path) -> ChunkedList:
    return chunk_list(ListFile(path, FORMATS["domains"], ListDefaults()))


@pytest.fixture(params=[None, 1000])
def _compared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        monkeypatch.setattr(line_differences, "COMPARED", request.param)


@pytest.mark.usefixtures("_compared")
def test_lines_are_counted_but_comments(tmp_path: Path) -> None:
    before, after = written(tmp_path / "a", *range(3000)), written(tmp_path / "b", *range(1000, 3500))
    assert count_changes(before, after) == (500, 1000)
    assert count_changes(None, after) == (2500, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("_compared")
def test_of_lines_that_stay_some_are_looked_at_with_those_that_do_not(tmp_path: Path) -> None:
    before, after = written(tmp_path / "a", *range(9000)), written(tmp_path / "b", *range(100, 9050))
    short = shorten(*map(chunked, (before, after)), tmp_path, 50)
    assert short is not None
    was, now = (path.read_bytes().splitlines() for path in short)
    assert (len(was), len(now)) == (1024 + 100, 1024 + 50)
    assert set(was) - set(now) == {b"%d.example" % at for at in range(100)}
    assert set(now) - set(was) == {b"%d.example" % at for at in range(9000, 9050)}


@pytest.mark.parametrize(("loses", "both"), [(50, 1024), (20, 2500), (6, 8333), (0, 8501)])
def test_as_many_lines_are_looked_at_with_them_as_make_the_loss_small_enough(
    tmp_path: Path, loses: int, both: int
) -> None:
    before, after = written(tmp_path / "a", *range(9000)), written(tmp_path / "b", *range(500, 9000))
    short = shorten(*map(chunked, (before, after)), tmp_path, loses)
    assert short is not None
    assert [len(path.read_bytes().splitlines()) for path in short] == [both + 500, both]
