"""Names that look like protected ones: by letters of other scripts, digits for letters, and one slip of the finger.

Protected names may be hashed or sealed: then every name that a host looks like is made, within a bound, and its hash
is looked for. So the list need not tell whose names it protects.

Spec: UTS 39, 4, skeletons
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from unicodedata import category, normalize

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import read_seal_key
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.match.checks import CheckedRequest, Hint
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.policy.key_types import TEXT, Reading, each_of
from hushlist.core.policy.keys import Type
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.host import is_address, is_plain_name, to_ascii
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import readable_host

#: spellings of a label that are tried for what it shows, before any is changed by one letter
MOST_SPELLINGS = 256
#: letters of the shortest label that one slip makes another, or that counts with another ending: shorter ones are
#: near to each other by chance
SHORTEST = 6
#: letters of the shortest word that is looked for among others, words of a label that are, and spellings of each
SHORTEST_WORD, MOST_WORDS, _SPELLINGS_OF_WORD = 4, 8, 32
_MOST_KNOWN = 1 << 12
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-"
#: what digits stand for, and what looks like two letters
_DIGITS = dict(zip("0123456789l", ("o", "li", "z", "e", "a", "s", "bg", "t", "b", "g", "i"), strict=True))
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("m", "rn"), ("w", "vv"), ("nn", "m"))
_HASH = re.compile(r"[0-9A-Fa-f]{64}")


@cache
def _confusables() -> dict[int, str]:
    """Letters by the ASCII that they look like, for ``str.translate``."""
    table: dict[int, str] = {}
    for line in Path(__file__).with_name("confusables.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            shown, letters = line.split("\t")
            table |= {ord(letter): shown for letter in letters}
    return table


def skeleton(text: str) -> str:
    """What a label looks like; two labels with one skeleton look alike.

    >>> skeleton("\u0440\u0430ypal") == skeleton("paypa1"), skeleton("b\u00fccher") == skeleton("bucher")
    (True, False)
    """
    return normalize("NFD", normalize("NFD", text).translate(_prototypes()))


@cache
def _prototypes() -> dict[int, str]:
    return {**_confusables(), ord("0"): "o", ord("1"): "l", ord("m"): "rn"}


def spellings(text: str) -> Iterator[str]:
    """What a label may stand for in ASCII, at most ``MOST_SPELLINGS``, itself not among them; the nearest come first.

    >>> list(spellings("paypa1")), "modern" in spellings("rnodern"), "o2" in spellings("02")
    (['paypal', 'paypai'], True, True)
    """
    bare = "".join(letter for letter in normalize("NFD", text) if category(letter) != "Mn")
    plain = bare.translate(_confusables())
    seen = {text: None, plain: None}
    pending = [plain]
    if plain != text and plain.isascii():
        yield plain
    for spelling in pending:
        for other in _respelled(spelling):
            if other not in seen and len(seen) < MOST_SPELLINGS:
                seen[other] = None
                pending.append(other)
                if other.isascii():
                    yield other


def _respelled(text: str) -> Iterator[str]:
    for at, letter in enumerate(text):
        for other in _DIGITS.get(letter, ""):
            yield text[:at] + other + text[at + 1 :]
    for pair, other in _PAIRS:
        at = text.find(pair)
        while at >= 0:
            yield text[:at] + other + text[at + len(pair) :]
            at = text.find(pair, at + 1)


def slips(text: str) -> Iterator[str]:
    """The ASCII labels that differ by one letter, left out, too many, another, or two that have changed places.

    The first letter stays: who types looks at it, and many sites differ by it alone.
    """
    for at in range(1, len(text) + 1):
        head, tail = text[:at], text[at:]
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in _ALPHABET)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        yield from (head + letter + tail for letter in _ALPHABET)


class ProtectedNames:
    """Protected registrable domains, some of which only their hashes tell."""

    def __init__(
        self, names: Iterable[bytes], hashes: Iterable[bytes] = (), digest: Callable[[bytes], bytes] | None = None
    ) -> None:
        """``digest``: how an expression is hashed; by SHA-256, if nothing is said."""
        self._names, self._hashes = frozenset(names), frozenset(hashes)
        self._digest = digest or (lambda expression: sha256(expression).digest())
        self._skeletons = {(skeleton(_shown(name)), suffix): name for name, suffix in map(_parted, self._names)}
        public_suffixes()  # reads them, so that no request waits for it
        self._labels = {shown: name + b"." + suffix for (shown, suffix), name in self._skeletons.items()}
        self._alike = BoundedCache(self._shown_by, _MOST_KNOWN)
        self._named = BoundedCache(self._named_in, _MOST_KNOWN)

    def shown_by(self, domain: bytes) -> bytes | None:
        """The protected name that a registrable domain looks like, which is none itself."""
        return self._alike[domain]

    def named_in(self, domain: bytes) -> bytes | None:
        """The protected name that a registrable domain has among other words."""
        return self._named[domain]

    def _is_protected(self, name: bytes) -> bool:
        return name in self._names or (bool(self._hashes) and self._digest(name + b"/") in self._hashes)

    def _shown_by(self, domain: bytes) -> bytes | None:
        label, _, suffix = domain.partition(b".")
        if not suffix or self._is_protected(domain):
            return None
        text = _shown(label)
        if (name := self._skeletons.get((skeleton(text), suffix))) is not None:
            return name + b"." + suffix
        for other in spellings(text):
            for ending in dict.fromkeys((suffix, b"com" if len(other) >= SHORTEST else suffix)):
                if self._is_protected(name := other.encode() + b"." + ending):
                    return name
        others = slips(text) if sum(not letter.isascii() for letter in text) < 2 else ()
        near = (other.encode() + b"." + suffix for other in others if other.isascii() and len(other) >= SHORTEST)
        return next(filter(self._is_protected, near), None) if len(text) >= SHORTEST else None

    def _named_in(self, domain: bytes) -> bytes | None:
        label, _, suffix = domain.partition(b".")
        if self._is_protected(domain):
            return None
        for words in _runs(_shown(label)):
            if (name := self._labels.get(skeleton(words))) is not None:
                return name
            for other in (words, *islice(spellings(words), _SPELLINGS_OF_WORD)) if self._hashes else ():
                for ending in dict.fromkeys((suffix, b"com")):
                    if other.isascii() and self._is_protected(name := other.encode() + b"." + ending):
                        return name
        return None


def _runs(label: str) -> Iterator[str]:
    """Words of a label that stand next to each other, and are not all of it.

    >>> list(_runs("my-bank-login")), list(_runs("mybank"))
    (['my-bank', 'bank', 'bank-login', 'login'], [])
    """
    words = label.split("-")
    for first in range(min(len(words), MOST_WORDS)):
        for end in range(first + 1, min(len(words), MOST_WORDS) + 1):
            run = "-".join(words[first:end])
            if end - first < len(words) and len(run) >= SHORTEST_WORD:
                yield run


def _parted(name: bytes) -> tuple[bytes, bytes]:
    label, _, suffix = name.partition(b".")
    return label, suffix


def _shown(label: bytes) -> str:
    """A label as people see it."""
    try:
        return normalize("NFC", label[4:].decode("punycode") if label.startswith(b"xn--") else label.decode("ascii"))
    except (UnicodeError, ValueError):
        return label.decode("latin-1")


def find_look_alike(
    request: CheckedRequest, names: ProtectedNames | None = None, file: ProtectedNames | None = None
) -> bytes | None:
    """The registrable domain of a host as it is written and as people see it, and the protected one it looks like."""
    host = readable_host(request.host)
    if not host or is_address(host):
        return None
    domain = public_suffixes().registrable_domain(host)
    for protected in filter(None, (names, file)):
        if (other := protected.shown_by(domain)) is not None:
            label = domain.partition(b".")[0]
            seen = f" ({_shown(label)})" if label.startswith(b"xn--") else ""
            return f"{domain.decode('ascii')}{seen} looks like {other.decode('ascii')}".encode()
    for protected in filter(None, (names, file)):
        if (other := protected.named_in(domain)) is not None:
            return Hint(domain + b" has words beside " + other)
    return None


# -- keys --------------------------------------------------------------------------------------------------------------


def _name_of(text: str) -> bytes | None:
    name = to_ascii(to_bytes(text.lower().strip(".")))
    return name if is_plain_name(name) and b"." in name else None


def _read_file(fields: MappingReader, key: str, reading: Reading) -> ProtectedNames | None:
    """The names or hashes of a file, one a line; ``seal`` beside it names the key, if they are sealed."""
    written = fields.text(key)
    file = None if written is None else reading.beside(written, fields.line_of(key))
    if file is None:
        return None
    names, hashes, path = list[bytes](), list[bytes](), file[0]
    for number, line in enumerate(file[1].decode("utf-8", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if _HASH.fullmatch(text):
            hashes.append(bytes.fromhex(text))
        elif text and (name := _name_of(text)) is not None:
            names.append(name)
        elif text:
            fields.error(key, f"{path.name}:{number}: neither the name of a site nor a SHA-256", text)
    sealed = reading.file(fields, "seal") if "seal" in fields else None
    try:
        return ProtectedNames(names, hashes, None if sealed is None else read_seal_key(sealed).sealer())
    except SourceError as error:
        fields.error("seal", error.problems[0].why)
        return None


NAMES = each_of(_name_of, "expected the name of a site, such as bank.example", ProtectedNames)
FILE = Type(_read_file, TEXT)
#: it is read with the file
SEAL = Type(lambda *_: None, TEXT)
