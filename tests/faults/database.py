"""Faults of the database that two proxies share: what is done to it, and what people notice at both.

    python tests/faults/database.py [WORDS]

prints the table, of the faults that have the words in their names. Two real mitmdumps reach a real PostgreSQL by one of
two relays on loopback, which can be cut off and slowed down; behind one may be a standby. For the last fault, proxies
and database are machines of their own. The origins' own logs are the judge of what passes, the database that of what
was logged.
"""

from __future__ import annotations

import io
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count, cycle, product
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin
from uuid import uuid4

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "addon")]

import yaml

from e2e.namespaces import Machine, why_not
from e2e.origin import LOOPBACK, PATIENCE, Origin
from e2e.policies import replace, write_list
from e2e.proxy import Proxy, mitmdump
from e2e.test_unblock import form_of
from hushlist.extensions.databases.postgres import PostgresStore
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.log_database import LogFilters, newest_records
from hushlist.extensions.unblock.overrides import Overrides
from postgres import Server, running

#: what becomes of a code that is entered at both proxies at once
TAKEN_ONCE, REFUSED = "taken once", "refused, later taken once"

#: what is unblocked and blocked again, or only later
ENDED, LATER = "ended.test", "later.test"


class Relay:
    """A TCP relay to the database: one of its addresses."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]
        #: seconds that each answer takes, and each question
        self.delay = self.delay_of_questions = 0.0
        #: it is not set while octets stand still on the way
        self.flows = threading.Event()
        self.flows.set()
        #: octets of answers after which a connection is cut; ``None``: none is
        self.cut_behind: int | None = None
        self.is_open = True
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nothing any more, and cut off what there is."""
        self.is_open = False
        for one in self._connections:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """The end of the relay."""
        self.flows.set()
        self.close()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                if not self.is_open:
                    raise ConnectionRefusedError
                server = socket.create_connection((LOOPBACK, self._target), timeout=PATIENCE)
            except OSError:
                client.close()
                continue
            self._connections += [client, server]
            if not self.is_open:
                self.close()
            threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            asking = threading.Thread(target=self._pump, args=(client, server, False), daemon=True)
            asking.start()
            self._pump(server, client, True)
            asking.join()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        source.settimeout(None)
        passed = 0
        with suppress(OSError):
            while octets := source.recv(1 << 16):
                if delay := self.delay if is_answer else self.delay_of_questions:
                    time.sleep(delay)
                self.flows.wait()
                if is_answer and self.cut_behind is not None and passed + len(octets) > self.cut_behind:
                    target.sendall(octets[: max(0, self.cut_behind - passed)])
                    break
                target.sendall(octets)
                passed += len(octets)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Outcome(NamedTuple):
    """What was seen while a fault was there, and afterwards."""

    #: blocked requests that reached the origin
    leaks: int
    #: whether what was unblocked before stayed so
    goes_on: bool
    code: str
    #: requests that the proxies decided, and records of them: missing, and there more than once
    requests: int
    missing: int
    doubled: int
    #: seconds that the code's form waited, and after which all was as before
    waited: float
    back: float
    #: seconds that requests waited more than before, and the longest that any has waited
    later: float
    longest: float


class Site:
    """Two machines with a proxy each, one database with two addresses, and an origin."""

    def __init__(
        self,
        folder: Path,
        name: str,
        servers: Sequence[Server],
        origins: Sequence[Origin],
        machines: Sequence[Machine] = (),
    ) -> None:
        """Without ``machines``, all are on loopback, and the servers are reached by relays."""
        self.servers, self.name, self.machines = servers, name, machines
        self.origins = origins
        self.relays = [] if machines else [Relay(server.port) for server in servers]
        self._numbers = iter(range(10**6))
        self._stack = ExitStack()
        hosts = ",".join(f"{server.at}:{server.port}" for server in servers)
        if self.relays:
            hosts = ",".join(f"{LOOPBACK}:{relay.port}" for relay in self.relays)
        first = servers[0]
        url = first.address(name).url.replace(f"{first.at}:{first.port}", hosts)
        #: for the tests themselves, which nothing cuts off
        self.direct = first.direct(name, *servers[1:])
        folder.mkdir()
        write_list(
            folder / "rules.yaml",
            "ads.test/",
            "granted.test/",
            f"{ENDED}/",
            f"{LATER}/",
            *(f"code{n}.test/" for n in range(100)),
        )
        policy = {
            "store": url,
            "log": {"to": url, "what": "all"},
            "unblock": "on",
            "layers": [{"name": "lists", "lists": ["rules.yaml"]}],
        }
        self.policy = replace(folder / "policy.yaml", yaml.safe_dump(policy, sort_keys=False))
        self._folder = folder
        self.proxies: tuple[Proxy, ...] = ()

    def __enter__(self) -> Site:
        started = []
        for number, scripts in enumerate(([], ["clock.py"])):
            own = self._folder / f"machine{number}"
            own.mkdir()
            command = self.machines[number].command if self.machines else ()
            origin = self.origins[number]
            proxy = mitmdump(own, origin, policy=self.policy, scripts=scripts, command=command)
            started.append(self._stack.enter_context(proxy))
        self.proxies = tuple(started)
        self.set_clock(0.0)
        self.grant("granted.test")
        self.wait_for(lambda: all(self.get(at, "granted.test") == 200 for at in range(len(self.proxies))))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for relay in self.relays:
            relay.end()

    def at(self, number: int) -> AbstractContextManager[object]:
        """Where a proxy is: a client of it is there, too."""
        return self.machines[number].inside() if self.machines else nullcontext()

    def set_clock(self, seconds: float) -> None:
        """Put the clock of the second machine forward, or back."""
        assert self.get(1, "clock.test", f"?fast={seconds}") == 204

    def wait_for(self, is_so: Callable[[], object], seconds: float = 2 * PATIENCE) -> None:
        """Wait until something is so; a question that the database does not answer in time is asked again."""
        end = time.monotonic() + seconds
        while True:
            with suppress(OSError):
                if is_so():
                    return
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.05)

    def grant(self, host: str) -> int:
        """Unblock a host for both; its number."""
        with Overrides(self.direct, time.time) as overrides:
            return overrides.grant("host", host, 6 * 3600.0, client=LOOPBACK, how="x", by="x").id

    def get(self, number: int, host: str, path: str = "") -> int:
        """The status of what a proxy answers."""
        with self.at(number):
            return self.proxies[number].get(f"http://{host}/{path}").status_code

    def leaks(self, path: str) -> int:
        seen = {id(one): one for origin in self.origins for one in origin.requests}
        return sum(one.host == "ads.test" and path in one.target.decode() for one in seen.values())

    def enter(self, host: str, code: str) -> list[int]:
        """The answers to a code that is entered at both proxies at the same instant."""
        gate = threading.Barrier(len(self.proxies))

        def enter(number: int) -> int:
            with self.at(number), self.proxies[number].client() as client:
                page = client.get(f"http://{host}/")
                form = None if page.status_code != 403 or 'name="token"' not in page.text else form_of(page)
                gate.wait(PATIENCE)
                if form is None:
                    return page.status_code
                action, token = form
                return client.post(urljoin(f"http://{host}/", action), data={"token": token, "code": code}).status_code

        with ThreadPoolExecutor(len(self.proxies)) as threads:
            return [*threads.map(enter, range(len(self.proxies)))]

    def new_code(self) -> tuple[str, str]:
        """A blocked host, and a code for it."""
        with Overrides(self.direct, time.time) as overrides:
            return f"code{next(self._numbers)}.test", overrides.make_code("host", 3600.0)

    def logged(self, word: str) -> Counter[str]:
        """How often each address with a word is in the log."""
        records = newest_records(self.direct, LogFilters(), 1_000_000)
        return Counter(str(one.get("url")) for one in records if word in str(one.get("url")))


@dataclass(frozen=True)
class DatabaseFault:
    """One way to fail, and what becomes of a code meanwhile."""

    name: str
    inject: Callable[[Site], AbstractContextManager[None]]
    code: str = REFUSED


@contextmanager
def _killed(site: Site) -> Iterator[None]:
    site.servers[0].kill()
    try:
        yield
    finally:
        site.servers[0].start()


@contextmanager
def _restarted(site: Site) -> Iterator[None]:
    """It is back before a form is sent, but proxies ask meanwhile: nobody notices."""
    site.servers[0].stop("fast")
    site.servers[0].start()
    yield


@contextmanager
def _slow(site: Site) -> Iterator[None]:
    """Half a second an answer: no transaction of a form has so many that 20 seconds are over."""
    site.relays[0].delay = 0.5
    try:
        yield
    finally:
        site.relays[0].delay = 0.0


@contextmanager
def _very_slow(site: Site) -> Iterator[None]:
    """Two seconds for whatever is sent, there and back: a token is used after six answers, which take more than 20."""
    site.relays[0].delay = site.relays[0].delay_of_questions = 2.0
    try:
        yield
    finally:
        site.relays[0].delay = site.relays[0].delay_of_questions = 0.0


@contextmanager
def _still(site: Site) -> Iterator[None]:
    """Nothing gets through for a minute, and nobody is told; then all that was sent arrives."""
    begun = time.monotonic()
    site.relays[0].flows.clear()
    try:
        yield
        time.sleep(max(0.0, _STILL - (time.monotonic() - begun)))
    finally:
        site.relays[0].flows.set()


def _cut_behind(octets: int) -> Callable[[Site], AbstractContextManager[None]]:
    """Each connection is cut in the middle of an answer, those that there are with the next one."""

    @contextmanager
    def inject(site: Site) -> Iterator[None]:
        site.relays[0].cut_behind = octets
        try:
            yield
        finally:
            site.relays[0].cut_behind = None

    return inject


@contextmanager
def _full(site: Site) -> Iterator[None]:
    """Every row that is written finds the disk full, as PostgreSQL says it (SQLSTATE 53100)."""
    tables = [str(name) for (name,) in site.servers[0].execute(_TABLES, name=site.name)]
    site.servers[0].execute(_DISK_FULL, name=site.name)
    make = "CREATE TRIGGER is_full BEFORE INSERT OR UPDATE ON hushlist.{0} EXECUTE FUNCTION public.disk_full()"
    site.servers[0].execute(*(make.format(table) for table in tables), name=site.name)
    try:
        yield
    finally:
        site.servers[0].execute(*(f"DROP TRIGGER is_full ON hushlist.{table}" for table in tables), name=site.name)


_TABLES = (
    "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE nspname = 'hushlist' AND relkind IN ('r', 'p') AND NOT relispartition"
)
_DISK_FULL = """
CREATE OR REPLACE FUNCTION public.disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
END $$
"""


@contextmanager
def _cut_off(site: Site) -> Iterator[None]:
    site.relays[0].close()
    try:
        yield
    finally:
        site.relays[0].is_open = True


@contextmanager
def _failed_over(site: Site) -> Iterator[None]:
    """The first address is gone for good, and the second one answers."""
    site.relays[1].is_open = True
    site.relays[0].close()
    try:
        yield
    finally:
        site.relays[0].is_open = True
        site.relays[1].close()


def _clock(seconds: float) -> Callable[[Site], AbstractContextManager[None]]:
    @contextmanager
    def inject(site: Site) -> Iterator[None]:
        site.set_clock(seconds)
        yield
        site.set_clock(0.0)

    return inject


@contextmanager
def _nothing(_: Site) -> Iterator[None]:
    yield


@contextmanager
def _read_only(site: Site) -> Iterator[None]:
    site.servers[0].execute("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        site.servers[0].execute("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")


@contextmanager
def _promoted(site: Site) -> Iterator[None]:
    """The server is gone for good, and only later, its standby takes its place."""
    standby, primary = site.servers
    primary.kill()
    yield
    standby.promote()


@contextmanager
def _apart(site: Site) -> Iterator[None]:
    """The first machine is cut off from all others, in the middle of a write; what changes meanwhile comes later."""
    with ExitStack() as write, Overrides(site.direct, time.time) as overrides:
        ended = site.grant(ENDED)
        site.wait_for(lambda: site.get(0, ENDED) == site.get(1, ENDED) == 200)
        with site.at(0):
            database = PostgresStore(site.servers[0].address(site.name), "unblock")
            write.enter_context(database.writing())
        with site.machines[0].cut_off():
            overrides.revoke(ended, by="x")  # which waits for the lock that the first machine had
            site.grant(LATER)
            site.wait_for(lambda: (site.get(1, ENDED), site.get(1, LATER)) == (403, 200))
            yield
            assert (site.get(0, ENDED), site.get(0, LATER)) == (200, 403)
        site.wait_for(lambda: (site.get(0, ENDED), site.get(0, LATER)) == (403, 200))
        with suppress(StoreError):
            write.close()
            raise AssertionError("the write was not undone")


DATABASE_FAULTS = (
    DatabaseFault("nothing is wrong", _nothing, TAKEN_ONCE),
    DatabaseFault("the database is killed", _killed),
    DatabaseFault("the database is restarted", _restarted, TAKEN_ONCE),
    DatabaseFault("the database is cut off", _cut_off),
    DatabaseFault("the database needs half a second an answer", _slow, TAKEN_ONCE),
    DatabaseFault("the database needs four seconds an answer", _very_slow),
    DatabaseFault("the line stands still for a minute", _still),
    DatabaseFault("each connection is cut, before it is made", _cut_behind(50)),
    DatabaseFault("each connection is cut, in a question", _cut_behind(1500)),
    DatabaseFault("the database is full", _full),
    DatabaseFault("the database is read-only", _read_only),
    DatabaseFault("the database has another address", _failed_over, TAKEN_ONCE),
    DatabaseFault("a clock is a minute fast", _clock(59.0), TAKEN_ONCE),
    DatabaseFault("a clock is a minute slow", _clock(-59.0), TAKEN_ONCE),
)
PROMOTED = DatabaseFault("the database is killed, a standby promoted", _promoted)
APART = DatabaseFault("a machine is cut off from the others", _apart, TAKEN_ONCE)
#: requests of each kind at each proxy, at least, and their answers
_REQUESTS = 5
_SITES = (("ads.test", 403), ("good.test", 200), ("granted.test", 200))
#: seconds that the line stands still
_STILL = 60.0
#: seconds that requests may wait more than before, and the longest that any may wait, however busy the machine is: who
#: waits for a slow database waits half a second each time, and for one that is away or stands still, five or more
LATER_AT_MOST, LONGEST_AT_MOST = 0.2, 4.0


def try_fault(fault: DatabaseFault, site: Site) -> Outcome:
    """What is seen while a fault is there; afterwards all has to be as before.

    Raises:
        AssertionError: it does not come back.
    """
    word = uuid4().hex
    host, code = site.new_code()
    before, _ = _browse(site, f"{word}/before")
    with fault.inject(site), ThreadPoolExecutor(1) as thread:
        begun = time.monotonic()
        entering = thread.submit(site.enter, host, code)
        times, answers = _browse(site, word, lambda: entering.done())
        during = entering.result()
        waited = time.monotonic() - begun
    begun = time.monotonic()
    goes_on = all(answer == status for answer, (_, status) in zip(answers.values(), cycle(_SITES)))
    taken = during.count(303)
    expected = answers.keys()
    if not taken:
        after = list[int]()

        def is_taken() -> bool:
            after[:] = site.enter(host, code)
            return 303 in after

        site.wait_for(is_taken)
        taken = after.count(303)
    said = f"taken {taken} times" if taken != 1 else TAKEN_ONCE if 303 in during else REFUSED
    site.wait_for(lambda: expected <= site.logged(word).keys())
    logged = site.logged(word)
    return Outcome(
        site.leaks(word),
        goes_on,
        said,
        len(expected),
        len(expected - logged.keys()),
        sum(number > 1 for number in logged.values()),
        waited,
        time.monotonic() - begun,
        quickest(times) - quickest(before),
        max(times),
    )


def quickest(times: list[float]) -> float:
    """The seconds after which a tenth is done: a busy machine delays some, and what waits for a database delays all."""
    return sorted(times)[len(times) // 10]


def _browse(site: Site, word: str, is_over: Callable[[], bool] = lambda: True) -> tuple[list[float], dict[str, int]]:
    """Ask both proxies for all sites, some times, and then until something is over: the seconds that each request took,
    and the status of the answer to each address."""
    times, answers = list[float](), dict[str, int]()
    for number in count():
        if number >= _REQUESTS and is_over():
            return times, answers
        for at, (name, _) in product(range(len(site.proxies)), _SITES):
            begun = time.monotonic()
            answers[f"http://{name}/{word}/{number}-{at}"] = site.get(at, name, f"{word}/{number}-{at}")
            times.append(time.monotonic() - begun)
        if number >= _REQUESTS:
            time.sleep(0.2)
    raise AssertionError


def expected_of(fault: DatabaseFault, outcome: Outcome) -> Outcome:
    """What has to be seen."""
    return outcome._replace(leaks=0, goes_on=True, code=fault.code, missing=0, doubled=0)


def is_prompt(outcome: Outcome) -> bool:
    """Whether no request waited for the database."""
    return outcome.later <= LATER_AT_MOST and outcome.longest <= LONGEST_AT_MOST


@contextmanager
def near(folder: Path, server: Server) -> Iterator[Site]:
    """All on loopback, with a database that is removed at the end."""
    with server.database() as name, Origin(folder) as origin:
        site = Site(folder / "site", name, [server] * 2, [origin] * 2)
        site.relays[1].close()
        with site:
            yield site


@contextmanager
def with_standby(folder: Path) -> Iterator[Site]:
    """All on loopback; the first address is that of a standby."""
    with ExitStack() as stack:
        primary = stack.enter_context(running())
        own = stack.enter_context(tempfile.TemporaryDirectory(prefix="hushlist-postgres-"))
        standby = Server(Path(own))
        standby.follow(primary)
        stack.callback(standby.stop)
        origin = stack.enter_context(Origin(folder))
        yield stack.enter_context(Site(folder / "site", "migrated", [standby, primary], [origin] * 2))


@contextmanager
def apart(folder: Path) -> Iterator[Site]:
    """Three machines: two with a proxy and an origin each, and one with the database, on which their cables end."""
    with ExitStack() as stack:
        *machines, third = (stack.enter_context(Machine()) for _ in range(3))
        third.run("ip", "address", "add", "10.77.0.1/32", "dev", "lo")
        origins = []
        for number, machine in enumerate(machines, 1):
            third.cable(f"to{number}", machine, "eth0")
            third.address(f"to{number}", f"10.77.{number}.1/24")
            machine.address("eth0", f"10.77.{number}.2/24")
            machine.run("ip", "route", "add", "default", "via", f"10.77.{number}.1")
            with machine.inside():
                own = folder / f"origin{number}"
                own.mkdir()
                origins.append(stack.enter_context(Origin(own)))
        server = stack.enter_context(running("10.77.0.1", third.command))
        yield stack.enter_context(Site(folder / "site", "migrated", [server], origins, machines))


def main() -> int:
    """Print a line for each fault whose name has the words that are given."""
    wrong = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(redirect_stdout(io.StringIO()))  # all that the proxies say, at their end
        head = (
            f"{'injected':<42} {'leaks':>5} {'granted':<8} {'a code at both':<26} {'form':>6} {'records':>7} lost twice"
        )
        print(f"{head} {'back':>6} {'later':>6} {'longest':>7}", file=sys.stderr)
        for fault, site in _sites(folder):
            seen = try_fault(fault, site)
            wrong += seen != expected_of(fault, seen) or not is_prompt(seen)
            granted = "goes on" if seen.goes_on else "ENDS"
            row = f"{fault.name:<42} {seen.leaks:>5} {granted:<8} {seen.code:<26} {seen.waited:>4.1f} s"
            print(
                f"{row} {seen.requests:>7} {seen.missing:>4} {seen.doubled:>5} {seen.back:>4.1f} s"
                f" {1000 * seen.later:>3.0f} ms {1000 * seen.longest:>4.0f} ms",
                file=sys.stderr,
                flush=True,
            )
        if why := why_not():
            print(f"{APART.name:<42} {why}", file=sys.stderr)
    return 1 if wrong else 0


def _sites(folder: Path) -> Iterator[tuple[DatabaseFault, Site]]:
    """Each fault, and where it is tried."""
    places = [folder / name for name in ("near", "standby", "apart")]
    for place in places:
        place.mkdir()
    words = " ".join(sys.argv[1:])
    if faults := [fault for fault in DATABASE_FAULTS if words in fault.name]:
        with running() as server, near(places[0], server) as site:
            yield from ((fault, site) for fault in faults)
    if words in PROMOTED.name:
        with with_standby(places[1]) as site:
            yield PROMOTED, site
    if words in APART.name and why_not() is None:
        with apart(places[2]) as site:
            yield APART, site


if __name__ == "__main__":
    sys.exit(main())
