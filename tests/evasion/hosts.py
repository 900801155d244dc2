"""Spellings of hosts: names, internationalized names, addresses."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import cycle, product

from e2e.proxy import request_head
from evasion.entries import Entry, fields, shown

_NAMES = {
    "ads.test": "ads.test",
    "full.test": "full.test",
    "prefix.test": "prefix.test",
    "http://hashed.test/": "hashed.test",
}
_IDN = "bücher.test"
_ADDRESS = "10.0.0.0/8"
_NETWORK = "2001:db8:bad::/48"

#: 10.20.30.40 by 6to4, Teredo, NAT64 for local use, ISATAP, and as a translated and a compatible address
_TUNNELLED = (
    *("2002:a14:1e28::1", "2001:0:c000:201:0:f227:f5eb:e1d7", "64:ff9b:1::10.20.30.40", "64:ff9b:1:fffe::a14:1e28"),
    *("fe80::5efe:10.20.30.40", "2001:db8::200:5efe:a14:1e28", "::ffff:0:10.20.30.40", "::10.20.30.40"),
)

#: family -> what is blocked -> spellings of it
Spellings = dict[str, dict[str, list[bytes | str]]]


def _letters(name: str, first: int) -> str:
    """The name in one of Unicode's other alphabets, which begins with its letter a at ``first``."""
    return "".join(chr(first + ord(c) - ord("a")) if c.isalpha() else c for c in name)


def _escaped(name: str) -> str:
    return "".join(f"%{octet:02x}" for octet in name.encode())


#: a: fullwidth, mathematical (bold, italic, script, fraktur, double-struck, sans-serif, monospace), circled
_ALPHABETS = (0xFF41, 0x1D41A, 0x1D44E, 0x1D4EA, 0x1D586, 0x1D552, 0x1D5BA, 0x1D68A, 0x24D0)
#: ideographic, fullwidth, halfwidth full stop; one dot leader
_DOTS = "\u3002\uff0e\uff61\u2024"
#: soft hyphen, zero width space, joiners, word joiner, byte order mark, grapheme joiner, variation selectors
_IGNORED = "\u00ad\u200b\u200c\u200d\u2060\ufeff\u034f\ufe00\ufe0f\u180b"


def _ipv4() -> Iterator[str]:
    """10.20.30.40 in every number of parts, and in many mixtures of bases."""
    octets = (10, 20, 30, 40)
    bases = ("{}", "{:#x}", "0{:o}", "{:#X}", "0000{:o}", "0x0000{:x}")
    for count in range(1, 5):
        last = int.from_bytes(bytes(octets[count - 1 :]), "big")
        values = (*octets[: count - 1], last)
        mixtures = list(product(bases, repeat=count))
        for mixture in mixtures[:: max(1, len(mixtures) // 12)]:
            yield ".".join(base.format(value) for base, value in zip(mixture, values, strict=True))


SPELLINGS: Spellings = {
    "case": {
        thing: [
            name.upper(),
            name.title(),
            name.capitalize(),
            "".join(case(c) for case, c in zip(cycle((str.lower, str.upper)), name, strict=False)),
        ]
        for thing, name in _NAMES.items()
    },
    "dots": {
        thing: [f"{name}.", f"{name}..", f".{name}", f"..{name}..", name.replace(".", ".."), name.replace(".", "....")]
        for thing, name in _NAMES.items()
    },
    "subdomains": {
        thing: [f"x.{name}", f"a.b.c.d.e.f.g.{name}", f"_._.{name}", f"-.{name}", f"{'a' * 63}.{name}"]
        for thing, name in _NAMES.items()
        if "hashed" not in name
    },
    "unicode dots": {
        "ads.test": [
            *(f"ads{dot}test" for dot in _DOTS),
            *(f"ads.test{dot}" for dot in _DOTS),
            "ads\u3002\uff0etest",
            "\uff61ads.test",
            "x\u3002ads\uff61test\u3002",
            "ads.test\u2025",
            "ads\u2026test",
        ],
    },
    "unicode letters": {
        "ads.test": [
            *(_letters("ads.test", first) for first in _ALPHABETS),
            "\uff21ds.test",
            "\uff21\uff24\uff33.\uff34\uff25\uff33\uff34",
            "\u24b6ds.test",
            "\u1d43\u1d48\u02e2.test",
            *(f"a{ignored}ds.test" for ignored in _IGNORED),
            "a\u00ad\u200b\u2060d\ufe0fs.te\u00adst",
            "ad\u017f.test",
            "ads.te\ufb05",
            "ads.te\ufb06",
            "ad\u017f\u3002te\ufb06",
        ],
        "prefix.test": ["pre\ufb01x.test", "\u1d56refix.test", "pref\u2170x.test"],
        "full.test": ["fu\u217c\u217c.test", "\ufb00ull.test".replace("\ufb00", "\uff46")],
        "kiosk.test": ["\u212aiosk.test", "KIOS\u212a.test", "k\u2170osk.test", "ki\u2134sk.test", "kio\u017fk.test"],
        "strasse.test": [
            "stra\u00dfe.test",
            "STRA\u1e9eE.test",
            "stra\u017fse.test",
            "STRASSE.test",
            "stra\u017f\u017fe.test",
        ],
    },
    "internationalized names": {
        _IDN: [
            _IDN,
            "B\u00dcCHER.TEST",
            "xn--bcher-kva.test",
            "XN--BCHER-KVA.TEST",
            "Xn--BcHeR-kVa.test.",
            "x.xn--bcher-kva.test",
            unicodedata.normalize("NFD", _IDN),
            unicodedata.normalize("NFD", _IDN.upper()),
            "b\u00fccher\u3002test",
            "b\u00fccher.test.",
            "\uff42\u00fc\uff43\uff48\uff45\uff52.test",
            "b\u00fc\u00adcher.test",
            "bu\u034f\u0308cher.test",
            "\uff58\uff4e\uff0d\uff0dbcher-kva.test",
            "xn--bcher-\uff4bva.test",
            "xn-\u00ad-bcher-kva.test",
            "b%C3%BCcher.test",
            "b%c3%bccher.test",
            "b%25C3%25BCcher.test",
            "bu%CC%88cher.test",
            "xn%2D%2Dbcher-kva.test",
            "%78n--bcher-kva.test",
        ],
    },
    "escapes in the host": {
        "ads.test": [
            "%61ds.test",
            "%41DS.test",
            "%2561ds.test",
            "%25252561ds.test",
            "%%36%31ds.test",
            "ads%2etest",
            "ads%2Etest",
            "ads%252etest",
            "ads.test%2e",
            "%2eads.test",
            "a%64s%2Ete%73t",
            "x%2eads.test",
            "ads%E3%80%82test",
            "%EF%BC%A1ds.test",
            "a%C2%ADds.test",
            _escaped("ads.test"),
            _escaped(_escaped("ads.test")),
        ],
        "prefix.test": ["%70refix.test", _escaped("prefix.test")],
        "full.test": ["%66ull.test", _escaped("full.test")],
        _ADDRESS: ["%31%30.20.30.40", "10%2e20.30.40", "0%78a.20.30.40"],
    },
    "IPv4": {
        _ADDRESS: [
            *_ipv4(),
            "10.20.30.40.",
            "10.20.30.40..",
            ".10.20.30.40",
            "10.1",
            "10.0",
            "0xA.1.",
            "\u2460\u24ea.20.30.40",
        ]
        + [
            _digits.format("20.30.40")
            for _digits in (
                "\uff11\uff10.{}",
                "\u00b9\u2070.{}",
                "\u2081\u2080.{}",
                "\U0001d7cf\U0001d7ce.{}",
                "10\u3002{}",
                "1\u00ad0.{}",
            )
        ]
    },
    "IPv6": {
        _ADDRESS: [
            "[::ffff:10.20.30.40]",
            "[::FFFF:0a14:1e28]",
            "[::ffff:a14:1e28]",
            "[0:0:0:0:0:ffff:10.20.30.40]",
            "[0000:0000:0000:0000:0000:FFFF:0A14:1E28]",
            "[::0:ffff:10.20.30.40]",
            "[::ffff:10.20.30.40%1]",
            "[::ffff:10.20.30.40%25eth0]",
            "[::ffff:10.20.30.40]:80",
            "::ffff:10.20.30.40",
            "[64:ff9b::10.20.30.40]",
            "[64:ff9b::a14:1e28]",
            "[0064:FF9B:0::0A14:1E28]",
            # what leads there through a tunnel or a translator
            *(f"[{address}]" for address in _TUNNELLED),
            "2002:a14:1e28::1",
            "[2002:0A14:1E28::1%25eth0]",
            "[2002:a14:1e28:%3a1]",
        ],
        _NETWORK: [
            "[2001:db8:bad::1]",
            "[2001:DB8:BAD::1]",
            "[2001:0db8:0bad:0000:0000:0000:0000:0001]",
            "[2001:db8:bad:0:0::1]",
            "[2001:db8:bad:0::0:1]",
            "[2001:db8:bad::]",
            "[2001:db8:bad::10.20.30.40]",
            "[2001:db8:bad:ffff:ffff:ffff:255.255.255.255]",
            "[2001:db8:bad::1%1]",
            "[2001:db8:bad::1%25eth0]",
            "[2001:db8:bad::1]:80",
            "[2001:db8:bad::1]:",
            "2001:db8:bad::1",
            "[2001:db8:bad::%31]",
            "%5B2001:db8:bad::1%5D",
            "[2001:db8:bad::\uff11]",
            "[2001:db8:bad::1].",
        ],
    },
    "user information": {
        "ads.test": [
            "user@ads.test",
            "user:word@ads.test",
            "@ads.test",
            ":@ads.test",
            "good.test@ads.test",
            "good.test:80@ads.test",
            "good.test#@ads.test",
            "good.test%2f@ads.test",
            "good.test%40@ads.test",
            "good.test@good.test@ads.test",
            "ads.test@",
            "ads.test:80@",
            "user%40good.test@ads.test",
            "\uff20@ads.test",
        ],
    },
    "ports": {
        "ads.test": [
            "ads.test:80",
            "ads.test:080",
            "ads.test:",
            "ads.test:8080",
            "ads.test:00000000080",
            "ads.test:80:80",
            "ads.test:x",
            "ads.test:+80",
            "ads.test: 80",
            "ads.test:65616",
            "ads.test:-1",
            "ads.test:８０",
            "ads.test::80",
            # the first is what stands before a port, and the last is how the name ends that is looked up
            "good.test:x.ads.test",
            "good.test:80.ads.test",
            "good.test%3ax.ads.test",
            "[::1]:x.ads.test",
        ],
        "full.test": ["full.test:080", "FULL.test.:80"],
        "http://hashed.test/": ["hashed.test:80", "hashed.test:080", "HASHED.test.:80"],
    },
    "delimiters in the host": {
        "ads.test": [
            "ads.test/",
            "ads.test?",
            "ads.test#x",
            "ads.test\\x",
            "http://ads.test",
            "http://ads.test/",
            "//ads.test",
            "ads.test/@good.test",
            "ads.test\\@good.test",
            "ads.test?@good.test",
            "ads.test#@good.test",
            "ads.test;@good.test",
        ],
    },
    "white space in the host": {
        "ads.test": [
            b" ads.test",
            b"ads.test ",
            b"\tads.test",
            b"a\tds.test",
            b"ads.te\tst\t",
            b"ads.test\x0b",
            b"\x0cads.test",
            b"ads.test\x00",
            b"ads.test\x00.good.test",
            b"ads.test%00",
            b"ads.test%00.good.test",
            b"ads%09.test",
            b"ads.test%0d%0a",
            "ads.test\xa0",
            "ads.test\u3000",
            "ads.test\u2028",
        ],
    },
    "lists of hosts": {
        "ads.test": [
            "good.test,ads.test",
            "ads.test,good.test",
            "ads.test, good.test",
            "good.test , ads.test",
            "good.test,ads.test:80",
            "ads.test,",
            ",ads.test",
            ",,ads.test",
            "good.test ads.test",
            "ads.test good.test",
            "good.test\tads.test",
            "a.test,b.test,ads.test",
            "good.test,ADS.test.",
        ],
        "full.test": ["good.test,full.test", "full.test, good.test"],
        _ADDRESS: ["good.test, 10.20.30.40", "good.test,0xa.1"],
    },
    "broken UTF-8 in the host": {
        "ads.test": [
            b"ads\xc0\xaetest",
            b"ads%c0%aetest",
            b"\xc1\xa1ds.test",
            b"ads.test\xff",
            b"\xf0\x80\x81\xa1ds.test",
        ],
        _IDN: [b"b\xfccher.test"],
    },
    "length of the host": {
        "ads.test": [
            "." * 65536 + "ads.test",
            "ads.test" + "." * 65536,
            "a." * 32768 + "ads.test",
            "%25" * 20000 + "61ds.test",
            "\u00ad" * 20000 + "ads.test",
            "user" * 16384 + "@ads.test",
            "ads.test:" + "0" * 65536 + "80",
        ],
    },
}


def entries() -> Iterator[Entry]:
    """Each spelling where a host can stand: in the target, in Host, in Host alone, in CONNECT, in :authority."""
    for family, things in SPELLINGS.items():
        for blocked, spellings in things.items():
            for spelling in spellings:
                host = spelling.encode() if isinstance(spelling, str) else spelling
                name = shown(spelling)
                yield Entry(family, blocked, name, request_head(b"http://" + host + b"/", b"good.test"))
                yield Entry(family, blocked, name, request_head(b"/", host))
                # the target is harmless, and Host alone is what a server on a shared address answers by
                yield Entry(family, blocked, name, request_head(b"http://good.test/", host))
                yield Entry(family, blocked, name, request_head(b"/", host), ("good.test", 80))
                if len(host) < 8192:
                    tunnelled = b"CONNECT %b:80 HTTP/1.1\r\n\r\n%b" % (host, request_head(b"/", b"good.test"))
                    yield Entry(family, blocked, name, tunnelled)
                    yield Entry(family, blocked, name, fields(authority=host))
