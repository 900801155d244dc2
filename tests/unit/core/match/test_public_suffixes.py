"""The list of public suffixes."""

from hushlist.core.match.public_suffixes import SuffixSection, parse_public_suffixes, public_suffixes
from unit.rows import each_row

TEXT = """\
a.early
// ===BEGIN ICANN DOMAINS===
// a comment with co.ignored
  \t
com
CO.uk  // read up to the first white space
*.ck
!www.ck
公司.cn
// ===END ICANN DOMAINS===
a.between
// ===BEGIN PRIVATE DOMAINS===
github.io\tx
// ===END PRIVATE DOMAINS===
"""


def test_a_list_is_read_with_its_sections() -> None:
    found = parse_public_suffixes(TEXT.splitlines())
    icann, private, untold = SuffixSection.ICANN, SuffixSection.PRIVATE, SuffixSection.UNMARKED
    assert found.suffixes == {
        b"a.early/": untold,
        b"com/": icann,
        b"co.uk/": icann,
        b"xn--55qx5d.cn/": icann,
        b"a.between/": untold,
        b"github.io/": private,
    }
    assert found.wildcards == {b"ck/": icann}
    assert found.exceptions == {b"www.ck/"}


def test_a_wildcard_is_for_one_label_and_not_for_its_exceptions() -> None:
    found = parse_public_suffixes(TEXT.splitlines())
    assert found.section_of(b"any.ck/") == found.wildcards[b"ck/"] == SuffixSection.ICANN
    for expression in (b"www.ck/", b"a.any.ck/", b"ck/", b"any.ck/x"):
        assert found.section_of(expression) is None


@each_row(
    ("host", "domain"),
    [
        (b"www.a.co.uk", b"a.co.uk"),
        (b"co.uk", b"co.uk"),
        (b"uk", b"uk"),
        (b"x.me.github.io", b"me.github.io"),
        *((b"x.me." + suffix, b"me." + suffix) for suffix in (b"pages.dev", b"vercel.app", b"netlify.app")),
        (b"a.b.no-such-tld", b"b.no-such-tld"),
        (b"localhost", b"localhost"),
        (b"192.0.2.1", b"192.0.2.1"),
        (b"[2001:db8::1]", b"[2001:db8::1]"),
    ],
)
def test_the_registrable_domain_has_one_label_more_than_the_public_suffix(host: bytes, domain: bytes) -> None:
    assert public_suffixes().registrable_domain(host) == domain
