"""Countries and networks, by a database that the test writes."""

from __future__ import annotations

import struct
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("maxminddb")

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.core.url.request import StatedContext
from hushlist.extensions.geo.places import GeoDatabase
from support.policies import read_whole, write_policy
from unit.rows import each_row

RU, US = {"country": {"iso_code": "RU"}, "autonomous_system_number": 64496}, {"country": "us", "asn": "AS64500"}
ROWS: list[tuple[str, dict[str, Any]]] = [("93.184.0.0/16", RU), ("8.8.8.0/24", US), ("2001:4860::/32", RU)]


def encoded(value: Any) -> bytes:
    """A value in the format's data section. Spec: maxmind.github.io/MaxMind-DB, Data Field Format"""
    if isinstance(value, str):
        return bytes((2 << 5 | len(value),)) + value.encode()
    if isinstance(value, dict):
        return bytes((7 << 5 | len(value),)) + b"".join(encoded(own) for pair in value.items() for own in pair)
    if isinstance(value, list):
        return bytes((len(value), 4)) + b"".join(map(encoded, value))
    octets = value.to_bytes(4).lstrip(b"\0")
    return bytes((6 << 5 | len(octets),)) + octets


def database(rows: list[tuple[str, dict[str, Any]]]) -> bytes:
    """A database of networks, with records of 32 bits: a tree by bits, what it leads to, and what it is."""
    nodes: list[list[Any]] = [[None, None]]
    for text, value in rows:
        network = IPv6Network(text) if ":" in text else IPv4Network(text)
        length = network.prefixlen + (0 if ":" in text else 96)
        number, at = int(network.network_address), 0
        for position in range(length):
            bit = number >> (127 - position) & 1
            if position == length - 1:
                nodes[at][bit] = value
            elif nodes[at][bit] is None:
                nodes.append([None, None])
                nodes[at][bit] = len(nodes) - 1
            at = nodes[at][bit] if isinstance(nodes[at][bit], int) else at
    data, tree = b"", b""
    for node in nodes:
        for record in node:
            if isinstance(record, dict):
                number, data = len(nodes) + 16 + len(data), data + encoded(record)
            else:
                number = len(nodes) if record is None else record
            tree += struct.pack("!I", number)
    about = {
        "node_count": len(nodes),
        "record_size": 32,
        "ip_version": 6,
        "database_type": "Test",
        "languages": ["en"],
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": 1,
        "description": {"en": "test"},
    }
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(about)


WHOLE = database(ROWS)
CHECKS = {
    "country": "country: {action: block, in: [ru], database: places.mmdb}",
    "asn": "asn: {action: block, in: [64496], database: places.mmdb}",
}


def engine_of(folder: Path, check: str) -> Engine:
    policy = f"layers:\n- name: checks\n  checks:\n    {CHECKS[check]}\n"
    compiled = compile_policy(write_policy(folder, policy, {"places.mmdb": WHOLE}))
    return Engine(compiled.policy, compiled.index)


@each_row(
    ("url", "leads", "is_blocked"),
    [
        ("https://shop.example/", [b"93.184.215.14"], True),
        ("https://shop.example/", [b"cdn.example", b"8.8.8.8", b"[2001:4860::8]"], True),
        ("https://shop.example/", [b"[2002:5db8:1::1]"], True),
        ("https://93.184.215.14/", [], True),
        ("https://shop.example/", [b"8.8.8.8"], False),
        ("https://shop.example/", [b"192.0.2.1"], False),
        ("https://shop.example/", [], False),
    ],
)
def test_an_address_is_found_by_its_country_and_its_network(
    tmp_path_factory: pytest.TempPathFactory, url: str, leads: list[bytes], is_blocked: bool
) -> None:
    for check in CHECKS:
        engine = engine_of(tmp_path_factory.mktemp("geo"), check)
        assert engine.asks_leads
        decision = engine.decide_url(url.encode(), context=StatedContext(leads=tuple(leads)))
        assert (decision.action.value == "block") is is_blocked
        assert (f"is in {'RU' if check == 'country' else 'AS64496'}" in str(decision)) is is_blocked


def test_other_publishers_databases_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.mmdb").write_bytes(WHOLE)
    assert GeoDatabase(tmp_path / "x.mmdb").of("8.8.8.8") == US


def test_what_is_in_use_stays_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.mmdb"
    path.write_bytes(WHOLE)
    opened = GeoDatabase(path)
    path.write_bytes(b"")
    assert opened.of("93.184.215.14") == RU
    assert opened.of("nonsense") == {}


@each_row(
    ("check", "why"),
    [
        ("country: {action: block, in: [ru], database: cut.mmdb}", "no database in MaxMind's format, or not whole"),
        ("country: {action: block, in: [ru], database: none.mmdb}", "there is no such file"),
        ("country: {action: block, in: [Russia], database: whole.mmdb}", "a code of two letters"),
        ("asn: {action: block, in: [x], database: whole.mmdb}", "x"),
    ],
)
def test_what_cannot_be_used_is_an_error(tmp_path_factory: pytest.TempPathFactory, check: str, why: str) -> None:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "cut.mmdb").write_bytes(WHOLE[: len(WHOLE) // 2])
    (folder / "whole.mmdb").write_bytes(WHOLE)
    _, errors = read_whole(folder, f"layers:\n- name: checks\n  checks:\n    {check}\n")
    assert any(why in error for error in errors)
