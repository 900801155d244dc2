"""The parts of ``peers.py`` beside squidGuard: helper and compile.

Both read the same folder, and whole processes are timed by the clock, with files for their input and output.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import data
import ours
import theirs
from timing import in_turns, once
from workbench import Row, Workbench, at_least_times, at_most_times, row


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")


def compile_both(bench: Workbench) -> list[Row]:
    """Lists into a file that a filter can open, from nothing."""
    theirs.need_programs("squidGuard")
    lists = data.squidguard_folder(bench.lists, bench.sizes.entries)
    configuration = theirs.configure_squidguard(lists)
    policy = ours.write_policy(bench.folder / "compile", lists, "squidguard")

    def compile_ours() -> float:
        shutil.rmtree(policy.parent / "cache", ignore_errors=True)
        return once(lambda: _run(ours.compile_command(policy), ours.environment(policy)))

    own, other = in_turns(bench.sizes.rounds, compile_ours, lambda: _compile_theirs(lists, configuration))
    what = f"compile {bench.sizes.entries:,} entries"
    return [row(what, "s", own, peer="squidGuard -C all", theirs=other, target=at_most_times(1))]


def _compile_theirs(lists: Path, configuration: Path) -> float:
    for database in lists.glob("*.db"):
        database.unlink()
    return once(lambda: _run(theirs.squidguard_compile_command(configuration)))


def helper(bench: Workbench) -> list[Row]:
    """Lines of the url_rewrite protocol that a helper answers in a second."""
    theirs.need_programs("squidGuard")
    lists = data.squidguard_folder(bench.lists, bench.sizes.entries)
    configuration = theirs.configure_squidguard(lists)
    _compile_theirs(lists, configuration)
    policy = ours.compiled(bench.folder / "helper", lists, "squidguard")
    lines = data.url_rewrite_lines(bench.lists, bench.sizes.lines)
    own_helper = _Helper("Hushlist", bench.folder, ours.helper_command(policy), ours.environment(policy))
    their_helper = _Helper("squidGuard", bench.folder, theirs.squidguard_helper_command(configuration))
    empty = Path("/dev/null")
    starts = in_turns(bench.sizes.rounds, lambda: own_helper.answer(empty), lambda: their_helper.answer(empty))
    totals = in_turns(bench.sizes.rounds, lambda: own_helper.answer(lines), lambda: their_helper.answer(lines))
    answers = " and ".join(helper.answers(bench.sizes.lines) for helper in (own_helper, their_helper))
    start = [statistics.median(times) for times in starts]
    whole = [[bench.sizes.lines / taken for taken in times] for times in totals]
    answering = [
        [bench.sizes.lines / max(1e-6, taken - less) for taken in times]
        for times, less in zip(totals, start, strict=True)
    ]
    peer, note = "squidGuard", f"{bench.sizes.lines:,} lines, {bench.sizes.entries:,} entries: {answers}"
    what, unit = "helper, without the time to start", "lines/s"
    return [
        row(what, unit, answering[0], peer=peer, theirs=answering[1], target=at_least_times(1), note=note),
        row("helper, whole process", unit, whole[0], peer=peer, theirs=whole[1]),
        row("helper, the time to start", "ms", starts[0], scale=1e3, peer=peer, theirs=starts[1]),
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
