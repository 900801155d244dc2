"""Starts mitmdump from a process that has imported mitmproxy and Hushlist already: of a start, that takes most of the
time.

The process has read the public suffixes and all of Hushlist's code, and has made mitmproxy's own addons and options,
without settings. A fork does what the command does from then on, with arguments, environment and folder of its own; but
that the key of the tests' own authority is sound, which takes a third of a start, it takes for granted. What would
begin otherwise, as with another ``PYTHONPATH``, is started as a command. What compiles the policy of such a mitmdump is
a fork, too, unless the limits of the mitmdump have changed.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

#: what an interpreter, a library of C, or mitmproxy reads while it starts
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC", "TZ", "MITMPROXY")
_LONGEST = 1 << 20
#: of the process: whom it tells how each of its forks has ended
_READERS: dict[int, socket.socket] = {}
#: of a fork: what it ends with, once it does
_CODES: list[int] = []


class Forked:
    """A fork, as ``subprocess.Popen`` shows a process."""

    def __init__(self, pid: int, stdout: Any, ended: socket.socket) -> None:
        self.pid, self.stdout, self.returncode = pid, stdout, None
        self._ended = ended

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended.

        Raises: subprocess.TimeoutExpired
        """
        if self.returncode is None:
            self._ended.settimeout(timeout)
            try:
                self.returncode = json.loads(self._ended.recv(_LONGEST))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("mitmdump", timeout or 0) from None
            self._ended.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended just now
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Preloaded:
    """The process that has imported mitmproxy, from the first start on."""

    def __init__(self, asks: socket.socket | None = None) -> None:
        self._start = _start_of(os.environ)
        self._lock = threading.Lock()
        self._asks = asks

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork begins as a command does with this environment."""
        return hasattr(os, "fork") and _start_of(environment) == self._start

    def start(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        errors: int | None = None,
    ) -> Forked:
        """A fork with these arguments; what it says goes to ``stdout``, too, or to the descriptor ``errors``."""
        read, write = os.pipe()
        ended, tells = socket.socketpair()
        with self._lock:
            asks = self._asks = self._asks or self._run(environment)
            words = json.dumps([[*map(str, command)], str(folder), dict(environment)]).encode()
            outputs = [write, write if errors is None else errors, tells.fileno()]
            socket.send_fds(asks, [len(words).to_bytes(4), words], outputs)
        os.close(write)
        tells.close()
        pid = int.from_bytes(_received(ended, 4))
        return Forked(pid, os.fdopen(read, encoding="utf-8", errors="backslashreplace"), ended)

    def _run(self, environment: Mapping[str, str]) -> socket.socket:
        ours, its = socket.socketpair()
        command = [sys.executable, __file__, str(its.fileno())]
        none = subprocess.DEVNULL  # a terminal would colour what forks print
        process = subprocess.Popen(command, pass_fds=[its.fileno()], stdin=none, stdout=none, env=environment)
        its.close()

        def end() -> None:
            ours.close()
            process.wait()

        atexit.register(end)
        return ours


def _start_of(environment: Mapping[str, str]) -> object:
    """What decides how a process begins, besides its arguments."""
    variables = {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
    limits = resource and [resource.getrlimit(number) for number in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)]
    return variables | {"PYTHONUNBUFFERED": "1"}, limits


_PRELOADED = _Preloaded()


def start_mitmdump(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Any:
    """A mitmdump with these arguments; what it prints is its ``stdout``."""
    if _PRELOADED.fits(environment):
        return _PRELOADED.start(command, folder, environment)
    return start_command(command, folder, environment)


def start_hushlist(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Any:
    """The command ``hushlist`` with these arguments; what it prints is its ``stdout``."""
    if _PRELOADED.fits(environment):
        return _PRELOADED.start(["hushlist", *arguments], folder, environment)
    return start_command([sys.executable, "-m", "hushlist", *arguments], folder, environment)


def start_command(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """A program, by a command as a user writes it."""
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment,
    )


# -- the process -------------------------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> tuple[list[str], socket.socket] | None:
    """Fork whenever that is asked for: in a fork, its arguments, and where it can ask; ``None`` when the tests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends, ended = socket.socketpair()  # a signal may come just before we wait
    ended.setblocking(False)
    signal.set_wakeup_fd(ended.fileno(), warn_on_full_buffer=False)
    asking = [control, ends]
    while True:
        for ready in select.select(asking, [], [])[0]:
            if ready is ends:
                ends.recv(_LONGEST)
                _reap()
                continue
            size, outputs, _, _ = socket.recv_fds(ready, 4, 3)
            if size:
                if served := _fork(json.loads(_received(ready, int.from_bytes(size))), outputs, asking):
                    return served
            elif ready is control:
                return None
            else:
                asking.remove(ready)
                ready.close()


def _fork(
    request: tuple[list[str], str, dict[str, str]], outputs: list[int], asking: list[socket.socket]
) -> tuple[list[str], socket.socket] | None:
    """In a fork, its arguments, and where it can ask."""
    command, folder, environment = request
    asks, its = socket.socketpair()
    pid = os.fork()
    if pid:
        asks.close()
        asking.append(its)
        os.close(outputs[0])
        os.close(outputs[1])
        _READERS[pid] = tells = socket.socket(fileno=outputs[2])
        tells.send(pid.to_bytes(4))
        return None
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for other in (*asking, its, *_READERS.values()):
        other.close()
    os.dup2(outputs[0], 1)
    os.dup2(outputs[1], 2)
    for output in outputs:
        os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    time.tzset()
    return command, asks


class _Compiler:
    """A fork that compiles a policy, from when it has its work on, as ``subprocess.Popen`` shows a process."""

    #: of no process: the fork has its usual priority
    pid = -1

    def __init__(self, start: Callable[[], Forked]) -> None:
        self._start = start
        self._fork: Forked | None = None
        self._is_killed = False

    def __enter__(self) -> _Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fork is not None:
            self._fork.stdout.close()

    @property
    def returncode(self) -> int | None:
        """The exit code, if it has ended."""
        return -signal.SIGKILL if self._fork is None else self._fork.returncode

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self.returncode if self._is_killed else None

    def communicate(self, _input: bytes, timeout: float) -> tuple[str, None]:
        """What it prints; it waits for nothing on its standard input."""
        if self._is_killed:
            return "", None
        self._fork = fork = self._start()
        if self._is_killed:  # meanwhile
            self.kill()
        printed = fork.stdout.read()
        fork.wait(timeout)
        return printed, None

    def kill(self) -> None:
        """End it; another thread may wait for it meanwhile."""
        self._is_killed, fork = True, self._fork
        if fork is not None and fork.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(fork.pid, signal.SIGKILL)


def _compile_by_forks(asks: socket.socket) -> None:
    """Have forks compile for this mitmdump, unless a test has changed what it would give to a command."""
    preloaded = _Preloaded(asks)

    def start(command: Sequence[str], **options: Any) -> Any:
        if background_compiler.__name__ in command and preloaded.fits(os.environ):
            return _Compiler(partial(preloaded.start, command, Path.cwd(), options["env"], 2))
        return subprocess.Popen(command, **options)

    background_compiler.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": start})


def _reap() -> None:
    """Tell how those have ended that have."""
    while _READERS and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        with _READERS.pop(ended[0]) as tells, suppress(BrokenPipeError):  # nobody waits for it
            tells.send(json.dumps(os.waitstatus_to_exitcode(ended[1])).encode())


def _master(_: object) -> object:
    """The master of a fork, which has its loop now."""
    master.event_loop = asyncio.get_running_loop()
    return master


def _run(what: Callable[[], object]) -> None:
    """Do what a command does; keep what it ends with."""
    try:
        what()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _CODES.append(ended.code or 0)
        raise
    _CODES.append(0)


def _end() -> None:
    """End when all else is done that is done at an end: to let go of what forks have in common would copy all of it."""
    if _CODES:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_CODES[0])


def _received(connection: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size and (more := connection.recv(size - len(octets))):
        octets += more
    return octets


if __name__ == "__main__":
    atexit.register(_end)  # what the modules below register comes before it

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from mitmproxy import certs, options, optmanager
    from mitmproxy.tools import cmdline, dump, main

    sys.path[0] = str(Path(__file__).parents[2] / "addon")  # as mitmproxy does for the script there
    import hushlist.proxy.addon
    from hushlist.core.compile import background_compiler, policy_compiler
    from hushlist.core.match.public_suffixes import public_suffixes
    from hushlist.core.system.package_code import loaded_digest
    from hushlist.proxy.service import script_watch

    public_suffixes()
    policy_compiler._code(("built-in",))
    hushlist.proxy.addon.Hushlist()  # loads the extensions
    loaded_digest()
    for module in pkgutil.walk_packages(hushlist.__path__, "hushlist."):
        if module.name.split(".")[1] in script_watch._ROOMS:
            import_module(module.name)
    load = partial(serialization.load_pem_private_key, unsafe_skip_rsa_key_validation=True)
    certs.load_pem_private_key = serialization.load_pem_private_key = load
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    load(generate_private_key(SECP256R1()).private_bytes(*form), None)  # the first takes long
    optmanager._Option.__deepcopy__ = lambda option, _: copy(option)  # as it does, without anew checking each
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # for mitmproxy, logs are that test's alone
    settings = options.Options()
    master = dump.DumpMaster(settings, SimpleNamespace())
    parser = cmdline.mitmdump(settings)
    gc.collect()
    gc.freeze()
    if served := _serve(socket.socket(fileno=int(sys.argv[1]))):
        sys.argv, asks = served
        if background_compiler.__name__ in sys.argv:
            del sys.argv[: sys.argv.index(background_compiler.__name__)]
            sys.stdin = io.TextIOWrapper(io.BytesIO(b"go"))
            _run(background_compiler.main)
        elif sys.argv[0] == "hushlist":
            from hushlist.cli import run

            # the process's own lead to a file, in which one may seek
            sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, "utf-8") for number in (1, 2))
            _run(run)
        else:
            sys.path[0] = str(Path(sys.argv[0]).parent)
            _compile_by_forks(asks)
            parser.prog = Path(sys.argv[0]).name
            main.options = SimpleNamespace(Options=lambda: settings)
            main.cmdline = SimpleNamespace(mitmdump=lambda _: parser)
            dump.DumpMaster = _master
            _run(main.mitmdump)
