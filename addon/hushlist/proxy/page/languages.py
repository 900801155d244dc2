"""The languages of the pages: their texts, and the choice by Accept-Language.

Every language is one file of ``texts``, named by its tag, with the same keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files

DEFAULT = "en"
#: a reader has a few languages; what follows so many, or is longer, is ignored
_MOST_RANGES = 50
_LONGEST_RANGE = 100

# Spec: RFC 4647, 2.1: 'language-range = (1*8ALPHA *("-" 1*8alphanum)) / "*"'
_RANGE = re.compile(r"(?:[a-z]{1,8}(?:-[a-z0-9]{1,8})*|\*)", re.ASCII)
# Spec: RFC 9110, 12.4.2: 'qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )'
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


def _read_texts() -> dict[str, Mapping[str, str]]:
    folder = files("hushlist.proxy.page").joinpath("texts")
    found = (file for file in folder.iterdir() if file.name.endswith(".json"))
    by_tag = {file.name.removesuffix(".json"): json.loads(file.read_text(encoding="utf-8")) for file in found}
    return dict(sorted(by_tag.items()))


#: language tag -> key -> text; read once, so that a missing file fails at the start and not at a page
TEXTS: Mapping[str, Mapping[str, str]] = _read_texts()


def negotiate(header: str, offered: Collection[str] = TEXTS.keys(), default: str = DEFAULT) -> str:
    """The language to answer in, by an Accept-Language header, which may have any content.

    >>> negotiate("de-CH, fr;q=0.9, en;q=0.8", ["en", "de", "fr"])
    'de'
    >>> negotiate("tlh, *;q=0.5", ["en", "de"])
    'en'

    Spec: RFC 9110, 12.5.4, and RFC 4647, 3.4 (lookup)
    """
    weighted = list(_ranges(header))
    # 'a value of 0 means "not acceptable"'
    refused = {wanted for wanted, weight in weighted if weight == 0}
    # sorting is stable: of two with the same weight the first one comes first
    for wanted, weight in sorted(weighted, key=lambda item: -item[1]):
        if weight > 0 and (found := _look_up(wanted, offered, default, refused)) is not None:
            return found
    # RFC 9110, 12.5.4: where nothing fits, "the origin server can either disregard the header field by treating the
    # response as if it is not subject to content negotiation" - a page in some language is better than none
    return default


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """Every valid language range, with its weight."""
    for item in header.split(",", _MOST_RANGES)[:_MOST_RANGES]:
        if len(item) > _LONGEST_RANGE:
            continue
        wanted, *parameters = (part.strip(" \t").lower() for part in item.split(";"))
        weights = [_WEIGHT.fullmatch(parameter) for parameter in parameters]
        if _RANGE.fullmatch(wanted) and len(weights) <= 1 and None not in weights:
            yield wanted, next((float(found[1]) for found in weights if found), 1.0)


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
