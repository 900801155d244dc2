"""``hushlist init``: the questions at a terminal, what it writes, and that it writes over nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hushlist
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy import default_policy, household_policy, shipped_policy
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.first_start import init_command, policy_writer
from hushlist.extensions.first_start.questionnaire import Device
from unit.cli.running import Run
from unit.rows import each_row

SCRIPT = Path(hushlist.__file__).parent.parent / "filter.py"


@pytest.fixture(autouse=True)
def _network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_command, "own_address", lambda: "192.168.1.10")
    monkeypatch.setattr(init_command, "seen_devices", lambda: [Device("192.168.1.22", "tablet")])


def policy_at(path: Path) -> Policy:
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    assert report.errors == []
    assert policy is not None
    return policy


def subjects_of(path: Path) -> list[str]:
    return [str(own.defaults.category).rpartition("/")[2] for own in policy_at(path).subscribed]


@pytest.mark.parametrize(
    ("arguments", "subjects"),
    [
        (["family"], ["malware", "phishing", "ads", "adult", "gambling", "bypass"]),
        (["school"], ["malware", "phishing", "ads", "adult", "gambling", "social", "bypass"]),
        (["company"], ["malware", "phishing", "doh"]),
        (["company", "--block", "social", "ads", "--block", "social"], ["ads", "social"]),
    ],
)
def test_without_a_terminal_the_place_says_all(run: Run, arguments: list[str], subjects: list[str]) -> None:
    assert run("init", *arguments, "-o", "policy.yaml") == (
        0,
        "policy.yaml: a policy, which you can change; overrides.yaml: your own rules\n"
        f"next: mitmdump -s {SCRIPT} --set hushlist_policy=policy.yaml (one that runs without a policy takes it now)\n"
        "then, on each device: open http://192.168.1.10:8080/setup, which says how to set it up\n",
        "",
    )
    assert SCRIPT.is_file()
    pages = re.findall(r"/\S+\.md", Path("policy.yaml").read_text())
    assert [Path(page).is_file() for page in pages] == [True] * 3
    assert subjects_of(Path("policy.yaml")) == subjects


def test_it_is_the_policy_of_this_user_unless_a_file_is_named(run: Run, home: Path) -> None:
    assert default_policy() == shipped_policy()
    code, out, _ = run("init", "testing")
    path = home / "config" / "hushlist" / "policy.yaml"
    assert (code, household_policy(), default_policy()) == (0, path, path)
    assert f"mitmdump -s {SCRIPT} (" in out
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert run("check", "http://blocked.example/")[1].endswith("An example of a rule of your own\n")
    assert f"Policy       {path} (--policy names another)\n" in run("explain", "http://blocked.example/")[1]


@pytest.mark.parametrize("name", ["policy.yaml", "overrides.yaml"])
def test_nothing_is_written_over(run: Run, name: str) -> None:
    Path(name).write_text("mine")
    code, out, err = run("init", "family", "-o", "policy.yaml")
    assert (code, out) == (2, "")
    assert err == f"{name}: output: {name} is there already, and is not written over\n"
    assert [path.name for path in Path().iterdir() if path.is_file()] == [name]
    assert Path(name).read_text() == "mine"


@each_row(
    ("path", "why"),
    [
        ("MISSING/p.yaml", "MISSING/overrides.yaml: output: there is no folder MISSING"),
        ("file/a/p.yaml", "file/a/overrides.yaml: output: file is no folder"),
        ("overrides.yaml", "overrides.yaml is the list of your own rules: give the policy another name"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(run: Run, path: str, why: str) -> None:
    Path("file").touch()
    code, _, err = run("init", "family", "-o", path)
    assert (code, err.removeprefix("hushlist: ")) == (2, f"{why}\n")


def test_without_a_terminal_it_asks_nothing(run: Run) -> None:
    assert run("init") == (2, "", "hushlist: say where the filter runs: family, school, company, testing\n")


def test_without_a_home_a_file_has_to_be_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("the user has no home")

    monkeypatch.setattr(init_command, "household_policy", homeless)
    assert run("init", "family") == (2, "", "hushlist: name a file with -o: the user has no home\n")


# -- at a terminal -----------------------------------------------------------------------------------------------------


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Has somebody sit at the terminal who gives these answers in their turn to what begins so, else the default."""

    def answer(**answers: list[str]) -> list[str]:
        asked: list[str] = []
        told = {words.replace("_", " "): list(given) for words, given in answers.items()}

        def tell(question: str) -> str:
            asked.append(question)
            assert len(asked) < 100, asked[-5:]
            return next((given.pop(0) for words, given in told.items() if words in question and given), "")

        monkeypatch.setattr("builtins.input", tell)
        monkeypatch.setattr("getpass.getpass", tell)
        monkeypatch.setattr(init_command, "is_terminal", lambda: True)
        return asked

    return answer


def test_at_a_terminal_it_asks_what_the_page_asks(run: Run, answering: Callable[..., list[str]]) -> None:
    answering(
        Who_is=["ship", "fam"],
        Address=["10.0.0.300", "10.0.0.3"],
        Whose=["2", "", "3"],
        Name_of=["Mia", "Anna"],
        Gambling=["1"],
        Social=["9", "lessons"],
        unread=["no"],
        Monday=["08:30", "noon", "08:30", "12:00"],
        Friday_and=["-", "-"],
        Your_name=["Anna"],
        passphrase=["short", "", "correct horse", "correct house", "correct horse", "correct horse"],
    )
    code, out, err = run("init")
    assert (code, err) == (0, "")
    assert [words for words in ("192.168.1.22  tablet", "Expected an address", "too short") if words not in out] == []
    policy = policy_at(household_policy())
    assert [(group.name, str(group.networks[0])) for group in policy.groups] == [
        ("Mia", "192.168.1.22/32"),
        ("Anna", "10.0.0.3/32"),
    ]
    assert subjects_of(household_policy()) == ["malware", "phishing", "ads", "adult", "social", "bypass"]
    text = household_policy().read_text()
    for line in (
        '{days: mon-fri, times: "08:30-12:00"}',
        '{days: sun-thu, times: "20:00-06:30"}',
        "\n# pass-through: household",
        "\ntimezone: Europe/Berlin\n",
        "  - name: Anna\n    passphrase: scrypt$",
    ):
        assert line in text
    assert "fri, sat" not in text


def test_what_the_command_says_is_not_asked(run: Run, answering: Callable[..., list[str]]) -> None:
    asked = answering(Your_name=["Anna"], passphrase=["correct horse", "correct horse"])
    assert run("init", "company", "--block", "ads")[0] == 0
    assert not any("Who is the filter" in question for question in asked)
    assert [question.partition(":")[0] for question in asked if "Blocked (" in question] == [
        "What search engines and YouTube find that is not for children"
    ]
    assert subjects_of(household_policy()) == ["ads"]


def test_without_an_answer_nothing_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    monkeypatch.setattr(init_command, "is_terminal", lambda: True)
    assert run("init", "family")[::2] == (2, "hushlist: there was no answer: nothing is written\n")
    assert not household_policy().exists()


def test_a_package_that_is_installed_alone_names_no_page_that_is_not_there(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = home / "site" / "hushlist" / "rules"
    shutil.copytree(shipped_policy().parent, rules)
    monkeypatch.setattr(policy_writer, "shipped_policy", lambda: rules / "policy.yaml")
    assert run("init", "family", "-o", "policy.yaml")[0] == 0
    pages = re.findall(r"/\S+\.md", Path("policy.yaml").read_text())
    assert {Path(page) for page in pages} == {rules / "README.md", rules / "network.md"}
