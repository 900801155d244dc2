"""What real servers are asked, directly and through a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

from e2e.proxy import Proxy
from evasion.paths import SECRET, WAYS_OUT
from evasion.servers.asking import Server, ServerReading, read_told
from evasion.servers.judge import SECRET_HOSTS, Judged, blocking
from evasion.servers.lab import Program
from evasion.servers.registry import PROGRAMS
from evasion.servers.targets import targets

#: longer targets are refused by most servers
_LONGEST = 8000


def available(names: Sequence[str] = ()) -> tuple[list[Program], list[str]]:
    """Programs that are installed, of these names or all, with what is behind them; and what the others lack."""
    serving = {server: program for program in PROGRAMS for server in program.servers}
    wanted = {program.name: program for program in PROGRAMS if program.name in names or not names}
    for program in tuple(wanted.values()):
        wanted |= {serving[behind].name: serving[behind] for behind in program.behind}
    lacking = {name: program.missing() for name, program in wanted.items()}
    found = [
        program
        for name, program in wanted.items()
        if not any(lacking[each] for each in (name, *(serving[behind].name for behind in program.behind)))
    ]
    return found, [f"{name} ({', '.join(needs)})" for name, needs in lacking.items() if needs]


def hostile(number: int, seed: int) -> list[bytes]:
    """All that people have thought of, and so many random targets."""
    written = [path for paths in (*SECRET.values(), WAYS_OUT) for path in paths if len(path) < _LONGEST]
    rooted = [path if path[:1] in b"/\\%" else b"/" + path for path in written]
    return [*dict.fromkeys(path for path in rooted if not any(c in path for c in b"\r\n ")), *targets(number, seed)]


def sample(judged: Judged, most: int) -> list[tuple[bytes, bytes]]:
    """Some of what was served that is blocked, the same each time; what the filter lets pass comes first."""
    missed = [(host, miss.target) for miss in judged.misses for host in miss.hosts if host not in SECRET_HOSTS[1:]]
    others = Random(0).sample(judged.harmful, min(most, len(judged.harmful)))
    return list(dict.fromkeys([*missed[:most], *others]))


def arrives(proxy: Proxy, server: Server, host: bytes, target: bytes) -> bool:
    """Whether a server serves what is blocked, asked through a proxy to which every port of any host is loopback's."""
    told: ServerReading = {}
    with suppress(ConnectionError, TimeoutError), proxy.tunnel(host.decode(), server.port) as connection:
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, host))
        told = read_told(connection)
    return any(host in blocking(target, served) for served in told.values())
