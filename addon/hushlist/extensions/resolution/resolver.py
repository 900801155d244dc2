"""Asks the name servers that mitmproxy uses for all that a name leads to: aliases, addresses, and for how long.

mitmproxy's resolver (``mitmproxy_rs.dns``) tells addresses alone, neither the aliases on the way nor their time to
live; the system's ``getaddrinfo`` tells only the last alias. So the questions are asked here, and what the name servers
say of a public name is all that is known of it: who owns a name server could deny a name here, and lead the system
through aliases that nobody has decided. The system looks up what has no public suffix, such as names of mDNS, and
everything where no name server is known.

Spec: RFC 1035, 4 and 7
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from weakref import WeakValueDictionary

from hushlist.core.errors import Excess
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.host import names_above
from hushlist.proxy.connections.name_lookups import look_up_for

#: aliases and addresses of a name that are followed and decided, and records of an answer that are read
MOST_ALIASES, MOST_ADDRESSES, MOST_RECORDS = 16, 64, 512
#: labels and pointers of a message that are read
MOST_LABELS = 1 << 12
#: seconds that somebody waits for all answers, and for one
LONGEST_WAIT, PATIENCE = 6.0, 1.5
#: seconds for which an answer is kept at most, and one that there is none
LONGEST_LIFE, LIFE_OF_NOTHING = 3600, 5
#: datagrams of a name server that are looked at for an answer: without end, others would wait
MOST_DATAGRAMS = 16
#: names that are kept, and look-ups of one client at once
MOST_KNOWN, MOST_OF_CLIENT = 1 << 14, 16
#: that of name servers
PORT = 53
_A, _CNAME, _SOA, _AAAA, _IN = 1, 5, 6, 28, 1
_HEADER, _QUESTION, _RECORD = struct.Struct("!6H"), struct.Struct("!2H"), struct.Struct("!2HIH")
_IS_ANSWER, _IS_CUT, _CODE, _ASKS_ALL = 1 << 15, 1 << 9, 0xF, 1 << 8
_NO_SUCH_NAME = 3
_LONGEST_NAME, _LONGEST_LABEL, _POINTER = 255, 63, 0xC0
_HOSTS_FILE = Path("/etc/hosts")

_TOO_MANY = Excess(f"its name leads on through more than {MOST_ALIASES} others")


class Resolution(NamedTuple):
    """Where a name leads."""

    #: names, in the order in which they lead on, and addresses, in the order in which they are tried
    aliases: tuple[bytes, ...]
    addresses: tuple[str, ...]
    #: until when it holds, on the monotonic clock
    until: float
    #: why it is not followed
    fault: str | None

    @property
    def leads(self) -> tuple[bytes, ...]:
        """All of them, as hosts."""
        return (*self.aliases, *map(_host_of, self.addresses))


def _host_of(address: str) -> bytes:
    return (f"[{address}]" if ":" in address else address).encode()


def _nothing(fault: str | None = None) -> Resolution:
    return Resolution((), (), monotonic() + LIFE_OF_NOTHING, fault)


class Answer(NamedTuple):
    """What a name server says of a name."""

    #: name -> its alias; name -> its addresses; and the seconds for which all that holds
    aliases: dict[bytes, bytes]
    addresses: dict[bytes, list[str]]
    life: int


class MessageError(ValueError):
    """A message cannot be read."""


# -- messages ----------------------------------------------------------------------------------------------------------


def question_of(name: bytes, kind: int, number: int) -> bytes:
    """A question for a name, without a dot at its end.

    Raises:
        MessageError: no name on the wire can be it.
    """
    labels = name.split(b".")
    if len(name) > _LONGEST_NAME - 2 or not all(0 < len(label) <= _LONGEST_LABEL for label in labels):
        raise MessageError("it is too long for a name")
    encoded = b"".join(bytes((len(label),)) + label for label in labels)
    return _HEADER.pack(number, _ASKS_ALL, 1, 0, 0, 0) + encoded + b"\0" + _QUESTION.pack(kind, _IN)


def is_answer(message: bytes, question: bytes) -> bool:
    """Whether a message answers a question: by number, name, type and class."""
    entry = question[_HEADER.size :]
    is_answering = len(message) >= len(question) and int.from_bytes(message[2:4]) & _IS_ANSWER
    return (
        bool(is_answering)
        and message[:2] == question[:2]
        and (message[_HEADER.size : len(question)].lower() == entry.lower())
    )


def read_answer(message: bytes, question: bytes) -> Answer | None:
    """What a message says that answers a question; ``None``: the server could not answer.

    Raises:
        MessageError: it makes no sense, or has too many records.
    """
    _, flags, _, records, _, _ = _HEADER.unpack_from(message)
    answer = Answer({}, {}, LONGEST_LIFE)
    if flags & _CODE == _NO_SUCH_NAME:
        return answer
    if flags & _CODE:
        return None
    if records > MOST_RECORDS:
        raise MessageError("it has too many records")
    at, names, life = len(question), dict[int, bytes](), LONGEST_LIFE
    try:
        for _ in range(records):
            owner, at = _read_name(message, at, names)
            kind, class_, seconds, length = _RECORD.unpack_from(message, at)
            at += _RECORD.size
            data = message[at : at + length]
            if class_ == _IN and kind in (_A, _AAAA, _CNAME):
                life = min(life, seconds)
            if class_ == _IN and kind == _CNAME:
                answer.aliases[owner] = _read_name(message, at, names)[0]
            elif class_ == _IN and kind in (_A, _AAAA):
                made = IPv4Address(data) if kind == _A else IPv6Address(data)
                answer.addresses.setdefault(owner, []).append(str(made))
            at += length
    except (struct.error, IndexError, AddressValueError) as error:
        raise MessageError("it ends too early") from error
    return answer._replace(life=life)


def denying_zone(message: bytes, question: bytes) -> bytes | None:
    """The zone whose name servers say that there is no such name; ``None``: the answer does not name it.

    A name server that makes denials up, as filters do, has no zone that the name is in.

    Spec: RFC 2308, 2.1

    Raises:
        MessageError: it makes no sense, or has too many records.
    """
    _, flags, _, answers, records, _ = _HEADER.unpack_from(message)
    if flags & _CODE != _NO_SUCH_NAME or answers:
        return None
    if records > MOST_RECORDS:
        raise MessageError("it has too many records")
    at, names = len(question), dict[int, bytes]()
    try:
        name, _ = _read_name(question, _HEADER.size, {})
        for _ in range(records):
            owner, at = _read_name(message, at, names)
            kind, class_, _, length = _RECORD.unpack_from(message, at)
            at += _RECORD.size + length
            if (kind, class_) == (_SOA, _IN) and (not owner or name == owner or name.endswith(b"." + owner)):
                return owner
    except (struct.error, IndexError) as error:
        raise MessageError("it ends too early") from error
    return None


def is_denial(message: bytes) -> bool:
    """Whether an answer says that there is no such name."""
    return message[3] & _CODE == _NO_SUCH_NAME


def _read_name(message: bytes, at: int, names: dict[int, bytes]) -> tuple[bytes, int]:
    """A name in lower case, and where it ends. Pointers go back alone; ``names`` has what was read at each place."""
    way, octets, end, name = list[tuple[int, bytes]](), 0, 0, b""
    while length := message[at]:
        if len(names) + len(way) >= MOST_LABELS:
            raise MessageError("it has too many labels")
        if length >= _POINTER:
            way.append((at, b""))
            end, target = end or at + 2, int.from_bytes(message[at : at + 2]) & 0x3FFF
            if target >= at:
                raise MessageError("a name points forward")
            if (cached := names.get(target)) is not None:
                name = cached
                break
            at = target
            continue
        if length > _LONGEST_LABEL:
            raise MessageError("a label is too long")
        way.append((at, message[at + 1 : at + 1 + length].lower()))
        octets, at = octets + 1 + length, at + 1 + length
        if octets > _LONGEST_NAME:
            break
    if octets + len(name) > _LONGEST_NAME:
        raise MessageError("a name is too long")
    for place, label in reversed(way):
        name = label + b"." + name if label and name else label or name
        names[place] = name
    return name, end or at + 1


# -- look-ups ----------------------------------------------------------------------------------------------------------


class Resolver:
    """Looks names up; only the event loop uses it."""

    def __init__(self, servers: Callable[[], Sequence[str]], uses_hosts_file: Callable[[], bool]) -> None:
        self._servers, self._uses_hosts_file = servers, uses_hosts_file
        self._resolutions: LatestEntries[bytes, Resolution] = LatestEntries(MOST_KNOWN)
        self._tasks: dict[bytes, asyncio.Task[Resolution]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._hosts: tuple[object, dict[bytes, tuple[str, ...]]] = (None, {})

    async def look_up(self, name: bytes, client: str) -> Resolution:
        """Where a canonical name leads, for a client's address; what is known is kept for as long as it holds."""
        cached = self._resolutions.get(name)
        if cached is not None and cached.until > monotonic():
            return cached
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.get_running_loop().create_task(self._look_up(name, client))
            task.add_done_callback(lambda _: self._tasks.pop(name, None))
        # a client that goes away does not end what others wait for
        return await asyncio.shield(task)

    async def _look_up(self, name: bytes, client: str) -> Resolution:
        look_up_for(client)
        turn = self._turns.setdefault(client, asyncio.Semaphore(MOST_OF_CLIENT))
        resolution = _nothing()
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT), turn:
                resolution = await self._resolve(name)
        self._resolutions[name] = resolution
        return resolution

    async def _resolve(self, name: bytes) -> Resolution:
        listed = self._in_hosts_file(name) if self._uses_hosts_file() else ()
        if listed:
            return Resolution((), listed, monotonic() + LIFE_OF_NOTHING, None)
        servers = self._servers()
        aliases, at, life = list[bytes](), name, LONGEST_LIFE
        while servers and b"." in name:
            try:
                answers = await asyncio.gather(*(self._ask(servers, at, kind) for kind in (_A, _AAAA)))
            except MessageError as error:
                return _nothing(Excess(f"its name cannot be followed: {error}"))
            links = {owner: alias for answer in answers for owner, alias in answer.aliases.items()}
            life, before = min(life, *(answer.life for answer in answers)), at
            while at in links:
                at = links[at]
                aliases.append(at)
                if len(aliases) > MOST_ALIASES:
                    return _nothing(_TOO_MANY)
            if addresses := [address for answer in answers for address in answer.addresses.get(at, ())]:
                return Resolution(tuple(aliases), in_order(addresses), monotonic() + life, None)
            if at == before:
                break
        if servers and _is_public(name):
            return Resolution(tuple(aliases), (), monotonic() + LIFE_OF_NOTHING, None)
        last, system_addresses = await self.by_system(name)
        return Resolution((*aliases, *last), system_addresses, monotonic() + LIFE_OF_NOTHING, None)

    async def _ask(self, servers: Sequence[str], name: bytes, kind: int) -> Answer:
        """The first answer of a name server, of which each is asked twice; nothing, if none answers.

        Raises:
            MessageError: the answer makes no sense.
        """
        question = question_of(name, kind, secrets.randbelow(1 << 16))
        for server in (*servers[:3], *servers[:3]):
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(PATIENCE):
                    message = await exchange(server, question, PORT)
                if (answer := read_answer(message, question)) is not None:
                    return answer
        return Answer({}, {}, LIFE_OF_NOTHING)

    async def by_system(self, name: bytes) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The last alias, if there is one, and the addresses that the system knows of a name, by whatever it asks."""
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.getaddrinfo(
                name.decode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME
            )
        except (OSError, UnicodeError):
            return (), ()
        said = (last.lower().rstrip(".").encode() for _, _, _, last, _ in entries)
        aliases = tuple(dict.fromkeys(last for last in said if last and last != name))
        addresses = (str(place[0]).partition("%")[0] for *_, place in entries)
        return aliases[:MOST_ALIASES], tuple(dict.fromkeys(addresses))[:MOST_ADDRESSES]

    def _in_hosts_file(self, name: bytes) -> tuple[str, ...]:
        with suppress(OSError, ValueError):
            status = _HOSTS_FILE.stat()
            state = status.st_mtime_ns, status.st_size, status.st_ino
            if self._hosts[0] != state:
                self._hosts = state, read_hosts(_HOSTS_FILE.read_bytes().splitlines())
        return self._hosts[1].get(name, ())


def read_hosts(lines: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
    """The addresses by the names of a hosts file, as the system reads it."""
    named: dict[bytes, dict[str, None]] = {}
    for line in lines:
        address, *names = line.partition(b"#")[0].split() or [b""]
        with suppress(ValueError):
            text = str(ip_address(address.partition(b"%")[0].decode("ascii")))
            for name in names:
                named.setdefault(name.lower(), {})[text] = None
    return {name: tuple(addresses)[:MOST_ADDRESSES] for name, addresses in named.items()}


def _is_public(name: bytes) -> bool:
    """Whether a name is below a suffix of the public DNS."""
    return any(public_suffixes().section_of(above + b"/") for above in names_above(name, _LONGEST_NAME))


async def exchange(server: str, question: bytes, port: int) -> bytes:
    """A name server's answer: by UDP, or if it is cut, by TCP; the caller limits the time.

    Raises:
        OSError, IncompleteReadError: there is none.
    """
    message = await by_udp(server, question, port)
    return await _by_tcp(server, question, port) if int.from_bytes(message[2:4]) & _IS_CUT else message


async def by_udp(server: str, question: bytes, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.setblocking(False)
        connection.connect((server, port))  # only that server can answer
        await loop.sock_sendall(connection, question)
        for _ in range(MOST_DATAGRAMS):
            if is_answer(message := await loop.sock_recv(connection, 1 << 16), question):
                return message
    raise OSError("the name server answers other questions")


async def _by_tcp(server: str, question: bytes, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(server, port)
    try:
        writer.write(len(question).to_bytes(2) + question)
        message = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
        if not is_answer(message, question):
            raise OSError("it answers another question")
        return message
    finally:
        writer.close()


def in_order(addresses: Iterable[str]) -> tuple[str, ...]:
    """The addresses, without those that are too many; first of the kind that this machine has a way to.

    Spec: RFC 6724, 6, rules 1 and 6
    """
    each = list(dict.fromkeys(addresses))[:MOST_ADDRESSES]
    sixth = next((address for address in each if ":" in address), None)
    is_first = sixth is not None and _has_way(sixth)
    return tuple(sorted(each, key=lambda address: (":" in address) != is_first))


def _has_way(address: str) -> bool:
    """Whether the system knows a way to an IPv6 address; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.connect((address, PORT))
    except OSError:
        return False
    return True
