"""From a policy to its index: what becomes of every entry, in one piece or many, in one process or more."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hushlist.core.compile import list_chunks
from hushlist.core.compile import policy_compiler as module
from hushlist.core.compile.compile_report import ListReport
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from hushlist.core.errors import Problem
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.match.index import Index
from hushlist.core.match.rule import Expression, Rule
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.url.parts import split_web
from hushlist.extensions.adblock.filter_table import MOST_OF_KEY
from shared import SHARED
from support.engines import rules_in
from unit.extensions.formats.samples import SAMPLES
from unit.rows import each_row

UT1, HOSTS = SHARED / "data" / "ut1", SHARED / "data" / "hosts" / "anudeepND-adservers.hosts"


@pytest.fixture
def cache(tmp_path: Path) -> IndexCache:
    return IndexCache(tmp_path / "cache")


def write_policy(folder: Path, *lists: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(f"layers:\n- name: lists\n  lists: [{', '.join(lists)}]\n")
    return path


@pytest.fixture
def compiled(tmp_path: Path, cache: IndexCache) -> Callable[..., Compiled]:
    """Writes lists and a policy that names them in this order, and compiles it."""

    def compile_texts(texts: dict[str, str | bytes], *, popular: str = "", **options: object) -> Compiled:
        for name, text in texts.items():
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if popular:
            (tmp_path / "popular.csv").write_text(popular)
        policy = write_policy(tmp_path, *(ENTRIES.get(name, name) for name in texts))
        found = tmp_path / "popular.csv" if popular else None
        return compile_policy(policy, cache=cache, popular=found, **options)  # type: ignore[arg-type]

    return compile_texts


def list_of(form: str, more: str = "") -> str:
    return f"{{file: {form}.list, format: {form}{more}}}"


#: a list of each format: its text, and how many of its entries are read, kept, duplicates, refused
TEXTS: dict[str, tuple[str | bytes, tuple[int, int, int, int]]] = {
    "yaml": (
        "rules:\n- a.example\n- {expression: A.example/}\n- {expression: a.example, reason: other}\n"
        "- {address: 10.0.0.0/9}\n- {sha256: 00112233}\n- {sha256: 00112233}\n- 'hashed:sha9=0'\n",
        (7, 4, 2, 1),
    ),
    "hashed-uris": (
        f"hashed:sha1={'0' * 40}\nhashed:sha1={'0' * 40}\nhashed:md5={'0' * 32}\nhashed:sha9=0 # skipped\n",
        (4, 2, 1, 1),
    ),
    "searches": ("a+b\nB A\nc\na b c d\n", (4, 2, 1, 1)),
    "words": ("a\nA\n!\n", (3, 1, 1, 1)),
    "services": (
        '{"blocked_services": [{"id": "a", "rules": ["||a.example^", "||a.example^", "||b.example^", "||c*^"]}]}',
        (4, 2, 1, 1),
    ),
    "domains": ("a.example\nA.EXAMPLE.\n*.b.example\nb/c\n\n# none\nc.example\nc.example\n", (6, 3, 2, 1)),
    "hosts": (
        "127.0.0.1 localhost\n0.0.0.0 a.example b.example\n0.0.0.0 a.example\n0.0.0.0\n0.0.0.0 a|b c.example\n",
        (6, 3, 1, 2),
    ),
    "urls": ("http://a.example/x\na.example:80/x\na.example/x?\na.example/y/../x?q\n..\n", (5, 2, 2, 1)),
    "squidguard-urls": ("a.example/x\na.example/x/\nb.example\n*\n", (5, 3, 1, 1)),
    "dnsmasq": (
        "address=/a.example/b.example/0.0.0.0\nlocal=/a.example/\ncache-size=9\naddress=/c.example/1.2.3.4\n",
        (5, 3, 1, 1),
    ),
    "rpz": (
        "$ORIGIN z.example.\n@ SOA a. b. 1 2 3 4 5\n@ NS a.\na.example CNAME .\n*.a.example CNAME .\n"
        "b.example CNAME rpz-passthru.\nc.example MX 1 a.\n",
        (4, 2, 1, 1),
    ),
    "adblock": (
        "[Adblock Plus]\n! c\n||a.example^\n||a.example^$all\n@@||b.example^\n##.ad\n"
        "/banner/*/x$script,image\n/banner/*/x$image,script\n/banner/*/x$popup\n",
        (7, 3, 2, 2),
    ),
    "adblock-hosts": ("! x\na.example\n||a.example^\n0.0.0.0 b.example\n##.x\n", (4, 2, 1, 1)),
    "adblock-dns": ("! x\na.example\n||a.example^\n0.0.0.0 b.example\n.mov|\n||a.example/x\n", (5, 3, 1, 1)),
    "chromium": ("a.example\na.example:*\n.a.example\nb.example/x\n*\n", (6, 3, 1, 2)),
    "csv": ("# c\nid,url\n1,http://a.example/x\n2,http://a.example/x\n3,http://b.example\n4,..\n", (4, 2, 1, 1)),
    "addresses": ("192.0.2.0/31\n192.0.2.0-192.0.2.2\n1.2.3.4/8\nx\n", (5, 3, 1, 1)),
    "sha256": (f"{'00' * 32}\n{'00' * 32}\n00112233\nabc\n", (4, 2, 1, 1)),
    "file-hashes": (f"{'00' * 32}\n{'00' * 32}\n{'AB' * 16}:9:a\nabc\n", (4, 2, 1, 1)),
    "safebrowsing-raw": (b"\0\0\0\1" * 2 + b"\0\0\0\2", (3, 2, 1, 0)),
}
TEXTS |= {
    form: (own.text, (len(own.rules) + len(own.warnings), len(own.rules), 0, len(own.warnings)))
    for form, own in SAMPLES.items()
    if form not in TEXTS
}
ENTRIES = {f"{form}.list": list_of(form) for form in FORMATS}
ENTRIES["safebrowsing-raw.list"] = list_of("safebrowsing-raw", ", prefix-length: 4")
BY_LINE = [form for form in FORMATS if FORMATS[form].is_by_line]


def numbers(report: ListReport) -> tuple[int, int, int, int]:
    return report.read, report.kept, report.duplicates, report.refused


def recount(rules: list[Rule]) -> tuple[int, int]:
    """Rules that are kept, and duplicates, one by one."""
    known: list[tuple[object, object]] = []
    duplicates = 0
    for pattern, terms, _ in rules:
        duplicates += (pattern, terms) in known
        known.append((pattern, terms))
    return len(known) - duplicates, duplicates


def hosts_of(rules: list[Rule]) -> Iterator[tuple[bytes, str]]:
    for pattern, terms, _ in rules:
        if isinstance(pattern, Expression):
            yield pattern.value, terms.source


# -- what becomes of the entries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "text"),
    [("domains", "0.0.0.0 a.example\n0.0.0.0 b.example\n"), ("adblock", "a.example\nb.example\n")],
)
def test_a_list_of_which_no_entry_is_used_may_be_of_another_format(
    form: str, text: str, compiled: Callable[..., Compiled]
) -> None:
    first = compiled({f"{form}.list": text}).report.warnings[0]
    assert (first.line, first.what) == (0, "list")
    assert first.why == "no entry of it could be made a rule: is its format right?"


def test_a_file_that_is_empty_is_a_warning_but_not_in_a_folder_of_squidguard_s(
    compiled: Callable[..., Compiled], tmp_path: Path
) -> None:
    (warning,) = compiled({"domains.list": ""}).report.warnings
    assert str(warning) == f"{warning.source}: list: it is empty"
    assert compiled({"urls": ""}).report.warnings == []


def test_filters_that_cost_too_much_on_every_request_are_left_out_with_their_lines(
    compiled: Callable[..., Compiled],
) -> None:
    costly = "".join(f"/login/*zq{number}\n" for number in range(MOST_OF_KEY + 30))
    warnings = compiled({"adblock.list": f"[Adblock Plus]\n{costly}/login/ads?\n"}).report.warnings
    assert [(own.line, own.what) for own in warnings[:2]] == [(130, "/login/*zq128"), (131, "/login/*zq129")]
    assert "it is left out: the list has more than 128 filters that have the word or name 'login'" in warnings[0].why
    assert (warnings[-1].line, warnings[-1].why) == (0, "30 in all are left out for what they cost")


@pytest.mark.slow
@each_row("form", FORMATS)
def test_every_entry_is_kept_or_a_duplicate_or_refused(form: str, compiled: Callable[..., Compiled]) -> None:
    text, expected = TEXTS[form]
    found = compiled({f"{form}.list": text})
    (own,) = found.report.lists
    assert numbers(own) == expected
    assert own.read == own.kept + own.duplicates + own.refused
    assert (own.kept, own.duplicates) == recount(rules_in(found.policy.layers[0]))
    assert len(found.index) == own.kept


def test_duplicates_are_counted_in_pieces_as_in_whole_lists(
    compiled: Callable[..., Compiled], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ["a.example", "x.a.example", "y.a.example", "x.a.example", "a.example", "x.a.example"]
    text = "".join(f"0.0.0.0 {line}\n" for line in lines)
    flow = f"rules: [{', '.join(lines)}]"
    compiled({"a.hosts": text, "b.yaml": flow})
    for piece in (1 << 20, 1):
        monkeypatch.setattr(list_chunks, "PIECE", piece)
        found = compile_policy(tmp_path / "policy.yaml", cache=IndexCache(tmp_path / f"cache {piece}"))
        assert [(own.kept, own.duplicates) for own in found.report.lists] == [(3, 3)] * 2


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_what_is_broad_is_a_warning_with_file_and_line(compiled: Callable[..., Compiled], tmp_path: Path) -> None:
    found = compiled(
        {
            "a.hosts": "0.0.0.0 fine.example\n0.0.0.0 co.uk\n0.0.0.0 google.com\n0.0.0.0 example\n",
            "b.yaml": "rules:\n- {address: 10.0.0.0/8}\n- {address: 192.0.2.0/24}\n- google.com/mail\n",
        },
        popular="1,www.google.com\n2,a b\n",
    )
    assert [str(warning).replace(f"{tmp_path}{os.sep}", "") for warning in found.report.warnings] == [
        "popular.csv:2: 2,a b: left out: there is white space in it",
        "a.hosts:2: co.uk/: it is a public suffix (as com is): the rule covers every site below it",
        "a.hosts:3: google.com/: it covers www.google.com, number 1 of the popular domains",
        "a.hosts:4: example/: it is a single label: the rule covers every site below it",
        "b.yaml:2: 10.0.0.0/8: a whole address range: it covers 16,777,216 addresses, and the whole of 10.0.0.0/8 "
        "(private use)",
    ]


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_of_every_file_come_together_in_order(tmp_path: Path, cache: IndexCache) -> None:
    (tmp_path / "z.yaml").write_text("rules:\n- ok.example\n- '..'\n- {sha256: x}\n")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "a.hashed").write_text("x\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "layers:\n- {name: a, lists: [z.yaml, folder.yaml, none.yaml]}\n- {name: b, lists: [a.hashed], colour: red}\n"
    )
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy, cache=cache, popular=tmp_path / "none.csv")
    assert [(Path(problem.source).name, problem.line) for problem in caught.value.problems] == [
        *(("policy.yaml", 2), ("policy.yaml", 2), ("policy.yaml", 3), ("none.csv", 0)),
        *(("z.yaml", 3), ("z.yaml", 4), ("a.hashed", 1)),
    ]


@pytest.mark.parametrize("error", ["a rule", "a file", "the policy"])
def test_nothing_is_left_of_what_cannot_be_compiled(tmp_path: Path, cache: IndexCache, error: str) -> None:
    (tmp_path / "a.yaml").write_text("rules: ['..']" if error == "a rule" else "rules: []")
    policy = write_policy(tmp_path, "a.yaml", *(["none.yaml"] if error == "a file" else []))
    if error == "the policy":
        policy.write_text(f"{policy.read_text()}colour: red\n")
    with pytest.raises(PolicyError):
        compile_policy(policy, cache=cache)
    assert not cache.folder.exists() or not [*cache.folder.iterdir()]


def test_a_file_that_changes_while_it_is_read_is_an_error(
    tmp_path: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("a.hosts", "b.hosts")]
    for file in files:
        file.write_text("0.0.0.0 a.example\n")
    policy = write_policy(tmp_path, *(file.name for file in files))
    collect = module._collect

    def change(*args: Any, **kwargs: Any) -> object:
        files[1].write_text("0.0.0.0 another.example\n")
        return collect(*args, **kwargs)

    monkeypatch.setattr(module, "_collect", change)
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy, cache=cache)
    assert caught.value.problems == (Problem(str(files[1]), 0, "b.hosts", "it changed while it was read"),)
    assert [*cache.folder.iterdir()] == []


def test_a_file_that_vanishes_while_it_is_read_is_an_error_of_that_file(
    tmp_path: Path, cache: IndexCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.hosts"
    file.write_text("0.0.0.0 a.example\n")
    policy = write_policy(tmp_path, file.name)
    load_chunk = list_chunks.load_chunk

    def remove(*args: Any) -> object:
        file.unlink()
        return load_chunk(*args)

    monkeypatch.setattr(list_chunks, "load_chunk", remove)
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy, cache=cache)
    assert [str(problem) for problem in caught.value.problems] == [
        f"{file}: No such file or directory",
        f"{file}: it changed while it was read",
    ]


# -- pieces and processes ----------------------------------------------------------------------------------------------


def answers(index: Index, rules: list[Rule]) -> list[object]:
    """What an index finds for everything that rules in the clear fit, and for something below."""
    asked = {value for value, _ in hosts_of(rules)} | {b"www." + value + b"x/y" for value, _ in hosts_of(rules)}
    found: list[object] = [index.find(split_web(b"http://" + value)) for value in sorted(asked)]
    return [*found, [index.find(split_web(b"http://%b/" % host)) for host in (b"192.0.2.1", b"192.0.2.2", b"10.0.0.1")]]


@pytest.mark.parametrize("form", BY_LINE)
def test_a_list_that_is_cut_at_any_line_gives_the_same(
    form: str, compiled: Callable[..., Compiled], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text, _ = TEXTS[form]
    assert isinstance(text, str)
    ending = "\r\n" if BY_LINE.index(form) % 2 else "\n"
    octets = b"\xef\xbb\xbf" + (text + text.removesuffix("\n")).replace("\n", ending).encode()
    whole = compiled({f"{form}.list": octets})
    rules = rules_in(whole.policy.layers[0])
    expected = answers(whole.index, rules)
    pieces = set()
    for size in (1, 20, len(octets) - 1):
        monkeypatch.setattr(list_chunks, "PIECE", size)
        cut = compile_policy(tmp_path / "policy.yaml", cache=IndexCache(tmp_path / f"cache {size}"))
        pieces.add(len(list_chunks.chunk_list(whole.policy.layers[0].lists[0]).chunks))
        assert cut.report.to_plain() == whole.report.to_plain()
        assert answers(cut.index, rules) == expected
        assert len(cut.index) == len(whole.index)
    assert max(pieces) >= text.count("\n")


def python(code: str, policy: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs code as a script, for which a warning is an error, on a policy and what else is given."""
    script = policy.with_name("script.py")
    script.write_text(code)
    return subprocess.run(
        [sys.executable, "-W", "error", script, policy, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[3]), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


_IN_PROCESSES = """
import sys
from pathlib import Path
from hushlist.core.compile import policy_compiler as module
from hushlist.core.compile import worker_processes, list_chunks
from hushlist.core.compile.index_cache import IndexCache

list_chunks.FEW, list_chunks.PIECE = 0, 100
if __name__ == "__main__":
    policy, folder, method = sys.argv[1:]
    if method == "spawn":
        worker_processes.threading.active_count = lambda: 2
    steps = []
    tell = lambda *step: steps.append(step)
    found = module.compile_policy(Path(policy), cache=IndexCache(Path(folder)), jobs=2, progress=tell)
    assert {what for what, *_ in steps} == {"read", "sorted"}
    print(found.index.source)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_several_processes_give_the_same_index_as_one(
    method: str, compiled: Callable[..., Compiled], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if method == "fork" and sys.platform != "linux":
        pytest.skip("processes are never copied here")
    texts = {f"{form}.list": text for form, (text, _) in TEXTS.items()}
    monkeypatch.setattr(list_chunks, "PIECE", 100)
    lines = "".join(f"0.0.0.0 h{number}.example\n" for number in range(40))
    one = compiled({**texts, "more.hosts": lines}, jobs=1)
    done = python(_IN_PROCESSES, tmp_path / "policy.yaml", tmp_path / "other", method)
    assert (done.returncode, done.stderr) == (0, "")
    (index,) = (tmp_path / "other").glob("*.index")
    assert str(index) == done.stdout.strip()
    assert index.name == Path(one.index.source).name
    assert index.read_bytes() == Path(one.index.source).read_bytes()


# -- as live traffic is ------------------------------------------------------------------------------------------------


# -- other people's lists ----------------------------------------------------------------------------------------------


def test_a_badfilter_takes_back_rules_for_hosts_of_the_adblock_lists_of_its_layer(
    compiled: Callable[..., Compiled],
) -> None:
    hosts = "||a.example^\n||a.example^\n||sub.a.example^\n||b.example^\n||c.example^$all\n||d.example^\n"
    back = (
        "||a.example^$badfilter\n||b.example^$badfilter,important\n@@||d.example^$badfilter\n||e.example^$badfilter\n"
    )
    found = compiled({"a.adblock": hosts, "b.adblock": f"{back}||c.example^$badfilter\n", "c.hosts": "0 e.example\n"})
    index, (own, *_) = found.index, found.report.lists
    blocked = [host for host in "abcde" if index.on_host(f"{host}.example".encode()).matches]
    assert (blocked, index.on_host(b"sub.a.example").matches != ()) == (["b", "d", "e"], True)
    assert (own.read, own.kept, own.duplicates) == (6, 3, 3)
    assert len(index) == sum(line.kept for line in found.report.lists)


def test_what_a_list_covers_is_said_in_the_policy_and_checked_where_it_is_in_the_clear(
    tmp_path: Path, cache: IndexCache
) -> None:
    (tmp_path / "hashes").write_text(f"{'00' * 32}\n00112233\n")
    (tmp_path / "names").write_text("a.example\n" * 50 + "b.example\n")
    entries = "[{file: hashes, format: sha256, covers: hosts}, {file: names, format: urls, covers: hosts, gate: off}]"
    (tmp_path / "policy.yaml").write_text(f"layers: [{{name: lists, lists: {entries}}}]")
    assert compile_policy(tmp_path / "policy.yaml", cache=cache).index.directory.opaque == ()
    (tmp_path / "names").write_text("a.example\n" * 50 + "b.example/x\n")
    with pytest.raises(PolicyError) as error:
        compile_policy(tmp_path / "policy.yaml", cache=cache)
    why = "the list says 'covers: hosts', and this is for less than a host"
    assert str(error.value) == f"{tmp_path / 'names'}:51: b.example/x: {why}"
    (tmp_path / "policy.yaml").write_text("layers: [{name: lists, lists: [{file: hashes, format: sha256}]}]")
    assert compile_policy(tmp_path / "policy.yaml", cache=cache).index.directory.opaque == ("lists",)
