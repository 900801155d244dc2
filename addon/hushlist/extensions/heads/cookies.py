"""Cookies that are taken out of a head, or get a shorter life or a stricter ``SameSite`` than the site says.

>>> fields = [(b"Cookie", b"a=1; b=2"), (b"Set-Cookie", b"b=2; Path=/; Max-Age=999")]
>>> [*changed_cookies(fields, Cookies.of("b"))]
[(b'Cookie', b'a=1')]
>>> [*changed_cookies(fields[1:], Cookies.of("b;maxAge=5;sameSite=lax"))]
[(b'Set-Cookie', b'b=2; Path=/; Max-Age=5; SameSite=Lax')]

Spec: RFC 6265, 4.1, 4.2 and 5.2
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hushlist.core.url.header_names import as_read
from hushlist.extensions.adblock.head_options import Cookies

#: attributes that say how long a cookie stays
_AGES = (b"max-age", b"expires")
_SECONDS = re.compile(rb"-?[0-9]{1,18}")
_STRICTNESS = {b"lax": 1, b"strict": 2}


def changed_cookies(
    fields: Iterable[tuple[bytes, bytes]], cookies: Cookies, spared: tuple[Cookies, ...] = ()
) -> Iterator[tuple[bytes, bytes]]:
    """The fields with these cookies changed, but for those that are ``spared``."""

    def is_meant(cookie: bytes) -> bool:
        name = _name_of(cookie)
        return cookies.has(name) and not any(exception.has(name) for exception in spared)

    for field, value in fields:
        read = as_read(field.lower())
        if read == b"cookie" and not cookies.life:
            kept = [each.strip() for each in value.split(b";") if each.strip() and not is_meant(each)]
            if kept:
                yield field, b"; ".join(kept)
        elif read == b"set-cookie" and is_meant(value.partition(b";")[0]):
            if cookies.life:
                yield field, _with_life(value, cookies.life)
        else:
            yield field, value


def _name_of(cookie: bytes) -> bytes:
    """The name of a cookie; without "=", all of it is a value, and some servers take it for a name."""
    return cookie.partition(b"=")[0].strip()


def _with_life(value: bytes, life: tuple[tuple[bytes, bytes], ...]) -> bytes:
    first, *attributes = value.split(b";")
    pairs = ((_name_of(each).lower(), each.partition(b"=")[2].strip()) for each in attributes)
    said = {name: text for name, text in pairs if name != b"max-age" or _SECONDS.fullmatch(text)}
    more = [(name, text) for name, text in life if _tightens(name, text, said)]
    gone = {name.lower() for name, _ in more}
    gone |= {*_AGES} if b"max-age" in gone else set()
    kept = [each.strip() for each in attributes if each.strip() and _name_of(each).lower() not in gone]
    return b"; ".join([first.strip(), *kept, *(b"=".join(pair) for pair in more)])


def _tightens(name: bytes, text: bytes, said: dict[bytes, bytes]) -> bool:
    """Whether an attribute is stricter than what a cookie's attributes say."""
    if name == b"SameSite":
        return _STRICTNESS[text.lower()] > _STRICTNESS.get(said.get(b"samesite", b"").lower(), 0)
    age = _age(said)
    return age is not None and age > int(text)


def _age(said: dict[bytes, bytes]) -> float | None:
    """The seconds that a cookie stays; ``None`` if it goes with the browser, or that cannot be read."""
    if b"max-age" in said:
        return int(said[b"max-age"])
    with suppress(ValueError, OverflowError):
        until = parsedate_to_datetime(said.get(b"expires", b"").decode("latin-1"))
        return (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return None
