"""Percent-encoding: undone again and again, undone once for what needs none, and done."""

from __future__ import annotations

import re

_PERCENT = ord("%")
_NO_DIGIT = 255
_HEX_VALUE = bytes(int(chr(c), 16) if chr(c) in "0123456789abcdefABCDEF" else _NO_DIGIT for c in range(256))


def unescape_repeatedly(data: bytes) -> bytes:
    """Unescape "until it has no more percent-escapes", in time linear in the length.

    >>> unescape_repeatedly(b"%25%32%35"), unescape_repeatedly(b"%%%25%32%35asd%%")
    (b'%', b'%%%asd%%')

    An escape never overlaps another, so the order in which they are undone does not change the result. This goes from
    the right: what lies right of a percent sign is free of escapes already, and undoing one removes two octets of it.
    It lies reversed in ``rest``, so that its beginning is the end that is cheap to change.

    Spec: Safe Browsing v4, Canonicalization, third step
    """
    head, *chunks = data.split(b"%")
    if not chunks:
        return data
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


_UNSAFE = re.compile(rb"[\x00-\x20\x7f-\xff#%]+")
_ESCAPED = [b"%%%02X" % octet for octet in range(256)]


def _escape_run(run: re.Match[bytes]) -> bytes:
    return b"".join(map(_ESCAPED.__getitem__, run[0]))


def escape(data: bytes) -> bytes:
    """Escape the octets that are "<= ASCII 32, >= 127, '#', or '%'", in upper-case hex.

    >>> escape(b"a b#c")
    b'a%20b%23c'

    Spec: Safe Browsing v4, Canonicalization, last step
    """
    return _UNSAFE.sub(_escape_run, data)


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def _normal_escape(match: re.Match[bytes]) -> bytes:
    octet = int(match[1], 16)
    return bytes((octet,)) if octet in _UNRESERVED else b"%" + match[1].upper()


# A percent sign that begins no escape, and behind it the escape of a digit that would complete one.
_INCOMPLETE = re.compile(rb"(%[0-9A-Fa-f]?%(?:3[0-9]|[46][1-6]))")


def normalize_escapes(data: bytes) -> bytes:
    """Decode the escapes of unreserved characters, once, and write the others in upper case.

    >>> normalize_escapes(b"/a%62c%2f"), normalize_escapes(b"%%34%31")
    (b'/abc%2F', b'%%341')

    Decoding one never makes another, so that doing it again changes nothing.

    Spec: RFC 3986, 6.2.2.1 and 6.2.2.2
    """
    if b"%" not in data:
        return data
    pieces = _INCOMPLETE.split(data)
    pieces[::2] = (_ESCAPE.sub(_normal_escape, piece) for piece in pieces[::2])
    return b"".join(pieces)
