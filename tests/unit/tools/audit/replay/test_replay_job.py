"""Sources in pieces, in this process and in others: what is counted stays the same."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hushlist.core.decide.engine import Engine
from hushlist.core.match.index import Index
from hushlist.tools.audit.replay import replay_job as module
from hushlist.tools.audit.replay.replay_job import ReplayWork, audit
from hushlist.tools.audit.replay.tally import AuditTally, SourceCount
from hushlist.tools.audit.sources.recorded_request import BrokenRecord
from hushlist.tools.audit.sources.source_formats import FORMATS
from unit.tools.audit.samples import AT_NOW, write_policy

LINES = b"".join(b"http://h%d.%s/x\n" % (own, (b"ads.example", b"clean.example")[own % 2]) for own in range(300))
TABLE = b"".join(b"http://ads.example/%d\thttp://page.example/\tscript\tx\n" % own for own in range(50))
HAR = json.dumps(
    {"log": {"entries": [{"request": {"url": f"http://more.example/{own}"}} for own in range(20)]}}
).encode()


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Files of every kind, one of which is none."""
    files = {
        "a.txt": LINES + b"\nlast.example",
        "b.txt.gz": gzip.compress(LINES),
        "c.tsv": b"url\tpage\ttype\n" + TABLE,
        "d.har": HAR[:-30],
        "e.har.gz": gzip.compress(HAR),
        "empty": b"",
    }
    for name, octets in files.items():
        (tmp_path / name).write_bytes(octets)
    return [str(tmp_path / name) for name in (*files, "missing")]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "BLOCK", 400)
    monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setattr(module, "STEP", 7)


def untimed(tally: AuditTally) -> AuditTally:
    tally.slowest = []
    return tally


@pytest.mark.slow
def test_pieces_count_as_the_whole_and_every_record_keeps_its_number(
    engine: Engine, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, jobs = audit(engine, ReplayWork(sources, AT_NOW))
    assert jobs == 1
    for block in (1, 30, 1000):
        monkeypatch.setattr(module, "BLOCK", block)
        assert untimed(audit(engine, ReplayWork(sources, AT_NOW))[0]) == untimed(whole)


def test_every_source_is_counted_and_one_that_cannot_be_read_does_not_stop_the_rest(
    engine: Engine, sources: list[str]
) -> None:
    tally, _ = audit(engine, ReplayWork(sources, AT_NOW))
    assert {Path(name).name: replace(own, source="") for name, own in tally.sources.items()} == {
        "a.txt": SourceCount("", "urls", 301),
        "b.txt.gz": SourceCount("", "urls", 300),
        "c.tsv": SourceCount("", "requests", 50),
        "d.har": SourceCount("", "har", 19, 1),
        "e.har.gz": SourceCount("", "har", 20),
        "empty": SourceCount("", "urls"),
        "missing": SourceCount("", "", broken=1),
    }
    assert [(Path(own.source).name, own.number, own.why) for own in tally.broken] == [
        ("d.har", 20, "the document ends too early"),
        ("missing", 0, "No such file or directory"),
    ]


def test_progress_goes_from_nothing_to_all(engine: Engine, sources: list[str], small: None) -> None:
    steps: list[tuple[str, int, int]] = []
    tally, _ = audit(engine, ReplayWork(sources, AT_NOW), lambda *step: steps.append(step))
    told = [(int(what.removesuffix(" requests")), done, total) for what, done, total in steps]
    assert told == sorted(told)
    total = sum(Path(name).stat().st_size for name in sources[:-1])
    assert told[0] == (0, 0, total)
    # What is broken counts as read, too.
    assert told[-1] == (tally.records + 2, total, total)


@pytest.mark.slow
def test_processes_count_as_one_does(engine: Engine, sources: list[str], small: None) -> None:
    one, jobs = audit(engine, ReplayWork(sources, AT_NOW))
    assert jobs == 1
    steps: list[tuple[str, int, int]] = []
    several, jobs = audit(engine, ReplayWork(sources, AT_NOW, jobs=2), lambda *step: steps.append(step))
    assert jobs == 2
    assert len(several.slowest) == len(one.slowest)
    assert untimed(several) == untimed(one)
    assert steps[-1][0] == f"{one.records + 2} requests"
    assert steps[-1][1] == steps[-1][2]


_SPAWNED = """
import sys
from pathlib import Path
from hushlist.tools.audit.replay import replay_job as module
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.compile import worker_processes
from unit.tools.audit.samples import AT_NOW

module.FEW, module.BLOCK = 0, 400
if __name__ == "__main__":
    worker_processes.threading.active_count = lambda: 2
    work = module.ReplayWork(sys.argv[2:], AT_NOW, jobs=2)
    print(module.audit(load_engine(Path(sys.argv[1])), work)[0].records)
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_processes_that_are_started_anew_count_the_same(engine: Engine, sources: list[str], tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(_SPAWNED)
    roots = [str(Path(module.__file__).parents[4]), str(Path(__file__).parents[4])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run(
        [sys.executable, script, write_policy(tmp_path), *sources],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{audit(engine, ReplayWork(sources, AT_NOW))[0].records}\n", "")


def test_an_index_that_only_this_process_has_is_enough(
    engine: Engine, sources: list[str], small: None, tmp_path: Path
) -> None:
    path = tmp_path / "index"
    path.write_bytes(Path(engine.index.source).read_bytes())
    own = Engine(engine.policy, Index.open(path))
    path.unlink()
    tally, jobs = audit(own, ReplayWork(sources, AT_NOW, jobs=2))
    assert jobs == 1
    assert untimed(tally) == untimed(audit(engine, ReplayWork(sources, AT_NOW))[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("octets", "format_name", "records"),
    [
        (LINES, "urls", 300),
        (gzip.compress(LINES, mtime=0), "urls", 300),
        (HAR, "har", 20),
        (gzip.compress(HAR, mtime=0), "har", 20),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_standard_input_is_read_by_its_format(
    engine: Engine,
    octets: bytes,
    format_name: str,
    records: int,
    jobs: int,
    small: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets)))
    tally, _ = audit(engine, ReplayWork(["-"], AT_NOW, jobs=jobs))
    assert tally.sources == {"-": SourceCount("-", format_name, records)}


def test_a_format_that_is_named_is_not_guessed(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"http://h.example/\t\t\n")
    tally, _ = audit(engine, ReplayWork([str(tmp_path / "x")], AT_NOW, FORMATS["squid"]))
    assert [own.why for own in tally.broken] == ["it is no line of Squid's access.log"]


def test_a_database_cannot_come_from_a_stream(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "History.gz"
    path.write_bytes(gzip.compress(b"SQLite format 3\0"))
    tally, _ = audit(engine, ReplayWork([str(path)], AT_NOW))
    assert tally.broken == [BrokenRecord(str(path), 0, "a database is read from a file that is not compressed")]


def test_a_line_that_is_too_long_is_one_broken_record_however_it_is_cut(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "hushlist.tools.audit.sources.line_sources.LONGEST_LINE",
        "hushlist.tools.audit.replay.replay_job.LONGEST_LINE",
    ):
        monkeypatch.setattr(name, 50)
    octets = b"a.example\n" * 9 + b"x" * 333 + b"\n" + b"b.example\n" * 9
    (tmp_path / "x").write_bytes(octets)
    (tmp_path / "x.gz").write_bytes(gzip.compress(octets))
    for block in (1, 64, 91, 1 << 20):
        monkeypatch.setattr(module, "BLOCK", block)
        tally, _ = audit(engine, ReplayWork([str(tmp_path / "x"), str(tmp_path / "x.gz")], AT_NOW))
        assert [(own.records, own.broken) for own in tally.sources.values()] == [(18, 1), (18, 1)]
        assert [own.number for own in tally.broken] == [10, 10]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("octets", "broken"), [(LINES, [0]), (HAR, [0, 1])])
def test_a_damaged_file_is_read_to_where_it_breaks(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, octets: bytes, broken: list[int], jobs: int
) -> None:
    monkeypatch.setattr(module, "FEW", 0)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(octets, 1)[:-30])
    tally, _ = audit(engine, ReplayWork([str(path)], AT_NOW, jobs=jobs))
    assert tally.records > 5
    assert [min(own.number, 1) for own in tally.broken] == broken
    assert tally.broken[0] == BrokenRecord(str(path), 0, "its compression is broken: it ends too early")
    assert not tally.faults  # half a line is no URL


def test_progress_never_tells_more_octets_than_there_are(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"http://h.example/"))  # without an end of line
    told: list[tuple[str, int, int]] = []
    audit(engine, ReplayWork([str(path)], AT_NOW), lambda *all_: told.append(all_))
    assert told[-1] == ("1 request", path.stat().st_size, path.stat().st_size)


_STARTED = """
import sys
from pathlib import Path
from multiprocessing import active_children
from hushlist.tools.audit.replay import replay_job as module
from hushlist.core.compile.stat_cache import load_engine
from unit.tools.audit.samples import AT_NOW

if __name__ == "__main__":
    tell = lambda *_: print(*(child.pid for child in active_children()), flush=True)
    module.BLOCK = 1
    module.audit(load_engine(Path(sys.argv[1])), module.ReplayWork(["-"], AT_NOW, jobs=2), tell)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what a process does is read in /proc")
def test_processes_end_with_the_one_that_has_started_them(tmp_path: Path) -> None:
    script = tmp_path / "started.py"
    script.write_text(_STARTED)
    roots = [str(Path(module.__file__).parents[4]), str(Path(__file__).parents[4])]
    with subprocess.Popen(
        [sys.executable, script, write_policy(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        parent.stdin.write(b"http://h.example/\n" * 9)
        parent.stdin.flush()  # and there is no end of it
        children = parent.stdout.readline().split()
        assert len(children) == 2
        parent.kill()
    deadline = time.monotonic() + 20
    while any(map(_runs, map(int, children))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(_runs, map(int, children)))


def _runs(process: int) -> bool:
    """Whether it does; one that has ended may still be listed until somebody asks for how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
