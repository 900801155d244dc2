"""Each name of mitmproxy that is replaced or wrapped is there, and it is noticed where it is not."""

from __future__ import annotations

import ast
import asyncio
import importlib
from collections.abc import Iterator
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.dns_resolver import DnsResolver

from hushlist.extensions.dashboard.metrics import metrics
from hushlist.proxy import object_patches
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.bounds import bounded_input
from hushlist.proxy.bounds.bounded_input import PATCHES, Patch, bound_input, not_taken
from hushlist.proxy.connections.dns_queries import ask_filter_first
from hushlist.proxy.connections.name_lookups import NameLookups
from hushlist.proxy.hook_calls import ask_the_filter
from hushlist.proxy.object_patches import OBJECT_PATCHES, ObjectPatch, filter_log_of, put_on
from hushlist.proxy.service.health import is_ready
from support.mitmproxied import mitmproxied
from unit.rows import each_row
from unit.sources import MODULES, PACKAGE, nodes_of

TABLE = PACKAGE.parent / "patches.md"

PLACES = sorted({patch.place: patch for patch in PATCHES}.items())


@pytest.fixture(autouse=True)
def _bounded() -> None:
    bound_input()


def test_all_are_taken_and_each_says_why() -> None:
    assert not_taken() == []
    assert [patch.place for patch in PATCHES if len(why_of(patch)) < 20] == []


def test_the_documentation_s_table_is_that_of_the_code() -> None:
    """Print it anew with the last function of this file."""
    assert TABLE.read_text("utf-8").partition("\n| ")[2] == patch_table().removeprefix("| ")


@pytest.fixture(params=[patch for _, patch in PLACES], ids=[place for place, _ in PLACES])
def undone(request: pytest.FixtureRequest) -> Iterator[Patch]:
    """Somebody has put another thing in the place of ours."""
    patch: Patch = request.param
    ours = getattr_static(patch.owner, patch.name)
    setattr(patch.owner, patch.name, object())
    yield patch
    setattr(patch.owner, patch.name, ours)


def test_one_that_is_undone_is_noticed(undone: Patch) -> None:
    assert not_taken() == [undone.place]


# -- on single objects -------------------------------------------------------------------------------------------------


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of what other tests have put on objects."""
    for known in ("UNTAKEN", "SINGLE"):
        monkeypatch.setattr(object_patches, known, {})


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize(
    ("owner", "name"),
    [(AddonManager, "trigger_event"), (AddonManager, "handle_lifecycle"), (DnsResolver, "dns_request")],
)
def test_what_is_put_on_an_addon_and_is_undone_is_noticed(tmp_path: Path, owner: type, name: str) -> None:
    hushlist = Hushlist()
    with mitmproxied(hushlist, _policy_of(tmp_path, "")) as context:
        addons = context.master.addons
        if owner is DnsResolver:
            resolver = DnsResolver()
            addons.add(resolver)
            ask_filter_first(addons)
        found = addons if owner is AddonManager else resolver
        ask_the_filter(addons, hushlist)
        assert not_taken() == []
        before = vars(found).pop(name)
        assert not_taken() == [f"{owner.__qualname__}.{name}"]
        (warning,) = is_ready(hushlist.runtime).warnings
        assert warning.endswith(f"{owner.__qualname__}.{name}")
        assert "hushlist_patches_missing 1\n" in metrics(hushlist.runtime)
        setattr(found, name, before)
        assert not_taken() == []


@pytest.mark.usefixtures("single")
def test_look_ups_are_noticed_while_they_are_ours_and_no_longer() -> None:
    async def life() -> list[list[str]]:
        lookups = NameLookups()
        lookups.run()
        told = [not_taken()]
        del vars(asyncio.get_running_loop())["getaddrinfo"]
        told.append(not_taken())
        lookups.run()
        lookups.close()
        return [*told, not_taken()]

    assert asyncio.run(life()) == [[], ["BaseEventLoop.getaddrinfo"], []]


@pytest.mark.usefixtures("single")
@each_row("patch", OBJECT_PATCHES)
def test_an_object_without_the_name_is_noticed_and_gets_nothing(patch: ObjectPatch) -> None:
    owner = type("Other", (), {})
    rows = (patch._replace(owner=owner, name="there_is_none"),)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(object_patches, "OBJECT_PATCHES", rows)
        changed.setattr(object_patches, "UNTAKEN", {})
        one = owner()
        put_on(one, "there_is_none", 1)
        assert vars(one) == {}
        assert [place.rpartition(".")[2] for place in not_taken()] == ["there_is_none"]
        filter_log_of(one, "there_is_none", lambda record: True)
        assert [place.rpartition(".")[2] for place in not_taken()] == ["there_is_none"]


# -- nothing beside the tables -----------------------------------------------------------------------------------------

FOREIGN = ("mitmproxy", "h2", "h11", "hpack", "hyperframe", "aioquic", "wsproto", "asyncio")
#: functions that change what is foreign, by the tables
SETTERS = {("bounded_input.py", "bound_input"), ("object_patches.py", "put_on"), ("object_patches.py", "take_off")}


def foreign_methods() -> set[str]:
    """The names of methods of foreign classes that nothing there is ever assigned to."""
    methods, data = set[str](), set[str]()
    for package in FOREIGN:
        origin = importlib.import_module(package).__file__
        assert origin is not None
        for path in Path(origin).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.ClassDef):
                    for own in node.body:
                        if isinstance(own, ast.FunctionDef | ast.AsyncFunctionDef):
                            (data if own.decorator_list else methods).add(own.name)
                        elif isinstance(own, ast.AnnAssign):
                            data.add(ast.unparse(own.target))
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    data.add(node.attr)
    return methods - data


def patches_beside(tree: ast.AST, name: str, methods: set[str]) -> set[str]:
    """What a source puts in the place of something foreign without a table, as far as its text shows it."""
    foreign = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).split(".")[0] in FOREIGN
    }
    setting = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (name, node.name) in SETTERS
        for inner in ast.walk(node)
    }
    found = set[str]()
    for node in ast.walk(tree):
        if id(node) in setting:
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            root: ast.expr = node
            while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
                root = root.func if isinstance(root, ast.Call) else root.value
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not is_own and (node.attr in methods or (isinstance(root, ast.Name) and root.id in foreign)):
                found.add(ast.unparse(node))
    return found


@pytest.mark.slow
def test_nothing_foreign_is_patched_beside_the_tables() -> None:
    methods = foreign_methods()
    assert {"dns_request", "trigger_event", "getaddrinfo", "data_to_send", "drain_writers"} <= methods
    beside = {
        module: found
        for module, path in MODULES.items()
        if module.startswith(("hushlist.proxy", "hushlist.proxy.bounds", "hushlist.extensions.dashboard"))
        and (found := patches_beside(nodes_of(path)[0], path.name, methods))
    }
    assert beside == BESIDE


#: what only looks so: a record of Python's log; the state of ours; what is noted on an event or hook of its own calls
BESIDE = {
    "hushlist.proxy.hook_calls": {"setattr(event, _BEGUN, begun)"},
    "hushlist.proxy.immediate_hooks": {"setattr(hook, _LATE, True)"},
    "hushlist.proxy.bounds.printable_log": {"record.args"},
    "hushlist.proxy.service.policy_watch": {"changes.read"},
}


@each_row(
    "source",
    [
        "from mitmproxy.proxy import layers\nlayers.DNSLayer = None",
        "import h2.connection\nh2.connection.Encoder = None",
        "from mitmproxy import certs\ndel certs.datetime",
        "def f(resolver):\n    resolver.dns_request = print",
        "def f(handler):\n    handler.layer.drain_writers = print",
        "setattr(one, name, 1)",
        "class A:\n    def f(self):\n        self.loop.getaddrinfo = print",
    ],
)
def test_a_patch_beside_the_tables_is_found(source: str) -> None:
    assert patches_beside(ast.parse(source), "x.py", {"dns_request", "drain_writers", "getaddrinfo"})
    assert patches_beside(ast.parse("def f(flow):\n    flow.response = None"), "x.py", {"dns_request"}) == set()


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two names are none of this mitmproxy, one that is replaced and one that is wrapped."""
    two = [next(patch for patch in PATCHES if patch.wraps is wraps) for wraps in (False, True)]
    lacking = [patch._replace(owner=type("Other", (), {})) for patch in two]
    monkeypatch.setattr(bounded_input, "MISSED", lacking)
    return [patch.place for patch in lacking]


def test_a_mitmproxy_that_lacks_names_is_told_of(
    tmp_path: Path, lacking: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    hushlist = Hushlist()
    with mitmproxied(hushlist, _policy_of(tmp_path, "")):
        (warning,) = is_ready(hushlist.runtime).warnings
        assert warning.endswith(", ".join(lacking))
        assert "hushlist_patches_missing 2\n" in metrics(hushlist.runtime)
    assert ", ".join(lacking) in caplog.text


def _policy_of(folder: Path, more: str) -> Path:
    (folder / "rules.yaml").write_text("rules:\n- ads.test/\n")
    policy = folder / "policy.yaml"
    policy.write_text(f"{more}layers:\n- {{name: lists, lists: [rules.yaml]}}\n")
    return policy


@pytest.mark.parametrize(
    ("more", "is_error"), [("", False), ("require-patches: off\n", False), ("require-patches: on\n", True)]
)
def test_a_policy_may_refuse_the_start(
    tmp_path: Path, lacking: list[str], more: str, is_error: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with mitmproxied(Hushlist(), _policy_of(tmp_path, more)):
        pass
    levels = {record.levelname for record in caplog.records if lacking[0] in record.getMessage()}
    assert levels == ({"ERROR"} if is_error else {"WARNING"})


#: package -> the versions with which tests try what stands in the place of its names
TRIED = {
    "mitmproxy": "11.0 and 12.3",
    "h2": "4.1 and 4.4",
    "h11": "0.14 and 0.16",
    "aioquic": "1.2",
    "wsproto": "1.2 and 1.3",
    "asyncio": "Python 3.11 to 3.13",
}
#: place -> what somebody has told those who write it, where that is known
UPSTREAM = {
    **dict.fromkeys(
        ("ConnectionHandler.drain_writers", "ConnectionHandler.wakeup"),
        "https://github.com/mitmproxy/mitmproxy/issues/4563",
    ),
    "mitmproxy.proxy.layers.quic._stream_layers.QuicConnection": "https://github.com/aiortc/aioquic/issues/589",
    "aioquic.quic.connection.QuicPacketSpace": "https://github.com/aiortc/aioquic/issues/549",
    **dict.fromkeys(
        ("mitmproxy.proxy.layers.websocket.WebsocketConnection", "wsproto.extensions.PerMessageDeflate"),
        "https://github.com/python-hyper/wsproto/issues/86",
    ),
    "mitmproxy.certs.datetime": "https://github.com/mitmproxy/mitmproxy/pull/3914",
    **dict.fromkeys(
        ("AddonManager.trigger_event", "AddonManager.handle_lifecycle"),
        "https://github.com/mitmproxy/mitmproxy/issues/5029",
    ),
}


def why_of(patch: Patch) -> str:
    """The first sentence about what stands for a name."""
    text = getattr(patch.ours, "__func__", patch.ours).__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())


def patch_rows() -> list[tuple[str, str, str, str]]:
    """Each name, with what was tried, why, and what those who write it were told: once, in the order of their places.

    A name that several wrap has a row for each.
    """
    rows = [(patch.owner, patch.place, why_of(patch)) for patch in PATCHES]
    rows += [(patch.owner, patch.place, patch.why) for patch in OBJECT_PATCHES]
    return sorted({(place, _tried(owner), why, UPSTREAM.get(place, "")) for owner, place, why in rows})


def _tried(owner: Any) -> str:
    modules = [base.__module__ for base in owner.__mro__] if isinstance(owner, type) else [owner.__name__]
    package = next(name for module in modules if (name := module.split(".")[0]) in TRIED)
    return TRIED[package] if package == "asyncio" else f"{package} {TRIED[package]}"


def patch_table() -> str:
    """The rows of the table in the documentation.

    Print it with ``PYTHONPATH=tests python -c``:
    ``from unit.proxy.bounds.test_patches import patch_table as t; print(t(), end='')``
    """
    head = "| name | tried with | what stands there, and why | upstream |\n| --- | --- | --- | --- |\n"
    rows = patch_rows()
    links = {issue: f"[{'/'.join(issue.split('/')[3:])}]({issue})" if issue else "" for *_, issue in rows}
    return head + "".join(
        f"| `{place}` | {tried} | {why.replace('``', '`')} | {links[issue]} |\n" for place, tried, why, issue in rows
    )
