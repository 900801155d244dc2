"""The first visit of a page, which is recorded, with a filter and a browser that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushlist.tools.visit.visitor import VisitOptions, Visitor
from unit.rows import each_row

ADDRESS = "https://shop.example/"


def request(**more: object) -> dict[str, object]:
    return {"status": 200, "missing": False, "error": "", **more}


class FakeRecorder:
    """Both the filter and the browser of a first visit."""

    def __init__(self, requests: list[dict[str, object]], faults: list[str]) -> None:
        self.filter = self.browser = self
        self._requests, self._faults, self._part = requests, faults, Path()

    def record(self, recording: Path | None) -> None:
        self._requests = self._requests if recording else []
        if recording:
            recording.write_bytes(b"flows")

    def visit(self, *_: object) -> dict[str, Any]:
        return {"faults": self._faults}

    def requests(self) -> list[dict[str, object]]:
        return self._requests


@each_row(
    ("requests", "faults", "why"),
    [
        ([], ["net::ERR_FAILED"], "net::ERR_FAILED"),
        ([], [], "nothing was asked for"),
        ([request(status=502, error="Name or service not known")], ["net::ERR"], "Name or service not known"),
        ([request(status=0)], ["it did not end to load"], "it did not end to load"),
        ([request(status=500)], [], ""),
        ([request(status=0, error="closed"), request()], [], ""),
    ],
)
def test_a_page_that_does_not_come_is_not_recorded(
    tmp_path: Path, requests: list[dict[str, object]], faults: list[str], why: str
) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    visitor = Visitor(VisitOptions((), folder=folder), folder / "run")
    visitor._recorder = FakeRecorder(requests, faults)  # type: ignore[assignment]
    if why:
        result = visitor.visit(ADDRESS)
        assert result.failed == f"the page does not come: {why}"
    else:
        path = visitor.recording_of(ADDRESS)
        assert path is not None
        assert path.read_bytes() == b"flows"
    assert len(list(folder.rglob("*.flow"))) == (not why)
    visitor.__exit__()


@each_row(("options", "name"), [({"live": True}, None), ({"recording": Path("a.flow")}, "a.flow")])
def test_nothing_is_recorded_of_the_net_or_where_there_is_a_recording(
    tmp_path: Path, options: dict[str, Any], name: str | None
) -> None:
    visitor = Visitor(VisitOptions((), folder=tmp_path, **options), tmp_path / "run")
    recording = visitor.recording_of(ADDRESS)
    assert (recording and recording.name) == name
