"""``hushlist convert``: what it writes where, and how it ends."""

from pathlib import Path

import pytest

from unit.cli.running import Run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ads.hosts").write_text("0.0.0.0 ads.example\n")
    (tmp_path / "ads.adblock").write_text("||ads.example^\n/banner/*$script\n##.ad\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_name_of_the_file_tells_what_is_written(run: Run) -> None:
    assert run("convert", "ads.hosts", "ads.dnsmasq") == (0, "ads.dnsmasq: 1 rule as dnsmasq, 0 left out\n", "")
    assert Path("ads.dnsmasq").read_text() == "address=/ads.example/\n"


def test_what_is_left_out_is_named_and_ends_with_1(run: Run) -> None:
    code, out, err = run("convert", "ads.adblock", "-", "--format", "unbound")
    assert (code, out) == (1, 'server:\nlocal-zone: "ads.example" always_nxdomain\n')
    assert err.splitlines() == [
        "warning: ads.adblock:3: ##.ad: left out: cosmetic",
        "warning: ads.adblock:2: /banner/*$script: left out: unbound: it has no such patterns",
    ]


def test_a_list_is_not_written_over_and_a_format_has_to_be_named(run: Run) -> None:
    assert run("convert", "ads.hosts", "./ads.hosts")[0] == 2
    assert run("convert", "ads.hosts", "ads.txt")[0] == 2
    assert run("convert", "absent", "ads.dnsmasq")[0] == 2
    assert not Path("ads.txt").exists()


def test_a_file_that_is_no_list_is_an_error(run: Run) -> None:
    Path("page.hosts").write_text("<html>")
    assert run("convert", "page.hosts", "ads.dnsmasq")[0] == 2
    assert run("convert", "ads.hosts", "ads.dnsmasq", "--from", "domains")[0] == 1
