"""ClientHellos, cut or odd, of which a server may read another name than the proxy, and sessions that are resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import pack

from e2e.proxy import request_head
from evasion.entries import Entry

#: the octets of a ClientHello, with the head of their record -> what is sent, piece by piece
Shape = Callable[[bytes], Sequence[bytes]]

#: octets of the head of a record, and of that of a message in it
_RECORD, _MESSAGE = 5, 4
_SERVER_NAME, _PADDING, _ENCRYPTED = 0, 21, 0xFE0D


def _record(octets: bytes, version: bytes = b"\x03\x01", kind: bytes = b"\x16") -> bytes:
    return kind + version + pack("!H", len(octets)) + octets


def _records(octets: bytes, size: int) -> bytes:
    """A message in records of so many octets."""
    return b"".join(_record(octets[at : at + size]) for at in range(0, len(octets), size))


def _name_at(hello: bytes) -> int:
    """Where the server name is in the middle."""
    return hello.index(b".test") + 2


def _at_name(hello: bytes) -> Sequence[bytes]:
    at = _name_at(hello)
    return hello[:at], hello[at:]


def _records_at(place: Callable[[bytes], int]) -> Shape:
    """The message in two records, cut at a place of the record that it was in."""

    def shape(hello: bytes) -> Sequence[bytes]:
        at = place(hello)
        return [_record(hello[_RECORD:at]) + _record(hello[at:])]

    return shape


def _records_in_pieces(hello: bytes) -> Sequence[bytes]:
    """Two records, each in a piece of its own."""
    at = _name_at(hello)
    return _record(hello[_RECORD:at]), _record(hello[at:])


#: what a server reads just as if it came whole
CUT: dict[str, Shape] = {
    "two pieces": _at_name,
    "a piece that ends in the record's head": lambda hello: (hello[:3], hello[3:]),
    "a piece that is the record's head": lambda hello: (hello[:_RECORD], hello[_RECORD:]),
    "all but the last octet": lambda hello: (hello[:-1], hello[-1:]),
    "two records": _records_at(_name_at),
    "two records, cut behind one octet": _records_at(lambda _: _RECORD + 1),
    "two records, cut behind the message's head": _records_at(lambda _: _RECORD + _MESSAGE),
    "two records, cut before the last octet": _records_at(lambda hello: len(hello) - 1),
    "two records in two pieces": _records_in_pieces,
    "a record for each octet": lambda hello: [_records(hello[_RECORD:], 1)],
    "records of 64 octets": lambda hello: [_records(hello[_RECORD:], 64)],
    "a record of version 3.0": lambda hello: [_record(hello[_RECORD:], b"\x03\x00")],
}


def _extension(kind: int, value: bytes) -> bytes:
    return pack("!HH", kind, len(value)) + value


def _names(*names: bytes, kind: int = 0) -> bytes:
    """The extension that has server names. Spec: RFC 6066, 3"""
    listed = b"".join(pack("!BH", kind, len(name)) + name for name in names)
    return _extension(_SERVER_NAME, pack("!H", len(listed)) + listed)


def _rewritten(change: Callable[[bytes], bytes], version: bytes = b"\x03\x03") -> Shape:
    """With the extensions that a change makes of those but the server name; all lengths fit. Spec: RFC 8446, 4.1.2"""

    def shape(hello: bytes) -> Sequence[bytes]:
        body = hello[_RECORD + _MESSAGE :]
        at = 2 + 32
        for size in (1, 2, 1):
            at += size + int.from_bytes(body[at : at + size], "big")
        others, rest = b"", body[at + 2 :]
        while rest:
            end = 4 + int.from_bytes(rest[2:4], "big")
            if int.from_bytes(rest[:2], "big") != _SERVER_NAME:
                others += rest[:end]
            rest = rest[end:]
        extensions = change(others)
        changed = version + body[2:at] + pack("!H", len(extensions)) + extensions
        message = b"\x01" + len(changed).to_bytes(3, "big") + changed
        return [_records(message, 1 << 14)]

    return shape


def _after(*before: bytes) -> Shape:
    """Something before it, in one piece."""
    return lambda hello: [b"".join(before) + hello]


_GOOD, _ADS = b"good.test", b"ads.test"
#: what some servers read in another way than others, or refuse; the name that is blocked is in each of them
ODD: dict[str, Shape] = {
    "a first piece of one octet": lambda hello: (hello[:1], hello[1:]),  # mitmproxy takes it for HTTP
    "two extensions, the blocked name first": _rewritten(lambda others: _names(_ADS) + others + _names(_GOOD)),
    "two extensions, the blocked name last": _rewritten(lambda others: _names(_GOOD) + others + _names(_ADS)),
    "two names, the blocked one first": _rewritten(lambda others: _names(_ADS, _GOOD) + others),
    "two names, the blocked one last": _rewritten(lambda others: _names(_GOOD, _ADS) + others),
    "a name of another type": _rewritten(lambda others: _names(_ADS, kind=1) + others),
    "an empty name before it": _rewritten(lambda others: _names(b"", _ADS) + others),
    "an empty list, and then a name": _rewritten(lambda others: _names() + others + _names(_ADS)),
    "a dot behind it": _rewritten(lambda others: _names(_ADS + b".") + others),
    "capitals": _rewritten(lambda others: _names(_ADS.upper()) + others),
    "a NUL behind it": _rewritten(lambda others: _names(_ADS + b"\x00.good.test") + others),
    "a line end behind it": _rewritten(lambda others: _names(_ADS + b"\n") + others),
    "a space behind it": _rewritten(lambda others: _names(_ADS + b" ") + others),
    "a port behind it": _rewritten(lambda others: _names(_ADS + b":443") + others),
    "an escape in it": _rewritten(lambda others: _names(b"%61ds.test") + others),
    "in Unicode": _rewritten(lambda others: _names("ａds.test".encode()) + others),
    "an octet behind its list": _rewritten(
        lambda others: _extension(_SERVER_NAME, _names(_ADS)[4:] + b"\x00") + others
    ),
    "a list that is said to be longer": _rewritten(
        lambda others: _extension(_SERVER_NAME, b"\x00\xff" + _names(_ADS)[6:]) + others
    ),
    "octets behind the extensions": _rewritten(lambda others: others + _names(_ADS) + b"\x00"),
    "an extension that is cut off": _rewritten(lambda others: others + _names(_ADS) + b"\x00\x10\x00\x09"),
    "padding of 20,000 octets before the name": _rewritten(
        lambda others: _extension(_PADDING, bytes(20_000)) + others + _names(_ADS)
    ),
    "an encrypted hello beside it": _rewritten(
        lambda others: _names(_ADS) + others + _extension(_ENCRYPTED, bytes(200))
    ),
    "the version of SSL 3": _rewritten(lambda others: _names(_ADS) + others, b"\x03\x00"),
    "a version that does not exist": _rewritten(lambda others: _names(_ADS) + others, b"\x03\x63"),
    "a record of version 3.3": lambda hello: [_record(hello[_RECORD:], b"\x03\x03")],
    "a record of no version": lambda hello: [_record(hello[_RECORD:], b"\x00\x00")],
    "a record of version 4.0": lambda hello: [_record(hello[_RECORD:], b"\x04\x00")],
    "a record of version 3.5, its first octet alone": lambda hello: [b"\x16", b"\x03\x05" + hello[3:]],
    "an alert before it": _after(_record(b"\x01\x5a", kind=b"\x15")),
    "a change of ciphers before it": _after(_record(b"\x01", kind=b"\x14")),
    "a heartbeat before it": _after(_record(b"\x01\x00\x00" + bytes(16), kind=b"\x18")),
    "an empty record before it": _after(_record(b"")),
    "application data before it": _after(_record(b"x", kind=b"\x17")),
    "a question for a hello before it": _after(_record(b"\x00\x00\x00\x00")),
    "a question for a hello in its record": lambda hello: [_record(bytes(4) + hello[_RECORD:])],
    "an empty record behind its message's head": lambda hello: [
        _record(hello[_RECORD : _RECORD + _MESSAGE]) + _record(b""),
        _record(hello[_RECORD + _MESSAGE :]),
    ],
    "a line before it": _after(b"\r\n"),
    "as SSL 2 has it": lambda hello: [b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + bytes(37) + hello],
}


def _and_a_second(hello: bytes) -> Sequence[bytes]:
    """A server that wants another key for the first one reads the second one, and may read its name."""
    return [hello, *_rewritten(lambda others: _names(_ADS) + others)(hello)]


_TUNNEL = ("good.test", 443)


def entries() -> Iterator[Entry]:
    """All of them, for a name that is blocked, and for one below which a path is."""
    good, ads = request_head(b"/", _GOOD), request_head(b"/", _ADS)
    secret = request_head(b"/secret/x", b"path.test")
    for spelling, shape in CUT.items():
        yield Entry("cut ClientHello", "ads.test", spelling, ads, _TUNNEL, "ads.test", shape)
        yield Entry("cut ClientHello", "path.test/secret/", spelling, secret, _TUNNEL, "path.test", shape)
    for spelling, shape in ODD.items():
        yield Entry("odd ClientHello", "ads.test", spelling, good, _TUNNEL, "ads.test", shape)
    second = "a second hello, of the blocked name"
    yield Entry("odd ClientHello", "ads.test", second, good, _TUNNEL, "good.test", _and_a_second)
    family = "names of TLS"
    yield Entry(family, "ads.test", "no server name", good, ("ads.test", 443), "")
    yield Entry(family, "10.0.0.0/8", "no server name, to an address", good, ("10.1", 443), "")
    yield Entry(family, "ads.test", "no server name, and Host", ads, ("11.1.1.1", 443), "")
    yield Entry(family, "path.test/secret/", "no server name, and a path", secret, ("11.1.1.1", 443), "")
    yield Entry(family, "path.test/secret/", "another server name", secret, ("path.test", 443), "good.test")
    yield Entry(family, "video.test", "an allowed folder of the site", good, ("video.test", 443), "good.test")
    yield Entry(family, "open.test/secret/", "a blocked folder of an allowed site", _OPEN, _TUNNEL, "open.test")
    for name, blocked, request in (
        ("ads.test", "ads.test", ads),
        ("path.test", "path.test/secret/", secret),
        ("x.ads.test", "ads.test", ads),
    ):
        resumed = f"{name}, of a session for good.test"
        yield Entry(
            "resumed TLS", blocked, resumed, request, _TUNNEL, name, resumes="good.test", arrives=(b"/session",)
        )


_OPEN = request_head(b"/secret/x", b"open.test")


def neighbours() -> Iterator[Entry]:
    """Harmless ones, cut in the same ways."""
    get = request_head(b"/x", _GOOD)
    for spelling, shape in CUT.items():
        yield Entry("cut ClientHello", "", spelling, get, _TUNNEL, "good.test", shape, arrives=(b"/x",))
    fine = request_head(b"/secret", b"path.test")
    yield Entry("names of TLS", "", "no server name", get, _TUNNEL, "", arrives=(b"/x",))
    yield Entry("names of TLS", "", "another server name", get, ("fine.test", 443), "good.test", arrives=(b"/x",))
    yield Entry("names of TLS", "", "a path", fine, ("path.test", 443), "path.test", arrives=(b"/secret",))
    resumed = (b"/session", b"/x")
    yield Entry("resumed TLS", "", "the same name", get, _TUNNEL, "good.test", resumes="good.test", arrives=resumed)
