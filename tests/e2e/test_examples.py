"""The examples run as they stand, and say what they promise."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mitmproxy.io import FlowWriter
from mitmproxy.test.tflow import tflow

from documentation import without_times
from e2e.proxy import CHECKOUT, MITMDUMP
from hushlist import cli
from hushlist.core.compile.stat_cache import load_engine

EXAMPLES = CHECKOUT / "examples"


README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
POLICIES = sorted(EXAMPLES.glob("*/policy.yaml"))
LOGS = sorted((EXAMPLES / "audit" / "logs").glob("*.log"))


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return found


def test_every_example_is_in_the_readme() -> None:
    linked = {(EXAMPLES / link).resolve() for link in re.findall(r"\]\((\S+)\)", README)}
    assert linked >= {*EXAMPLES.glob("*.py"), *POLICIES, *EXAMPLES.glob("*/README.md")}


def test_every_file_is_part_of_an_example() -> None:
    used = {file for policy in POLICIES for file in load_engine(policy).policy.files}  # as test_policies tries them
    files = {file for file in EXAMPLES.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert files - used == {
        *(
            EXAMPLES / name
            for name in (
                *("README.md", "moving.md", "tablet.md", "why.md", "breakage.md"),
                *("count_lists.py", "audit_partitions.py", "visit_partitions.py"),
            )
        ),
        *(EXAMPLES / "router" / name for name in ("README.md", "hushlist.nft", "hushlist-firewall.service")),
        *(EXAMPLES / "audit" / name for name in ("browsing.har", "popular.txt", "update/advertising.hosts")),
        *LOGS,
        *(EXAMPLES / "extension").rglob("*.*"),  # test_extension_example.py installs it
        *(EXAMPLES / "ci").iterdir(),  # tests/unit/test_ci_examples.py tries their commands
        *(EXAMPLES / "fleet").iterdir(),  # tests/e2e/test_fleet.py and test_monitoring.py try each of them
        *(EXAMPLES / "upstream").iterdir(),  # tests/unit/test_upstream_patches.py applies them
        *(EXAMPLES / "service").iterdir(),  # tests/unit/test_service_files.py has what holds for them
        *(EXAMPLES / "pictures").glob("*.png"),  # of the first README, which links them
    }


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pair
        for block in blocks("console")
        for pair in re.findall(r"^\$ hushlist (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ],
)
def test_a_command_of_the_readme_prints_what_it_says(
    command: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CHECKOUT)
    cli.main(shlex.split(command))
    out, err = capsys.readouterr()
    assert (without_times(out), err) == (without_times(expected), "")


def test_the_first_lines_of_a_policy_start_it_as_the_readme_does() -> None:
    for policy in POLICIES:
        comment = policy.read_text(encoding="utf-8").replace("\n# ", "\n").split("\n\n")[0]
        command = "mitmdump" + comment.partition("    mitmdump")[2].partition("\n#\n")[0]
        assert shlex.split(command) in [shlex.split(block) for block in blocks("sh")]


def test_lists_are_counted(tmp_path: Path) -> None:
    with (tmp_path / "recorded.flow").open("wb") as file:
        for host in ("secret.example", "blocked.example", "www.blocked.example", "other.example"):
            flow = tflow(resp=True)
            flow.request.url = f"http://{host}/"
            FlowWriter(file).add(flow)
    command = [MITMDUMP, "-n", "-r", tmp_path / "recorded.flow", "-s", EXAMPLES / "count_lists.py"]
    path = os.pathsep.join(str(folder) for folder in (CHECKOUT / "addon", *sys.path) if folder)
    done = subprocess.run(
        command,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert re.findall(r"^.*?(\d+)  (Example .*)$", done.stdout, re.MULTILINE) == [
        ("2", "Example rules in the clear"),
        ("1", "Example hashes"),
    ]


@pytest.mark.thorough
def test_logs_in_partitions_make_the_report_of_one_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason="it needs the extra 'partitions'")
    policy, out = EXAMPLES / "audit" / "policy.yaml", tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "audit_partitions.py", "--policy", policy, "--json", out, *LOGS],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "addon")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    cli.main(["audit", "--policy", str(policy), "--json", *map(str, LOGS)])
    whole, merged = json.loads(capsys.readouterr().out), json.loads(out.read_text("utf-8"))
    assert done.stdout.startswith(f"{whole['records']} requests")
    for report in (whole, merged):
        report["options"].pop("at")
        for name in ("slowest", "records_shown", "seconds", "records_a_second"):
            assert report.pop(name)
    assert merged == whole
