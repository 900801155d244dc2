"""Labels of a host in which letters of several scripts stand, as no language writes them.

Spec: UTS 39, 5.2, Highly Restrictive
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import category, name, normalize

from hushlist.core.match.checks import CheckedRequest
from hushlist.core.url.request import readable_host

#: scripts that stand beside each other in one language, all but Latin
_TOGETHER = (
    frozenset(("CJK", "HIRAGANA", "KATAKANA")),
    frozenset(("CJK", "BOPOMOFO")),
    frozenset(("CJK", "HANGUL")),
)
#: beginnings of the names of letters that are of a script in other words
_SAME = {"IDEOGRAPHIC": "CJK", "KANGXI": "CJK", "HALFWIDTH": "KATAKANA"}


def find_mixed_scripts(request: CheckedRequest) -> bytes | None:
    """The first label of the host that mixes scripts, in both spellings, and which."""
    host = readable_host(request.host)
    if b"xn--" not in host:
        return None
    for label in host.split(b"."):
        if label.startswith(b"xn--") and (text := _decoded(label)) is not None:
            scripts = scripts_of(text)
            if len(scripts) > 1:
                return f"{label.decode()} ({text}: {' and '.join(sorted(map(str.title, scripts)))})".encode()
    return None


@lru_cache(1024)
def _decoded(label: bytes) -> str | None:
    try:
        return normalize("NFC", label[4:].decode("punycode"))
    except (UnicodeError, ValueError):
        return None


def scripts_of(text: str) -> frozenset[str]:
    """The scripts that do not belong together of a text's letters; one or none if all do.

    >>> sorted(scripts_of("p\u0430ypal")), scripts_of("b\u00fccher"), scripts_of("abc日本のテ")
    (['CYRILLIC', 'LATIN'], frozenset({'LATIN'}), frozenset({'CJK'}))
    """
    of_letters = {_script(letter) for letter in text if category(letter)[0] == "L"}
    scripts = frozenset(script for script in of_letters if script is not None)
    others = scripts - {"LATIN"}
    for together in _TOGETHER:
        if len(others) > 0 and others <= together:
            return frozenset((min(others),))
    return scripts


def _script(letter: str) -> str | None:
    """The first word of a letter's name, which is its script; ``None`` where it is of no script alone."""
    word = name(letter, "").partition(" ")[0]
    if word in ("", "MODIFIER", "KATAKANA-HIRAGANA", "FEMININE", "MASCULINE"):
        return None
    return _SAME.get(word, word)
