"""``hushlist diff``: exact output, gates, errors, exit codes."""

import json
from pathlib import Path

import pytest

from unit.cli.running import Run
from unit.rows import each_row


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "old.hosts").write_text("0.0.0.0 ads.example\n0.0.0.0 x.wide.example\n0.0.0.0 same.example\n")
    (tmp_path / "fetched").write_text("0.0.0.0 wide.example\n0.0.0.0 same.example\n")
    (tmp_path / "urls").write_text(
        "http://ads.example/\nhttp://www.wide.example/\nhttp://x.wide.example/\nhttp://clean.example/\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHANGES = """\
- old.hosts:1: ads.example/
~ old.hosts:2 -> fetched:1: broadened: x.wide.example/ -> wide.example/
3 -> 2 rules: 1 removed, 1 broadened, 1 moved
"""
IMPACT = """
Another thing is done with 2 of 4 requests (50.00%)

newly blocked: 1 (25.00%)
  sites: wide.example 1
  1 by + fetched:1: wide.example/
      http://www.wide.example/ (urls:2)
        old: pass: no rule fits
        new: block: wide.example/ by fetched (fetched:1)

newly passed: 1 (25.00%)
  sites: ads.example 1
  1 by - old.hosts:1: ads.example/
      http://ads.example/ (urls:1)
        old: block: ads.example/ by old (old.hosts:1)
        new: pass: no rule fits

another rule decides: 1 (25.00%)
  sites: wide.example 1
  1 by + fetched:1: wide.example/, where old.hosts:2 had x.wide.example/
      http://x.wide.example/ (urls:3)
        old: block: x.wide.example/ by old (old.hosts:2)
        new: block: wide.example/ by fetched (fetched:1)
"""


def test_nothing_is_told_of_a_list_and_itself(run: Run) -> None:
    assert run("diff", "old.hosts", "old.hosts", "--against", "urls") == (
        0,
        "3 -> 3 rules: 3 unchanged\n\nAnother thing is done with 0 of 4 requests (0.00%)\n",
        "",
    )


def test_requests_are_decided_by_both(run: Run) -> None:
    assert run("diff", "old.hosts", "fetched", "--against", "urls") == (0, CHANGES + IMPACT, "")


@each_row(
    ("gate", "most", "code", "why"),
    [
        ("impact", "2", 0, ""),
        ("impact", "50%", 0, ""),
        ("impact", "1", 1, "2 requests change (50.00% of 4): more than --max-impact 1"),
        ("impact", "49.9%", 1, "2 requests change (50.00% of 4): more than --max-impact 49.9%"),
        ("removed", "2", 0, ""),
        ("removed", "50%", 1, "2 rules are gone (66.67% of 3): more than --max-removed 50%"),
        ("added", "34%", 0, ""),
        ("added", "0", 1, "1 rule came (33.33% of 3): more than --max-added 0"),
        ("broad", "0", 0, ""),
    ],
)
def test_a_gate_is_an_exit_code(run: Run, gate: str, most: str, code: int, why: str) -> None:
    found, _, errors = run("diff", "old.hosts", "fetched", "--against", "urls", f"--max-{gate}", most)
    assert (found, errors) == (code, f"hushlist: {why}\n" if why else "")


def test_a_broad_rule_is_called_out_and_can_be_refused(run: Run) -> None:
    Path("fetched").write_text("0.0.0.0 co.uk\n0.0.0.0 popular.example\n")
    Path("popular").write_text("1,www.popular.example\n")
    code, out, errors = run("diff", "old.hosts", "fetched", "--popular", "popular", "--max-broad", "1", "--limit", "1")
    assert code == 1
    assert "+ fetched:1: co.uk/: broad: it is a public suffix (as com is)" in out
    assert "+ fetched:2: popular.example/: broad: it covers www.popular.example, number 1 of" in out
    assert (
        "\n  and 2 removed that are not shown (--limit)\n3 -> 2 rules: 3 removed, 2 added\n2 rules that came are" in out
    )
    assert errors == "hushlist: 2 rules that came are broad (100.00% of 2): more than --max-broad 1\n"


def test_json_has_a_change_a_line_and_a_summary(run: Run) -> None:
    code, out, _ = run("diff", "old.hosts", "fetched", "--json", "--against", "urls", "--max-impact", "0", "--moved")
    *changes, last = map(json.loads, out.splitlines())
    assert code == 1
    assert [change["kind"] for change in changes] == ["removed", "broadened", "moved"]
    summary = last["summary"]
    assert (summary["added"], summary["removed"], summary["rules"]) == (1, 2, {"old": 3, "new": 2})
    kinds = ("unchanged", "moved", "narrowed", "broadened", "changed", "removed", "added")
    assert summary["counts"] == dict(zip(kinds, (0, 1, 0, 1, 0, 1, 0), strict=True))
    assert summary["exceeded"] == ["2 requests change (50.00% of 4): more than --max-impact 0"]
    impact = summary["impact"]
    assert (impact["requests"], impact["changed"]) == (4, 2)
    assert [(own["effect"], own["requests"], own["sites"]) for own in impact["effects"]] == [
        ("newly blocked", 1, [["wide.example", 1]]),
        ("newly passed", 1, [["ads.example", 1]]),
        ("another rule decides", 1, [["wide.example", 1]]),
    ]
    (rule,) = impact["effects"][0]["rules"]
    assert (rule["change"], rule["old"], rule["new"]["line"]) == ("added", None, 1)
    assert rule["example"]["new"]["rule"]["source"] == "fetched"


def test_a_policy_decides_with_the_new_list_in_the_old_one_s_place(run: Run) -> None:
    Path("own.yaml").write_text("rules: [{expression: ads.example, action: block}]\n")
    Path("policy.yaml").write_text("layers:\n- {name: own, lists: [own.yaml]}\n- {name: lists, lists: [old.hosts]}\n")
    code, out, _ = run(
        "diff", "--policy", "policy.yaml", "old.hosts", "fetched", "--against", "urls", "--max-impact", "1"
    )
    assert code == 0
    assert out.startswith(CHANGES)
    assert "\nAnother thing is done with 1 of 4 requests (25.00%)\n\nnewly blocked: 1 (25.00%)" in out
    assert "new: block: wide.example/ by old (fetched:1)" in out


def test_only_what_a_policy_in_use_is_compiled_to_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").resolve()))
    Path("policy.yaml").write_text("layers:\n- {name: lists, lists: [old.hosts]}\n")
    for policy, kept in ([], 0), (["--policy", "policy.yaml"], 1):
        assert run("diff", *policy, "old.hosts", "fetched", "--against", "urls")[0] == 0
        assert len(list(Path("cache").rglob("*.index"))) == kept


def test_two_policies_are_compared_with_all_that_they_have(run: Run) -> None:
    Path("policy.yaml").write_text("layers: [{name: lists, lists: [old.hosts]}]\n")
    Path("other.yaml").write_text(
        "layers: [{name: lists, lists: [{file: fetched, format: hosts}, {file: old.hosts, action: warn}]}]\n"
    )
    code, out, _ = run("diff", "policy.yaml", "other.yaml", "--against", "urls")
    assert code == 0
    assert "~ old.hosts:1 -> old.hosts:1: changed: ads.example/ (action: block -> warn)\n" in out
    assert (
        "warned of instead of blocked: 2 (50.00%)\n"
        "  sites: ads.example 1, wide.example 1\n"
        "  1 by ~ old.hosts:1: ads.example/" in out
    )


def test_folders_are_compared_file_by_file(run: Run) -> None:
    for name, text in (("old", "a.example\n"), ("new", "a.example\nb.example\n")):
        Path(name).mkdir()
        (Path(name) / "domains").write_text(text)
    Path("new/urls").write_text("c.example/x/\n")
    assert run("diff", "old", "new") == (
        0,
        "+ new/domains:2: b.example/\n+ new/urls:1: c.example/x/\n1 -> 3 rules: 2 added, 1 unchanged\n",
        "",
    )


def test_a_gate_without_a_request_is_no_gate(run: Run) -> None:
    Path("urls").write_text("")
    code, _, errors = run("diff", "old.hosts", "fetched", "--against", "urls", "--max-impact", "1%")
    assert (code, errors) == (2, "hushlist: the sources have no request that could tell the impact\n")


def test_a_source_that_is_not_there_is_bad_input(run: Run) -> None:
    code, _, errors = run("diff", "old.hosts", "fetched", "--against", "urls", "gone", "--max-impact", "100%")
    assert (code, errors) == (2, "hushlist: gone: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["old.hosts", "gone.hosts"], "gone.hosts: list: there is no such file"),
        (["fetched", "urls"], "urls"),
        (["old.hosts", "fetched", "--max-impact", "1%"], "--max-impact needs --against"),
        (["old.hosts", "fetched", "--policy", "policy.yaml"], "policy.yaml"),
    ],
)
def test_bad_input_is_named(run: Run, arguments: list[str], why: str) -> None:
    if "urls" in arguments:
        Path("urls").unlink()
    code, out, errors = run("diff", *arguments)
    assert (code, out) == (2, "")
    assert why in errors


def test_each_side_is_read_by_its_own_format(run: Run) -> None:
    Path("new.txt").write_text("ads.example\nx.wide.example\nsame.example\n")
    assert run("diff", "old.hosts", "new.txt")[:2] == (0, "3 -> 3 rules: 3 unchanged\n")
    assert run("diff", "new.txt", "old.hosts")[:2] == (0, "3 -> 3 rules: 3 unchanged\n")


def test_a_side_that_loses_too_much_ends_with_1(run: Run) -> None:
    Path("new.domains").write_text("a.example\nb.example\nc.example\nhttp://d.example/x\n")
    code, _, err = run("diff", "new.domains", "new.domains", "--format", "domains")
    assert (code, err.count("1 of 4 entries would be lost")) == (1, 2)
    assert run("diff", "new.domains", "new.domains", "--format", "domains", "--allow-losses")[0] == 0
