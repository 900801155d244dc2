"""Which of the two languages an Adblock list speaks, and when that is not sure."""

from pathlib import Path

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.extensions.adblock.adblock_language import language_of
from unit.rows import each_row


@each_row(
    ("head", "form"),
    [
        ("! Title: uBlock filters \u2013 Ads\na.example", "adblock-hosts"),
        ("[uBlock Origin]\na.example", "adblock-hosts"),
        ("[Adblock Plus]\n\n! Homepage: x\n! For AdGuard Home\na.example", "adblock-dns"),
        ("! Title: AdGuard DNS filter\n/ads.js", "adblock-dns"),
        ("! Homepage: https://github.com/AdguardTeam/AdGuardSDNSFilter\na.example", "adblock-dns"),
        ("# Title: mine\n# for Pi-hole\n||a.example^", "adblock-dns"),
        ("! Title: My DNS blocklist\n||a.example^", "adblock-dns"),
        # a list for both: what is in it tells
        ("! for uBlock Origin, AdGuard Home\n||a.example^", "adblock-dns"),
        ("! for uBlock Origin, AdGuard Home\n||a.example/x", "adblock-hosts"),
        ("! Title: AdGuard Base filter\n||a.example/x", "adblock-hosts"),
        ("||a.example^\n! uBlock Origin", "adblock"),
        ("! Title: x\n||a.example^\n@@||b.example^$important\nc.example", "adblock"),
        ("", "adblock"),
    ],
)
def test_the_head_tells_the_language(head: str, form: str) -> None:
    assert language_of(head, "adblock") == (form, "")


@each_row(
    "entry", ["|exact.example^", "|*.sbs^", r"/^stat[0-9]*\./", "||a.example^$dnstype=A", "*$ctag=x", r"/(^|\.)x$/"]
)
def test_what_only_names_can_fit_tells_it_with_a_warning(entry: str) -> None:
    form, doubt = language_of(f"||a.example^\n{entry}", "adblock")
    assert form == "adblock-dns"
    assert f"line 2, {entry}" in doubt
    form, doubt = language_of(f"||a.example/x$script\n{entry}", "adblock")
    assert form == "adblock"
    assert f"line 2, {entry}" in doubt
    assert "line 1, ||a.example/x$script" in doubt


@each_row("entry", [".mov|", "*.cam^", r"/\.zip$/", "ample.gg|"])
def test_what_both_can_mean_is_read_as_by_browsers_with_a_warning(entry: str) -> None:
    form, doubt = language_of(f"||a.example^\n{entry}", "adblock")
    assert form == "adblock"
    assert f"line 2, {entry} may be about names" in doubt
    assert language_of(f"||a.example/ads\n{entry}", "adblock") == ("adblock", "")
    assert language_of(f"! Title: AdGuard DNS filter\n{entry}", "adblock") == ("adblock-dns", "")


@each_row(
    "entry", ["##.ad", "/ads/*.js", "|https://a.example", "*$script", "||x^$third-party", r"/\/ads\//", "&ad=", "-ads-"]
)
def test_what_is_about_urls_leaves_no_doubt(entry: str) -> None:
    assert language_of(f"||a.example^\n{entry}", "adblock") == ("adblock", "")


def test_a_format_that_is_given_is_not_doubted(tmp_path: Path) -> None:
    for form, doubts in (("adblock-dns", 0), ("adblock-hosts", 0), ("adblock", 1)):
        (tmp_path / "list.txt").write_text("||a.example^\n.mov|\n")
        (tmp_path / "policy.yaml").write_text(f"layers: [{{name: l, lists: [{{file: list.txt, format: {form}}}]}}]")
        told = compile_policy(tmp_path / "policy.yaml").report.warnings
        assert len(told) == doubts, told
