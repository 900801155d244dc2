"""A policy that was tried goes into a service or a backup with all that belongs to it, and nothing else."""

from __future__ import annotations

import io
import json
import plistlib
import sqlite3
import sys
import tarfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hushlist import cli
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.system.authority_file import known_authority
from hushlist.extensions.boot import service_command
from hushlist.extensions.boot.backup import BackupError, read_backup
from hushlist.extensions.boot.belongings import Places, belongings_of, places_of
from hushlist.extensions.boot.service_command import SERVICE, ServiceError, macos_steps, unit_text, windows_steps
from hushlist.extensions.subscriptions.list_store import lists_folder
from support.policies import read_whole
from unit.rows import each_row

POLICY = """
layers:
- name: own
  lists: [lists/own.yaml]
"""

ADMIN = """admin:
- {name: anna, role: approve, passphrase: "scrypt$n=32768,r=8,p=1$FF/lesFn3JMqoLvUO0V5JrtcLJ86cdbF+7pOUJbLaWM$\
CXwQiDSS76ksIiRADMfw4x83bFh1FHOH08JdSf7fNEk"}
live: on
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which a filter was tried: policy, list, certificate, store in use, log, and a fetched copy."""
    home = tmp_path / "home"
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("SUDO_USER", raising=False)
    files = {
        "p/mine.yaml": POLICY,
        "p/lists/own.yaml": "rules: [a.example]",
        ".mitmproxy/mitmproxy-ca.pem": "key",
        ".mitmproxy/other": "not ours",
        "hushlist/decisions.jsonl": "{}",
        "hushlist/state.lock": "",
        "hushlist/authority-0000.pem": "of another folder",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / name).write_text(text)
    known_authority(home / "hushlist", home / ".mitmproxy").write_text("certificate")
    copies = lists_folder(home / "p" / "mine.yaml", home / "hushlist")
    (copies / "1").mkdir(parents=True)
    (copies / "1" / "a.list").write_text("fetched")
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def store(home: Path) -> Any:
    """A database to which something was written that is in its journal alone, and that is open."""
    with closing(sqlite3.connect(home / "hushlist" / "overrides.sqlite", isolation_level=None)) as store:
        store.execute("PRAGMA journal_mode=WAL")
        store.execute("CREATE TABLE grants (host TEXT)")
        store.execute("INSERT INTO grants VALUES ('a.example')")
        yield store


def grants(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as copy:
        return copy.execute("SELECT host FROM grants").fetchall()


def texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".sqlite")
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.usefixtures("store")
def test_a_service_has_what_the_filter_had_under_its_own_names(home: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    install = ("service", "install", "--policy", str(home / "p" / "mine.yaml"), "--root", str(image))
    assert cli.main([*install, "--port", "3128", "--", "--mode", "regular@1 2"]) == 0
    state, cache = Path("/var/lib/hushlist"), Path("/var/cache/hushlist")
    copies = lists_folder(Path("/etc/hushlist/policy.yaml"), cache)
    authority = known_authority(state, state / "mitmproxy")
    units = {
        f"etc/systemd/system/{name}": unit_text(name, Path(cli.sys.prefix), 3128) for name in service_command.UNITS
    }
    link = image / "usr" / "local" / "bin" / "hushlist"
    assert link.readlink() == Path(sys.prefix, "bin", "hushlist")
    link.unlink()
    assert texts(image) == units | {
        "etc/hushlist/policy.yaml": POLICY,
        "etc/hushlist/lists/own.yaml": "rules: [a.example]",
        "etc/default/hushlist": "MITMDUMP_OPTIONS=--mode 'regular@1 2'\n",
        "var/lib/hushlist/mitmproxy/mitmproxy-ca.pem": "key",
        "var/lib/hushlist/decisions.jsonl": "{}",
        str(authority.relative_to("/")): "certificate",
        str((copies / "1" / "a.list").relative_to("/")): "fetched",
    }
    assert grants(image / "var" / "lib" / "hushlist" / "overrides.sqlite") == [("a.example",)]
    assert (SERVICE.state, SERVICE.cache) == (state, cache)
    assert cli.main([*install]) == 2  # nothing is replaced


def test_a_dry_run_says_each_step_and_changes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service_command, "is_open_to_all", lambda _: True)
    (home / "p" / "mine.yaml").write_text(f"{ADMIN}\n{POLICY}")
    before = texts(home)
    assert cli.main(["service", "install", "--policy", str(home / "p" / "mine.yaml"), "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "systemctl enable --now hushlist.service hushlist-update.timer"
    assert "write /etc/systemd/system/hushlist.service.d/policy.conf" in said
    assert texts(home) == before


def test_what_the_service_could_not_read_is_an_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "secret.yaml").write_text("rules: []")
    (home / "p" / "mine.yaml").write_text("layers:\n- {name: a, lists: [../secret.yaml]}")
    home.chmod(0o700)
    assert cli.main(["service", "install", "--policy", str(home / "p" / "mine.yaml"), "--dry-run"]) == 2
    assert "secret.yaml: the filter's user cannot read it" in capsys.readouterr().err


@pytest.mark.usefixtures("store")
def test_a_backup_brings_all_back_elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.tar.gz"
    assert cli.main(["backup", "--policy", str(home / "p" / "mine.yaml"), str(file)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    assert cli.main(["backup", "--policy", str(home / "p" / "mine.yaml"), str(file)]) == 2  # it is there
    other = tmp_path / "other"
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(other))
    assert cli.main(["restore", "--dry-run", str(file)]) == 0
    assert not other.exists()
    assert cli.main(["restore", str(file)]) == 0
    policy = other / "hushlist" / "mine.yaml"
    assert policy.read_text() == POLICY
    assert known_authority(other / "hushlist", other / ".mitmproxy").read_text() == "certificate"
    assert (lists_folder(policy, other / "hushlist") / "1" / "a.list").read_text() == "fetched"
    assert grants(other / "hushlist" / "overrides.sqlite") == [("a.example",)]
    policy.write_text("changed")
    capsys.readouterr()
    assert cli.main(["restore", str(file)]) == 2
    assert "--force" in capsys.readouterr().err
    assert policy.read_text() == "changed"
    assert cli.main(["restore", "--force", str(file)]) == 0
    assert (policy.read_text(), policy.with_name("mine.yaml.before").read_text()) == (POLICY, "changed")


def archive(things: list[list[Any]], members: list[tuple[str, bytes]], *, version: int = 1) -> bytes:
    table = {"format": version, "version": "9", "policy": "p.yaml", "things": things}
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode="w:gz") as written:
        for name, content in [("hushlist-backup.json", json.dumps(table).encode()), *members]:
            member = tarfile.TarInfo(name)
            if content == b"link":
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
                content = b""
            member.size = len(content)
            written.addfile(member, io.BytesIO(content))
    return octets.getvalue()


A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
GOOD = ["policy", "p.yaml", 1, A]


@each_row(
    ("octets", "why"),
    [
        (b"", "no backup"),
        (b"\x1f\x8b but no more", "no backup"),
        (archive([], []), "it has no policy"),
        (archive([GOOD], [("policy/p.yaml", b"a")], version=2), "of version 9"),
        (archive([GOOD], []), "is not there"),
        (archive([GOOD], [("policy/p.yaml", b"b")]), "is damaged"),
        (archive([GOOD], [("policy/p.yaml", b"aa")]), "another length"),
        (archive([GOOD], [("policy/q.yaml", b"a")]), "is not there"),
        (archive([["policy", "p.yaml", 0, A]], [("policy/p.yaml", b"link")]), "is no file"),
        (archive([GOOD, GOOD], [("policy/p.yaml", b"a")]), "one twice"),
        (archive([GOOD, ["policy", "../x", 1, A]], [("policy/p.yaml", b"a")]), "belongs nowhere"),
        (archive([GOOD, ["policy", "/x", 1, A]], [("policy/p.yaml", b"a")]), "belongs nowhere"),
        (archive([GOOD, ["certificate", "config.yaml", 1, A]], [("policy/p.yaml", b"a")]), "belongs nowhere"),
        (archive([["state", "a.sqlite", 1, A], GOOD], [("state/a.sqlite", b"a")]), "no database"),
        (archive([GOOD, ["etc", "x", 1, A]], [("policy/p.yaml", b"a")]), "belongs nowhere"),
        (archive([["policy", "p.yaml", 1 << 60, A]], [("policy/p.yaml", b"a")]), "more space"),
        (archive([["policy", "p.yaml", "1", A]], [("policy/p.yaml", b"a")]), "no backup"),
        (archive([GOOD], [("policy/p.yaml", b"a")])[:-40], "no backup"),
    ],
)
def test_what_is_no_backup_or_reaches_out_is_refused(tmp_path: Path, octets: bytes, why: str) -> None:
    (tmp_path / "b").write_bytes(octets)
    (tmp_path / "to").mkdir(exist_ok=True)
    with pytest.raises(BackupError, match=why):
        read_backup(tmp_path / "b", tmp_path / "to")
    assert {path.name for path in tmp_path.iterdir()} == {"b", "to"}


def test_the_table_is_not_behind_what_makes_a_head_longer(tmp_path: Path) -> None:
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode="w:gz", format=tarfile.PAX_FORMAT) as written:
        written.addfile(tarfile.TarInfo("n" * 5000))
    (tmp_path / "b").write_bytes(octets.getvalue())
    with pytest.raises(BackupError, match="is no file"):
        read_backup(tmp_path / "b", tmp_path)


def test_what_cannot_be_used_or_leads_elsewhere_replaces_nothing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.tar.gz"
    (home / "hushlist" / "sub").mkdir()
    (home / "hushlist" / "sub" / "job").write_text("a")
    assert cli.main(["backup", "--policy", str(home / "p" / "mine.yaml"), str(file)]) == 0
    policy = home / "hushlist" / "mine.yaml"
    bad = tmp_path / "bad.tar.gz"
    digest = sha256(b"layers: bad").hexdigest()
    bad.write_bytes(archive([["policy", "p.yaml", 11, digest]], [("policy/p.yaml", b"layers: bad")]))
    assert cli.main(["restore", "--force", "--policy", str(policy), str(bad)]) == 2
    assert "layers: expected a list" in capsys.readouterr().err
    assert not policy.exists()
    (home / "hushlist" / "sub" / "job").unlink()
    (home / "hushlist" / "sub").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (home / "hushlist" / "sub").symlink_to(tmp_path / "elsewhere")
    assert cli.main(["restore", "--force", "--policy", str(policy), str(file)]) == 2
    assert "it is a link" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_other_systems_are_told_what_to_do() -> None:
    options = ["-s", "C:\\a b\\filter.py", "--listen-port", "8080"]
    text = "\n".join(windows_steps(Path("x", "mitmdump"), options))
    assert """-Argument '-s "C:\\a b\\filter.py" --listen-port 8080'""" in text
    lines = list(macos_steps(Path("/x/mitmdump"), options))
    plist = "\n".join(
        lines[lines.index(next(line for line in lines if line.startswith("cat"))) + 1 : lines.index("END")]
    )
    assert plistlib.loads(plist.encode())["ProgramArguments"] == ["/x/mitmdump", *options]


@pytest.mark.usefixtures("home")
def test_beside_the_shipped_policy_stands_what_administrators_wrote(tmp_path: Path) -> None:
    places = places_of(shipped_policy(), tmp_path / "none")
    names = {str(each.name) for each in belongings_of(policy_at(places.policy), places) if each.area == "policy"}
    assert {"policy.yaml", "overrides.yaml"} <= names


@each_row(
    ("words", "of_system", "code", "out", "err"),
    [
        (["--dry-run"], "Linux", 0, "systemctl daemon-reload\n", "--purge removes them"),
        (["--dry-run", "--purge"], "Linux", 0, "systemctl daemon-reload\n", ""),
        ([], "Linux", 2, "", "a service needs root: put sudo before it"),
        (["--dry-run"], "Darwin", 2, "", "remove the task or agent that you have made"),
    ],
)
def test_a_service_is_removed_by_root_alone_and_what_devices_trust_stays(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    of_system: str,
    code: int,
    out: str,
    err: str,
) -> None:
    absent = tmp_path / "absent"
    monkeypatch.setattr(service_command, "SERVICE", Places(absent / "policy.yaml", absent, absent, absent))
    monkeypatch.setattr(service_command, "system", lambda: of_system)
    monkeypatch.setattr(service_command, "is_root", lambda: False)
    capsys.readouterr()
    assert cli.main(["service", "remove", *words]) == code
    said = capsys.readouterr()
    assert said.out.endswith(out)
    assert err in said.err
    assert err or not said.err


class Commands:
    """In the place of ``subprocess``: keeps the words of each command, which ends well."""

    def __init__(self, says: str = "") -> None:
        self.ran, self.says = list[str](), says

    def __call__(self, words: Sequence[str], **_: object) -> SimpleNamespace:
        self.ran.append(" ".join(words))
        return SimpleNamespace(returncode=0, stdout=f"{self.says}\n", stderr="")


@pytest.mark.parametrize(("text", "owner"), [("layers: []\n", "root"), (f"{ADMIN}\nlayers: []\n", "hushlist")])
def test_the_service_s_files_are_its_user_s_alone_until_they_are_taken_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, owner: str
) -> None:
    places = {name: tmp_path / name for name in ("state", "cache")}
    service = replace(SERVICE, policy=tmp_path / "etc" / "policy.yaml", **places)
    monkeypatch.setattr(service_command, "SERVICE", service)
    monkeypatch.setattr("subprocess.run", commands := Commands("inactive"))
    policy, _ = read_whole(tmp_path, text)
    service_command.give_to_user(policy)
    etc = tmp_path / "etc"
    assert commands.ran == [
        *(f"chown --recursive hushlist:hushlist {path}" for path in places.values()),
        f"chown --recursive {owner}:hushlist {etc}",
        f"chmod --recursive u=rwX,g=rX,o= {etc}",
    ]
    assert [path.stat().st_mode & 0o777 for path in places.values()] == [0o700] * 2
    commands.ran.clear()
    service_command.take_from_user()
    assert commands.ran == [
        "systemctl is-active hushlist.service",
        *(f"chown --no-dereference --recursive root:root {path}" for path in places.values()),
    ]
    (places["state"] / "link").symlink_to(tmp_path)
    with pytest.raises(ServiceError, match="is a link: remove it"):
        service_command.take_from_user()
    commands.says = "active"
    with pytest.raises(ServiceError, match="the service runs"):
        service_command.take_from_user()
