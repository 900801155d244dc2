"""addon/README.md, the page for developers: what it names exists, and every room is in its table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from documentation import ROOT
from unit.sources import GROUP, MODULES, PACKAGE, nodes_of

pytestmark = GROUP

#: the page, and those that were parts of it
PAGES = [ROOT / "addon" / "README.md", ROOT / "addon" / "readings.md", ROOT / "tests" / "README.md"]
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
#: paths in code, and a name in the file behind a colon
NAMED = sorted(set(re.findall(r"`(\.?[\w/-]+/|[\w./-]+\.(?:py|md|json|toml))(?::([\w.]+))?`", PAGE)))
FOLDERS = ("addon", "tests", "rules", "examples", ".ci")
OF_THE_CHECKOUT = ("README.md", "CHANGELOG.md", "SECURITY.md", "pyproject.toml")


def place(path: str) -> Path:
    """A path as the page means it: below the package, or below the checkout."""
    if path in ("filter.py", "hushlist/"):
        return ROOT / "addon" / path
    in_checkout = path in OF_THE_CHECKOUT or path.split("/")[0] in FOLDERS
    return (ROOT if in_checkout else PACKAGE) / path


def has(path: str, name: str) -> bool:
    """Whether a name is in a file: in a module of the package, or at the start of a line of another file."""
    if not place(path).is_relative_to(PACKAGE):
        return re.search(rf"^{name}\b", place(path).read_text(encoding="utf-8"), re.MULTILINE) is not None
    owner: object = import_module(".".join(("hushlist", *Path(path).with_suffix("").parts)).removesuffix(".__init__"))
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def methods() -> Iterator[str]:
    """Every ``Class.method`` of the package."""
    for path in MODULES.values():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                yield from (
                    f"{node.name}.{own.name}"
                    for own in node.body
                    if isinstance(own, ast.FunctionDef | ast.AsyncFunctionDef)
                )


def test_every_file_and_folder_of_the_page_exists() -> None:
    assert len(NAMED) > 100
    paths = dict(NAMED)
    assert [path for path in paths if not (place(path).is_dir if path.endswith("/") else place(path).is_file)()] == []


def test_every_name_of_the_page_is_in_its_file() -> None:
    assert [f"{path}:{name}" for path, name in NAMED if name and not has(path, name)] == []


@pytest.mark.slow
def test_every_method_that_is_named_without_its_file_exists() -> None:
    assert set(re.findall(r"`([A-Z]\w+[a-z]\w*\.[a-z_]\w+)`", PAGE)) - set(methods()) == set()


def test_the_line_that_decides_is_where_the_page_says() -> None:
    (line,) = re.findall(r"```python\n\s*(.*)\n\s*```", PAGE)
    assert line in (PACKAGE / "core" / "decide" / "decision.py").read_text(encoding="utf-8")


def test_every_room_is_in_a_table() -> None:
    rooms = {f"{path.parent.relative_to(PACKAGE)}/" for path in PACKAGE.rglob("__init__.py")} - {"./"}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert set(re.findall(r"^\| `([a-z_/.]+)` \|", PAGE, re.MULTILINE)) == rooms | modules


def test_the_settled_readings_keep_their_numbers() -> None:
    section = PAGES[1].read_text(encoding="utf-8").partition("\n## Settled readings\n")[2]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
    assert numbers == [*range(1, 43)]
    quoted = (ROOT / "tests" / "conformance" / "README.md").read_text(encoding="utf-8")
    assert all(1 <= int(number) <= 42 for number in re.findall(r"\breading (\d+)", quoted))


def test_the_page_is_short() -> None:
    page = PAGES[0].read_text(encoding="utf-8")
    way = page.partition("## The way of a request")[2].partition("\n## ")[0]
    assert len(page.split()) <= 3000
    assert len(re.findall(r"^\d+\. ", way, re.MULTILINE)) <= 12
