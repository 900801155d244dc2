"""The registry of extensions, and an extension that another package brings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.core import extension
from hushlist.core.errors import SourceError
from hushlist.core.extension import (
    BUILT_IN,
    COMMAND_GROUPS,
    Extension,
    ExtensionError,
    built_in,
    extension_named,
    extensions_named,
    foreign_names,
    load,
)
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.proxy.flow_request import SelfConnections
from hushlist.proxy.parts import Parts
from hushlist.proxy.runtime import Runtime

FOREIGN = """
from hushlist.core.extension import Command, Extension, ListFormat

EXTENSION = Extension(
    "bets",
    list_formats={"bets": ListFormat("bets.lists:read_bets", is_by_line=True, endings=(".bets",))},
    commands=(Command(("odds",), "bets.odds_command", "test lists"),),
)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which packages count as installed: with ``bets``, whose entry points tests write."""
    (tmp_path / "bets").mkdir()
    (tmp_path / "bets" / "__init__.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    extension_named.cache_clear()
    yield tmp_path
    extension_named.cache_clear()


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
        assert all(callable(load(name)) for name in (*functions, each.list_warnings) if name)
        assert not each.lists or {"fetch_missing", "fetch_due"} <= {*vars(load(each.lists))}
        assert not each.actions or {"ACTIONS", "UNDOINGS"} <= {*vars(load(each.actions))}
        for command in each.commands:
            assert callable(load(command.module).add_to)
            assert command.group in COMMAND_GROUPS


def test_no_name_is_of_two_extensions() -> None:
    for names in (
        [name for each in built_in() for name in (*each.list_formats, *each.folder_formats)],
        [name for each in built_in() for row in each.commands for name in row.names],
    ):
        assert len(names) == len(set(names))


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
        ("", "bets", "no extension has this name (there are: databases, "),
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
def test_the_part_of_an_extension_that_is_left_out_is_not_called(left_out: str) -> None:
    parts = Parts(Runtime(), SelfConnections())
    part = parts._made[left_out]
    assert parts.of(type(part)) is part
    parts.follow(Policy("policy.yaml", (), extensions=tuple(each.name for each in built_in() if each.name != left_out)))
    assert parts.of(type(part)) is None
    calls = [call for calls in vars(parts).values() if isinstance(calls, tuple) for call in calls]
    assert calls
    ends = {*parts.leave, *parts.close}
    assert part not in [call.__self__ for call in calls if call not in ends]
    parts.follow(Policy("policy.yaml", ()))
    assert parts.of(type(part)) is part
