"""Starts real servers on loopback, each with a folder of its own; which there are, ``registry`` says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.origin import free_ports
from evasion.servers.asking import PLAIN, Server, ask_all, is_secret

PROGRAMS = Path(__file__).parent / "programs"
#: seconds in which a server has to listen, on a busy machine too
PATIENCE = 60.0

_SERVERS_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/bin"])
_MARK = re.compile(r"@(\w+)(?::([^@]+))?@")
#: folders of the tree that is served, and the files in each; every file says where it is
_FOLDERS = ("", "a", "b", "a/b", "live", "live/a", "live/secret", "secret", "secret/a", "a%2fb", "a;x")
_FILES = ("x", "hidden", "index.html")


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is one server or several, each on a port of its own.

    In its command, its files and its environment stand marks: ``@folder@`` is a folder of its own, ``@root@`` what is
    served, ``@programs@`` the folder of this name, ``@python@`` the one that runs; ``@port:name@`` is the port of the
    server of this name, ``@to:name@`` that of another program's.
    """

    name: str
    #: as a shell reads it
    command: str
    #: files of ``programs`` -> where they are in its folder
    files: Mapping[str, str] = field(default_factory=dict)
    #: commands, files, and modules (``perl:HTTP::Daemon``) without which it does not run
    needs: Sequence[str] = ()
    #: servers of other programs that it asks in its turn
    behind: Sequence[str] = ()
    #: requests that may be sent without waiting for an answer; some servers lose what they did not ask for yet
    at_once: int = 32
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of its servers."""
        texts = [self.command, *((PROGRAMS / source).read_text(encoding="utf-8") for source in self.files)]
        return tuple(dict.fromkeys(name for text in texts for mark, name in _MARK.findall(text) if mark == "port"))

    def missing(self) -> list[str]:
        """What of its needs is not there."""
        return [need for need in self.needs if not _is_there(need)]


#: language -> how to ask for a module
_MODULES = {
    "python3": ["/usr/bin/python3", "-c", "import {}"],
    "perl": ["perl", "-M{}", "-e1"],
    "ruby": ["ruby", "-r{}", "-e1"],
}


def _is_there(need: str) -> bool:
    language, is_module, module = need.partition(":")
    if not is_module:
        return Path(need).exists() if "/" in need else _program(need) is not None
    command = [part.format(module) for part in _MODULES[language]]
    return _program(command[0]) is not None and not subprocess.run(command, capture_output=True, check=False).returncode


def _program(command: str) -> str | None:
    return shutil.which(command, path=_SERVERS_PATH)


@contextmanager
def running(programs: Sequence[Program]) -> Iterator[list[Server]]:
    """Programs, and those of ``behind``, until the block ends; all of their needs have to be there.

    Raises:
        RuntimeError: one of them ends before it serves, or does not serve in time; with what it has printed.
    """
    with ExitStack() as ends:
        # Not pytest's folder, nor one of mkdtemp's mode: servers that give up root have to read it.
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="servers-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        root = _tree(folder / "root")
        names = [name for program in programs for name in (*program.servers, *program.behind)]
        ports = dict(zip(dict.fromkeys(names), free_ports(len(set(names))), strict=True))
        servers: list[Server] = []
        started = [(program, ends.enter_context(_started(program, folder, root, ports))) for program in programs]
        for program, (process, log) in started:
            for name in program.servers:
                server = Server(name, ports[name], program.at_once)
                _wait_for(server, process, log)
                servers.append(server)
        yield servers


def _tree(root: Path) -> Path:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
        for file in _FILES:
            place = f"/{name}/{file}" if name else f"/{file}"
            (root / name / file).write_text(f"served:{place}", encoding="ascii")
    return root


@contextmanager
def _started(
    program: Program, everything: Path, root: Path, ports: Mapping[str, int]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    folder = everything / program.name
    folder.mkdir()
    meanings = {"folder": str(folder), "root": str(root), "programs": str(PROGRAMS), "python": sys.executable}

    def filled(text: str) -> str:
        return _MARK.sub(lambda mark: str(ports[mark[2]]) if mark[2] else meanings[mark[1]], text)

    for source, place in program.files.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(filled((PROGRAMS / source).read_text(encoding="utf-8")), encoding="utf-8")
    command, *arguments = [filled(part) for part in shlex.split(program.command)]
    log = everything / f"{program.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [_program(command) or command, *arguments],
            cwd=folder,
            env=os.environ
            | {"PATH": _SERVERS_PATH, "HOME": str(folder)}
            | {name: filled(value) for name, value in program.environment.items()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it ends with all that it has started
        )
    try:
        yield process, log
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it tells what it serves."""
    patience = time.monotonic() + PATIENCE
    while not any(map(is_secret, ask_all(server, [PLAIN])[0].values())):
        if process.poll() is not None or time.monotonic() > patience:
            raise RuntimeError(f"{server.name} does not serve:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
