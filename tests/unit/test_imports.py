"""Who imports whom, who opens files, and what an import does."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from itertools import accumulate
from pathlib import Path
from time import time

import pytest

from hushlist.core.compile import stat_cache
from hushlist.core.extension import built_in
from hushlist.extensions.unblock.overrides import Overrides
from unit.sources import GROUP, MODULES, PACKAGE, imports_of, nodes_of, part_of

pytestmark = GROUP

#: the extensions that an extension may import, as it declares
DECLARED = {each.name: {*each.uses} for each in built_in()}
#: modules that are there for other rooms: what commands are made of
DOORS = {"hushlist.cli.common", "hushlist.cli.command_options"}
#: what parts of extensions may use of the proxy
DOORS_OF_PARTS = {
    f"hushlist.proxy.{name}"
    for name in (
        *("parts", "runtime", "flow_request", "flow_outcome", "request_handler", "languages", "object_patches"),
        "local_sockets",
        *("page.pages", "page.elements", "page.template", "page.block_response"),
        *("bounds.bounded_input", "bounds.body_looks"),
        *(
            "connections.client_connections",
            "connections.name_lookups",
            "service.health",
            "service.siblings",
            "statistics",
        ),
    )
}
#: where files may import each other's room, by the first part of their names
ROOMS = {
    "core": {"core"},
    "proxy": {"core", "proxy"},
    "extensions": {"core", "extensions"},
    "tools": {"core", "extensions", "tools"},
    "cli": {"core", "extensions", "tools", "cli"},
    "__main__": {"cli"},
}


def is_against_the_house(module: str, imported: str) -> bool:
    """Whether the sentences of the house forbid a module of ours to import another one of ours."""
    (_, *ours), (_, *theirs) = module.split("."), imported.split(".")
    if not ours:  # the package itself
        return True
    if imported in DOORS and module.endswith(("_command", "_commands")):
        return False
    if ours[0] == "extensions" and imported in DOORS_OF_PARTS:
        return False
    if theirs[0] not in ROOMS[ours[0]]:
        return True
    if ours[0] == theirs[0] == "extensions" and len(ours) > 1 < len(theirs):
        return theirs[1] not in {ours[1], *DECLARED.get(ours[1], ())}
    return False


#: rooms and modules that open files
MAY_OPEN = (
    "hushlist.core.system",
    "hushlist.core.lists",
    "hushlist.core.match.index_file",
    "hushlist.core.match.public_suffixes",
    "hushlist.core.match.sorted_runs",
    "hushlist.tools.reference.abnf",
    "hushlist.core.policy",
    "hushlist.core.compile",
    "hushlist.proxy",
    "hushlist.extensions",
    "hushlist.tools",
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
    against = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name in imports_of(path)
        if name.split(".")[0] == "hushlist" and is_against_the_house(module, name)
    ]
    assert against == []


def test_extensions_import_each_other_in_one_direction_and_what_they_declare() -> None:
    tuple(TopologicalSorter(DECLARED).static_order())
    used = {
        (ours[2], theirs[2])
        for module, path in MODULES.items()
        for name in imports_of(path)
        if len(ours := module.split(".")) > 2 < len(theirs := name.split("."))
        if ours[1] == theirs[1] == "extensions" and ours[2] != theirs[2]
    }
    assert {(name, other) for name, others in DECLARED.items() for other in others} <= used


def test_only_proxy_and_extensions_import_mitmproxy() -> None:
    importing = {
        module for module, path in MODULES.items() if "mitmproxy" in {name.split(".")[0] for name in imports_of(path)}
    }
    assert {module for module in importing if part_of(module) not in ("proxy", "extensions")} == set()


#: modules by which a program speaks to a network
_NETWORK = {
    *("asyncio", "select", "selectors", "socket", "socketserver", "ssl"),
    *("ftplib", "http.client", "http.server", "imaplib", "poplib", "smtplib", "urllib.request", "xmlrpc"),
    *("aioquic", "h11", "h2", "httpx", "OpenSSL", "requests", "tornado", "urllib3", "wsproto"),
}


def of_a_network(path: Path) -> set[str]:
    """What a source imports of these modules."""
    nodes = nodes_of(path)
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if not _NETWORK.isdisjoint(accumulate(name.split("."), "{}.{}".format))}


def test_the_core_imports_no_network() -> None:
    importing = {module: of_a_network(path) for module, path in MODULES.items() if part_of(module) == "core"}
    assert {module: names for module, names in importing.items() if names} == {}
    assert of_a_network(MODULES["hushlist.proxy.local_sockets"]) == {"asyncio", "socket"}
    assert "http.HTTPStatus" not in of_a_network(MODULES["hushlist.core.routes"])
    assert of_a_network(MODULES["hushlist.extensions.subscriptions.list_fetch"])


def test_whatever_is_imported_is_a_declared_dependency() -> None:
    """A package that only comes with another is missing as soon as that one does without it."""
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    declared = {re.split("[<>=; ]", line, maxsplit=1)[0].lower() for line in project["dependencies"]}
    names = {name.split(".")[0] for path in MODULES.values() for name in imports_of(path)}
    brought_by = packages_distributions()
    foreign = names - sys.stdlib_module_names - {"hushlist", "psycopg", "selenium"}  # of the extras "fleet" and "visit"
    assert {"mitmproxy", "yaml"} <= foreign
    assert not {name for name in foreign if declared.isdisjoint(map(str.lower, brought_by[name]))}


def opening(path: Path) -> set[str]:
    """What a source calls that opens files."""
    calls = (node.func for node in nodes_of(path) if isinstance(node, ast.Call))
    names = {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}
    return names & (_OPENERS | _READERS_OF_PACKAGES)


def test_only_some_open_files() -> None:
    others = {module: opening(path) for module, path in MODULES.items() if not module.startswith(MAY_OPEN)}
    assert {module: calls for module, calls in others.items() if calls} == {}


def test_the_check_sees_imports_and_files_where_there_are_some() -> None:
    assert "hushlist.core.url.parts" in imports_of(MODULES["hushlist.core.decide.engine"])
    assert "mitmproxy" in {name.split(".")[0] for name in imports_of(MODULES["hushlist.proxy.addon"])}
    assert "read_bytes" in opening(MODULES["hushlist.extensions.journal.log_sender"])


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
@pytest.mark.parametrize("modules", [("hushlist.core.decide.engine", *_FACES), ("hushlist.proxy.addon",)])
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
    assert read <= ({"block_page.html", "texts", *texts} if is_proxy else set())
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
    *("tempfile", "importlib.metadata", "signal", "shlex", "textwrap", "traceback"),
    *("idna", "encodings.idna", "stringprep"),
    *("dataclasses", "inspect"),  # what a start has is a named tuple, or says itself how it is made
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
        "yaml",
    ),
}
#: what both commands need not import of the core
_NOT_NEEDED = {
    f"hushlist.core.{name}"
    for name in (
        *("compile.background_compiler", "compile.list_chunks", "compile.policy_compiler", "compile.worker_processes"),
        *("lists.format_detection", "lists.hash_lists", "lists.patterns"),
        *("lists.plain_lists", "lists.popular_domains", "lists.yaml_rules", "lists.yaml_documents"),
        *("match.index_writer", "match.overbroad", "match.public_suffixes", "match.rule_collector"),
        *("match.seal", "match.sorted_runs", "system.package_code"),
        *("policy.recurrence", "policy.schedule"),
    )
}


#: modules of extensions that both commands still import
_OF_EXTENSIONS = {
    f"hushlist.extensions.{name}"
    for name in (
        *("inside.forms", "inside.inside", "needs.ways"),
        *(f"searches.{name}" for name in ("engines", "search_readings", "word_lists", "words")),
        *("subscriptions.gate_limits", "subscriptions.list_store"),
    )
}


#: a compiled policy is opened without its lists only if no file changed just now
_SETTLED = "from hushlist.core.compile import stat_cache; stat_cache.SETTLED = -(10**18); "


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["check", "http://h.example/a"], {"hushlist.cli.policy_commands", "hushlist.core.url.http_head"}),
        (
            ["helper", "--acl"],
            {"hushlist.tools.squid.helper_command", "hushlist.tools.squid.helper", "hushlist.core.url.http_head"},
        ),
    ],
)
def test_asking_a_compiled_policy_imports_only_what_it_needs(
    tmp_path: Path, arguments: list[str], own: set[str]
) -> None:
    loaded = _loaded_by(tmp_path, arguments)
    assert loaded & _COSTLY == set()
    assert loaded & _NOT_NEEDED == set()
    others = {name for name in loaded if name.split(".")[0] == "hushlist" and part_of(name) not in ("", "core", "cli")}
    modules = {name for name in others if MODULES[name].stem != "__init__"}
    assert modules - own - _OF_EXTENSIONS == set()


@pytest.mark.slow
def test_temporary_unblocks_alone_need_no_protocol_of_safe_browsing(tmp_path: Path) -> None:
    Overrides(tmp_path / "hushlist" / "overrides.sqlite", time).close()
    loaded = _loaded_by(tmp_path, ["check", "http://h.example/a"])
    assert "hushlist.extensions.unblock.overrides" in loaded
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


def test_the_wheel_has_every_package_and_every_file_of_data() -> None:
    setuptools = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]
    packages = {path.parent for path in PACKAGE.rglob("__init__.py")}
    names = {".".join(path.relative_to(PACKAGE.parent).parts) for path in packages}
    assert set(setuptools["packages"]) == {*names, "hushlist.rules"}
    data = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    for name, patterns in setuptools["package-data"].items():
        for folder in packages if name == "*" else (PACKAGE.parent.joinpath(*name.split(".")),):
            data -= {path for pattern in patterns for path in folder.glob(pattern)}
    assert data == set()
