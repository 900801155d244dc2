"""Categories by the short names that extensions give them: `tiktok` in the place of an `hrn:` name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from hushlist.core.errors import UrlError, did_you_mean
from hushlist.core.extension import Extension, built_in, load
from hushlist.core.url.hrn import parse_hrn

_SCHEME = "hrn:"


@cache
def _names_of(reference: str) -> Mapping[str, str]:
    names: Mapping[str, str] = load(reference)()
    return names


def short_names(extensions: Iterable[Extension] | None = None) -> dict[str, str]:
    """The short names of categories, each with the `hrn:` name that it stands for."""
    every = built_in() if extensions is None else extensions
    return {
        name: category
        for each in every
        if each.category_names
        for name, category in _names_of(each.category_names).items()
    }


def category_named(text: str, extensions: Iterable[Extension] | None = None) -> str:
    """The normal form of an `hrn:` name, or what a short name stands for, with the levels behind it.

    >>> category_named("HRN://c.example/web"), category_named("games/chess")
    ('hrn://c.example/web', 'hrn://hushlist.example/services/games/chess')

    Raises:
        UrlError: it is neither.
    """
    if text[: len(_SCHEME)].lower() == _SCHEME or "://" in text:
        return str(parse_hrn(text))
    categories = short_names(extensions)
    first, slash, rest = text.partition("/")
    if first not in categories:
        near = did_you_mean(first, categories)
        raise UrlError(text, f"it is no hrn: name, and no category has this short name{near}")
    return str(parse_hrn(categories[first] + slash + rest))
