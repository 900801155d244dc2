"""The faults: what is done to a lab, and what is expected of requests then, where the policy says closed, and open."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from e2e.policies import replace
from e2e.proxy import PATIENCE, request_head
from faults.lab import DECIDES, ENDS, PASSES, REFUSES, UNANSWERED, Lab
from faults.peers import FILE, report, scanner, scanner_away
from hushlist.core.system.files import LONGEST_DOCUMENT
from hushlist.proxy.service.script_watch import STAYS
from support.scanners import SpoiledClamd, says

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: seconds of mitmdump's processor time that another client may wait for
_LONGEST_WAIT = 2.0
NOT_USED = "the change is not used"
HELD_BACK = "list: held back: "
CHANGED = "somebody has changed it while it was in use"
UNFILTERED = "NOTHING IS FILTERED"


class NotHereError(Exception):
    """A fault that cannot be had on this machine."""


@dataclass(frozen=True)
class Fault:
    """One way to fail."""

    name: str
    #: does it to a lab, and undoes it
    inject: Callable[[Lab], AbstractContextManager[None]]
    closed: str = DECIDES
    open: str = DECIDES
    #: the path that is asked for meanwhile
    path: str = "/"
    #: the file that is uploaded there
    sends: bytes = b""
    #: seconds that a client waits for an answer
    patience: float = PATIENCE
    #: words that mitmdump says, where it starts, and where it does not
    says: str = ""
    #: whether it is there before mitmdump starts
    at_start: bool = False

    def expected(self, choice: str) -> str:
        """What becomes of requests."""
        return self.closed if choice == "closed" else self.open


@contextmanager
def _nothing(_: Lab) -> Iterator[None]:
    yield


# -- while it runs -----------------------------------------------------------------------------------------------------


def _changed(change: Callable[[Lab], object], words: str = NOT_USED) -> Callable[[Lab], AbstractContextManager[None]]:
    """A change of files that mitmdump speaks of, taken back afterwards."""

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        start = len(lab.proxy.log)
        change(lab)
        lab.wait_for(words, start)
        yield
        lab.restore()

    return inject


def _list_replaced(octets: bytes) -> Callable[[Lab], AbstractContextManager[None]]:
    """What is fetched in place of a list by somebody else is none."""

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        start, known = len(lab.proxy.log), {*lab.cache.iterdir()}
        lab.policy.write_text(lab.policy.read_text().replace("- rules.yaml", "- more.hosts"))
        replace(lab.folder / "more.hosts", "0.0.0.0 ads.test\n")
        lab.wait_for("1 rule of 2 files", start)
        (lab.folder / "more.hosts").write_bytes(octets)
        lab.wait_for(HELD_BACK, start)
        yield
        lab.restore()
        for index in {*lab.cache.iterdir()} - known:
            index.unlink()

    return inject


def _import_another(script: Path) -> None:
    script.write_text(script.read_text().replace("import Hushlist", "import Hushlist, SomethingNew"))


def _break_policy(lab: Lab) -> None:
    lab.policy.write_text("layers: [\n")


def _cut_database(lab: Lab) -> None:
    if find_spec("maxminddb") is None:
        raise NotHereError("the package maxminddb")
    (lab.folder / "places.mmdb").write_bytes(bytes(1 << 12) + b"\xab\xcd\xefMaxMind")
    check = "country: {action: block, in: [KP], database: places.mmdb}"
    lab.policy.write_text(lab.policy.read_text() + f"- name: places\n  checks:\n    {check}\n")


def _make_list_a_pipe(lab: Lab) -> None:
    lab.list.unlink()
    os.mkfifo(lab.list)


def _make_list_too_long(lab: Lab) -> None:
    os.truncate(lab.list, LONGEST_DOCUMENT + 1)


def _script(change: Callable[[Path], object]) -> Callable[[Lab], AbstractContextManager[None]]:
    """A change of the script that has the filter, taken back afterwards."""

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        start, text = len(lab.proxy.log), lab.script.read_text()
        change(lab.script)
        lab.wait_for(STAYS, start)
        yield
        lab.script.parent.mkdir(exist_ok=True)
        lab.script.write_text(text)
        lab.wait_for("it is again as it was loaded", start)

    return inject


@contextmanager
def _index_removed(lab: Lab) -> Iterator[None]:
    lab.index().unlink()
    yield
    lab.restore()


@contextmanager
def _index_replaced(lab: Lab) -> Iterator[None]:
    other = lab.folder / "other"
    other.write_bytes(bytes(5000))
    other.replace(lab.index())
    yield
    lab.restore()


def _index_spoiled(spoil: Callable[[Path], object]) -> Callable[[Lab], AbstractContextManager[None]]:
    """The index is written to, and cannot be compiled anew, since the policy is broken too."""

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        start = len(lab.proxy.log)
        index = lab.index()
        _break_policy(lab)
        lab.wait_for(NOT_USED, start)
        spoil(index)
        lab.wait_for(CHANGED, start)
        yield
        lab.restore()

    return inject


def _overwrite(index: Path) -> None:
    index.write_bytes(bytes(index.stat().st_size))


def _make_empty(index: Path) -> None:
    os.truncate(index, 0)


@contextmanager
def _store_locked(lab: Lab) -> Iterator[None]:
    with closing(sqlite3.connect(lab.store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def _store_spoiled(lab: Lab) -> Iterator[None]:
    spoiled = lab.store.with_name("spoiled")
    spoiled.write_bytes(b"no database" * 1000)
    spoiled.replace(lab.store)
    yield
    lab.store.unlink()


@contextmanager
def _store_gone(lab: Lab) -> Iterator[None]:
    shutil.rmtree(lab.store.parent)
    lab.store.parent.write_text("a file")
    yield
    lab.store.parent.unlink()


@contextmanager
def _log_gone(lab: Lab) -> Iterator[None]:
    start = len(lab.proxy.log)
    file = lab.folder / "file"
    file.write_text("a file")
    while not lab.log.is_file():  # the log makes its folder again whenever it writes
        shutil.rmtree(lab.log, ignore_errors=True)
        with suppress(IsADirectoryError):
            file.replace(lab.log)
    lab.seen()
    lab.wait_for("the log cannot be written", start)
    yield
    lab.log.unlink()


@contextmanager
def _no_file_grows(lab: Lab) -> Iterator[None]:
    if resource is None or not hasattr(resource, "prlimit"):
        raise NotHereError("limits of another process are Linux's")
    pid = lab.proxy.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def _disks_full_meanwhile(lab: Lab) -> Iterator[None]:
    """No file may grow: neither the log, nor what a change of a list needs."""
    start = len(lab.proxy.log)
    with _no_file_grows(lab):
        lab.list.write_bytes(lab.list.read_bytes() + b"- new.test/\n")
        lab.wait_for(NOT_USED, start)
        yield
    lab.restore()


@contextmanager
def _own_limits(lab: Lab) -> Iterator[None]:
    """Limits that no other mitmdump has: so what compiles is started as a command."""
    pid = lab.proxy.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def _no_descriptors(lab: Lab) -> Iterator[None]:
    if resource is None or not hasattr(resource, "prlimit"):
        raise NotHereError("limits of another process are Linux's")
    pid = lab.proxy.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # none, whichever are given back meanwhile; those that are open stay so
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def _few_descriptors_for_reading(lab: Lab) -> Iterator[None]:
    """Connections are accepted, but nothing can be compiled: a change comes while there is nothing to start it with."""
    start = len(lab.proxy.log)
    with _no_descriptors(lab):
        lab.mend()
        lab.wait_for(NOT_USED, start)
    yield
    lab.restore()


@contextmanager
def _compiling_killed(lab: Lab) -> Iterator[None]:
    start = len(lab.proxy.log)
    with _killer(lab.policy), _own_limits(lab):
        lab.list.write_bytes(lab.list.read_bytes() + b"  - new.test/\n")
        lab.wait_for("ended with code", start)
    yield
    lab.restore()


@contextmanager
def _killer(policy: Path) -> Iterator[None]:
    """Kills what compiles a policy, as a machine without memory does."""
    if not Path("/proc/self/cmdline").exists():
        raise NotHereError("there is no /proc")
    done = threading.Event()
    others = {*Path("/proc").glob("[0-9]*")}  # not to look at all of them again while it starts

    def kill() -> None:
        own = os.fsencode(policy)
        while not done.wait(0.005):
            for process in {*Path("/proc").glob("[0-9]*")} - others:
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    if b"hushlist.core.compile.background_compiler" in words and own in words:
                        os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    continue

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _processor_time(process: int) -> float:
    """Seconds that another process has used so far; they pass as fast on a busy machine."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        raise NotHereError("there is no /proc") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _long_url(lab: Lab) -> Iterator[None]:
    """A URL of 8 MiB that is as much work as one can be, to what is allowed, while another client asks.

    It is cut off.
    """
    target = b"http://good.test/" + b"%2e%2e/%25%32%66;a\\%c0%af%u002e" * (8 << 15)

    def ask() -> None:
        with suppress(ConnectionError):
            other.sendall(request_head(target, b"good.test"))

    with lab.proxy.connect() as other, lab.origin.watch() as arrived:
        thread = threading.Thread(target=ask)
        start, slowest = time.monotonic(), 0.0
        thread.start()
        while thread.is_alive() or not select.select([other], [], [], 0)[0]:
            begun = _processor_time(lab.proxy.process.pid)
            lab.proxy.get("http://ads.test/")
            slowest = max(slowest, _processor_time(lab.proxy.process.pid) - begun)
            assert time.monotonic() - start < 2 * PATIENCE, "it gets no answer"
        thread.join()
        with suppress(ConnectionError):
            assert not other.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert slowest < _LONGEST_WAIT, f"another client waited for {slowest:.1f} s"
        assert not arrived.requests
    yield


# -- at the start ------------------------------------------------------------------------------------------------------


@contextmanager
def _list_broken(lab: Lab) -> Iterator[None]:
    lab.break_list()
    yield
    lab.mend()


@contextmanager
def _policy_no_yaml(lab: Lab) -> Iterator[None]:
    lab.policy.write_text(f"on-failure: {lab.choice}\nlayers: [\n")
    yield


@contextmanager
def _policy_missing(lab: Lab) -> Iterator[None]:
    lab.policy.unlink()
    yield


@contextmanager
def _cache_is_file(lab: Lab) -> Iterator[None]:
    lab.caches.write_text("a file")
    yield
    assert [*lab.temporary.glob("hushlist-*")] == []


@contextmanager
def _cache_of_all(lab: Lab) -> Iterator[None]:
    lab.cache.mkdir(parents=True)
    lab.cache.chmod(0o777)
    yield
    assert [*lab.cache.iterdir()] == []


@contextmanager
def _cache_is_link(lab: Lab) -> Iterator[None]:
    """Somebody who can write beside the cache has made it a link to another folder of the same user's."""
    photos = lab.folder / "photos"
    photos.mkdir(mode=0o700)
    for number in range(6):
        old = photos / f"{number:064x}.index"
        old.touch()
        os.utime(old, (0, 0))
    lab.caches.mkdir()
    lab.cache.symlink_to(photos, target_is_directory=True)
    yield
    assert len([*photos.iterdir()]) == 6


@contextmanager
def _cache_full(lab: Lab) -> Iterator[None]:
    """A disk of the cache's own, of 16 KiB."""
    lab.caches.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(lab.caches)]
    if not hasattr(os, "geteuid") or os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        raise NotHereError("only root mounts a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(lab.caches)], capture_output=True, check=True)


@contextmanager
def _index_corrupt(lab: Lab) -> Iterator[None]:
    """What was compiled before is damaged."""
    with lab.running():
        pass
    index = lab.index()
    octets = bytearray(index.read_bytes())
    octets[len(octets) // 2] ^= 0xFF
    index.write_bytes(octets)
    yield


@contextmanager
def _state_is_file(lab: Lab) -> Iterator[None]:
    lab.state.write_text("a file")
    yield


@contextmanager
def _log_is_file(lab: Lab) -> Iterator[None]:
    """The log's folder is a file, before a proxy runs."""
    lab.log.write_text("a file")
    yield
    lab.log.unlink()


def _damaged(place: Callable[[Lab], Path]) -> Callable[[Lab], AbstractContextManager[None]]:
    """A file of SQLite is none any more, before a proxy runs."""

    @contextmanager
    def inject(lab: Lab) -> Iterator[None]:
        path = place(lab)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(b"no database" * 1000)
        yield
        (aside,) = path.parent.glob(f"{path.name}.damaged-*Z")
        aside.unlink()

    return inject


@contextmanager
def _log_disk_full(lab: Lab) -> Iterator[None]:
    """The log is on a disk that is full, before a proxy runs."""
    lab.log.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(lab.log)]
    if not shutil.which("mount") or subprocess.run(command, check=False, capture_output=True).returncode:
        raise NotHereError("nothing can be mounted")
    try:
        (lab.log / "filler").write_bytes(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(lab.log)], check=True)


@contextmanager
def _log_database_away(lab: Lab) -> Iterator[None]:
    """Log and store are in a database where nobody listens, before a proxy runs."""
    address = "postgresql://hushlist@127.0.0.1:9/hushlist"
    text = lab.policy.read_text().replace("  folder: log\n", f"  folder: log\n  to: {address}\n")
    replace(lab.policy, f"store: {address}\n{text}")
    yield


@contextmanager
def _disks_full(lab: Lab) -> Iterator[None]:
    """No file may become longer than mitmdump's own are."""
    if resource is None:
        raise NotHereError("limits are POSIX's")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _first_killed(lab: Lab) -> Iterator[None]:
    lab.command = ("env",)
    with _killer(lab.policy):
        yield


FAULTS = (
    Fault("an exception in a decision", _nothing, REFUSES, PASSES, path="/explode", says="raised by the test"),
    Fault("no memory for a decision", _nothing, REFUSES, PASSES, path="/exhaust", says="MemoryError"),
    Fault("an exception in a note on a request", _nothing, REFUSES, path="/unnoted", says="raised by the test"),
    Fault("an exception in a block page", _nothing, path="/unpaged", says="raised by the test"),
    Fault(
        "a list is broken",
        _changed(Lab.break_list, HELD_BACK),
        says="held back: it cannot be read: rules.yaml:2: ",
    ),
    Fault("a list is a pipe", _changed(_make_list_a_pipe, HELD_BACK), says="rules.yaml: it is no regular file"),
    Fault(
        "a list is too long",
        _changed(_make_list_too_long, HELD_BACK),
        says="rules.yaml: it is longer than 16,777,216 octets",
    ),
    *(
        Fault(f"a list is replaced by {what}", _list_replaced(octets), says=says)
        for what, octets, says in (
            (
                "a web page",
                b"\n<!DOCTYPE html>\n<title>Log in</title>\n",
                "held back: it cannot be read: more.hosts:2: <!DOCTYPE html>: ",
            ),
            ("a message", b"Too many requests\n", "held back: nothing in it can be used, and it had 1 rule"),
            ("nothing", b"", "held back: nothing in it can be used, and it had 1 rule"),
            ("its head", b"# Title: more\n", "held back: nothing in it can be used, and it had 1 rule"),
        )
    ),
    Fault("the policy is broken", _changed(_break_policy), says="policy.yaml:2: "),
    Fault("a database of countries is cut off", _changed(_cut_database), says="in MaxMind's format, or not whole"),
    Fault("the policy is removed", _changed(lambda lab: lab.policy.unlink()), says="No such file or directory"),
    Fault("the script is removed", _script(Path.unlink), says="it is gone"),
    Fault("the script's folder is removed", _script(lambda path: shutil.rmtree(path.parent)), says="it is gone"),
    Fault("the script is half written", _script(lambda path: path.write_text("")), says="it puts no Hushlist"),
    Fault("the script has a mistake", _script(lambda path: path.write_text("def (")), says="SyntaxError"),
    Fault("the script is another version's", _script(_import_another), says="ImportError"),
    Fault("compiling is killed", _compiling_killed, says="ended with code -9"),
    Fault("the index in use is removed", _index_removed),
    Fault("the index in use is replaced", _index_replaced),
    Fault("the index in use is written over", _index_spoiled(_overwrite), REFUSES, PASSES, says=CHANGED),
    Fault("the index in use is made empty", _index_spoiled(_make_empty), REFUSES, PASSES, says=CHANGED),
    Fault("the store is locked", _store_locked),
    Fault("the store is damaged", _store_spoiled),
    Fault("the store is gone, and cannot be made", _store_gone),
    Fault("the log cannot be written", _log_gone, says="the log cannot be written"),
    Fault("every disk is full", _disks_full_meanwhile, says="No usable temporary directory"),
    Fault("no file can be opened", _no_descriptors, REFUSES, REFUSES, says="Too many open files", patience=UNANSWERED),
    Fault("no file can be opened for a change", _few_descriptors_for_reading, says="Too many open files"),
    Fault("somebody asks for a URL of 8 MiB", _long_url),
    *(
        Fault(f"a scanner {what}", scanner(does, words), REFUSES, sends=FILE)
        for what, does, words in (
            ("hangs", SpoiledClamd.hang, "the scanner has not answered within"),
            ("dies in the middle", SpoiledClamd.die, "the scanner cannot be asked"),
            ("answers nonsense", says(b"<html>\0"), "the scanner says: <html>"),
            ("answers without end", says(b"stream: OK" * (1 << 16)), "the scanner's answer cannot be read"),
            ("goes away", None, "the scanner cannot be asked"),
        )
    ),
    Fault("a report, while the store is damaged", report(_store_spoiled)),
    Fault("a report, while every disk is full", report(_no_file_grows)),
    Fault("start: a list is broken", _list_broken, ENDS, PASSES, says="rules.yaml:2: ", at_start=True),
    Fault("start: the policy is no YAML", _policy_no_yaml, ENDS, ENDS, says="policy.yaml:3: ", at_start=True),
    Fault("start: there is no policy", _policy_missing, ENDS, ENDS, says="No such file", at_start=True),
    Fault("start: compiling is killed", _first_killed, ENDS, PASSES, says="ended with code -9", at_start=True),
    Fault("start: every disk is full", _disks_full, ENDS, PASSES, says="File too large", at_start=True),
    Fault("start: the cache's disk is full", _cache_full, says="No space left on device", at_start=True),
    Fault("start: the cache is a file", _cache_is_file, says="every start compiles anew", at_start=True),
    Fault("start: the cache is a link", _cache_is_link, says="it is a link, which is not followed", at_start=True),
    Fault("start: all can write to the cache", _cache_of_all, says="other users can write there", at_start=True),
    Fault("start: the index is damaged", _index_corrupt, at_start=True),
    Fault("start: the folder for state is a file", _state_is_file, says="nothing can be unblocked", at_start=True),
    *(
        Fault(f"start: {name} is damaged", _damaged(place), says="and was set aside as", at_start=True)
        for name, place in (
            ("the store", lambda lab: lab.store),
            ("the administrators' store", lambda lab: lab.store.with_name("admin.sqlite")),
            ("what the proxies say of themselves", lambda lab: lab.store.with_name("fleet.sqlite")),
            ("the log's database", lambda lab: lab.log / "decisions.sqlite"),
        )
    ),
    Fault("start: the scanner is away", scanner_away, REFUSES, sends=FILE, at_start=True),
    Fault("start: the log's folder is a file", _log_is_file, says="the log cannot be written", at_start=True),
    Fault("start: the log's disk is full", _log_disk_full, says="the log cannot be written", at_start=True),
    Fault("start: the database is away", _log_database_away, says="the log cannot be sent", at_start=True),
)


def try_running(fault: Fault, lab: Lab) -> str:
    """What becomes of requests while a fault is there; afterwards all has to be as before.

    Raises:
        AssertionError: it is not, or mitmdump did not say what was wrong.
        NotHereError: it cannot be had here.
    """
    start = len(lab.proxy.log)
    with fault.inject(lab):
        outcome = lab.seen(fault.path, fault.patience, fault.sends)
        if fault.says:
            lab.wait_for(fault.says, start)
    assert lab.eventually(DECIDES) == DECIDES, f"{fault.name}: it does not come back"
    return outcome


def try_start(fault: Fault, lab: Lab) -> str:
    """The same for a fault that is there at the start."""
    with fault.inject(lab), lab.running() as proxy:
        if proxy is None:
            assert fault.says in lab.said, lab.said
            assert "Traceback" not in lab.said, lab.said
            return ENDS
        outcome = lab.seen(fault.path, sends=fault.sends)
        lab.wait_for(fault.says, 0)
        if outcome == PASSES:
            lab.wait_for(UNFILTERED, 0)
        else:
            assert UNFILTERED not in proxy.log.text()
        if outcome == PASSES and fault.inject is _list_broken:
            lab.mend()
            assert lab.eventually(DECIDES) == DECIDES
        return outcome
