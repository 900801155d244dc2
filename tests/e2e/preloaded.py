"""Starts mitmdump from a process that has imported mitmproxy and Hushlist already: of a start, that takes most of the
time.

The process runs nothing of either, but has read the public suffixes: a fork of it does what the command does after its
imports, with arguments, environment and folder of its own; but that the key of the tests' own authority is sound, which
takes a third of a start, it takes for granted. What would begin otherwise, as with another ``PYTHONPATH``,
is started as a command. What compiles the policy while such a mitmdump starts is a fork, too; what compiles a change of
it is the command.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
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

    def __init__(self) -> None:
        self._start = _start_of(os.environ)
        self._lock = threading.Lock()
        self._asks: socket.socket | None = None

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork begins as a command does with this environment."""
        return hasattr(os, "fork") and _start_of(environment) == self._start

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Forked:
        read, write = os.pipe()
        ended, tells = socket.socketpair()
        with self._lock:
            asks = self._asks = self._asks or self._run(environment)
            words = json.dumps([[*map(str, command)], str(folder), dict(environment)])
            asks.sendall(len(words.encode()).to_bytes(4))
            socket.send_fds(asks, [b"."], [write, tells.fileno()])
            asks.sendall(words.encode())
        os.close(write)
        tells.close()
        pid = json.loads(ended.recv(_LONGEST))
        return Forked(pid, os.fdopen(read, encoding="utf-8", errors="backslashreplace"), ended)

    def _run(self, environment: Mapping[str, str]) -> socket.socket:
        ours, its = socket.socketpair()
        command = [sys.executable, __file__, str(its.fileno())]
        process = subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=environment)
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


def start_command(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """A mitmdump by a command as a user writes it."""
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


def _serve(asked: socket.socket) -> list[str] | None:
    """Fork whenever that is asked for: in a fork, what its arguments are; ``None`` when nobody can ask any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while size := _received(asked, 4):
        _, (output, tells), _, _ = socket.recv_fds(asked, 1, 2)
        command, folder, environment = json.loads(_received(asked, int.from_bytes(size)))
        if not os.fork():
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if pid := os.fork():
                os.close(output)
                _tell_end(pid, tells)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(tells)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            time.tzset()
            return command
        os.close(output)
        os.close(tells)
    return None


class _Compiler:
    """A fork that compiles the policy once it is asked to, as ``subprocess.Popen`` shows a process."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self._asks, asked = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self._asks.close()
            self._serve(asked)
        asked.close()

    def ask(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        read, write = os.pipe()
        words = json.dumps([command, dict(environment)]).encode()
        with self._asks as asks:
            socket.send_fds(asks, [len(words).to_bytes(4)], [write])
            asks.sendall(words)
        os.close(write)
        self._stdout = os.fdopen(read, "rb")

    def __enter__(self) -> _Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._stdout.close()

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        printed = self._stdout.read()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return printed, None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    @staticmethod
    def _serve(asked: socket.socket) -> None:
        """Be the process, with arguments, environment and output of its own; end when its mitmdump has ended."""
        size, outputs, _, _ = socket.recv_fds(asked, 4, 1)
        if not size:
            os._exit(0)
        command, environment = json.loads(_received(asked, int.from_bytes(size)))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs[0], 1)
        os.close(outputs[0])
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = command[command.index("-m") + 1 :]
        background_compiler.main()
        sys.exit()


def _fork_compiler() -> None:
    """Have a fork compile the policy at the start that now begins."""
    forked = [_Compiler()]

    def start(command: Sequence[str], **options: Any) -> Any:
        if not forked or command[command.index("-m") + 2] != "start":
            return subprocess.Popen(command, **options)
        compiler = forked.pop()
        compiler.ask(command, options["env"])
        return compiler

    background_compiler.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": start})


def _reap(*_: object) -> None:
    """Let those go that waited for a mitmdump; its processor time counts as a child's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _tell_end(pid: int, tells: int) -> None:
    """Tell the process's id, and how it has ended when it has."""
    os.write(tells, json.dumps(pid).encode())
    _, status = os.waitpid(pid, 0)
    os.write(tells, json.dumps(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _received(asked: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size and (more := asked.recv(size - len(octets))):
        octets += more
    return octets


if __name__ == "__main__":
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from mitmproxy import certs
    from mitmproxy.tools import dump, main  # noqa: F401  # the command imports the first when it is run

    sys.path[0] = str(Path(__file__).parents[2] / "addon")  # as mitmproxy does for the script there
    import hushlist.proxy.addon  # noqa: F401
    from hushlist.compiling import background_compiler
    from hushlist.match.public_suffixes import public_suffixes

    public_suffixes()
    certs.load_pem_private_key = partial(load_pem_private_key, unsafe_skip_rsa_key_validation=True)
    gc.collect()
    gc.freeze()
    if arguments := _serve(socket.socket(fileno=int(sys.argv[1]))):
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        _fork_compiler()
        sys.exit(main.mitmdump())
