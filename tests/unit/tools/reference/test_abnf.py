"""The grammars: what they accept, how they read it, and where and why they refuse."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.core.errors import UrlError
from hushlist.core.url.hashed_uri import UnknownAlgorithmError, parse_hashed_uri
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import Parts, split_generic
from hushlist.tools.reference.abnf import Expected, GrammarError, find_rule
from unit.rows import each_row

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

ORACLES = {"URI": URI, "absolute-URI": ABSOLUTE_URI, "URI-reference": f"(?:{URI}|{RELATIVE_REF})"}

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


def fault(rule: str, text: str) -> GrammarError | None:
    try:
        find_rule(rule).parse(text)
    except GrammarError as error:
        return error
    return None


def parts_of(text: str, rule: str = "URI-reference") -> Parts:
    """What the grammar says are the parts of a text."""
    parsed = find_rule(rule).parse(text)

    def part(*rules: str) -> bytes | None:
        found = next(filter(None, map(parsed.find, rules)), None)
        return None if found is None else text[found.start : found.end].encode()

    authority = parsed.find("authority")
    paths = ("path-abempty", "path-absolute", "path-rootless", "path-noscheme", "path-empty")
    path = part(*paths)
    assert path is not None
    host = None if authority is None else part("host")
    return Parts(part("scheme"), part("userinfo"), host, part("port"), path, part("query"), part("fragment"))


# -- what is accepted ------------------------------------------------------------------------------------------------


#: 5.4.1 and 5.4.2, and the base; all but "g:h" and "http:g" are relative
SECTION_5 = (
    *("http://a/b/c/d;p?q", "g:h", "g", "./g", "g/", "/g", "//g", "?y", "g?y", "#s", "g#s", "g?y#s", ";x", "g;x"),
    *("g;x?y#s", "", ".", "./", "..", "../", "../g", "../..", "../../", "../../g", "../../../g", "../../../../g"),
    *("/./g", "/../g", "g.", ".g", "g..", "..g", "./../g", "./g/.", "g/./h", "g/../h", "g;x=1/./y", "g;x=1/../y"),
    *("g?y/./x", "g?y/../x", "g#s/./x", "g#s/../x", "http:g"),
    # 4.2
    *("./this:that", "//example.com/x", "/x", "x/y:z"),
)


@each_row("text", SECTION_5)
def test_a_reference_may_be_relative(text: str) -> None:
    assert parts_of(text) == split_generic(text.encode())
    assert find_rule("URI").accepts(text) is bool(re.match("[a-z]+:", text))


def test_an_absolute_uri_has_no_fragment() -> None:
    assert parts_of("http://a/b/c/d;p?q", "absolute-URI") == parts_of("http://a/b/c/d;p?q", "URI")
    error = fault("absolute-URI", "http://a/?q#")
    assert error is not None
    assert (error.position, error.may_end) == (11, True)
    assert error.expected == tuple(Expected(what, "query") for what in ("pchar", '"/"', '"?"'))


@given(uris())
def test_every_sentence_of_the_grammar_is_accepted_and_split_as_by_appendix_b(text: str) -> None:
    assert re.fullmatch(URI, text), "the sample is wrong"
    assert parts_of(text, "URI") == parts_of(text) == split_generic(text.encode())


@pytest.mark.slow
@given(relative_refs())
def test_every_relative_reference_is_accepted(text: str) -> None:
    assert re.fullmatch(RELATIVE_REF, text), "the sample is wrong"
    assert parts_of(text) == split_generic(text.encode())


@pytest.mark.parametrize("rule", ORACLES)
@given(text=nearly() | uris() | relative_refs())
def test_what_is_accepted_is_what_appendix_a_says(rule: str, text: str) -> None:
    assert find_rule(rule).accepts(text) is (fault(rule, text) is None) is bool(re.fullmatch(ORACLES[rule], text))


@each_row(
    ("host", "rule"),
    [
        # 3.2.2: "If host matches the rule for IPv4address, then it should be considered an IPv4 address literal and not
        # a reg-name."
        ("0.0.0.0", "IPv4address"),
        ("255.249.199.99", "IPv4address"),
        *((host, "reg-name") for host in ("256.0.0.1", "1.2.3", "1.2.3.4.", "01.2.3.4", "1.2.3.04", "0x7f.1")),
        ("1.2.3.4.5", "reg-name"),
        ("", "reg-name"),
        ("%31.2.3.4", "reg-name"),
        ("[::1.2.3.4]", "IP-literal"),
        ("[v7.1.2.3.4]", "IP-literal"),
    ],
)
def test_the_first_rule_that_fits_a_host_is_its_rule(host: str, rule: str) -> None:
    parsed = find_rule("host").parse(host)
    assert (parsed.rule, parsed.start, parsed.end) == ("host", 0, len(host))
    assert [part.rule for part in parsed.parts] == [rule]


# -- IPv6 ------------------------------------------------------------------------------------------------------------


def pieces_of_addresses() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(["1", "ffff", "12345", ":", ":", "::", "1.2.3.4", "255.", "256", ".0", "g", "%"])
    return st.lists(pieces, max_size=18).map("".join) | st.lists(st.sampled_from(["1:", "::", "1", "0.0.0.0"])).map(
        "".join
    )


@given(ipv6_addresses() | pieces_of_addresses())
def test_an_ipv6_address_is_one_of_the_nine_productions(address: str) -> None:
    assert find_rule("URI").accepts(f"x://[{address}]") is any(re.fullmatch(rule, address) for rule in IPV6_ADDRESSES)


# -- what is refused: where, and why ---------------------------------------------------------------------------------

#: what stands before the fault, and behind it
FAULTS = {
    "URI": [
        *(("", text) for text in ("", "1http://h", "//h/", ":x")),
        *(("http", ""), ("ht", "!tp://h"), ("a", "/b:c"), ("h", "é:")),
        *(("x:", " "), ("x:/a", "[b]"), ("x:/a", "\\b"), ("x://h/a", "\n"), ("x://h/a?b", "^"), ("x://h/a?b#c", "#")),
        *(("x:a%", ""), ("x:a%", "zz"), ("x:a%4", "g"), ("x:a%4", "?x"), ("x:a%41%", "%41"), ("x:a#%", "é")),
        *(("x:a", "é"), ("x:a", "\ud800")),
        *(("x://a", " b"), ("x://a:b", "[@h"), ("x://a@b", "@c"), ("x://a%2", "@b"), ("x://a", "[b/"), ("x://a", "ü")),
        *(("x://u@h:8", "o/"), ("x://u@h:", "-1"), ("x://u@h:1", ":2"), ("x://u@h:1", "%31")),
        # a port that is none may be the beginning of user information, up to here
        *(("x://h:8o", "/"), ("x://:a", "")),
        *(("x://[", ""), ("x://[", "]"), ("x://[", "www.google.com]"), ("x://[::1", ""), ("x://[::1", "/a]")),
        *(("x://[::1]", "a"), ("x://[::1]", "@h"), ("x://[::1]:", "a"), ("x://[:", "1]"), ("x://[::", ":1]")),
        *(("x://[1111", "1::]"), ("x://[::1", "%25eth0]"), ("x://[1:2:3", "]"), ("x://[1:2:3:4:5:6:7", "]")),
        *(("x://[1:2:3:4:5:6:7:8", ":9]"), ("x://[1:2:3:4:5:6:7::", "8]"), ("x://[1::2:3:4:5:6:7", "::]")),
        *(
            ("x://[1", ".2.3.4]"),
            ("x://[1:2:3:4:5:6::1", ".2.3.4]"),
            ("x://[::256", ".0.0.1]"),
            ("x://[::01", ".0.0.1]"),
        ),
        *(("x://[::1.25", "6.0.1]"), ("x://[::1.2.3.", "]"), ("x://[::1.2", "]"), ("x://[::1.2.3.4", ".5]")),
        *(("x://[v", "]"), ("x://[v1", "]"), ("x://[V1", "g.a]"), ("x://[v1.", "]"), ("x://[v1.a", "@b]")),
    ],
    "URI-reference": [
        *(("", ":x"), ("1", ":x"), ("a@b", ":c/d"), ("a", " :"), ("a/b", "["), ("//h:x", ""), ("a%", ":b"), ("#", "#")),
    ],
    "IRI": [("http://é/", "\ue000"), ("http://é/?\ue000", " "), ("x:\u00a0", "\ufffe"), ("x:/#", "\ue000")],
    "hashed-uri": [
        *(("", "x"), ("hashed:", "=1"), ("hashed:md5", "+1"), ("hashed:md5=", "g"), ("HASHED:md5=0+", "x")),
    ],
    "hrn-URI": [("hrn:/", "a"), ("hrn://a/", "/b"), ("hrn://-/0", "-"), ("hrn://a-", "/b"), ("hrn://a/%4", "g")],
}


@each_row(("rule", "before", "behind"), [(rule, *texts) for rule, listed in FAULTS.items() for texts in listed])
def test_a_fault_is_named_with_its_place(rule: str, before: str, behind: str) -> None:
    error = fault(rule, before + behind)
    if before.endswith((":x", ":a")) and not behind:  # what is missing is the "@"
        error = fault(rule, before + "/")
    assert error is not None
    assert error.position == len(before)
    assert error.expected


#: with one of these, every beginning of a sentence is one
COMPLETIONS = ["", ":", "0", "00", "a:", ":x", "::]", "]", "0::]", ":]", "0]", "1:1]", ".0]", "0.0.0]", ".0.0.0]", "a]"]
COMPLETIONS += ["0.0]", "0.0.0.0]", "0.a]", ".a]", ".0.0]"]
COMPLETIONS += [":" * bool(n) + ":".join("1" * n) + "]" for n in range(1, 8)] + [
    ":".join("1" * n) + "]" for n in range(2, 8)
]
COMPLETIONS += [escape + "@" for escape in ("", "0", "00")]


@pytest.mark.parametrize("name", ["URI", "IRI-reference", "hrn-URI", "hashed-uri", "path"])
@given(text=st.text(max_size=40) | st.text(st.characters(categories=["Cs"]), max_size=3) | uris())
def test_a_rule_reads_any_text_or_names_a_place_in_it(name: str, text: str) -> None:
    rule, error = find_rule(name), fault(name, text)
    if error is not None:
        assert not rule.accepts(text)
        assert error.position is not None
        assert 0 <= error.position <= len(text)
        return
    parsed = rule.parse(text)
    assert (parsed.rule, parsed.start, parsed.end) == (name, 0, len(text))
    for _, part in parsed.walk():
        ends = [part.start, *(place for inner in part.parts for place in (inner.start, inner.end)), part.end]
        assert ends == sorted(ends)


# -- the other grammars ----------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(["hrn://", "HRN:", "//", "/", "-", ".", "a", "9", "@", ";", "%41", "%", "~", "é", "a.b", "-/"])
        | st.just("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        max_size=8,
    ).map(lambda pieces: "hrn://" + "".join(pieces))
)
def test_hrn_names_are_those_of_the_draft(text: str) -> None:
    try:
        parse_hrn(text)
        is_name = True
    except UrlError:
        is_name = False
    assert find_rule("hrn-URI").accepts(text) is is_name


@given(
    st.lists(
        st.sampled_from(["hashed:", "Md5", "=", "0" * 32, "0", "g", "+frag", "+QUERY", "+", ".-", "é"]), max_size=6
    )
)
def test_hashed_uris_are_those_of_the_draft(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        parse_hashed_uri(text)
    except UnknownAlgorithmError:
        is_sentence = True
    except UrlError as error:
        is_sentence = "hexadecimal digits, not" in error.reason
    else:
        is_sentence = True
    assert find_rule("hashed-uri").accepts(text) is is_sentence


def test_a_rule_is_found_whatever_its_case_and_in_a_grammar() -> None:
    assert find_rule("uri").name == "URI"
    assert find_rule("hrn:HOST").accepts("a.1") is False
    assert find_rule("host").accepts("a.1") is True
    for name in ("nothing", "hrn:URI", "x:host", ""):
        with pytest.raises(UrlError, match="no grammar has this rule"):
            find_rule(name)
