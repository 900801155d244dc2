"""Plain lists of domains, URLs and hosts."""

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.errors import Problem
from hushlist.core.extension import ListFormat
from hushlist.core.lists import plain_lists
from hushlist.core.lists.list_formats import FOLDERS, FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.plain_lists import read_domains, read_hosts, read_urls
from hushlist.core.match.rule import Action, Rule, RuleBlock, each_rule
from hushlist.extensions.adblock import filter_lists
from hushlist.extensions.formats import squidguard_lists
from unit.rows import each_row

Reader = Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]


def read(
    reader: Reader, text: str | bytes, defaults: ListDefaults | None = None
) -> tuple[list[tuple[int, str]], list[str], list[str]]:
    report = ProblemReport("f")
    rules = each_rule(reader(text if isinstance(text, bytes) else text.encode(), defaults or ListDefaults(), report))
    found = [(rule.line, str(rule.pattern)) for rule in rules]
    return found, list(map(str, report.errors)), list(map(str, report.warnings))


@each_row(
    ("reader", "text", "rules"),
    [
        (
            read_domains,
            "# x\na.example\n\n.b.example # y\n*.c.example/\n",
            [(2, "a.example/"), (4, "b.example/"), (5, "c.example/")],
        ),
        (read_domains, "A.Example\r\nbücher.example", [(1, "a.example/"), (2, "xn--bcher-kva.example/")]),
        (read_domains, "1.2.3.4\n::1", [(1, "1.2.3.4/"), (2, "[::1]/")]),
        (read_urls, "a.example/x\nhttp://b.example/y?q#z\n", [(1, "a.example/x"), (2, "b.example/y?q")]),
        (read_urls, "https://a.example/x\nhttp://b.example\n", [(1, "a.example/x"), (2, "b.example/")]),
        (
            read_hosts,
            "0.0.0.0 a.example b.example # x\n127.0.0.1\tlocalhost\n::1 ip6-localhost LOCALHOST c.example\n",
            [(1, "a.example/"), (1, "b.example/"), (3, "c.example/")],
        ),
        (read_hosts, "0.0.0.0 0.0.0.0\n127.0.0.1 local broadcasthost localhost.localdomain", []),
        (
            read_hosts,
            "0 a.example\n:: b.example#x\n127.0.0.53 c.example",
            [(1, "a.example/"), (2, "b.example/"), (3, "c.example/")],
        ),
        (read_hosts, "255.255.255.255 broadcasthost\nfe80::1%lo0 localhost\nff02::1 ip6-allnodes", []),
        (read_hosts, "::1 ip6-loopback\nfe00::0 ip6-localnet ip6-mcastprefix\nff02::2 ip6-allrouters ip6-allhosts", []),
    ],
)
def test_lists_that_people_have_are_read(reader: Reader, text: str, rules: list[object]) -> None:
    assert read(reader, text) == (rules, [], [])


def test_a_block_of_hosts_at_an_address_that_leads_somewhere_is_left_out() -> None:
    rules, _, warnings = read(read_hosts, "192.0.2.7 a.example\n192.0.2.7 b.example\n")
    what = "an address that is given to names: it blocks nothing (the first of 2)"
    assert (rules, warnings) == ([], [f"f:1: 192.0.2.7 a.example: left out: {what}"])


@each_row(
    ("reader", "line", "warning"),
    [
        (read_domains, "a.example/x", "f:2: a.example/x: left out: a domain has neither user nor path"),
        (read_domains, "http://a.example", "f:2: http://a.example: left out: a domain has neither user nor path"),
        (read_domains, "a.example?q", "f:2: a.example?q: left out: a domain has neither user nor path"),
        (read_domains, "a\\b", "f:2: a\\b: left out: a domain has neither user nor path"),
        (read_domains, "a b", "f:2: a b: left out: there is white space in it"),
        (read_domains, "*.", "f:2: *.: left out: it names no host"),
        (read_domains, "...", "f:2: ...: left out: it names no host"),
        (
            read_domains,
            "a.*.example",
            "f:2: a.*.example: left out: '*' is no wildcard here; a rule fits its host, all hosts below it, "
            "and all paths below it",
        ),
        (read_urls, "/x", "f:2: /x: left out: it names no host"),
        (read_urls, "mailto:me@a.example", "f:2: mailto:me@a.example: left out: it names no host"),
        (read_hosts, "a.example", "f:2: a.example: left out: expected an address and a name"),
        (read_hosts, "a.example b.example", "f:2: a.example b.example: left out: expected an address and a name"),
        (read_hosts, "! Title: x", "f:2: ! Title: x: left out: expected an address and a name"),
        (read_hosts, "dead a.example", "f:2: dead a.example: left out: expected an address and a name"),
        (
            read_hosts,
            "216.239.38.120 www.google.com",
            "f:2: 216.239.38.120 www.google.com: left out: an address that is given to names: it blocks nothing",
        ),
        (read_hosts, "0.0.0.0 a.example/x", "f:2: a.example/x: left out: a domain has neither user nor path"),
        (read_hosts, "0.0.0.0 a.example,b", "f:2: a.example,b: left out: no name of a host has ',' in it"),
        (read_domains, '"a.example"', 'f:2: "a.example": left out: no name of a host has \'"\' in it'),
        (read_domains, "<html>", "f:2: <html>: left out: no name of a host has '<' in it"),
        (
            read_urls,
            "1;http://a.example/x",
            "f:2: 1;http://a.example/x: left out: what stands in front of '://' is no host",
        ),
        (read_urls, "hxxp://a[.]example/", "f:2: hxxp://a[.]example/: left out: no name of a host has '[' in it"),
        (
            read_urls,
            "http://https://a.example/",
            "f:2: http://https://a.example/: left out: what stands in front of '://' is no host",
        ),
        (read_urls, "x@a.example", "f:2: x@a.example: left out: a mail address is no host"),
        (
            read_urls,
            "192.0.2.0/24",
            "f:2: 192.0.2.0/24: left out: an address range is no URL; the format 'addresses' reads ranges",
        ),
        (
            read_urls,
            "https://a.example/x/*",
            "f:2: https://a.example/x/*: left out: '*' is no wildcard here; a rule fits its host, all hosts below it, "
            "and all paths below it",
        ),
        (read_hosts, "0.0.0.0 ...", "f:2: ...: left out: it names no host"),
    ],
)
def test_a_line_that_cannot_be_read_is_left_out_with_a_warning(reader: Reader, line: str, warning: str) -> None:
    before = {read_hosts: "0.0.0.0 first.example"}.get(reader, "first.example")
    assert read(reader, f"{before}\n{line}\n") == ([(1, "first.example/")], [], [warning])


# What lists are full of, and what hardly any has. Lines that are as they should be are read many at once, and others
# one by one: with a pattern that nothing fits, all are.
WORDS = (
    *("a.example", "b", "xn--p1ai", "local", "localhost", "1.2.3.4", "a.example/x", "a.example/x/", "b.example/~/y.z"),
    *("http://a.example", "https://a.example/x/y", "http://1.2.3.4/"),
)
ODD_WORDS = (
    *("127.1", "A.example", "ü", "#", "# x", "", ".", "a..b", "*.a.example", ".a.example", "1.2.3.0/24", "x@a.example"),
    *(
        "a.example # x",
        "a.example x",
        "HTTP://a.example",
        "http://http://a",
        "a.example//x",
        "a.example/.",
        "\ufeffa",
        "|",
    ),
    *(
        "a.example/?q",
        "a.example/?",
        "a.example:80",
        "1.2.3",
        "01.2.3.4",
        "a.",
        "\x00",
        "\x85",
        "a\x0bb",
        "!",
        "##.x",
        "-",
    ),
)
BEFORE = (
    "",
    "",
    "0.0.0.0 ",
    "127.0.0.1 ",
    "0.0.0.0\t",
    "::1 ",
    "0 ",
    "0.0.0.0 \t",
    " ",
    "#",
    "||",
    "||",
    "@@||",
    "127.0.0.2 ",
)
BEHIND = ("", "", "", " ", "\t", "^", "^", "^$third-party", "|", "$", " #x", "\r")
ENDS = ("\n", "\n", "\n", "\n\n", "\r\n", "\r\r\n", "\x85", "\u2028", "\r")
IN_BLOCKS = [
    *(FORMATS[name] for name in ("domains", "hosts", "urls", "squidguard-urls", "adblock", "adblock-hosts")),
    FOLDERS["squidguard"]["domains"],
]


@st.composite
def lists(draw: st.DrawFn) -> bytes:
    before, behind, end = (draw(st.sampled_from(some)) for some in (BEFORE, BEHIND, ENDS))
    words = st.sampled_from(WORDS)
    usual = words.map(lambda word: f"{before}{word}{behind}{end}".encode())
    parts = st.tuples(st.sampled_from(BEFORE), words | st.sampled_from(ODD_WORDS), st.sampled_from(BEHIND))
    odd = st.tuples(parts.map("".join), st.sampled_from(ENDS)).map("".join).map(str.encode)
    lines = draw(st.lists(usual | usual | odd | st.binary(max_size=6), max_size=8))
    return b"".join(lines)[: draw(st.sampled_from((None, -1)))]


@pytest.mark.parametrize("form", IN_BLOCKS, ids=lambda form: form.reader)
@settings(max_examples=settings.default.max_examples // 2)
@given(octets=lists(), defaults=st.sampled_from((ListDefaults(), ListDefaults(action=Action.TAG))))
def test_lines_that_are_read_at_once_are_read_as_each_alone_is(
    form: ListFormat, octets: bytes, defaults: ListDefaults
) -> None:
    def read_all() -> tuple[list[Rule], list[Problem], list[Problem], int]:
        report = ProblemReport("f")
        rules = [*form.read(octets, defaults, report)]
        return rules, report.errors, report.warnings, report.refused

    at_once = read_all()
    with pytest.MonkeyPatch.context() as patch:
        nothing = re.compile(rb"(?!)")
        for module, name in (
            (plain_lists, "_NAMES"),
            (plain_lists, "URLS"),
            (squidguard_lists, "URLS"),
            (plain_lists, "_SUNK"),
            (filter_lists, "_SITES"),
        ):
            patch.setattr(module, name, nothing)
        assert read_all() == at_once


@pytest.mark.parametrize("name", ["urls", "squidguard-urls", "csv"])
def test_a_host_with_a_fragment_is_a_rule_only_if_asked_for(name: str) -> None:
    text = (
        "http://a.example/#x\nhttp://b.example/y/#x\nhttp://c.example/#\nhttp://d.example#/x\nhttp://e.example/.//?#x\n"
    )
    why = "browsers do not send what follows '#': no request fits; 'fragments: drop' makes it a rule for the site"
    rules, _, warnings = read(FORMATS[name].read, text.encode())
    assert rules == [(2, "b.example/y/"), (3, "c.example/")]
    assert [warning.split(": left out: ")[1] for warning in warnings] == [why] * 3
    rules, _, warnings = read(FORMATS[name].read, text.encode(), ListDefaults(fragments="drop"))
    assert ([line for line, _ in rules], warnings) == ([1, 2, 3, 4, 5], [])
