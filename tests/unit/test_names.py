"""A name says what it holds: seven participles and pronouns that could be anything name nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from documentation import ROOT
from unit.sources import GROUP, MODULES, PACKAGE, tree_of

pytestmark = GROUP

_VAGUE = {"own", "found", "one", "asked", "known", "told", "given"}
#: columns of stores, which the page's API has under the same names
_COLUMNS = {
    "hushlist.extensions.alerts.alert_book": {"told"},
    "hushlist.extensions.reports.actions": {"asked"},
    "hushlist.extensions.reports.report_book": {"asked"},
    "hushlist.extensions.unblock.access_requests": {"asked"},
    "hushlist.extensions.unblock.actions": {"asked"},
}
#: what a script declares
_DECLARED = re.compile(
    rf"(?:\b(?:const|let|var|function)\s+|[(,]\s*)({'|'.join(_VAGUE)})\s*(?:=>|[=(]|[,)][^;{{}}]*=>)"
)


def names_in(tree: ast.AST) -> Iterator[str]:
    """What a source gives a name to: functions, classes, arguments, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def vague(tree: ast.AST) -> set[str]:
    return {name for name in names_in(tree) if name.strip("_").lower() in _VAGUE}


def test_no_name_of_the_package_is_vague() -> None:
    names = {module: vague(tree_of(path)) for module, path in MODULES.items()}
    assert {module: of_it for module, of_it in names.items() if of_it} == _COLUMNS


def defined(tree: ast.Module) -> Iterator[str]:
    """What a source defines for others: functions, classes, attributes, and constants of a module or a class."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
        for line in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
            for target in getattr(line, "targets", [getattr(line, "target", None)]):
                if isinstance(target, ast.Name):
                    yield target.id


def test_no_definition_of_a_test_is_vague() -> None:
    names = {
        str(path.relative_to(ROOT)): {name for name in defined(tree_of(path)) if name.strip("_").lower() in _VAGUE}
        for path in (ROOT / "tests").rglob("*.py")
    }
    assert {path: of_it for path, of_it in names.items() if of_it} == {}


def test_no_name_of_a_script_is_vague() -> None:
    scripts = [*PACKAGE.rglob("*.js")]
    assert len(scripts) > 20
    names = {path.name: _DECLARED.findall(path.read_text(encoding="utf-8")) for path in scripts}
    assert {name: of_it for name, of_it in names.items() if of_it} == {}


def test_the_check_sees_vague_names() -> None:
    assert vague(ast.parse("def told(asked):\n    self.known = [own for own in x]\n    read(given=one)\n")) == {
        *("told", "asked", "known", "own")
    }
    assert _DECLARED.findall("const found = rows.map((one) => one.name); sort((own, other) => 0); given(one)") == [
        *("found", "one", "own")
    ]
