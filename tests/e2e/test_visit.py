"""``hushlist visit`` with real filters and browsers: pages of which it is known what a list breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from documentation import ROOT
from e2e.browser import BROWSER, DRIVER, FIREFOX
from hushlist.cli import main
from support.labelled_pages.generator import LabelledPage, Part, labelled_pages, write

pytestmark = [
    pytest.mark.skipif(not BROWSER or not DRIVER, reason="there is no Chromium with chromedriver on PATH"),
    pytest.mark.xdist_group("chromium"),
]
#: pages of the walk that CI makes: of those that the limits were not set with
WALK = 40


def walk(folder: Path, pages: list[LabelledPage], capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict]:
    recording, rules, _ = write(folder, pages)
    (folder / "sites.txt").write_text("".join(f"{page.address}\n" for page in pages))
    (folder / "actions.yaml").write_text("- consent\n")
    options = ["--list", str(rules), "--recording", str(recording), "--actions", str(folder / "actions.yaml")]
    code = main(["visit", str(folder / "sites.txt"), *options, "--folder", str(folder / "visit"), "--json", *more])
    told = json.loads(capsys.readouterr().out)
    assert code == (1 if told["pages"]["broken"] else 0)
    return {one["address"]: one for one in told["results"]}


@pytest.mark.slow
@pytest.mark.thorough
def test_the_rule_that_breaks_a_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"text_by_script", "consent_stays", ""}
    pages = {page.breakage: page for page in labelled_pages(Part.TUNED) if page.breakage in wanted}
    results = walk(tmp_path, [*pages.values()], capsys, "--html", str(tmp_path / "r.html"))
    for breakage, page in pages.items():
        expected = [f"@@{page.rules[-1]}"] if breakage else []
        assert results[page.address]["exceptions"] == expected
    assert "data:image/jpeg" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_walk_of_forty_pages_finds_what_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = list(labelled_pages(Part.TEST))[:WALK]
    results = walk(tmp_path, pages, capsys, "--no-culprits")
    seen = Counter((page.is_broken, results[page.address]["verdict"] == "broken") for page in pages)
    hits = seen[True, True]
    assert hits / (hits + seen[False, True]) >= 0.9, "precision"
    assert hits / (hits + seen[True, False]) >= 0.9, "recall"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_cluster_visits_pages_as_one_machine_does(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="it needs the extra 'partitions'")
    pages = list(labelled_pages(Part.TUNED))[:2]
    recording, rules, _ = write(tmp_path, pages)
    example, report = ROOT / "examples" / "visit_partitions.py", tmp_path / "r.html"
    options = ["--list", rules, "--recording", recording, "--folder", tmp_path / "visit", "--html", report]
    done = subprocess.run(
        [sys.executable, example, *options, *(page.address for page in pages)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "addon")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == any(page.is_broken for page in pages), done.stderr
    for page in pages:
        assert (f"broken   {page.address}" in done.stdout) is page.is_broken
    assert f"exception: @@{pages[1].rules[-1]}" in done.stdout
    assert "data:image/jpeg" in report.read_text()


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(not FIREFOX, reason="there is no Firefox on PATH")
def test_firefox_sees_what_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"text_by_script", ""}
    pages = {page.breakage: page for page in labelled_pages(Part.TUNED) if page.breakage in wanted}
    results = walk(tmp_path, [*pages.values()], capsys, "--browser", "firefox", "--no-culprits")
    for breakage, page in pages.items():
        assert (results[page.address]["verdict"] == "broken") is bool(breakage)
