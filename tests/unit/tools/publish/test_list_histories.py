"""Long random histories of a list, and servers that lose, repeat, reorder, truncate and lie: the client stays right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hushlist.extensions.safe_browsing.v5_messages import HashList
from hushlist.extensions.safe_browsing.v5_messages import RiceDeltaEncoded32Bit as Coded
from hushlist.extensions.safe_browsing.wire_format import encode_message
from unit.tools.publish.list_clients import Client, changed, follow, service_of


@pytest.mark.slow
@pytest.mark.parametrize(("versions", "size", "most"), [(400, 60, 6), (6, 10_000, 1000)])
def test_after_every_update_the_client_has_the_server_s_list(
    tmp_path: Path, versions: int, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if versions > 100:  # the disk is not what is tested
        monkeypatch.setattr("hushlist.tools.publish.list_history.replace_file", lambda *_, **__: None)
    assert follow(service_of(tmp_path), random.Random(versions), versions, size, most) > versions


def damage(draw: random.Random, octets: bytes, earlier: list[bytes]) -> bytes:
    """An answer as a broken way or a hostile server may give it."""
    match draw.randrange(5):
        case 0:
            return octets[: draw.randrange(len(octets) + 1)]
        case 1:
            place = draw.randrange(len(octets))
            return octets[:place] + bytes([octets[place] ^ 1 << draw.randrange(8)]) + octets[place + 1 :]
        case 2 if earlier:
            return draw.choice(earlier)  # repeated, or out of order
        case 3:
            return draw.randbytes(draw.randrange(60))
        case _:
            return octets + draw.randbytes(draw.randrange(1, 20))


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 5])
def test_damaged_answers_never_leave_a_wrong_list(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.tools.publish.list_history.replace_file", lambda *_, **__: None)
    draw = random.Random(version)
    service = service_of(tmp_path)
    client = Client(service, version, compression=draw.choice((1, 2)))
    known, were, earlier, refused = {draw.randbytes(4) for _ in range(50)}, set(), list[bytes](), 0
    for _ in range(500):
        service.histories[1].add(sorted(known))
        were.add(tuple(sorted(known)))
        octets = client.answer()
        before = client.list
        if draw.random() < 0.5:
            is_good = client.take(damage(draw, octets, earlier))
            refused += not is_good
            assert is_good or client.list == before  # the last good list stays
        earlier = [*earlier[-20:], octets]
        assert client.list.prefixes == () or client.list.prefixes in were  # a list that the server had at some time
        if draw.random() < 0.3:
            for _ in range(3):  # the first may be refused, after an answer of another time
                client.take(client.answer())
            assert client.list.prefixes == tuple(sorted(known))
        known = changed(draw, known, 5, 50)
    assert refused > 60


def bytes_of(sent: HashList, **change: Any) -> Callable[[], bytes]:
    return lambda: encode_message(replace(sent, **change))


@pytest.mark.slow
def test_hostile_answers_are_refused(tmp_path: Path) -> None:
    service = service_of(tmp_path)
    service.histories[1].add([b"aaaa", b"bbbb"])
    client = Client(service, 5)
    good = client.fetch()
    sent = HashList(name="mw-4b", version=b"2", partial_update=True, sha256_checksum=good.checksum)
    for make in (
        bytes_of(sent, additions_four_bytes=Coded(0, 30, (1 << 31) - 1, b"\0" * 100)),  # gigabytes
        bytes_of(sent, additions_four_bytes=Coded(0, 3, 1 << 22, b"\0" * 100)),
        bytes_of(sent, compressed_removals=Coded(2, 3, 0)),
        bytes_of(sent, compressed_removals=Coded((1 << 32) - 1, 3, 0)),
        bytes_of(sent, additions_four_bytes=Coded(1, 3, 0)),
        bytes_of(sent, additions_four_bytes=Coded(1, 3, 0), sha256_checksum=b""),
        bytes_of(sent, sha256_checksum=b"x" * 32),
        lambda: b"\x0a\x00" * (1 << 17),
    ):
        assert not client.take(make())
        assert client.list == good
    assert client.fetch() == good
