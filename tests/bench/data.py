"""The workload: real request URLs, and lists of any length, real entries first and made-up ones shaped like them.

Real data is read from ../shared beside the checkout, or from HUSHLIST_SHARED. The lists of all lengths hold every real
entry that a real URL is below, so that the same URLs hit all of them; the next are other real entries, and then
made-up ones. Seeds are fixed. A list is written once into the folder that is given, and sorted as real ones are.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from ipaddress import IPv4Address
from itertools import chain, cycle, islice
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HUSHLIST_SHARED", ROOT.parent / "shared")) / "data"
RECORDED = DATA / "requests" / "requests.tsv.gz"

#: squidGuard reads no line that is longer
LONGEST_LINE = 4000
#: octets of a label that make its beginning, when labels are taken apart to make up others
CUT = 4

_DOMAIN = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z][a-z0-9-]*[a-z0-9]")
_PLAIN_PATH = re.compile(r"/(?:[A-Za-z0-9/._~?=&+:;,!@-]|%[2-7][0-9A-Fa-f]){0,400}")

# -- URLs --------------------------------------------------------------------------------------------------------


def urls() -> list[bytes]:
    """Real request URLs in the order in which they were recorded, or made-up ones where there are none."""
    if not RECORDED.is_file():
        numbers = random.Random(1)
        names = (f"https://w{numbers.randrange(9999)}.site{n}.example/a/b{n}/c.js?x={n}" for n in range(20_000))
        return [name.encode() for name in names]
    with gzip.open(RECORDED) as lines:
        return [line.split(b"\t")[0] for line in lines]


def filter_lists() -> list[str]:
    """EasyList and EasyPrivacy."""
    return [gzip.decompress((DATA / "adblock" / f"{name}.txt.gz").read_bytes()).decode() for name in _LISTS]


_LISTS = ("easylist", "easyprivacy")
_KINDS = {"js": "script", "css": "stylesheet", "png": "image", "gif": "image", "jpg": "image", "html": "subdocument"}


def asked_urls() -> list[tuple[bytes, bytes, str]]:
    """The URLs, each with a page of another site and the type that its path's ending tells."""
    endings = (url.partition(b"?")[0].rpartition(b".")[2].decode("ascii", "replace") for url in urls())
    return [(url, b"https://page.example/", _KINDS.get(own, "other")) for url, own in zip(urls(), endings, strict=True)]


def urls_used() -> str:
    """Which URLs these are, for people."""
    name = RECORDED.relative_to(DATA)
    where = f"recorded in {name}" if RECORDED.is_file() else f"made up, since {name} is absent"
    return f"{len(urls()):,}, {where}"


def repeated_urls(count: int) -> list[bytes]:
    """So many of the URLs, each about as often as any other, shuffled."""
    real = urls()
    many = [real[number % len(real)] for number in range(count)]
    random.Random(1).shuffle(many)
    return many


def url_rewrite_lines(folder: Path, count: int) -> Path:
    """So many lines of Squid's url_rewrite protocol; no URL is longer than squidGuard can read."""
    path = folder / f"lines-{count}.txt"
    if not path.is_file():
        short = (url for url in repeated_urls(count + count // 10) if len(url) < LONGEST_LINE)
        with _new(path) as file:
            file.writelines(b"%s 127.0.0.1/- - GET\n" % url for url in islice(short, count))
    return path


def paths(count: int) -> list[str]:
    """Paths with queries of real URLs that every server reads alike."""
    found = {url.path + (f"?{url.query}" if url.query else "") for url in map(_split, urls()) if url}
    plain = sorted(
        path for path in found if _PLAIN_PATH.fullmatch(path) and not re.search(r"\.\.|//|%2[ef]", path, re.I)
    )
    return random.Random(1).sample(plain, min(count, len(plain)))


def _split(url: bytes):
    try:
        return urlsplit(url.decode())
    except ValueError:
        return None


# -- Domains -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def real_domains() -> list[str]:
    """The domains of the real lists: first those that a real URL is below, then the others, shuffled."""
    files = [*sorted(DATA.glob("ut1/*/domains")), *sorted(DATA.glob("hosts/*.hosts"))]
    if not files:
        raise FileNotFoundError(f"the real lists are absent: {DATA} (HUSHLIST_SHARED may name another place)")
    # a domain is the last word of a line in either format
    words = {
        line.split()[-1] for file in files for line in file.read_text("utf-8", "replace").splitlines() if line.split()
    }
    domains = {word for word in words if _DOMAIN.fullmatch(word)}
    asked = {name for url in map(_split, urls()) if url for name in _suffixes(url.hostname or "")}
    others = sorted(domains - asked)
    random.Random(1).shuffle(others)
    return sorted(domains & asked) + others


def _suffixes(host: str) -> Iterator[str]:
    labels = host.split(".")
    return (".".join(labels[start:]) for start in range(len(labels)))


def domains(count: int) -> Iterator[str]:
    """So many domains, each once."""
    real = real_domains()
    yield from real[:count]
    yield from islice(made_up_domains(real), max(0, count - len(real)))


def made_up_domains(real: Sequence[str]) -> Iterator[str]:
    """Domains that are not among the real ones, each once.

    Every registered label is the beginning of a real one with the rest of another; all pairs are gone through in steps
    that are prime to their number, hence none comes twice. What stands before and behind it is that of a real domain.
    """
    parts = [_take_apart(name) for name in real]
    labels = [label for _, label, _ in parts if len(label) >= CUT and label[2:4] != "--"]
    beginnings = sorted({label[:CUT] for label in labels})
    rests = sorted({label[CUT:] for label in labels})
    number = len(beginnings) * len(rests)
    step = next(step for step in range(int(number * 0.618), number) if math.gcd(step, number) == 1)
    choose = random.Random(1)
    taken = set(real)
    place = 0
    while True:
        for before, _, behind in choose.choices(parts, k=1 << 16):
            place = (place + step) % number
            rest, beginning = divmod(place, len(beginnings))
            label = beginnings[beginning] + rests[rest]
            name = f"{before}{label}{behind}"
            if label[-1] != "-" and name not in taken:
                yield name


def _take_apart(name: str) -> tuple[str, str, str]:
    """What is before the registered label, that label, and what is behind it; a guess that mostly is right."""
    labels = name.split(".")
    of_suffix = 2 if len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3 else 1
    before = labels[: -of_suffix - 1]
    return (
        "".join(f"{label}." for label in before),
        labels[-of_suffix - 1],
        "".join(f".{label}" for label in labels[-of_suffix:]),
    )


# -- Lists -------------------------------------------------------------------------------------------------------


def domain_list(folder: Path, count: int) -> Path:
    """A file with a domain a line."""
    return _written(folder / f"{count}.domains", lambda: (f"{name}\n" for name in domains(count)))


def adblock_list(folder: Path, count: int) -> Path:
    """A file with the same domains as ``||domain^``."""
    return _written(folder / f"{count}.adblock", lambda: (f"||{name}^\n" for name in domains(count)))


def hash_list(folder: Path, count: int) -> Path:
    """A file with the SHA-256 of the same domains' expressions, in hexadecimal; in the order of the hashes."""
    sha256 = hashlib.sha256
    return _written(
        folder / f"{count}.sha256", lambda: (f"{sha256(f'{name}/'.encode()).hexdigest()}\n" for name in domains(count))
    )


def hashed_uri_list(folder: Path, count: int, number: int, hashed: Callable[[bytes], str]) -> Path:
    """A file with so many hashed URIs: one of a thousand real URLs, others in each list; and pages of the domains."""

    def lines() -> Iterator[str]:
        real = urls()[number::1000]
        ends = cycle(("/", "/?id=1", "/page", "/page?id=1", "/page#top", "/page?id=1#top", "/page/index.html"))
        names = islice(domains(count), count - len(real))
        pages = (f"http://{name}{end}".encode() for name, end in zip(names, ends, strict=False))
        return (f"{hashed(url)}\n" for url in chain(real, pages))

    return _written(folder / f"{count}.{number}.hashed-uris", lines)


def squidguard_folder(folder: Path, count: int) -> Path:
    """A folder of squidGuard's with so many entries: ``domains``, and at most a tenth in ``urls``."""
    target = folder / f"{count}.squidguard"
    target.mkdir(parents=True, exist_ok=True)
    files = sorted(DATA.glob("ut1/*/urls"))
    lines = sorted({line for file in files for line in file.read_text("utf-8", "replace").splitlines() if line})
    pages = random.Random(1).sample(lines, min(len(lines), count // 10))
    _written(target / "domains", lambda: (f"{name}\n" for name in domains(count - len(pages))))
    _written(target / "urls", lambda: (f"{page}\n" for page in pages))
    return target


def repeated_lists(folder: Path, count: int) -> list[Path]:
    """Folders of squidGuard's with so many entries: the real lists as they are, then again and again by other names."""
    target, left = folder / f"{count}.repeated", count
    files = [*sorted(DATA.glob("ut1/*/domains")), *sorted(DATA.glob("ut1/*/urls")), *sorted(DATA.glob("hosts/*.hosts"))]
    if not files:
        raise FileNotFoundError(f"the real lists are absent: {DATA} (HUSHLIST_SHARED may name another place)")
    folders: dict[Path, None] = {}
    for number in range(count):
        if not left:
            break
        for file in files:
            name, kind = (file.stem, "domains") if file.suffix == ".hosts" else (file.parent.name, file.name)
            entries = _entries(file)[:left]
            if not entries:  # the file is empty, or there are enough
                continue
            left -= len(entries)
            path = target / f"{name}-{number}" / kind
            folders[path.parent] = None
            if not path.is_file():
                with _new(path) as written:
                    written.writelines(f"{_renamed(entry, number)}\n".encode() for entry in entries)
    return list(folders)


@lru_cache
def _entries(file: Path) -> list[str]:
    """The entries of a real list, in its order."""
    lines = (line.strip() for line in file.read_text("utf-8", "replace").splitlines())
    kept = (line for line in lines if line and not line.startswith("#"))
    return [line.split()[-1] for line in kept] if file.suffix == ".hosts" else list(kept)


def _renamed(entry: str, number: int) -> str:
    """An entry of another registered domain or address for each number; that of 0 is the same."""
    host, slash, rest = entry.partition("/")
    if number and _DOMAIN.fullmatch(host):
        before, label, behind = _take_apart(host)
        host = f"{before}{number}{label}{behind}"
    elif number:
        with suppress(ValueError):  # neither a name nor an address
            host = str(IPv4Address(host) + (number << 16))
    return f"{host}{slash}{rest}"


def _written(path: Path, lines: Callable[[], Iterable[str]]) -> Path:
    """The file with these lines sorted by their octets, unless it is there already."""
    if not path.is_file():
        with _new(path) as file:
            order = subprocess.Popen(["sort"], stdin=subprocess.PIPE, stdout=file, env={**os.environ, "LC_ALL": "C"})
            assert order.stdin
            with order.stdin as pipe:
                pipe.writelines(line.encode() for line in lines())
            if order.wait():
                raise OSError(f"sort failed on {path}")
    return path


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it is there under its name only when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as file:
        yield file
    unfinished.replace(path)
