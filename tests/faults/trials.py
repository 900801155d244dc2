"""Trials of what an installation meets in months: workers that are killed, a disk that can only be read, a cache that
vanishes, two proxies on one store, logrotate, and an update of the package under load.

    python tests/faults/trials.py [WORDS]

prints a line for each trial, of those that have the words in their names. Real programs run, and each trial says what
it has seen; the origin's own log is the judge of what passes. The exit code is 1 where something did not hold.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import httpx

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "addon")]

from e2e.origin import PATIENCE, Origin
from e2e.policies import write_list
from e2e.proxy import CHECKOUT, FILTER, Proxy, mitmdump
from e2e.test_asking import Asker
from e2e.test_quotas import NOON, policy_of
from e2e.test_subscriptions import make_due
from e2e.test_unblock import form_of
from faults.lab import DECIDES, Lab
from faults.table import NOT_USED, NotHereError
from hushlist.core.routes import Account, Role
from hushlist.extensions.dashboard.admin_store import AdminStore
from hushlist.extensions.journal.log_database import LogFilters, newest_records
from hushlist.extensions.journal.log_files import read_newest_first
from hushlist.extensions.unblock.overrides import Overrides
from support.environment import environment
from support.https_origin import Handler, HttpsOrigin, Page
from support.waiting import wait_until

#: seconds within which what failed is tried again, as the pages say, and some more
AGAIN = 60 + PATIENCE


@dataclass(frozen=True)
class Trial:
    """Something that is done to an installation; it gives what was seen, for people."""

    name: str
    run: Callable[[Path, Origin], str]


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


_COMPILER = "hushlist.core.compile.background_compiler"


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
        stack.enter_context(environment(own))
        source = {"url": f"{publisher.url}/list", "format": "domains"}
        lab = _as_commands(
            Lab(folder, origin, settings={"layers": [{"name": "lists", "lists": ["rules.yaml", source]}]})
        )
        stack.enter_context(lab.running())
        assert status(lab, "first.test") == 403
        publisher.pages["/list"] = Page(write=stall)
        start = len(lab.proxy.log)
        with environment({"XDG_CACHE_HOME": str(lab.caches)}):
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
    lab.list.write_text("rules:\n- ads.test/\n" + "".join(f"- other{number}.test/\n" for number in range(130_000)))
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


# -- a disk that can only be read --------------------------------------------------------------------------------------

_MOUNT = 'mkdir -p {at} && mount {options} {at} && exec "$@"'


def _with_a_disk(lab: Lab, options: str) -> Path:
    """Have a lab's cache, state and log on a disk that only its proxy sees; where it is for all others."""
    tools = ("unshare", "nsenter", "mount", "mkfs.ext4", "fsck.ext4")
    if missing := [tool for tool in tools if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]:
        raise NotHereError(f"not installed: {', '.join(missing)}")
    disk = lab.folder / "disk"
    lab.caches, lab.state, lab.log = disk / "caches", disk / "state", disk / "log"
    script = _MOUNT.format(at=disk, options=options)
    lab.command = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh")
    if os.geteuid() or subprocess.run([*lab.command, "true"], capture_output=True, check=False).returncode:
        raise NotHereError("only root mounts a disk")
    return disk


def _seen_by(lab: Lab, path: Path) -> Path:
    """A path as the proxy sees it."""
    return Path(f"/proc/{lab.proxy.process.pid}/root{path}")


_ON_DISK = {"log": {"folder": "disk/log", "what": "all"}}


def _write(lab: Lab, *writes: str) -> None:
    """Change the store by its methods, as a program that sees the proxy's disk: SQLite follows no path of /proc."""
    script = "import sys, time, pathlib; from hushlist.extensions.unblock.overrides import Overrides"
    script += "; store = Overrides(pathlib.Path(sys.argv[1]), time.time); "
    inside = ["nsenter", f"--target={lab.proxy.process.pid}", "--mount"]
    command = [*inside, sys.executable, "-c", script + "; ".join(f"store.{write}" for write in writes), str(lab.store)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(FILTER.parent)})


def _block(host: str) -> str:
    return f"block('host', {host!r}, None, by='x')"


def _unblocked_and_blocked(lab: Lab) -> None:
    """Unblock what a list blocks, and block what it does not; wait until both hold."""
    _write(lab, "grant('host', 'other1.test', 3600.0, how='x', by='x')", _block("bad.test"))
    _wait_for_both(lab)


def _wait_for_both(lab: Lab) -> None:
    wait_until(lambda: (status(lab, "other1.test"), status(lab, "bad.test")) == (200, 403))


def _disk_fails(folder: Path, origin: Origin) -> str:
    """A file system with errors can only be read from then on; its proxy goes on, and another has all that it kept."""
    image = folder.with_name(f"{folder.name}-image")
    with image.open("wb") as file:
        file.truncate(64 << 20)
    lab = Lab(folder, origin, settings=_ON_DISK)
    disk = _with_a_disk(lab, f"-o loop,errors=remount-ro {image}") if _made(image) else None
    if disk is None:
        raise NotHereError("no file system can be made")
    with lab.running():
        _unblocked_and_blocked(lab)
        start = len(lab.proxy.log)
        (device,) = {line.split()[0] for line in _mounts(lab) if line.split()[1] == str(disk)}
        trigger = Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error")
        if not trigger.exists():
            raise NotHereError("no error can be made in a file system")
        trigger.write_text("tried")
        with suppress(OSError):
            _seen_by(lab, disk / "new").write_text("")
            raise AssertionError("it can be written")
        for number in range(50):
            assert lab.proxy.get(f"http://good.test/lost/{number}").status_code == 200
        assert (lab.seen(), status(lab, "bad.test"), status(lab, "other1.test")) == (DECIDES, 403, 200)
        lab.wait_for("the log cannot be written", start)
        lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
        changed = wait_until(lambda: status(lab, "new.test") == 403, AGAIN)
        lab.wait_for("every start compiles anew", start)
        assert (status(lab, "bad.test"), status(lab, "other1.test")) == (403, 200)
        assert "Traceback" not in lab.proxy.log.text(start)
        stopping = lab.proxy.log
    assert "Traceback" not in stopping.text(start), stopping.text(start)
    subprocess.run(["fsck.ext4", "-fy", str(image)], capture_output=True, check=False)
    with lab.running():
        _wait_for_both(lab)
        assert lab.seen("/again") == DECIDES
        wait_until(lambda: len(_lines(_seen_by(lab, lab.log), "/again")) == 2)
        return f"a change holds {changed:.0f} s later, blocks and unblocks hold, also at the next start"


def _made(image: Path) -> bool:
    done = subprocess.run(["mkfs.ext4", "-q", str(image)], capture_output=True, check=False, env=_WITH_SBIN)
    return done.returncode == 0


_WITH_SBIN = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def _mounts(lab: Lab) -> list[str]:
    return Path(f"/proc/{lab.proxy.process.pid}/mounts").read_text().splitlines()


def _disk_is_read_only_for_a_while(folder: Path, origin: Origin) -> str:
    """No file can be made or opened for writing, and later all can be; nothing is lost of what fits into memory."""
    lab = Lab(folder, origin, settings=_ON_DISK)
    disk = _with_a_disk(lab, "-t tmpfs none")
    with lab.running():
        _unblocked_and_blocked(lab)
        start = len(lab.proxy.log)
        inside = ["nsenter", f"--target={lab.proxy.process.pid}", "--mount"]
        subprocess.run([*inside, "mount", "--bind", str(disk), str(disk)], check=True)
        subprocess.run([*inside, "mount", "-o", "remount,bind,ro", str(disk)], check=True)
        for number in range(300):
            assert lab.proxy.get(f"http://good.test/kept/{number}").status_code == 200
        assert (lab.seen(), status(lab, "bad.test")) == (DECIDES, 403)
        lab.wait_for("the log cannot be written", start)
        lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
        wait_until(lambda: status(lab, "new.test") == 403, AGAIN)
        assert (status(lab, "bad.test"), status(lab, "other1.test")) == (403, 200)
        subprocess.run([*inside, "umount", str(disk)], check=True)
        back = wait_until(lambda: len(_lines(_seen_by(lab, lab.log), "/kept/")) == 300)
        lab.wait_for("the log can be written again", start)
        kept = _lines(_seen_by(lab, lab.log), "/kept/")
        assert sorted(kept) == sorted(f"http://good.test/kept/{number}" for number in range(300))
        _write(lab, _block("worse.test"))
        wait_until(lambda: status(lab, "worse.test") == 403)
        assert "Traceback" not in lab.proxy.log.text(start)
        return f"300 records arrive {back:.0f} s after it can be written, each once; blocks and unblocks hold"


# -- a cache that vanishes ---------------------------------------------------------------------------------------------


def _cache_vanishes(folder: Path, origin: Origin) -> str:
    """While it runs, at a change, and all the time; a fetched list stays in force though its server is gone."""
    with HttpsOrigin(folder.with_name(f"{folder.name}-lists")) as publisher, ExitStack() as stack:
        publisher.pages["/list"] = Page(b"first.test\n")
        stack.enter_context(environment({"SSL_CERT_FILE": str(publisher.authority)}))
        source = {"url": f"{publisher.url}/list", "format": "domains"}
        lab = Lab(folder, origin, settings={"layers": [{"name": "lists", "lists": ["rules.yaml", source]}]})
        stack.enter_context(lab.running())
        publisher.pages["/list"] = Page(b"away", 503)
        start = len(lab.proxy.log)
        shutil.rmtree(lab.caches)
        assert (lab.seen(), status(lab, "first.test")) == (DECIDES, 403)
        lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
        lab.wait_for("there is no copy of it yet", start)
        assert (lab.seen(), status(lab, "first.test")) == (DECIDES, 403)
        publisher.pages["/list"] = Page(b"first.test\n")
        _update(lab)  # the proxy itself tries again a quarter of an hour after the fault
        fetched = wait_until(lambda: status(lab, "new.test") == 403, AGAIN)
        assert status(lab, "first.test") == 403
        over = threading.Event()

        def remove() -> None:
            while not over.wait(0.01):
                shutil.rmtree(lab.caches, ignore_errors=True)

        thread = threading.Thread(target=remove)
        thread.start()
        try:
            lab.list.write_bytes(lab.list.read_bytes() + b"- newer.test/\n")
            for _ in range(20):
                assert (lab.seen(), status(lab, "first.test")) == (DECIDES, 403)
                time.sleep(0.2)
        finally:
            over.set()
            thread.join()
        wait_until(lambda: status(lab, "newer.test") == 403, AGAIN)
        assert (lab.seen(), status(lab, "first.test")) == (DECIDES, 403)
        assert "Traceback" not in lab.proxy.log.text(start)
        return f"what is in force stays; with the server back, the change holds {fetched:.0f} s later"


def _update(lab: Lab) -> None:
    """Fetch the lists now, as a person does."""
    own = {**os.environ, "PYTHONPATH": str(FILTER.parent), "XDG_CACHE_HOME": str(lab.caches)}
    command = [sys.executable, "-m", "hushlist", "update", "--policy", str(lab.policy)]
    subprocess.run(command, check=True, capture_output=True, env=own)


# -- two proxies on one store ------------------------------------------------------------------------------------------


def _at(proxy: Proxy, minutes: int) -> None:
    """Set the clock to so many minutes after noon; it goes on."""
    fast = NOON.timestamp() + 60 * minutes - time.time()
    assert proxy.get(f"http://clock.test/?fast={fast}").status_code == 204


def _two_on_one_store(folder: Path, origin: Origin) -> str:
    """Unblocks, blocks, a code, quotas and records of both are right; one is killed under load, the other goes on."""
    policy = policy_of(folder)
    policy.write_text(policy.read_text().replace("folder: log", "folder: log\n  what: all"))
    write_list(folder / "ads.yaml", "ads.test/", "granted.test/", "coded.test/")
    policy.write_text(policy.read_text().replace("  - games.yaml\n", "  - games.yaml\n  - ads.yaml\n"))
    store = folder / "state" / "hushlist" / "overrides.sqlite"
    with ExitStack() as stack:
        places = {f"XDG_{name.upper()}_HOME": str(folder / name) for name in ("state", "cache")}
        stack.enter_context(environment(places))
        both = list[Proxy]()
        running = list[ExitStack]()
        for name in ("one", "two"):
            (folder / name).mkdir()
            own = stack.enter_context(ExitStack())
            both.append(own.enter_context(mitmdump(folder / name, origin, policy=policy, scripts=["clock.py"])))
            running.append(own)
        first, second = both

        def seen(host: str) -> list[int]:
            return [proxy.get(f"http://{host}/").status_code for proxy in both]

        for proxy in both:
            _at(proxy, 0)
        with Overrides(store, NOON.timestamp) as overrides:
            overrides.grant("host", "granted.test", 3600.0, how="x", by="x")
            blocked = overrides.block("host", "bad.test", None, by="x")
            code = overrides.make_code("host", 3600.0)
            assert wait_until(lambda: (seen("granted.test"), seen("bad.test")) == ([200, 200], [403, 403])) < PATIENCE
            overrides.end_block(blocked.id, by="x")
        wait_until(lambda: seen("bad.test") == [200, 200])
        gate = threading.Barrier(2)

        def enter(proxy: Proxy) -> int:
            with proxy.client() as client:
                action, token = form_of(client.get("http://coded.test/"))
                gate.wait(PATIENCE)
                return client.post(action, data={"token": token, "code": code}).status_code

        with ThreadPoolExecutor(2) as threads:
            entered = sorted(threads.map(enter, both))
        assert entered == [303, 403], entered
        wait_until(lambda: seen("coded.test") == [200, 200])
        for proxy in both:
            _at(proxy, 0)
        # two minutes: the first by both, which counts once, the second by one of them
        assert seen("game.test") == [200, 200]
        for proxy in both:
            _at(proxy, 1)
        assert second.get("http://game.test/").status_code == 200
        for proxy in both:
            _at(proxy, 2)
        quota = wait_until(lambda: seen("game.test") == [403, 403], AGAIN)
        asked = [set[str](), set[str]()]

        def ask(number: int) -> None:
            for path in range(200):
                with suppress(httpx.TransportError):  # of the one that is killed
                    url = f"http://good.test/load/{number}-{path}"
                    assert both[number].get(url).status_code == 200
                    asked[number].add(url)
                if not number and path == 100:
                    first.process.kill()
                    return

        with ThreadPoolExecutor(2) as threads:
            assert [*threads.map(ask, range(2))] == [None, None]
        assert len(asked[1]) == 200
        assert [second.get(f"http://{host}.test/").status_code for host in ("granted", "ads", "game")] == [
            200,
            403,
            403,
        ]
        with suppress(Exception):
            running[0].close()
        again = stack.enter_context(mitmdump(folder / "one", origin, policy=policy, scripts=["clock.py"]))
        _at(again, 2)
        both[0] = again
        wait_until(lambda: (seen("granted.test"), seen("game.test")) == ([200, 200], [403, 403]), AGAIN)
        wait_until(lambda: asked[1] <= set(_lines(folder / "log", "/load/")))
        lines = _lines(folder / "log", "/load/")
        assert len(lines) == len(set(lines)), "a record is there twice"
        lost = asked[0] - set(lines)
        rows = sqlite_urls(folder / "log")
        assert sorted(rows) == sorted(lines), (len(rows), len(lines))
        for proxy in (second, again):
            assert "Traceback" not in proxy.log.text()
        records = f"of {len(lines)} records none is there twice, and {len(lost)} of the killed one are lost"
        return f"a code is good once, the quota holds at both after {quota:.0f} s; {records}"


def _lines(folder: Path, word: str) -> list[str]:
    """The URLs with a word in the files of lines of a folder."""
    lines = [line for file in read_newest_first(folder) for line in file]
    return [url for url in (str(json.loads(line).get("url")) for line in lines) if word in url]


def sqlite_urls(folder: Path) -> list[str]:
    records = newest_records(folder, LogFilters(), 1_000_000)
    return [str(record["url"]) for record in records if "/load/" in str(record.get("url"))]


# -- logrotate ---------------------------------------------------------------------------------------------------------


def _documented() -> str:
    """The configuration that the page about the log has."""
    (found,) = re.findall(r"```logrotate\n(.*?)```", (CHECKOUT / "rules" / "log.md").read_text(), re.DOTALL)
    return str(found)


def _rotated(folder: Path, origin: Origin, how: str, *before: str) -> str:
    """Under load, by the documented configuration; ``before`` is what starts logrotate."""
    program = shutil.which("logrotate", path=_WITH_SBIN["PATH"])
    if program is None:
        raise NotHereError("not installed: logrotate")
    lab = Lab(folder, origin)
    configuration = folder / "logrotate.conf"
    text = re.sub(r"^/\S+/(?=decisions)", f"{lab.log}/", _documented(), flags=re.MULTILINE)
    assert str(lab.log) in text
    configuration.write_text(text.replace("create", how))
    configuration.chmod(0o644)
    places = [part.format(lab.log) for part in before]
    command = [*places, program, "--force", "--state", str(folder / "rotated"), str(configuration)]
    over = threading.Event()

    def ask(number: int) -> set[str]:
        asked = set[str]()
        while not over.is_set():
            url = f"http://good.test/load/{number}-{len(asked)}"
            assert lab.proxy.get(url).status_code == 200
            asked.add(url)
        return asked

    with lab.running(), ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, number) for number in range(2)]
        try:
            wait_until((lab.log / "decisions.jsonl").exists)
            for _ in range(_ROTATIONS):
                done = subprocess.run(command, check=False, capture_output=True, text=True)
                assert (done.returncode, done.stderr) == (0, ""), done.stderr
                time.sleep(1.1)  # the names have seconds
        finally:
            over.set()
        expected = asking[0].result() | asking[1].result()
        said = lab.proxy.log
    assert "the log cannot be written" not in said.text()
    lines, files = _lines(lab.log, "/load/"), len([*lab.log.glob("decisions*.jsonl*")])
    assert set(lines) == expected, f"{len(expected - set(lines))} of {len(expected)} are lost"
    assert len(lines) == len(expected)
    assert files > _ROTATIONS
    return f"{len(lines)} lines in {files} files, under load: none lost, torn or twice"


_ROTATIONS = 10


def _renamed(folder: Path, origin: Origin) -> str:
    return _rotated(folder, origin, "create")


def _truncated(folder: Path, origin: Origin) -> str:
    return _rotated(folder, origin, "copytruncate", "flock", "{}/decisions.lock")


# -- another machine ---------------------------------------------------------------------------------------------------


def _moved(folder: Path, origin: Origin) -> str:
    """The folders that the page names are all that another machine needs, also after the power was cut."""
    old, new = Lab(folder / "old", origin), folder / "new"
    admin = old.store.with_name("admin.sqlite")
    with old.running(), Overrides(old.store, time.time) as overrides, AdminStore(admin, time.time) as administrators:
        administrators.record(Account("jo", Role.MANAGE, ""), "blocked", {"target": "bad.test"})
        token = administrators.make_bearer("program", Role.VIEW, 3600.0, by="jo")
        overrides.grant("host", "other1.test", 3600.0, how="x", by="x")
        overrides.block("host", "bad.test", None, by="x")
        code = overrides.make_code("host", 3600.0)
        _wait_for_both(old)
        old.proxy.get("http://good.test/before")
        wait_until(lambda: _lines(old.log, "/before"))
        for path in (old.store, admin):
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(folder / path.name)) as copy:
                source.backup(copy)
        old.proxy.process.kill()  # while the store is open: what was written last is in -wal
        old.proxy.process.wait(PATIENCE)
        assert all(path.with_name(f"{path.name}-wal").stat().st_size for path in (old.store, admin))
        moved = Lab(new, origin)
        shutil.copytree(old.state, moved.state)
    for name in ("policy.yaml", "rules.yaml"):
        shutil.copy(old.folder / name, new / name)
    shutil.copytree(old.log, moved.log)
    shutil.rmtree(old.folder)
    for _ in ("the folders", "a copy by SQLite"):
        with moved.running() as proxy:
            assert proxy is not None, moved.said
            _wait_for_both(moved)
            assert moved.seen() == DECIDES
            assert _lines(moved.log, "/before")
            assert newest_records(moved.log, LogFilters(host="good.test"), 1)
            with AdminStore(moved.store.with_name("admin.sqlite"), time.time) as administrators:
                assert [(own.who, own.what) for own in administrators.recorded()] == [("jo", "blocked")]
                assert administrators.bearer(token, "127.0.0.1") is not None
            with Overrides(moved.store, time.time) as overrides:
                assert [block.target for block in overrides.blocks()] == ["bad.test"]
                assert "other1.test" in [grant.target for grant in overrides.active(time.time())]
                overrides.redeem(code, "192.0.2.1", {"host": "other2.test"})
        for path in (moved.store, moved.store.with_name("admin.sqlite")):
            for own in moved.store.parent.glob(f"{path.name}*"):
                own.unlink()
            shutil.copy(folder / path.name, path)
    return "unblocks, blocks, codes, administrators and the log are there, by copied folders and by SQLite's copy"


# -- the package is updated --------------------------------------------------------------------------------------------


def _wheel(folder: Path, version: str) -> Path:
    """A wheel of this checkout's package that says it is a version; another version has other code, too."""
    package, path = FILTER.parent / "hushlist", folder / f"hushlist-{version}-py3-none-any.whl"
    about, record = f"hushlist-{version}.dist-info", list[str]()
    with zipfile.ZipFile(path, "w") as wheel:

        def add(name: str, octets: bytes) -> None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(octets)}\n")
            wheel.writestr(name, octets)

        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                more = f"\n#: of version {version}\n".encode() if file.suffix == ".py" else b""
                add(str(file.relative_to(package.parent)), file.read_bytes() + more)
        add(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: hushlist\nVersion: {version}\n".encode())
        add(f"{about}/WHEEL", b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "".join(record) + f"{about}/RECORD,,\n")
    return path


def _updated_under_load(folder: Path, origin: Origin) -> str:
    """By pip, while clients ask for all that reads files of the package; the next start has the new version."""
    lab, place = Lab(folder, origin), folder / "installed"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "--upgrade"]
    own = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*install, str(_wheel(folder, "90.1"))], check=True, capture_output=True, env=own)
    lab.command = ("env", "-u", "PYTHONPATH", str(python))
    over, asked = threading.Event(), Counter[str]()
    languages = sorted(path.stem for path in (FILTER.parent / "hushlist").rglob("texts/*.json"))
    pages = [("http://ads.test/", 403), ("http://good.test/", 200), ("http://hushlist.internal/", 200)]
    pages += [(f"http://hushlist.internal/{path}", 200) for path in ("setup", "metrics", "history", "healthz")]

    def ask() -> list[tuple[str, str]]:
        wrong = list[tuple[str, str]]()
        while not over.is_set():
            for language, (url, expected) in product(languages, pages):
                if over.is_set():
                    break
                try:
                    seen = str(lab.proxy.get(url, {"Accept-Language": language}).status_code)
                except httpx.TransportError as error:
                    seen = repr(error)
                asked[url] += 1
                if seen != str(expected):
                    wrong.append((f"{url} {language}", seen))
        return wrong

    with lab.running() as proxy, ThreadPoolExecutor(2) as threads:
        assert proxy is not None, lab.said
        start = len(lab.proxy.log)
        asking = [threads.submit(ask) for _ in range(2)]
        try:
            wait_until(lambda: sum(asked.values()) > 20)
            subprocess.run([*install, str(_wheel(folder, "90.2"))], check=True, capture_output=True, env=own)
            lab.wait_for("the package on the disk is gone, or is another", start)
            lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
            lab.wait_for(NOT_USED, start)
            enough = sum(asked.values()) + 2 * len(languages) * len(pages)
            wait_until(lambda: sum(asked.values()) > enough, 2 * PATIENCE)
        finally:
            over.set()
        wrong = asking[0].result() + asking[1].result()
        assert not wrong, wrong
        assert (lab.seen(), status(lab, "new.test")) == (DECIDES, 200)
        assert "Traceback" not in lab.proxy.log.text(start)
    with lab.running() as proxy:
        assert proxy is not None, lab.said
        assert (lab.seen(), status(lab, "new.test")) == (DECIDES, 403)
        assert "the package on the disk is" not in lab.proxy.log.text()
    return f"{sum(asked.values())} answers under load, none lost or wrong; the next start has the change"


TRIALS = (
    Trial("compiling is killed once", _compiling_is_killed),
    Trial("fetching a list is killed once", _fetching_is_killed),
    Trial("the command of a notice is killed once", _command_of_a_notice_is_killed),
    Trial("a worker of a start is killed", _worker_of_a_start_is_killed),
    Trial("the disk has errors, and can only be read", _disk_fails),
    Trial("the disk can only be read for a while", _disk_is_read_only_for_a_while),
    Trial("the cache vanishes, again and again", _cache_vanishes),
    Trial("two proxies have one store, and one is killed", _two_on_one_store),
    Trial("logrotate renames the log", _renamed),
    Trial("logrotate copies and truncates the log", _truncated),
    Trial("pip updates the package under load", _updated_under_load),
    Trial("all is copied to another machine", _moved),
)


def main() -> int:
    """Print a line for each trial whose name has the words that are given."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # the origin, of connections that a killed proxy left
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
                steps = traceback.extract_tb(error.__traceback__)
                places = [str(step.lineno) for step in steps if step.filename == __file__]
                seen = f"WRONG: {error!r}"[:3000] + f" (lines {', '.join(places)})"
        print(f"{trial.name:<48} {time.monotonic() - begun:>4.0f} s  {seen}", file=sys.stderr, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
