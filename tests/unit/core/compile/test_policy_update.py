"""An index that an update of a few lines makes finds what one finds that is made of all lines."""

import os
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest

from hushlist.core.compile import policy_update
from hushlist.core.compile.compile_report import CompileReport
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import Compiled, compile_policy
from hushlist.core.compile.policy_update import Sources
from hushlist.core.match import index_update
from hushlist.core.match.index import Index
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.url.parts import split_web

NUMBERS = range(60)
NAMES = [f"{before}n{number}.example" for number in NUMBERS for before in ("", "a.")]


def domain_lines(numbers: random.Random) -> str:
    name = numbers.choice(NAMES)
    return numbers.choice([name, name, name, name.upper(), f"*.{name}", f"{name} # x", "# x", "", "a b", "co.uk"])


def hosts_lines(numbers: random.Random) -> str:
    one, other = numbers.choices(NAMES, k=2)
    lines = (f"0.0.0.0 {one}", f"0.0.0.0 {one} {other}", "127.0.0.1 localhost", "0.0.0.0", f"192.0.2.1 {one}", "# x")
    return numbers.choice(lines)


def hash_lines(numbers: random.Random) -> str:
    digest = sha256(f"{numbers.choice(NAMES)}/".encode()).hexdigest()
    return numbers.choice([digest, digest[:8], "# x", "xyz"])


def page_lines(numbers: random.Random) -> str:
    return numbers.choice(NAMES) + numbers.choice(["", "", "", "/", "/a", "/a/b?c"])


LISTS: dict[str, Callable[[random.Random], str]] = {
    "a.domains": domain_lines,
    "b.hosts": hosts_lines,
    "c.sha256": hash_lines,
    "d.urls": page_lines,
}
POLICY = """
gate: {loses: off, suffixes: off, requests: off, format: off}
layers:
- name: first
  lists: [{file: b.hosts, category: "hrn://x.example/a"}, {file: c.sha256, action: allow}, {file: a.adblock}]
- name: second
  lists: [{file: a.domains, format: domains}, {file: d.urls, format: urls}, {file: a.domains, format: domains}]
"""


class Folder:
    """A policy, its lists, and two caches: of updates, and of what is made anew."""

    def __init__(self, path: Path) -> None:
        self.path, self.policy = path, path / "policy.yaml"
        self.caches = IndexCache(path / "updated"), IndexCache(path / "anew")
        self.policy.write_text(POLICY)
        (path / "a.adblock").write_text("! x\n||n1.example^\n||n2.example^\n@@||n3.example^\n/ads/*.js$script\n")
        numbers = random.Random(1)
        self.lines = {name: ["# first", *(make(numbers) for _ in range(200))] for name, make in LISTS.items()}
        self.write()

    def write(self) -> None:
        for name, lines in self.lines.items():
            (self.path / name).write_text("\n".join(lines))

    def edit(self, numbers: random.Random, name: str) -> None:
        lines = self.lines[name]
        for _ in range(numbers.randrange(1, 6)):
            at = numbers.randrange(1, len(lines))
            new = [LISTS[name](numbers) for _ in range(numbers.randrange(3))]
            lines[at : at + numbers.randrange(3)] = new
        self.write()

    def compile(self, before: Index | None = None) -> Compiled:
        return compile_policy(self.policy, cache=self.caches[0], before=None if before is None else Path(before.source))

    def anew(self) -> Compiled:
        return compile_policy(self.policy, cache=self.caches[1], jobs=1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def updates_of(index: Index) -> int:
    return Sources.of(index).updates


def said(compiled: Compiled) -> tuple[object, ...]:
    """All that is found and told."""
    index = compiled.index
    index.verify()
    report = CompileReport.of(index).to_plain()
    urls = [split_web(f"http://{name}{path}".encode()) for name in (*NAMES, "co.uk") for path in ("/", "/a/b?c")]
    found = [[(match.rule, match.expression) for match in index.find(url)] for url in urls]
    return report, len(index), index.directory.rules, index.directory.opaque, sorted(map(repr, index.places())), found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_after_any_edits_all_is_found_and_told_as_if_all_lines_had_been_read(folder: Folder, seed: int) -> None:
    numbers, index, updated = random.Random(seed), folder.compile().index, 0
    for _ in range(8):
        for name in numbers.sample(["a.domains", "b.hosts", "c.sha256"], numbers.randrange(1, 3)):
            folder.edit(numbers, name)
        compiled = folder.compile(index)
        index, updated = compiled.index, updated + (updates_of(compiled.index) > 0)
        assert said(compiled) == said(folder.anew())
    assert updated >= 6, "nearly all are made by updates"


def changed_lines(folder: Folder) -> None:
    folder.lines["a.domains"][5] = "fresh.example"
    folder.write()


def longer_path(folder: Folder) -> None:
    folder.lines["d.urls"].append("fresh.example/a")
    folder.write()


def first_line(folder: Folder) -> None:
    folder.lines["a.domains"][0] = "# another"
    folder.write()


def page_behind_an_empty_line(folder: Folder) -> None:
    folder.lines["a.domains"][1] = "<html>"
    folder.write()


def nearly_all_lines(folder: Folder) -> None:
    folder.lines["c.sha256"][1:] = [f"{number:064x}" for number in range(300)]
    folder.write()


def other_terms(folder: Folder) -> None:
    changed_lines(folder)
    folder.policy.write_text(POLICY.replace("hrn://x.example/a", "hrn://x.example/b"))


def damaged_copy(folder: Folder) -> None:
    changed_lines(folder)
    for copy in folder.caches[0].folder.rglob("*.list"):
        copy.write_bytes(copy.read_bytes() + b"#")


def bad_index(folder: Folder) -> None:
    changed_lines(folder)
    for index in folder.caches[0].folder.glob("*.index"):
        octets = bytearray(index.read_bytes())
        octets[len(octets) // 2] ^= 1
        index.write_bytes(octets)


@pytest.mark.parametrize(
    ("change", "updates"),
    [(changed_lines, 1), (longer_path, 0), (first_line, 0), (nearly_all_lines, 0), (other_terms, 0), (bad_index, 0)],
)
def test_what_an_update_cannot_do_is_made_anew(folder: Folder, change: Callable[[Folder], None], updates: int) -> None:
    index = folder.compile().index
    change(folder)
    compiled = folder.compile(index)
    assert updates_of(compiled.index) == updates
    assert said(compiled) == said(folder.anew())


def test_a_list_whose_copy_is_damaged_is_not_compared_with_it(folder: Folder) -> None:
    folder.policy.write_text(POLICY.replace("requests: off", "requests: off, rolling: true"))
    index = folder.compile().index
    damaged_copy(folder)
    with pytest.raises(PolicyError, match="its last good copy is damaged"):
        folder.compile(index)


@pytest.mark.parametrize(("module", "bound"), [(policy_update, "MOST_UPDATES"), (index_update, "MOST_RUNS")])
def test_updates_are_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch, module: ModuleType, bound: str) -> None:
    monkeypatch.setattr(module, bound, 2)
    numbers, index, updates = random.Random(0), folder.compile().index, list[int]()
    for _ in range(5):
        folder.edit(numbers, "a.domains")
        index = folder.compile(index).index
        updates.append(updates_of(index))
    assert 0 < max(updates) <= 2
    assert updates[-1] < 5


@pytest.mark.slow
def test_an_update_that_ends_in_the_middle_leaves_what_was(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder.compile()
    changed_lines(folder)
    was = said(before)
    monkeypatch.setattr(index_update, "write_directory", lambda *_: os._exit(1))
    if not (child := os.fork()):
        folder.compile(before.index)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert [path.stem for path in folder.caches[0].folder.glob("*.index")] == [Path(before.index.source).stem]
    assert said(before) == was


def test_a_list_that_becomes_a_web_page_is_told_whatever_stays_of_its_beginning(folder: Folder) -> None:
    folder.lines["a.domains"][0] = ""
    folder.write()
    index = folder.compile().index
    page_behind_an_empty_line(folder)
    with pytest.raises(PolicyError, match="begins as a web page does"):
        folder.compile(index)
