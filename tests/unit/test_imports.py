"""Who imports whom, who opens files, and what an import does."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from time import time

import pytest

from hushlist.compiling import stat_cache
from hushlist.unblock.overrides import Overrides
from unit.sources import GROUP, MODULES, PACKAGE, imports_of, part_of, tree_of

pytestmark = GROUP

#: what the proxy, the audits and the commands are built on
_CORE = {
    *("errors", "system", "url", "match", "lists", "unblock", "policy", "jobs", "compiling", "decide", "journal"),
}
#: part of the package -> parts that it may import besides itself; "one way"
ALLOWED = {
    "": set(),
    "errors": set(),
    "system": {"errors"},
    "minisign": {"errors", "system"},
    "url": {"errors"},
    "safebrowsing": {"errors"},
    "match": {"errors", "url"},
    "lists": {"errors", "system", "url", "match"},
    "unblock": {"errors", "system", "url", "match", "lists"},
    "fleet": {"errors", "system", "url", "match", "lists", "unblock"},
    "policy": {"errors", "system", "url", "match", "lists", "unblock", "minisign", "safebrowsing"},
    "notify": {"errors", "system", "url", "match", "lists", "unblock", "policy"},
    "jobs": {"errors", "system", "url", "match", "lists", "policy"},
    "decide": {"errors", "system", "url", "match", "lists", "unblock", "policy"},
    "journal": {"errors", "system", "url", "match", "lists", "policy", "decide"},
    "compiling": _CORE - {"compiling"} | {"minisign", "safebrowsing"},
    "importing": {"errors", "system", "url", "match", "lists", "policy", "compiling"},
    "publish": {"errors", "system", "url", "match", "lists", "policy", "jobs", "compiling", "safebrowsing"},
    "admin": _CORE - {"jobs", "compiling"},
    "proxy": _CORE | {"admin", "fleet", "notify"},
    "audit": _CORE,
    "squid": _CORE - {"journal"},
    "doctor": _CORE,
    "cli": _CORE | {"admin", "audit", "doctor", "fleet", "importing", "minisign", "publish", "safebrowsing", "squid"},
    "__main__": {"cli"},
}
#: rooms and modules that open files
MAY_OPEN = (
    "hushlist.system",
    "hushlist.lists",
    "hushlist.match.index_file",
    "hushlist.match.public_suffixes",
    "hushlist.match.sorted_runs",
    "hushlist.unblock.store",
    "hushlist.url.abnf",
    "hushlist.policy",
    "hushlist.jobs",
    "hushlist.compiling",
    "hushlist.importing",
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


def test_imports_go_one_way() -> None:
    imported = {
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imports_of(path)
        if name.split(".")[0] == "hushlist" and part_of(name) not in {part_of(module), *ALLOWED[part_of(module)]}
    }
    assert imported == set()


def test_only_proxy_imports_mitmproxy() -> None:
    importing = {
        module for module, path in MODULES.items() if "mitmproxy" in {name.split(".")[0] for name in imports_of(path)}
    }
    assert {module for module in importing if part_of(module) != "proxy"} == set()


def test_whatever_is_imported_is_a_declared_dependency() -> None:
    """A package that only comes with another is missing as soon as that one does without it."""
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    declared = {re.split("[<>=; ]", line, maxsplit=1)[0].lower() for line in project["dependencies"]}
    names = {name.split(".")[0] for path in MODULES.values() for name in imports_of(path)}
    brought_by = packages_distributions()
    foreign = names - sys.stdlib_module_names - {"hushlist", "segno", "psycopg"}  # of the extras "qr" and "fleet"
    assert {"mitmproxy", "yaml"} <= foreign
    assert not {name for name in foreign if declared.isdisjoint(map(str.lower, brought_by[name]))}


def opening(path: Path) -> set[str]:
    """What a source calls that opens files."""
    calls = (node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    names = {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}
    return names & (_OPENERS | _READERS_OF_PACKAGES)


def test_only_some_open_files() -> None:
    others = {module: opening(path) for module, path in MODULES.items() if not module.startswith(MAY_OPEN)}
    assert {module: calls for module, calls in others.items() if calls} == {}


def test_the_check_sees_imports_and_files_where_there_are_some() -> None:
    assert "hushlist.url.parts" in imports_of(MODULES["hushlist.decide.engine"])
    assert "mitmproxy" in {name.split(".")[0] for name in imports_of(MODULES["hushlist.proxy.addon"])}
    assert "read_bytes" in opening(MODULES["hushlist.journal.log_sender"])


_WATCHED_IMPORT = """
import json, os, sys
events = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        events.append(os.fsdecode(arguments[0]))
    elif event in ("socket.connect", "subprocess.Popen", "os.system"):
        events.append(event)
sys.addaudithook(hook)
for module in sys.argv[1:]:
    __import__(module)
print(json.dumps({"events": events, "modules": sorted(sys.modules)}))
"""


_FACES = ("hushlist.__main__", *(name for name in MODULES if name.startswith("hushlist.cli")))


@pytest.mark.slow
@pytest.mark.parametrize("modules", [("hushlist.decide.engine", *_FACES), ("hushlist.proxy.addon",)])
def test_importing_reads_nothing_but_code_and_the_block_page_with_its_parts(modules: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED_IMPORT, *modules],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    seen, is_proxy = json.loads(done.stdout), modules == ("hushlist.proxy.addon",)
    own = [Path(event) for event in seen["events"] if str(PACKAGE) in event or "rules" in Path(event).parts]
    read = {path.name for path in own if path.suffix not in (".py", ".pyc") and ".pyc." not in path.name}
    texts = {path.name for path in (PACKAGE / "proxy" / "page" / "texts").iterdir()}
    assert read <= ({"block_page.html", "waiting_page.js", "texts", *texts} if is_proxy else set())
    assert ("mitmproxy" in seen["modules"]) is is_proxy
    assert not {"socket.connect", "subprocess.Popen", "os.system"} & set(seen["events"])


#: modules that cost time to import, and that asking a compiled policy does not need
_COSTLY = {
    *(
        "mitmproxy",
        "cryptography",
        "zstandard",
        "ruamel",
        "publicsuffixlist",
        "asyncio",
        "concurrent",
        "multiprocessing",
    ),
    *("multiprocessing", "pickle", "sqlite3", "email", "http", "html", "logging", "socket", "subprocess"),
    *("tempfile", "importlib.metadata"),
    *(
        "importlib.resources",
        "zoneinfo",
        "difflib",
        "graphlib",
        "csv",
        "pickle",
        "secrets",
        "hmac",
        "getpass",
        "ssl",
        "smtplib",
        "urllib.request",
    ),
}
#: what both commands import of this package
_NEEDED = {
    *("hushlist", "hushlist.cli", "hushlist.cli.command_options", "hushlist.cli.common", "hushlist.compiling"),
    *("hushlist.compiling.compile_report", "hushlist.compiling.index_cache", "hushlist.compiling.stat_cache"),
    *("hushlist.decide", "hushlist.decide.decision", "hushlist.decide.engine", "hushlist.decide.filter_decisions"),
    *("hushlist.decide.known_hosts", "hushlist.errors", "hushlist.lists"),
    *("hushlist.lists.list_formats", "hushlist.lists.list_source", "hushlist.lists.yaml_nodes", "hushlist.system"),
    *(
        "hushlist.system.files",
        "hushlist.system.list_store",
        "hushlist.system.memory",
        "hushlist.system.postgres_address",
        "hushlist.unblock",
        "hushlist.unblock.admin_blocks",
    ),
    *(name for name in MODULES if part_of(name) in ("match", "policy", "url")),
}
_NOT_NEEDED = {
    *("hushlist.match.index_writer", "hushlist.match.rule_collector", "hushlist.match.sorted_runs"),
    *("hushlist.match.overbroad", "hushlist.match.shadowed", "hushlist.match.false_positives"),
    "hushlist.match.public_suffixes",
    *("hushlist.url.abnf", "hushlist.url.mail_text", "hushlist.url.uri_extraction"),
}


#: a compiled policy is opened without its lists only if no file changed just now
_SETTLED = "from hushlist.compiling import stat_cache; stat_cache.SETTLED = -(10**18); "


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["check", "http://h.example/a"], {"hushlist.cli.policy_commands", "hushlist.url.http_head"}),
        (["helper", "--acl"], {"hushlist.cli.helper_command", "hushlist.squid", "hushlist.url.http_head"}),
    ],
)
def test_asking_a_compiled_policy_imports_only_what_it_needs(
    tmp_path: Path, arguments: list[str], own: set[str]
) -> None:
    loaded = _loaded_by(tmp_path, arguments)
    assert loaded & _COSTLY == set()
    allowed = (_NEEDED - _NOT_NEEDED) | own
    assert {name for name in loaded if name.split(".")[0] == "hushlist"} - allowed == set()


@pytest.mark.slow
def test_temporary_unblocks_alone_need_no_protocol_of_safe_browsing(tmp_path: Path) -> None:
    Overrides(tmp_path / "hushlist" / "overrides.sqlite", time).close()
    loaded = _loaded_by(tmp_path, ["check", "http://h.example/a"])
    assert "hushlist.unblock.overrides" in loaded
    assert {name for name in loaded if "safebrowsing." in name} | (loaded & {"urllib.request"}) == set()


def _loaded_by(folder: Path, arguments: list[str]) -> set[str]:
    """The modules that a command imports where the policy is compiled."""
    program = "import json, sys; from hushlist.cli import main; main(sys.argv[1:]); print(json.dumps([*sys.modules]))"
    policy = folder / "policy.yaml"
    policy.write_text("layers: [{name: lists, lists: [list.yaml]}]")
    (folder / "list.yaml").write_text("rules: [blocked.example, path.example/a]")
    places = {name: str(folder) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    with pytest.MonkeyPatch.context() as patch:
        for name in places:
            patch.setenv(name, places[name])
        patch.setattr(stat_cache, "SETTLED", -(10**18))
        stat_cache.load_policy(policy)
    environment = {**os.environ, **places, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", _SETTLED + program, arguments[0], "--policy", str(policy), *arguments[1:]]
    done = subprocess.run(command, input="", capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_script_s_folder_shadows_no_standard_module() -> None:
    # mitmproxy puts it at the front of sys.path, and leaves it there.
    beside = {path.stem for path in PACKAGE.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not beside & set(sys.stdlib_module_names)
