"""Every block of commands of the guides runs as it stands, in its order, in a folder like a checkout.

What somebody brings who follows a guide is in ``BROUGHT``; what cannot run in a test is in ``NOT_HERE`` with what tries
it instead; pages that other tests follow are in ``ELSEWHERE``.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from socket import create_connection
from typing import NamedTuple

import pytest

from documentation import ROOT
from e2e.browser import BROWSER, DRIVER
from e2e.origin import free_ports, write_certificate
from support.waiting import wait_until
from unit.tools.importing import test_pihole

pytestmark = [pytest.mark.slow, pytest.mark.posix, pytest.mark.xdist_group("guides")]

#: pages whose commands have tests of their own, and take longest
LONG = {"examples/README.md", "examples/breakage.md", "examples/moving.md", "examples/tablet.md", "rules/commands.md"}
GUIDES = (
    *("README.md", "examples/README.md", "examples/breakage.md", "examples/moving.md", "examples/tablet.md"),
    *("rules/admin.md", "rules/commands.md", "rules/lists.md", "rules/safe-browsing.md"),
)
#: pages whose commands change a whole machine, and what tries them
ELSEWHERE = {
    "examples/fleet/README.md": "tests/e2e/test_fleet.py",
    "examples/router/README.md": "tests/e2e/test_router.py",
    "examples/service/README.md": "tests/unit/test_service_files.py",
}
#: what begins a line that cannot run here -> why, or what runs it
NOT_HERE = {
    "python3 -m venv": ".ci/run makes the environment on a fresh clone",
    ". .venv/bin/activate": "the test's environment is active",
    "pip install -e": "the packages of all extras are there, or not",
    "python examples/audit_partitions.py": "tests/e2e/test_examples.py, where Dask is there",
    "hushlist visit https://shop.example/": "tests/e2e/test_visit.py: there is no such page",
    "curl --proxy ": "tests/e2e/test_administration.py",
    "hushlist log ": "tests/unit/cli/test_log_command.py: there is no log of a day's browsing",
    "hushlist update ": "tests/e2e/test_subscriptions.py: lists are fetched from the net",
    "hushlist lists ": "tests/e2e/test_subscriptions.py",
}
#: commands that run until somebody ends them
RUN_ON = ("mitmdump -s", "hushlist proxy", "hushlist serve-lists")
_HOSTS = "0.0.0.0 ads.example\n"
_POLICY = "log: on\nlayers: [{name: lists, lists: [ads.hosts, games.txt]}]\n"
_ADGUARD = "dns: {bind_hosts: [0.0.0.0]}\nuser_rules: ['||ads.example^']\nschema_version: 29\n"
_HAR = (ROOT / "examples/audit/browsing.har").read_bytes()
#: files that a reader has: of other programs, of a browser, and lists
BROUGHT: Mapping[str, Mapping[str, str | bytes]] = {
    "examples/README.md": {
        "school.htpasswd": "berg:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
        "machine/etc/hushlist/policy.yaml": "layers: [{name: l, lists: [lists/ads.hosts]}]\n",
        "machine/etc/hushlist/lists/ads.hosts": _HOSTS,
        "machine/var/log/squid/access.log": "1300000000.1 5 10.0.0.7 TCP_MISS/200 9 GET http://a.example/ - - -\n",
    },
    "examples/moving.md": {
        "machine/opt/AdGuardHome/AdGuardHome.yaml": _ADGUARD,
        "machine/etc/squidguard/squidGuard.conf": "dbhome /var/lib/squidguard\nacl { default { pass all } }\n",
        "machine/etc/e2guardian/e2guardian.conf": "filtergroups = 1\n",
        "machine/etc/e2guardian/e2guardianf1.conf": "groupname = 'all'\n",
        "machine/etc/squid/squid.conf": "acl bad dstdomain .ads.example\nhttp_access deny bad\nhttp_access allow all\n",
    },
    "rules/admin.md": {},
    "rules/commands.md": {
        "AdGuardHome.yaml": _ADGUARD,
        "easylist.txt.gz": gzip.compress(b"[Adblock Plus 2.0]\n||ads.example^$third-party\n"),
        "ads.hosts": _HOSTS,
        "new.hosts": _HOSTS + "0.0.0.0 more.example\n",
        "games.txt": "games.example\n",
        "staff.txt": "staff.example\n",
        "adult.hosts": "0.0.0.0 adult.example\n",
        "list.yaml": "rules: [games.example]\n",
        "policy.yaml": _POLICY,
        "browsing.har": _HAR,
        "exam.har": _HAR,
        "keys.txt": "a-key-of-one-client-0123456789\n",
        "recorded.flow": b"",
        "machine/etc/hushlist/policy.yaml": "layers: []\n",
    },
    "rules/safe-browsing.md": {"policy.yaml": _POLICY, "ads.hosts": _HOSTS, "games.txt": "games.example\n"},
}

_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"`([\w./-]+\.yaml)`")
#: the first line of a block that is a file
_HEAD = re.compile(r"\A# ([\w./-]+\.yaml):")
#: the machine's own folders, which stand in the test's
_ROOTED = re.compile(r"(?<![\w./])/(?=(?:etc|opt|var|tmp)/)")


class Step(NamedTuple):
    """A file to write, or commands to run."""

    file: str
    text: str


def steps(page: str) -> Iterator[Step]:
    """What a page says to do, in its order; the sentence before a file, or its first line, names it."""
    whole = (ROOT / page).read_text(encoding="utf-8")
    for match in _BLOCK.finditer(whole):
        before = whole[: match.start()].rstrip("\n").rpartition("\n\n")[2]
        if match[1] in ("sh", "shell"):
            yield Step("", match[2])
        elif match[1] == "yaml" and (named := _NAMED.findall(before)):
            yield Step(named[-1], match[2])
        elif match[1] == "text" and (named := _HEAD.findall(match[2])):
            yield Step(named[0], match[2])


def commands(block: str) -> Iterator[str]:
    """The commands of a block; one that a shell has to read as a whole is one."""
    if re.search(r"^(if|for|cd) ", block, re.MULTILINE):
        yield block
        return
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what a checkout has, and programs that do nothing to the machine."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("addon", "tests"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("rules", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {
        "curl": f'while [ $# -gt 0 ]; do [ "$1" = --output ] && echo "{_HOSTS.strip()}" > "$2"; shift; done',
        "sudo": 'shift 2; exec "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return folder


def surroundings(folder: Path) -> dict[str, str]:
    path = f"{folder.parent / 'programs'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {name: str(folder.parent / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    return {**os.environ, **home, "PATH": path, "PYTHONPATH": str(ROOT / "addon")}


def here(command: str, folder: Path) -> tuple[str, list[int]]:
    """The command with the machine's folders, addresses and ports those of the test; and these ports."""
    ports: list[int] = []

    def port(match: re.Match[str]) -> str:
        ports.extend(free_ports(1))
        return f"{match[1]}{'127.0.0.1:' if match[2] else ''}{ports[-1]}"

    command = _ROOTED.sub(f"{folder}/machine/", command)
    if command.startswith("mitmdump -s") and "regular@" not in command:
        command += " --listen-host 127.0.0.1 --listen-port 8080"
    return re.sub(r"(--listen |--mode regular@|--listen-port )([\d.]+:)?\d+", port, command), ports


def run_on(command: str, ports: list[int], folder: Path) -> None:
    """Start what runs on, until it accepts connections; it is ended as by Control-C."""
    with (
        (folder / "said").open("w+") as said,
        subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=folder,
            env=surroundings(folder),
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            assert ports, command
            wait_until(lambda: process.poll() is not None or all(map(is_open, ports)), 60)
            assert process.poll() is None, f"{command}\n{(folder / 'said').read_text()}"
            if policy := re.search(r"^mitmdump .*hushlist_policy=(\S+)", command):
                name = policy[1]
                wait_until(lambda: f"by {name}" in (folder / "said").read_text(), 60)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            finally:
                process.kill()


def is_open(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def run(command: str, folder: Path) -> None:
    """Findings are no fault: what cannot be done ends with 2 or more, or a traceback."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=surroundings(folder),
        capture_output=True,
        text=True,
        input="a password\n",
        timeout=120,
    )
    assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.thorough] if page in LONG else []) for page in GUIDES]
)
def test_the_blocks_of_a_guide_run_in_their_order(page: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in BROUGHT.get(page, {}).items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(0o600)
    if page == "examples/moving.md":
        off = (1, 0, "https://off.example/hosts", 0, None)  # others would have to be fetched from the net
        monkeypatch.setitem(test_pihole.ROWS, "adlist", [off])
        monkeypatch.setitem(test_pihole.ROWS, "adlist_by_group", [(1, 0)])
        test_pihole.of_version_6(checkout)
    for file, name in zip(write_certificate(checkout), ("chain.pem", "key.pem"), strict=True):
        file.rename(checkout / name).chmod(0o600)
    tried = 0
    for file, text in steps(page):
        if file:
            (checkout / file).parent.mkdir(parents=True, exist_ok=True)
            (checkout / file).write_text(text)
            continue
        for command in commands(text):
            if any(command.startswith(beginning) for beginning in NOT_HERE):
                continue
            if command.startswith("hushlist visit ") and not (BROWSER and DRIVER):
                continue
            changed, ports = here(command, checkout)
            if command.startswith(RUN_ON):
                run_on(changed, ports, checkout)
            else:
                run(changed, checkout)
            tried += 1
    assert tried or page == "rules/lists.md"


def test_every_page_with_commands_is_followed() -> None:
    globs = ("*.md", "examples/**/*.md", "rules/*.md")
    pages = [str(page.relative_to(ROOT)) for glob in globs for page in ROOT.glob(glob)]
    with_commands = {page for page in pages if any(not step.file for step in steps(page))}
    assert with_commands == {*GUIDES, *ELSEWHERE}
    for page in with_commands:
        fences = re.findall(r"^ *```(?:sh|shell)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == sum(not step.file for step in steps(page)), page
    for test in ELSEWHERE.values():
        assert (ROOT / test).is_file()


def test_what_cannot_run_is_still_there() -> None:
    every = [command for page in GUIDES for file, text in steps(page) if not file for command in commands(text)]
    assert [one for one in NOT_HERE if not any(command.startswith(one) for command in every)] == []
