"""The examples run as they stand, and say what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from mitmproxy.io import FlowWriter
from mitmproxy.test.tflow import tflow

from e2e.proxy import CHECKOUT, MITMDUMP

EXAMPLES = CHECKOUT / "examples"


def test_every_example_is_in_the_readme() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\S+)\)", text)) == {file.name for file in EXAMPLES.glob("*.py")}


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
