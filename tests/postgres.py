"""A PostgreSQL for tests: Debian's, in a folder of its own, at a port that the kernel chose, mostly of loopback."""

from __future__ import annotations

import hmac
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import pbkdf2_hmac, sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hushlist.extensions.databases.postgres import migrate
from hushlist.extensions.databases.postgres_address import PostgresAddress, parse_postgres_address

#: tests that use the server share it: pytest-xdist runs them in one process
GROUP = pytest.mark.xdist_group("postgres")
#: of tests that are about the file, in modules whose other tests run with both
IN_FILE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
USER, PASSWORD = "hushlist", "s3cr+t/%"
_ESCAPED = "s3cr%2Bt%2F%25"
#: seconds that the server may take to start or to stop
_PATIENCE = 120
#: makes a database as it was when it was new, but for its keys
_EMPTY = """
DO $$
DECLARE one TEXT;
BEGIN
    PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    PERFORM hushlist.drop_partitions('9999-12-31');
    DELETE FROM hushlist.keys WHERE name <> 'key';
    FOR one IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname LIKE 'hushlist%' AND tablename NOT IN ('versions', 'keys')
    LOOP
        EXECUTE 'DELETE FROM ' || one;
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, 1, false) FROM pg_sequences
        WHERE last_value IS NOT NULL;
END $$
"""


@cache
def _programs() -> Path | None:
    """The folder with initdb and pg_ctl."""
    found = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    if found:
        return max(found, key=lambda folder: float(folder.parent.name))
    program = shutil.which("initdb")
    return None if program is None else Path(program).parent


class Server:
    """A server that can be killed, and started again at the same port."""

    def __init__(self, folder: Path, at: str = "127.0.0.1", command: Sequence[str] = ()) -> None:
        """``at`` is the address where it listens; ``command`` is what runs its programs, as on another machine."""
        self.folder, self.data = folder, folder / "data"
        self.at, self.port = at, 0
        self._is_up = False
        self._command = [*command]
        self._numbers = count(1)
        #: databases that tests have given back
        self._unused: list[str] = []
        self._connections: dict[str, Any] = {}
        if os.geteuid() == 0:  # which it refuses to run as
            known = {user.pw_name for user in pwd.getpwall()}
            user = "postgres" if "postgres" in known else "nobody"
            shutil.chown(folder, user)
            self._command += ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        folder.chmod(0o755)  # for the socket

    def make(self) -> None:
        """Make the server's files, with a user who needs a password."""
        secret = self.folder / "password"
        secret.write_text(_verifier())
        secret.chmod(0o644)
        login = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", "-D", str(self.data), "-E", "UTF8", "--locale=C.UTF-8", "-N", *login)
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")

    def follow(self, primary: Server) -> None:
        """Make the server's files those of a standby, without which the primary commits nothing from then on."""
        self._run("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "-d", primary.address().url)
        self.start()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """End its life as a standby: it can be written to, and waits for none of its own."""
        self._control("promote")
        self.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start it; the first time, at a port that is free."""
        for attempt in range(20):
            port = self.port or _free_port()
            settings = {
                "port": port,
                "listen_addresses": self.at,
                "unix_socket_directories": self.folder,
                "fsync": "off",
                "max_connections": 200,
            }
            options = " ".join(f"-c {name}={value}" for name, value in settings.items())
            try:
                self._control("start", "-l", str(self.folder / "log"), "-o", options)
            except subprocess.CalledProcessError:
                if attempt == 19:
                    raise
                time.sleep(0.5)  # another took the port; or processes of one that was killed have not ended yet
            else:
                self.port, self._is_up = port, True
                return

    def stop(self, how: str = "immediate") -> None:
        """Stop it; ``immediate`` is as if it were killed: it recovers at its next start."""
        self._disconnect()
        if self._is_up:
            self._control("stop", "-m", how)
        self._is_up = False

    def kill(self) -> None:
        """Kill its first process, as a machine without memory does; the others then end by themselves."""
        number = int((self.data / "postmaster.pid").read_text().split()[0])
        self._disconnect()
        os.kill(number, signal.SIGKILL)
        self._is_up = False
        end = time.monotonic() + _PATIENCE
        while Path(f"/proc/{number}").exists() and time.monotonic() < end:
            time.sleep(0.01)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", str(_PATIENCE), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        folder = _programs()
        assert folder is not None
        subprocess.run(
            [*self._command, str(folder / program), *arguments],
            check=True,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=2 * _PATIENCE,
        )

    def address(self, name: str = "postgres", *, port: int | None = None, more: str = "") -> PostgresAddress:
        """The address of a database."""
        url = f"postgresql://{USER}:{_ESCAPED}@{self.at}:{port or self.port}/{name}"
        return parse_postgres_address(url + (f"?{more}" if more else ""))

    def direct(self, name: str = "postgres", *others: Server) -> PostgresAddress:
        """The address of a database by a socket file, from wherever; of several servers, of the primary."""
        servers = (self, *others)
        hosts = ",".join(str(one.folder) for one in servers)
        ports = ",".join(str(one.port) for one in servers)
        return parse_postgres_address(f"postgresql://{USER}:{_ESCAPED}@/{name}?host={hosts}&port={ports}")

    def execute(self, *queries: str, name: str = "postgres") -> list[tuple[object, ...]]:
        """Run queries, each by itself; the rows of the last."""
        import psycopg

        with psycopg.connect(self.direct(name).url, autocommit=True) as connection:
            for query in queries:
                cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """The name of a database with our tables, which are empty: a new one, or one that is used again.

        To make one and to remove it takes twenty times as long as to empty it.
        """
        import psycopg

        if not self._unused:
            self._unused.append(f"test{next(self._numbers)}")
            self._execute(f"CREATE DATABASE {self._unused[-1]} TEMPLATE migrated")
        name = self._unused.pop()
        yield name
        with suppress(psycopg.Error):  # another schema: that one is left
            self._execute(_EMPTY, name)
            self._unused.append(name)

    def _execute(self, query: str, name: str = "postgres") -> None:
        """Run a query by a connection that stays, since to make one takes long; after a restart, by a new one."""
        import psycopg

        found = self._connections.get(name)
        if found is None or found.closed:
            found = self._connections[name] = psycopg.connect(self.direct(name).url, autocommit=True)
        found.execute(query.encode())

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _verifier() -> str:
    """What the server keeps of the password, with one round in place of 4,096. Spec: RFC 5803"""
    key = pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 1)
    stored, own = sha256(hmac.digest(key, b"Client Key", sha256)).digest(), hmac.digest(key, b"Server Key", sha256)
    salt, stored_key, server_key = (b64encode(octets).decode() for octets in (b"salt", stored, own))
    return f"SCRAM-SHA-256$1:{salt}${stored_key}:{server_key}"


def _free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


@contextmanager
def running(at: str = "127.0.0.1", command: Sequence[str] = ()) -> Iterator[Server]:
    """A server, as ``Server`` has it, with a database ``migrated``; skips the test where it cannot be had."""
    pytest.importorskip("psycopg", reason="the extra fleet is not installed")
    if _programs() is None or not hasattr(os, "geteuid"):
        pytest.skip("PostgreSQL is not installed: Debian's package is postgresql")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hushlist-postgres-")))
        server = Server(folder, at, command)
        server.make()
        server.start()
        stack.callback(server.stop)
        server.execute("CREATE DATABASE migrated")
        assert migrate(server.direct("migrated"))[0] == 0
        yield server
