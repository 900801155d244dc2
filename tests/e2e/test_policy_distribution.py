"""The example's script that brings a policy from git to a machine: it is checked, and then switched in one step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.haproxy import wait_until
from e2e.origin import Origin
from e2e.proxy import CHECKOUT, PATIENCE, mitmdump

FLEET = CHECKOUT / "examples" / "fleet"
needs_programs = pytest.mark.skipif(
    not all(map(shutil.which, ("git", "flock", "tar"))), reason="git, flock or tar is missing"
)
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@h.example", "-c", "init.defaultBranch=main")
POLICY = "layers: [{name: lists, lists: [lists/games.yaml]}]\n"

Update = Callable[[], tuple[int, str, str]]


def commit(repository: Path, **files: str) -> str:
    """Write files, and commit them; the name of the commit."""
    for name, text in files.items():
        path = repository / name.replace("__", "/").replace("_txt", ".txt").replace("_yaml", ".yaml").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for command in (("add", "-A"), ("commit", "--quiet", "-m", "x")):
        subprocess.run([*GIT, *command], cwd=repository, check=True)
    return subprocess.check_output([*GIT, "rev-parse", "HEAD"], cwd=repository, text=True).strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run([*GIT, "init", "--quiet"], cwd=folder, check=True)
    commit(folder, policy_yaml=POLICY, lists__games_yaml="rules: [games.test]\n")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder from which proxies have their policy."""
    return tmp_path / "policy"


@pytest.fixture
def update(tmp_path: Path, repository: Path, place: Path) -> Update:
    """Runs the script with this checkout's ``hushlist``."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "hushlist").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hushlist "$@"\n', encoding="utf-8")
    (programs / "hushlist").chmod(0o755)
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT / "addon"), "HOME": str(tmp_path)}
    own |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}

    def run() -> tuple[int, str, str]:
        command = [FLEET / "update-policy", repository, place]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **own}, timeout=PATIENCE, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


@needs_programs
def test_a_new_version_is_switched_to_once(update: Update, repository: Path, place: Path) -> None:
    code, out, err = update()
    assert (code, err) == (0, "")
    first = str((place / "current").readlink())
    assert out == f"{first.removeprefix('versions/')} is in force\n"
    assert update() == (0, "", "")
    newest = commit(repository, lists__games_yaml="rules: [games.test, other.test]\n")
    assert update() == (0, f"{newest} is in force\n", "")
    assert (place / "current" / "lists" / "games.yaml").read_text(encoding="utf-8").endswith("other.test]\n")
    assert (place / first).is_dir()


@needs_programs
@pytest.mark.thorough
def test_old_versions_go(update: Update, repository: Path, place: Path) -> None:
    made = [
        commit(repository, lists__games_yaml=f"rules: [games{number}.test]\n") for number in range(3) if not update()[0]
    ]
    assert update()[0] == 0
    assert {path.name for path in (place / "versions").iterdir()} == {*made}


@pytest.mark.thorough
@needs_programs
def test_what_is_wrong_is_told_each_time_and_not_switched_to(update: Update, repository: Path, place: Path) -> None:
    good = {"policy_yaml": POLICY, "lists__games_yaml": "rules: [games.test]\n"}
    good |= {"must_pass_txt": "http://fine.test/\n", "must_block_txt": "http://games.test/a\n"}
    before = commit(repository, **good)
    assert update() == (0, f"{before} is in force\n", "")
    for files, said in (
        ({"policy_yaml": POLICY + "log: maybe\n"}, "policy.yaml:2: log: 'maybe': expected on, off"),
        ({"lists__games_yaml": "rules: ['mailto:x']\n"}, "games.yaml:1"),
        ({"must_pass_txt": "http://fine.test/\nhttp://games.test/a\n"}, "block  http://games.test/a"),
        ({"must_block_txt": "http://games.test/\nhttp://fine.test/a\n"}, "pass   http://fine.test/a"),
    ):
        broken = commit(repository, **good | files)
        code, out, err = update()
        assert (code, out, said in err, f"{broken} is not used" in err) == (1, "", True, True), (files, err)
        assert (place / "current").readlink() == Path("versions", before)
    assert update() == (1, "", err)
    mended = commit(repository, **good)
    assert update() == (0, f"{mended} is in force\n", "")


@needs_programs
def test_a_proxy_takes_over_what_is_switched_to(
    update: Update, repository: Path, place: Path, tmp_path: Path, origin: Origin
) -> None:
    assert update()[0] == 0
    home = tmp_path / "home"
    home.mkdir()
    with mitmdump(home, origin, policy=place / "current" / "policy.yaml") as proxy:
        assert proxy.get("http://other.test/").status_code == 200
        commit(repository, lists__games_yaml="rules: [games.test, other.test]\n")
        assert update()[0] == 0
        wait_until(lambda: proxy.get("http://other.test/").status_code == 403)
        assert proxy.get("http://games.test/").status_code == 403


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name in ("hushlist-policy.service", "hushlist-policy.timer"):
        text = (FLEET / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/usr/local/bin/update-policy", str(FLEET / "update-policy")))
    command = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("hushlist-*")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, "hushlist" in done.stderr) == (0, False), done.stderr
