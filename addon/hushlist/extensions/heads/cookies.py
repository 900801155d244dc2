"""Cookies that are taken out of a head, or get another life.

>>> fields = [(b"Cookie", b"a=1; b=2"), (b"Set-Cookie", b"b=2; Path=/; Max-Age=999")]
>>> [*changed_cookies(fields, Cookies.of("b"))]
[(b'Cookie', b'a=1')]
>>> [*changed_cookies(fields[1:], Cookies.of("b;maxAge=5;sameSite=lax"))]
[(b'Set-Cookie', b'b=2; Path=/; Max-Age=5; SameSite=Lax')]

Spec: RFC 6265, 4.1 and 4.2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hushlist.core.url.http_head import as_read
from hushlist.extensions.adblock.head_options import Cookies

#: attributes that say how long a cookie stays
_AGES = (b"max-age", b"expires")


def changed_cookies(
    fields: Iterable[tuple[bytes, bytes]], cookies: Cookies, spared: tuple[Cookies, ...] = ()
) -> Iterator[tuple[bytes, bytes]]:
    """The fields with these cookies changed, but for those that are ``spared``."""

    def is_meant(cookie: bytes) -> bool:
        name = _name_of(cookie)
        return cookies.has(name) and not any(own.has(name) for own in spared)

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
    gone = {name.lower() for name, _ in life}
    gone |= {*_AGES} if b"max-age" in gone else set()
    first, *attributes = value.split(b";")
    kept = [each.strip() for each in attributes if each.strip() and _name_of(each).lower() not in gone]
    return b"; ".join([first.strip(), *kept, *(b"=".join(pair) for pair in life)])
