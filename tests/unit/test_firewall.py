"""The firewall rules of the documentation are such that nftables takes them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from documentation import PAGES, blocks

NFT = shutil.which("nft", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))


@pytest.mark.skipif(NFT is None or os.geteuid() != 0, reason="nft is not here, or asks the kernel for more rights")
@pytest.mark.parametrize("rules", [block for page in PAGES for block in blocks(page, "nft")])
def test_nft_takes_the_rules(rules: str) -> None:
    assert NFT is not None
    checked = subprocess.run([NFT, "-c", "-f", "-"], input=rules, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_rules_close_what_the_text_says() -> None:
    (rules,) = blocks("SECURITY.md", "nft")
    for port in ("443", "53", "853"):
        assert port in rules
