"""The package's sources, parsed once for all tests that read them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import hushlist

#: tests that read all sources share what they have parsed: pytest-xdist runs them in one process
GROUP = pytest.mark.xdist_group("sources")
PACKAGE = Path(hushlist.__file__).parent
MODULES = {
    ".".join(("hushlist", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def part_of(module: str) -> str:
    """``hushlist.core.url.parts`` -> ``url``."""
    return module.split(".")[1] if "." in module else ""


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source's tree, which is the first of them."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module that a source names in an import, wherever it stands in it."""
    return frozenset(_imports_in(path))


def _imports_in(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            assert node.module is not None
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found = (name if name in MODULES else node.module for name in names)
            yield from (name for name in found if name != "hushlist")  # its version is for everybody
