"""The readers of the policy, and of what is typed against it."""

from __future__ import annotations

from datetime import UTC, timedelta
from functools import cache, partial

from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.patterns import canonical_target
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.match.index import Index
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.policy.schedule import read_schedules
from hushlist.extensions.safe_search.safe_search import rewrite_for_safe_search, services
from hushlist.extensions.unblock import SCOPES
from hushlist.extensions.unblock.credentials import TokenError, Tokens, hash_code, parse_stored, tidied_code
from hushlist.extensions.unblock.grants import check_target
from support.engines import index_of
from unit.parsers.table import KEY, NOON, ROOT, Parser, check_problems, put, scratch_file, text_of

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

_POLICY = b"""\
unparsable: block
timezone: Europe/Berlin
schedules:
  lessons: {days: mon-fri, times: '08:00-12:30, 13:30-15:00', except: holidays}
  holidays: [{dates: 2026-12-21..2027-01-06}, {dates: 2026-10-03}]
  nights: {times: 21:00-06:30}
unblock: {passphrase: scrypt$n=2,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg, codes: true, scopes: [host]}
categories: {'hrn://c.example/web': {action: block, during: lessons, otherwise: warn}, 'hrn://c.example/ads': tag}
safe-search: {google: strict, youtube: moderate}
groups:
- {name: teachers, users: [berg, 'nowak'], addresses: [10.0.0.0/8, 'fe80::/10'], mode: tag, layers: [own]}
- {name: pupils, addresses: [192.0.2.7], categories: {'hrn://c.example/web/games': {action: block, during: nights}}}
log: {what: all, folder: log, clients: pseudonym, queries: drop, days: 30, files: 4, size: 10 MB, gzip: true}
layers:
- {name: own, during: lessons, checks: {user-information: block, well-known-port: {action: tag, ports: [81]}}}
- name: lists
  lists:
  - {file: absent.yaml, format: domains, category: 'hrn://c.example/web', action: block, prefix-length: 4, reason: x}
"""


@cache
def policy_samples() -> tuple[bytes, ...]:
    found = (path.read_bytes() for path in sorted(ROOT.glob("*/**/policy.yaml")))
    return (_POLICY, b"layers: []\ngroups: []\n", *found)


@cache
def empty_index() -> Index:
    return index_of(())


def _policy(octets: bytes) -> None:
    path, report = scratch_file(), ProblemReport("policy")
    path.write_bytes(octets)
    policy = read_policy(path, report)
    check_problems(report, octets)
    assert policy is not None or report.errors
    if policy is None or report.errors:
        return
    engine = Engine(policy, empty_index())
    for hours in (0, 11, 24 * 180):
        for client in (Client("10.1.2.3", "berg", 8081), Client("192.0.2.7"), Client("")):
            now = NOON + timedelta(hours=hours)
            engine.decide_url(b"http://user@h.example:81/x", now, client)
            engine.group(client)


PARSERS["policy"] = Parser(_policy, policy_samples, units=(b"[", b"a: 1\n", b"- a\n", b",", b"a,", b"x "))


@add(
    "policy schedules",
    "{a: {days: mon-fri, times: '08:00-12:30, 13:30-15:00', except: [b, 2026-12-24]}, b: [{dates: 2026-12-21}]}",
    "{night: {days: 'Fri, sat', times: 21:00-06:30, except: a}, a: {times: 12:00-24:00, except: c}, c: {days: sun}}",
    units=(b"mon,", b"a: {days: mon}, ", b"00:00-24:00,", b"2026-01-01..2026-02-01,", b"-"),
)
def _schedules(octets: bytes) -> None:
    report = ProblemReport("policy")
    node = read_document(octets, report)
    if node is not None:
        for schedule in read_schedules(node, UTC, report).values():
            if not report.errors:
                schedule.is_on(NOON)
                change = schedule.next_change(NOON)
                assert change is None or change > NOON
    check_problems(report, octets)


@add("policy timezone", "Europe/Berlin", "europe/berlin", "America/Argentina/Ushuaia", "../../etc/passwd", "posix/UTC")
def _timezone(octets: bytes) -> None:
    report, text = ProblemReport("policy"), octets.decode("latin-1")
    path = scratch_file()
    path.write_bytes(b"layers: []\ntimezone: " + repr(text).encode())
    read_policy(path, report)
    assert len(report.errors) <= 1 or len(octets) > 1000


@add("policy passphrase", "scrypt$n=16384,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg", errors=ValueError)
def _stored(octets: bytes) -> None:
    parse_stored(text_of(octets))


@cache
def tokens() -> Tokens:
    return Tokens(KEY, lambda: 1_800_000_000.0, lambda _nonce, _until: True)


def _token(octets: bytes) -> None:
    token = text_of(octets)
    is_ours = tokens().is_ours(token)
    try:
        tokens().check(token, "192.0.2.7", "http://h.example/", "block")
    except TokenError:
        return
    assert is_ours


PARSERS["policy token"] = Parser(
    _token, lambda: [tokens().make("192.0.2.7", url, "block").encode() for url in ("http://h.example/", "x")]
)


@add("policy code", "7K3M-QRST-90VW", " 7k3m-QRST 9oiL ", "７K3MQRST90VW")
def _code(octets: bytes) -> None:
    code = tidied_code(text_of(octets))
    assert bool(hash_code(KEY, text_of(octets))) is (code is not None)


@add(
    "policy target",
    *("host\nHTTPS://Games.Example:443", "url\nhttp://h.example/a/../b?q#f", "category\nhrn://c.example/web"),
    errors=ValueError,
)
def _target(octets: bytes) -> None:
    scope, _, text = text_of(octets).partition("\n")
    found = canonical_target(scope if scope in SCOPES else SCOPES[0], text)
    check_target("host", found)


@add("policy safe search", "www.google.com\n/search?q=x&safe=off;SAFE=%6fff", "duckduckgo.com\n/?q=a&kp=-2#x")
def _safe_search(octets: bytes) -> None:
    host, _, target = octets.partition(b"\n")
    level = dict.fromkeys(services(), "strict")
    for one in (host, b"www.google.com", b"www.bing.com"):
        changed = rewrite_for_safe_search(one, target, level)
        assert changed is None or str(changed)
