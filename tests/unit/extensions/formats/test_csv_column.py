"""Tables with a column of URLs."""

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.extensions.formats.csv_column import read_csv
from support.readings import read_rules
from unit.rows import each_row

_URLHAUS = (
    "################\n# abuse.ch URLhaus #\n#\n# id,dateadded,url,url_status,urlhaus_link\n"
    '"9","2024-01-01 00:00:00","http://192.0.2.1:81/x","online","https://urlhaus.example/url/9/"\n'
    '"8","2024-01-01 00:00:00","http://a.example/a,b.exe","offline","https://urlhaus.example/url/8/"\n'
)
_PHISHTANK = (
    "phish_id,url,phish_detail_url,target\n"
    "7,https://a.example/login/,http://www.phishtank.example/7,Other\n"
    '6,"https://b.example/?q=""x""",http://www.phishtank.example/6,"A, B"\n'
)


@each_row(
    ("text", "rules"),
    [
        (_URLHAUS, ["5:192.0.2.1/x", "6:a.example/a,b.exe"]),
        (_URLHAUS.replace("\n", "\r\n"), ["5:192.0.2.1/x", "6:a.example/a,b.exe"]),
        (_PHISHTANK, ["2:a.example/login/", '3:b.example/?q="x"']),
        ("id,Domain\n1,a.example\n2, *.b.example ", ["2:a.example/", "3:b.example/"]),
        ("host,url\nh.example,http://a.example/x", ["2:a.example/x"]),
        ("Indicator,type\na.example,domain", ["2:a.example/"]),
        ("HOST\na.example", ["2:a.example/"]),
        # the header is a comment
        ('# x\n# "date", "ioc_value", "reference"\n"7", "192.0.2.1:80", "http://r.example/"', ["3:192.0.2.1/"]),
        ("# id,url\n7,http://a.example/,http://r.example/", ["2:a.example/"]),
        ('# "id\r,url\n7,http://a.example/', ["2:a.example/"]),
        # a header with other names, and none
        ("id,link\n1,http://a.example/", ["2:a.example/"]),
        ("1,http://a.example/\n2,b.example/x", ["1:a.example/", "2:b.example/x"]),
        ("a.example\nhttp://b.example/x", ["1:a.example/", "2:b.example/x"]),
        # spaces in a path or query
        (
            'url\n"http://a.example/my file, 2.exe"\nhttp://b.example/?q=a b&u=http://c',
            ["2:a.example/my%20file,%202.exe", "3:b.example/?q=a%20b&u=http://c"],
        ),
        # a record of several lines
        ('id,url\n"1\n# x\n",http://a.example/\n2,http://b.example/', ["2:a.example/", "5:b.example/"]),
        ("url\n\n# x\n  \nbücher.example", ["5:xn--bcher-kva.example/"]),
    ],
)
def test_one_column_holds_the_rules(text: str, rules: list[str]) -> None:
    assert read_rules(read_csv, text) == (rules, [])


@each_row(
    ("record", "warning"),
    [
        ("2", "2: left out: column 2 is empty"),
        ("2,", "2,: left out: column 2 is empty"),
        ('2," "', "2, : left out: column 2 is empty"),
        ("2,mailto:x@y.example", "mailto:x@y.example: left out: it names no host"),
        ("2,a b", "a b: left out: there is white space in it"),
        ("2,and/or x", "and/or x: left out: there is white space in it"),
        ("2,http://b example/", "http://b example/: left out: there is white space in it"),
        ("2,http://b.example/ c://d", "http://b.example/ c://d: left out: there is white space in it"),
        ("2,x\ry", "lines 3 to 3: left out: they are no records of a table"),
    ],
)
def test_a_record_that_cannot_be_read_is_left_out(record: str, warning: str) -> None:
    rules, warnings = read_rules(read_csv, f"id,url\n1,http://a.example/\n{record}\n3,http://b.example/")
    assert rules == ["2:a.example/", "4:b.example/"]
    assert warnings == [f"3: {warning}"]


@each_row(
    "text",
    [
        *("id,name\n1,x\n", "x\ny\n", "id,name\n", "id;name\n1;x\n", "url\n..\n", "id,url\n1,\n", "1,http://\n"),
        *('{"urls": ["http://a.example/"]}', '[{"url": "http://a.example/"}, {"url": "http://b.example/"}]\n'),
        *('\ufeff {\n  "data": []}', '["http://a.example/", "http://b.example/"]'),
    ],
)
def test_a_table_that_makes_no_rule_and_json_are_errors(text: str) -> None:
    report = ProblemReport("f")
    assert list(read_csv(text.encode(), ListDefaults(), report)) == []
    assert len(report.errors) == 1


_THREATFOX = (
    "################\n# ThreatFox IOCs #\n#\n"
    '# "first_seen_utc","ioc_id","ioc_value","ioc_type","threat_type"\n'
    '"2024-01-01 00:00:00", "9", "http://a.example/x", "url", "payload_delivery"\n'
    '"2024-01-01 00:00:00", "8", "b.example", "domain", "botnet_cc"\n'
    '"2024-01-01 00:00:00", "7", "192.0.2.1:443", "ip:port", "botnet_cc"\n'
    "# Number of entries: 3\n"
)
_RULES = ["5:a.example/x", "6:b.example/", "7:192.0.2.1/"]


@each_row(
    ("text", "rules"),
    [
        (_THREATFOX, _RULES),
        # some have a comment between, or one field more than names
        (_THREATFOX.replace('_type"\n"', '_type"\n#------\n"', 1), ["6:a.example/x", "7:b.example/", "8:192.0.2.1/"]),
        (_THREATFOX.replace("botnet_cc", 'botnet_cc", "x'), _RULES),
        (_THREATFOX.replace(",", ";"), _RULES),
        # a first record that has data is no header, whatever words are in it
        ("9,http://a.example/,url\n8,http://b.example/,domain", ["1:a.example/", "2:b.example/"]),
        ("# ioc\na.example\nb.example", ["2:a.example/", "3:b.example/"]),
        ("id;url;x\n1;http://a.example/x;2", ["2:a.example/x"]),
        ("id\turl\n1\thttp://a.example/x,y;z\n2\thttp://b.example/", ["2:a.example/x,y;z", "3:b.example/"]),
        ('sep=;\nid;url\n1;"http://a.example/;x"', ["3:a.example/;x"]),
        ("http://a.example/x;y\nhttp://b.example/x;z", ["1:a.example/x;y", "2:b.example/x;z"]),
    ],
)
def test_names_and_separators_are_told(text: str, rules: list[str]) -> None:
    assert read_rules(read_csv, text) == (rules, [])


def test_a_quote_that_stays_open_costs_a_bounded_part_of_the_list() -> None:
    filling = "x" * 999 + "\n"
    text = 'id,url\n1,"http://x.example\n' + filling * 150 + "2,http://a.example/\n"
    rules, warnings = read_rules(read_csv, text)
    assert rules == ["153:a.example/"]
    assert warnings[0].startswith("2: lines 2 to 13")
    assert warnings[0].endswith(": left out: they are no records of a table")
    assert warnings[1] == f"{int(warnings[0].split()[4].rstrip(':')) + 1}: {'x' * 117}...: left out: column 2 is empty"
