"""Tables with a column of URLs."""

from hushlist.lists.csv_column import read_csv
from unit.lists.reading import read
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
    assert read(read_csv, text) == (rules, [])


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
    rules, warnings = read(read_csv, f"id,url\n1,http://a.example/\n{record}\n3,http://b.example/")
    assert rules == ["2:a.example/", "4:b.example/"]
    assert warnings == [f"3: {warning}"]


def test_a_table_without_urls_says_so() -> None:
    assert read(read_csv, "id,name\n1,x\n") == ([], ["2: 1,x: left out: no column holds a URL"])


def test_a_url_that_goes_over_several_lines_is_left_out() -> None:
    rules, warnings = read(read_csv, 'url\nhttp://a.example/\n"http://b.example/\nhttp://c.example/\n')
    assert rules == ["2:a.example/"]
    assert len(warnings) == 1
    assert warnings[0].startswith("3: http://b.example/")
    assert warnings[0].endswith(": left out: it goes over several lines: its quotes may not be closed")


def test_a_quote_that_stays_open_costs_a_bounded_part_of_the_list() -> None:
    filling = "x" * 999 + "\n"
    text = 'id,url\n1,"http://x.example\n' + filling * 150 + "2,http://a.example/\n"
    rules, warnings = read(read_csv, text)
    assert rules == ["153:a.example/"]
    assert warnings[0].startswith("2: lines 2 to 13")
    assert warnings[0].endswith(": left out: they are no records of a table")
    assert warnings[1] == f"{int(warnings[0].split()[4].rstrip(':')) + 1}: {'x' * 117}...: left out: column 2 is empty"
