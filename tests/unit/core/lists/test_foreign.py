"""What holds for every format of other people's lists: long and dirty, and read all the same."""

import pytest

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import LONGEST_LINE, MOST_SHOWN, ListDefaults, ProblemReport
from support.readings import ListReader, read_rules
from unit.rows import each_row

STRICT = ("yaml", "hashed-uris")
#: format -> an entry, and what it becomes
ENTRIES = {
    "domains": ("a.example", "a.example/"),
    "hosts": ("0.0.0.0 a.example", "a.example/"),
    "urls": ("a.example/x", "a.example/x"),
    "squidguard-urls": ("a.example/x/", "a.example/x/"),
    "dnsmasq": ("address=/a.example/", "a.example/"),
    "rpz": ("a.example CNAME .", "a.example/"),
    "adblock": ("||a.example^", "a.example/"),
    "adblock-hosts": ("a.example", "a.example/"),
    "adblock-dns": ("a.example", "a.example/"),
    "chromium": ("a.example", "a.example/"),
    "csv": ("http://a.example/", "a.example/"),
    "addresses": ("192.0.2.1", "192.0.2.1/32"),
    "sha256": ("61626364", "sha256:61626364"),
    "file-hashes": ("ab" * 16, f"md5.files.invalid/{'ab' * 16}"),
    "tsv": ("a.example\tx", "a.example/"),
    "unbound": ('local-zone: "a.example" static', "a.example/"),
    "bind-zones": ('zone "a.example" {type master;};', "a.example/"),
    "smartdns": ("address /a.example/#", "a.example/"),
    "dnscrypt": ("=a.example", "a.example/"),
    "pihole-regex": ("^ads[0-9]", "/^ads[0-9]/"),
    "blocky": ("*.a.example", "a.example/"),
    "mikrotik": ("add name=a.example type=NXDOMAIN", "a.example/"),
    "squid-acl": ("acl x dstdomain .a.example", "a.example/"),
    "clash-text": ("+.a.example", "a.example/"),
    "surge": ("DOMAIN,a.example", "a.example/"),
    "quantumult": ("HOST,a.example", "a.example/"),
    "v2fly": ("full:a.example", "a.example/"),
    "ranked-domains": ("7,a.example", "a.example/"),
    "address-counts": ("192.0.2.1 7", "192.0.2.1/32"),
    "address-ports": ("192.0.2.1:7", "192.0.2.1/32"),
    "searches": ("b+a", "search.invalid/?a+b"),
    "words": ("b a", "words.invalid/?a+b"),
}
#: formats whose entries are no lines, each with a test of its own
DOCUMENTS = {name for name, form in FORMATS.items() if form.is_document} | {"privoxy", "pac", "public-suffixes"}
#: format -> an entry that each time is wrong for one reason
WRONG = {
    "hosts": "a.example",
    "adblock": "||...^",
    "adblock-hosts": "||...^",
    "adblock-dns": "||...^",
    "csv": "http://",
    "dnsmasq": "address=/.../",
    "searches": "!",
    "words": "!",
    "rpz": "a.example CNAME",
    "squidguard-urls": "...",
    "tsv": "http://\tx",
    "smartdns": "address /.../#",
    "mikrotik": "add name=... type=NXDOMAIN",
    "squid-acl": "acl x dstdomain ...",
    "bind-zones": 'zone "..." {type master;};',
    "ranked-domains": "7",
    "surge": "DOMAIN",
    "quantumult": "HOST",
}
READERS: dict[str, ListReader] = {name: FORMATS[name].read for name in ENTRIES}


@pytest.mark.slow
@each_row("name", ENTRIES)
def test_rules_are_read_one_after_the_other_and_have_their_terms_in_common(name: str) -> None:
    entry, pattern = ENTRIES[name]
    report = ProblemReport("f")
    rules = READERS[name]((f"{entry}\n" * 5000 + "\xff").encode("latin-1"), ListDefaults(), report)
    first = next(rules)
    assert (str(first.pattern), first.line) == (pattern, 1)
    assert report.warnings == []
    rest = list(rules)
    assert [rule.line for rule in rest] == list(range(2, 5001))
    assert all(rule.terms is first.terms for rule in rest)
    assert len(report.warnings) == 1


def test_every_format_of_other_people_is_tested_here() -> None:
    assert {*ENTRIES, *STRICT, *DOCUMENTS, "safebrowsing-raw", "services"} == set(FORMATS)


@each_row("name", ENTRIES)
def test_byte_order_mark_and_line_ends_do_not_matter(name: str) -> None:
    entry, pattern = ENTRIES[name]
    rules = ([f"1:{pattern}", f"3:{pattern}"], [])
    assert read_rules(READERS[name], f"\ufeff{entry}\r\n\r\n{entry}\r\n") == rules
    assert read_rules(READERS[name], f"{entry}\n\n{entry}") == rules


#: format -> a comment behind an entry, and on a line of its own
COMMENTS = {"rpz": (" ; ", "; "), "addresses": ("# ", "; "), "adblock": (" # ", "! "), "csv": (None, "# ")}
COMMENTS |= dict.fromkeys(("tsv", "smartdns", "pihole-regex"), (None, "# "))
COMMENTS |= {"adblock-dns": (" # ", "!"), "adblock-hosts": (" # ", "[")}


@each_row("name", ENTRIES)
def test_what_is_no_utf_8_costs_nothing_in_a_comment_and_an_entry_alone_in_an_entry(name: str) -> None:
    (entry, pattern), (behind, alone) = ENTRIES[name], COMMENTS.get(name, (" # ", "# "))
    comment = b"" if behind is None else behind.encode() + b"caf\xe9"
    octets = b"%b\xe9 x\n%b%b\n%b\xe9\r\n%b\n" % (
        alone.encode(),
        entry.encode(),
        comment,
        entry.encode(),
        entry.encode(),
    )
    rules = [f"2:{pattern}", f"4:{pattern}"]
    assert read_rules(READERS[name], octets) == (rules, ["3: b'\\xe9': left out: not UTF-8"])


@each_row("name", ENTRIES)
def test_marks_that_nobody_sees_are_skipped_where_lists_were_joined(name: str) -> None:
    entry, pattern = ENTRIES[name]
    for mark in ("\ufeff", "\u200b", "\ufeff\ufeff\u200b"):
        text = f"{mark}{entry}\n{mark}{entry}\r\n{entry}{mark}\n{mark}\n{entry[:2]}{mark}{entry[2:]}"
        assert read_rules(READERS[name], text) == ([f"{line}:{pattern}" for line in (1, 2, 3, 5)], [])


@each_row("name", ENTRIES)
def test_a_line_that_is_too_long_or_no_text_is_left_out(name: str) -> None:
    entry, pattern = ENTRIES[name]
    octets = b"\n".join((entry.encode(), b"x" * (LONGEST_LINE + 1), b"\xff" + entry.encode(), entry.encode()))
    assert read_rules(READERS[name], octets) == (
        [f"1:{pattern}", f"4:{pattern}"],
        [f"2: line: left out: it is longer than {LONGEST_LINE} octets", "3: b'\\xff': left out: not UTF-8"],
    )


@each_row("name", ENTRIES)
@each_row("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_an_error(name: str, encoding: str) -> None:
    report = ProblemReport("f")
    assert list(READERS[name]("a.example".encode(encoding), ListDefaults(), report)) == []
    assert [problem.why for problem in report.errors] == ["the file is in UTF-16; lists are in UTF-8"]


@pytest.mark.slow
@each_row("name", ENTRIES)
def test_of_many_faults_with_one_reason_the_first_are_shown(name: str) -> None:
    wrong = WRONG.get(name, "/ /")
    rules, warnings = read_rules(READERS[name], f"{ENTRIES[name][0]}\n" + f"{wrong}\n" * 5000)
    assert len(rules) == 1
    assert len(warnings) == MOST_SHOWN + 1
    assert warnings[-1].startswith(f"{MOST_SHOWN + 2}: {5000 - MOST_SHOWN:,} more: left out: ")
    assert warnings[-1].endswith(" (the last in line 5001)")


@each_row(
    ("name", "text"),
    [
        ("domains", "zip\n*.zip"),
        ("hosts", "0.0.0.0 zip"),
        ("urls", "http://zip/"),
        ("dnsmasq", "address=/zip/"),
        ("rpz", "*.zip CNAME .\nzip CNAME ."),
        ("adblock", "||zip^"),
        ("yaml", "rules: [zip]"),
    ],
)
def test_a_top_level_name_is_a_rule(name: str, text: str) -> None:
    rules, warnings = read_rules(FORMATS[name].read, text)
    assert ({rule.partition(":")[2] for rule in rules}, warnings) == ({"zip/"}, [])


def test_many_reasons_are_told_apart_only_up_to_a_number() -> None:
    text = "".join(f"directive-{number}=x\n" for number in range(5000))
    _, warnings = read_rules(READERS["dnsmasq"], text)
    assert len(warnings) == 101
    assert warnings[-1] == "101: directive-100=x: left out: other reasons (the first of 4,900)"
