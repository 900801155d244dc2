"""The readers of lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hushlist.core.extension import ListFormat
from hushlist.core.lists.list_formats import FOLDERS, FORMATS
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.popular_domains import read_popular
from hushlist.core.match.public_suffixes import parse_public_suffixes
from hushlist.core.match.rule import Action
from hushlist.extensions.dashboard.rule_edits import with_rule
from unit.extensions.formats.samples import SAMPLES
from unit.parsers.table import ROOT, Parser, check_problems, put

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)


def _list(form: ListFormat, octets: bytes) -> None:
    last = octets.count(b"\n") + 1
    for defaults in (ListDefaults(), ListDefaults(action=Action.ALLOW)):
        report = ProblemReport("list")
        for rule in form.read(octets, defaults, report):
            assert str(rule.pattern)
            assert 1 <= rule.line <= last
        check_problems(report, octets)
        assert report.refused >= 0


_LISTS: dict[str, tuple[str, ...]] = {
    "yaml": (
        "reason: Why\ncategory: 'hrn://c.example/web'\nrules:\n- h.example\n"
        "- {expression: 'h.example/a/b?q', action: allow, reason: x, expires: 2026-12-31, title: t}\n"
        "- {sha256: '01020304'}\n- {address: 10.0.0.0/8, action: tag}\n- hashed:md5=be96302a0468481aca954431cf293e05\n",
        "seal: f87dde256ef1fd9a\nrules: [{sealed: '01020304'}]\n",
        "rules: [{expression: \"\\u0041.example\"}, &a b, *a, !!str c, '*.h.example', |\n x\n  y]\n",
    ),
    "searches": ("# c\nkill+myself\n\uff4b\u200b x\n!!\na b c d\n",),
    "words": ("casino\n\u81ea\u6740\n.Include<x>\n",),
    "services": (
        "groups: {g: {en: G, also: [h]}}\nservices:\n  a: {title: A, group: g, rules: [a.example, b.example/c]}",
        '{"blocked_services": [{"id": "a_b", "name": "A", "group": "h", "rules": ["||a.example^", "||b*^"]}]}',
    ),
    "hashed-uris": ("# list\nhashed:sha1=ae96302a0468481aca954431cf293e05aca95443+query\nhashed:x-own=00\n",),
    "domains": ("# c\nh.example\n.B.Example # x\n*.c.example\nbücher.example\n1.2.3.4\ncom\n",),
    "hosts": ("127.0.0.1 localhost\n0.0.0.0 a.example b.example # x\n::1 c.example\n0.0.0.0 0.0.0.0\n",),
    "urls": ("http://h.example/a/b?c\nhttps://[::1]:81/\nh.example\n",),
    "squidguard-urls": ("h.example/a\nh.example/b.html http://r.example/\n",),
    "dnsmasq": ("address=/a.example/b.example/0.0.0.0\nserver=/c.example/\nlocal=/d.example/\naddress=/#/1.2.3.4\n",),
    "rpz": (
        "$TTL 60\n$ORIGIN rpz.example.\n@ IN SOA a. b. ( 1 2\n3 4 5 ) ; c\n NS a.\nx CNAME .\n*.x 5m IN CNAME *.\n"
        'y CNAME rpz-passthru.\n32.1.2.0.192.rpz-ip CNAME .\n128.zz.1.db8.2001.rpz-ip CNAME .\nz TXT "a \\" b"\n',
    ),
    "adblock": ("[Adblock Plus]\n! c\n||a.example^\n@@||b.example^$important\n|http://c.example/x|\n/re/\nd##e\n",),
    "adblock-dns": (
        "! Title: AdGuard DNS filter\n||a.example^\n|b^\n.c|\n/^d\\./\n*$denyallow=com\n!#if x\ne.example\n",
    ),
    "adblock-hosts": ("[Adblock Plus]\n! c\n||a.example^\nb.example\n0.0.0.0 c.example\n",),
    "chromium": ("a.example\n.b.example\nhttps://c.example:443/d\n*\nfile://*\nd.example/p?q=1\n-x.example\n",),
    "csv": ('# c\nid,url,x\n1,"http://h.example/a,b",2\n2,"h.example\n/x",3\n3,a.example\n', "a.example\nb.example\n"),
    "addresses": ("# c\n10.0.0.0/8\n192.0.2.1 ; x\n2001:db8::/32\n1.2.3.4-1.2.3.9\n0.0.0.0/0\n",),
    "sha256": ("00" * 32 + "\n" + "ab" * 16 + " # x\n", "# c\nseal: f87dde256ef1fd9a\n" + "ab" * 16 + "\n"),
    "file-hashes": (f'# c\n{"ab" * 16}:68:Name\n"2026-01-01", "{"ab" * 32}", "{"ab" * 16}"\n{"cd" * 20}\n',),
    "safebrowsing-raw": ("\x04\x00\x00\x00abcdefgh" * 4,),
}
_LIST_UNITS = {
    "yaml": (b"[", b"{a: ", b"- ", b"  - a\n", b"? ", b"'", b"a: b\n", b"#\n", b"\xc2\x85", b"&a ", b"x.example\n"),
    "rpz": (b"(", b"x CNAME . ", b"\\", b'"a', b"()"),
    "csv": (b'"', b',"', b'"\n', b"a,"),
}


def _list_samples(name: str) -> Iterator[bytes]:
    yield from (sample.encode() for sample in _LISTS.get(name) or (SAMPLES[name].text,))
    endings = {"yaml": "rules/*.yaml", "hashed-uris": "rules/*.txt", "domains": "examples/**/domains"}
    for path in sorted(ROOT.glob(endings.get(name, "absent")))[:4]:
        yield path.read_bytes()[:2000]


for _name, _format in FORMATS.items():
    PARSERS[f"list {_name}"] = Parser(
        partial(_list, _format), partial(_list_samples, _name), units=_LIST_UNITS.get(_name, (b"h.example\n",))
    )
for _folder, _files in FOLDERS.items():
    PARSERS[f"list {_folder} expressions"] = Parser(
        partial(_list, _files["expressions"]), lambda: [b"(^|/)ads?[0-9]*\\.\n# c\n"]
    )


@add("list popular", '1,Google.com\n"2","bücher.example"\nx.example # c\n3,a/b\n', units=(b"1,a.example\n", b"1,"))
def _popular(octets: bytes) -> None:
    report = ProblemReport("list")
    assert all(host for host in read_popular(octets, report))
    check_problems(report, octets)


@add("list public suffixes", "// ===BEGIN ICANN DOMAINS===\nco.uk\n*.ck\n!www.ck\n公司.cn x\n", units=(b"a\n",))
def _suffixes(octets: bytes) -> None:
    found = parse_public_suffixes(octets.decode("utf-8", "replace").splitlines())
    found.section_of(b"www.h.co.uk/")


@add("list edit", "# mine\nrules:\n  - a.example  # x\n  - {expression: b.example}\nreason: x\n", "rules: []\r\n")
def _edit(octets: bytes) -> None:
    rule = {"expression": "c.example/", "action": "allow"}
    edited = with_rule(octets.decode("utf-8", "replace"), rule)
    assert with_rule(edited, rule) == edited
