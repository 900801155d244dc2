"""Dictionaries, read in pieces; and guesses: what is tried is what a publisher would have hashed."""

import gzip
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.url.hashed_uri import ALGORITHMS, VARIANTS, HashKey, hash_uri
from hushlist.core.url.parts import split_web
from hushlist.core.url.request import canonical_url
from hushlist.tools.audit import guesses
from hushlist.tools.audit.guesses import Block, TargetKind, blocks_of, dictionaries, entries_of, try_block
from unit.rows import each_row


def read(path: Path) -> list[str]:
    return [entry.decode() for block in blocks_of(path) for entry in entries_of(block)]


@each_row(
    ("name", "text", "expected"),
    [
        ("names.txt", "a.example\nB.example\r\n\n# c.example\n", ["a.example", "B.example"]),
        ("top.csv", "rank,domain\n1,a.example\n2,b.example\n", ["a.example", "b.example"]),
        ("top.csv", '"1","a.example"\n', ["a.example"]),
        ("system.txt", "0.0.0.0 a.example b.example # x\n", ["a.example", "b.example"]),
        ("urls.txt", "http://a.example/x,y?q=1,2\nhttps://B.example:8080/P#f\n", None),
        ("two.txt", "http://a.example/,http://b.example/\n", ["http://a.example/", "http://b.example/"]),
        ("ads.hosts", "0.0.0.0 a.example\n", ["a.example"]),
        ("domains", "a.example\n*.b.example\n", ["a.example", "b.example"]),
        ("urls", "a.example/x\n", ["a.example/x", "a.example/x/"]),
        ("l.yaml", "rules: [A.example, b.example/x, {address: 192.0.2.0/24}]", ["a.example", "b.example/x"]),
        ("l.adblock", "||a.example^\n##.ad\n", ["a.example"]),
    ],
)
@each_row("is_packed", [False, True])
def test_entries_are_read_of_lists_and_of_texts(
    name: str, text: str, expected: list[str] | None, is_packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    assert read(path) == (text.split() if expected is None else expected)


def test_a_file_that_is_read_at_once_begins_with_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "l.yaml").write_text("rules: [a.example]")
    (block,) = blocks_of(tmp_path / "l.yaml")
    assert (block.first_line, block.done) == (1, 18)


def test_a_dictionary_is_read_in_pieces_that_end_where_lines_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"n{number}.example" for number in range(100)]
    path = tmp_path / "names.txt"
    path.write_text("\n".join(names))
    monkeypatch.setattr(guesses, "BLOCK", 30)
    blocks = list(blocks_of(path))
    assert len(blocks) > 20
    assert [block.done for block in blocks] == sorted({block.done for block in blocks})
    assert blocks[-1].done == path.stat().st_size
    assert [block.first_line for block in blocks[:2]] == [1, 1 + blocks[0].octets.count(b"\n")]
    assert read(path) == names


def test_a_line_without_end_takes_no_memory_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    monkeypatch.setattr(guesses, "BLOCK", 100)
    assert max(len(block.octets) for block in blocks_of(path)) < 70_000


def test_of_a_squidguard_folder_domains_and_urls_are_read(tmp_path: Path) -> None:
    for name in ("domains", "urls", "expressions", "usage"):
        (tmp_path / name).touch()
    assert [path.name for path in dictionaries([tmp_path, Path("x.txt")])] == ["domains", "urls", "x.txt"]


def test_a_list_that_is_read_as_a_whole_is_not_without_end(tmp_path: Path) -> None:
    path = tmp_path / "l.yaml.gz"
    path.write_bytes(gzip.compress(b"rules: []".ljust(100)))
    assert read(path) == []
    path.write_bytes(gzip.compress(bytes(1 << 25)))
    with pytest.raises(OSError, match="longer than 16,777,216 octets"):
        read(path)


def tried(entry: str, *sought: tuple[TargetKind, bytes], folder: Path) -> set[bytes]:
    """What an entry of a dictionary finds of what is sought."""
    sets = tuple((table, frozenset([digest])) for table, digest in sought)
    path = folder / f"sets {abs(hash(sets))}"  # it is read once
    path.write_bytes(pickle.dumps(sets))
    return {text for _, _, text in try_block(Block("f", None, 1, entry.encode(), 0), path).hits}


@each_row(
    ("entry", "expression"),
    [
        ("a.example", "a.example/"),
        ("a.example", "www.a.example/"),
        ("www.a.example", "a.example/"),
        ("x.y.a.example", "y.a.example/"),
        ("https://www.a.example:8443/p/q.html?x=1#f", "a.example/p/q.html?x=1"),
        ("https://www.a.example:8443/p/q.html?x=1#f", "www.a.example/p/q.html"),
        ("https://www.a.example:8443/p/q.html?x=1#f", "a.example/p/"),
        ("http://A.example/%70/../q", "a.example/q"),
        ("http://0x7f.1/x", "127.0.0.1/"),
    ],
)
@each_row("octets", [4, 8, 32])
def test_an_expression_s_hash_falls_to_entries_that_have_it(
    entry: str, expression: str, octets: int, tmp_path: Path
) -> None:
    digest = full_hash(expression.encode())[:octets]
    assert tried(entry, (TargetKind(octets), digest), folder=tmp_path) == {expression.encode()}


_URLS = st.from_regex(r"https?://[a-c]{1,3}\.(x\.)?example(:80|:443|:8080)?(/[A-Ca-c]{0,3}){0,4}(\?q)?", fullmatch=True)


@settings(max_examples=settings.default.max_examples // 4)
@given(url=_URLS)
def test_every_expression_of_a_url_is_tried(url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("own")
    for expression in expressions(split_web(canonical_url(url.encode()))):
        assert tried(url, (TargetKind(32), full_hash(expression)), folder=folder) == {expression}


@given(url=_URLS, variant=st.sampled_from(sorted(VARIANTS)), algorithm=st.sampled_from(sorted(ALGORITHMS)))
def test_every_hashed_uri_of_a_url_is_tried(
    url: str, variant: str, algorithm: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("own")
    for query in (False, True):
        uri = hash_uri(url, HashKey(algorithm, variant, query=query, fragment=False))
        assert tried(url, (TargetKind(len(uri.digest), uri.key), uri.digest), folder=folder)


@each_row("variant", VARIANTS)
@each_row("algorithm", ALGORITHMS)
@each_row("site", ["http://a.example", "https://a.example/", "http://www.a.example/", "http://a.example:80"])
@each_row("entry", ["a.example", "www.a.example", "http://a.example/some/page?q"])
def test_a_site_s_hashed_uri_falls_to_its_name(
    variant: str, algorithm: str, site: str, entry: str, tmp_path: Path
) -> None:
    uri = hash_uri(site, HashKey(algorithm, variant, query=False, fragment=False))
    assert tried(entry, (TargetKind(len(uri.digest), uri.key), uri.digest), folder=tmp_path)


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://a.example/p#f", "http://a.example/p#f"),
        ("http://a.example/p/", "https://www.a.example/p"),
        ("http://a.example:8080/p", "http://me@a.example:8080/p"),
    ],
)
def test_fragments_slashes_and_ports_are_tried(url: str, entry: str, tmp_path: Path) -> None:
    uri = hash_uri(url, HashKey("sha1", "n", query=False, fragment=True))
    assert tried(entry, (TargetKind(20, uri.key), uri.digest), folder=tmp_path)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    key = HashKey("sha1", "n", query=False, fragment=False)
    assert (
        tried("http://../x\n\xff.\n..", (TargetKind(32), bytes(32)), (TargetKind(20, key), bytes(20)), folder=tmp_path)
        == set()
    )


def test_what_an_entry_costs_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "sets"
    path.write_bytes(pickle.dumps(((TargetKind(32), frozenset()), (TargetKind(4), frozenset()))))
    result = try_block(Block("f", None, 1, b"a.example\nb.a.example\na.example\n", 0), path)
    assert (result.entries, result.expressions, result.uris) == (3, 4, 0)
