"""What the doctor finds on the disk, and in the clock."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from documentation import COMMANDS, joined
from hushlist.core.diagnosis import About, Condition, Diagnosis
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import check_private
from hushlist.extensions.databases.kept_files import examine_state
from hushlist.extensions.journal.log_checks import examine_log
from hushlist.extensions.journal.log_database import Database
from hushlist.extensions.journal.log_entry import entry_of_fields
from hushlist.extensions.journal.log_record import time_text
from hushlist.extensions.subscriptions.list_checks import examine_lists
from hushlist.tools.doctor import installation
from hushlist.tools.doctor.installation import (
    examine_authority,
    examine_clock,
    examine_files,
    examine_schedules,
    examine_versions,
    open_policy,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
URL, DAY = "https://lists.example/ads.hosts", 86400


def wrong(found: Iterable[Diagnosis]) -> list[tuple[str, Condition, str]]:
    """What somebody has to do something about; each says what."""
    findings = [one for one in found if one.is_finding]
    assert all(one.advice for one in findings)
    return [(one.about, one.condition, one.what) for one in findings]


def policy_of(folder: Path, text: str) -> Policy:
    (folder / "own.hosts").write_text("0.0.0.0 ads.example\n", encoding="utf-8")
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    engine, _ = open_policy(folder / "policy.yaml")
    assert engine is not None
    return engine.policy


PLAIN = "layers: [{name: lists, lists: [own.hosts]}]\n"


class TestVersions:
    def test_programs_are_told_by_these_words(self) -> None:
        assert [*Condition] == ["good", "warning", "wrong", "cannot tell"]
        (table,) = re.findall(r"\| it looks at \|.*\n\| --- .*\n((?:\|.*\n)+)", joined(COMMANDS))
        words = re.findall(r"\w+", " ".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)))
        assert [*About] == [word for word in words if word != "devices"]  # that is an extension's

    @pytest.mark.parametrize(
        ("version", "condition", "words"),
        [
            ("mitmproxy", Condition.GOOD, f"mitmproxy {installation.version('mitmproxy')}, Python"),
            ("10.4.2", Condition.WARNING, "mitmproxy 10.4.2"),
            (None, Condition.WRONG, "has no mitmproxy"),
        ],
    )
    def test_a_mitmproxy_that_is_tested_is_good(
        self, version: str | None, condition: Condition, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def version_of(name: str) -> str:
            if version is None:
                raise installation.PackageNotFoundError(name)
            return version

        if version != "mitmproxy":
            monkeypatch.setattr(installation, "version", version_of)
        (one,) = examine_versions()
        assert (one.condition, words in one.what, bool(one.advice)) == (condition, True, one.is_finding)


@pytest.mark.parametrize(
    ("policy", "conditions", "words"),
    [
        (PLAIN, [Condition.GOOD], ["policy.yaml: 1 rule of 2 files"]),
        ("layers: [{name: a, lists: [games]}]\n", [Condition.GOOD], ["policy.yaml: 2 rules of 2 files"]),
        ("layers: []\nodd: 1\ntimezone: Nowhere/X\n", [Condition.WRONG] * 2, ["policy.yaml:2: ", "policy.yaml:3: "]),
        (
            "layers: [{name: a, lists: [odd.hosts]}]\n",
            [Condition.GOOD, Condition.WARNING],
            [": 1 rule of 2", "odd.hosts:2: "],
        ),
    ],
)
def test_a_policy_is_counted_and_its_mistakes_have_their_places(
    tmp_path: Path, policy: str, conditions: list[Condition], words: list[str]
) -> None:
    (tmp_path / "games").mkdir()
    files = {"own.hosts": "0.0.0.0 ads.example\n", "games/domains": "games.example\nplay.example\n"}
    files |= {"odd.hosts": "0.0.0.0 ads.example\nno rule !\n", "policy.yaml": policy}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    engine, found = open_policy(tmp_path / "policy.yaml")
    assert (engine is None) is (Condition.WRONG in conditions)
    assert sorted(one.condition for one in found) == sorted(conditions)
    assert all(any(word in one.what for one in found) for word in words)


def test_what_was_never_fetched_is_fetched_and_what_is_wrong_corrected(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"layers: [{{name: lists, lists: [{{url: '{URL}', format: hosts}}]}}]\n")
    _, (found,) = open_policy(path)
    assert found.advice == f"fetch it: hushlist update --policy {path}"
    path.write_text("layers: 7\n")
    _, (found,) = open_policy(path)
    assert found.advice.startswith("correct it: ")


class TestLists:
    @pytest.fixture
    def policy(self, tmp_path: Path) -> Policy:
        listed = f"{{url: '{URL}', format: hosts, optional: true, max-age: 3d}}"
        return policy_of(tmp_path, f"layers: [{{name: lists, lists: [own.hosts, {listed}]}}]\n")

    def keep(self, policy: Policy, **state: object) -> None:
        (own,) = policy.subscribed
        with own.store.locked():
            own.store.use(own.store.keep(b"0.0.0.0 ads.example\n"))
            own.store.note(**state)  # type: ignore[arg-type]

    def look(self, policy: Policy, tmp_path: Path) -> list[tuple[str, Condition, str]]:
        return wrong(examine_lists(policy, NOW.timestamp()))

    @pytest.mark.parametrize(
        ("state", "condition", "words"),
        [
            (None, Condition.WARNING, "there is no copy of it yet"),
            ({"checked": -7200, "next_try": 60}, Condition.GOOD, "asked with success 2 hours ago"),
            ({"checked": -4 * DAY}, Condition.WRONG, "4 days ago, more than its max-age of 3 days"),
            (
                {"checked": -2.5 * DAY, "next_try": -1.5 * DAY},
                Condition.WARNING,
                "nobody has fetched it since it was due",
            ),
        ],
    )
    def test_a_list_is_fetched_and_fresh(
        self, policy: Policy, tmp_path: Path, state: dict[str, float] | None, condition: Condition, words: str
    ) -> None:
        if state is not None:
            self.keep(policy, **{key: NOW.timestamp() + own for key, own in state.items()})
        (one,) = examine_lists(policy, NOW.timestamp())
        assert (one.condition, one.what.startswith(f"{URL}: "), one.what.endswith(words)) == (condition, True, True)
        assert bool(one.advice) is one.is_finding

    def test_faults_and_what_is_held_back_are_told(self, policy: Policy, tmp_path: Path) -> None:
        (own,) = policy.subscribed
        self.keep(policy, checked=NOW.timestamp() - 60, fault="status 500", faults=3)
        with own.store.locked():
            own.store.hold_back(own.store.keep(b"<html>"), ["it is a web page"])
        told = " ".join(what for _, _, what in self.look(policy, tmp_path))
        assert "status 500" in told
        assert "it is a web page" in told

    def test_a_file_that_is_held_back_is_told(self, tmp_path: Path) -> None:
        policy = policy_of(tmp_path, PLAIN)._replace(held={tmp_path / "own.hosts": "it is a web page"})
        ((about, condition, what),) = self.look(policy, tmp_path)
        assert (about, condition) == ("lists", Condition.WARNING)
        assert "own.hosts" in what
        assert "it is a web page" in what


@pytest.mark.posix
class TestFiles:
    @pytest.fixture(autouse=True)
    def _as_a_user(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        owner = tmp_path.stat().st_uid
        monkeypatch.setattr(installation.os, "geteuid", lambda: owner or 1000)
        monkeypatch.setattr(installation, "check_private", lambda _: None)

    def look(self, policy: Policy) -> list[tuple[str, Condition, str]]:
        return wrong(examine_files(policy, time.time()))

    def test_what_only_the_owner_changes_is_good(self, tmp_path: Path) -> None:
        assert self.look(policy_of(tmp_path, PLAIN)) == []

    @pytest.mark.parametrize("name", ["own.hosts", "policy.yaml", "."])
    def test_what_every_user_can_change_is_wrong(self, tmp_path: Path, name: str) -> None:
        policy = policy_of(tmp_path, PLAIN)
        (tmp_path / name).chmod((tmp_path / name).stat().st_mode | 0o002)
        ((about, condition, what),) = self.look(policy)
        assert (about, condition) == ("files", Condition.WRONG)
        assert not any("no other user can change" in one.what for one in examine_files(policy, time.time()))
        assert what.startswith(f"{tmp_path / name}: every user of this machine can change it")

    def test_a_file_of_tomorrow_speaks_against_the_clock(self, tmp_path: Path) -> None:
        policy = policy_of(tmp_path, PLAIN)
        tomorrow = time.time() + 86400
        os.utime(tmp_path / "own.hosts", (tomorrow, tomorrow))
        assert [about for about, _, _ in self.look(policy)] == ["clock"]

    def test_a_folder_that_others_write_to_is_wrong(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = policy_of(tmp_path, PLAIN)
        monkeypatch.setattr(installation, "check_private", check_private)
        (tmp_path / "hushlist").mkdir(mode=0o700)
        (tmp_path / "hushlist").chmod(0o777)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        found = [what for about, condition, what in self.look(policy) if condition is Condition.WRONG]
        (one,) = found
        assert one.startswith(f"the cache folder: {tmp_path / 'hushlist'}: other users can write there")

    def test_a_folder_that_cannot_be_written_is_wrong(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = policy_of(tmp_path, PLAIN)
        monkeypatch.setattr(installation.os, "access", lambda *_: False)
        assert len([what for _, _, what in self.look(policy) if "cannot be written" in what]) == 2

    def test_root_is_told_to_ask_as_the_filter_s_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = policy_of(tmp_path, PLAIN)
        monkeypatch.setattr(installation.os, "geteuid", lambda: 0)
        assert any("root asks" in what for _, _, what in self.look(policy))


class TestKept:
    @pytest.fixture(autouse=True)
    def _state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "state" / "hushlist").mkdir(parents=True)

    def test_damaged_files_and_those_that_were_set_aside_are_found_in_state_and_log(self, tmp_path: Path) -> None:
        policy = policy_of(tmp_path, f"{PLAIN}log: {{folder: log, clients: pseudonym}}\n")
        state, log = tmp_path / "state" / "hushlist", tmp_path / "log"
        assert wrong([*examine_state(policy, 0), *examine_log(policy, 0)]) == []
        log.mkdir()
        with closing(sqlite3.connect(state / "overrides.sqlite")) as good:
            good.execute("CREATE TABLE grants (id)")
        assert [one.what for one in examine_state(policy, 0)] == ["whole: overrides.sqlite"]
        for path in (state / "admin.sqlite", log / "decisions.sqlite"):
            path.write_bytes(b"no database" * 1000)
        (state / "overrides.sqlite.damaged-20261128T090000.000000Z").touch()
        (state / "pseudonyms.key").write_bytes(b"short")
        found = wrong([*examine_state(policy, 0), *examine_log(policy, 0)])
        assert [condition for _, condition, _ in found] == [
            *(Condition.WRONG, Condition.WARNING, Condition.WRONG, Condition.WRONG),
        ]
        words = "admin.sqlite is damaged", "decisions.sqlite is damaged", "set aside: ", "the key of pseudonyms: "
        assert sorted(what for _, _, what in found if not any(word in what for word in words)) == []


def test_a_log_that_ends_before_its_days_is_told(tmp_path: Path) -> None:
    now = NOW.timestamp()
    policy = policy_of(tmp_path, f"log: {{folder: log, rows: 10}}\n{PLAIN}")
    assert policy.of("log") is not None
    assert [one.what for one in examine_log(policy, now)] == [f"the log's folder can be written: {tmp_path / 'log'}"]
    database = Database(tmp_path / "log", replace(policy.of("log"), rows=1000))
    database.append([entry_of_fields({"time": time_text(now - 43200)})] * 20, now)
    assert (
        wrong(examine_log(policy._replace(values={**policy.values, "log": replace(policy.of("log"), rows=1000)}), now))
        == []
    )
    database.close()
    ((about, condition, what),) = wrong(examine_log(policy, now))
    assert (about, condition) == (About.FILES, Condition.WARNING)
    assert what.endswith(
        "20 records in the last day; back to 2026-11-23 00:00 UTC; 'rows' keeps 0.5 days, 'days' says 30"
    )
    assert list(examine_log(policy_of(tmp_path, PLAIN), now)) == []


def write_authority(folder: Path, start: datetime, end: datetime) -> Path:
    """An authority as mitmproxy writes it: its key and its certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mitmproxy")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), start, end)
    certificate = builder.sign(key, hashes.SHA256())
    path = folder / "mitmproxy-ca.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    path.chmod(0o600)
    return path


class TestAuthority:
    @pytest.mark.parametrize(
        ("start", "days", "condition"),
        [
            (-1, 3650, Condition.GOOD),
            (-1, 89, Condition.WARNING),
            (-10, -1, Condition.WRONG),
            (1, 3650, Condition.WRONG),
        ],
    )
    def test_its_end_is_known_before(self, tmp_path: Path, start: int, days: int, condition: Condition) -> None:
        write_authority(tmp_path, NOW + timedelta(days=start), NOW + timedelta(days=days, hours=1))
        (one,) = examine_authority(tmp_path, NOW)
        assert one.condition is condition
        assert bool(one.advice) is (condition is not Condition.GOOD)

    def test_none_yet_is_a_warning(self, tmp_path: Path) -> None:
        assert [condition for _, condition, _ in wrong(examine_authority(tmp_path, NOW))] == [Condition.WARNING]

    @pytest.mark.posix
    @pytest.mark.parametrize("mode", [0o644, 0o660, 0o666])
    def test_one_that_others_can_use_is_wrong(self, tmp_path: Path, mode: int) -> None:
        write_authority(tmp_path, NOW, NOW + timedelta(days=3650)).chmod(mode)
        ((_, condition, what),) = wrong(examine_authority(tmp_path, NOW))
        assert condition is Condition.WRONG
        assert "others can use it" in what

    @pytest.mark.parametrize(
        "octets", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    )
    def test_what_is_none_is_wrong(self, tmp_path: Path, octets: bytes) -> None:
        (tmp_path / "mitmproxy-ca.pem").write_bytes(octets)
        (tmp_path / "mitmproxy-ca.pem").chmod(0o600)
        assert [condition for _, condition, _ in wrong(examine_authority(tmp_path, NOW))] == [Condition.WRONG]


class TestClock:
    def test_a_zone_that_is_forgotten_is_a_warning(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        try:
            ((about, condition, what),) = wrong(examine_clock(policy_of(tmp_path, PLAIN), NOW))
        finally:
            monkeypatch.undo()
            time.tzset()
        assert (about, condition) == ("clock", Condition.WARNING)
        assert "12:00 in the policy's time zone UTC, and 21:00 on this machine" in what

    def test_one_that_is_given_is_good(self, tmp_path: Path) -> None:
        policy = policy_of(tmp_path, f"timezone: Asia/Tokyo\n{PLAIN}")
        found = list(examine_clock(policy, NOW))
        assert wrong(found) == []
        assert {one.about for one in found} == {"clock"}
        assert "it is 21:00 in the policy's time zone Asia/Tokyo" in [one.what for one in found]

    @pytest.mark.parametrize(
        ("state", "words"), [(0, "something keeps it right"), (5, "nothing that keeps"), (None, "only Linux says")]
    )
    def test_what_the_kernel_says_of_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: int | None, words: str
    ) -> None:
        policy = policy_of(tmp_path, PLAIN)
        monkeypatch.setattr(installation, "clock_state", lambda: state)
        *_, one = examine_clock(policy, NOW)
        assert words in one.what
        assert one.about == "clock"
        assert not one.is_finding  # a machine's host may keep it right

    def test_asking_the_kernel_changes_nothing_and_needs_no_right(self) -> None:
        assert installation.clock_state() in (None, *range(6))


class TestSchedules:
    """Of 2026-11-23."""

    @pytest.mark.parametrize(
        ("entry", "last"),
        [
            ("dates: 2025-12-22..2026-01-06", "2026-01-06"),
            ("{days: mon-fri, except: [2025-12-25, 2026-11-22]}", "2026-11-22"),
            ("{days: mon-fri, except: past}", "2026-02-03"),
            ("dates: [2025-12-24, 2026-11-23]", None),
            ("{days: mon-fri, except: 2026-11-20..2026-12-02}", None),
            ("days: mon-fri", None),
        ],
    )
    @pytest.mark.parametrize(
        "use",
        [
            "layers: [{name: lists, lists: [own.hosts], during: holidays}]",
            "categories: {hrn://c.example/x: {action: block, during: holidays}}",
            "default: {action: block, during: holidays}",
            "groups: [{name: a, clients: [10.0.0.0/8], default: {action: block, during: holidays}}]",
        ],
    )
    def test_dates_that_have_all_passed_are_a_warning(
        self, tmp_path: Path, entry: str, last: str | None, use: str
    ) -> None:
        entry = entry if entry.startswith("{") else f"{{{entry}}}"
        schedules = f"schedules: {{holidays: {entry}, past: {{dates: 2026-02-03}}}}\n"
        policy = policy_of(tmp_path, f"{schedules}{use}\n{PLAIN if not use.startswith('layers') else ''}")
        told = [what for _, condition, what in wrong(examine_schedules(policy, NOW))]
        assert told == ([f"the schedule holidays: the last of its dates was {last}"] if last else [])


def test_a_diagnosis_is_plain() -> None:
    plain = json.dumps(Diagnosis(About.CLOCK, Condition.UNKNOWN, "x")._asdict())
    assert json.loads(plain) == {"about": "clock", "condition": "cannot tell", "what": "x", "advice": ""}
