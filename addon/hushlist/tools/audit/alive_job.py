"""``hushlist lint --alive``: asks name servers which names of lists are gone; nothing is sent to the names themselves.

    names of the lists -> try each resolver -> ask each for each name, paced -> state of all runs -> dead names

A name is dead if each resolver that counts denied it twice, a day or more apart. A resolver does not count that answers
for names that nobody can have; for one name, if it answers for a name beside it that nobody has; a denial does not,
unless it names the zone of the name: filters make denials up.

Spec: RFC 2308, 2.1; RFC 6761, 6.4; RFC 8020, 2
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from asyncio import IncompleteReadError
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from hushlist.core.compile import list_chunks
from hushlist.core.compile.worker_processes import Progress
from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.patterns import canonicalize_expression
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.match.rule import Expression, Pattern, WholeUrl
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.system.files import read_regular, replace_file, source_errors
from hushlist.core.url.host import is_address
from hushlist.extensions.adblock.network_filter import NetworkFilter
from hushlist.extensions.resolution import resolver

#: seconds between two denials that count, and the least between two questions for a name
DAY = 24 * 3600
#: seconds for which the state keeps a name that no run has asked for
_LONGEST_KEPT = 120 * DAY
#: names of all lists, octets of a state, resolvers
MOST_NAMES, _LONGEST_STATE, MOST_RESOLVERS = 1 << 20, 1 << 28, 8
#: names that are asked for at once; seconds for an answer, and how often a silent resolver is asked
AT_ONCE, PATIENCE, _ATTEMPTS = 32, 3.0, 2
#: seconds between two writings of the state
_SAVED_EACH = 60.0
_A = 1
_NAME = re.compile(rb"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+")
_NAME_SERVER = re.compile(
    r"(?P<alone>[^:\[\]]*:[^\[\]]*:[^\[\]]*)|(?:\[(?P<sixth>[^\[\]]+)\]|(?P<fourth>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
#: top-level names that no name server of the net has. Spec: RFC 6761; RFC 6762, 3; RFC 7686, 2; RFC 9476
_OF_NO_ZONE = frozenset((b"alt", b"internal", b"invalid", b"local", b"localhost", b"onion", b"test"))


class NameServer(NamedTuple):
    """A resolver."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def parse_name_server(text: str) -> NameServer:
    """An address, with or without a port.

    >>> [str(parse_name_server(text)) for text in ("192.0.2.1", "192.0.2.1:54", "2001:db8::1", "[2001:db8::1]:54")]
    ['192.0.2.1:53', '192.0.2.1:54', '[2001:db8::1]:53', '[2001:db8::1]:54']

    Raises:
        ValueError: it is none.
    """
    parts = _NAME_SERVER.fullmatch(text)
    if parts is None or not 0 < int(parts["port"] or resolver.PORT) < 1 << 16:
        raise ValueError(text)
    return NameServer(
        str(ip_address(parts["sixth"] or parts["alone"] or parts["fourth"])), int(parts["port"] or resolver.PORT)
    )


# -- names -------------------------------------------------------------------------------------------------------------


class ListedAt(NamedTuple):
    """Where a list has a name."""

    source: str
    line: int


class ListedNames(NamedTuple):
    """The names of lists, and where each is, in the order of files and lines."""

    places: dict[bytes, list[ListedAt]]
    #: rules without a name that can be asked for: of hashes, addresses, parts of URLs, public suffixes
    others: int


def host_of_pattern(pattern: Pattern) -> bytes | None:
    """The name in a pattern, at or below a name that somebody registered; ``None`` without one, as of a hash."""
    if isinstance(pattern, WholeUrl):
        pattern = canonicalize_expression(pattern.value.decode())
    if isinstance(pattern, Expression):
        host = pattern.value.partition(b"/")[0]
    elif isinstance(pattern, NetworkFilter):
        host = pattern.guide
    else:
        return None
    if not _NAME.fullmatch(host) or is_address(host) or host.rpartition(b".")[2] in _OF_NO_ZONE:
        return None
    return None if public_suffixes().section_of(host + b"/") else host


def _hosts(chunk: list_chunks.LoadedChunk) -> list[tuple[bytes | None, int]]:
    return [(host_of_pattern(rule.pattern), rule.line) for rule in chunk.rules]


def listed_names(files: Sequence[ListFile], progress: Progress | None = None) -> ListedNames:
    """The names of the rules of lists.

    Raises:
        SourceError: a list cannot be used, or there are too many names.
    """
    lists = list_chunks.chunk_lists(files, "lint")
    names, others = dict[bytes, list[ListedAt]](), 0
    with list_chunks.list_workers(lists, None, progress) as workers:
        for file, hosts in list_chunks.read_lists(lists, workers, _hosts):
            for host, line in hosts:
                if host is None:
                    others += 1
                    continue
                place = ListedAt(lists[file].file.source, line)
                places = names.setdefault(host, [])
                if not places or places[-1] != place:
                    places.append(place)
            if len(names) > MOST_NAMES:
                raise SourceError([Problem("lint", 0, "--alive", f"the lists have more than {MOST_NAMES:,} names")])
    list_chunks.raise_errors(lists)
    return ListedNames(names, others)


# -- what is known of names from run to run ----------------------------------------------------------------------------


class Verdict(StrEnum):
    """What is known of a name."""

    DEAD = "dead"
    #: not denied for a day yet
    DENIED = "denied"
    ALIVE = "alive"
    UNKNOWN = "unknown"


class Denials(NamedTuple):
    """When a name was first and last denied, in seconds, and by whom; by nobody: it was alive."""

    first: int
    last: int
    by: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        if not self.by:
            return Verdict.ALIVE
        return Verdict.DEAD if self.last - self.first >= DAY else Verdict.DENIED

    def denied(self, now: int, by: tuple[str, ...]) -> Denials:
        """After another denial; one by a resolver that did not deny the name before begins anew."""
        return Denials(self.first if {*by} <= {*self.by} and self.first <= now else now, now, by)


class State:
    """What all runs with a file know of names."""

    def __init__(self, path: Path, now: int) -> None:
        """Raises ``SourceError`` if there is a file, and it is no state."""
        self._path, self.names = path, dict[bytes, Denials]()
        with source_errors(path, path.name):
            if not path.exists():
                return
            try:
                for name, (first, last, by) in json.loads(read_regular(path, _LONGEST_STATE))["names"].items():
                    if last > now - _LONGEST_KEPT:
                        self.names[name.encode()] = Denials(int(first), int(last), tuple(map(str, by)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise ValueError("it is no state of 'hushlist lint --alive'") from None

    def save(self) -> None:
        """Write it; names that were not asked for longest go if they are too many."""
        kept = sorted(self.names.items(), key=lambda item: item[1].last)[-MOST_NAMES:]
        text = json.dumps({"names": {name.decode(): record for name, record in kept}}, separators=(",", ":"))
        with source_errors(self._path, self._path.name):
            replace_file(self._path, text.encode() + b"\n")


# -- questions ---------------------------------------------------------------------------------------------------------


class Says(Enum):
    """What a resolver says of a name."""

    EXISTS = auto()
    DENIED = auto()
    #: denied, without the zone
    MADE_UP = auto()
    #: it answers for every name there
    WILDCARD = auto()
    #: that it is at no address of the net, as filters answer for what they block
    NOWHERE = auto()
    #: it does not answer, or cannot
    NOTHING = auto()


class Pace:
    """Gives turns, so many a second."""

    def __init__(self, rate: int) -> None:
        self._step, self._next = 1 / rate, 0.0

    def wait_from(self, now: float) -> float:
        """Seconds from now to the next turn, which is taken.

        >>> pace = Pace(4)
        >>> [pace.wait_from(now) for now in (10.0, 10.0, 10.125, 20.0)]
        [0.0, 0.25, 0.375, 0.0]
        """
        turn = max(now, self._next)
        self._next = turn + self._step
        return turn - now


@dataclass(slots=True)
class Outcome:
    """What a run ends with."""

    #: resolver -> why it does not count
    refused: dict[str, str] = field(default_factory=dict)
    #: resolver -> zones in which it answers for every name
    wildcards: dict[str, set[str]] = field(default_factory=dict)
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[Verdict]:
        return Counter(self.verdicts.values())

    def dead(self, names: Mapping[bytes, Sequence[ListedAt]]) -> Iterator[tuple[str, ListedAt]]:
        """The names that are dead, and where the lists have them, in their order."""
        for name, places in names.items():
            if self.verdicts.get(name) is Verdict.DEAD:
                yield from ((name.decode(), place) for place in places)


class NameSearch:
    """Asks resolvers for names; one event loop uses it."""

    def __init__(self, servers: Sequence[NameServer], rate: int, clock: Callable[[], datetime], state: State) -> None:
        self._servers, self._clock, self._state = list(dict.fromkeys(servers)), clock, state
        self._pace = Pace(rate)
        self._beside: dict[tuple[NameServer, bytes], asyncio.Future[Says]] = {}
        self.outcome = Outcome()

    async def run(self, names: Sequence[bytes], progress: Progress | None = None) -> Outcome:
        """Ask for all names; whatever ends it, the state is kept.

        Raises:
            SourceError: the state cannot be written.
        """
        await self._leave_out_liars()
        todo, done, loop = iter(names), 0, asyncio.get_running_loop()
        save_at = loop.time() + _SAVED_EACH

        async def work() -> None:
            nonlocal done, save_at
            for name in todo:
                self.outcome.verdicts[name] = await self._verdict(name)
                done += 1
                if progress is not None:
                    progress("asked", done, len(names))
                if loop.time() >= save_at:
                    save_at = loop.time() + _SAVED_EACH
                    self._state.save()

        if self._servers:
            self._state.save()  # if that fails, nothing need be asked
            try:
                await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            finally:
                self._state.save()
        return self.outcome

    async def _leave_out_liars(self) -> None:
        """Keep the resolvers that deny a name that nobody can have. Spec: RFC 6761, 6.4"""
        made_up = f"{secrets.token_hex(8)}.invalid".encode()
        for server, says in await self._of_each(self._ask, made_up):
            if says not in (Says.DENIED, Says.MADE_UP):
                self._servers.remove(server)
                why = "it does not answer" if says is Says.NOTHING else "it answers for names that nobody can have"
                self.outcome.refused[str(server)] = why

    async def _verdict(self, name: bytes) -> Verdict:
        now = int(self._clock().timestamp())
        record = self._state.names.get(name)
        servers = {str(server) for server in self._servers}
        if record is not None and 0 <= now - record.last < DAY and {*record.by} in (set(), servers):
            return record.verdict
        says = await self._of_each(self._look, name)
        counted = {str(server): what for server, what in says if what is not Says.WILDCARD}
        if Says.EXISTS in counted.values():
            record = Denials(now, now, ())
        elif counted and {*counted.values()} == {Says.DENIED}:
            record = (record or Denials(now, now, ())).denied(now, tuple(counted))
        else:
            return Verdict.UNKNOWN
        self._state.names[name] = record
        return record.verdict

    async def _of_each(
        self, ask: Callable[[NameServer, bytes], Awaitable[Says]], name: bytes
    ) -> list[tuple[NameServer, Says]]:
        says = await asyncio.gather(*(ask(server, name) for server in self._servers))
        return list(zip(self._servers, says, strict=True))

    async def _look(self, server: NameServer, name: bytes) -> Says:
        """What a resolver says of a name; that it exists, only if one beside it does not."""
        says = await self._ask(server, name)
        if says is not Says.EXISTS:
            return says
        zone = name.partition(b".")[2]
        beside = self._beside.get((server, zone))
        if beside is None:
            made_up = secrets.token_hex(8).encode() + b"." + zone
            beside = self._beside[server, zone] = asyncio.ensure_future(self._ask(server, made_up))
        of_made_up = await asyncio.shield(beside)
        if of_made_up in (Says.EXISTS, Says.NOWHERE):
            self.outcome.wildcards.setdefault(str(server), set()).add(zone.decode())
            return Says.WILDCARD
        return Says.NOTHING if of_made_up is Says.NOTHING else Says.EXISTS

    async def _ask(self, server: NameServer, name: bytes) -> Says:
        for _ in range(_ATTEMPTS):
            await asyncio.sleep(self._pace.wait_from(asyncio.get_running_loop().time()))
            with suppress(OSError, TimeoutError, IncompleteReadError, resolver.MessageError):
                question = resolver.question_of(name, _A, secrets.randbelow(1 << 16))
                async with asyncio.timeout(PATIENCE):
                    message = await resolver.exchange(server.address, question, server.port)
                return _meaning(message, question)
        return Says.NOTHING


def _meaning(message: bytes, question: bytes) -> Says:
    if resolver.is_denial(message):
        return Says.DENIED if resolver.denying_zone(message, question) is not None else Says.MADE_UP
    answer = resolver.read_answer(message, question)
    if answer is None:
        return Says.NOTHING
    addresses = [ip_address(text) for its in answer.addresses.values() for text in its]
    is_nowhere = bool(addresses) and all(each.is_unspecified or each.is_loopback for each in addresses)
    return Says.NOWHERE if is_nowhere else Says.EXISTS
