"""Percent-encoding: undone again and again, undone once for what needs none, and done."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PERCENT = ord("%")
_HEX_DIGITS = "0123456789ABCDEFabcdef"
_NO_DIGIT = 255
_HEX_VALUE = bytes(int(chr(c), 16) if chr(c) in _HEX_DIGITS else _NO_DIGIT for c in range(256))
_ESCAPE = re.compile(rb"(%[0-9A-Fa-f]{2})")
#: every escape in all its spellings, and the octet that it stands for
_OCTETS = {f"%{high}{low}".encode(): bytes.fromhex(high + low) for high in _HEX_DIGITS for low in _HEX_DIGITS}


def _replace(pattern: re.Pattern[bytes], table: Mapping[bytes, bytes], data: bytes) -> bytes:
    """Replace by a table what the pattern finds; it is one group, so that every second piece is a find."""
    pieces = pattern.split(data)
    pieces[1::2] = map(table.__getitem__, pieces[1::2])
    return b"".join(pieces)


def unescape_repeatedly(data: bytes) -> bytes:
    """Unescape "until it has no more percent-escapes", in time linear in the length.

    >>> unescape_repeatedly(b"%25%32%35"), unescape_repeatedly(b"%%%25%32%35asd%%")
    (b'%', b'%%%asd%%')

    An escape never overlaps another, so the order in which they are undone does not change the result. Those that stand
    in the text are undone at once, and mostly that is all. What they leave is undone from the right: what lies right of
    a percent sign is free of escapes already, and undoing one removes two octets of it. It lies reversed in ``rest``,
    so that its beginning is the end that is cheap to change.

    Spec: Safe Browsing v4, Canonicalization, third step
    """
    if _PERCENT in data:
        data = _replace(_ESCAPE, _OCTETS, data)
    if _PERCENT not in data:
        return data
    head, *chunks = data.split(b"%")
    rest = bytearray()
    digit = _HEX_VALUE
    for chunk in reversed(chunks):
        if chunk:
            rest += chunk[::-1]
        octet = _PERCENT
        while octet == _PERCENT and len(rest) > 1:
            high, low = digit[rest[-1]], digit[rest[-2]]
            if high == _NO_DIGIT or low == _NO_DIGIT:
                break
            del rest[-2:]
            octet = high << 4 | low
        rest.append(octet)
    rest += head[::-1]
    return bytes(rest[::-1])


_UNSAFE = re.compile(rb"([\x00-\x20\x7f-\xff#%])")
_SAFE = bytes(octet for octet in range(256) if not _UNSAFE.match(bytes((octet,))))
_ESCAPED = {bytes((octet,)): b"%%%02X" % octet for octet in range(256)}


def is_safe(data: bytes) -> bool:
    """Whether there is nothing in it that ``escape`` would escape."""
    return not data.translate(None, _SAFE)


def escape(data: bytes, unsafe: re.Pattern[bytes] = _UNSAFE) -> bytes:
    """Escape the octets that are "<= ASCII 32, >= 127, '#', or '%'", in upper-case hex.

    Another pattern, of one octet that is a group, has others escaped.

    >>> escape(b"a b#c")
    b'a%20b%23c'

    Spec: Safe Browsing v4, Canonicalization, last step
    """
    return _replace(unsafe, _ESCAPED, data)


#: "characters that are allowed in a URI but do not have a reserved purpose" (RFC 3986, 2.3)
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_NORMAL = {escape: octet if octet in UNRESERVED else escape.upper() for escape, octet in _OCTETS.items()}
# An escape that is not in normal form: a digit in lower case, or an unreserved character.
_NOT_NORMAL = re.compile(rb"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])")
# A percent sign that begins no escape, and behind it the escape of a digit that would complete one.
_INCOMPLETE = re.compile(rb"(%[0-9A-Fa-f]?%(?:3[0-9]|[46][1-6]))")


def normalize_escapes(data: bytes) -> bytes:
    """Decode the escapes of unreserved characters, once, and write the others in upper case.

    >>> normalize_escapes(b"/a%62c%2f"), normalize_escapes(b"%%34%31")
    (b'/abc%2F', b'%%341')

    Decoding one never makes another, so that doing it again changes nothing.

    Spec: RFC 3986, 6.2.2.1 and 6.2.2.2
    """
    if not _NOT_NORMAL.search(data):
        return data
    pieces = _INCOMPLETE.split(data)
    pieces[::2] = (_replace(_ESCAPE, _NORMAL, piece) for piece in pieces[::2])
    return b"".join(pieces)
