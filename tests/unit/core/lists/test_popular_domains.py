"""Lists of popular domains."""

from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.lists.popular_domains import read_popular
from hushlist.core.url.host import is_plain_name
from unit.rows import each_row


def read(text: str | bytes) -> tuple[list[bytes], list[str]]:
    """``(hosts, warnings)``; there are no errors."""
    report = ProblemReport("f")
    hosts = list(read_popular(text if isinstance(text, bytes) else text.encode(), report))
    assert report.errors == []
    return hosts, [str(warning).removeprefix("f:") for warning in report.warnings]


@each_row(
    ("text", "hosts"),
    [
        ("google.com\nfacebook.com\n", [b"google.com", b"facebook.com"]),
        ("1,google.com\r\n2,facebook.com\r\n", [b"google.com", b"facebook.com"]),  # Umbrella, Tranco
        ('"1","google.com"\n2, facebook.com', [b"google.com", b"facebook.com"]),
        ("# comment\n\n Google.COM. # first\n", [b"google.com"]),
        ('1,"x.X"\n2,X.x\n', [b"x.x", b"x.x"]),
        ("bücher.example\n7,公司.cn", [b"xn--bcher-kva.example", b"xn--55qx5d.cn"]),
        ("com\n192.0.2.1\nhttps://h.example/", [b"com", b"192.0.2.1", b"h.example"]),
        ("", []),
    ],
)
def test_domains_are_read_in_their_order(text: str, hosts: list[bytes]) -> None:
    assert read(text) == (hosts, [])


@each_row(
    ("line", "warning"),
    [
        ("rank,domain", "rank,domain: left out: expected a domain, or its rank and a domain"),
        ("b.example,2", "b.example,2: left out: expected a domain, or its rank and a domain"),
        ("2,b.example,x", "2,b.example,x: left out: expected a domain, or its rank and a domain"),
        ("2,", "2,: left out: it names no host"),
        ("2,b c", "2,b c: left out: there is white space in it"),
        ("5", "5: left out: a number alone is no host; an address has dots or colons"),
        ("b.example/x", "b.example/x: left out: a domain has no path"),
        (b"\xff.example", r"b'\xff': left out: not UTF-8"),
    ],
)
def test_what_is_no_domain_is_left_out(line: str | bytes, warning: str) -> None:
    octets = line if isinstance(line, bytes) else line.encode()
    hosts, warnings = read(b"a.example\n" + octets + b"\nc.example")
    assert hosts == [b"a.example", b"c.example"]
    assert warnings == [f"2: {warning}"]


# of what a plain name can have in it
@given(st.text("abx019-_.", max_size=30))
def test_a_plain_name_is_read_as_any_other(name: str) -> None:
    if is_plain_name(name.encode()):
        assert read(name) == ([parse_expression(name).value.removesuffix(b"/")], [])
