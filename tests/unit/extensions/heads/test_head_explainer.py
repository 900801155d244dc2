"""``hushlist check`` and ``explain`` with facts of an answer: what rules for heads do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.cli import main

POLICY = """\
layers: [{name: others, lists: [{file: f.txt, format: adblock}]}]
heads:
- {sites: news.example, types: text/html, remove: [Set-Cookie], add: {X: y}}
- {for: request, sites: other.example, set: {User-Agent: a}}
- {types: application/x-shockwave-flash, status: 2xx, block: true, reason: No Flash}
- {has: Refresh, block: true}
"""
FILTERS = """\
||news.example^$csp=a
||news.example^$document,cookie=b
@@||news.example^$csp
||news.example^$document,header=x-ad:1
"""
EXPLAINED = """\
Heads
  f.txt:1: ||news.example^$csp=a  is lifted by f.txt:3
  f.txt:2: request, remove the cookies of ||news.example^$document,cookie=b  fits
  f.txt:2: answer, remove the cookies of ||news.example^$document,cookie=b  fits
  f.txt:4: answer, block  depends on whether the answer has x-ad (--fields)
  p.yaml:3: answer, remove set-cookie; add X: y  {}
  p.yaml:4: request, set User-Agent: a  does not fit: the address is of another site or category
  p.yaml:5: answer, block  {}
  p.yaml:6: answer, block  depends on whether the answer has refresh (--fields)
"""


def test_rules_for_heads_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    Path("p.yaml").write_text(POLICY)
    Path("f.txt").write_text(FILTERS)

    def said(command: str, *options: str) -> str:
        main([command, "--policy", "p.yaml", "--type", "document", *options, "news.example/a"])
        return capsys.readouterr().out

    html, flash = ("--media-type", "Text/HTML"), ("--media-type", "application/x-shockwave-flash")
    assert EXPLAINED.format("fits", "does not fit: text/html") in said("explain", *html)
    unfit = "does not fit: application/x-shockwave-flash"
    assert EXPLAINED.format(unfit, "depends on the answer's status (--status)") in said("explain", *flash)
    assert EXPLAINED.format("does not fit: 200 application/x-shockwave-flash", "<- decides") in said(
        "explain", *flash, "--status", "200"
    )
    by_rule = "block  news.example/a  200 application/x-shockwave-flash by policy (p.yaml:5): No Flash "
    assert (
        said("check", *flash, "--status", "200")
        == f"{by_rule}(f.txt:4 depends on whether the answer has x-ad (--fields))\n"
    )
    unsure = "depends on the answer's media type (--media-type)"
    assert EXPLAINED.format(unsure, unsure) in said("explain", *html, "--for", "upload", "--status", "200")
    assert "p.yaml:6 depends on whether the answer has refresh (--fields))" in said("check", *html)
    assert "p.yaml:6: answer, block  does not fit: the answer has no refresh" in said("explain", "--fields", "date")
    assert "f.txt:4: answer, block  depends on the value of x-ad" in said("explain", "--fields", "X-Ad")
    assert said("check", "--fields", "Date,REFRESH").startswith("block")
