"""What heads of lists say of their publisher and version."""

import pytest

from hushlist.extensions.reports.list_head import LONGEST_HEAD, ListHead, read_head

ISSUES = "https://lists.example/issues"


@pytest.mark.parametrize(
    ("head", "publisher", "version"),
    [
        (f"[Adblock Plus 2.0]\n! Homepage: https://lists.example\n! Issues: {ISSUES}\n! Version: 42\n", ISSUES, "42"),
        (f"! GitHub issues: {ISSUES}\n! Last modified: 13 Aug 2026 07:51 UTC\n", ISSUES, "13 Aug 2026 07:51 UTC"),
        (f"# Title: x\n# Project home page: {ISSUES}/.\n# Date: 1 May 2026\n0.0.0.0 a\n", f"{ISSUES}/", "1 May 2026"),
        ("#  Contact : nobody\n# contact: Jo <jo@lists.example>\n", "mailto:jo@lists.example", ""),
        (f"title: Ours\nissues: '{ISSUES}'\nversion: '3'\nrules: []\n", ISSUES, "3"),
        (f"; Support: <{ISSUES}>\n// Updated: today\n", ISSUES, "today"),
        ("! Issues: javascript:alert(1)\n! Homepage: ftp://lists.example\n", "", ""),
        ("! Homepage: https://me:secret@lists.example/\n", "https://lists.example/", ""),
        ("ads.example\n||ads.example^\n", "", ""),
        (f"{'# x' * LONGEST_HEAD}\n# Issues: {ISSUES}\n", "", ""),
    ],
)
def test_the_best_address_and_version_of_a_head(head: str, publisher: str, version: str) -> None:
    assert read_head(head.encode()) == ListHead(publisher, version)


def test_octets_that_are_no_text_cost_no_address() -> None:
    assert read_head(f"! Title: \xff\n! Issues: {ISSUES}\n".encode("latin-1")) == ListHead(ISSUES)


def test_a_head_is_read_in_linear_time() -> None:
    for text in (b"# " * 8192, b"a " * 8192, b"! a:" * 4096, b"!" * 16384, b"https://" * 2048):
        assert read_head(text) == ListHead()
