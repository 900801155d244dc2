r"""Measures canonicalization beside its peers: typical URLs, and the growth from 1 to 64 KiB for the worst ones.

    pip install -e '.[bench]'
    python tests/bench/canonicalize.py [--check] [--all] [--urls N]

The peers are optional. Everything is measured in one run, in turns, in processor time, so that what else the machine
does falls on all alike; seeds are fixed, and figures are medians. With --check the exit code is 1 where a time grows
more than sixfold from 16 to 64 KiB (fourfold is linear), or where a peer is not as far behind on typical URLs as it is
to be.

Real request URLs are read as ``data.py`` says.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from hot_path import requests
from timing import processor

from hushlist.core.errors import UrlError
from hushlist.core.url import iri, normalization, path_interpretations
from hushlist.core.url.comparison import PROFILES
from hushlist.core.url.hashed_uri import parse_hashed_uri
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.rfc3986 import resolve

Function = Callable[[Any], object]

ROUNDS = 7
SIZES = (1 << 10, 1 << 12, 1 << 14, 1 << 16)
#: from 16 to 64 KiB; 4 is linear, 16 is quadratic
MOST_GROWTH = 6.0
#: seconds that a peer may need for one URL
LIMIT = 1.0
#: how many times as long as our Safe Browsing profile a peer is to take for typical URLs
TARGETS = {"urlcanon": 5.0, "gglsbl": 2.0}

# -- The peers ---------------------------------------------------------------------------------------------------

#: module and how to call it: its Safe Browsing canonicalization where it has one
PEERS: dict[str, tuple[str, Callable[[Any], Function]]] = {
    "urlcanon": ("urlcanon", lambda module: lambda url: bytes(module.google(url))),
    "gglsbl": ("gglsbl.protocol", lambda module: lambda url: module.URL(url).canonical),
    "w3lib": ("w3lib.url", lambda module: module.canonicalize_url),
    "url-normalize": ("url_normalize", lambda module: lambda url: module.url_normalize(url.decode("utf-8", "replace"))),
}


def installed_peers() -> dict[str, Function]:
    """The peers that can be imported; says which are left out and why."""
    found = {}
    for name, (module, call) in PEERS.items():
        try:
            found[name] = call(importlib.import_module(module))
        except Exception as error:
            print(f"left out: {name} ({type(error).__name__}: {error})")
        else:
            print(f"peer: {name} {version(name)}")
    return found


# -- The worst inputs --------------------------------------------------------------------------------------------

#: name -> what is in front, what is repeated, what is behind
Shape = tuple[bytes, bytes, bytes]
H = b"http://h/"
#: a label of letters that all differ, of which Punycode makes the most work
LETTERS = "".join(map(chr, random.Random(1).sample(range(0x4E00, 0x9FFF), 330))).encode()

URLS: dict[str, Shape] = {
    "plain path": (H, b"a", b""),
    "nested %25": (H + b"%", b"25", b""),
    "%25 in a row": (H, b"%25", b""),
    "%2525 in a row": (H, b"%2525", b""),
    "%%34%31": (H, b"%%34%31", b""),
    "percent signs": (H, b"%", b""),
    "percent signs, then digits": (H + b"%" * 400, b"25", b""),
    "nested %25 in the query": (H + b"?%", b"25", b""),
    "nested %25 in the host": (b"http://%", b"25", b"/"),
    "nested %25 in the user": (b"http://%", b"25", b"@h/"),
    "nested %25 in the port": (b"http://h:%", b"25", b"/"),
    "escaped dots": (b"http://", b"%E3%80%82", b"h/"),
    "escaped letters": (b"http://", b"%C3%BC", b".example/"),
    "dots in front": (b"http://", b".", b"h/"),
    "dots behind": (b"http://h", b".", b"/"),
    "dots in pairs": (b"http://h", b"a..", b"/"),
    "labels": (b"http://", b"a.", b"h/"),
    "one label": (b"http://", b"a", b"/"),
    "one label, upper case": (b"http://", b"A", b"/"),
    "IDN, one label": (b"http://", "ü".encode(), b"/"),
    "IDN, labels": (b"http://", "ü.".encode(), b"h/"),
    "IDN, ideographic dots": (b"http://", "a。".encode(), b"h/"),
    "IDN, upper case": (b"http://", "Ü".encode(), b"/"),
    "IDN, a letter that maps to 18": (b"http://", "ﷺ".encode(), b"/"),
    "IDN, marks out of order": (b"http://a", "\u0315\u0316".encode(), b"/"),
    "IDN, one that NFC takes apart": (b"http://", "\u0344".encode(), b"/"),
    "IDN, jamo": (b"http://", "\u1100\u1161\u11a8".encode(), b"/"),
    "IDN, ignored": (b"http://a", "\u00ad".encode(), b"/"),
    "IDN, all planes": (b"http://", "aü水😀".encode(), b"/"),
    "IDN, the longest, one letter": (b"http://" + "ü".encode() * 500 + b"/", b"a", b""),
    "IDN, the longest, other letters": (b"http://" + LETTERS + b"/", b"a", b""),
    "octets that are no UTF-8": (b"http://", b"\xff", b"/"),
    "digits": (b"http://", b"9", b"/"),
    "zeroes": (b"http://", b"0", b"/"),
    "hex digits": (b"http://0x", b"f", b"/"),
    "numbers": (b"http://", b"1.", b"1/"),
    "hex marks": (b"http://0", b"x", b"/"),
    "IPv6 colons": (b"http://[", b":", b"]/"),
    "IPv6 groups": (b"http://[", b"1:", b":1]/"),
    "IPv6 digits": (b"http://[::", b"1", b"]/"),
    "IPv6 zone": (b"http://[::1%", b"z", b"]/"),
    "IPv6 and IPv4": (b"http://[::", b"1.", b"1]/"),
    "IPv6 without brackets": (b"", b"1:", b":1"),
    "brackets": (b"http://", b"[", b"]/"),
    "closing brackets": (b"http://[", b"]", b"/"),
    "pairs of brackets": (b"http://", b"[]", b"/"),
    "at signs": (b"http://", b"@", b"h/"),
    "colons": (b"http://h", b":", b"/"),
    "colons and at signs": (b"http://", b":@", b"h/"),
    "port": (b"http://h:", b"0", b"80/"),
    "/../": (H, b"../", b""),
    "/a/../": (H, b"a/../", b""),
    "/a/, then /..": (H, b"a/a/../", b".."),
    "/./": (H, b"./", b""),
    "/.../": (H, b".../", b""),
    "escaped /../": (H, b"%2e%2e%2f", b""),
    "slashes": (b"http://h", b"/", b""),
    "slashes and dots": (H, b"//.", b""),
    "backslashes": (H, b"\\", b""),
    "backslashes and dots": (H, b"\\..", b""),
    "semicolons": (H, b";", b""),
    "question marks": (H, b"?", b""),
    "ampersands": (H + b"?", b"a=b&", b""),
    "escapes in the query": (H + b"?", b"%2525&", b""),
    "number signs": (H, b"#", b""),
    "spaces": (b"", b" ", b"h/"),
    "spaces inside": (H, b"a ", b""),
    "tabs": (H, b"a\t", b""),
    "NUL": (H, b"\0", b""),
    "letters in the path": (H, "ü水".encode(), b""),
    "what no URI has": (H, b"{", b""),
    "digits behind a colon": (b"a:", b"9", b"x"),
    "one long scheme": (b"", b"a", b"://h/"),
    "schemes": (b"", b"a:", b"//h/"),
    "schemes and slashes": (b"", b"a://", b"h/"),
    "index.html": (H, b"index.html/", b"index.html"),
    "mail addresses": (b"mailto:", b"A@B,", b"a@b"),
    "mail addresses, IDN": (b"mailto:", b"a@" + LETTERS[:240] + b",", b"a@b"),
    "mail address, at signs": (b"mailto:", b"@", b"b"),
    "mail address, IDN": (b"mailto:a@", "ü".encode(), b",b@c"),
    "relative /../": (b"", b"../", b""),
    "relative ./": (b"", b"./", b"."),
}

PERCENT: dict[str, Shape] = {name: shape for name, shape in URLS.items() if b"%" in b"".join(shape)}
REFERENCES: dict[str, Shape] = {
    "../": (b"", b"../", b""),
    "a/../": (b"", b"a/../", b""),
    "./": (b"", b"./", b"."),
    "slashes": (b"", b"/", b""),
    "one segment": (b"", b"a", b""),
    "segments, then ..": (b"", b"a/a/../", b".."),
    "colons": (b"", b"a:", b""),
    "question marks": (b"", b"?", b""),
}
CHARACTER_REFERENCES: dict[str, Shape] = {
    "&": (b"", b"&", b""),
    "&#": (b"", b"&#", b""),
    "&#x": (b"", b"&#x", b""),
    "&#0": (b"&#", b"0", b""),
    "&#0, many": (b"", b"&#0", b""),
    "&#1": (b"&#", b"1", b";"),
    "&#xf": (b"&#x", b"f", b";"),
    "&#x26;": (b"", b"&#x26;", b""),
    "&#38;amp;": (b"", b"&#38;amp;", b""),
    "&amp": (b"", b"&amp", b""),
    "&amp;": (b"", b"&amp;", b""),
    "&a": (b"&", b"a", b""),
    "&notit;": (b"", b"&notit;", b""),
}
MARKS: dict[str, Shape] = {
    "ASCII": (b"", b"a", b""),
    "marks out of order": (b"a", "\u0315\u0316".encode(), b""),
    "marks in reverse order": (b"a", "\u0345\u0315\u0334".encode(), b""),
    "marks, then one that composes": (b"a", "\u0316".encode(), "\u0301".encode()),
    "many short runs of marks": (b"", "a\u0315\u0316".encode(), b""),
    "taken apart": (b"", "\u0344".encode(), b""),
    "taken apart, four marks": (b"", "\u1fa7".encode(), b""),
    "music": (b"", "\U0001d160".encode(), b""),
    "jamo": (b"", "\u1100\u1161\u11a8".encode(), b""),
    "Hangul": (b"", "각".encode(), b""),
    "one mark": (b"a", "\u0301".encode(), b""),
}
HRNS: dict[str, Shape] = {
    "one name": (b"hrn://h.example/", b"a", b""),
    "names": (b"hrn://h.example/", b"a/", b"a"),
    "escapes": (b"hrn://h.example/", b"%41", b""),
    "percent signs": (b"hrn://h.example/", b"%", b""),
    "slashes": (b"hrn://h.example", b"/", b""),
    "labels": (b"hrn://", b"a.", b"a/b"),
    "digits": (b"hrn://", b"1.", b"1/b"),
    "hyphens": (b"hrn://a", b"-", b"a/b"),
    "user": (b"hrn://", b"a%41", b"@h.example/b"),
    "at signs": (b"hrn://", b"@", b"h.example/b"),
    "UUID": (b"hrn://-/", b"0", b""),
    "letters": (b"hrn://h.example/", "ü".encode(), b""),
}
HASHED_URIS: dict[str, Shape] = {
    "algorithm": (b"hashed:", b"a", b"=00"),
    "digits": (b"hashed:sha1=", b"0", b""),
    "flags": (b"hashed:sha1=" + b"0" * 40, b"+frag", b""),
    "flags, no end": (b"hashed:sha1=" + b"0" * 40, b"+query+frag", b"+"),
    "equals signs": (b"hashed:", b"=", b""),
    "plus signs": (b"hashed:sha1=00", b"+", b""),
    "letters": (b"hashed:", "ü".encode(), b"=00"),
}


def built(shape: Shape, size: int) -> bytes:
    """An input of ``size`` octets, or a few less."""
    front, unit, behind = shape
    return front + unit * ((size - len(front) - len(behind)) // len(unit)) + behind


def text(function: Callable[[str], object]) -> Function:
    """The function, for octets."""
    return lambda octets: function(octets.decode("utf-8", "replace"))


def readings(url: bytes) -> object:
    """What servers may read in all behind ``http:/``."""
    path, mark, query = url.removeprefix(b"http:/").partition(b"?")
    return path_interpretations.path_interpretations(path, query if mark else None)


def functions() -> Iterator[tuple[str, Function, dict[str, Shape]]]:
    """All that is to be linear, with the inputs that could be the worst for it."""
    for name, profile in PROFILES.items():
        yield name, profile.canonicalize, URLS
    yield "readings", readings, URLS
    yield "unescape_repeatedly", normalization.percent_decode_repeatedly, PERCENT
    yield "resolve, reference", lambda octets: resolve(octets, "http://h/a/b?c"), REFERENCES
    yield "resolve, base", lambda octets: resolve("../b", b"http://h/" + octets), REFERENCES
    yield "undo_html_escapes", text(iri.undo_html_escapes), CHARACTER_REFERENCES
    yield "undo_xml_escapes", text(iri.undo_xml_escapes), CHARACTER_REFERENCES
    yield "normalize_nfc", text(iri.normalize_nfc), MARKS
    yield "parse_hrn", text(parse_hrn), HRNS
    yield "parse_hashed_uri", text(parse_hashed_uri), HASHED_URIS


# -- Measuring ---------------------------------------------------------------------------------------------------


def seconds(function: Function, values: Sequence[bytes]) -> float:
    """Processor time that the function takes for all values; what it refuses counts as well.

    Not time by the clock: whatever takes longer than the system's time slice waits for others meanwhile, and grows more
    than it is to blame for.
    """
    start = time.process_time()
    for value in values:
        try:  # noqa: SIM105 - contextlib.suppress takes time of its own
            function(value)
        except Exception:
            pass
    return time.process_time() - start


def typical(peers: dict[str, Function], urls: Sequence[bytes]) -> bool:
    """Print microseconds for a typical URL, in turns; whether the targets hold."""
    ours = {f"hushlist {name}": profile.canonicalize for name, profile in PROFILES.items()}
    everyone: dict[str, Function] = {**ours, **peers}
    times: dict[str, list[float]] = {name: [] for name in everyone}
    for _ in range(ROUNDS):
        for name, function in everyone.items():
            times[name].append(seconds(function, urls) / len(urls))
    base = times["hushlist safebrowsing"]
    print(f"\n{len(urls)} real or realistic URLs, {ROUNDS} rounds          µs a URL    times safebrowsing")
    good = True
    for name, taken in times.items():
        # Each is compared with what ran in the same round.
        ratio = statistics.median(other / own for other, own in zip(taken, base, strict=True))
        target = TARGETS.get(name)
        missed = target is not None and ratio < target
        good &= not missed
        wanted = "" if target is None else f"   {'MISSED' if missed else 'holds'}: at least {target:.0f}"
        print(f"{name:<40} {statistics.median(taken) * 1e6:16.1f} {ratio:14.1f}{wanted}")
    return good


@dataclass(frozen=True, slots=True)
class Row:
    """One function on one input."""

    name: str
    #: seconds for each of SIZES; fewer where a time limit was reached
    times: tuple[float, ...]
    #: from the last size but one to the last, of those that were measured
    growth: float
    fault: str

    def __str__(self) -> str:
        each = "".join(f"{seconds * 1e6 / (size >> 10):9.1f}" for seconds, size in zip(self.times, SIZES, strict=False))
        each += "        -" * (len(SIZES) - len(self.times))
        return f"  {self.name:<32}{each}{self.growth:8.1f}x  {self.fault}"


def measured(name: str, function: Function, shape: Shape, *, limit: float | None = None) -> Row:
    """Medians of several rounds, sizes in turns; sizes that would take longer than the limit are left out."""
    runs: list[list[bytes]] = []
    once, fault = 0.0, ""
    for size in SIZES:
        if limit is not None and once * 16 > limit:  # as if it were quadratic
            fault = f"stopped: may take more than {limit:.0f} s"
            break
        value = built(shape, size)
        fault = outcome(function, value)
        once = seconds(function, [value])
        # At least half a millisecond a run, so that the clock's own noise does not count.
        runs.append([value] * max(1, min(500, int(5e-4 / max(once, 1e-9)))))
    rounds = [[seconds(function, run) / len(run) for run in runs] for _ in range(5 if once < LIMIT / 10 else 1)]
    times = tuple(statistics.median(column) for column in zip(*rounds, strict=True))
    return Row(name, times, statistics.median(row[-1] / row[-2] if len(row) > 1 else 1 for row in rounds), fault)


def outcome(function: Function, value: bytes) -> str:
    """What becomes of it, where it is no result."""
    try:
        function(value)
    except UrlError:
        return "refused"
    except Exception as error:
        return type(error).__name__
    return ""


def growth(name: str, function: Function, shapes: dict[str, Shape], *, is_peer: bool, show_all: bool) -> bool:
    """Print µs per KiB by size, the worst inputs first; whether all is linear."""
    limit = LIMIT if is_peer else None
    rows = []
    for what, shape in shapes.items():
        row = measured(what, function, shape, limit=limit)
        for _ in range(3):  # somebody else may have had the processor
            if is_peer or row.growth <= MOST_GROWTH:
                break
            row = min(row, measured(what, function, shape), key=lambda one: one.growth)
        rows.append(row)
    bad = [row for row in rows if row.growth > MOST_GROWTH]
    stopped = sum(len(row.times) < len(SIZES) for row in rows)
    rows.sort(key=lambda row: (len(row.times), -row.times[-1]))
    worst = max(rows, key=lambda row: row.growth)
    verdict = f"NOT LINEAR on {len(bad)} of {len(rows)} inputs" if bad else f"linear on {len(rows)} inputs"
    verdict += f", stopped on {stopped}" if stopped else ""
    print(f"{name}: {verdict}; largest growth {worst.growth:.1f}x on {worst.name!r}")
    for row in rows if show_all else {id(row): row for row in (*rows[:3], *bad[:6])}.values():
        print(row)
    return not bad


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 with --check where something is slower than it is to be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--all", action="store_true", help="print every input, not only the worst")
    parser.add_argument("--urls", type=int, default=5000, help="how many typical URLs (default: %(default)s)")
    options = parser.parse_args(argv)

    print("command: python tests/bench/canonicalize.py", *(sys.argv[1:] if argv is None else argv))
    print(f"machine: Python {platform.python_version()}, {processor()}")
    peers = installed_peers()
    urls = [request.url for request in requests()]
    good = typical(peers, random.Random(1).sample(urls, min(options.urls, len(urls))))

    sizes = "".join(f"{size >> 10:5} KiB" for size in SIZES)
    print(f"\nµs per KiB                       {sizes}  16->64\n")
    for name, function, shapes in functions():
        good &= growth(name, function, shapes, is_peer=False, show_all=options.all)
    print("\nThe peers on the same inputs\n")
    for name, function in peers.items():
        growth(name, function, URLS, is_peer=True, show_all=options.all)
    return 1 if options.check and not good else 0


if __name__ == "__main__":
    sys.exit(main())
