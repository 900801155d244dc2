"""The readers of lines: of the log, and of Squid."""

from __future__ import annotations

import argparse
from functools import cache, partial
from itertools import chain, product

from hushlist.cli.log_command import parse_past_moment
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import address_text
from hushlist.core.url.hrn import parse_hrn
from hushlist.extensions.journal.log_database import COUNTED, LogFilters, parse_lines
from hushlist.extensions.journal.log_identifiers import parse_reference
from hushlist.tools.squid.helper import LONGEST_LINE, AccessList, Redirector, SquidHelper, cut_lines, quoted
from support.engines import engine_of
from unit.parsers.table import NOON, Parser, put, text_of

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

_LINE = (
    b'{"reference": "0123456789", "time": "2026-12-24T22:30:00.250Z", "client": "192.0.2.7", "url": '
    b'"http://h.example:81/x?y", "action": "block", "category": "hrn://c.example/web", "list": "l", "tags": []}\n'
)
_FILTERS = (
    LogFilters(host="h.example", since="2026", until="2027", clients=["192.0.2.7"], users=["x"]),
    LogFilters(["block", "warn"], category=parse_hrn("hrn://c.example/web"), list_name="l"),
)


@add("log lines", _LINE, _LINE + b'{"url": 1, "client": [], "category": {}}\n[]\nnull\n', units=(b"[", b'{"a":', b"9"))
def _log(octets: bytes) -> None:
    for fields in parse_lines(octets.split(b"\n")):
        for filters, by in product(_FILTERS, COUNTED):
            assert all(found == (fields, found[1]) for found in filters.fitting([fields], by))


@add(
    "log moment",
    "2h",
    "3d",
    "2026-12-24T22:30",
    "2026-W52-4",
    "999999w",
    "0001-01-01",
    errors=argparse.ArgumentTypeError,
)
def _moment(octets: bytes) -> None:
    assert parse_past_moment(text_of(octets), NOON).endswith("Z")


@add("log names", "oo3f8-kq7lz", "192.0.2.7", "::ffff:10.0.0.7", "fe80::1%eth0")
def _names(octets: bytes) -> None:
    found = parse_reference(text_of(octets))
    assert found is None or parse_reference(found) == found
    address_text(text_of(octets))


_BLOCKING = """
rules:
- {expression: blocked.example, reason: "Ads \\u00fc", category: 'hrn://c.example/ads'}
- {expression: path.example/live/, reason: He said}
- {expression: tagged.example, action: tag}
- {expression: warned.example, action: warn}
- {address: '2001:db8::/32'}
- hashed:sha1=ae96302a0468481aca954431cf293e05aca95443
"""


@cache
def engine() -> Engine:
    return engine_of(_BLOCKING)


def _must_not_complain(text: str) -> None:
    raise AssertionError(text)


@cache
def helpers() -> tuple[SquidHelper, ...]:
    redirector = Redirector("http://page.example/?u=%u&a=%a&i=%i&t=%t&r=%r&l=%l")
    return tuple(SquidHelper(engine(), speech, _must_not_complain) for speech in (AccessList(), redirector))


@add(
    "helper lines",
    b"0 http://blocked.example/ 192.0.2.7/- jo GET myip=192.0.2.1 myport=3128\nhttp://other.example/ -\n",
    b"7 %5B2001:db8::1%5D:443 -\nh.example:443 192.0.2.7/h - CONNECT\nhttp://path.example/live/a b c/- - GET\n",
    units=(b"http://path.example/live/ ", b" a=", b"1 ", b" 1/- - GET", b"h:", b"%40"),
)
def _lines(octets: bytes) -> None:
    for helper in helpers():
        cut = len(octets) // 2
        for line in chain.from_iterable(cut_lines([octets[:cut], octets[cut:]])):
            answer = helper.answer(line)
            assert b"\n" not in answer
            assert len(answer) < LONGEST_LINE


@add("helper redirect", "https://page.example/?u=%u&%%#%r", "http://filter.example:81/a%l", errors=ValueError)
def _redirect(octets: bytes) -> None:
    quoted(text_of(octets))
    assert Redirector(text_of(octets)).failed.isascii()
