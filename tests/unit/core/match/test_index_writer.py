"""The steps from rules to an index."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from ipaddress import ip_network
from pathlib import Path

import pytest

from hushlist.core.match import sorted_runs
from hushlist.core.match.expressions import DEEPEST_HOST, DEEPEST_PATH, full_hash
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import GUIDE
from hushlist.core.match.index_writer import Merged, append, assemble, duplicates_of, merge_runs, merge_tasks
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.core.match.rule_collector import CollectedPart, RunCollector
from hushlist.core.match.sorted_runs import load
from support.engines import index_of, rules_of
from unit.core.match.plain_index import canonical, octets_of
from unit.rows import each_row

TERMS = Terms(Action.BLOCK, "list", "file")
OTHER = Terms(Action.BLOCK, "other", "file")


def clear(*expressions: bytes, terms: Terms = TERMS) -> list[Rule]:
    return [Rule(Expression(expression), terms, line) for line, expression in enumerate(expressions, 1)]


def parts_of(
    *lists: Iterable[Rule], folder: Path | None = None, layers: Sequence[str] = ("",) * 100
) -> list[CollectedPart]:
    parts = []
    for number, (rules, layer) in enumerate(zip(lists, layers, strict=False)):
        collector = RunCollector(number, layer, folder)
        collector.add(rules)
        parts.append(collector.finish())
    return parts


def compiled(parts: Sequence[CollectedPart], folder: Path | None = None) -> tuple[bytes, dict[str, Merged]]:
    """The file of an index, and what it was assembled of."""
    merged = {
        name: Merged(own[0].shape, [merge_runs(task, folder) for task in own])
        for name, own in merge_tasks(parts).items()
    }
    file = BytesIO()
    assemble(file, parts, merged)
    return file.getvalue(), merged


def many_rules(count: int) -> list[Rule]:
    """Rules of every kind, some of them twice."""
    rules = []
    for number in range(count):
        own = b"h%d.example/%d" % (number % 97, number % 1009)
        rules.append(Rule(Expression(own), TERMS if number % 3 else OTHER, number + 1))
        rules.append(Rule(ExpressionHash(full_hash(own)[: 4 + number % 29]), TERMS, number + 1))
        rules.append(Rule(ip_network((number << 16, 16)), TERMS, number + 1))
    return rules


# -- in files as in memory, in pieces as in one ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("few", [8, 9, 16, 100])
@pytest.mark.parametrize("count", [10, 100, 600])
def test_merging_in_pieces_gives_the_same_index_as_in_one(
    few: int, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = parts_of(many_rules(count), many_rules(count // 2), folder=tmp_path)
    whole, merged = compiled(parts)
    assert all(len(own.pieces) == 1 for own in merged.values())
    monkeypatch.setattr(sorted_runs, "FEW_ROWS", few)
    in_pieces, merged = compiled(parts, tmp_path)
    assert in_pieces == whole
    assert max(len(own.pieces) for own in merged.values()) > 1 or count < few
    monkeypatch.undo()
    assert duplicates_of(merged) == duplicates_of(compiled(parts)[1])


def test_pieces_cover_every_first_octet_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "FEW_ROWS", 8)
    parts = parts_of(many_rules(3000))
    for own in merge_tasks(parts).values():
        assert [own[0].first, *(task.last for task in own)] == [*(task.first for task in own), 256]
        assert own[0].first == 0
        buckets = [len(load(merge_runs(task).buckets)) // 4 for task in own]
        assert sum(buckets) == 1 << own[0].shape.bits
        assert min(buckets) > 0


def test_there_may_be_no_rules_and_no_parts() -> None:
    for parts in ([], parts_of([]), parts_of([], [])):
        file, _ = compiled(parts)
        index = Index(file)
        index.verify()
        assert len(index) == 0
        assert index.find(canonical("h.example/x")) == []


# -- duplicates --------------------------------------------------------------------------------------------------------


def test_of_duplicates_the_first_is_kept_and_the_others_are_counted_by_part() -> None:
    lists = (clear(b"a/", b"b/", b"a/", b"a/x"), clear(b"c/", b"a/x", b"a/"), clear(b"b/", terms=OTHER))
    file, merged = compiled(parts_of(*lists))
    index = Index(file)
    assert dict(+duplicates_of(merged)) == {0: 1, 1: 2}
    assert [(match.expression, match.rule.line) for match in index.find(canonical("a/x"))] == [(b"a/", 1), (b"a/x", 4)]
    assert [match.rule.terms.list for match in index.find(canonical("b"))] == ["list", "other"]
    assert len(index) == 5


@each_row(
    "other",
    [
        Terms(Action.TAG, "list", "file"),
        Terms(Action.BLOCK, "other", "file"),
        Terms(Action.BLOCK, "list", "other"),
        Terms(Action.BLOCK, "list", "file", category="hrn:x"),
        Terms(Action.BLOCK, "list", "file", reason=""),
        Terms(Action.BLOCK, "list", "file", title="t"),
        Terms(Action.BLOCK, "list", "file", layer="l"),
    ],
)
def test_rules_whose_terms_differ_are_no_duplicates(other: Terms) -> None:
    index = index_of([*clear(b"a/"), *clear(b"a/", terms=other)])
    assert [match.rule.terms for match in index.find(canonical("a"))] == [TERMS, other]


def test_rules_are_counted_by_layer_without_duplicates() -> None:
    lists = (clear(b"a/", b"a/"), clear(b"a/", b"b/x"), clear(b"c/"))
    file, _ = compiled(parts_of(*lists, layers=("first", "second", "first")))
    assert Index(file).directory.rules == {"first": 2, "second": 1}


# -- what the index is told of its rules -------------------------------------------------------------------------------


def guides(index: Index) -> int:
    """How many rows are guides."""
    rows, width = index.section("expression 32 rows"), index.directory.tables["expression 32"].width
    return sum(rows[end - 4 : end] == GUIDE.to_bytes(4, "big") for end in range(width, len(rows) + 1, width))


def test_a_host_has_one_guide_whatever_the_number_of_its_paths_and_parts() -> None:
    lists = clear(b"h.a/x", b"h.a/y", b"h.a/?q", b"h.b/"), clear(b"h.a/z", b"h.c/z", terms=OTHER)
    file, merged = compiled(parts_of(*lists))
    index = Index(file)
    assert guides(index) == 2
    assert +duplicates_of(merged) == {}
    assert len(index) == 6
    assert [index.on_host(host).guided for host in (b"h.a", b"h.b", b"a")] == [[b"h.a"], (), ()]


@each_row(
    ("expressions", "host", "path"),
    [
        ((), DEEPEST_HOST, DEEPEST_PATH),
        ((b"a/",), DEEPEST_HOST, DEEPEST_PATH),
        ((b"1.2.3.4.5.6.7/", b"a/x"), 7, DEEPEST_PATH),
        ((b"a/1/2/3/4/5/", b"b/1"), DEEPEST_HOST, 5),
        ((b"a/1/2/3/4/5",), DEEPEST_HOST, 4),
        ((b"1.2.3.4.5.6/1/2/3/4/5/6/",), 6, 6),
        ((b"a/x.y.z.1.2.3.4.5.6.7",), DEEPEST_HOST, DEEPEST_PATH),
        ((b"a/1?q=/////////",), DEEPEST_HOST, DEEPEST_PATH),
    ],
)
def test_the_deepest_host_and_path_are_told(expressions: tuple[bytes, ...], host: int, path: int) -> None:
    for lists in ([clear(*expressions)], [clear(expression) for expression in expressions]):
        directory = Index(compiled(parts_of(*lists))[0]).directory
        assert (directory.deepest_host, directory.deepest_path) == (host, path)


@each_row(
    ("expressions", "has_top_level"),
    [
        ((b"a.b/", b"a.b/c", b"[::1]/", b"[::1]/x"), False),
        ((b"a.b/", b"zip/"), True),
        ((b"a.b/x", b"zip/"), True),
        ((b"a.b/x", b"zip/x"), True),
        ((), False),
    ],
)
def test_rules_for_top_level_names_are_told(expressions: tuple[bytes, ...], has_top_level: bool) -> None:
    assert Index(compiled(parts_of(clear(*expressions), clear(b"c.d/")))[0]).directory.has_top_level is has_top_level


def test_hashes_and_address_ranges_are_told() -> None:
    rules = rules_of("rules: [{address: 10.0.0.0/8}, {address: '::/0'}, {address: 11.0.0.0/8}]")
    directory = index_of(rules).directory
    assert directory.ranges == ((6, 0), (4, 8))
    assert not directory.has_hashes
    assert index_of([Rule(ExpressionHash(b"1234"), TERMS, 1)]).directory.has_hashes


@each_row(
    ("actions", "mixed"),
    [((), ()), ((Action.BLOCK, Action.TAG), ()), ((Action.ALLOW,), ()), ((Action.BLOCK, Action.ALLOW), ("second",))],
)
def test_layers_that_both_allow_and_block_are_told(actions: Sequence[Action], mixed: Sequence[str]) -> None:
    lists = [clear(b"a/", terms=TERMS), *(clear(b"a/", terms=Terms(action, "list", "file")) for action in actions)]
    layers = ("first", *("second" for _ in actions))
    assert Index(compiled(parts_of(*lists, layers=layers))[0]).directory.mixed == mixed


# -- adding ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("octets", [b"", b"report", bytes(1000)])
def test_a_section_can_be_added_to_a_whole_file(octets: bytes) -> None:
    parts = parts_of(clear(b"a/", b"a/x"))
    merged = {
        name: Merged(own[0].shape, [merge_runs(task) for task in own]) for name, own in merge_tasks(parts).items()
    }
    file = BytesIO()
    directory = assemble(file, parts, merged)
    before = Index(file.getvalue())
    append(file, directory, "report", octets)
    append(file, directory, "more", b"more")
    index = Index(file.getvalue())
    index.verify()
    assert (index.section("report"), index.section("more")) == (octets, b"more")
    assert index.find(canonical("a/x")) == before.find(canonical("a/x"))
    assert len(octets_of(index)) > len(octets_of(before))


def test_hashes_that_begin_alike_are_no_duplicates() -> None:
    hashes = [ExpressionHash(full_hash(b"a/")[:4] + rest) for rest in (b"1", b"2", b"2", b"")]
    index = index_of([Rule(pattern, TERMS, line) for line, pattern in enumerate(hashes, 1)])
    assert sorted((key, line) for _, line, key in index.places()) == sorted(
        (hashes[line - 1].value, line) for line in (1, 2, 4)
    )
