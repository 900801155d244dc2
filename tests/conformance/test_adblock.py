"""Adblock filters, judged by adblock-rust: real lists over recorded requests, and random filters over random URLs."""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.adblock_judge import (
    CLASSES,
    FOLDER,
    LISTS,
    BrowserRequest,
    Difference,
    Judge,
    class_of,
    compare,
    ours,
    recorded,
)
from conformance.readme import section, table
from hushlist.core.match.context import KINDS, context_of
from hushlist.core.url.request import request_of
from hushlist.extensions.adblock.filter_reader import parse_filter, split_options
from hushlist.extensions.adblock.network_filter import UrlInContext
from unit.rows import each_row

pytest.importorskip("adblock", reason="the package adblock (adblock-rust) is not installed")

needs_lists = pytest.mark.skipif(not FOLDER.is_dir(), reason="there are no Adblock lists in the shared data")


# -- lists -------------------------------------------------------------------------------------------------------------


@cache
def judged(name: str, folder: Path) -> tuple[Counter[tuple[bool, bool, bool]], list[Difference]]:
    """How many requests whose context was recorded (or not) are blocked there, and here; and the differences.

    A list alone is asked about the recorded ones.
    """
    texts = [gzip.decompress((FOLDER / file).read_bytes()).decode() for file in LISTS[name]]
    engine, judge = ours(folder, *texts), Judge(*texts)
    requests, known = recorded()
    requests = requests if len(texts) > 1 else requests[:known]
    counts: Counter[tuple[bool, bool, bool]] = Counter()
    differences = []
    for number, asked in enumerate(requests):
        theirs, own, difference = compare(engine, judge, asked)
        counts[number < known, theirs, own] += 1
        differences += [] if difference is None else [difference]
    return counts, differences


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tmp_path_factory.mktemp("lists") for name in LISTS}


@needs_lists
@pytest.mark.thorough
@pytest.mark.xdist_group("adblock")
@pytest.mark.timeout(600)
class TestLists:
    @pytest.mark.parametrize("name", LISTS)
    def test_a_list_decides_as_in_the_browser(self, name: str, folders: dict[str, Path]) -> None:
        counts, _ = judged(name, folders[name])
        rows = {name: counts for name, *counts in table(section("Adblock lists"))}
        known = {is_known for is_known, _, _ in counts}
        assert known == ({True, False} if len(LISTS[name]) > 1 else {True})
        for is_known in known:
            cells = rows[f"{name}, {'as recorded' if is_known else 'completed'}"]
            both, missed = counts[is_known, True, True], counts[is_known, True, False]
            false, passed = counts[is_known, False, True], counts[is_known, False, False]
            assert both >= 0.99 * (both + missed)
            assert false <= 0.001 * (false + passed)
            assert cells == [str(number) for number in (both + missed, both, false + passed, false)]

    def test_a_difference_has_a_class(self, folders: dict[str, Path]) -> None:
        run: Counter[str | None] = Counter()
        for name in LISTS:
            _, differences = judged(name, folders[name])
            assert [one for one in differences if class_of(one) is None] == []
            run.update(map(class_of, differences))
        listed = table(section("Requests that differ"))
        assert {name: str(run[name]) for name in CLASSES} == {name: count for name, count, _ in listed}
        assert all(clause for _, _, clause in listed)


# -- random filters ----------------------------------------------------------------------------------------------------

_HOSTS = ("a.com", "ads.a.com", "www.ads.a.com", "ads.com", "b.co.uk", "x.b.co.uk", "me.github.io", "you.github.io")
_WORDS = ("ad", "ads", "Banner", "track", "a", "com", "js", "img", "x1", "b-c", "q_r")
_MARKS = ("/", ".", "-", "_", "?", "=", "&", "/", "/", ".")
_REGEXES = (
    *(r"/^https?:\/\/[a-z.]+\/(ad|track)s?[.\/]/", r"/\/(ads?|banner|x1)[\/._-]/", r"/[?&]ad=[0-9]/"),
    *(r"/(a|ads)\.com\/[a-z]{2,4}[\/._?=&-]/", r"/^https:\/\/(www\.)?ads\./", r"/Banner[\/.]/"),
)


def random_url(random: Random) -> str:
    path = "".join(random.choice(_WORDS) + random.choice((*_MARKS, ":")) for _ in range(random.randrange(5)))
    end = random.choice(("", "ad", "a.js", "a.gif", "?ad=1", "Ad"))
    end = "ad" if path.endswith(".") and end in ("", "?ad=1") else end  # servers may remove such a dot: reading 15
    return f"{random.choice(('http', 'https'))}://{random.choice(_HOSTS)}/{path}{end}"


def random_filter(random: Random) -> str:
    """A filter without what the two are known to read in different ways: see ``READINGS``."""
    body = random.choice(_WORDS)
    body += "".join(random.choice((*_WORDS, *_MARKS, "^", "*")) for _ in range(random.randrange(5)))
    mark, kind = ("@@" if random.random() < 0.3 else ""), random.random()
    if kind < 0.15:
        pattern = random.choice(_REGEXES)
    elif kind < 0.5:
        host = random.choice([host for host in _HOSTS if not host.startswith("www.")])
        pattern = f"||{host}{random.choice(('/' if mark else '^', '/', '^' + body, '/' + body, '^*' + body))}"
    elif kind < 0.6:
        pattern = f"|{random.choice(('http', 'https'))}://{random.choice(_HOSTS)}/{body}"
    else:
        pattern = f"{random.choice(_WORDS)}/{body}"
        pattern += "|" if random.random() < 0.1 and pattern[-1] not in "*^" else ""
    return mark + pattern + _random_options(random)


def _random_options(random: Random) -> str:
    options = []
    if random.random() < 0.4:
        kinds = random.sample([kind for kind in KINDS if kind != "document"], random.randrange(1, 4))
        options += [f"~{kind}" for kind in kinds] if random.random() < 0.3 else kinds
    if random.random() < 0.3:
        options.append(random.choice(("third-party", "~third-party", "3p", "1p", "first-party")))
    if random.random() < 0.3:
        not_ = random.choice(("", "", "~"))
        options.append("domain=" + "|".join(not_ + random.choice(_HOSTS) for _ in range(random.randrange(1, 4))))
    if random.random() < 0.1:
        options.append("important")
    random.shuffle(options)
    return f"${','.join(options)}" if options else ""


def with_badfilters(filters: list[str], random: Random) -> list[str]:
    """The filters, and among them some that take others back, their options in another order."""
    back = []
    for own in random.sample(filters, len(filters) // 5):
        pattern, options = split_options(own)
        options.insert(random.randrange(len(options) + 1), "badfilter")
        random.shuffle(options)
        back.append(f"{'@@' * own.startswith('@@')}{pattern}${','.join(options)}")
    every = filters + back
    random.shuffle(every)
    return every


@pytest.mark.parametrize("seed", range(30))
def test_random_filters_decide_as_in_the_browser(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    filters = with_badfilters([random_filter(random) for _ in range(15)], random)
    text = "[Adblock Plus 2.0]\n" + "\n".join(filters)
    engine, judge = ours(tmp_path, text), Judge(text)
    kinds = [kind for kind in KINDS if kind != "document" or "@@" not in text]
    for _ in range(150):
        kind, url = random.choice(kinds), random_url(random)
        asked = BrowserRequest(url, url if kind == "document" else random_url(random), kind)
        assert compare(engine, judge, asked)[2] is None, text


_SOME_HOSTS = st.lists(st.sampled_from([*_HOSTS, "com", "co.uk"]), min_size=1, max_size=3, unique=True)


@given(st.randoms(use_true_random=False), st.sampled_from(["to", "denyallow", "from"]), _SOME_HOSTS)
@settings(max_examples=3 * settings.default.max_examples // 2)
def test_an_option_that_adblock_rust_does_not_know_narrows_what_it_blocks(
    random: Random, option: str, hosts: list[str]
) -> None:
    pattern, options = split_options(random_filter(random).removeprefix("@@"))
    options = [own for own in options if not own.startswith("domain=")]
    names = "|".join(hosts)
    own = parse_filter(f"{pattern}${','.join([*options, f'{option}={names}'])}")
    known = [*options, f"domain={names}"] if option == "from" else options
    judge = Judge(f"[Adblock Plus 2.0]\n{pattern}{'$' * bool(known)}{','.join(known)}")
    for _ in range(20):
        kind = random.choice([kind for kind in KINDS if kind != "document"])
        asked = BrowserRequest(random_url(random), random_url(random), kind)
        request = request_of(asked.url.replace("http", "ws", kind == "websocket"), asked.context)
        host = request.hosts[0]
        is_below = any(host == name.encode() or host.endswith(f".{name}".encode()) for name in hosts)
        expected = judge(asked)[0] and {"to": is_below, "denyallow": not is_below}.get(option, True)
        assert own.fits(UrlInContext(request.url, host, context_of(request, host))) is expected


# -- readings ----------------------------------------------------------------------------------------------------------

_PAGE = "https://page.example/"
#: a row of README.md -> a filter, a request, and whether we block it; adblock-rust does the opposite
READINGS = {
    "`www.` at the beginning of a host": ("||www.a.com^", BrowserRequest("https://a.com/x", _PAGE, "image"), False),
    "`match-case` without a regular expression": (
        "banner$match-case",
        BrowserRequest("https://a.com/BANNER", _PAGE, "image"),
        False,
    ),
    "an end behind a host": ("||a.com|", BrowserRequest("https://a.com/x", _PAGE, "image"), False),
    "a port behind a host": ("||a.com:8080", BrowserRequest("https://a.com:8080/x", _PAGE, "image"), True),
    "`^` at the end of the address, behind an escape": (
        "%2f^",
        BrowserRequest("https://a.com/ad%2f", _PAGE, "image"),
        True,
    ),
    "an exception for a host with types, and a document": (
        "||a.com^\n@@||a.com^$image",
        BrowserRequest("https://a.com/", "https://a.com/", "document"),
        True,
    ),
    "an escaped slash": ("||a.com/ad/", BrowserRequest("https://a.com/ad%2Fx", _PAGE, "image"), True),
    "`*` behind a host, and a document": (
        "||a.com^*",
        BrowserRequest("https://a.com/", "https://a.com/", "document"),
        True,
    ),
    "a page that `domain` names, below one that it excludes": (
        "||a.com^$domain=~b.com|x.b.com",
        BrowserRequest("https://a.com/", "https://x.b.com/", "image"),
        True,
    ),
}


@pytest.mark.slow
@each_row("reading", READINGS)
def test_a_filter_that_is_read_otherwise_is_listed_with_what_decides(reading: str, tmp_path: Path) -> None:
    text, asked, is_blocked = READINGS[reading]
    text = f"[Adblock Plus 2.0]\n{text}"
    theirs, own, _ = compare(ours(tmp_path, text), Judge(text), asked)
    assert (own, theirs) == (is_blocked, not is_blocked)


def test_the_readme_lists_the_readings() -> None:
    listed = table(section("Filters that are read otherwise"))
    assert [name for name, _, _ in listed] == list(READINGS)
    filters = [text.replace("|", "\\|").split("\n") for text, _, _ in READINGS.values()]
    assert [text for _, text, _ in listed] == [", ".join(f"`{own}`" for own in lines) for lines in filters]
    assert all(clause for _, _, clause in listed)
