"""The languages of all that people see: their texts, one file for each, and which of them a reader gets."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from operator import attrgetter

#: key -> text
Texts = Mapping[str, str]


class _Table(Mapping[str, Texts]):
    """Texts by language, each made for its first reader: few proxies have readers of all languages."""

    def __init__(self, languages: Iterable[str], make: Callable[[str], Texts]) -> None:
        self._made: dict[str, Texts | None] = dict.fromkeys(languages)
        self._make = make

    def __getitem__(self, language: str) -> Texts:
        texts = self._made[language]
        if texts is None:
            texts = self._made[language] = self._make(language)
        return texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@cache
def load_texts(package: str, folder: str) -> Mapping[str, Texts]:
    """The texts in a package's folder, by language: each is a file, named by its tag, with the same keys.

    All files are read at once, and packed: until somebody reads a language, it takes a tenth of the memory.
    """
    packed = {
        file.name.removesuffix(".json"): zlib.compress(file.read_bytes())
        for file in sorted(files(package).joinpath(folder, "texts").iterdir(), key=attrgetter("name"))
        if file.name.endswith(".json")
    }
    return _Table(packed, lambda language: json.loads(zlib.decompress(packed[language])))


#: those of the block page, read once, so that a missing file fails at the start and not at a page
TEXTS: Mapping[str, Texts] = dict(load_texts("hushlist.proxy", "page"))


@cache
def live_texts() -> Mapping[str, Texts]:
    """Those of the live page, the history, notices and summaries, and the words of the block page, which they use."""
    live, subjects = load_texts("hushlist.extensions.dashboard", "live_page"), subject_texts()
    return joined(TEXTS, subjects, live)


@cache
def subject_texts() -> Mapping[str, Texts]:
    """A sentence for each subject of the catalogue of lists."""
    return load_texts("hushlist.extensions.subscriptions", "")


def joined(*tables: Mapping[str, Texts]) -> Mapping[str, Texts]:
    """Tables of texts as one."""
    return _Table(tables[0], lambda language: {key: text for table in tables for key, text in table[language].items()})


# -- numbers and dates -------------------------------------------------------------------------------------------------


def number_text(number: int, texts: Texts) -> str:
    """A whole number as readers of a language write it.

    >>> number_text(1234567, live_texts()["de"])
    '1.234.567'
    """
    return f"{number:,}".replace(",", texts["thousands"])


def moment_text(moment: datetime, texts: Texts, time: str = "%H:%M") -> str:
    """A day, and its time unless that is an empty form.

    >>> moment_text(datetime(2026, 12, 4), TEXTS["de"], ""), moment_text(datetime(2026, 12, 4, 7), TEXTS["ja"])
    ('4. Dezember 2026', '2026年12月4日 07:00')
    """
    month = texts["months"].split()[moment.month - 1]
    shown = texts["moment"].format(day=moment.day, month=month, year=moment.year, time=moment.strftime(time))
    return shown.rstrip(" ,،")


def local_time(moment: datetime, texts: Texts) -> str:
    """A moment as readers of a language write it, in its own time zone.

    >>> from datetime import timedelta, timezone
    >>> moment = datetime(2026, 12, 4, 22, 30, 9, tzinfo=timezone(timedelta(hours=1)))
    >>> local_time(moment, TEXTS["en"]), local_time(moment, TEXTS["ja"])
    ('4 December 2026, 22:30 (UTC+01:00)', '2026年12月4日 22:30 (UTC+01:00)')
    """
    offset = moment.isoformat(timespec="minutes").removeprefix(moment.replace(tzinfo=None).isoformat("T", "minutes"))
    return f"{moment_text(moment, texts)} (UTC{'' if offset == '+00:00' else offset})"


# -- which language ---------------------------------------------------------------------------------------------------

DEFAULT_LANGUAGE = "en"
#: a reader has a few languages; what follows so many, or is longer, is ignored
_MOST_RANGES = 50
_LONGEST_RANGE = 100

# Spec: RFC 4647, 2.1: 'language-range = (1*8ALPHA *("-" 1*8alphanum)) / "*"'
_RANGE = re.compile(r"(?:[a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)", re.ASCII)
# Spec: RFC 9110, 12.4.2: 'qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )'
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


def negotiate(header: str, offered: Collection[str] = TEXTS.keys(), default: str = DEFAULT_LANGUAGE) -> str:
    """The language to answer in, by an Accept-Language header, which may have any content.

    >>> negotiate("de-CH, fr;q=0.9, en;q=0.8", ["en", "de", "fr"])
    'de'
    >>> negotiate("tlh, *;q=0.5", ["en", "de"])
    'en'

    Spec: RFC 9110, 12.5.4, and RFC 4647, 3.4 (lookup)
    """
    wanted, refused = _read_header(header) if len(header) <= _LONGEST_KNOWN else _read_header.__wrapped__(header)
    for language_range in wanted:
        if (language := _look_up(language_range, offered, default, refused)) is not None:
            return language
    # RFC 9110, 12.5.4: where nothing fits, "the origin server can either disregard the header field by treating the
    # response as if it is not subject to content negotiation" - a page in some language is better than none
    return default


#: characters of a header that the cache keeps
_LONGEST_KNOWN = 128


@lru_cache(256)
def _read_header(header: str) -> tuple[Sequence[str], Collection[str]]:
    """The valid ranges, that with the largest weight first, of two with the same weight the first one; and those that
    are refused."""
    weighted = _with_script(sorted(_ranges(header), key=lambda item: -item[1]))
    # 'a value of 0 means "not acceptable"'
    refused = {wanted for wanted, weight in weighted if weight == 0}
    return [wanted for wanted, weight in weighted if weight > 0], refused


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """Every valid language range, with its weight."""
    for item in header.split(",", _MOST_RANGES)[:_MOST_RANGES]:
        if len(item) > _LONGEST_RANGE:
            continue
        wanted, *parameters = (part.strip(" \t").lower() for part in item.split(";"))
        weights = [_WEIGHT.fullmatch(parameter) for parameter in parameters]
        if _RANGE.fullmatch(wanted) and len(weights) <= 1 and None not in weights:
            yield wanted, next((float(weight[1]) for weight in weights if weight), 1.0)


#: regions where Chinese is mostly written in traditional characters (likely subtags of Unicode's CLDR)
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})
_SIMPLIFIED = frozenset({"hans", "cn", "sg", "my"})


def _with_script(weighted: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The ranges, with the script of Chinese written out; ``zh`` alone means that of the reader's other ranges.

    Browsers send ``zh-TW, zh;q=0.9``: whoever reads traditional characters does not ask for simplified ones by that.
    """
    first = next((script for wanted, weight in weighted if weight > 0 and (script := _script_of(wanted))), "hans")
    return [
        (f"zh-{_script_of(wanted) or first}" if wanted.split("-")[0] == "zh" else wanted, weight)
        for wanted, weight in weighted
    ]


def _script_of(wanted: str) -> str | None:
    """The script that a range for Chinese means; ``None``: it does not say.

    >>> _script_of("zh-hant-cn"), _script_of("zh-sg"), _script_of("zh"), _script_of("de-tw")
    ('hant', 'hans', None, None)
    """
    language, *subtags = wanted.split("-")
    for subtag in subtags if language == "zh" else ():
        if subtag in _TRADITIONAL:
            return "hant"
        if subtag in _SIMPLIFIED:
            return "hans"
    return None


def _look_up(wanted: str, offered: Collection[str], default: str, refused: Collection[str]) -> str | None:
    """The language that fits one range best: "the language range is progressively truncated from the end"."""
    if wanted == "*":
        return next((tag for tag in (default, *offered) if tag not in refused), None)
    while wanted:
        if wanted in offered and wanted not in refused:
            return wanted
        wanted = wanted.rpartition("-")[0]
        # "Single letter or digit subtags [...] are removed as well": one may not be the last
        if wanted[-2:-1] == "-":
            wanted = wanted[:-2]
    return None
