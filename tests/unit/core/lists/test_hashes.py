"""Lists of bare hashes."""

from hashlib import sha256

from hushlist.core.lists.hash_lists import read_safebrowsing_raw, read_sha256
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action
from support.readings import read_rules
from unit.rows import each_row

FULL = sha256(b"a.example/").hexdigest()


def test_hashes_and_prefixes_in_hexadecimal_are_rules() -> None:
    text = f"# x\n{FULL}\r\n  {FULL[:8]} # why\n{FULL[:62].upper()}\n"
    assert read_rules(read_sha256, text) == ([f"2:sha256:{FULL}", f"3:sha256:{FULL[:8]}", f"4:sha256:{FULL[:62]}"], [])


@each_row(
    ("line", "why"),
    [
        ("x.example", "expected pairs of hexadecimal digits"),
        (FULL[:9], "expected pairs of hexadecimal digits"),
        (FULL[:6], "expected 8 to 64 hexadecimal digits"),
        (f"{FULL}00", "expected 8 to 64 hexadecimal digits"),
        (f"{FULL[:8]}  file", "expected pairs of hexadecimal digits"),
    ],
)
def test_what_is_no_hash_is_left_out(line: str, why: str) -> None:
    assert read_rules(read_sha256, f"{FULL}\n{line}") == ([f"1:sha256:{FULL}"], [f"2: {line}: left out: {why}"])


def test_a_prefix_never_allows() -> None:
    why = "only a full hash of 64 hexadecimal digits can allow, not a prefix of one"
    allow = ListDefaults(action=Action.ALLOW)
    assert read_rules(read_sha256, f"{FULL}\n{FULL[:8]}", allow) == (
        [f"+1:sha256:{FULL}"],
        [f"2: {FULL[:8]}: left out: {why}"],
    )
    raw = ListDefaults(action=Action.ALLOW, prefix_length=4)
    assert read_rules(read_safebrowsing_raw, b"abcd", raw) == ([], [f"1: 61626364: left out: {why}"])


@each_row("length", [4, 5, 16, 32])
def test_raw_prefixes_are_rules_by_number(length: int) -> None:
    prefixes = sorted(sha256(b"%d" % number).digest()[:length] for number in range(9))
    rules, warnings = read_rules(read_safebrowsing_raw, b"".join(prefixes), ListDefaults(prefix_length=length))
    assert rules == [f"{number}:sha256:{prefix.hex()}" for number, prefix in enumerate(prefixes, 1)]
    assert warnings == []


@each_row(
    ("octets", "length", "error"),
    [
        (b"abcd", None, "f: prefix-length: a binary list needs the length of its prefixes, 4 to 32 octets"),
        (b"abcd", 3, "f: prefix-length: a binary list needs the length of its prefixes, 4 to 32 octets"),
        (b"abcde", 4, "f: prefix-length: 5 octets are no whole number of prefixes of 4"),
        (b"bbbbaaaa", 4, "f:2: sha256:61616161: the prefixes are not sorted: is their length right?"),
    ],
)
def test_a_binary_list_that_is_read_with_the_wrong_length_is_an_error(
    octets: bytes, length: int | None, error: str
) -> None:
    report = ProblemReport("f")
    rules = list(read_safebrowsing_raw(octets, ListDefaults(prefix_length=length), report))
    assert [rule.line for rule in rules] == list(range(1, report.errors[0].line))
    assert list(map(str, report.errors)) == [error]
