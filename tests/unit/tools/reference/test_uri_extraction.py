"""URIs in free text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.tools.reference.uri_extraction import ExtractedUri, extract
from unit.hostile import LONG, seconds
from unit.rows import each_row


def found_in(text: str) -> list[str]:
    return [found.uri for found in extract(text)]


# -- Appendix C ------------------------------------------------------------------------------------------------------

ADDRESSING, RFC, WARNING = (
    "http://www.w3.org/Addressing/",
    "ftp://foo.example.com/rfc/",
    "http://www.ics.uci.edu/pub/ietf/uri/historical.html#WARNING",
)
EXAMPLE = """\
      Yes, Jim, I found it under "http://www.w3.org/Addressing/",
      but you can probably pick it up from <ftp://foo.example.
      com/rfc/>.  Note the warning in <http://www.ics.uci.edu/pub/
      ietf/uri/historical.html#WARNING>.
"""


def test_the_example_of_appendix_c_has_its_three_uris() -> None:
    assert found_in(EXAMPLE) == [ADDRESSING, RFC, WARNING]


@each_row("line_end", ["\r\n", "\r", " ", "\t\n "])
def test_so_it_has_with_any_white_space_between_the_lines(line_end: str) -> None:
    assert found_in(EXAMPLE.replace("\n", line_end)) == [ADDRESSING, RFC, WARNING]


def test_the_prose_of_appendix_c_has_the_uris_that_it_quotes() -> None:
    text = (
        'usually within double-quotes "http://example.com/", angle brackets <http://example.com/>, or just by using\n'
        "whitespace:\n\n http://example.com/\n\nThese wrappers do not form part of the URI. Using <> angle brackets "
        'around each URI is especially recommended. The prefix "URL:" (with or without a trailing space) was formerly'
    )
    assert found_in(text) == ["http://example.com/"] * 3


@each_row(
    "text",
    [
        *("URL:http://h/a", "URL: http://h/a", "<URL:http://h/a>", "<URL: http://h/a>", '"URL:http://h/a"'),
        *('"URL: http://h/a"', "url:http://h/a", "(Url: http://h/a)", "<\nURL:\nhttp://h/a\n>", "see URL:http://h/a."),
        *("< http://h/a >", "http://h/a", "\thttp://h/a\n", '"http://h/a"', "<http:\n//h\n/a>", '"http://h\r\n\t/a"'),
    ],
)
def test_what_delimits_a_uri_is_no_part_of_it(text: str) -> None:
    (found,) = extract(text)
    assert found.uri == "http://h/a"


@each_row(
    ("text", "uris"),
    [
        ('say "go to http://h/a." now', ["http://h/a"]),
        ('"a" http://h/a. "b" "http://h/b" "', ["http://h/a", "http://h/b"]),
        ('5" http://h/a, 6"', ["http://h/a"]),
        ('<a href="http://h/a">http://h/b</a>', ["http://h/a", "http://h/b"]),
        ("<p>http://h/a<br>x", ["http://h/a"]),
        ("<http://h/a", ["http://h/a"]),
        ("<http://h/a\n\nand so on>", ["http://h/a"]),
        ("<http://h/a\r\n \t\r\nand so on>", ["http://h/a"]),
        ('"http://h/a\n\nx"', ["http://h/a"]),
        ("<http://h/a{b}>", ["http://h/a"]),
        ("<http://[>http://h/a", ["http://h/a"]),
        ('<>""<URL:>"URL:"<URL: >', []),
        # in angle brackets all white space is removed, in quotes line breaks alone; nothing is the sentence's
        ('<http://h/a b\n c> "http://h/a b" "http://h/a\n  b"', ["http://h/abc", "http://h/a", "http://h/ab"]),
        ('"http://h/a\n b c"', ["http://h/a"]),
        ('<http://h/a.> "http://h/b)" <http://h/c?>', ["http://h/a.", "http://h/b)", "http://h/c?"]),
    ],
)
def test_what_is_not_one_uri_in_its_delimiters_is_read_as_text(text: str, uris: list[str]) -> None:
    assert found_in(text) == uris


# -- the hyphen rule -------------------------------------------------------------------------------------------------


@each_row(
    ("text", "candidates"),
    [
        ("<http://h/a-\n  b>", ("http://h/a-b", "http://h/ab")),
        ('"http://h/a- \r\n  b"', ("http://h/a-b", "http://h/ab")),
        ("<http://h/a-b\nc>", ("http://h/a-bc",)),
        ("<http://h/a- b>", ("http://h/a-b",)),  # "a line break immediately after a hyphen"
        ("<http://h/a\n-b>", ("http://h/a-b",)),
        ("<http://h/a-\nb-c-\nd>", ("http://h/a-b-c-d", "http://h/ab-cd")),
        ("<http://h/a-\n>", ("http://h/a-",)),  # the line break is not in it
        ("http://h/a-\nb", ("http://h/a-",)),  # white space ends it
    ],
)
def test_a_hyphen_at_a_line_s_end_may_or_may_not_be_part_of_the_uri(text: str, candidates: tuple[str, ...]) -> None:
    (found,) = extract(text)
    assert found.candidates == candidates


# -- in a sentence ---------------------------------------------------------------------------------------------------


@each_row("behind", [*".,;:!?')]", "...", "?!", "').", "),", "])", "';", '"', ">", "”", "»", "…", "。", "）"])
def test_punctuation_behind_a_uri_is_the_sentence_s(behind: str) -> None:
    for uri in ("http://h/a", "http://h", "www.h.example", "mailto:a@h"):
        assert found_in(f"see {uri}{behind} and") == found_in(f"see {uri}{behind}") == [uri]


@each_row(
    ("text", "uris"),
    [
        ("http://h/a_(b)", ["http://h/a_(b)"]),
        ("(http://h/a_(b))", ["http://h/a_(b)"]),
        ("(see http://h/a_(b), too)", ["http://h/a_(b)"]),
        ("(see http://h/a_(b).)", ["http://h/a_(b)"]),
        ("http://h/(a)(b))))", ["http://h/(a)(b)"]),
        ("(http://h/a)b", ["http://h/a"]),
        ("http://h/a)b", ["http://h/a)b"]),
        ("[x](http://h/a)[y](http://h/b)", ["http://h/a", "http://h/b"]),
        ("[[http://h/a][x]] [http://[::1]:80/]", ["http://h/a", "http://[::1]:80/"]),
        ("http://h/?a[]=1&b[c]=2]", ["http://h/?a[]=1&b[c]=2"]),
        ("http://[::1].", ["http://[::1]"]),
        ("'http://h/a','http://h/b'", ["http://h/a", "http://h/b"]),
        ("f('http://h/a')", ["http://h/a"]),
        ("http://h/it's", ["http://h/it's"]),
        ("“http://h/a” ‘http://h/b’ «http://h/c»", ["http://h/a", "http://h/b", "http://h/c"]),
        ("（http://h/a）、http://h/b。", ["http://h/a", "http://h/b"]),
        ("\ufeffhttp://h/a\u200bhttp://h/b\u2028http://h/c", ["http://h/a", "http://h/b", "http://h/c"]),
        ("http://h/a|http://h/b`http://h/c`{http://h/d}\\", [f"http://h/{x}" for x in "abcd"]),
        ("x=http://h/a;-http://h/b 1http://h/c ...http://h/d", ["http://h/a;-http://h/b", "http://h/c", "http://h/d"]),
        ("http://web.example/http://h/a", ["http://web.example/http://h/a"]),
        ("http://h/a?b=c&d#e/~f", ["http://h/a?b=c&d#e/~f"]),
        ("http://h/a%zz", ["http://h/a%zz"]),
        ("http://bücher.example/straße?q=ü#é.", ["http://bücher.example/straße?q=ü#é"]),
        ("http://h/\udce9.", ["http://h/\udce9"]),
    ],
)
def test_where_a_uri_ends(text: str, uris: list[str]) -> None:
    assert found_in(text) == uris


@each_row(
    "uri",
    [
        # 1.1.2
        *("ftp://ftp.is.co.za/rfc/rfc1808.txt", "http://www.ietf.org/rfc/rfc2396.txt", "tel:+1-816-555-1212"),
        *("ldap://[2001:db8::7]/c=GB?objectClass?one", "mailto:John.Doe@example.com", "telnet://192.0.2.16:80/"),
        *("news:comp.infosystems.www.servers.unix", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2"),
        # 3, 7.6
        "foo://example.com:8042/over/there?name=ferret#nose",
        "ftp://cnn.example.com&story=breaking_news@10.0.0.1/top_story.htm",
        *("file:///etc/hosts", "svn+ssh://u@h/x", "HTTP://H/", "hrn://abc.com/ads", "hashed:sha1=00", "http://h:/"),
        *("http://[v1.a]/", "http://%41/", "x://h"),
    ],
)
def test_a_uri_is_found_whole_whatever_delimits_it(uri: str) -> None:
    for around in ("{}", "<{}>", '"{}"', "({})", "Here: {}, it is.", "a\n{}\nb", "<URL:{}>", "URL:{}"):
        assert found_in(around.format(uri)) == [uri], around


@each_row(
    ("text", "uris"),
    [
        # 4.5: "www.w3.org/Addressing/"
        ("see www.w3.org/Addressing/.", ["www.w3.org/Addressing/"]),
        ("(WWW.example.com:80/x?y)", ["WWW.example.com:80/x?y"]),
        ("<www.example.\ncom/x>", ["www.example.com/x"]),
        ("URL:www.example.com http:www.example.com", ["www.example.com", "www.example.com"]),
        ("www.a.example,www.b.example", ["www.a.example,www.b.example"]),
        ("www.ü.example", ["www.ü.example"]),
        ("me@www.example.com /var/www.example.com C:\\www.example.com awww.example.com x.www.example.com", []),
        ("www. www.. www.- ww.example.com example.com www.[", []),
    ],
)
def test_a_name_that_begins_with_www_is_found_too(text: str, uris: list[str]) -> None:
    assert found_in(text) == uris


NONE = (
    "note:this C:\\x 12:30 a:b std::string http: http:/ http:// ://h http://. http://... http:h mailto: mailto:. 1://h "
)
NONE += "<note:this> http://h:port/x http://[::1/ http://[x]/ http://a@b@c/ http://%/ http://h%zz/ http://{host}/ "
NONE += 'http://${host}/ http://<host>/ URL URL: URL:/x "a:b"'


@each_row("text", [*NONE.split(), "", " ", "Note: this", "http:// h", "mailto: x", "URL: the", "<x:y z>"])
def test_what_is_no_uri_is_not_found(text: str) -> None:
    assert found_in(text) == []


@each_row("text", ["URL:note:this", "<URL:note:this>", '"URL:note:this"', "<URL:note:\nth is>"])
def test_behind_the_prefix_any_scheme_is_one(text: str) -> None:
    assert found_in(text) == ["note:this"]


# -- where it stands -------------------------------------------------------------------------------------------------


def test_a_uri_has_an_offset_an_end_and_a_line() -> None:
    text = 'http://h/a\r\n<URL: http://h/\n b >\n\n\r"http://h/c".\nwww.h'
    assert list(extract(text)) == [
        ExtractedUri("http://h/a", 0, 10, 1),
        ExtractedUri("http://h/b", 18, 30, 2),
        ExtractedUri("http://h/c", 36, 46, 6),
        ExtractedUri("www.h", 49, 54, 7),
    ]


MARKS = "http:// ftp:// www. mailto: URL: x: :// // / a b.example h @ % ? # < > \" ' ( ) [ ] [::1] . , ; : ! - { \\ _ 1"
PIECES = (
    *MARKS.split(),
    *("URL: ", "-\n", "\n", "\r\n", " ", "\t", "\n\n", "é", "。", "”", "\u200b", "\x00", "\udce9"),
)
REPEATED = """
a a: a. - +a é http://[ x://[ [http:// www.[ www.a[ URL: URL:a://[ < " ' <URL: (a://.) 'a://.' (a://x ( ) () http://a).
http://a() mailto:) a://@ www. :// ).
"""


def texts() -> st.SearchStrategy[str]:
    return st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@given(texts() | st.text(st.characters(categories=["Cs", "Cc", "Po", "Ps", "Pe"]), max_size=20))
def test_each_found_uri_stands_in_the_text_and_none_overlaps_another(text: str) -> None:
    last = 0
    for found in extract(text):
        assert last <= found.offset < found.end <= len(text)
        assert re.sub(r"\s", "", text[found.offset : found.end]) == found.uri
        assert found.line == 1 + len(re.findall(r"\r\n|\r|\n", text[: found.offset]))
        for candidate in found.candidates:
            assert candidate.replace("-", "") == found.uri.replace("-", "")
        last = found.end


@given(texts())
def test_a_uri_that_was_found_is_found_again_when_it_stands_alone(text: str) -> None:
    for found in extract(text):
        assert found_in(f"<URL:{found.uri}>") == [found.uri]


@pytest.mark.slow
@given(texts(), texts())
def test_a_blank_line_separates_texts(first: str, second: str) -> None:
    assert found_in(f"{first}\n\n>\n\n{second}") == [*found_in(f"{first}\n\n>\n\n"), *found_in(second)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "behind"), [("", ""), ("<http://x", ">"), ('"http://x', '"'), ("(http://x", ")"), ("URL:x:", "")]
)
def test_extracting_takes_time_in_proportion_to_the_length(before: str, behind: str) -> None:
    units = [*REPEATED.split(), " ", "\n", "\r", "- ", "-\n", "<http://a ", '"http://a\n', "<a:-\n", "a://b "]
    for unit in units:
        text = before + unit * (LONG // 4 // len(unit)) + behind
        assert seconds(lambda text=text: list(extract(text))) < 0.2, unit
