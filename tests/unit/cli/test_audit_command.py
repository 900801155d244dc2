"""``hushlist audit``: exact output, errors, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from documentation import without_times
from unit.cli.running import Run, process

URLS = b"http://blocked.example/\nhttp://blocked.example/ok\nhttp://tagged.example/\nhttp://clean.example/\n"


@pytest.fixture
def urls(policy: Path) -> Path:
    Path("urls.txt").write_bytes(URLS)
    return Path("urls.txt")


def report_of(run: Run, *arguments: str | Path, stdin: bytes = b"") -> dict[str, object]:
    code, out, err = run("audit", "--policy", "policy.yaml", "--json", *arguments, stdin=stdin)
    assert (code, err) == (0, "")
    plain: dict[str, object] = json.loads(out)
    return plain


def test_audit_says_what_lists_do(run: Run, urls: Path) -> None:
    code, out, err = run("audit", "--policy", "policy.yaml", urls)
    assert (code, err) == (0, "")
    assert (
        without_times(out)
        == """\
4 requests; policy policy.yaml
1 would be stopped: 25.0%

What is done
         requests
  allow         1   25.0%  ██████
  block         1   25.0%  ██████
  pass          1   25.0%  ██████
  tag           1   25.0%  ██████

Lists
  stopped  alone  fits  fired  of rules                list
        1      1     3      2         2  ████████████  ads.yaml
        0      0     1      1         1                own.yaml

Categories
  stopped  alone  fits  category
        1      1     2  hrn://c.example/ads
        0      0     2  (none)

Rules that stop most
  stopped  alone  rule
        1      1  blocked.example/  (ads.yaml:2)

Sites
  stopped  of                site
        1   2  ████████████  blocked.example

No page breaks: no document is stopped, nor a script or style of a page's own site.
"""
    )


def test_audit_writes_a_page_besides_what_it_prints(run: Run, urls: Path) -> None:
    Path("page.html").write_text("an older one")
    code, out, err = run("audit", "--policy", "policy.yaml", "--html", "page.html", urls)
    assert (code, out.splitlines()[1], err) == (0, "1 would be stopped: 25.0%", "")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>Audit of policy.yaml: 25.0% of 4 requests stopped</title>" in page
    assert not list(Path().glob(".page*"))


def test_audit_says_that_a_page_cannot_be_written(run: Run, urls: Path) -> None:
    code, out, err = run("audit", "--policy", "policy.yaml", "--html", "missing/page.html", urls)
    assert (code, out, err) == (2, "", "missing/page.html: html: there is no folder missing\n")


def test_audit_names_lists_where_some_paths_are_relative_and_some_absolute(run: Run, urls: Path) -> None:
    text = Path("policy.yaml").read_text().replace("ads.yaml", str(Path("ads.yaml").absolute()))
    Path("policy.yaml").write_text(text)
    code, out, err = run("audit", "--policy", "policy.yaml", urls)
    assert (code, err) == (0, "")
    assert "  ads.yaml\n" in out
    assert "  own.yaml\n" in out


def test_a_folder_stands_for_the_files_in_it(run: Run, urls: Path) -> None:
    Path("logs", "older").mkdir(parents=True)
    for name in ("b.txt", "a.txt", ".hidden", "older/c.txt"):
        Path("logs", name).write_bytes(URLS)
    assert report_of(run, "logs", urls)["records"] == 3 * 4


def test_reports_are_merged(run: Run, urls: Path) -> None:
    for name in ("a.json", "b.json"):
        Path(name).write_text(json.dumps(report_of(run, urls)))
    merged = report_of(run, "--merge", "a.json", "b.json")
    assert (merged["records"], merged["actions"]) == (8, {"allow": 2, "block": 2, "pass": 2, "tag": 2})
    assert merged["lists"] != report_of(run, urls)["lists"]


def test_merged_reports_are_explained_for_whom_they_were_made(run: Run, urls: Path) -> None:
    Path("policy.yaml").write_text(
        "layers: [{name: lists, lists: [ads.yaml]}]\ngroups: [{name: g, clients: [10.0.0.1]}]\n"
    )
    Path("a.json").write_text(json.dumps(report_of(run, urls, "--client", "10.0.0.1")))
    merged = report_of(run, "--merge", "a.json")
    assert {own["explanation"]["group"] for own in merged["records_shown"].values()} == {"g"}
    Path("a.json").write_text(json.dumps({**merged, "options": {**merged["options"], "client": "nobody's"}}))
    assert report_of(run, "--merge", "a.json")["options"]["client"] == "nobody's"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "it is no report of an audit: its format is not 'hushlist audit 2'"),
        ("{", "Expecting property name"),
        ("[]", "it is no report"),
    ],
)
def test_what_is_no_report_is_not_merged(run: Run, urls: Path, text: str, why: str) -> None:
    Path("a.json").write_text(text)
    code, out, err = run("audit", "--policy", "policy.yaml", "--merge", "a.json")
    assert (code, out) == (2, "")
    assert err.startswith(f"a.json: report: {why}")


def test_broken_records_are_named_and_the_rest_is_said(run: Run, urls: Path) -> None:
    Path("access.log").write_bytes(b"nonsense\n\n")
    code, out, err = run("audit", "--policy", "policy.yaml", "--format", "squid", "access.log")
    assert (code, err) == (0, "")
    assert "1 record could not be read:\n  access.log:1: it is no line of Squid's access.log\n" in out


@pytest.mark.parametrize(
    ("octets", "why"), [(None, "No such file or directory"), (b'{"log": {"entries": [', "the document ends too early")]
)
def test_a_source_without_records_is_not_buried(run: Run, urls: Path, octets: bytes | None, why: str) -> None:
    if octets is not None:
        Path("own.har").write_bytes(octets)
    assert run("audit", "--policy", "policy.yaml", "own.har") == (2, "", f"hushlist: own.har: {why}\n")
    code, out, err = run("audit", "--policy", "policy.yaml", urls, "own.har")
    assert (code, err) == (2, f"hushlist: own.har: {why}\n")
    assert "4 requests" in out


def test_popular_domains_are_told(run: Run, urls: Path) -> None:
    Path("top.txt").write_text("1,other.example\n2,blocked.example\n")
    assert report_of(run, "--popular", "top.txt", urls)["popular_domains"] == [
        {"domain": "blocked.example", "rank": 2, "stopped": 1}
    ]
    code, _, err = run("audit", "--policy", "policy.yaml", "--popular", "missing", urls)
    assert (code, err) == (2, "missing: No such file or directory\n")


def test_another_moment_is_asked_for(run: Run, urls: Path) -> None:
    options = report_of(run, "--at", "2026-12-24T22:30", "--client", "10.0.0.1", urls)["options"]
    assert options == {
        "at": "2026-12-24T22:30:00+00:00", "client": "10.0.0.1", "user": None, "port": None, "as_recorded": False,
    }  # fmt: skip


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_titles_are_bold_where_that_is_wanted(
    run: Run, urls: Path, monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, out, _ = run("audit", "--policy", "policy.yaml", urls)
    assert ("\x1b[1mLists\x1b[0m\n" in out) is not bool(no_color)
    assert ("\x1b" in out) is not bool(no_color)


@pytest.mark.slow
def test_a_pipe_gets_neither_colors_nor_progress(urls: Path) -> None:
    done = process("audit", "--policy", "policy.yaml", urls)
    assert done.stderr == b""
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("seal", [[], ["--seal", "own.seal"]])
def test_a_key_file_says_what_the_hashes_of_rules_stand_for(run: Run, urls: Path, seal: list[str]) -> None:
    run("sealkey", "own.seal")
    Path("mine.txt").write_text("blocked.example\nnever.example\n")
    run("hide", "mine.txt", "--format", "domains", "-o", "hidden.yaml", "--key-file", "keys", *seal)
    own = "{file: hidden.yaml, seal: own.seal}" if seal else "hidden.yaml"
    Path("hidden-policy.yaml").write_text(f"layers: [{{name: lists, lists: [{own}]}}]")
    plain = ("audit", "--policy", "hidden-policy.yaml", urls)
    code, out, _ = run(*plain)
    assert (code, "mine.txt" in out) == (0, False)
    assert "  1         2  ████████████  hidden.yaml\n" in out  # one of two rules fired
    code, out, _ = run(*plain, "--key-file", "keys", "--html", "page.html")
    assert code == 0
    assert "        2      2  blocked.example/, mine.txt:1  (hidden.yaml:" in out
    assert "(never.example/, mine.txt:2)" in Path("page.html").read_text()
    code, _, err = run(*plain, "--key-file", "keys", "--json")
    assert (code, err) == (2, "hushlist: --json keeps hashes, by which --merge knows rules: leave out --key-file\n")


def test_lists_are_audited_without_a_policy_and_compared(run: Run, tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.hosts").write_text("0.0.0.0 ads.example\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"||ads.example^\n||more.example^\n"))
    (tmp_path / "urls").write_text("http://ads.example/\nhttp://more.example/\nhttp://fine.example/\n")
    a, b, urls = (str(tmp_path / name) for name in ("a.hosts", "b.txt.gz", "urls"))
    code, out, _ = run("audit", "--list", a, "--list", b, urls, "--json")
    report = json.loads(out)
    assert (code, report["policy"]["path"], report["actions"]["block"]) == (0, f"{a}, {b}", 2)
    assert {own["source"]: (own["fits"], own["alone"]) for own in report["lists"]} == {a: (1, 0), b: (2, 1)}
    assert run("audit", "--list", a, "--policy", "policy.yaml", urls)[0] == 2


def test_a_list_among_the_sources_is_told(run: Run, tmp_path: Path) -> None:
    for name, text in (("a.hosts", "0.0.0.0 ads.example\n"), ("easylist.txt", "[Adblock Plus 2.0]\n||ads.example^\n")):
        (tmp_path / name).write_text(text)
        code, out, err = run("audit", str(tmp_path / name))
        assert code == 2
        assert "it is a list (" in out + err
