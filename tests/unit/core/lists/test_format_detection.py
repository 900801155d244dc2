"""Formats that are told by content."""

from pathlib import Path

import pytest

from hushlist.cli.compile_text import table
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.format_detection import HEAD, detect_format
from support.engines import rules_in
from unit.rows import each_row


@each_row(
    ("text", "form"),
    [
        ("# x\n\n0.0.0.0 a.example\n::1 localhost\nfe80::1%lo0 localhost\n", "hosts"),
        ("a.example\n*.b.example # x\nb\u00fccher.example\n", "domains"),
        ("a.example\n192.0.2.1\n", "domains"),
        ("192.0.2.1\n10.0.0.0/8 # x\n1.2.3.4 - 1.2.3.9\n2001:db8::/32\n", "addresses"),
        ("a.example\nb.example/x\n", "urls"),
        ("https://a.example/?x,y\n", "urls"),
        ("address=/a.example/\nserver=/b.example/\n", "dnsmasq"),
        ("$TTL 60\n@ IN SOA a. b. 1 2 3 4 5\nx.example CNAME .\ny.example 60 IN A 0.0.0.0\n", "rpz"),
        ("[Adblock Plus 2.0]\n/banner\n-ad-\n&x\n", "adblock"),
        ("! Title: x\n/banner\n", "adblock"),
        ("||a.example^\n@@||b.example^\nc.example##.ad\n", "adblock"),
        ("id,url\n1,http://a.example/\n", "csv"),
        ('"1","2020","http://a.example/x"\n', "csv"),
        ("hashed:sha1=" + "0" * 40 + "\n", "hashed-uris"),
        ("61626364\n" + "ab" * 32 + "\n", "sha256"),
        ("[Adblock Plus 2.0]\n! Title: AdGuard DNS filter\na.example\n", "adblock-dns"),
        ("! Title: uBlock filters\na.example\n", "adblock-hosts"),
        # hardly any line of another kind
        ("a.example\n" * 20 + "??\n", "domains"),
        ("a.example\n" * 5 + "0.0.0.0 b.example\n" * 5, None),
        ("what is this?\n", None),
        # nothing in it that a format could fail to fit; beyond the first lines, there may be
        ("", "domains"),
        ("# only a comment\n; and another\n", "domains"),
        ("# only comments\n" * (HEAD // 16), None),
        # what can allow whatever it wants is never told by content
        ("rules:\n- a.example\n", None),
        ("a.example\n\0", None),
    ],
)
def test_content_tells_a_format(tmp_path: Path, text: str, form: str | None) -> None:
    (tmp_path / "list.txt").write_text(text)
    assert detect_format(tmp_path / "list.txt").form == form


def test_a_line_that_is_cut_off_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"a.example\n" * ((HEAD - 1) // 10) + b"a.example/" * 20)
    assert detect_format(tmp_path / "list.txt").form == "domains"


def test_the_report_says_which_format_was_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0.0.0.0 a.example\n")
    (tmp_path / "b.txt").write_text("! uBlock filters\nb.example\n")
    (tmp_path / "c.hosts").write_text("0.0.0.0 c.example\n")
    lists = "[a.txt, {file: b.txt, format: adblock}, c.hosts]"
    (tmp_path / "policy.yaml").write_text(f"layers: [{{name: l, lists: {lists}}}]")
    compiled = compile_policy(tmp_path / "policy.yaml")
    assert [str(rule.pattern) for rule in rules_in(compiled.policy.layers[0])] == [f"{x}.example/" for x in "abc"]
    assert [own.detected for own in compiled.report.lists] == ["hosts", "adblock-hosts", None]
    told = [line for line in table(compiled.report) if line.startswith("format of ")]
    assert told == [
        f"format of {tmp_path / 'a.txt'}: hosts, as its content tells",
        f"format of {tmp_path / 'b.txt'}: adblock-hosts, as its content tells",
    ]


@pytest.mark.parametrize(("later", "form"), [("site.example\n", "domains"), ("http://page.example/a\n", "urls")])
def test_a_longer_list_is_told_by_its_end_too(tmp_path: Path, later: str, form: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text("".join(f"site{n}.example\n" for n in range(20_000)) + later * 500)
    assert detect_format(path).form == form
