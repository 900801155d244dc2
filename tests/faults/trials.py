"""Trials of what an installation meets in months: workers that are killed, a disk that can only be read, a cache that
vanishes, two proxies on one store, logrotate, and an update of the package under load.

    python tests/faults/trials.py [WORDS]

prints a line for each trial, of those that have the words in their names. Real programs run, and each trial says what
it has seen; the origin's own log is the judge of what passes. The exit code is 1 where something did not hold.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "addon")]

from e2e.origin import PATIENCE, Origin
from e2e.policies import replace
from e2e.proxy import FILTER
from e2e.test_asking import Asker
from e2e.test_subscriptions import make_due
from faults.lab import DECIDES, Lab
from faults.table import NotHereError
from unit.compiling.https_origin import Handler, HttpsOrigin, Page

#: seconds within which what failed is tried again, as the pages say, and some more
AGAIN = 60 + PATIENCE


@dataclass(frozen=True)
class Trial:
    """Something that is done to an installation; it gives what was seen, for people."""

    name: str
    run: Callable[[Path, Origin], str]


def wait_until(is_so: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Wait for something; the seconds that it took."""
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < seconds, "it does not come"
        time.sleep(0.05)
    return time.monotonic() - begun


def status(lab: Lab, host: str) -> int:
    return lab.proxy.get(f"http://{host}/").status_code


# -- workers -----------------------------------------------------------------------------------------------------------


def _processes(*words: str) -> list[int]:
    """The processes that have all of these words among the arguments that they were started with."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if all(os.fsencode(word) in arguments for word in words):
                found.append(int(process.name))
    return found


def _kill_when_there(*words: str) -> int:
    """Kill the first process of these words, as soon as it is there."""
    found = list[int]()
    wait_until(lambda: found.extend(_processes(*words)) or found)
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def _as_commands(lab: Lab) -> Lab:
    """A lab whose workers are processes of their own arguments."""
    if not Path("/proc/self/cmdline").exists():
        raise NotHereError("there is no /proc")
    lab.command = ("env",)
    return lab


_COMPILER = "hushlist.compiling.background_compiler"


def _compiling_is_killed(folder: Path, origin: Origin) -> str:
    """It is tried again without another change."""
    lab = _as_commands(Lab(folder, origin))
    with lab.running():
        start = len(lab.proxy.log)
        lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
        _kill_when_there(_COMPILER, "compile", str(lab.policy))
        lab.wait_for("ended with code -9", start)
        assert lab.seen() == DECIDES
        assert status(lab, "new.test") == 200
        return f"in force {wait_until(lambda: status(lab, 'new.test') == 403, AGAIN):.0f} s later"


def _fetching_is_killed(folder: Path, origin: Origin) -> str:
    """What is in force stays, the next try is a minute later, and nothing is left behind."""
    stalls, asked = threading.Event(), threading.Event()

    def stall(_: Handler) -> None:
        asked.set()
        stalls.wait(PATIENCE)

    with HttpsOrigin(folder.with_name(f"{folder.name}-lists")) as publisher, ExitStack() as stack:
        stack.callback(stalls.set)
        publisher.pages["/list"] = Page(b"first.test\n")
        own = {"SSL_CERT_FILE": str(publisher.authority)}
        stack.enter_context(_environment(own))
        source = {"url": f"{publisher.url}/list", "format": "domains"}
        lab = _as_commands(
            Lab(folder, origin, settings={"layers": [{"name": "lists", "lists": ["rules.yaml", source]}]})
        )
        stack.enter_context(lab.running())
        assert status(lab, "first.test") == 403
        publisher.pages["/list"] = Page(write=stall)
        start = len(lab.proxy.log)
        with _environment({"XDG_CACHE_HOME": str(lab.caches)}):
            make_due(lab.policy)
        assert asked.wait(PATIENCE)
        _kill_when_there(_COMPILER, "update", str(lab.policy))
        lab.wait_for("no list could be fetched", start)
        lab.wait_for("ended with code -9", start)
        publisher.pages["/list"] = Page(b"second.test\n")
        assert (status(lab, "first.test"), status(lab, "second.test")) == (403, 200)
        later = wait_until(lambda: status(lab, "second.test") == 403, AGAIN)
        assert status(lab, "first.test") == 200
        return f"the new list is in force {later:.0f} s later"


def _command_of_a_notice_is_killed(folder: Path, origin: Origin) -> str:
    """A program that is killed has not told anybody: it is started again."""
    told = folder / "told"
    script = f"import os, sys; open({str(told)!r}, 'a').write(str(os.getpid()) + chr(10)); sys.stdin.read()"
    script += f"\nif open({str(told)!r}).read().count(chr(10)) == 1: import time; time.sleep(600)"
    command = [sys.executable, "-c", script]
    lab = Lab(folder, origin, settings={"unblock": {"ask": "on"}, "notify": [{"command": command}]})
    with lab.running():
        Asker(lab.proxy).ask("http://ads.test/", reason="maths")
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"))
        os.kill(int(told.read_text()), signal.SIGKILL)
        lab.wait_for("no notice goes out by the command", 0)
        lab.wait_for("it ended with -9", 0)
        assert lab.seen() == DECIDES
        lab.wait_for("notices go out again", 0)
        assert len(told.read_text().splitlines()) == 2
        return "said, and started again"


def _worker_of_a_start_is_killed(folder: Path, origin: Origin) -> str:
    """A start whose compiling lost a worker ends and says why; the next one leaves nothing of it behind."""
    lab = _as_commands(Lab(folder, origin))
    lab.list.write_text("rules:\n- ads.test/\n" + "".join(f"- other{number}.test/\n" for number in range(300_000)))
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.01):
            for compiler in _processes(_COMPILER, str(lab.policy)):
                with suppress(OSError, IndexError):
                    children = Path(f"/proc/{compiler}/task/{compiler}/children").read_text().split()
                    os.kill(int(children[-1]), signal.SIGKILL)
                    return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with lab.running() as proxy:
            assert proxy is None, "no worker was killed"
    finally:
        done.set()
        thread.join()
    assert "a process ended before it had done its part" in lab.said, lab.said
    wait_until(lambda: not _processes(_COMPILER, str(lab.policy)))
    with lab.running():
        assert lab.seen() == DECIDES
        left = [path.name for path in (*lab.temporary.iterdir(), *lab.cache.iterdir()) if path.is_dir()]
        assert left == ["lists"] or not left, left
        return "it ends and says why; the next start has all rules"


def _workers_of_the_helper_are_killed(folder: Path, _: Origin) -> str:
    """Each line has its answer, though each worker is killed; when the helper itself is killed, none outlives it."""
    folder.mkdir()
    replace(folder / "rules.yaml", "rules:\n- ads.test/\n")
    replace(folder / "policy.yaml", "layers:\n- {name: lists, lists: [rules.yaml]}\n")
    own = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    command = [
        sys.executable,
        "-m",
        "hushlist",
        "helper",
        "--acl",
        "--workers",
        "3",
        "--policy",
        str(folder / "policy.yaml"),
    ]
    own["PYTHONPATH"] = str(FILTER.parent)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=own
    ) as helper:
        assert helper.stdin
        assert helper.stdout
        killed = set[str]()
        for round_ in range(30):
            lines = [f"{number} http://{'ads' if number % 2 else 'good'}.test/ -" for number in range(50)]
            helper.stdin.write("".join(f"{line}\n" for line in lines).encode())
            helper.stdin.flush()
            answers = [helper.stdout.readline().decode() for _ in lines]
            for number, answer in enumerate(answers):
                assert answer.startswith(f"{number} {'OK' if number % 2 else 'ERR'}"), answer
            workers = Path(f"/proc/{helper.pid}/task/{helper.pid}/children").read_text().split()
            if round_ % 5 == 4:
                os.kill(int(workers[0]), signal.SIGKILL)
                killed.add(workers[0])
        workers = Path(f"/proc/{helper.pid}/task/{helper.pid}/children").read_text().split()
        helper.kill()
        helper.wait()
        wait_until(lambda: not [one for one in workers if Path(f"/proc/{one}/cmdline").exists()])
    return f"{len(killed)} killed, 1,500 lines answered, and none outlives the helper"


@contextmanager
def _environment(own: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


TRIALS = (
    Trial("compiling is killed once", _compiling_is_killed),
    Trial("fetching a list is killed once", _fetching_is_killed),
    Trial("the command of a notice is killed once", _command_of_a_notice_is_killed),
    Trial("a worker of a start is killed", _worker_of_a_start_is_killed),
    Trial("workers of Squid's helper are killed", _workers_of_the_helper_are_killed),
)


def main() -> int:
    """Print a line for each trial whose name has the words that are given."""
    wrong, words = 0, " ".join(sys.argv[1:])
    for number, trial in enumerate(one for one in TRIALS if words in one.name):
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            printed = io.StringIO()
            stack.enter_context(redirect_stdout(printed))  # all that the proxies say, at their end
            folder = Path(name)
            origin = stack.enter_context(Origin(folder))
            begun = time.monotonic()
            try:
                seen = trial.run(folder / f"trial{number}", origin)
            except NotHereError as error:
                seen = f"not here: {error}"
            except Exception as error:  # whatever it is, the others are tried
                wrong += 1
                seen = f"WRONG: {error!r}"[:3000]
        print(f"{trial.name:<48} {time.monotonic() - begun:>4.0f} s  {seen}", file=sys.stderr, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
