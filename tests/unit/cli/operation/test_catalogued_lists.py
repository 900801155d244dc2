"""A list of the catalogue in a policy, and the catalogue that is shown."""

from pathlib import Path

import pytest

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue
from unit.cli.running import Run

CATALOGUE = read_catalogue(shipped_catalogue())


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("catalogue: hagezi-tiff", "'hagezi-tiff': it has no such list; did you mean 'hagezi-tif'?"),
        ("catalogue: []", "a list: it has no such list"),
        ("catalogue: hagezi-tif, file: a.txt", "it says where the list is: leave out 'file'"),
        ("catalogue: hagezi-tif, url: 'https://h.example/'", "it says where the list is: leave out 'url'"),
    ],
)
def test_what_is_wrong_with_a_catalogued_list_is_told(run: Run, entry: str, error: str) -> None:
    Path("policy.yaml").write_text(f"layers:\n- name: lists\n  lists:\n  - {{{entry}}}\n")
    code, _, err = run("check", "--policy", "policy.yaml", "a.example")
    assert (code, err.startswith("policy.yaml:4: catalogue: ")) == (2, True)
    assert error.partition("; did")[0] in err


def test_a_policy_may_say_more_of_a_catalogued_list(run: Run) -> None:
    entry = "{catalogue: hagezi-tif, category: 'hrn://mine.example/x', action: warn}"
    Path("policy.yaml").write_text(f"layers: [{{name: lists, lists: [{entry}]}}]")
    read = read_policy(Path("policy.yaml"), ProblemReport("policy.yaml"))
    assert read is not None
    (own,) = read.subscribed
    with own.store.locked():
        own.store.use(own.store.keep(b"blocked.example\n"))
    assert str(own.defaults.category) == "hrn://mine.example/x"
    _, out, _ = run("check", "--policy", "policy.yaml", "http://blocked.example/")
    assert out.startswith("warn ")
    assert "HaGeZi, malware" in out


def test_a_list_has_the_gate_of_the_catalogue_unless_the_policy_says_otherwise() -> None:
    gates = []
    for more in ("", ", gate: {loses: 30%}"):
        Path("policy.yaml").write_text(
            f"gate: {{requests: 2%}}\nlayers: [{{name: lists, lists: [{{catalogue: hagezi-nrd7{more}}}]}}]"
        )
        read = read_policy(Path("policy.yaml"), ProblemReport("policy.yaml"))
        assert read is not None
        gates += [(own.gate.rolling, own.gate.loses, own.gate.requests) for own in read.subscribed]
    assert gates == [(True, 50, 2), (False, 30, 2)]


def test_the_catalogue_is_shown(run: Run) -> None:
    code, out, _ = run("lists", "--catalogue")
    assert code == 0
    for entry in CATALOGUE.values():
        assert f"{entry.name}  " in out
        assert f"{entry.publisher}, {entry.licence}: {entry.url}\n" in out
    assert run("lists", "--catalogue", "--json")[1].count("\n") == len(CATALOGUE)
