"""Lint: every kind of finding, in the lists that people have; in one piece or many, in one process or more."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushlist.core.compile import list_chunks
from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy.policy_file import ListFile, list_files
from hushlist.extensions.adblock.filter_table import MOST_OF_KEY
from hushlist.extensions.subscriptions import rule_comparison
from hushlist.tools.audit.findings import Finding, FindingKind
from hushlist.tools.audit.lint_job import Linted, lint
from shared import SHARED
from unit.rows import each_row

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[ListFile]]:
    """Writes lists, whose names tell their formats or are ``NAME:FORMAT``."""

    def write(texts: dict[str, str | bytes], length: int | None = None) -> list[ListFile]:
        found: list[ListFile] = []
        for key, text in texts.items():
            name, _, form = key.partition(":")
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            found += list_files(path, form or list_format_of(path), ListDefaults(prefix_length=length))
        return found

    return write


def linted(files: list[ListFile], **options: object) -> tuple[list[str], Linted]:
    """``FILE:LINE: KIND: WHAT: WHY`` of all, without folders."""
    found: list[str] = []

    def take(source: str, one: Finding) -> None:
        text = f"{source}:{one.line}: {one.kind}: {one.what}: {one.why}"
        found.append(text.replace(f"{files[0].path.parent}/", ""))

    return found, lint(files, take, NOW, **options)  # type: ignore[arg-type]


Files = Callable[..., list[ListFile]]


def test_duplicates_are_found_in_a_list_and_across_lists_with_the_first_place(files: Files) -> None:
    texts = {
        "ads.hosts": "0.0.0.0 a.example\n0.0.0.0 b.example\n0.0.0.0 A.example.  # again\n",
        "more.txt:domains": "c.example\nb.example\n",
    }
    assert linted(files(texts))[0] == [
        "ads.hosts:3: duplicate: 0.0.0.0 A.example.: first in line 1",
        "more.txt:2: duplicate: b.example: first in ads.hosts:2",
    ]


def test_a_hash_of_a_rule_in_the_clear_is_its_duplicate(files: Files) -> None:
    digest = full_hash(b"a.example/").hex()
    found, _ = linted(files({"l.yaml": f"rules:\n- a.example\n- sha256: {digest}\n"}))
    assert found == [f"l.yaml:3: duplicate: - sha256: {digest}: first in line 2"]


def test_duplicates_are_found_among_hashes_hashed_uris_and_ranges(files: Files) -> None:
    uri = "hashed:sha1=" + "a" * 40
    texts = {
        "h.txt:sha256": "0011223344\n00112233\n0011223344\n",
        "u.hashed": f"{uri}\n{uri}+query\n{uri.upper()}\n",
        "n.netset": "192.0.2.0/24\n198.51.100.1\n192.0.2.0/24\n",
    }
    assert [one for one in linted(files(texts))[0] if "duplicate" in one] == [
        "h.txt:3: duplicate: sha256:0011223344: first in line 1",
        f"u.hashed:3: duplicate: {uri.upper()}: first in line 1",
        "n.netset:3: duplicate: 192.0.2.0/24: first in line 1",
    ]


def test_rules_with_other_actions_categories_or_days_are_no_duplicates(files: Files) -> None:
    rules = [
        "a.example",
        "{expression: a.example, action: tag}",
        "{expression: a.example, category: 'hrn://c.example/ads'}",
        "{expression: a.example, expires: 2030-01-01}",
    ]
    assert linted(files({"l.yaml": "rules:\n" + "".join(f"- {rule}\n" for rule in rules)}))[0] == []


def test_a_rule_that_an_allowance_always_beats_is_found_in_its_own_list_alone(files: Files) -> None:
    texts = {
        "a.yaml": "rules:\n- h.example/x\n- {expression: h.example/x, action: allow}\n",
        "b.yaml": "rules:\n- {expression: o.example, action: allow, expires: 2030-01-01}\n- o.example\n- h.example/x\n",
    }
    assert [one for one in linted(files(texts))[0] if "beaten" in one] == [
        "a.yaml:2: beaten: - h.example/x: line 3 has the same rule with allow, which beats it"
    ]


def test_covered_rules_are_found_with_the_broader_rule_s_place(files: Files) -> None:
    texts = {
        "ads.hosts": "0.0.0.0 x.a.example\n0.0.0.0 a.example\n0.0.0.0 y.b.example\n0.0.0.0 x.a.example\n",
        "l.yaml": "rules: [b.example, {address: 192.0.2.0/24}, {address: 192.0.2.7}, {address: '2001:db8::1'}]",
        "n.netset": "2001:db8::/32\n",
    }
    assert linted(files(texts))[0] == [
        "ads.hosts:1: covered: x.a.example/: a.example/ covers it (line 2)",
        "ads.hosts:3: covered: y.b.example/: b.example/ covers it (l.yaml:1)",
        "ads.hosts:4: duplicate: 0.0.0.0 x.a.example: first in line 1",
        "l.yaml:1: covered: 192.0.2.7/32: 192.0.2.0/24 covers it (line 1)",
        "l.yaml:1: covered: 2001:db8::1/128: 2001:db8::/32 covers it (n.netset:1)",
    ]


@each_row(
    ("cover", "covered"),
    [
        ("||a.example/x", "||a.example/x/y"),
        ("a.example^", "/a.example^x"),
        ("/ads/*", "/ads/banner$script"),
        ("|http", "|http*/|"),
        ("|http:", "|http://a.example/x"),
    ],
)
def test_a_filter_that_another_one_covers_is_found(files: Files, cover: str, covered: str) -> None:
    found = linted(files({"ads.txt:adblock": f"[Adblock Plus]\n{cover}\n{covered}\n"}))[0]
    assert [one for one in found if "covered" in one] == [f"ads.txt:3: covered: {covered}: {cover} covers it (line 2)"]


def test_a_rule_of_another_category_action_or_end_covers_nothing(files: Files) -> None:
    for more in ("category: 'hrn://c.example/ads'", "expires: 2030-01-01", "action: tag"):
        wide = f"{{expression: b.example, {more}}}, {{address: 192.0.2.0/24, {more}}}"
        assert linted(files({"l.yaml": f"rules: [{wide}, x.b.example, {{address: 192.0.2.7}}]"}))[0] == []


def test_what_is_broad_is_found(files: Files) -> None:
    texts = {"ads.hosts": "0.0.0.0 co.uk\n0.0.0.0 popular.example\n", "n.netset": "10.0.0.0/8\n"}
    found, summary = linted(files(texts), popular=[b"other.example", b"www.popular.example"])
    assert [one.partition(" the rule")[0] for one in found] == [
        "ads.hosts:1: broad: co.uk/: it is a public suffix (as com is):",
        "ads.hosts:2: broad: popular.example/: it covers www.popular.example, number 2 of the popular domains",
        "n.netset:1: broad: 10.0.0.0/8: a whole address range: it covers 16,777,216 addresses, and the whole of "
        "10.0.0.0/8 (private use)",
    ]
    assert summary.counts == {FindingKind.BROAD: 3, FindingKind.REFUSED: 0}


def test_hashes_of_what_is_broad_are_found(files: Files) -> None:
    names = (
        b"co.uk/",
        b"popular.example/",
        b"www.popular.example/",
        b"below.www.popular.example/",
        b"popular.example/x",
    )
    suffix, covering, popular, *others = (full_hash(name).hex() for name in names)
    rules = [suffix, suffix[:16], covering[:10], popular, *others]
    texts = {"l.sha256": "".join(f"{rule}\n" for rule in rules)}
    found, summary = linted(files(texts), popular=[b"www.popular.example"])
    assert [one.partition(" the rule")[0] for one in found] == [
        f"l.sha256:1: broad: sha256:{suffix}: it is the hash of co.uk/: it is a public suffix (as com is):",
        f"l.sha256:2: broad: sha256:{suffix[:16]}: it begins the hash of co.uk/: it is a public suffix (as com is):",
        f"l.sha256:3: broad: sha256:{covering[:10]}: it begins the hash of popular.example/: it covers "
        "www.popular.example, number 1 of the popular domains",
        f"l.sha256:4: broad: sha256:{popular}: it is the hash of www.popular.example/: it is number 1 of the popular "
        "domains",
    ]
    assert summary.counts[FindingKind.BROAD] == 4
    assert linted(files({"l.sha256": covering}))[0] == []


def test_refused_entries_are_what_the_reader_says_and_all_are_counted(files: Files) -> None:
    found, summary = linted(files({"ads.hosts": "0.0.0.0 a_b|c\n" * 50}))
    assert found[0] == "ads.hosts:1: refused: a_b|c: left out: '|' and '^' have no meaning here"
    assert len(found) == 21
    assert summary.counts == {FindingKind.REFUSED: 50}


def test_errors_are_findings_in_their_places(files: Files) -> None:
    text = "action: allow\nrules:\n- a.example\n- sha256: 0011223344\n- a.example\n- sha256: '00'\n"
    found, summary = linted(files({"l.yaml": text}))
    assert [one.split(": ")[:2] for one in found] == [
        ["l.yaml:4", "error"],
        ["l.yaml:5", "duplicate"],
        ["l.yaml:6", "error"],
    ]
    assert "only a full hash" in found[0]
    assert summary.counts[FindingKind.ERROR] == 2


def test_dead_expired_and_oddly_spelled_rules_are_found(files: Files) -> None:
    rules = [
        "256.1.2.3/x",
        "{expression: old.example, expires: 2026-11-20}",
        "{expression: today.example, expires: 2026-11-21}",
        "ftp://files.example/",
        f"hashed:sha1={'b' * 40}+frag",
    ]
    found, _ = linted(files({"l.yaml": "rules:\n" + "".join(f"- {rule}\n" for rule in rules)}))
    assert [one.split(": ")[:2] for one in found] == [
        ["l.yaml:2", "dead"],
        ["l.yaml:3", "expired"],
        ["l.yaml:5", "spelling"],
        ["l.yaml:6", "dead"],
    ]
    assert found[1].endswith(": its last day was 2026-11-20")
    assert found[2].startswith("l.yaml:5: spelling: - ftp://files.example/: a proxy is not asked for 'ftp:'")
    assert "never sees a fragment" in found[3]


def test_many_short_hashes_are_found_and_all_lengths_have_figures(files: Files) -> None:
    hashes = [full_hash(b"%d" % number).hex() for number in range(700)]
    text = "".join(f"{own[:8]}\n" for own in hashes) + f"{hashes[0][:8]}\n{hashes[0][:16]}\n{hashes[1]}\n"
    found, summary = linted(files({"h.txt:sha256": text, "few.txt:sha256": f"{hashes[0][:8]}\n"}))
    assert [one for one in found if "short-hash" in one] == [
        "h.txt:1: short-hash: hashes of 4 octets: 700 of 4 octets: 1.2 false positives a million requests "
        "(7.65 look-ups each), at worst 4.9 (30)"
    ]
    known = [(Path(own.source).name, own.octets, own.number, own.line) for own in summary.prefixes]
    assert known == [("h.txt", 4, 700, 1), ("h.txt", 8, 1, 702), ("few.txt", 4, 1, 1)]


def test_a_raw_list_s_lines_are_the_numbers_of_its_hashes(files: Files) -> None:
    found, _ = linted(files({"l.raw:safebrowsing-raw": b"aaaabbbbbbbb"}, length=4))
    assert found == ["l.raw:3: duplicate: sha256:62626262: first in line 2"]


def test_the_two_records_of_a_response_policy_zone_are_no_duplicates(files: Files) -> None:
    zone = (
        "$TTL 60\n@ SOA a. b. 1 1 1 1 1\n  NS localhost.\nh.example CNAME .\n*.h.example CNAME .\nh.example CNAME .\n"
    )
    assert linted(files({"m.rpz": zone}))[0] == ["m.rpz:6: duplicate: h.example CNAME .: first in line 4"]


def test_a_squidguard_folder_is_linted_as_its_files(files: Files, tmp_path: Path) -> None:
    own = files({"games/domains": "g.example\n", "games/urls": "www.g.example/play\nh.example/#x\n"})
    (tmp_path / "games" / "expressions").write_text("(play)\n")
    found, summary = linted(list_files(own[0].path.parent, None, ListDefaults()))
    assert [one.split(": ")[:2] for one in found] == [
        ["urls:1", "covered"],  # once, though it stands for a page and for a folder
        ["urls:2", "refused"],
        ["expressions:1", "refused"],
    ]
    assert (summary.lists, summary.counts[FindingKind.COVERED]) == (3, 1)


MANY = {
    "a.hosts": "".join(f"0.0.0.0 {'x.' * (n % 3)}h{n % 40}.example\n" for n in range(150))
    + "0.0.0.0 co.uk\n0.0.0.0 |\n",
    "b.txt:urls": "".join(f"http://h{n}.example/p{n % 2}{'#f' * (n % 2)}\n" for n in range(60)),
}


@pytest.mark.parametrize(("piece", "most"), [(1 << 20, 3), (100, 1 << 15), (100, 3)])
def test_pieces_and_what_is_in_memory_change_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch, piece: int, most: int
) -> None:
    expected = linted(files(MANY))
    monkeypatch.setattr(list_chunks, "PIECE", piece)
    monkeypatch.setattr(rule_comparison, "MOST_KEPT", most)
    assert linted(files(MANY)) == expected
    assert {one.split(": ")[1] for one in expected[0]} == {"duplicate", "covered", "broad", "refused", "spelling"}


@pytest.mark.slow
def test_several_processes_find_the_same(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = linted(files(MANY))
    monkeypatch.setattr(list_chunks, "PIECE", 500)
    monkeypatch.setattr(list_chunks, "FEW", 0)
    steps: list[str] = []
    assert linted(files(MANY), jobs=2, progress=lambda what, *_: steps.append(what)) == expected
    assert list(dict.fromkeys(steps)) == ["read", "compared", "sorted", "covered"]


def test_a_file_that_is_gone_is_an_error(files: Files) -> None:
    own = files({"a.hosts": "0.0.0.0 a.example\n"})
    own[0].path.unlink()
    with pytest.raises(SourceError, match=r"a\.hosts: No such file"):
        linted(own)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_real_list_is_counted_as_its_own_lines_say(files: Files) -> None:
    path = SHARED / "data" / "hosts" / "anudeepND-adservers.hosts"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    names = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("0.0.0.0 ")]
    known = set(names)
    above = [name for name in known if any(name.split(".", n)[-1] in known for n in range(1, name.count(".")))]
    _, summary = linted(list_files(path, "hosts", ListDefaults()))
    assert summary.rules == len(names)
    assert summary.counts[FindingKind.DUPLICATE] == len(names) - len(known)
    assert summary.counts[FindingKind.COVERED] == len(above)


def test_filters_that_cost_too_much_on_every_request_are_found(files: Files) -> None:
    costly = "".join(f"zq{number:05}xj\n" for number in range(MOST_OF_KEY + 2))
    found, summary = linted(files({"ads.txt:adblock": f"[Adblock Plus]\n{costly}/login/ads?\n"}))
    assert [one.split(": ")[:3] for one in found] == [
        [f"ads.txt:{line}", "costly", f"zq{line - 2:05}xj"] for line in (MOST_OF_KEY + 2, MOST_OF_KEY + 3)
    ]
    assert summary.counts[FindingKind.COSTLY] == 2
