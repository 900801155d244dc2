"""Tests go by what is public: few of them set a name that begins with an underscore."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from documentation import ROOT

#: the text of a private name that is set, and of others; what has none need not be parsed
_MAYBE = re.compile(r"(?<!\bself)(?<!\bcls)\._[^_]|[\"'.]_[^_]")
#: so many may, where nothing public leads to what they test
_MOST = 9


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_patch(called: ast.expr) -> bool:
    name = getattr(called, "attr", None) or getattr(called, "id", "")
    return name.endswith(("setattr", "patch")) or (name == "object" and ast.unparse(called).endswith("patch.object"))


def private_names_set(tree: ast.AST) -> Iterator[str]:
    """What is set on another object than ``self``: by an assignment or a patch, also in a program in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_private(node.attr):
            if ast.unparse(node.value) not in ("self", "cls"):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and is_patch(node.func):
            named = [own.value for own in node.args[:2] if isinstance(own, ast.Constant) and isinstance(own.value, str)]
            yield from (name for name in named if is_private(name.rpartition(".")[2]))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            with suppress(SyntaxError):  # not a program
                yield from private_names_set(ast.parse(node.value))


def setting(source: str) -> dict[str, list[str]]:
    """The functions of a source that set private names, and its programs; with those names."""
    found = {}
    for node in ast.parse(source).body if _MAYBE.search(source) else ():
        names = [*private_names_set(node)]
        if names:
            found[getattr(node, "name", f"line {node.lineno}")] = names
    return found


@pytest.mark.slow
def test_few_tests_set_private_names() -> None:
    sources = sorted((ROOT / "tests").rglob("*.py"))
    found = {
        f"{path.relative_to(ROOT)}: {name}": names
        for path in sources
        for name, names in setting(path.read_text(encoding="utf-8")).items()
    }
    assert len(found) <= _MOST, found


def test_the_check_sees_private_names() -> None:
    assert setting("def f():\n    a._b, c.d = 1, 2\n    self._e = 3\n") == {"f": ["a._b"]}
    assert setting("def g(p):\n    p.setattr(a, '_b', 1)\n    p.setattr('a._c', 1)\n") == {"g": ["_b", "a._c"]}
    program = "import module\nmodule." + "_x = 1\n"
    assert setting(f"P = {program!r}") == {"line 1": ["module._x"]}
    assert setting("def h(p):\n    p.setattr(a, 'b', 1)\n    a.b = a._c\n") == {}
