"""The files of services: systemd takes the units, they are hardened, and the container's files agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from mitmproxy.addons.dumper import Dumper
from mitmproxy.test import taddons

from documentation import ROOT, SERVICE, blocks
from hushlist import __version__
from hushlist.cli import _all_commands
from hushlist.core.system.package_code import PACKAGE
from hushlist.proxy.addon import Hushlist
from unit.rows import each_row

FOLDER = ROOT / "examples" / "service"
BOOT = PACKAGE / "extensions" / "boot"
SERVICES = sorted(BOOT.glob("*.service"))
FLEET_SERVICE = ROOT / "examples" / "fleet" / "hushlist-policy.service"
UNITS = (*SERVICES, *BOOT.glob("*.timer"))
CONTAINERFILE = (FOLDER / "Containerfile").read_text(encoding="utf-8")
#: the least exposed is 0.0; 3.0 is what systemd itself calls OK, and half of what it calls medium
MOST_EXPOSED = 3.0
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze on PATH")


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What systemd-analyze says."""
    assert ANALYZE is not None
    command = [ANALYZE, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", check=False, env={**os.environ, "LC_ALL": "C"}
    )


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system in which the units and their programs are, as the guide puts them there."""
    folder, programs = tmp_path / "etc" / "systemd" / "system", tmp_path / "opt" / "hushlist" / ".venv" / "bin"
    folder.mkdir(parents=True)
    programs.mkdir(parents=True)
    for unit in UNITS:
        shutil.copy(unit, folder)
    (tmp_path / "bin").mkdir()
    for program in (programs / "hushlist", tmp_path / "bin" / "kill"):
        program.write_text("#!/bin/sh\n", encoding="ascii")
        program.chmod(0o755)
    return tmp_path


@needs_systemd
@pytest.mark.parametrize("name", [unit.name for unit in UNITS])
def test_systemd_takes_the_units(system: Path, name: str) -> None:
    done = analyze("verify", f"--root={system}", "--man=no", "--recursive-errors=no", name)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_the_check_sees_what_is_wrong(system: Path) -> None:
    (system / "opt" / "hushlist" / ".venv" / "bin" / "hushlist").unlink()
    done = analyze("verify", f"--root={system}", "--man=no", "--recursive-errors=no", "hushlist-update.service")
    assert done.returncode != 0


@needs_systemd
@pytest.mark.parametrize("name", ["hushlist.service", "hushlist-update.service"])
def test_they_are_hardened(system: Path, name: str) -> None:
    unit = system / "etc" / "systemd" / "system" / name
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={int(MOST_EXPOSED * 10)}", unit)
    assert done.returncode == 0, done.stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None
    assert float(found[1]) <= MOST_EXPOSED


GUIDE = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_guide_has_every_file_and_its_commands_are_such_that_a_shell_takes_them() -> None:
    linked = set(re.findall(r"\]\(([\w@.-]+)\)", GUIDE))
    assert {path.name for path in FOLDER.iterdir()} - {"README.md"} == linked
    commands = [block for language in ("shell", "bash") for block in blocks(SERVICE, language)]
    assert len(commands) >= 6
    for block in commands:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
    asked = set(re.findall(r"hushlist ([a-z]+) ", "\n".join(commands))) - {"env"}
    assert asked <= {name for row in _all_commands() for name in row.names}


def hardening(unit: Path) -> str:
    """What a unit says of what it may do."""
    return unit.read_text(encoding="utf-8").partition("\n# what it may do")[2].partition("\n\n")[0].strip()


def test_all_services_may_do_the_same() -> None:
    assert len(SERVICES) == 2
    (only,) = {hardening(unit) for unit in SERVICES}
    for line in ("User=hushlist", "NoNewPrivileges=yes", "ProtectSystem=strict", "SystemCallFilter=@system-service"):
        assert f"\n{line}\n" in only


@each_row("unit", [*SERVICES, FLEET_SERVICE])
def test_no_service_opens_the_folders_that_all_share(unit: Path) -> None:
    """Each start gives them the mode that its unit says, or lets everybody read them."""
    lines = unit.read_text(encoding="utf-8").splitlines()
    for kind in ("State", "Cache"):
        assert {f"{kind}Directory=hushlist", f"{kind}DirectoryMode=0700"} <= {*lines}


def test_what_is_said_is_in_the_journal_at_once_and_a_start_that_fails_is_tried_again() -> None:
    text = (BOOT / "hushlist.service").read_text(encoding="utf-8")
    assert re.search("^Environment=.*PYTHONUNBUFFERED=1", text, re.MULTILINE)
    assert "\nStartLimitIntervalSec=0\n" in text
    assert "\nRestart=always\n" in text


def test_a_stop_leaves_open_requests_their_time() -> None:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(BOOT / "hushlist.service", encoding="utf-8")
    assert int(unit["Service"]["TimeoutStopSec"]) > 10
    assert unit["Service"]["KillMode"] == "mixed"  # the signal is for the command alone


def test_the_container_is_pinned_without_root_and_has_a_health_check() -> None:
    images = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert len(set(images)) == 1
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", images[0])
    assert re.findall(r"^USER (\d+)$", CONTAINERFILE, re.MULTILINE) == ["10001"]
    assert "HEALTHCHECK" in CONTAINERFILE
    (user,) = re.findall(r"useradd .*--uid (\d+)", CONTAINERFILE)
    assert user == "10001"
    copied = {*" ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)).split()}
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"], "addon", "rules", "addon/filter.py"}
    assert copied == needed


#: what a line of a container file may begin with
INSTRUCTIONS = "FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"


def test_each_line_of_the_container_file_is_an_instruction_and_its_commands_exist() -> None:
    lines = re.sub(r"\\\n\s*", " ", CONTAINERFILE).splitlines()
    assert {line.split()[0] for line in lines if line and not line.startswith("#")} == {*INSTRUCTIONS.split()}
    started = [*container_command("ENTRYPOINT"), *container_command("CMD")]
    assert started[:3] == ["/opt/hushlist/bin/mitmdump", "-s", "/opt/hushlist/filter.py"]
    assert "COPY addon/filter.py /opt/hushlist/filter.py\n" in CONTAINERFILE
    with taddons.context(Hushlist(), Dumper()) as context:
        for name, value in zip(started[3::2], started[4::2], strict=True):
            if name == "--set":
                assert value.partition("=")[0] in context.options, value
    shown = next(block for block in blocks(SERVICE, "shell") if "doctor" in block and "exec" in block)
    for place in ("--policy /etc/hushlist/policy.yaml", "--confdir /var/lib/hushlist/mitmproxy"):
        assert place in shown
        assert any(value.endswith(f"={place.split()[1]}") for value in started)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout, whose last commit is built")
@pytest.mark.parametrize("there", [(), ("docker",), ("docker", "podman"), ("buildah", "docker")])
def test_the_release_makes_the_container_by_what_works(tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in ("podman", "buildah", "docker"):
        works = 'shift; echo "$@"' if name in there else "exit 1"
        script = f'#!/bin/sh\n[ "$1" = info ] && {"exit 0" if name in there else "exit 1"}\n{works}\n'
        (tmp_path / name).write_text(script, encoding="ascii")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "container"], capture_output=True, text=True, check=True, env=environment)
    if not there:
        assert done.stdout == "the container is left out: neither podman, buildah nor docker works here\n"
        return
    used = next(name for name in ("podman", "buildah", "docker") if name in there)
    built, said = done.stdout.splitlines()
    assert built.startswith(f"--tag hushlist:{__version__} --file ")
    assert ("--format docker --timestamp" in built) is (used != "docker")
    assert said == f"the container: hushlist:{__version__}, made by {used}"


def test_the_guide_builds_the_container_as_its_file_says() -> None:
    (shown,) = re.findall("^podman build .*$", "\n".join(blocks(SERVICE, "shell")), re.MULTILINE)
    assert shown == "podman build --format docker --tag hushlist --file examples/service/Containerfile ."
    assert CONTAINERFILE.splitlines()[0] == f"# Build it in the checkout: {shown}"


def container_command(instruction: str) -> list[str]:
    """A command of the container file, which has to be JSON as the runtimes want it."""
    found = re.search(rf"^{instruction} (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    assert found is not None
    command: list[str] = json.loads(found[1])
    return command


def test_the_composition_agrees_with_the_container() -> None:
    composed: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    service = composed["services"]["hushlist"]
    assert (FOLDER / service["build"]["context"]).resolve() == ROOT
    assert ROOT / service["build"]["dockerfile"] == FOLDER / "Containerfile"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == "10001"
    assert int(service["stop_grace_period"].removesuffix("s")) > 10
    port = container_command("ENTRYPOINT")[-1]
    assert service["ports"] == [f"{port}:{port}"]
    assert f"EXPOSE {port}\n" in CONTAINERFILE
    places = {volume.split(":")[1] for volume in service["volumes"]}
    assert places == {"/etc/hushlist", "/var/lib/hushlist", "/var/cache/hushlist"}
    named = {volume.split(":")[0] for volume in service["volumes"]} - {"./policy"}
    assert named == set(composed["volumes"])
