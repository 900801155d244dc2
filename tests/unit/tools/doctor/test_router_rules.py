"""What the doctor finds in nftables: in real ones, of network namespaces that the tests make."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from documentation import ROOT
from hushlist.core.diagnosis import Condition, Diagnosis
from hushlist.tools.doctor import firewall
from hushlist.tools.doctor.firewall import examine_router, examine_rules

_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
NFT, UNSHARE = shutil.which("nft", path=_PATH), shutil.which("unshare", path=_PATH)


def _can_make_a_namespace() -> bool:
    command = [UNSHARE or "", "--net", NFT or "", "list", "ruleset"]
    return bool(NFT and UNSHARE) and subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_namespace = pytest.mark.skipif(
    not _can_make_a_namespace(), reason="nft or unshare is not here, or a network namespace needs more rights"
)


def ruleset(rules: str) -> list[dict[str, Any]]:
    """Rules as nftables show them that have taken them."""
    lines = rules.replace("} }", "}\n}") + "\n"
    script = f"{NFT} -f - && {NFT} -j list ruleset"
    done = subprocess.run(
        [UNSHARE or "", "--net", "sh", "-c", script], input=lines, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    objects: list[dict[str, Any]] = json.loads(done.stdout)["nftables"]
    return objects


def open_ways(found: Iterable[Diagnosis]) -> set[str]:
    """What goes past the proxy."""
    return {one.what.partition(" goes past")[0] for one in found if one.condition is Condition.WARNING}


ALL = {"the web", "QUIC", "DNS", "DNS over TLS", "DNS over QUIC"}
WAYS = "set ways { type inet_service; elements = { 443, 853 } }"
FORWARD = "table inet t {{ {more}\n chain c {{ type filter hook forward priority 0; policy {policy};\n {rules}\n }} }}"


def forward(rules: str, policy: str = "accept", more: str = "") -> str:
    return FORWARD.format(rules=rules, policy=policy, more=more)


@needs_namespace
def test_the_rules_of_the_example_close_every_way() -> None:
    rules = (ROOT / "examples/router/hushlist.nft").read_text().replace('proxy = "hushlist"', "proxy = 65534")
    found = list(examine_rules(ruleset(rules)))
    assert open_ways(found) == set()
    assert len(found) == len(ALL)


@needs_namespace
@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("", ALL),
        (forward(""), ALL),
        (forward("", policy="drop"), set()),
        (forward("drop"), set()),
        (forward("ct state established,related accept", policy="drop"), set()),
        (forward("ct state established,related accept; tcp dport 443 accept", policy="drop"), {"the web"}),
        (forward("accept", policy="drop"), ALL),
        (forward("udp dport 443 drop"), ALL - {"QUIC"}),
        (forward("jump d", more="chain d { udp dport 443 drop; }"), ALL - {"QUIC"}),
        (forward("goto d\n drop", more="chain d { udp dport 443 drop; }"), ALL - {"QUIC"}),  # it does not come back
        (forward("jump d\n drop", more="chain d { udp dport 443 accept; }"), {"QUIC"}),
        (forward('iifname != "lan0" accept; udp dport 443 drop'), ALL - {"QUIC"}),
        (forward("udp dport 443 counter reject"), ALL - {"QUIC"}),
        (forward("udp dport 443 accept; udp dport 443 drop"), ALL),
        (forward('iifname "lan0" udp dport { 80, 443 } drop'), ALL - {"QUIC"}),
        (forward("udp dport 400-500 drop"), ALL - {"QUIC"}),
        (forward("udp dport != 123 drop"), ALL - {"QUIC", "DNS over QUIC"}),
        (forward("tcp dport 53 drop"), ALL),  # and over UDP it goes on
        (forward("meta l4proto { tcp, udp } th dport { 53, 853 } drop"), {"the web", "QUIC"}),
        (forward("meta l4proto udp drop"), {"the web", "DNS", "DNS over TLS"}),
        (forward("ip daddr 1.1.1.1 udp dport 53 drop; ip daddr 8.8.8.8 drop"), ALL),
        (forward("udp dport @ways drop", more=WAYS), ALL - {"QUIC", "DNS over QUIC"}),
        (
            "table inet t { chain c { type nat hook prerouting priority -100;\n"
            "tcp dport { 80, 443 } redirect to :8080\n meta l4proto { tcp, udp } th dport 53 redirect to :53\n } }",
            {"QUIC", "DNS over TLS", "DNS over QUIC"},
        ),
        ("table inet t { chain c { type filter hook input priority 0; policy drop; } }", ALL),
        ("table inet t { chain c { udp dport 443 drop; } }", ALL),  # nobody calls it
    ],
)  # fmt: skip
def test_a_way_is_closed_if_a_rule_closes_it_before_another_opens_it(rules: str, left: set[str]) -> None:
    assert open_ways(examine_rules(ruleset(rules))) == left


class TestMachine:
    @pytest.fixture
    def forwards(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        own = tmp_path / "ip_forward"
        monkeypatch.setattr(firewall, "FORWARDING", (own, tmp_path / "none"))
        return own

    @pytest.mark.parametrize("value", ["0\n", None])
    def test_what_forwards_nothing_is_no_router(self, forwards: Path, value: str | None) -> None:
        if value is not None:
            forwards.write_text(value)
        (one,) = examine_router()
        assert (one.condition, one.what[-15:]) == (Condition.GOOD, "it is no router")

    def test_without_nft_nothing_is_claimed(self, forwards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        forwards.write_text("1\n")
        monkeypatch.setattr(firewall.shutil, "which", lambda *_, **__: None)
        (one,) = examine_router()
        assert one.condition is Condition.UNKNOWN

    @pytest.mark.parametrize("script", ["exit 1", "echo no JSON", "echo 7", "echo '{\"nftables\": 7}'"])
    def test_what_nft_does_not_show_is_not_claimed(
        self, forwards: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
    ) -> None:
        forwards.write_text("1\n")
        (tmp_path / "nft").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nft").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        (one,) = examine_router()
        assert one.condition is Condition.UNKNOWN
        assert "sudo" in one.advice

    def test_it_is_looked_at_where_somebody_asks_for_it(
        self, forwards: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "nft").write_text("#!/bin/sh\necho '{\"nftables\": []}'\n")
        (tmp_path / "nft").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        assert open_ways(examine_router(is_router=True)) == ALL
        assert not forwards.exists()
