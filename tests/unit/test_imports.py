"""Who imports whom, who opens files, and what an import does."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hushlist

PACKAGE = Path(hushlist.__file__).parent
MODULES = {
    ".".join(("hushlist", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

#: part of the package -> parts that it may import besides itself; "one way"
ALLOWED = {
    "": set(),
    "errors": set(),
    "url": {"errors"},
    "match": {"errors", "url"},
    "lists": {"errors", "url", "match"},
    "policy": {"errors", "url", "match", "lists"},
    "journal": {"errors", "url", "match", "policy"},
    "engine": {"errors", "url", "match", "lists", "policy"},
    "trace": {"errors", "url", "match", "lists", "policy", "engine"},
    "proxy": {"errors", "url", "match", "lists", "policy", "engine", "trace", "journal"},
    "audit": {"errors", "url", "match", "lists", "policy", "engine", "journal"},
    "helper": {"errors", "url", "match", "lists", "policy", "engine"},
    "cli": {"errors", "url", "match", "lists", "policy", "engine", "trace", "journal", "audit", "helper"},
    "__main__": {"cli"},
}
#: "Only lists, match/index_file, policy's loader, proxy, audit and cli open files", and the journal;
#: and what reads another package's list.
MAY_OPEN = (
    "hushlist.lists",
    "hushlist.match.index_file",
    "hushlist.match.compiler",
    "hushlist.match.public_suffixes",
    "hushlist.policy",
    "hushlist.journal",
    "hushlist.proxy",
    "hushlist.audit",
    "hushlist.cli",
)
_OPENERS = {
    "open",
    "fdopen",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "iterdir",
    "glob",
    "rglob",
    "mmap",
}
_READERS_OF_PACKAGES = {"files", "open_binary", "open_text"}


def part_of(module: str) -> str:
    """``hushlist.url.parts`` -> ``url``."""
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a source names in an import, wherever it stands in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            assert node.module is not None
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else node.module for name in names)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    part = part_of(module)
    used = {part_of(name) for name in imports_of(MODULES[module]) if name.split(".")[0] == "hushlist"}
    assert used - {part} <= ALLOWED[part]


@pytest.mark.parametrize("module", MODULES)
def test_only_proxy_imports_mitmproxy(module: str) -> None:
    foreign = {name.split(".")[0] for name in imports_of(MODULES[module])}
    assert "mitmproxy" not in foreign or part_of(module) == "proxy"


@pytest.mark.parametrize("module", MODULES)
def test_only_some_open_files(module: str) -> None:
    calls = (node.func for node in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(node, ast.Call))
    names = {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}
    assert not names & (_OPENERS | _READERS_OF_PACKAGES) or module.startswith(MAY_OPEN)


def test_the_check_sees_imports_and_files_where_there_are_some() -> None:
    assert "hushlist.url.parts" in set(imports_of(MODULES["hushlist.engine"]))
    assert "mitmproxy" in {name.split(".")[0] for name in imports_of(MODULES["hushlist.proxy.addon"])}
    assert "read_bytes" in MODULES["hushlist.lists.source"].read_text()


_WATCHED_IMPORT = """
import json, os, sys
events = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        events.append(os.fsdecode(arguments[0]))
    elif event in ("socket.connect", "subprocess.Popen", "os.system"):
        events.append(event)
sys.addaudithook(hook)
__import__(sys.argv[1])
print(json.dumps({"events": events, "modules": sorted(sys.modules)}))
"""


_FACES = [name for name in MODULES if name.startswith("hushlist.cli")]


@pytest.mark.parametrize("module", ["hushlist.engine", "hushlist.__main__", *_FACES, "hushlist.proxy.addon"])
def test_importing_reads_nothing_but_code_and_the_block_page_with_its_texts(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED_IMPORT, module],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    seen = json.loads(done.stdout)
    own = [Path(event) for event in seen["events"] if str(PACKAGE) in event or "rules" in Path(event).parts]
    read = {path.name for path in own if path.suffix not in (".py", ".pyc") and ".pyc." not in path.name}
    texts = {path.name for path in (PACKAGE / "proxy" / "texts").iterdir()}
    assert read <= ({"block_page.html", "texts", *texts} if module == "hushlist.proxy.addon" else set())
    assert ("mitmproxy" in seen["modules"]) is (module == "hushlist.proxy.addon")
    assert not {"socket.connect", "subprocess.Popen", "os.system"} & set(seen["events"])


def test_the_script_s_folder_shadows_no_standard_module() -> None:
    # mitmproxy puts it at the front of sys.path, and leaves it there.
    beside = {path.stem for path in PACKAGE.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not beside & set(sys.stdlib_module_names)
