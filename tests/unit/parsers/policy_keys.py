"""The readers of single keys of the policy, and of what they name."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.groups import Client
from hushlist.core.policy.key_types import Reading
from hushlist.core.policy.keys import NONE, Type
from hushlist.core.policy.pass_through import (
    PassThrough,
    ReadFile,
    read_always_decrypted,
    read_kept_headers,
    read_pass_through,
)
from hushlist.core.policy.proxy_settings import NAME_ANSWERS, FailureCause, NameAnswers, read_on_failure
from hushlist.extensions.dashboard.live_key import LIVE
from unit.parsers.table import Parser, check_problems, put

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)

_HOSTS = (b"bank.example", b"www.bank.example", b"192.0.2.7", b"[2001:db8::1]", b"")
_NESTED = (b"[", b"{a: ", b"- ", b"x.example,\n", b"&a ")


def _read(kind: Type, node: YamlNode, report: ProblemReport) -> Any:
    return kind.read(MappingReader(YamlNode(1, {"key": node}), ("key",), report), "key", Reading(Path("p"), report))


def _document(octets: bytes) -> tuple[YamlNode | None, ProblemReport]:
    report = ProblemReport("policy")
    return read_document(octets, report), report


@add("policy dns", "{blocked: nxdomain}", "{blocked: [192.0.2.80, '2001:db8::80']}", "blocked: refused", units=_NESTED)
def _dns(octets: bytes) -> None:
    node, report = _document(octets)
    if node is not None:
        answers = _read(NAME_ANSWERS, node, report) or NameAnswers()
        assert all(ip_address(str(one)) == one for one in answers.addresses)
    check_problems(report, octets)


def _passed(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> PassThrough:
    passed = read_pass_through(node, report, read_file)
    assert len(passed) == len(passed.entries)
    assert all(passed.covers(host) in (True, False) for host in _HOSTS)
    assert all(passed.covers(host) for host, _ in passed.names)
    return passed


_PINNED = b"# apps\npinned.example\n=api.b\xc3\xbccher.example # x\n192.0.2.0/24\n2001:db8::1\n"


@add(
    "policy pass-through",
    "hosts: [bank.example, =api.pinned.example, 192.0.2.0/24, {file: pinned.txt}]\nfailed-handshakes: add\n",
    "[b\u00fccher.example, '2001:db8::/32', =1.2.3.4]",
    units=(*_NESTED, b"{file: p}, "),
)
def _pass_through(octets: bytes) -> None:
    node, report = _document(octets)
    if node is not None:
        _passed(node, report, lambda _name, _line: (Path("pinned.txt"), _PINNED))
    # the problems of the file stand in lines of its own
    check_problems(report, octets + _PINNED)


@add(
    "policy always-decrypt",
    "hosts: [cdn.example, =1.2.3.4, {file: p}]\ncategories: [hrn://a.example/cdn]\n",
    "[b\u00fccher.example, '2001:db8::/32']",
    units=(*_NESTED, b"{file: p}, "),
)
def _always_decrypt(octets: bytes) -> None:
    node, report = _document(octets)
    if node is not None:
        always = read_always_decrypted(node, report, lambda _name, _line: (Path("pinned.txt"), _PINNED))
        assert all(always.covers(host) for host, _ in always.names)
        assert all(map(always.has, always.categories))
    check_problems(report, octets + _PINNED)


@add(
    "policy keep-headers",
    *("[dav.example, =1.2.3.4, {file: p}]", "[b\u00fccher.example, '2001:db8::/32']"),
    units=_NESTED,
)
def _kept_headers(octets: bytes) -> None:
    node, report = _document(octets)
    if node is not None:
        kept = read_kept_headers(node, report, lambda _name, _line: (Path("pinned.txt"), _PINNED))
        assert all(kept.covers(host) for host, _ in kept.names)
    check_problems(report, octets + _PINNED)


@add("policy pass-through file", _PINNED, "h.example\r\n=h.example\r\n10.0.0.0/8\r\n", units=(b"h.example\n", b"=h\n"))
def _pass_through_file(octets: bytes) -> None:
    report = ProblemReport("policy")
    named = YamlNode(1, {"file": YamlNode(1, "pinned.txt")})
    _passed(YamlNode(1, [named]), report, lambda _name, _line: (Path("pinned.txt"), octets))
    check_problems(report, octets)


@add(
    "policy live",
    *("on", "off", "{clients: [192.168.1.0/24, '::1'], users: [berg, nowak]}", "clients: [10.0.0.7]"),
    units=_NESTED,
)
def _live(octets: bytes) -> None:
    node, report = _document(octets)
    live = None if node is None else _read(LIVE, node, report)
    if live not in (None, NONE):
        for client in (Client(), Client("10.0.0.7", "berg"), Client("::ffff:10.0.0.7"), Client("fe80::1%eth0")):
            assert live.fits(client) in (True, False)
    check_problems(report, octets)


@add(
    "policy on-failure",
    *("open", "{start: open, default: closed}", "{error: open}"),
    units=_NESTED,
)
def _on_failure(octets: bytes) -> None:
    node, report = _document(octets)
    if node is not None:
        on_failure = read_on_failure(node, report)
        assert not report.errors or b"open" in octets or not any(map(on_failure.passes, FailureCause))
    check_problems(report, octets)
