"""``hushlist lint``: exact output, errors, exit codes."""

import json
from pathlib import Path

import pytest

from unit.cli.running import Run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "clean.hosts").write_text("0.0.0.0 clean.example\n")
    (tmp_path / "ads.hosts").write_text("0.0.0.0 x.ads.example\n0.0.0.0 ads.example\n0.0.0.0 clean.example\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_found_is_good(run: Run) -> None:
    assert run("lint", "clean.hosts") == (0, "1 rule in 1 file: nothing found\n", "")


def test_what_a_list_is_read_as_is_told_where_its_content_tells(run: Run) -> None:
    Path("clean.txt").write_text("0.0.0.0 clean.example\n")
    told = "clean.txt: read as hosts, as its content tells\n"
    assert run("lint", "clean.txt") == (0, "1 rule in 1 file: nothing found\n", told)


def test_what_is_left_out_can_be_listed_whole(run: Run) -> None:
    lines = [f"##.ad{number}" for number in range(30)] + ["@@||a.example^$removeparam=x", "||a.example^", "some words"]
    Path("list.adblock").write_text("\n".join(lines))
    _, out, _ = run("lint", "list.adblock")
    assert len(out.splitlines()) == 4
    code, out, _ = run("lint", "--all", "list.adblock")
    *found, summary = out.splitlines()
    assert code == 1
    assert found[:30] == [
        f"list.adblock:{number + 1}: refused: ##.ad{number}: left out: cosmetic" for number in range(30)
    ]
    assert found[30].startswith(
        "list.adblock:31: refused: @@||a.example^$removeparam=x: left out: $removeparam: it changes the address"
    )
    assert len(found) == 32
    assert summary == "1 rule in 1 file: 32 refused"


def test_findings_are_in_order_with_a_summary_behind(run: Run) -> None:
    assert run("lint", "clean.hosts", "ads.hosts") == (
        1,
        "ads.hosts:1: covered: x.ads.example/: ads.example/ covers it (line 2)\n"
        "ads.hosts:3: duplicate: 0.0.0.0 clean.example: first in clean.hosts:1\n"
        "4 rules in 2 files: 1 duplicate, 1 covered\n",
        "",
    )


def test_json_has_a_finding_a_line_and_a_summary(run: Run) -> None:
    Path("hashes").write_text("0011223344\n")
    code, out, _ = run("lint", "--json", "--format", "sha256", "hashes")
    assert code == 0
    (summary,) = map(json.loads, out.splitlines())
    assert summary["summary"]["prefixes"][0]["octets"] == 5
    code, out, _ = run("lint", "--json", "ads.hosts", "ads.hosts")
    finding, summary = map(json.loads, out.splitlines())
    assert code == 1
    assert finding == {
        "source": "ads.hosts",
        "line": 1,
        "kind": "covered",
        "what": "x.ads.example/",
        "why": "ads.example/ covers it (line 2)",
    }
    assert summary["summary"]["counts"] == {"covered": 1}


def test_popular_domains_are_named(run: Run) -> None:
    Path("popular.csv").write_text("1,www.clean.example\na b,\n")
    code, out, err = run("lint", "--popular", "popular.csv", "clean.hosts")
    assert code == 1
    assert out.startswith("clean.hosts:1: broad: clean.example/: it covers www.clean.example, number 1 of the popular")
    assert err.startswith("warning: popular.csv:2: ")


def test_a_file_that_is_no_list_of_popular_domains_is_an_error(run: Run) -> None:
    Path("popular.html").write_text("<!doctype html>\n")
    code, out, err = run("lint", "--popular", "popular.html", "clean.hosts")
    assert (code, out) == (2, "")
    assert err == "popular.html:1: <!doctype html>: the file begins as a web page does (HTML), and is no list\n"


def test_a_list_that_cannot_be_used_is_bad_input_and_the_rest_is_linted(run: Run) -> None:
    Path("bad.yaml").write_text("rules:\n- '..'\n")
    Path("names").write_text("what is this?\n")
    code, out, err = run("lint", "names", "ads.hosts")
    assert (code, err) == (2, "")
    assert out.startswith("names: error: list: neither its name nor its content tells its format: give one of yaml, ")
    code, out, err = run("lint", "bad.yaml", "ads.hosts")
    assert (code, err) == (2, "")
    assert out.splitlines()[0] == "bad.yaml:2: error: ..: it names no host"
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["none.hosts"], "none.hosts: list: there is no such file\n"),
        (["none"], "none: list: there is no such file\n"),
        (["clean.hosts", "--popular", "none.csv"], "none.csv: No such file or directory\n"),
    ],
)
def test_what_is_no_list_is_bad_input(run: Run, arguments: list[str], error: str) -> None:
    code, out, err = run("lint", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(error)


def test_a_raw_list_without_the_length_of_its_hashes_is_bad_input(run: Run) -> None:
    Path("raw").write_bytes(b"aaaabbbb")
    assert run("lint", "--format", "safebrowsing-raw", "raw")[0] == 2
    assert run("lint", "--format", "safebrowsing-raw", "--prefix-length", "4", "raw")[0] == 0


def test_filters_that_never_fit_and_those_that_another_one_of_the_list_covers_are_named(run: Run) -> None:
    Path("a.adblock").write_text(
        "||a.example^\n||ads.a.example/x$script\n-ad-\n||b.example/-ad-$image\n||1.2.3.4.5/x$script\n"
        "@@||a.example/y$script\n||c.example/x$image,~image\n||c.example/y$script\n"
    )
    Path("b.adblock").write_text("||c.example^\n||d.example/(-ad-)$script\n")
    code, out, err = run("lint", "a.adblock", "b.adblock")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "a.adblock:2: covered: ||ads.a.example/x$script: a.example/ covers it (line 1)",
        "a.adblock:4: covered: ||b.example/-ad-$image: -ad- covers it (line 3)",
        "a.adblock:5: dead: ||1.2.3.4.5/x$script: a name that ends in a number is no address and cannot be resolved: "
        "browsers refuse it",
        "a.adblock:7: dead: ||c.example/x$image,~image: its options exclude every type",
        "10 rules in 2 files: 2 covered, 2 dead",
    ]
