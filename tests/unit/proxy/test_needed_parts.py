"""Which extensions cost a proxy something: those that its policy needs, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushlist.core.extension import Extension, built_in
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.groups import Group, GroupSettings
from hushlist.core.policy.keys import Key
from hushlist.core.policy.part_needs import needs_part, says_something
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.policy.usable_keys import default_of
from hushlist.extensions.dashboard.dashboard_server import DashboardServer
from hushlist.extensions.files.file_inspector import FileInspector
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime
from support.parts import part_of

TESTS, CHECKOUT = Path(__file__).parents[2], Path(__file__).parents[3]
#: those whose parts every policy needs
ALWAYS = {"databases", "unblock", "subscriptions", "needs", "journal", "fleet", "dashboard"}
WITH_PARTS = {each.name: each for each in built_in() if each.part}
LAYERS = "layers: [{name: own}]\n"
NOTIFYING = "notify: [{webhook: 'http://127.0.0.1:9/'}]\n"
#: policies of which each needs one more part
NEEDING = [
    ("alerts", f"{NOTIFYING}alerts: [{{name: a, when: {{search: on}}}}]\n{LAYERS}"),
    ("devices", f"devices: [{{name: tablet, addresses: [10.9.8.7]}}]\n{LAYERS}"),
    ("files", f"files: [{{endings: [exe]}}]\n{LAYERS}"),
    ("heads", f"heads: [{{sites: a.example, remove: [Cookie], for: request}}]\n{LAYERS}"),
    ("heads", "layers: [{name: own, lists: [{file: filters.txt, format: adblock}]}]\n"),
    ("heads", "layers: [{name: own, lists: [filters.txt]}]\n"),
    ("heads", "layers: [{name: own, lists: [untold.txt]}]\n"),
    ("notify", f"{NOTIFYING}{LAYERS}"),
    ("quotas", f"quotas: {{'hrn://c.example/games': 30}}\n{LAYERS}"),
    ("reports", f"reports: on\n{LAYERS}"),
    ("resolution", f"resolve: on\n{LAYERS}"),
    ("resolution", "layers: [{name: own, checks: {private-answer: block}}]\n"),
    (
        "safe_browsing",
        "layers: [{name: own, lists: [{safe-browsing: {version: 5, lists: [mw-4b], server: 'http://127.0.0.1:9'},"
        " optional: true}]}]\n",
    ),
    ("safe_search", f"safe-search: strict\n{LAYERS}"),
    ("tenants", f"tenants: [{{service: google, allow: [school.example]}}]\n{LAYERS}"),
]


def read(folder: Path, text: str) -> Policy:
    path = folder / "policy.yaml"
    path.write_text(text)
    (folder / "filters.txt").write_text("[Adblock Plus]\n||a.example^$header=x:y\n")
    (folder / "untold.txt").write_text("\0\n")
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    assert policy is not None
    assert report.errors == []
    return policy


def names_of(runtime: Runtime) -> set[str]:
    """The extensions whose parts are in use."""
    names = {each.part: name for name, each in WITH_PARTS.items()}
    return {names[f"{type(part).__module__}:{type(part).__name__}"] for part in runtime.parts._in_use}


@pytest.mark.parametrize(("name", "text"), NEEDING)
@pytest.mark.parametrize("for_whom", ["everybody", "a group"])
def test_a_policy_makes_the_part_that_it_needs_and_no_other(
    tmp_path: Path, name: str, text: str, for_whom: str
) -> None:
    if for_whom == "a group":
        if any(key.place == "group" for key in WITH_PARTS[name].policy_keys) and text.endswith(LAYERS):
            keys = text.removesuffix(LAYERS).strip()
            text = f"{LAYERS}groups: [{{name: children, clients: [10.0.0.0/8], {keys}}}]\n"
        else:
            return
    runtime = Runtime()
    assert names_of(runtime) == ALWAYS
    policy = read(tmp_path, text)
    runtime.parts.prepare(policy)
    assert names_of(runtime) == ALWAYS  # until it is in use
    runtime.parts.follow(policy)
    assert names_of(runtime) == ALWAYS | {name} | ({"notify"} if name == "alerts" else set())
    runtime.close()


def test_each_part_is_always_needed_or_a_case_here_needs_it() -> None:
    assert {name for name, each in WITH_PARTS.items() if not (each.part_keys or each.part_if)} == ALWAYS
    assert {name for name, _ in NEEDING} | ALWAYS | {"first_start"} == {*WITH_PARTS}


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, each in WITH_PARTS.items() for key in each.part_keys], ids=str
)
def test_a_key_makes_its_part_needed_wherever_it_stands(name: str, key: str) -> None:
    extension, nothing = WITH_PARTS[name], Policy("policy.yaml", (Layer("own"),))
    (place,) = {row.place for row in extension.policy_keys if row.name == key}
    assert not default_of(key)  # else a policy would need the part that does not have the key
    assert not needs_part(None, extension)
    assert not needs_part(nothing, extension)
    settings = GroupSettings(values={key: ("something",)})
    if place == "policy":
        assert needs_part(nothing._replace(values={key: ("something",)}), extension)
    else:
        assert needs_part(nothing._replace(settings=settings), extension)
        others = tuple(Group(f"group {number}", (), GroupSettings()) for number in range(3))
        assert needs_part(nothing._replace(groups=(*others, Group("last", (), settings))), extension)


def test_an_extension_without_part_keys_is_asked_under_every_policy() -> None:
    """A key of it may have another default than nothing, which holds where no policy has the key."""
    guard, nothing = Key("guard", "guard.keys:GUARD", place="group", default="on"), Policy("policy.yaml", ())
    assert says_something(nothing, Extension("guard", policy_keys=(guard,), why_decrypt="guard.sites:why_decrypt"))
    asked = [each for each in built_in() if each.why_decrypt or each.device_names]
    assert not any(says_something(nothing, each) for each in asked)


def test_a_part_that_was_made_goes_on_where_a_policy_does_not_need_it_any_more(tmp_path: Path) -> None:
    runtime = Runtime()
    policy, without = read(tmp_path, f"files: [{{endings: [exe]}}]\n{LAYERS}"), read(tmp_path, LAYERS)
    runtime.parts.follow(policy)
    part = part_of(runtime, FileInspector)
    assert any(getattr(call, "__self__", None) is part for call in runtime.parts.responseheaders)
    runtime.parts.follow(without)
    assert runtime.part(FileInspector) is part
    assert not any(getattr(call, "__self__", None) is part for call in runtime.parts.responseheaders)
    runtime.parts.follow(without._replace(extensions=("unblock",)))
    assert runtime.part(FileInspector) is None
    runtime.close()


def test_what_was_made_for_a_policy_that_is_never_used_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = list[Part]()
    monkeypatch.setattr(FileInspector, "close", lambda part: closed.append(part))
    runtime = Runtime()
    runtime.parts.prepare(read(tmp_path, f"files: [{{endings: [exe]}}]\n{LAYERS}"))
    runtime.close()
    assert [type(part) for part in closed] == [FileInspector]


def test_a_part_whose_beginning_fails_begins_with_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[Part]()

    def configured(part: Part) -> None:
        begun.append(part)
        if len(begun) == 1:
            raise OSError("not now")

    monkeypatch.setattr(FileInspector, "configured", configured)
    monkeypatch.setattr(DashboardServer, "configured", lambda part: None)  # it reads mitmproxy's options
    runtime, policy = Runtime(), read(tmp_path, f"files: [{{endings: [exe]}}]\n{LAYERS}")
    runtime.parts.begin("configured")
    with pytest.raises(OSError, match="not now"):
        runtime.parts.follow(policy)
    for _ in range(2):
        runtime.parts.follow(policy)
    assert begun == [part_of(runtime, FileInspector)] * 2
    runtime.close()


_START = """
import sys
from pathlib import Path

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.service import script_watch
from support.mitmproxied import mitmproxied

with mitmproxied(Hushlist(), Path(sys.argv[1])):
    script_watch._prepare()
    modules = [name for name in sys.modules if name.startswith("hushlist.") or name == "segno"]
print(*modules)
"""


@pytest.mark.parametrize("policy", [CHECKOUT / "rules" / "policy.yaml", pytest.param(None, marks=pytest.mark.thorough)])
def test_code_that_no_policy_needs_is_not_imported(tmp_path: Path, policy: Path | None) -> None:
    if policy is None:
        policy = tmp_path / "policy.yaml"
        policy.write_text("layers: [{name: own, lists: [own.yaml]}]\n")
        (tmp_path / "own.yaml").write_text("rules: [a.example]\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "addon"), str(TESTS))),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", _START, str(policy)]
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    modules = {*started.stdout.split()} - {"hushlist.extensions.first_start.own_policy"}
    imported = {name.split(".")[2] for name in modules if name.count(".") > 2}
    imported &= {each.name for each in built_in()}
    of_rules = {"inside", "searches"}  # what they read in requests, every policy that does not say otherwise asks for
    assert imported <= ALWAYS | of_rules
    only_for_work = {f"hushlist.core.compile.{name}" for name in ("policy_compiler", "index_update", "list_chunks")}
    only_for_pages = {f"hushlist.extensions.dashboard.{name}" for name in ("admin_api", "metrics", "rule_edits")}
    only_for_a_log = {f"hushlist.extensions.journal.{name}" for name in ("log_writer", "log_database", "log_sender")}
    assert not modules & (only_for_work | only_for_pages | only_for_a_log | {"segno"})
