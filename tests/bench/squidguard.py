"""The parts of ``peers.py`` beside squidGuard: helper and compile; and compile-many, which has no peer.

Both read the same folder, and whole processes are timed by the clock, with files for their input and output.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import data
import ours
import theirs
from timing import children_seconds, in_turns, once
from workbench import Row, Workbench, at_least_times, at_most, at_most_times, row


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")


def compile_both(bench: Workbench) -> list[Row]:
    """Lists into a file that a filter can open, from nothing."""
    theirs.need_programs("squidGuard")
    count = bench.sizes.entries
    made_up = data.squidguard_folder(bench.lists, count)
    real = data.repeated_lists(bench.lists, count)
    rows = []
    for what, home, lists, most in (
        ("made-up entries", made_up, [made_up], 0.6),
        ("entries of real lists, repeated", real[0].parent, real, 1.0),
    ):
        configuration = theirs.configure_squidguard(home, *lists)
        own, other = in_turns(
            bench.sizes.rounds,
            partial(_compile_ours, _policy(bench, lists)),
            partial(_compile_theirs, configuration),
        )
        rows.append(
            row(
                f"compile {count:,} {what}",
                "s",
                own,
                peer="squidGuard -C all",
                theirs=other,
                target=at_most_times(most),
                note=_number(lists),
            )
        )
    return rows


def compile_many(bench: Workbench) -> list[Row]:
    """Real lists by hundreds into an index, from nothing."""
    lists = data.repeated_lists(bench.lists, bench.sizes.many)
    own = [_compile_ours(_policy(bench, lists), children_seconds)]
    what = f"compile {bench.sizes.many:,} entries of real lists, repeated: processor time"
    return [row(what, "s", own, target=at_most(60), note=_number(lists))]


def _number(lists: Sequence[Path]) -> str:
    return f"{len(lists)} {'list' if len(lists) == 1 else 'lists'}"


def _policy(bench: Workbench, lists: Sequence[Path]) -> Path:
    """A policy of its own for these folders."""
    own = ({"file": str(folder), "format": "squidguard"} for folder in lists)
    return ours.write_lists(bench.folder / "compile" / lists[0].relative_to(bench.lists), *own)


def _compile_ours(policy: Path, clock: Callable[[], float] = time.perf_counter) -> float:
    shutil.rmtree(policy.parent / "cache", ignore_errors=True)
    return once(lambda: _run(ours.compile_command(policy), ours.environment(policy)), clock)


def _compile_theirs(configuration: Path) -> float:
    for database in configuration.parent.rglob("*.db"):
        database.unlink()
    return once(lambda: _run(theirs.squidguard_compile_command(configuration)))


def helper(bench: Workbench) -> list[Row]:
    """Lines of the url_rewrite protocol that a helper answers in a second."""
    theirs.need_programs("squidGuard")
    lists = data.squidguard_folder(bench.lists, bench.sizes.entries)
    configuration = theirs.configure_squidguard(lists, lists)
    _compile_theirs(configuration)
    policy = ours.settle(ours.write_policy(bench.folder / "helper", lists, "squidguard"))
    lines = data.url_rewrite_lines(bench.lists, bench.sizes.lines)
    own_helper = _Helper("Hushlist", bench.folder, ours.helper_command(policy), ours.environment(policy))
    their_helper = _Helper("squidGuard", bench.folder, theirs.squidguard_helper_command(configuration))
    empty = Path("/dev/null")
    helpers = (own_helper, their_helper)
    starts = in_turns(bench.sizes.rounds, *(partial(one.answer, empty) for one in helpers))
    totals = in_turns(bench.sizes.rounds, *(partial(one.answer, lines) for one in helpers))
    (checks,) = in_turns(
        bench.sizes.rounds, lambda: once(lambda: _run(ours.check_command(policy), ours.environment(policy)))
    )
    answers = " and ".join(helper.answers(bench.sizes.lines) for helper in helpers)
    start = [statistics.median(times) for times in starts]
    whole = [[bench.sizes.lines / taken for taken in times] for times in totals]
    answering = [
        [bench.sizes.lines / max(1e-6, taken - less) for taken in times]
        for times, less in zip(totals, start, strict=True)
    ]
    peer, note = "squidGuard", f"{bench.sizes.lines:,} lines, {bench.sizes.entries:,} entries: {answers}"
    what, unit = "helper, without the time to start", "lines/s"
    return [
        row(what, unit, answering[0], peer=peer, theirs=answering[1], target=at_least_times(1.5), note=note),
        row("helper, whole process", unit, whole[0], peer=peer, theirs=whole[1]),
        row("helper, the time to start", "ms", starts[0], scale=1e3, peer=peer, theirs=starts[1], target=at_most(100)),
        row("hushlist check, whole process", "ms", checks, scale=1e3, target=at_most(120)),
    ]


class _Helper:
    """A process that answers lines of standard input on standard output."""

    def __init__(
        self, name: str, folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._name, self._answers = name, folder / f"{name}.answers"
        self._command, self._environment = command, environment

    def answer(self, lines: Path) -> float:
        """Seconds that the whole process takes for the lines of a file."""

        def run() -> None:
            with lines.open("rb") as given, self._answers.open("wb") as answers:
                quiet = subprocess.DEVNULL  # warnings about the lists
                subprocess.run(
                    self._command, stdin=given, stdout=answers, stderr=quiet, env=self._environment, check=True
                )

        return once(run)

    def answers(self, count: int) -> str:
        """What became of the lines: squidGuard says OK to block, ERR to pass, and BH where it cannot read a line.

        Raises: RuntimeError if there is not one answer for each of ``count`` lines.
        """
        answers = Counter(line.split(b" ", 1)[0] for line in self._answers.read_bytes().splitlines())
        if answers.total() != count or not answers.keys() <= {b"OK", b"ERR", b"BH"}:
            raise RuntimeError(f"{self._command[0]} answered {count} lines with {dict(answers.most_common(5))}")
        unread = f", could not read {answers[b'BH']:,}" if answers[b"BH"] else ""
        return f"{self._name} blocked {answers[b'OK']:,}{unread}"
