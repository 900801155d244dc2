"""The grammar of URIs: what it accepts, and where and why it refuses."""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.vectors import Row, by_input, needs, rows
from hushlist.errors import UrlError
from hushlist.url.parts import Parts, split_generic, to_bytes
from hushlist.url.uri_grammar import host_rule, parse_absolute_uri, parse_uri, parse_uri_reference
from unit.hostile import LONG, octets, seconds, urls

Parse = Callable[[bytes | str], Parts]

# -- Appendix A, word by word, as an oracle: it backtracks, and knows no positions -----------------------------------

ALPHA, DIGIT, HEXDIG = "[A-Za-z]", "[0-9]", "[0-9A-Fa-f]"
PCT_ENCODED = f"%{HEXDIG}{HEXDIG}"
UNRESERVED = rf"(?:{ALPHA}|{DIGIT}|-|\.|_|~)"
SUB_DELIMS = r"[!$&'()*+,;=]"
PCHAR = f"(?:{UNRESERVED}|{PCT_ENCODED}|{SUB_DELIMS}|:|@)"
QUERY = FRAGMENT = rf"(?:{PCHAR}|/|\?)*"
SEGMENT, SEGMENT_NZ = f"{PCHAR}*", f"{PCHAR}+"
SEGMENT_NZ_NC = f"(?:{UNRESERVED}|{PCT_ENCODED}|{SUB_DELIMS}|@)+"
PATH_ABEMPTY = f"(?:/{SEGMENT})*"
PATH_ABSOLUTE = f"/(?:{SEGMENT_NZ}(?:/{SEGMENT})*)?"
PATH_NOSCHEME = f"{SEGMENT_NZ_NC}(?:/{SEGMENT})*"
PATH_ROOTLESS = f"{SEGMENT_NZ}(?:/{SEGMENT})*"
DEC_OCTET = f"(?:25[0-5]|2[0-4]{DIGIT}|1{DIGIT}{{2}}|[1-9]{DIGIT}|{DIGIT})"
IPV4_ADDRESS = rf"{DEC_OCTET}\.{DEC_OCTET}\.{DEC_OCTET}\.{DEC_OCTET}"
H16 = f"{HEXDIG}{{1,4}}"
LS32 = f"(?:{H16}:{H16}|{IPV4_ADDRESS})"
IPV6_ADDRESSES = (
    f"(?:{H16}:){{6}}{LS32}",
    f"::(?:{H16}:){{5}}{LS32}",
    f"(?:{H16})?::(?:{H16}:){{4}}{LS32}",
    f"(?:(?:{H16}:){{0,1}}{H16})?::(?:{H16}:){{3}}{LS32}",
    f"(?:(?:{H16}:){{0,2}}{H16})?::(?:{H16}:){{2}}{LS32}",
    f"(?:(?:{H16}:){{0,3}}{H16})?::{H16}:{LS32}",
    f"(?:(?:{H16}:){{0,4}}{H16})?::{LS32}",
    f"(?:(?:{H16}:){{0,5}}{H16})?::{H16}",
    f"(?:(?:{H16}:){{0,6}}{H16})?::",
)
IPV_FUTURE = rf"[vV]{HEXDIG}+\.(?:{UNRESERVED}|{SUB_DELIMS}|:)+"
IP_LITERAL = rf"\[(?:{'|'.join(IPV6_ADDRESSES)}|{IPV_FUTURE})\]"
REG_NAME = f"(?:{UNRESERVED}|{PCT_ENCODED}|{SUB_DELIMS})*"
USERINFO = f"(?:{UNRESERVED}|{PCT_ENCODED}|{SUB_DELIMS}|:)*"
AUTHORITY = f"(?:{USERINFO}@)?(?:{IP_LITERAL}|{IPV4_ADDRESS}|{REG_NAME})(?::{DIGIT}*)?"
SCHEME = rf"{ALPHA}(?:{ALPHA}|{DIGIT}|\+|-|\.)*"
HIER_PART = f"(?://{AUTHORITY}{PATH_ABEMPTY}|{PATH_ABSOLUTE}|{PATH_ROOTLESS}|)"
RELATIVE_PART = f"(?://{AUTHORITY}{PATH_ABEMPTY}|{PATH_ABSOLUTE}|{PATH_NOSCHEME}|)"
ABSOLUTE_URI = rf"{SCHEME}:{HIER_PART}(?:\?{QUERY})?"
URI = rf"{ABSOLUTE_URI}(?:#{FRAGMENT})?"
RELATIVE_REF = rf"{RELATIVE_PART}(?:\?{QUERY})?(?:#{FRAGMENT})?"

PARSERS: list[tuple[Parse, str]] = [
    (parse_uri, URI),
    (parse_absolute_uri, ABSOLUTE_URI),
    (parse_uri_reference, f"(?:{URI}|{RELATIVE_REF})"),
]

# -- samples ---------------------------------------------------------------------------------------------------------


def escapes() -> st.SearchStrategy[str]:
    return st.sampled_from(["%00", "%2f", "%2F", "%41", "%c3%BC", "%25", "%fF"])


def some(characters: str, *, least: int = 0, most: int = 4) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(characters) | escapes(), min_size=least, max_size=most).map("".join)


IN_ANY = "aZ09-._~!$&'()*+,;="


def ipv6_addresses() -> st.SearchStrategy[str]:
    """Of every production."""
    group = st.sampled_from(["0", "1", "fF", "abc", "2001", "255"])
    last = st.sampled_from(["1.2.3.4", "255.249.199.0", "99.10.9.1"]) | st.tuples(group, group).map(":".join)
    whole = st.builds(lambda groups, end: ":".join([*groups, end]), st.lists(group, min_size=6, max_size=6), last)

    def elided(before: int) -> st.SearchStrategy[str]:
        left = st.lists(group, min_size=before, max_size=before).map(":".join)
        right = st.lists(group, max_size=7 - before).map(":".join)
        if before <= 5:
            ended = st.builds(lambda groups, end: ":".join([*groups, end]), st.lists(group, max_size=5 - before), last)
            right |= ended
        return st.tuples(left, right).map("::".join)

    return whole | st.integers(0, 7).flatmap(elided)


def authorities() -> st.SearchStrategy[str]:
    future = st.sampled_from(["v1.a", "V1fF.fe80::a+en1", "v0.!$&'()*+,;=:-._~"])
    host = ipv6_addresses().map("[{}]".format) | future.map("[{}]".format) | st.just("192.0.2.16") | some(IN_ANY)
    user = st.just("") | some(IN_ANY + ":").map("{}@".format)
    port = st.sampled_from(["", ":", ":0", ":80", ":99999999"])
    return st.tuples(user, host, port).map("".join)


def tails(*, fragment: bool = True) -> st.SearchStrategy[str]:
    rest = some(IN_ANY + ":@/?")
    query = st.just("") | rest.map("?{}".format)
    return st.builds(str.__add__, query, st.just("") | rest.map("#{}".format)) if fragment else query


def hier_parts(first_segment: str) -> st.SearchStrategy[str]:
    segments = st.lists(some(IN_ANY + ":@"), max_size=3).map(lambda found: "".join(f"/{each}" for each in found))
    with_authority = st.builds("//{}{}".format, authorities(), segments)
    absolute = st.just("/") | st.builds("/{}{}".format, some(IN_ANY + ":@", least=1), segments)
    rootless = st.builds(str.__add__, some(first_segment, least=1), segments)
    return with_authority | absolute | rootless | st.just("")


def uris(*, fragment: bool = True) -> st.SearchStrategy[str]:
    scheme = st.sampled_from(["a", "http", "HTTP", "svn+ssh", "z39.50r", "x-Y"])
    return st.builds("{}:{}{}".format, scheme, hier_parts(IN_ANY + ":@"), tails(fragment=fragment))


def relative_refs() -> st.SearchStrategy[str]:
    return st.builds(str.__add__, hier_parts(IN_ANY + "@"), tails())


#: what means something to the grammar, in any order
def nearly() -> st.SearchStrategy[str]:
    chunks = st.sampled_from(
        [*"a1:/?#[]@%.vV ~-", "//", "::", "[::", "]", "1.2.3.4", "256", "ffff", "%4", "%41", "é", "\n"]
    )
    return st.lists(chunks, max_size=14).map("".join)


def refused(parse: Parse, text: bytes | str) -> UrlError:
    with pytest.raises(UrlError) as caught:
        parse(text)
    assert caught.value.value == text
    return caught.value


def fault_of(parse: Parse, text: bytes | str) -> UrlError | None:
    try:
        parse(text)
    except UrlError as error:
        return error
    return None


def is_valid(parse: Parse, text: bytes | str) -> bool:
    return fault_of(parse, text) is None


# -- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # 1.1.2: "The following example URIs illustrate several URI schemes and variations in their common syntax
        # components"
        ("ftp://ftp.is.co.za/rfc/rfc1808.txt", Parts(b"ftp", None, b"ftp.is.co.za", None, b"/rfc/rfc1808.txt")),
        ("http://www.ietf.org/rfc/rfc2396.txt", Parts(b"http", None, b"www.ietf.org", None, b"/rfc/rfc2396.txt")),
        (
            "ldap://[2001:db8::7]/c=GB?objectClass?one",
            Parts(b"ldap", None, b"[2001:db8::7]", None, b"/c=GB", b"objectClass?one"),
        ),
        ("mailto:John.Doe@example.com", Parts(b"mailto", None, None, None, b"John.Doe@example.com")),
        (
            "news:comp.infosystems.www.servers.unix",
            Parts(b"news", None, None, None, b"comp.infosystems.www.servers.unix"),
        ),
        ("tel:+1-816-555-1212", Parts(b"tel", None, None, None, b"+1-816-555-1212")),
        ("telnet://192.0.2.16:80/", Parts(b"telnet", None, b"192.0.2.16", b"80", b"/")),
        (
            "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
            Parts(b"urn", None, None, None, b"oasis:names:specification:docbook:dtd:xml:4.1.2"),
        ),
        # 3
        (
            "foo://example.com:8042/over/there?name=ferret#nose",
            Parts(b"foo", None, b"example.com", b"8042", b"/over/there", b"name=ferret", b"nose"),
        ),
        ("urn:example:animal:ferret:nose", Parts(b"urn", None, None, None, b"example:animal:ferret:nose")),
        # 3.3
        ("mailto:fred@example.com", Parts(b"mailto", None, None, None, b"fred@example.com")),
        ("foo://info.example.com?fred", Parts(b"foo", None, b"info.example.com", None, b"", b"fred")),
        # 6.2.2 to 6.2.4
        ("example://a/b/c/%7Bfoo%7D", Parts(b"example", None, b"a", None, b"/b/c/%7Bfoo%7D")),
        (
            "eXAMPLE://a/./b/../b/%63/%7bfoo%7d",
            Parts(b"eXAMPLE", None, b"a", None, b"/./b/../b/%63/%7bfoo%7d"),
        ),
        ("HTTP://www.EXAMPLE.com/", Parts(b"HTTP", None, b"www.EXAMPLE.com", None, b"/")),
        ("http://example.com", Parts(b"http", None, b"example.com", None, b"")),
        ("http://example.com/", Parts(b"http", None, b"example.com", None, b"/")),
        ("http://example.com:/", Parts(b"http", None, b"example.com", b"", b"/")),
        ("http://example.com:80/", Parts(b"http", None, b"example.com", b"80", b"/")),
        ("http://example.com/?", Parts(b"http", None, b"example.com", None, b"/", b"")),
        ("mailto:Joe@Example.COM", Parts(b"mailto", None, None, None, b"Joe@Example.COM")),
        ("http://example.com/data/", Parts(b"http", None, b"example.com", None, b"/data/")),
        # 7.6
        (
            "ftp://cnn.example.com&story=breaking_news@10.0.0.1/top_story.htm",
            Parts(b"ftp", b"cnn.example.com&story=breaking_news", b"10.0.0.1", None, b"/top_story.htm"),
        ),
        # Appendix B
        (
            "http://www.ics.uci.edu/pub/ietf/uri/#Related",
            Parts(b"http", None, b"www.ics.uci.edu", None, b"/pub/ietf/uri/", None, b"Related"),
        ),
        # Appendix C
        ("http://www.w3.org/Addressing/", Parts(b"http", None, b"www.w3.org", None, b"/Addressing/")),
        ("ftp://foo.example.com/rfc/", Parts(b"ftp", None, b"foo.example.com", None, b"/rfc/")),
        (
            "http://www.ics.uci.edu/pub/ietf/uri/historical.html#WARNING",
            Parts(b"http", None, b"www.ics.uci.edu", None, b"/pub/ietf/uri/historical.html", None, b"WARNING"),
        ),
        # D.2: "an absolute-URI to consist of nothing after the "scheme:", as is present in practice with the "dav:"
        # namespace and with the "about:" scheme"
        ("dav:", Parts(b"dav", None, None, None, b"")),
        ("about:", Parts(b"about", None, None, None, b"")),
        # 3.2.2: a name may be empty; 3.2: so may be what stands around it
        ("file:///etc/hosts", Parts(b"file", None, b"", None, b"/etc/hosts")),
        ("http://@:/", Parts(b"http", b"", b"", b"", b"/")),
        ("x://a:b:c@h:1", Parts(b"x", b"a:b:c", b"h", b"1", b"")),
        ("x://u@[v1.:]:1?#", Parts(b"x", b"u", b"[v1.:]", b"1", b"", b"", b"")),
        # 4.2: with a scheme it is no relative reference
        ("this:that", Parts(b"this", None, None, None, b"that")),
        ("http:g", Parts(b"http", None, None, None, b"g")),
        ("x:///", Parts(b"x", None, b"", None, b"/")),
        ("x:/a//b", Parts(b"x", None, None, None, b"/a//b")),
    ],
)
def test_a_uri_has_these_parts(text: str, parts: Parts) -> None:
    assert parse_uri(text) == parse_uri(text.encode()) == parse_uri_reference(text) == parts
    assert split_generic(text.encode()) == parts


#: 5.4.1 and 5.4.2, and the base; all but "g:h" and "http:g" are relative
SECTION_5 = (
    *("http://a/b/c/d;p?q", "g:h", "g", "./g", "g/", "/g", "//g", "?y", "g?y", "#s", "g#s", "g?y#s", ";x", "g;x"),
    *("g;x?y#s", "", ".", "./", "..", "../", "../g", "../..", "../../", "../../g", "../../../g", "../../../../g"),
    *("/./g", "/../g", "g.", ".g", "g..", "..g", "./../g", "./g/.", "g/./h", "g/../h", "g;x=1/./y", "g;x=1/../y"),
    *("g?y/./x", "g?y/../x", "g#s/./x", "g#s/../x", "http:g"),
    # 4.2
    *("./this:that", "//example.com/x", "/x", "x/y:z"),
)


@pytest.mark.parametrize("text", SECTION_5)
def test_a_reference_may_be_relative(text: str) -> None:
    assert parse_uri_reference(text) == split_generic(text.encode())
    assert is_valid(parse_uri, text) is bool(re.match("[a-z]+:", text))


def test_an_absolute_uri_has_no_fragment() -> None:
    assert parse_absolute_uri("http://a/b/c/d;p?q") == parse_uri("http://a/b/c/d;p?q")
    error = refused(parse_absolute_uri, "http://a/?q#")
    assert (error.reason, error.position) == ("an absolute URI has no fragment", 11)
    assert refused(parse_absolute_uri, "a#b").position == 1


@given(uris())
def test_every_sentence_of_the_grammar_is_accepted_and_split_as_by_appendix_b(text: str) -> None:
    assert re.fullmatch(URI, text), "the sample is wrong"
    assert parse_uri(text) == parse_uri_reference(text) == split_generic(text.encode())


@given(uris(fragment=False))
def test_every_absolute_uri_is_accepted(text: str) -> None:
    assert parse_absolute_uri(text) == split_generic(text.encode())


@given(relative_refs())
def test_every_relative_reference_is_accepted(text: str) -> None:
    assert re.fullmatch(RELATIVE_REF, text), "the sample is wrong"
    assert parse_uri_reference(text) == split_generic(text.encode())


@pytest.mark.parametrize(("parse", "rule"), PARSERS)
@given(text=nearly() | uris() | relative_refs())
def test_what_is_accepted_is_what_appendix_a_says(parse: Parse, rule: str, text: str) -> None:
    assert is_valid(parse, text) is bool(re.fullmatch(rule, text))


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        # 3.2.2: "If host matches the rule for IPv4address, then it should be considered an IPv4 address literal and not
        # a reg-name."
        (b"0.0.0.0", "IPv4address"),
        (b"255.249.199.99", "IPv4address"),
        *((host, "reg-name") for host in (b"256.0.0.1", b"1.2.3", b"1.2.3.4.", b"01.2.3.4", b"1.2.3.04", b"0x7f.1")),
        (b"1.2.3.4.5", "reg-name"),
        (b"", "reg-name"),
        (b"%31.2.3.4", "reg-name"),
        (b"[::1.2.3.4]", "IPv6address"),
        (b"[v7.1.2.3.4]", "IPvFuture"),
        (b"[V7.a]", "IPvFuture"),
    ],
)
def test_the_first_rule_that_fits_a_host_is_its_rule(host: bytes, rule: str) -> None:
    assert host_rule(host) == rule


@pytest.mark.parametrize(("host", "position"), [(b"a:80", 1), (b"[::1]:80", 5), (b"a b", 1), (b"[", 1), (b"a@b", 1)])
def test_what_is_no_host_has_no_rule(host: bytes, position: int) -> None:
    with pytest.raises(UrlError) as caught:
        host_rule(host)
    assert caught.value.position == position


# -- IPv6 ------------------------------------------------------------------------------------------------------------


def pieces_of_addresses() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(["1", "ffff", "12345", ":", ":", "::", "1.2.3.4", "255.", "256", ".0", "g", "%"])
    return st.lists(pieces, max_size=18).map("".join) | st.lists(st.sampled_from(["1:", "::", "1", "0.0.0.0"])).map(
        "".join
    )


@given(ipv6_addresses() | pieces_of_addresses())
def test_an_ipv6_address_is_one_of_the_nine_productions(address: str) -> None:
    assert is_valid(parse_uri, f"x://[{address}]") is any(re.fullmatch(rule, address) for rule in IPV6_ADDRESSES)


@pytest.mark.parametrize("before", range(9))
@pytest.mark.parametrize("behind", range(9))
def test_beside_two_colons_there_are_at_most_seven_groups(before: int, behind: int) -> None:
    groups = ":".join("1" * before) + "::" + ":".join("1" * behind)
    assert is_valid(parse_uri, f"x://[{groups}]") is (before + behind <= 7)
    with_ipv4 = ":".join("1" * before) + "::" + "1:" * behind + "1.2.3.4"
    assert is_valid(parse_uri, f"x://[{with_ipv4}]") is (before + behind <= 5)


def literal(row: Row) -> str:
    """The address in brackets that is what a row is about."""
    if "bare" in row["note"]:
        return f"[{row['input']}]"
    return row["input"][row["input"].index("[") :].split("/", 1)[0]


#: rows of which Appendix A says something else than a browser: where the bracket is not in the authority
NOT_ABOUT_HOSTS = ("http:[61:27]/:foo", "non-special:cannot-be", "https://user:pass[", "http://a[b/")


@needs("ipv6")
@pytest.mark.parametrize(
    "row", [row for row in rows("ipv6") if not row["input"].startswith(NOT_ABOUT_HOSTS)], ids=by_input
)
def test_other_people_s_ipv6_addresses(row: Row) -> None:
    assert is_valid(parse_uri, f"x://{literal(row)}") is (row["expected"] is not None)


# -- what is refused: where, and why ---------------------------------------------------------------------------------

ESCAPE = "'%' must be followed by two hexadecimal digits"
GROUP = "expected a group of an IPv6 address: one to four hexadecimal digits"
MOST = "an IPv6 address has at most eight groups"
MOST_BESIDE = f"{MOST}; beside '::', at most seven"
EMBEDDED = "an IPv4 address stands only for the last two groups of an IPv6 address"
DEC_OCTET_REASON = "a number of an IPv4 address is one from 0 to 255, without leading zeros"
CLOSE = "an IP literal ends with ']'"
BEHIND = "behind the ']' of an IP literal there can only be a port"
SCHEME_REASON = "a scheme has only letters, digits, '+', '-' and '.', and ends with ':'"
VERSION = "'v', hexadecimal digits and '.' begin an IP literal of a future version"
FUTURE = "an IP literal of a future version has unreserved characters, sub-delims and ':' behind the '.'"


def no_place(character: str, where: str) -> str:
    return f"{character!r} has no place in {where}: write it as %{ord(character):02X}"


@pytest.mark.parametrize(
    ("before", "behind", "reason"),
    [
        # scheme
        ("", "", "a URI begins with a scheme, and that with a letter"),
        ("", "1http://h", "a URI begins with a scheme, and that with a letter"),
        ("", "//h/", "a URI begins with a scheme, and that with a letter"),
        ("", ":x", "a URI begins with a scheme, and that with a letter"),
        ("http", "", SCHEME_REASON),
        ("ht", "!tp://h", SCHEME_REASON),
        ("a", "/b:c", SCHEME_REASON),
        ("h", "é:", SCHEME_REASON),
        # path, query, fragment
        ("x:", " ", no_place(" ", "a path")),
        ("x:/a", "[b]", no_place("[", "a path")),
        ("x:/a", "\\b", no_place("\\", "a path")),
        ("x://h/a", "\n", no_place("\n", "a path")),
        ("x://h/a?b", "^", no_place("^", "a query")),
        ("x://h/a?b#c", "#", no_place("#", "a fragment")),
        ("x://h/a#b", '"', no_place('"', "a fragment")),
        ("x:a%", "", ESCAPE),
        ("x:a%", "zz", ESCAPE),
        ("x:a%4", "", ESCAPE),
        ("x:a%4", "g", ESCAPE),
        ("x:a%4", "?x", ESCAPE),
        ("x:a%41%", "%41", ESCAPE),
        ("x:a?%", "#", ESCAPE),
        ("x:a#%", "é", ESCAPE),
        ("x:a", "é", "a URI has only US-ASCII characters: write this octet as %C3"),
        # authority
        ("x://a", " b", no_place(" ", "a host")),
        ("x://a", " b@h", no_place(" ", "user information")),
        ("x://a:b", "[@h", no_place("[", "user information")),
        ("x://a@b", "@c", no_place("@", "a host")),
        ("x://a%2", "@b", ESCAPE),
        ("x://a%", "/b", ESCAPE),
        ("x://a", "[b/", no_place("[", "a host")),
        ("x://a", "]", no_place("]", "a host")),
        ("x://a", "ü", "a URI has only US-ASCII characters: write this octet as %C3"),
        ("x://h:8", "o/", "a port has only digits"),
        ("x://h:", "-1", "a port has only digits"),
        ("x://h:1", ":2", "a port has only digits"),
        ("x://u@h:1", "%31", "a port has only digits"),
        ("x://:", ":1/", "a port has only digits"),
        # IP-literal
        ("x://[", "", CLOSE),
        ("x://[", "]", GROUP),
        ("x://[", "www.google.com]", GROUP),
        ("x://[::1", "", CLOSE),
        ("x://[::1", "/a]", CLOSE),
        ("x://[::", "?", CLOSE),
        ("x://[:", "", CLOSE),
        ("x://[1:", "/", CLOSE),
        ("x://[::1]", "a", BEHIND),
        ("x://[::1]", "@h", BEHIND),
        ("x://[::1]", "]", BEHIND),
        ("x://[::1]:", "a", "a port has only digits"),
        ("x://[:", "1]", "an IPv6 address can begin with '::', not with ':'"),
        ("x://[:", "]", "an IPv6 address can begin with '::', not with ':'"),
        ("x://[::", ":1]", GROUP),
        ("x://[1:", "]", GROUP),
        ("x://[1::2:", "]", GROUP),
        ("x://[1:2:3:4:5:6:7:", "]", GROUP),
        ("x://[1111", "1::]", "a group of an IPv6 address has at most four hexadecimal digits"),
        ("x://[::1", "%25eth0]", "an IPv6 address in a URI has no zone"),
        ("x://[::1", "g]", "an IPv6 address has only hexadecimal digits, ':' and '.'"),
        ("x://[1:2:3", "]", "an IPv6 address has eight groups, or '::' in the place of some"),
        ("x://[1:2:3:4:5:6:7", "]", "an IPv6 address has eight groups, or '::' in the place of some"),
        ("x://[1:2:3:4:5:6:7:8", ":9]", MOST),
        ("x://[1:2:3:4:5:6:7:8", "::]", MOST),
        ("x://[1:2:3:4:5:6:7::", "8]", MOST_BESIDE),
        ("x://[::1:2:3:4:5:6:7", ":8]", MOST_BESIDE),
        ("x://[1::2:3:4:5:6:7", "::]", MOST_BESIDE),
        ("x://[1::2:", ":3]", "an IPv6 address has '::' only once"),
        # IPv4address in an IPv6address
        ("x://[1", ".2.3.4]", EMBEDDED),
        ("x://[1:2:3:4:5:6:7:1", ".2.3.4]", EMBEDDED),
        ("x://[1:2:3:4:5:1", ".2.3.4]", EMBEDDED),
        ("x://[::1:2:3:4:5:6:1", ".2.3.4]", EMBEDDED),
        ("x://[1:2:3:4:5:6::1", ".2.3.4]", EMBEDDED),
        ("x://[::256", ".0.0.1]", DEC_OCTET_REASON),
        ("x://[::01", ".0.0.1]", DEC_OCTET_REASON),
        ("x://[::a", ".0.0.1]", DEC_OCTET_REASON),
        ("x://[::1.25", "6.0.1]", DEC_OCTET_REASON),
        ("x://[::1.0", "2.0.1]", DEC_OCTET_REASON),
        ("x://[::1.", "a.0.1]", DEC_OCTET_REASON),
        ("x://[::1.2.3.", "]", DEC_OCTET_REASON),
        ("x://[::1.2.3.", "", CLOSE),
        ("x://[::1.2", "]", "an IPv4 address has four numbers with '.' between them"),
        ("x://[::1.2.3", ":4]", "an IPv4 address has four numbers with '.' between them"),
        ("x://[::1.2.3.4", ".5]", "nothing follows the IPv4 address of an IPv6 address"),
        ("x://[::1.2.3.4", ":5]", "nothing follows the IPv4 address of an IPv6 address"),
        ("x://[::1.2.3.4", "/", CLOSE),
        # IPvFuture
        ("x://[v", "]", VERSION),
        ("x://[v", ".a]", VERSION),
        ("x://[v1", "]", VERSION),
        ("x://[V1", "g.a]", VERSION),
        ("x://[v1", "", CLOSE),
        ("x://[v1.", "]", FUTURE),
        ("x://[v1.a", "@b]", FUTURE),
        ("x://[v1.", "%41]", FUTURE),
        ("x://[v1.a", "/]", CLOSE),
    ],
)
def test_a_fault_is_named_with_its_place(before: str, behind: str, reason: str) -> None:
    error = refused(parse_uri, before + behind)
    assert (error.reason, error.position) == (reason, len(before))
    assert refused(parse_uri, (before + behind).encode()).position == len(before)


@pytest.mark.parametrize(
    ("before", "behind", "reason"),
    [
        ("", ":x", "what stands before the ':' is no scheme"),
        ("1", ":x", "what stands before the ':' is no scheme"),
        ("a@b", ":c/d", "what stands before the ':' is no scheme"),
        ("a", " :", re.escape(no_place(" ", "the first segment of a relative path"))),
        ("a/b", "[", re.escape(no_place("[", "a path"))),
        ("//h:", "x", "a port has only digits"),
        ("a%", ":b", ESCAPE),
        ("?a", " ", re.escape(no_place(" ", "a query"))),
        ("#", "#", re.escape(no_place("#", "a fragment"))),
    ],
)
def test_a_fault_of_a_relative_reference_is_named_with_its_place(before: str, behind: str, reason: str) -> None:
    error = refused(parse_uri_reference, before + behind)
    assert re.match(reason, error.reason)
    assert error.position == len(before)


#: with one of these, every beginning of a sentence is one
COMPLETIONS = ["", ":", "0", "00", "a:", ":x", "::]", "]", "0::]", ":]", "0]", "1:1]", ".0]", "0.0.0]", ".0.0.0]", "a]"]
COMPLETIONS += ["0.0]", "0.0.0.0]", "0.a]", ".a]", ".0.0]"]
COMPLETIONS += [":" * bool(n) + ":".join("1" * n) + "]" for n in range(1, 8)] + [
    ":".join("1" * n) + "]" for n in range(2, 8)
]


@pytest.mark.parametrize(("parse", "rule"), PARSERS)
@given(text=nearly() | pieces_of_addresses().map("x://[{}]".format) | octets() | urls() | st.text(max_size=20))
def test_the_fault_is_the_first_that_cannot_be(parse: Parse, rule: str, text: bytes | str) -> None:
    error = fault_of(parse, text)
    if error is None:
        return
    position = error.position
    assert position is not None
    before = to_bytes(text[:position]).decode("ascii")
    assert any(re.fullmatch(rule, before + end) for end in COMPLETIONS)
    if position < len(text):
        up_to = to_bytes(text[: position + 1]).decode("latin-1")
        assert not any(re.fullmatch(rule, up_to + end) for end in COMPLETIONS)


@given(uris(), st.data())
def test_a_change_is_not_reported_before_its_place(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from(' %[]:@/?#é\x00"1a')) + text[place + 1 :]
    # "a:b" is read as user information where there is an "@" behind it, and as a host with a port where there is none
    authority = re.match("[^/?#]*//()[^/?#]*", text)
    earliest = authority.start(1) if authority and authority.start(1) <= place <= authority.end() else place
    error = fault_of(parse_uri, changed)
    assert error is None or earliest <= (error.position or 0) <= len(changed)


@pytest.mark.parametrize("parse", [parse for parse, _ in PARSERS])
@given(text=octets() | urls() | st.text(max_size=40) | st.text(st.characters(categories=["Cs"]), max_size=3))
def test_any_text_is_read_or_refused_with_a_place_in_it(parse: Parse, text: bytes | str) -> None:
    error = fault_of(parse, text)
    if error is None:
        assert parse(text) == split_generic(to_bytes(text))
    else:
        assert error.value == text
        assert error.position is not None
        assert 0 <= error.position <= len(text)


@pytest.mark.parametrize(
    "unit", ["a", "%41", "%", ":", "/", "a:", "@", "a@", "[", "1:", "::", "?", "#", "1.", "//", "é", "a/", "'", "v1."]
)
@pytest.mark.parametrize("before", ["", "x:", "x://", "x://[", "x://[v1.", "x:?", "//", "x://h:1"])
def test_reading_takes_time_in_proportion_to_the_length(before: str, unit: str) -> None:
    text = (before + unit * LONG)[:LONG]
    start = time.perf_counter()
    is_valid(parse_uri_reference, text)
    assert time.perf_counter() - start < 0.5
    assert seconds(lambda: is_valid(parse_absolute_uri, text)) < 0.5
