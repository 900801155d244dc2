"""``hushlist init``: what it writes can be used, and it writes over nothing."""

import re
import shutil
from pathlib import Path

import pytest

import hushlist
from hushlist.cli import init_command
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue
from unit.cli.running import Run
from unit.rows import each_row

CATALOGUE = read_catalogue(shipped_catalogue())
SCRIPT = Path(hushlist.__file__).parent.parent / "filter.py"
FORMS = {"domains": "blocked.example\n", "hosts": "0.0.0.0 blocked.example\n"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def subjects_of(policy: Path) -> list[str]:
    """What the lists of a policy are about; each gets a copy that blocks one site."""
    found = read_policy(policy, ProblemReport(str(policy)))
    assert found is not None
    for own in found.subscribed:
        with own.store.locked():
            own.store.use(own.store.keep(FORMS[own.form or ""].encode()))
    return [str(own.defaults.category).rpartition("/")[2] for own in found.subscribed]


@pytest.mark.parametrize(
    ("arguments", "subjects"),
    [
        (["family"], ["malware", "phishing", "ads", "adult", "gambling", "bypass"]),
        (["school"], ["malware", "phishing", "ads", "adult", "gambling", "social", "bypass"]),
        (["company"], ["malware", "phishing", "doh"]),
        (["company", "--block", "social", "ads", "--block", "social"], ["social", "ads"]),
    ],
)
def test_what_is_written_is_a_policy_that_blocks(run: Run, arguments: list[str], subjects: list[str]) -> None:
    assert run("init", *arguments) == (
        0,
        "policy.yaml: a policy, which you can change; overrides.yaml: your own rules\n"
        "next: hushlist update --policy policy.yaml\n"
        f"then: mitmdump -s {SCRIPT} --set hushlist_policy=policy.yaml\n"
        "then, on each device: open http://ADDRESS-OF-THIS-MACHINE:8080/setup, which says how to set it up\n",
        "",
    )
    assert SCRIPT.is_file()
    pages = re.findall(r"/\S+\.md", Path("policy.yaml").read_text())
    assert [Path(page).is_file() for page in pages] == [True] * 3
    assert subjects_of(Path("policy.yaml")) == subjects
    code, out, _ = run("compile", "--policy", "policy.yaml")
    assert (code, len(subjects) + 1) == (0, out.count(" 0        0  ") - 1)
    code, out, err = run("check", "--policy", "policy.yaml", "http://www.blocked.example/")
    assert (code, err) == (1, "")
    assert run("check", "--policy", "policy.yaml", "http://other.example/")[0] == 0


@pytest.mark.parametrize("name", ["policy.yaml", "overrides.yaml"])
def test_nothing_is_written_over(run: Run, name: str) -> None:
    Path(name).write_text("mine")
    why = f"{name} is there already, and is not written over: name a file in another folder with -o"
    assert run("init", "family") == (2, "", f"hushlist: {why}\n")
    assert [path.name for path in Path().iterdir() if path.is_file()] == [name]
    assert Path(name).read_text() == "mine"


def test_a_place_that_cannot_be_written_is_named(run: Run) -> None:
    assert run("init", "family", "-o", "none/policy.yaml") == (
        2,
        "",
        "none/policy.yaml: output: there is no folder none\n",
    )
    assert "give the policy another name" in run("init", "family", "-o", "overrides.yaml")[2]


def test_without_a_terminal_it_asks_nothing(run: Run) -> None:
    assert run("init") == (2, "", "hushlist: say where the filter runs: family, school, company\n")


def test_at_a_terminal_it_asks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["home", "family", "", "n", "", "", "no", "yes", "", "n", "n"])
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or next(answers))
    monkeypatch.setattr("hushlist.cli.init_command.is_terminal", lambda: True)
    assert run("init")[0] == 0
    assert subjects_of(Path("policy.yaml")) == ["malware", "ads", "adult", "social"]
    assert asked[:2] == ["Where does the filter run (family, school, company)? "] * 2
    assert asked[2].startswith("Block malware (malware, phishing, scams")
    assert [text.rpartition("[")[2] for text in asked[2:]] == [
        *["Y/n] "] * 5,
        "y/N] ",
        "y/N] ",
        "Y/n] ",
        "Y/n] ",
    ]
    assert "\n# pass-through: household" in Path("policy.yaml").read_text()


@pytest.mark.parametrize(("place", "is_passed"), [("family", True), ("school", False), ("company", False)])
def test_what_households_need_is_passed_through_in_families(run: Run, place: str, is_passed: bool) -> None:
    assert run("init", place)[0] == 0
    found = read_policy(Path("policy.yaml"), ProblemReport("policy.yaml"))
    assert found is not None
    assert found.settings.pass_through.covers_at(b"gateway.push.apple.com", 5223) is is_passed
    assert "pass-through: household" in Path("policy.yaml").read_text()


def test_without_an_answer_nothing_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    monkeypatch.setattr("hushlist.cli.init_command.is_terminal", lambda: True)
    assert run("init", "family") == (2, "", "hushlist: there was no answer: nothing is written\n")
    assert not Path("policy.yaml").exists()


# -- the catalogue in a policy -----------------------------------------------------------------------------------------


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
    assert subjects_of(Path("policy.yaml")) == ["x"]
    _, out, _ = run("check", "--policy", "policy.yaml", "http://blocked.example/")
    assert out.startswith("warn ")
    assert "HaGeZi, malware" in out


def test_the_catalogue_is_shown(run: Run) -> None:
    code, out, _ = run("lists", "--catalogue")
    assert code == 0
    for entry in CATALOGUE.values():
        assert f"{entry.name}  " in out
        assert f"{entry.publisher}, {entry.licence}: {entry.url}\n" in out
    assert run("lists", "--catalogue", "--json")[1].count("\n") == len(CATALOGUE)


def test_a_package_that_is_installed_alone_names_no_page_that_is_not_there(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = folder / "site" / "hushlist" / "rules"
    shutil.copytree(shipped_policy().parent, rules)
    monkeypatch.setattr(init_command, "shipped_policy", lambda: rules / "policy.yaml")
    assert run("init", "family")[0] == 0
    pages = re.findall(r"/\S+\.md", Path("policy.yaml").read_text())
    assert {Path(page) for page in pages} == {rules / "README.md", rules / "network.md"}


@each_row(("path", "why"), [("MISSING/p.yaml", "there is no folder MISSING"), ("file/a/p.yaml", "file is no folder")])
def test_a_folder_that_is_none_is_named(run: Run, path: str, why: str) -> None:
    Path("file").touch()
    assert run("init", "family", "-o", path) == (2, "", f"{path}: output: {why}\n")
