"""The search: what falls of lists in every format that has hashes, and the figures."""

import gzip
import math
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.expressions import full_hash
from hushlist.core.policy.policy_file import list_files
from hushlist.core.url.hashed_uri import HashKey, hash_uri
from hushlist.tools.audit import guesses, leak_job
from hushlist.tools.audit.guesses import TargetKind
from unit.rows import each_row

NAMES = [f"n{number}.example" for number in range(300)]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{name}\n" for name in NAMES))
    return path


@pytest.fixture
def searched(tmp_path: Path, words: Path) -> Callable[..., leak_job.Leak]:
    def search_text(
        text: str | bytes, form: str, *, defaults: ListDefaults | None = None, **options: object
    ) -> leak_job.Leak:
        path = tmp_path / "list"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        targets, _ = leak_job.read_targets(list_files(path, form, defaults or ListDefaults()))
        return leak_job.search_dictionary("list", targets, [words], jobs=1, **options)  # type: ignore[arg-type]

    return search_text


Searched = Callable[..., leak_job.Leak]


def hash_of(name: str) -> str:
    return full_hash(f"{name}/".encode()).hex()


def test_what_the_dictionary_has_falls_with_its_line(searched: Searched) -> None:
    text = "\n".join(map(hash_of, ["n7.example", "secret.example", "n3.example", "www.n3.example"]))
    leak = searched(text, "sha256")
    assert [(own.line, own.plaintext) for own in leak.recovered] == [
        (1, "n7.example/"),
        (3, "n3.example/"),
        (4, "www.n3.example/"),
    ]
    (row,) = leak.rows
    assert (row.hashes, row.recovered, row.tried) == (4, 3, 600)
    assert (leak.entries, leak.tried, leak.share) == (300, 600, 0.75)


def test_a_yaml_list_may_have_hashes_of_every_kind(searched: Searched) -> None:
    uri = hash_uri("http://n5.example/", HashKey("md5", "n", query=False, fragment=False))
    text = (
        f"rules:\n- clear.example\n- sha256: {hash_of('n1.example')}\n- sha256: {hash_of('n2.example')[:12]}\n- {uri}\n"
    )
    leak = searched(text, "yaml")
    assert [(own.line, own.plaintext, own.table) for own in leak.recovered] == [
        (3, "n1.example/", "sha256, 32 octets"),
        (4, "n2.example/", "sha256, 6 octets"),
        (5, "http://n5.example/", "hashed:md5, variant n"),
    ]
    assert leak.clear == 1


def test_raw_prefixes_and_the_other_variant_are_read_as_they_are_said_to_be(searched: Searched) -> None:
    raw = b"".join(sorted(bytes.fromhex(hash_of(name))[:4] for name in NAMES))
    assert searched(raw, "safebrowsing-raw", defaults=ListDefaults(prefix_length=4)).share == pytest.approx(1)
    uri = hash_uri("http://N5.example/", HashKey("sha1", "p", query=False, fragment=False))
    assert len(searched(str(uri), "hashed-uris", defaults=ListDefaults(variant="p")).recovered) == 1
    assert len(searched(str(uri).upper(), "hashed-uris", defaults=ListDefaults(variant="n")).recovered) == 1


def test_progress_goes_on_from_one_dictionary_to_the_next(tmp_path: Path, words: Path) -> None:
    more, steps = tmp_path / "more.txt", list[tuple[str, int, int]]()
    more.write_bytes(words.read_bytes())
    hidden = tmp_path / "list"
    hidden.write_text(hash_of("a.example"))
    targets, _ = leak_job.read_targets(list_files(hidden, "sha256", ListDefaults()))
    leak_job.search_dictionary("list", targets, [words, more], jobs=1, progress=lambda *step: steps.append(step))
    size = words.stat().st_size
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert (steps[-1], size) == (("tried", 2 * size, 2 * size), more.stat().st_size)


@pytest.mark.slow
def test_pieces_and_processes_change_nothing(
    searched: Searched, tmp_path: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(map(hash_of, [*NAMES[::3], "secret.example"]))
    expected = searched(text, "sha256")
    monkeypatch.setattr(guesses, "BLOCK", 200)
    packed = tmp_path / "words.txt.gz"
    packed.write_bytes(gzip.compress(words.read_bytes()))
    targets, _ = leak_job.read_targets(list_files(tmp_path / "list", "sha256", ListDefaults()))
    steps: list[tuple[str, int, int]] = []
    for paths in ([words], [packed]):
        steps.clear()
        leak = leak_job.search_dictionary("list", targets, paths, jobs=2, progress=lambda *step: steps.append(step))
        assert leak.recovered == expected.recovered
        assert steps[-1] == ("tried", paths[0].stat().st_size, paths[0].stat().st_size)


@pytest.mark.parametrize("octets", [b"\x1f\x8b broken", gzip.compress(b"a.example\n" * 99, mtime=0)[:-9], None])
def test_a_dictionary_that_cannot_be_read_is_an_error(searched: Searched, words: Path, octets: bytes | None) -> None:
    if octets is None:
        words.unlink()
    else:
        words.write_bytes(octets)
    with pytest.raises(SourceError, match=r"words\.txt: dictionary: "):
        searched(hash_of("a.example"), "sha256")


def test_a_list_that_cannot_be_used_is_an_error(searched: Searched) -> None:
    with pytest.raises(SourceError, match="list:1: hashed:sha1=0"):
        searched("hashed:sha1=0", "hashed-uris")


# -- chance ------------------------------------------------------------------------------------------------------------


def test_matches_by_chance_are_as_many_as_foretold() -> None:
    draw = random.Random(3)
    own = {draw.randbytes(2) for _ in range(3_000)}
    guesses = [sha256(b"%d" % number).digest()[:2] for number in range(20_000)]
    row = leak_job.LeakRow(TargetKind(2), len(own), len(guesses), len(own & set(guesses)))
    assert row.by_chance == pytest.approx(row.recovered, rel=0.1)
    assert row.likelihood > 1e-3
    assert row.real < 0.1 * row.recovered


def test_the_expected_number_is_that_of_the_formula_and_never_above_the_hashes() -> None:
    assert leak_job.LeakRow(TargetKind(4), 1000, 1_000_000, 0).by_chance == pytest.approx(1000 * 1e6 / 2**32, rel=1e-3)
    assert leak_job.LeakRow(TargetKind(4), 1000, 10**13, 0).by_chance == pytest.approx(1000)
    assert leak_job.LeakRow(TargetKind(32), 1000, 10**9, 0).by_chance == pytest.approx(1e12 / 2**256)


def test_the_likelihood_is_a_bound_of_poisson_s() -> None:
    row = leak_job.LeakRow(TargetKind(4), 1_000, 2**32 // 1_000, 8)
    mean = row.by_chance
    exact = 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(8))
    assert exact < row.likelihood < 20 * exact
    assert leak_job.LeakRow(TargetKind(4), 1_000, 0, 0).likelihood == 1


@each_row(
    ("seconds", "words"),
    [(119, "119 seconds"), (120, "2.0 minutes"), (7_199, "120 minutes"), (7_200, "2.0 hours"), (172_800, "2.0 days")],
)
def test_a_time_has_its_longest_unit_of_which_there_are_two(seconds: float, words: str) -> None:
    assert leak_job.span(seconds) == words


# -- words -------------------------------------------------------------------------------------------------------------


def leak_of(hashes: int, recovered: int, *, octets: int = 32, tried: int = 1_000) -> leak_job.Leak:
    rows = [leak_job.LeakRow(TargetKind(octets), hashes, tried, recovered)]
    return leak_job.Leak("l", rows, [leak_job.Recovered(line, "x/", "") for line in range(recovered)])


@each_row(
    ("leak", "words"),
    [
        (leak_of(100, 80), "Half of the list or more can be read"),
        (leak_of(100, 5), "the rest is hidden only until"),
        (leak_of(100, 0), "the wrong one, not that the list is secret"),
        (leak_of(100_000, 25, octets=4, tried=1_000_000), "About as many match by chance"),
    ],
)
def test_the_verdict_goes_by_what_fell_without_chance(leak: leak_job.Leak, words: str) -> None:
    assert words in leak_job.verdict(leak)


def test_a_short_search_tells_nothing_about_a_long_one() -> None:
    assert list(leak_job.estimates(leak_job.Leak("l", entries=10, seconds=0.1))) == []
