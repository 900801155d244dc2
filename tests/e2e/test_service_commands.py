"""The commands of the services run, with other folders and free ports."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.origin import PATIENCE
from e2e.policies import simple_policy
from e2e.proxy import CHECKOUT, MITMDUMP, running
from unit.test_service_files import BOOT, container_command


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return simple_policy(tmp_path / "etc", "ads.test/")


def here(words: list[str], folder: Path) -> list[str]:
    """A command's words with the folders and programs of this machine."""
    there = {
        "/opt/hushlist/.venv/bin": MITMDUMP.parent,
        "/opt/hushlist/bin": MITMDUMP.parent,
        "/opt/hushlist/addon": CHECKOUT / "addon",
        "/opt/hushlist/filter.py": CHECKOUT / "addon" / "filter.py",
        "/etc/hushlist": folder / "etc",
        "/var/lib/hushlist": folder / "state",
    }
    for place, own in there.items():
        words = [word.replace(place, str(own)) for word in words]
    words = [re.sub(r"^(hushlist_health=127\.0\.0\.1):[0-9]+$", r"\1:0", word) for word in words]
    return [re.sub(r"^8080$", "0", word) for word in words if word != "$MITMDUMP_OPTIONS"]


def exec_start(unit: str) -> list[str]:
    """The command of a unit."""
    text = (BOOT / unit).read_text(encoding="utf-8").replace("\\\n", "")
    found = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("kind", ["hushlist.service", pytest.param("container", marks=pytest.mark.thorough)])
def test_the_filter_starts_is_healthy_and_stops(tmp_path: Path, kind: str) -> None:
    is_container = kind == "container"
    words = container_command("ENTRYPOINT") + container_command("CMD") if is_container else exec_start(kind)
    command = [*here(words, tmp_path), "--listen-host", "127.0.0.1"]
    with running(command, tmp_path) as (process, log):
        health = log.wait_for(r"/healthz and /readyz at (127\.0\.0\.1:\d+)")[1]
        log.wait_for(r"by .*/etc/policy\.yaml")
        log.wait_for(r"listening at 127\.0\.0\.1:(\d+)")
        if is_container:
            check = [word.replace("127.0.0.1:8081", health) for word in container_command(" +CMD")]
            check[0] = sys.executable
            assert subprocess.run(check, check=False, timeout=PATIENCE).returncode == 0
        assert (tmp_path / "state" / "mitmproxy" / "mitmproxy-ca.pem").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    if is_container:
        failed = subprocess.run(check, check=False, timeout=PATIENCE, capture_output=True)
        assert failed.returncode != 0


@pytest.mark.usefixtures("policy")
def test_lists_are_updated(tmp_path: Path) -> None:
    done = subprocess.run(
        here(exec_start("hushlist-update.service"), tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
