"""The index as a file: whatever is wrong with it is told as one error, and never answers wrongly."""

import gc
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.match import index_file
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import CRC, HEADER, MAGIC, SECTIONS_AT, VERSION, IndexFileError
from hushlist.core.match.rule_match import Match
from hushlist.core.url.parts import Parts
from support.engines import index_of, rules_of
from unit.core.match.plain_index import canonical, octets_of
from unit.rows import each_row

RULES = rules_of(
    """
    rules:
      - h.example
      - {expression: h.example/a/b, action: allow}
      - {address: 10.0.0.0/8, action: tag}
      - {sha256: '01020304'}
      - hashed:md5=be96302a0468481aca954431cf293e05
    """
)
SMALL = octets_of(index_of(RULES))
QUERIES = [canonical(url) for url in ("h.example", "h.example/a/b", "10.1.2.3", "www.thus.net", "other.example/x")]


def answers(index: Index, asked: list[Parts] = QUERIES) -> list[list[Match]]:
    return [[*index.find(parts), *index.find_uris([parts])] for parts in asked]


ANSWERS = answers(index_of(RULES))


def directory_of(file: bytes) -> dict[str, Any]:
    size = HEADER.unpack(file[: HEADER.size])[4]
    return dict(json.loads(file[-size:]))


def with_directory(file: bytes, text: bytes) -> bytes:
    """The file with another directory, and the checksums that belong to it."""
    size = HEADER.unpack(file[: HEADER.size])[4]
    body = file[SECTIONS_AT:-size] + text
    header = HEADER.pack(MAGIC, VERSION, 1, SECTIONS_AT + len(body), len(text), zlib.crc32(text))
    return header + CRC.pack(zlib.crc32(header)) + body


def refused(file: bytes) -> str:
    """Why a file is refused, when it is opened or verified."""
    with pytest.raises(IndexFileError) as error:
        Index(file, source="the file").verify()
    assert str(error.value).startswith("the file: index: ")
    return error.value.problems[0].why


def test_a_file_that_is_whole_is_opened_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(SMALL)
    index = Index.open(path)
    index.verify()
    assert answers(index) == ANSWERS
    assert index.octets == len(SMALL)
    assert index.source == str(path)
    assert 0 < index.hot_octets < index.octets
    assert with_directory(SMALL, json.dumps(directory_of(SMALL), separators=(",", ":")).encode()) == SMALL


def test_an_opened_file_is_closed_with_its_index(tmp_path: Path) -> None:
    path, folder = tmp_path / "index", Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("this platform does not tell which files are open")
    path.write_bytes(SMALL)
    gc.collect()  # what earlier tests left
    before = len(list(folder.iterdir()))
    for _ in range(3):
        assert answers(Index.open(path)) == ANSWERS
    path.write_bytes(SMALL[:-1] + b"!")
    for _ in range(3):
        with pytest.raises(IndexFileError):
            Index.open(path)
    assert len(list(folder.iterdir())) <= before


# -- what is no index --------------------------------------------------------------------------------------------------


_MAKERS = [(Path.touch, "empty"), (Path.mkdir, "folder"), (lambda _: None, "missing")]
_MAKERS += [(os.mkfifo, "pipe")] if os.name == "posix" else []


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for make, name in _MAKERS])
def test_what_is_no_file_with_octets_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(path := tmp_path / "index")
    with pytest.raises(IndexFileError, match=str(path)):
        Index.open(path)


@pytest.mark.parametrize(("version", "why"), [(VERSION - 1, "an older"), (VERSION + 1, "a newer"), (99, "a newer")])
def test_another_version_is_refused_with_both_numbers(version: int, why: str) -> None:
    file = SMALL[:8] + struct.pack("=I", version) + SMALL[12:]
    assert refused(file) == f"it has {why} format: version {version}, where {VERSION} is expected"


# -- what is broken ----------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    for length in range(len(SMALL)):
        refused(SMALL[:length])


@each_row("more", [b"\0", b"}", bytes(64), SMALL])
def test_a_file_with_more_behind_it_is_refused(more: bytes) -> None:
    assert "octets long, but says" in refused(SMALL + more)


@pytest.mark.slow
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_octet_that_was_changed_changes_an_answer(flip: int) -> None:
    within = sorted((own[0], own[0] + own[1]) for own in directory_of(SMALL)["sections"].values())
    padding = set(range(SECTIONS_AT, len(SMALL) - HEADER.unpack(SMALL[: HEADER.size])[4]))
    padding -= {place for start, end in within for place in range(start, end)}
    assert padding
    # every octet of the header; of the others, each by one of the three
    for place in {*range(SECTIONS_AT), *range(flip % 3, len(SMALL), 3)}:
        file = SMALL[:place] + bytes((SMALL[place] ^ flip,)) + SMALL[place + 1 :]
        if place in padding:
            index = Index(file)
            index.verify()
            assert answers(index) == ANSWERS
        else:
            refused(file)


def test_a_section_that_ends_while_it_is_read_is_refused() -> None:
    index = Index(SMALL, lambda offset, length: SMALL[offset : min(offset + length, len(SMALL) // 2)])
    with pytest.raises(IndexFileError, match="corrupted"):
        index.verify()


def test_sections_are_verified_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "PIECE", 7)
    Index(SMALL).verify()
    offset, length, _ = directory_of(SMALL)["sections"]["expression 32 rows"]
    place = offset + length - 1
    assert "'expression 32 rows'" in refused(SMALL[:place] + bytes((SMALL[place] ^ 1,)) + SMALL[place + 1 :])


# -- what has the right checksum and is wrong --------------------------------------------------------------------------

HUGE = 10**30


def changed(*path: str | int, to: object) -> bytes:
    """A directory with one value changed, as JSON; with ``...`` it is left out."""
    directory = directory_of(SMALL)
    owner: Any = directory
    for key in path[:-1]:
        owner = owner[key]
    if to is ...:
        del owner[path[-1]]
    else:
        owner[path[-1]] = to
    return json.dumps(directory).encode()


EXPRESSIONS = ("tables", "expression 32")
WRONG = [
    *(b"", b"{}", b"[]", b"null", b"1", b'"x"', b"\xff", b"{", b"NaN", b"[" * 100_000, b"9" * 5000, bytes(8)),
    *(changed("more", to=1), changed("tables", to=[]), changed("tables", to=None), changed("sections", to=[])),
    *(changed(key, to=...) for key in directory_of(SMALL)),
    *(
        changed(key, to=wrong)
        for key in sorted(directory_of(SMALL).keys() - {"has_hashes", "has_top_level", "mixed", "opaque", "schedules"})
        for wrong in ("x", None, 1.5, [[1]], {"x": "x"})
    ),
    *(changed("sections", key, to=...) for key in directory_of(SMALL)["sections"]),
    *(changed("sections", key, 0, to=HUGE) for key in directory_of(SMALL)["sections"]),
    *(changed("sections", key, 0, to=-64) for key in directory_of(SMALL)["sections"]),
    *(changed("sections", key, 1, to=len(SMALL)) for key in directory_of(SMALL)["sections"]),
    *(changed("sections", key, 1, to=-1) for key in directory_of(SMALL)["sections"]),
    *(changed("sections", "filter", 1, to=length) for length in (0, 1, 2, 3, 4, 7)),
    *(changed("sections", "terms", to=wrong) for wrong in (None, 1, [], [1, 2], [1, 2, 3, 4], ["x", 1, 1], {})),
    *(changed(*EXPRESSIONS, to=wrong) for wrong in (None, 1, [], [1, 32], [1, 32, 0, 0], "abc", {})),
    *(changed(*EXPRESSIONS, 0, to=count) for count in (-1, 0, 1, HUGE, "x", None, float("inf"))),
    *(changed(*EXPRESSIONS, 1, to=key) for key in (-1, 0, 3, 4, 31, 33, HUGE, float("inf"))),
    *(changed(*EXPRESSIONS, 2, to=bits) for bits in (-1, 1, 24, 25, 99, 10**9, HUGE, float("inf"), float("nan"))),
    *(changed("tables", name, to=[0, 32, 0]) for name in ("expression 31", "uri", "uri md5 n 0", "uri x n 0 0", "x")),
    *(changed("tables", name, to=[2, 32, 0]) for name in ("expression", "expression x", "expression 4", "range")),
    *(changed("ranges", to=[[version, length]]) for version, length in ((4, 33), (4, -1), (6, 129), (5, 8), (4, "x"))),
    *(changed("deepest_host", to=wrong) for wrong in ("x", None, -1, 4)),
    *(changed(key, to=wrong) for key in ("mixed", "opaque", "schedules") for wrong in (None, 1.5)),
    *(changed("deepest_path", to=wrong) for wrong in ("x", None, -1, 2)),
    *(changed("rules", to=wrong) for wrong in ([], 1, {"": "x"}, {"": None}, {"": -1})),
]


def test_a_directory_that_cannot_be_is_refused() -> None:
    for text in WRONG:
        print(text[:1000])  # pytest shows the last one with a failure
        refused(with_directory(SMALL, text))


NESTED = b"[" * 5000
#: in a file with the checksums that belong to them: of the rule for the host, what its terms say, and where they are
WRONG_TERMS = [
    *(("terms", octets) for octets in (b"", b"\xff", b"[]", b"{}", b"1", NESTED, b'["x"]', b"[true]" + b" " * 20)),
    *(
        ("terms", json.dumps([True, "block", *texts]).encode())
        for texts in ([1, "f", None, None, None, "", ""], ["l", "f", [], None, None, "", ""])
    ),
    *(("terms", json.dumps([True, "block", "l", "f", None, None, day, "", ""]).encode()) for day in (1, "x", [])),
    *(("terms", json.dumps([True, action, "l", "f", None, None, None, "", ""]).encode()) for action in ("x", [], 1)),
    *(
        ("offsets", struct.pack("=2Q", *ends))
        for ends in ((0, 0), (0, 1 << 20), (0, 1 << 40), (0, (1 << 64) - 1), (1 << 63, 1 << 63), (9, 1))
    ),
    *(("offsets", octets) for octets in (b"", bytes(8))),
    *(("parts", octets) for octets in (b"", struct.pack("=I", 1 << 31), struct.pack("=I", 1))),
]


@each_row(("name", "octets"), WRONG_TERMS)
def test_terms_that_cannot_be_are_told_as_that_and_nothing_is_read_behind_them(
    name: str, octets: bytes, tmp_path: Path
) -> None:
    file = octets_of(index_of(RULES[:1]))
    directory = directory_of(file)
    size = HEADER.unpack(file[: HEADER.size])[4]
    directory["sections"][name] = [len(file) - size, len(octets), zlib.crc32(octets)]
    if name == "terms":
        place = struct.pack("=2Q", 0, len(octets))
        directory["sections"]["offsets"] = [len(file) - size + len(octets), len(place), zlib.crc32(place)]
        octets += place
    path = tmp_path / "index"
    path.write_bytes(with_directory(file[:-size] + octets + file[-size:], json.dumps(directory).encode()))
    index = Index.open(path)
    index.verify()
    with pytest.raises(IndexFileError, match="the terms of a rule cannot be read"):
        answers(index)


def test_a_section_that_was_added_is_found_and_verified() -> None:
    text = changed("sections", "more", to=[SECTIONS_AT, 8, zlib.crc32(SMALL[SECTIONS_AT : SECTIONS_AT + 8])])
    index = Index(with_directory(SMALL, text))
    index.verify()
    assert index.section("more") == SMALL[SECTIONS_AT : SECTIONS_AT + 8]
    assert answers(index) == ANSWERS


# -- what opening costs ------------------------------------------------------------------------------------------------


# -- somebody else writes to it ----------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Index:
    path = tmp_path / "index"
    path.write_bytes(SMALL)
    index = Index.open(path)
    assert index.is_as_opened
    return index


def test_a_file_that_is_removed_or_replaced_stays_as_it_was_opened(opened: Index, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(len(SMALL)))
    (tmp_path / "other").replace(opened.source)
    assert opened.is_as_opened
    assert answers(opened) == ANSWERS


def test_a_file_that_is_written_over_is_known_to_be_another(opened: Index) -> None:
    before = Path(opened.source).stat()
    with Path(opened.source).open("r+b") as file:
        file.write(bytes(8))
    # a coarse clock may not have moved since the file was made
    os.utime(opened.source, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert not opened.is_as_opened


@pytest.mark.skipif(not hasattr(os, "pread"), reason="the file is mapped as a whole")
def test_what_is_not_there_any_more_is_an_error_and_no_rule_that_is_not_found(opened: Index) -> None:
    # the end of the only page, which stays mapped: looking up goes on, rows cannot be read
    os.truncate(opened.source, 64)
    assert not opened.is_as_opened
    with pytest.raises(IndexFileError, match="it is shorter than it was"):
        opened.verify()
    with pytest.raises(IndexFileError):
        opened._read(128, 8)


def test_a_file_with_no_directory_at_all_is_refused() -> None:
    header = HEADER.pack(MAGIC, VERSION, 1, SECTIONS_AT, 0, zlib.crc32(b""))
    assert "directory cannot be read" in refused(header + CRC.pack(zlib.crc32(header)))
