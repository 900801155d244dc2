"""What the first start writes: a policy that does what was answered, and over nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.first_start.policy_writer import overrides_text, policy_text, write_policy
from hushlist.extensions.first_start.questionnaire import PLACES, household_of
from hushlist.extensions.unblock.credentials import verify_passphrase
from unit.cli.running import Run
from unit.extensions.first_start.households import FAMILY
from unit.rows import each_row


def written(answers: dict[str, str], folder: Path) -> Policy:
    write_policy(household_of(answers, "Europe/Berlin"), folder / "policy.yaml")
    report = ProblemReport("policy.yaml")
    policy = read_policy(folder / "policy.yaml", report)
    assert report.errors == []
    assert policy is not None
    return policy


def fill(policy: Policy) -> None:
    """Give each list a copy, which blocks the host that is named after its subject."""
    for own in policy.subscribed:
        name = str(own.defaults.category).rpartition("/")[2]
        text = f"0.0.0.0 {name}.example\n" if own.form == "hosts" else f"{name}.example\n"
        with own.store.locked():
            own.store.use(own.store.keep(text.encode()))


@pytest.mark.slow
def test_a_child_s_device_is_blocked_at_night_and_by_its_subjects(run: Run, tmp_path: Path) -> None:
    policy = written(FAMILY, tmp_path)
    fill(policy)

    def ask(address: str, at: str, *hosts: str) -> str:
        urls = [f"http://{host}.example/" for host in hosts]
        where = ["--policy", str(tmp_path / "policy.yaml"), "--client", address, "--at", at]
        return " ".join(line.split()[0] for line in run("check", *where, *urls)[1].splitlines())

    subjects = ("ads", "adult", "social", "other")
    # a Monday
    assert ask("192.168.1.23", "2026-11-23T18:00", *subjects) == "block block pass pass"
    assert ask("192.168.1.23", "2026-11-23T09:00", *subjects) == "block block block pass"
    assert ask("192.168.1.23", "2026-11-23T20:15", *subjects) == "block block block block"
    assert ask("192.168.1.24", "2026-11-23T20:15", "other") == "pass"
    assert ask("192.168.1.24", "2026-11-23T21:15", "other") == "block"
    for address in ("192.168.1.30", "192.168.1.40"):
        assert ask(address, "2026-11-23T23:00", *subjects) == "block pass pass pass"
    # a Saturday
    assert ask("192.168.1.22", "2026-11-28T21:00", "other") == "pass"
    assert ask("192.168.1.22", "2026-11-28T21:45", "other") == "block"
    assert ask("192.168.1.24", "2026-11-28T23:00", "other") == "pass"
    check = ["check", "--policy", tmp_path / "policy.yaml", "--client", "192.168.1.22", "--at", "2026-11-23T23:00"]
    assert run(*check, "http://captive.apple.com/")[1].startswith("allow ")


@pytest.mark.slow
def test_who_runs_the_filter_can_sign_in_and_is_told(tmp_path: Path) -> None:
    policy = written(FAMILY, tmp_path)
    (person,) = policy.of("admin")
    assert (person.name, person.role) == ("Anna", "manage")
    assert verify_passphrase("correct horse battery", person.passphrase)
    (channel,) = policy.of("notify")
    assert (channel.url, channel.topic) == ("https://ntfy.sh", "our-filter-7f3a")
    assert "192.168.1.30" in str(policy.of("live").networks)
    assert all(group.settings.of("reports") for group in policy.all_groups)  # of mistakes, from block pages
    assert policy.of("log") is not None
    assert "battery" not in (tmp_path / "policy.yaml").read_text()


@pytest.mark.slow
@each_row("place", PLACES)
def test_the_policy_of_each_place_is_used_before_its_lists_are_fetched(
    run: Run, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    folder = tmp_path_factory.mktemp("place")
    written({"place": place}, folder)
    code, _, err = run("check", "--policy", folder / "policy.yaml", "http://blocked.example/")
    assert (code, err) == (1 if place == "testing" else 0, "")


@pytest.mark.slow
@each_row("name", ["Mia: the younger", "#1", "null", '{"', "- 日本"])
def test_names_stay_as_they_are(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    answers = FAMILY | {"name.0": name, "name.1": name, "admin": name}
    policy = written(answers, tmp_path_factory.mktemp("named"))
    assert [group.name for group in policy.groups] == [name, "Leo, the elder", "Anna"]
    assert policy.of("admin")[0].name == name


@each_row("name", ["policy.yaml", "overrides.yaml"])
def test_nothing_is_written_over(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("there")
    (folder / name).write_text("mine")
    with pytest.raises(SourceError, match="is there already"):
        write_policy(household_of(FAMILY, "UTC"), folder / "policy.yaml")
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


def test_what_has_a_mistake_is_not_left_behind(tmp_path: Path) -> None:
    household = household_of(FAMILY, "UTC")._replace(zone="Europe/Nowhere")
    with pytest.raises(SourceError, match="timezone"):
        write_policy(household, tmp_path / "policy.yaml")
    assert list(tmp_path.iterdir()) == []


def test_children_with_the_same_bedtimes_share_a_schedule() -> None:
    answers = {name: text for name, text in FAMILY.items() if not name.startswith("bed.")}
    text = policy_text(household_of(answers, "UTC"))
    assert text.count("\n  bedtime") == 1
    assert text.count("during: bedtime,") == 2


def test_without_a_bedtime_nothing_is_allowed_for_it() -> None:
    assert overrides_text(household_of({"place": "company"}, "UTC")).endswith("rules: []\n")
