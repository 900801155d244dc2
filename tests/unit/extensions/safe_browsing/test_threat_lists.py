"""Lists of Safe Browsing in a policy: what is read, what is refused with its line, and that keys stay secret."""

from pathlib import Path

import pytest

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.safe_browsing.threat_lists import GOOGLE
from unit.rows import each_row

SECRET = "AIzaSyNobodyMaySeeThis"
SERVER = "server: 'https://lists.school.example'"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read(folder: Path, entry: str, more: str = "", mode: int = 0o600) -> tuple[Policy, list[str]]:
    (folder / "own.key").write_text(f"{SECRET}\n")
    (folder / "own.key").chmod(mode)
    (folder / "none.key").write_text(f"two words of {SECRET}\n")
    (folder / "none.key").chmod(0o600)
    path = folder / "policy.yaml"
    path.write_text(f"layers:\n- name: lists\n  lists:\n  - safe-browsing: {{{entry}}}\n    optional: true\n{more}")
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    assert policy is not None
    return policy, [f"{problem.line}: {problem.what}: {problem.why}" for problem in report.errors]


def test_a_server_and_its_lists_are_read(tmp_path: Path) -> None:
    category = "category: {MALWARE: 'hrn://a.example/m'}"
    policy, errors = read(
        tmp_path,
        f"version: 5, lists: [mw-4b, gsb-8b], {SERVER[:-1]}/', {category}, no-answer: block, api-key-file: own.key",
    )
    assert errors == []
    (key, first), (_, second) = policy.confirmers.items()
    service = first.service
    assert (first.key, first.threat, second.threat) == (key, "MALWARE", None)
    assert (service.version, service.server, service.api_key) == (5, "https://lists.school.example", SECRET)
    assert (service.lists, service.blocks_unanswered) == (("mw-4b", "gsb-8b"), True)
    one, other = policy.subscribed
    assert one.subscription.url == "https://lists.school.example/v5/hashList/mw-4b"
    assert (one.form, one.defaults.category, other.defaults.category) == ("sha256", "hrn://a.example/m", None)
    assert one.defaults.confirmer == key
    assert one.defaults.title == "mw-4b"


@pytest.mark.parametrize(("name", "types"), [("MALWARE", (1, 6, 1)), ("SOCIAL_ENGINEERING/LINUX/URL", (2, 2, 1))])
def test_a_list_of_v4_is_named_by_its_types(tmp_path: Path, name: str, types: tuple[int, ...]) -> None:
    policy, errors = read(tmp_path, f"version: 4, lists: [{name}], {SERVER}")
    assert errors == []
    (own,) = policy.confirmers.values()
    assert own.types == types


def test_without_a_server_it_is_google_s_which_needs_a_key(tmp_path: Path) -> None:
    policy, errors = read(tmp_path, "version: 5, lists: [mw-4b], api-key-file: own.key")
    ((service, _),) = ((own.service, own) for own in policy.confirmers.values())
    assert (errors, service.server, service.is_google) == ([], GOOGLE, True)
    _, errors = read(tmp_path, "version: 5, lists: [mw-4b]")
    assert errors == ["4: api-key-file: Google's server answers nobody without one: name its file"]


@each_row(
    ("entry", "error"),
    [
        (f"lists: [mw-4b], {SERVER}", "safe-browsing: it has no version"),
        (f"version: 5, {SERVER}", "safe-browsing: it has no lists"),
        (f"version: 6, lists: [mw-4b], {SERVER}", "version: 6: expected a number from 4 to 5"),
        (f"version: 5, lists: [], {SERVER}", "lists: expected the names of some"),
        (
            f"version: 5, lists: [MALWARE], {SERVER}",
            "lists: MALWARE: expected a name such as mw-4b, which ends with the length of its hashes",
        ),
        (
            f"version: 5, lists: [gc-32b], {SERVER}",
            "lists: gc-32b: it lists what is likely safe, and nothing to stop",
        ),
        (f"version: 5, lists: [mw-4b, mw-4b], {SERVER}", "lists: mw-4b: the name is given twice"),
        (
            f"version: 4, lists: [mw-4b], {SERVER}",
            "lists: mw-4b: mw-4b is none of MALWARE, SOCIAL_ENGINEERING, UNWANTED_SOFTWARE, "
            "POTENTIALLY_HARMFUL_APPLICATION",
        ),
        (
            f"version: 4, lists: [MALWARE/LINUX], {SERVER}",
            "lists: MALWARE/LINUX: expected a threat type such as MALWARE, or all three types, such as "
            "MALWARE/ANY_PLATFORM/URL",
        ),
        (
            "version: 5, lists: [mw-4b], server: 'http://lists.example'",
            "server: http://lists.example: over http, anybody on the way could see and change what is asked: "
            "use https; only this machine needs none",
        ),
        (
            "version: 5, lists: [mw-4b], server: 'https://a:b@lists.example'",
            "server: https://lists.example: expected the address of a server, such as https://lists.example",
        ),
        (
            f"version: 5, lists: [mw-4b], {SERVER}, no-answer: perhaps",
            "no-answer: perhaps: expected one of pass, block",
        ),
        (f"version: 5, lists: [mw-4b], {SERVER}, api-key-file: gone", "gone: there is no such file"),
        (
            f"version: 5, lists: [mw-4b], {SERVER}, api-key-file: none.key",
            "api-key-file: none.key: it has no API key, alone on one line",
        ),
    ],
)
def test_an_error_names_its_line_and_no_key(tmp_path: Path, entry: str, error: str) -> None:
    policy, errors = read(tmp_path, entry)
    assert f"4: {error}" in errors
    assert SECRET not in repr(errors)
    assert policy.confirmers == {}


@pytest.mark.posix
def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    _, errors = read(tmp_path, f"version: 5, lists: [mw-4b], {SERVER}, api-key-file: own.key", mode=0o644)
    assert errors == ["4: own.key: it is secret, and others can use it: take that away (chmod o=,g-w)"]


def test_nothing_that_is_printed_has_the_key(tmp_path: Path) -> None:
    policy, _ = read(tmp_path, f"version: 5, lists: [mw-4b], {SERVER}, api-key-file: own.key")
    assert SECRET in (tmp_path / "own.key").read_text()
    assert SECRET not in repr(policy)
    assert SECRET not in "".join(own.store.folder.name for own in policy.subscribed)
    ((service, _),) = ((own.service, own) for own in policy.confirmers.values())
    assert SECRET not in service.key
