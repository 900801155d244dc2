"""The registry of extensions, and an extension that another package brings."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.cli import main
from hushlist.cli.common import installed_extensions
from hushlist.core import extension
from hushlist.core.compile import policy_compiler, stat_cache
from hushlist.core.errors import SourceError
from hushlist.core.extension import (
    BUILT_IN,
    COMMAND_GROUPS,
    Extension,
    ExtensionError,
    built_in,
    extension_named,
    extensions_named,
    foreign_code,
    foreign_names,
    load,
)
from hushlist.core.lists.list_formats import UNTOLD, unnamed_reader
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.extensions.subscriptions.list_update import _chunked
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.parts import Parts
from hushlist.proxy.runtime import Runtime

FOREIGN = """
from hushlist.core.extension import Command, Extension, ListFormat

BETS = ListFormat("bets.lists:read_bets", is_by_line=True, endings=(".bets",), entry=r"bet \\S+")
EXTENSION = Extension(
    "bets",
    list_formats={"bets": BETS},
    folder_formats={"bookmakers": {"odds": BETS}},
    commands=(Command(("odds",), "bets.odds_command", "test lists"),),
)
"""


READER = """
from hushlist.core.lists.list_source import entries
from hushlist.core.lists.patterns import read_name
from hushlist.core.match.rule import Rule

def read_bets(octets, defaults, report):
    for line, entry in entries(octets, report):
        if expression := read_name(PREFIX + entry.removeprefix("bet "), line, report):
            yield Rule(expression, defaults.terms(report.source), line)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which packages count as installed: with ``bets``, whose entry points tests write."""
    (tmp_path / "bets").mkdir()
    (tmp_path / "bets" / "__init__.py").write_text(FOREIGN)
    (tmp_path / "bets" / "lists.py").write_text(READER.replace("PREFIX", "''"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # by its time, an old one would be taken for a new file
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    """As in a new process, nothing of the packages of extensions is imported."""
    for kept in (extension_named, installed_extensions, policy_compiler._code):
        kept.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "bets"]:
        del sys.modules[name]


def policy_of(folder: Path, extensions: str, *lists: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(f"extensions: [{extensions}]\nlayers: [{{name: l, lists: [{', '.join(lists)}]}}]\n")
    return path


def install(folder: Path, entries: str, package: str = "bets") -> None:
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[hushlist.extensions]\n{entries}\n")


def test_each_built_in_extension_has_the_name_of_its_folder() -> None:
    assert [f"hushlist.extensions.{each.name}" for each in built_in()] == list(BUILT_IN)
    folders = {path.parent.name for path in (Path(extension.__file__).parents[1] / "extensions").glob("*/__init__.py")}
    assert {each.name for each in built_in()} == folders


def test_references_of_built_in_extensions_name_what_is_there() -> None:
    for each in built_in():
        for files in (each.list_formats, *each.folder_formats.values()):
            for form in files.values():
                named = (form.reader, form.dialect, form.conditions, form.counter)
                assert all(callable(load(name)) for name in named if name)
                assert form.counter or re.compile(form.entry)
                assert re.compile(form.head)
        functions = (each.matcher, each.why_decrypt, each.readings, each.part, each.checks, each.gate, each.pointers)
        others = (each.list_warnings, each.hides, each.explainer)
        assert all(callable(load(name)) for name in (*functions, *others) if name)
        assert not each.lists or {"fetch_missing", "fetch_due"} <= {*vars(load(each.lists))}
        assert not each.actions or "ACTIONS" in vars(load(each.actions))
        for command in each.commands:
            assert callable(load(command.module).add_to)
            assert command.group in COMMAND_GROUPS


def test_no_name_is_of_two_extensions() -> None:
    for names in (
        [name for each in built_in() for name in (*each.list_formats, *each.folder_formats)],
        [name for each in built_in() for row in each.commands for name in row.names],
    ):
        assert len(names) == len(set(names))
    facts = {fact for each in built_in() for fact in each.facts}
    assert len(facts) == len({fact.name for fact in facts})


def test_an_extension_of_another_package_is_found_by_its_entry_point(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    assert foreign_names() == ("bets",)
    assert [each.name for each in extensions_named(["bets", "journal", "adblock"])] == ["adblock", "journal", "bets"]
    assert extensions_named(["built-in"]) == built_in()
    assert extensions_named(["bets", "built-in", "bets"]) == (*built_in(), extension_named("bets"))


@pytest.mark.parametrize(
    ("entries", "name", "why"),
    [
        ("", "journl", "no extension has this name; did you mean 'journal'?"),
        ("", "gambling", "no extension has this name (there are: databases, "),
        ("bets = bets:NOTHING", "bets", "bets:NOTHING cannot be imported: module 'bets' has no attribute 'NOTHING'"),
        ("bets = bets:BUILT", "bets", "bets:BUILT cannot be imported"),
        ("bets = bets:Extension", "bets", "bets:Extension is no hushlist.core.extension.Extension"),
        ("gambling = bets:EXTENSION", "gambling", "bets:EXTENSION has another name: bets"),
        ("bets = nothing_here:EXTENSION", "bets", "nothing_here:EXTENSION cannot be imported: No module named"),
    ],
)
def test_what_is_no_extension_is_an_error_that_says_why(installed: Path, entries: str, name: str, why: str) -> None:
    install(installed, entries)
    with pytest.raises(ExtensionError) as caught:
        extensions_named([name])
    assert why in str(caught.value)


@pytest.mark.parametrize("extension", [each for each in built_in() if each.list_formats], ids=lambda each: each.name)
def test_a_list_whose_format_is_left_out_is_an_error_that_names_the_extension(
    tmp_path: Path, extension: Extension
) -> None:
    others = ", ".join(each.name for each in built_in() if each is not extension)
    for name in extension.list_formats:
        (tmp_path / "list").write_text("")
        layers = f"layers: [{{name: l, lists: [{{file: list, format: {name}}}]}}]"
        (tmp_path / "policy.yaml").write_text(f"extensions: [{others}]\n{layers}\n")
        with pytest.raises(SourceError) as caught:
            policy_at(tmp_path / "policy.yaml")
        why = f"the extension {extension.name} reads the format {name}, and 'extensions' leaves it out"
        assert [problem.why for problem in caught.value.problems] == [why]


@pytest.mark.parametrize("left_out", [each.name for each in built_in() if each.part])
def test_the_part_of_an_extension_that_is_left_out_is_not_called(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushlist.proxy.parts.needs_part", lambda policy, extension: True)
    parts = Parts(Runtime(), SelfConnections())
    part = parts._made[left_out]
    assert parts.of(type(part)) is part
    parts.follow(Policy("policy.yaml", (), extensions=tuple(each.name for each in built_in() if each.name != left_out)))
    assert parts.of(type(part)) is None
    calls = [call for calls in vars(parts).values() if isinstance(calls, tuple) for call in calls if callable(call)]
    assert calls
    ends = {*parts.leave, *parts.close}
    assert part not in [call.__self__ for call in calls if call not in ends]
    parts.follow(Policy("policy.yaml", ()))
    assert parts.of(type(part)) is part


def test_a_new_version_of_an_extensions_reader_makes_a_new_index(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, "bets = bets:EXTENSION")
    monkeypatch.setattr(stat_cache, "SETTLED", -(10**18))  # nothing has changed just now
    (installed / "a.bets").write_text("bet a.example\n")
    path = policy_of(installed, "built-in, bets", "a.bets")
    policy, index = stat_cache.load_policy(path)
    state = stat_cache.state_of(policy)
    assert index.on_host(b"a.example").matches
    assert stat_cache.state_of(policy) == state
    assert policy_compiler.compile_policy(path).index.source == index.source
    (installed / "bets" / "lists.py").write_text(READER.replace("PREFIX", "'new.'"))
    forget()
    assert state is None or stat_cache.state_of(policy) != state
    again = policy_compiler.compile_policy(path).index
    assert again.source != index.source
    for changed in (again, stat_cache.load_policy(path)[1]):
        assert changed.on_host(b"new.a.example").matches
        assert not changed.on_host(b"a.example").matches


def test_data_of_an_extension_is_part_of_the_key_and_other_extensions_are_not(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    with_bets, without = policy_compiler._code(("built-in", "bets")), policy_compiler._code(("built-in",))
    (installed / "bets" / "teams.json").write_text("[]")
    forget()
    assert policy_compiler._code(("built-in", "bets")) != with_bets
    assert policy_compiler._code(("built-in",)) == without
    assert foreign_code(["built-in", "journal"]) == []
    assert foreign_code(["built-in", "bets"]) == [installed / "bets"]


def test_content_tells_a_format_of_the_extensions_in_use(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    (installed / "list.txt").write_text("bet a.example\nbet b.example\n")
    [[file]] = [layer.lists for layer in policy_at(policy_of(installed, "built-in, bets", "list.txt")).layers]
    assert file.detected == "bets"
    with pytest.raises(SourceError) as caught:
        policy_compiler.compile_policy(policy_of(installed, "built-in", "list.txt"))
    why = "the installed extension bets reads its format, bets: add it to 'extensions'"
    assert [problem.why for problem in caught.value.problems] == [why]


def test_a_list_that_an_extension_reads_which_is_not_in_use_names_it(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    (installed / "a.bets").write_text("no format has this\n")
    path = policy_of(installed, "built-in", "a.bets")
    hint = "the installed extension bets reads .bets: add it to 'extensions'"
    with pytest.raises(SourceError) as caught:
        policy_compiler.compile_policy(path)
    assert [problem.why for problem in caught.value.problems] == [hint]
    (installed / "a.bets").write_text("a.example\n")
    warnings = policy_compiler.compile_policy(path).report.warnings
    assert [problem.why for problem in warnings] == [f"it is read as domains, as its content tells, but {hint}"]


def test_a_folder_may_be_in_the_format_of_an_extension(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    (installed / "folder").mkdir()
    (installed / "folder" / "odds").write_text("bet a.example\n")
    path = policy_of(installed, "built-in, bets", "{file: folder, format: bookmakers}")
    assert policy_compiler.compile_policy(path).index.on_host(b"a.example").matches


@pytest.mark.slow
def test_commands_without_a_policy_know_the_formats_of_installed_extensions(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(installed, "bets = bets:EXTENSION")
    (installed / "bets" / "lists.py").write_text(READER.replace("PREFIX", "'new.'"))
    text = "bet a.example\nbet b.example\n"
    named, told, given = (installed / name for name in ("a.bets", "told.txt", "one.txt"))
    for path in (named, told):
        path.write_text(text)
    given.write_text("bet a.example\n")
    for arguments in ([str(named)], [str(told)], ["--format", "bets", str(given)]):
        assert main(["lint", *arguments]) == 0, capsys.readouterr()
        assert "nothing found" in capsys.readouterr().out
    assert main(["diff", str(given), str(named), "--format", "bets"]) == 0
    assert "1 -> 2 rules" in capsys.readouterr().out
    assert main(["diff", str(named), str(told)]) == 0
    assert "2 -> 2 rules" in capsys.readouterr().out
    assert main(["convert", str(named), str(installed / "out.hosts")]) == 0
    assert "new.b.example" in (installed / "out.hosts").read_text()
    assert main(["convert", "--from", "bets", str(given), "-", "--format", "domains"]) == 0
    assert "new.a.example" in capsys.readouterr().out
    assert main(["hide", str(named), "-o", str(installed / "out.sha256")]) == 0
    assert main(["leak", str(installed / "out.sha256"), "--dictionary", str(named)]) == 1
    assert "new.b.example/" in capsys.readouterr().out


@pytest.mark.slow
def test_an_extension_that_cannot_be_imported_is_a_remark_where_a_format_is_missing(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(installed, "bets = bets:NOTHING")
    (installed / "a.hosts").write_text("0.0.0.0 a.example\n")
    (installed / "a.txt").write_text("0.0.0.0 a.example\n")
    assert main(["lint", str(installed / "a.hosts")]) == 0
    assert "bets" not in capsys.readouterr().err
    assert main(["lint", str(installed / "a.txt")]) == 0
    assert "the extension bets cannot be used: bets:NOTHING cannot be imported" in capsys.readouterr().err
    forget()
    (installed / "b.sha256").write_text("0" * 64 + "\n")
    assert main(["leak", str(installed / "b.sha256"), "--dictionary", str(installed / "a.txt")]) == 0
    assert "the extension bets cannot be used" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["lint", "--format", "bets", str(installed / "a.txt")])
    assert "invalid choice: 'bets'" in capsys.readouterr().err


def test_what_is_in_use_needs_no_hint(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    assert unnamed_reader(Path("a.bets.gz"), ("built-in",)).startswith("the installed extension bets reads .bets:")
    assert unnamed_reader(Path("a.bets"), ("built-in", "bets")) == unnamed_reader(Path("a.hosts")) == ""


def test_a_list_that_is_fetched_is_looked_at_by_the_formats_of_its_policy(installed: Path) -> None:
    install(installed, "bets = bets:EXTENSION")
    (installed / "copy").write_text("bet a.example\n")
    for extensions, reader in (("built-in, bets", "bets.lists:read_bets"), ("built-in", UNTOLD.reader)):
        [own] = policy_at(
            policy_of(installed, extensions, "{url: 'https://a.example/list', optional: true}")
        ).subscribed
        assert _chunked(own, installed / "copy").file.format.reader == reader
