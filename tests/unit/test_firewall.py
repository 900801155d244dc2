"""The firewall of the examples is such that nftables takes it, and its unit such that systemd does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from documentation import PAGES, ROOT, blocks
from hushlist.core.system.platform import is_root

_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
NFT, ANALYZE = (shutil.which(tool, path=_PATH) for tool in ("nft", "systemd-analyze"))
ROUTER = ROOT / "examples" / "router"


@pytest.mark.skipif(NFT is None or not is_root(), reason="nft is not here, or asks the kernel for more rights")
def test_nft_takes_the_rules() -> None:
    assert NFT is not None
    rules = (ROUTER / "hushlist.nft").read_text(encoding="utf-8")
    rules = rules.replace('define proxy = "hushlist"', "define proxy = 0")  # a user that there is
    checked = subprocess.run([NFT, "-c", "-f", "-"], input=rules, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_rules_are_in_one_file_alone() -> None:
    assert [block for page in PAGES for block in blocks(page, "nft")] == []


@pytest.mark.slow
@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert ANALYZE is not None
    unit = shutil.copy(ROUTER / "hushlist-firewall.service", tmp_path)
    text = Path(unit).read_text(encoding="utf-8")
    commands = "\n".join(line for line in text.splitlines() if line.startswith("Exec"))
    for tool in ("nft", "sysctl"):  # where the tool is, need not be where Debian has it
        assert f"=/usr/sbin/{tool} " in commands
        text = text.replace(f"/usr/sbin/{tool}", "/bin/true")
    Path(unit).write_text(text, encoding="utf-8")
    checked = subprocess.run([ANALYZE, "verify", unit], text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
