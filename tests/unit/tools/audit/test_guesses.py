"""Guesses: what is tried is what a publisher would have hashed, and what live traffic is compared by."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.url.hashed_uri import ALGORITHMS, VARIANTS, HashKey, hash_uri
from hushlist.core.url.parts import split_web
from hushlist.core.url.request import canonical_url
from hushlist.tools.audit.guesses import Block, TargetKind, try_block
from unit.rows import each_row


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
