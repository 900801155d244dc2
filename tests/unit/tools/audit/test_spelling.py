"""Entries that are read as another rule than they look like."""

from hushlist.tools.audit.findings import odd_lines, oddities
from unit.rows import each_row


@each_row(
    ("line", "rule", "why"),
    [
        ("ftp://h.example/a", "h.example/a", "'ftp:'"),
        ("phishing.example/#login", "phishing.example/", "the rule fits all of phishing.example/"),
        ("https://h.example/p?q#top", "h.example/p?q", "'#'"),
        ("http://me:pw@h.example/", "h.example/", "user name"),
        ("h.example:99999/x", "h.example/x", "port 99999"),
        ("http://h.example:0/x", "h.example/x", "port 0"),
        ("  - expression: 'h.example/a#b'", "h.example/a", "'#'"),
        ('1,"gopher://h.example/x",3', "h.example/x", "'gopher:'"),
        ("http://h.example%2Fx", "h.example/x/", "encoded delimiter"),
        ("http://h.example/\u200fx", "h.example/%E2%80%8Fx", "character 18 is U+200F, which nobody sees"),
        ("\u202ah.example", "%E2%80%AAh.example/", "character 1 is U+202A"),
        ("- h.example%3fx", "h.example/?x/", "encoded delimiter"),
    ],
)
def test_what_is_in_no_request_is_found(line: str, rule: str, why: str) -> None:
    assert set(odd_lines(line.encode(), 7)) == {7}
    ((found, reason),) = oddities(line.encode())
    assert (str(found), why in reason) == (rule, True)


@each_row(
    "line",
    [
        *("h.example", "https://h.example:8443/x", "wss://h.example/", "h.example # see http://x.example/#a"),
        *("0.0.0.0 h.example", "# a comment", "HTTP://H.example/", "h.example/a?b=c:d", "[2001:db8::1]/"),
        *("h.example/%2F", "h%65.example/%2f", "h.example?%40"),
    ],
)
def test_what_is_as_it_looks_is_not(line: str) -> None:
    rules = [str(rule) for rule, _ in oddities(line.encode())]
    assert "h.example/" not in rules
    assert "h.example/x" not in rules
    assert "h.example/a?b=c:d" not in rules


def test_lines_have_their_numbers() -> None:
    text = b"a.example\nb.example/#x\n\nc.example\nftp://d.example\n"
    assert odd_lines(text, 10) == {11: b"b.example/#x", 14: b"ftp://d.example"}
