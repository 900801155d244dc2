"""A name says what it holds: seven participles and pronouns that could be anything name nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from documentation import ROOT
from unit.sources import GROUP, MODULES, PACKAGE, nodes_of

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


#: where a text may define one of them for others; to parse all texts takes as long as hundreds of tests
_SUSPECT = re.compile(
    rf"(?:\bdef |\bclass |\.|^|^for .*\b)_*(?:{'|'.join(_VAGUE)})_*\b"
    rf"|^( *)class .*\n(?:(?:\1 .*)?\n)*?\1    _*(?:{'|'.join(_VAGUE)})_*\s*[:=]",
    re.MULTILINE | re.IGNORECASE,
)


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What a source gives a name to: functions, classes, arguments, variables, attributes."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def vague(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.strip("_").lower() in _VAGUE}


def test_no_name_of_the_package_is_vague() -> None:
    names = {module: vague(names_in(nodes_of(path))) for module, path in MODULES.items()}
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


def vaguely_defined(text: str) -> set[str]:
    return vague(defined(ast.parse(text))) if _SUSPECT.search(text) else set()


def test_no_definition_of_a_test_is_vague() -> None:
    paths = (ROOT / "tests").rglob("*.py")
    names = {str(path.relative_to(ROOT)): vaguely_defined(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: of_it for path, of_it in names.items() if of_it} == {}


def test_no_name_of_a_script_is_vague() -> None:
    scripts = [*PACKAGE.rglob("*.js")]
    assert len(scripts) > 20
    names = {path.name: _DECLARED.findall(path.read_text(encoding="utf-8")) for path in scripts}
    assert {name: of_it for name, of_it in names.items() if of_it} == {}


def test_the_check_sees_vague_names() -> None:
    tree = ast.parse("def told(asked):\n    self.known = [own for own in x]\n    read(given=one)\n")
    assert vague(names_in(ast.walk(tree))) == {"told", "asked", "known", "own"}
    text = "ONE = 1\ndef f():\n    class C:\n        x = 2\n\n        _given: int\n    self.own, x = 1\n"
    assert vaguely_defined(text) == {"ONE", "_given", "own"}
    assert _DECLARED.findall("const found = rows.map((one) => one.name); sort((own, other) => 0); given(one)") == [
        *("found", "one", "own")
    ]
