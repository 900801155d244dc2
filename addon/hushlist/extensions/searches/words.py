"""The one normal form of words, and their combinations.

>>> words_of("K\N{FULLWIDTH LATIN SMALL LETTER I}ll  my\N{ZERO WIDTH SPACE}self, KILL!")
('kill', 'myself')
>>> [text.decode() for text in combinations_of(("kill", "myself"))]
['kill', 'myself', 'kill+myself']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from urllib.parse import quote

from hushlist.core.system.late_pattern import late_pattern

#: words of a rule
MOST_OF_RULE = 3
#: of this many words, all combinations are looked for: 92
FEW = 8
#: from this many words on, only those of three neighbours are; and this many words are looked at
_LONG, MOST_WORDS = 64, 1024

_WORD = late_pattern(r"[^\W_]+")
#: letters that scripts without spaces between words have: each is a word; it takes long to compile, and starts need not
_ALONE = "([\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
#: what stands in a text and is not seen: controls, formats, marks that choose a variant, fillers
_UNSEEN = late_pattern("[\x00-\x08\x0e-\x1f\x7f-\x9f"
                     "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
                     "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]")  # fmt: skip
_LATIN, _ALIKE = late_pattern("[a-z]"), late_pattern("[\u0370-\u03ff\u0400-\u052f]")
# Spec: UTS 39, 4, confusables.txt, of which these are the letters of Greek and Cyrillic that look like one of a to z,
# after case folding
_SKELETON = str.maketrans({
    "\u03b1": "a", "\u03b3": "y", "\u03b9": "i", "\u03ba": "k", "\u03bd": "v", "\u03bf": "o", "\u03c1": "p",
    "\u03c3": "o", "\u03c5": "u", "\u0430": "a", "\u0433": "r", "\u0435": "e", "\u043a": "k", "\u043e": "o",
    "\u0440": "p", "\u0441": "c", "\u0443": "y", "\u0445": "x", "\u0455": "s", "\u0456": "i", "\u0458": "j",
    "\u0475": "v", "\u04bb": "h", "\u04cf": "l", "\u0501": "d", "\u051b": "q", "\u051d": "w",
})  # fmt: skip


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in normal form, each once, in their order.

    A word with letters of Latin and of a script that looks like it is read as Latin, as people see it; the dot of a
    Turkish i makes no difference.

    Spec: UAX 15 (NFKC), UAX 29 in short, UTS 39, 4
    """
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    text = _UNSEEN.sub("", text).replace("\u0131", "i").replace("i\u0307", "i")
    text = re.sub(_ALONE, r" \1 ", unicodedata.normalize("NFKC", text))
    return tuple(dict.fromkeys(map(_as_seen, _WORD.findall(text))))


def _as_seen(word: str) -> str:
    return word.translate(_SKELETON) if _ALIKE.search(word) and _LATIN.search(word) else word


def combination(words: Iterable[str]) -> bytes:
    """The query that stands for some words, as a canonical URL has it."""
    return b"+".join(sorted(map(_written, words)))


def _written(word: str) -> bytes:
    return word.encode() if word.isascii() else quote(word, safe="").encode()


def combinations_of(words: Sequence[str], window: int = FEW) -> Iterator[bytes]:
    """The combinations of the words of a text that rules may be for, each once; in time linear in the words.

    Of more than ``FEW`` words, only those of so many that follow each other are combined.
    """
    written = [*map(_written, words[:MOST_WORDS])]
    if len(written) <= FEW:
        written.sort()
        for size in range(1, MOST_OF_RULE + 1):
            yield from map(b"+".join, combinations(written, size))
        return
    window = window if len(written) <= _LONG else MOST_OF_RULE
    for place, word in enumerate(written):
        before = written[max(0, place - window + 1) : place]
        yield word
        for size in range(1, MOST_OF_RULE):
            for others in combinations(before, size):
                yield b"+".join(sorted((*others, word)))
