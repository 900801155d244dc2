"""What ``run.py`` adds to pytest: a record of what each test calls, and a choice of tests."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

Calls = dict[int, CodeType]

#: one of the numbers that ``sys.monitoring`` has for tools
_TOOL = 3

#: what tests measure time with; on a busy machine, they would see changes that are none
_CLOCKS = {"seconds", "perf_counter", "process_time", "monotonic"}


class _Quick:
    """Hypothesis looks for a failure, always in the same order, and does not look for a shorter one."""

    def pytest_sessionstart(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutation", derandomize=True, deadline=None, phases=phases, suppress_health_check=list(HealthCheck)
        )
        settings.load_profile("mutation")


class Chosen(_Quick):
    """Runs the tests with these ids, and no others."""

    def __init__(self, ids: set[str]) -> None:
        self._ids = ids

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._ids]


class Recorder(_Quick):
    """Writes down how long each test takes, and which functions of a folder it calls: file, and first line."""

    def __init__(self, folder: Path, result: Path) -> None:
        self._folder, self._result = f"{folder}/", result
        self._calls: Calls = {}
        self._of_files: dict[Path, Calls] = {}
        self._of_fixtures: dict[str, Calls] = {}
        self._tests: list[tuple[str, float, list[tuple[str, int]]]] = []
        self._failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        super().pytest_sessionstart()
        if sys.version_info >= (3, 12):
            sys.monitoring.use_tool_id(_TOOL, "hushlist")
            sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, self._started)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _CLOCKS.isdisjoint(_names_of(item))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[Any]:
        """Tables of tests may be made by the package."""
        self._record(calls := {})
        try:
            return (yield)
        finally:
            self._record(None)
            self._of_files.setdefault(collector.path, {}).update(calls)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        """What a fixture calls is called for every test that uses it, also where it is made once for several."""
        outer, calls = self._calls, Calls()
        self._record(calls)
        try:
            return (yield)
        finally:
            self._of_fixtures.setdefault(fixturedef.argname, {}).update(calls)
            outer.update(calls)
            self._record(outer)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._record(calls := dict(self._of_files.get(item.path, {})))
        start = time.monotonic()
        try:
            return (yield)
        finally:
            self._record(None)
            seconds = time.monotonic() - start
            for name in getattr(item, "fixturenames", ()):
                calls.update(self._of_fixtures.get(name, {}))
            ours = [code for code in calls.values() if code.co_filename.startswith(self._folder)]
            places = {(code.co_filename.removeprefix(self._folder), code.co_firstlineno) for code in ours}
            self._tests.append((item.nodeid, seconds, sorted(places)))

    def _record(self, calls: Calls | None) -> None:
        """Write down here what is called from now on, in all threads, or nothing."""
        self._calls = {} if calls is None else calls
        if sys.version_info >= (3, 12):  # costs nearly nothing, as each function is seen once
            sys.monitoring.restart_events()
            sys.monitoring.set_events(_TOOL, 0 if calls is None else sys.monitoring.events.PY_START)
        else:
            trace = None if calls is None else self._trace
            sys.settrace(trace)
            threading.settrace(trace)

    def _started(self, code: CodeType, _offset: int) -> object:
        self._calls[id(code)] = code
        return sys.monitoring.DISABLE

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        self._calls[id(frame.f_code)] = frame.f_code

    def pytest_sessionfinish(self) -> None:
        passed = [test for test in self._tests if test[0] not in self._failed]
        self._result.write_text(json.dumps({"tests": passed, "failed": sorted(self._failed)}))


def _names_of(item: pytest.Item) -> tuple[str, ...]:
    """The names that a test's function uses."""
    function = getattr(item, "function", None)
    return function.__code__.co_names if isinstance(function, FunctionType) else ()
