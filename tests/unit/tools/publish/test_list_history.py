"""Versions of a published list: what a client gets that is behind, and what is left after a restart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushlist.extensions.safe_browsing.prefix_list import PrefixList, checksum_of
from hushlist.tools.publish import list_history
from hushlist.tools.publish.list_history import MOST_VERSIONS, ListHistory, open_history, read_state
from unit.rows import each_row

SMALL = st.sets(st.integers(0, 40).map(lambda number: number.to_bytes(4, "big")))


def fetch(history: ListHistory, known: PrefixList, limit: int = 0, most: int = 0) -> PrefixList:
    """What a client has after it has asked until it is up to date."""
    for _ in range(10_000):
        update, is_there = history.update_from(history.state_of(known.state, most), limit)
        assert not limit or len(update.additions) + len(update.removals) <= limit
        known = known.updated(update)
        if is_there:
            return known
    raise AssertionError("it never ends")


@given(
    versions=st.lists(SMALL, min_size=1, max_size=6),
    limit=st.sampled_from([0, 1, 2, 16]),
    most=st.sampled_from([0, 1, 8]),
    asked=st.lists(st.booleans(), min_size=6, max_size=6),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_client_gets_to_the_newest_version(
    tmp_path: Path, versions: list[set[bytes]], limit: int, most: int, asked: list[bool]
) -> None:
    (tmp_path / "history").unlink(missing_ok=True)
    history, known = open_history(tmp_path / "history", 1, pytest.fail), PrefixList()
    for version, is_asked in zip(versions, asked, strict=False):
        history.add(sorted(version))
        if is_asked:
            # the first answer may only bring it to where it already was on its way to
            known = fetch(history, fetch(history, known, limit, most), limit, most)
            assert known.prefixes == tuple(sorted(version))[: most or None]
        history = open_history(tmp_path / "history", 1, pytest.fail)  # a restart


def test_a_client_half_way_goes_on_though_the_list_has_changed(tmp_path: Path) -> None:
    history = ListHistory(tmp_path / "history", 1)
    first = [number.to_bytes(4, "big") for number in range(10)]
    history.add(first)
    update, is_there = history.update_from(history.state_of(b"", 0), 4)
    known = PrefixList().updated(update)
    assert (known.prefixes, is_there, update.is_partial) == (tuple(first[:4]), False, False)
    history.add(first[5:])
    update, is_there = history.update_from(history.state_of(known.state, 0), 100)
    known = known.updated(update)
    assert (known.prefixes, is_there, update.is_partial) == (tuple(first), True, True)
    update, is_there = history.update_from(history.state_of(known.state, 0), 0)
    assert (list(update.removals), update.additions) == ([0, 1, 2, 3, 4], ())


def test_a_hundred_versions_are_kept(tmp_path: Path) -> None:
    history = ListHistory(tmp_path / "history", 1)
    states = []
    for number in range(MOST_VERSIONS + 20):
        assert history.add([number.to_bytes(4, "big"), b"zzzz"])
        states.append(history.state_of(b"", 0)._replace(base=history.number).octets)
    assert not history.add([number.to_bytes(4, "big"), b"zzzz"])
    history = open_history(tmp_path / "history", 1, pytest.fail)
    is_partial = [history.update_from(history.state_of(state, 0), 0)[0].is_partial for state in states]
    assert is_partial == [False] * 20 + [True] * MOST_VERSIONS


@pytest.mark.slow
@pytest.mark.thorough
def test_changes_longer_than_the_list_are_forgotten(tmp_path: Path) -> None:
    draw = random.Random(1)
    history = ListHistory(tmp_path / "history", 1)
    for _ in range(4):
        history.add(sorted({draw.randbytes(4) for _ in range(70_000)}))
    assert history.number == 4
    assert len(history.changes) == 2  # each is as long as two lists


@each_row(
    "change",
    [
        {"history": b"other..."},
        {"list_number": 2},
        {"most": 16},
        {"target": 9},
        {"target": 0},
        {"base": 9},
        {"base": 1, "target": 9},
    ],
)
def test_a_state_of_no_use_begins_anew(tmp_path: Path, change: dict[str, object]) -> None:
    history = ListHistory(tmp_path / "history", 1)
    history.add([b"aaaa"])
    state = history.state_of(b"", 0)._replace(base=1)
    assert history.state_of(state.octets, 0) == state
    assert history.state_of(state._replace(**change).octets, 0).base == 0  # type: ignore[arg-type]


@given(st.binary(max_size=40))
def test_any_octets_are_a_state_or_none(octets: bytes) -> None:
    state = read_state(octets)
    assert state is None or state.octets == octets
    history = ListHistory(Path("history"), 1, number=1, packed=b"aaaabbbb")
    update, is_there = history.update_from(history.state_of(octets, 0), 0)
    assert is_there
    assert update.checksum == checksum_of([b"aaaa", b"bbbb"])


@each_row("octets", [b"", b"{}", b"[]\n", b'{"history": "00"}\n', b"\xff\n", None])
def test_a_broken_file_is_a_new_history(tmp_path: Path, octets: bytes | None) -> None:
    history = ListHistory(tmp_path / "history", 1)
    history.add([b"aaaa"])
    whole = history.path.read_bytes()
    history.path.write_bytes(whole[:-1] if octets is None else octets)
    told: list[str] = []
    assert open_history(history.path, 1, told.append).number == 0
    assert [text.partition(": its versions cannot be used: ")[0] for text in told] == [str(history.path)]
    history.path.write_bytes(whole)
    assert open_history(history.path, 1, pytest.fail) == history


def test_only_its_user_reads_the_file(tmp_path: Path) -> None:
    history = ListHistory(tmp_path / "new" / "history", 1)
    history.add([b"aaaa"])
    assert history.path.stat().st_mode & 0o777 == 0o600


def test_a_version_that_cannot_be_kept_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = ListHistory(tmp_path / "history", 1)
    history.add([b"aaaa"])

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(list_history, "replace_file", fail)
    with pytest.raises(OSError, match="no space"):
        history.add([b"bbbb"])
    assert (history.number, history.packed) == (1, b"aaaa")
