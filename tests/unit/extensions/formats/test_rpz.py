"""Response policy zones."""

from hushlist.extensions.formats.rpz import read_rpz
from support.readings import read_rules
from unit.rows import each_row

HEAD = "$TTL 2h;\n$ORIGIN rpz.example.\n@ SOA a.example. b.example. ( 1 12h ; serial\n 15m 3w 2h )\n  NS a.example.\n"


@each_row(
    ("text", "rules"),
    [
        ("a.example CNAME .", ["6:a.example/"]),
        ("*.a.example CNAME .", ["6:a.example/"]),
        ("a.example CNAME *.\nb.example CNAME rpz-drop.", ["6:a.example/", "7:b.example/"]),
        ("a.example CNAME rpz-passthru.\n*.b.example cname RPZ-PASSTHRU.", ["+6:a.example/", "+7:b.example/"]),
        ("a.example CNAME a.example.", ["+6:a.example/"]),
        ("a.example A 0.0.0.0\n AAAA ::\nb.example A 127.0.0.1", ["6:a.example/", "7:a.example/", "8:b.example/"]),
        # classes and TTLs in any order
        ("a.example 60 IN CNAME .\nb.example IN 1h30m CNAME .\nc.example IN CNAME .\nd.example 1w CNAME .",
         ["6:a.example/", "7:b.example/", "8:c.example/", "9:d.example/"]),
        ("a.example CH CNAME .\nb.example HS CNAME .\nc.example CS CNAME .",
         ["6:a.example/", "7:b.example/", "8:c.example/"]),
        # what signs the zone
        (" RRSIG NS 8 2 60 1 2 3 rpz. x\n NSEC a SOA\n NSEC3 1 0 0 - x\n NSEC3PARAM 1 0 0 -\n DNSKEY 256 3 8 x\n"
         " CDS 1 8 2 x\n CDNSKEY 256 3 8 x\n ZONEMD 1 1 1 x\na.example CNAME .", ["14:a.example/"]),
        # absolute owners, and another origin
        ("A.Example.RPZ.example. CNAME .", ["6:a.example/"]),
        ("$ORIGIN example.rpz.example.\na CNAME .\n$ORIGIN b\nx CNAME .", ["7:a.example/", "9:x.b.example/"]),
        # comments, quotes, parentheses
        ("; a.example CNAME .\na.example CNAME . ; why\n\n   ; b", ["7:a.example/"]),
        ("a.example (\n CNAME\n . )\nb.example CNAME .", ["6:a.example/", "9:b.example/"]),
        ("bücher.example CNAME .", ["6:xn--bcher-kva.example/"]),
        # addresses
        ("32.1.2.0.192.rpz-ip CNAME .\n24.0.2.0.192.rpz-ip CNAME .", ["6:192.0.2.1/32", "7:192.0.2.0/24"]),
        ("128.1.zz.db8.2001.rpz-ip CNAME .\n32.zz.db8.2001.rpz-ip CNAME .", ["6:2001:db8::1/128", "7:2001:db8::/32"]),
        ("128.7.zz.rpz-ip CNAME .", ["6:::7/128"]),
        ("32.1.2.0.192.rpz-ip CNAME rpz-passthru.", ["+6:192.0.2.1/32"]),
    ],
)  # fmt: skip
def test_names_without_an_answer_are_rules(text: str, rules: list[str]) -> None:
    assert read_rules(read_rpz, HEAD + text) == (rules, [])
    assert read_rules(read_rpz, (HEAD + text).replace("\n", "\r\n")) == (rules, [])


@each_row(
    "head",
    [
        "",  # without a name
        "@ SOA a. b. 1 2 3 4 5",
        "rpz.example. SOA a. b. 1 2 3 4 5\n$ORIGIN rpz.example.",
        "$ORIGIN .\nrpz.example SOA a. b. 1 2 3 4 5\n$ORIGIN rpz.example.",
        "$ORIGIN rpz.example.",
    ],
)
def test_a_zone_s_name_is_that_of_its_soa_or_its_first_record_s_origin(head: str) -> None:
    rules, warnings = read_rules(read_rpz, head + "\na.example CNAME .\n$ORIGIN org.rpz.example.\nb CNAME .")
    assert rules[0].partition(":")[2] == "a.example/"
    assert warnings or rules[1].partition(":")[2] == "b.org/"
    assert bool(warnings) == (not head.count("rpz.example"))


@each_row(
    ("line", "warning"),
    [
        ("x.example CNAME rpz-tcp-only.", "rpz-tcp-only: it blocks nothing"),
        ("x.example CNAME wall.example.", "data that is answered instead"),
        # answers for what is below the name, where "x.example CNAME x.example." is an old way to pass it
        ("*.x.example CNAME x.example.", "data that is answered instead"),
        ("*.x.example CNAME *.x.example.", "data that is answered instead"),
        ("x.example A 192.0.2.1", "data that is answered instead"),
        ('x.example TXT "a ; ( b"', "data that is answered instead"),
        ("@ TXT x", "data of the zone itself"),
        ("8.0.0.0.127.rpz-client-ip CNAME .", "a trigger 'rpz-client-ip'"),
        ("ns.example.rpz-nsdname CNAME .", "a trigger 'rpz-nsdname'"),
        ("32.1.2.0.192.rpz-nsip CNAME .", "a trigger 'rpz-nsip'"),
        ("24.1.2.0.192.rpz-ip CNAME .", "expected a prefix length and an address, both reversed"),
        ("99.1.2.0.192.rpz-ip CNAME .", "expected a prefix length and an address, both reversed"),
        ("rpz-ip CNAME .", "expected a prefix length and an address, both reversed"),
        ("x.other. CNAME .", "its owner is not in the zone"),
        ("* CNAME .", "no rule fits every host"),
        ("x.example CNAME", "expected an owner, a type and data"),
        ("x.example", "expected an owner, a type and data"),
        ("$INCLUDE other.zone", "a directive '$include'"),
        ("$GENERATE 1-9 a$ CNAME .", "a directive '$generate'"),
    ],
)
def test_other_records_are_left_out(line: str, warning: str) -> None:
    rules, warnings = read_rules(read_rpz, f"{HEAD}a.example CNAME .\n{line}\nb.example CNAME .")
    assert rules == ["6:a.example/", "8:b.example/"]
    assert warnings == [f"7: {line}: left out: {warning}"]


def test_a_parenthesis_that_stays_open_costs_a_bounded_part_of_the_list() -> None:
    filling = "; " + "x" * 998 + "\n"
    rules, warnings = read_rules(read_rpz, "x.example CNAME ( .\n" + filling * 80 + "a.example CNAME .\ny ( \n")
    assert rules == ["82:a.example/"]
    why = "left out: its parenthesis is not closed"
    assert warnings == [f"1: x.example CNAME ( .: {why}", f"83: y (: {why}"]


@each_row(("passed", "blocked"), [("x.example", "*.x.example"), ("*.x.example", "x.example")])
@each_row("passes_first", [True, False])
def test_a_name_is_not_passed_where_the_zone_blocks_what_else_its_rule_fits(
    passed: str, blocked: str, passes_first: bool
) -> None:
    lines = [f"{passed} CNAME rpz-passthru.", f"{blocked} CNAME ."]
    lines = lines if passes_first else lines[::-1]
    line = 6 + lines.index(f"{passed} CNAME rpz-passthru.")
    rules, warnings = read_rules(read_rpz, HEAD + "\n".join([*lines, "y.example CNAME rpz-passthru."]))
    assert rules == [f"{13 - line}:x.example/", "+8:y.example/"]
    why = "the zone passes a name, or all below it, and blocks the other; a rule fits both"
    assert warnings == [f"{line}: {passed} CNAME rpz-passthru.: left out: {why}"]
