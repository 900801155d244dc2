"""Normalization of octets: percent-encoding, dot segments and slashes (RFC 3986, 6.2.2.2 and 6.2.2.3)."""

from __future__ import annotations

import re
from binascii import a2b_qp, b2a_qp
from collections.abc import Mapping
from functools import partial

from hushlist.core.system.late_pattern import late_pattern

_PERCENT, _CR, _LF = b"%\r\n"
_HEX_DIGITS = "0123456789ABCDEFabcdef"
_NO_DIGIT = 255
_HEX_VALUE = bytes(int(chr(c), 16) if chr(c) in _HEX_DIGITS else _NO_DIGIT for c in range(256))
#: percent signs in a row, as one group
_PERCENTS = re.compile(rb"(%+)")
#: an escape, as one group
ESCAPE = re.compile(rb"(%[0-9A-Fa-f]{2})")
#: every escape in every spelling -> its octet
_OCTETS = {f"%{high}{low}".encode(): bytes.fromhex(high + low) for high in _HEX_DIGITS for low in _HEX_DIGITS}


def _replace(pattern: re.Pattern[bytes], table: Mapping[bytes, bytes], data: bytes) -> bytes:
    """Replace the pattern's finds by a table; the pattern is one group, so every second item of the split is a find."""
    pieces = pattern.split(data)
    pieces[1::2] = map(table.__getitem__, pieces[1::2])
    return b"".join(pieces)


def percent_decode_repeatedly(data: bytes) -> bytes:
    """Unescape "until it has no more percent-escapes", in time linear in the length.

    >>> percent_decode_repeatedly(b"%25%32%35"), percent_decode_repeatedly(b"%%%25%32%35asd%%")
    (b'%', b'%%%asd%%')

    Escapes never overlap, so the order in which they are decoded does not change the result. The first pass decodes
    those that are in the text; mostly that is all. New escapes are then decoded from the right: the text to the right
    of a percent sign has no escapes, and decoding one removes its first two octets. That text is kept reversed in
    ``rest``, where they are at the end, which is cheap to change.

    Spec: Safe Browsing v4, Canonicalization, third step
    """
    if _PERCENT in data:
        data = unescape_once(data)
    if _PERCENT not in data or not ESCAPE.search(data):
        return data
    head, *runs = _PERCENTS.split(data)
    rest = bytearray()
    digit = _HEX_VALUE
    for place in range(len(runs) - 1, 0, -2):
        if runs[place]:
            rest += runs[place][::-1]
        number = len(runs[place - 1])
        while number and len(rest) > 1:
            high, low = digit[rest[-1]], digit[rest[-2]]
            if high == _NO_DIGIT or low == _NO_DIGIT:
                break  # so is it before each other percent sign of the run
            del rest[-2:]
            octet = high << 4 | low
            if octet != _PERCENT:
                rest.append(octet)
                number -= 1
        rest += b"%" * number
    rest += head[::-1]
    return bytes(rest[::-1])


# The octets of ``UNRESERVED`` below, and all octets but the slash.
_UNRESERVED_ESCAPE = late_pattern(rb"(%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee]))")
_ESCAPE_OF_NO_SLASH = late_pattern(rb"(%(?!2[Ff])[0-9A-Fa-f]{2})")


def unescape_once(data: bytes) -> bytes:
    """Decode the escapes in the text, but no new ones that this makes.

    >>> unescape_once(b"%252f%2f=%3d%")
    b'%2f/==%'

    Quoted-printable is percent-encoding with "=" for "%", and Python decodes it in C: so escapes take half the time.
    Only an escape makes its text two octets shorter, but for a "=" at the end of a line.
    """
    if _CR not in data and _LF not in data:
        escaped = data.replace(b"=", b"%3D")
        decoded = a2b_qp(escaped.replace(b"%", b"="))
        if len(escaped) - len(decoded) == 2 * escaped.count(b"%"):
            return decoded
    return _replace(ESCAPE, _OCTETS, data)


#: the same, but keeps the escapes of slashes: b"%252f%2f" -> b"%2f%2f"
unescape_all_but_slashes = partial(_replace, _ESCAPE_OF_NO_SLASH, _OCTETS)
#: the same, but only for unreserved characters (RFC 3986, 2.3): b"%2e%2f" -> b".%2f"
unescape_unreserved = partial(_replace, _UNRESERVED_ESCAPE, _OCTETS)


#: octets that Safe Browsing does not escape
_SAFE = bytes(octet for octet in range(33, 127) if octet not in b"#%")
#: octets to escape that are replaced one by one
_FEW = 32
#: octets that quoted-printable always escapes
_QUOTED = bytes(octet for octet in range(256) if not 33 <= octet < 127 or octet == ord("="))


def is_safe(data: bytes) -> bool:
    """Whether ``percent_encode`` would escape nothing."""
    return not data.translate(None, _SAFE)


def percent_encode(data: bytes, safe: bytes = _SAFE) -> bytes:
    """Escape the octets that are "<= ASCII 32, >= 127, '#', or '%'", in upper-case hex.

    Other ``safe`` octets, all between ASCII 33 and 126 and with "=" among them, let it escape others.

    >>> percent_encode(b"a b#c=")
    b'a%20b%23c='

    Python encodes quoted-printable in C. That breaks lines, and escapes "=" and some dots, which this undoes. A few
    octets are replaced faster one by one.

    Spec: Safe Browsing v4, Canonicalization, last step
    """
    unsafe = data.translate(None, safe)
    if not unsafe:
        return data
    if len(unsafe) <= _FEW:
        for value in sorted(set(unsafe), key=_PERCENT.__ne__):  # the percent sign first
            data = data.replace(b"%c" % value, b"%%%02X" % value)
        return data
    quoted = b2a_qp(data, quotetabs=True, istext=False).replace(b"\r", b"").replace(b"=\n", b"").replace(b"=2E", b".")
    printable = unsafe.translate(None, _QUOTED)
    while printable:
        octet = printable[:1]
        quoted = quoted.replace(octet, b"=%02X" % ord(octet))
        printable = printable.replace(octet, b"")
    return quoted.replace(b"=3D", b"\0").replace(b"=", b"%").replace(b"\0", b"=")


#: "characters that are allowed in a URI but do not have a reserved purpose" (RFC 3986, 2.3)
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_NORMAL = {escape: octet if octet in UNRESERVED else escape.upper() for escape, octet in _OCTETS.items()}
# An escape that is not in normal form: a digit in lower case, or an unreserved character.
_NOT_NORMAL = late_pattern(rb"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])")
# A percent sign that begins no escape, followed by the escape of a digit that would complete one.
_INCOMPLETE = late_pattern(rb"(%[0-9A-Fa-f]?%(?:3[0-9]|[46][1-6]))")


def normalize_percent_encoding(data: bytes) -> bytes:
    """Decode the escapes of unreserved characters, once, and write the others in upper case.

    >>> normalize_percent_encoding(b"/a%62c%2f"), normalize_percent_encoding(b"%%34%31")
    (b'/abc%2F', b'%%341')

    Decoding an escape never makes a new one, so that a second pass changes nothing.

    Spec: RFC 3986, 6.2.2.1 and 6.2.2.2
    """
    if not _NOT_NORMAL.search(data):
        return data
    pieces = _INCOMPLETE.split(data)
    pieces[::2] = [_replace(ESCAPE, _NORMAL, piece) if _NOT_NORMAL.search(piece) else piece for piece in pieces[::2]]
    return b"".join(pieces)


def resolve_dot_segments(path: bytes) -> bytes:
    """Resolve "." and ".." in a path that begins with a slash, in linear time; ``rfc3986`` does it for any path.

    >>> resolve_dot_segments(b"/a/b/c/./../../g"), resolve_dot_segments(b"/a/.."), resolve_dot_segments(b"/..a/...")
    (b'/a/g', b'/', b'/..a/...')

    Spec: RFC 3986, 5.2.4; Safe Browsing v4, Canonicalization, path, 1
    """
    path = remove_single_dots(path)
    if b"/.." not in path:
        return path
    out: list[bytes] = []
    segments = path[1:].split(b"/")
    for segment in segments:
        if segment != b"..":
            out.append(segment)
        elif out:
            out.pop()
    if segments[-1] == b"..":
        out.append(b"")
    return b"/" + b"/".join(out)


def merge_slashes(path: bytes) -> bytes:
    """Replace each run of slashes with one; a round halves the runs (Safe Browsing v4, Canonicalization, path, 2)."""
    while b"//" in path:
        path = path.replace(b"//", b"/")
    return path


def remove_single_dots(path: bytes) -> bytes:
    """Resolve "." alone; a round halves the runs.

    >>> remove_single_dots(b"/./a/././b/../c/.")
    b'/a/b/../c/'
    """
    if path.endswith(b"/."):
        path += b"/"
    while b"/./" in path:
        path = path.replace(b"/./", b"/")
    return path


_AUTHORITY = late_pattern(rb"//+[^/]*")


def remove_authority(path: bytes) -> bytes:
    """Remove the first segment after two or more leading slashes, as if it were an authority.

    >>> remove_authority(b"//a/secret"), remove_authority(b"///a"), remove_authority(b"/a//b")
    (b'/secret', b'/', b'/a//b')

    Spec: RFC 3986, 4.2; WHATWG URL, special authority ignore slashes state
    """
    authority = _AUTHORITY.match(path)
    return path if authority is None else path[authority.end() :] or b"/"


#: removes the parameters of every segment, as Java servers do before they resolve dot segments (Java Servlet 6.0,
#: 3.5.2): b"/a;b=c/..;/d;e" -> b"/a/../d"
remove_parameters = partial(re.compile(rb";[^/]*").sub, b"")


#: removes the first session from a path, as ASP.NET on .NET Framework does wherever it stands, and does again where it
#: stands twice (CookielessHelper.cs): b"/(S(x))/secret" -> b"/secret", b"/sec/(S(x)A(y))ret" -> b"/secret"
remove_session = partial(re.compile(rb"/\((?:[A-Z]\([^/)]*\))+\)").sub, b"", count=1)
#: removes the stream from names where it is that of the file or folder itself, as Windows does ([MS-FSCC], 2.1.5):
#: b"/secret:$I30:$INDEX_ALLOCATION/x::$DATA" -> b"/secret/x"
_STREAM = re.compile(rb":(?:\$I30)?:\$(?:INDEX_ALLOCATION|DATA)(?=/|\Z)", re.IGNORECASE)
remove_streams = partial(_STREAM.sub, b"")


_PERCENT_U = late_pattern(rb"%[uU]([0-9A-Fa-f]{4})")


def parameter_name(parameter: bytes) -> bytes:
    """The name of a parameter as a server may read it: unescaped, without white space around, in lower case.

    >>> parameter_name(b"+%2551=x"), parameter_name(b"q%5B0]=x")
    (b'q', b'q')

    What PHP and others take for several values, such as ``q[]``, has the name in front.
    """
    name = parameter.partition(b"=")[0]
    if b"%" in name:
        name = unescape_percent_u(percent_decode_repeatedly(name))
    return name.partition(b"[")[0].replace(b"+", b" ").strip().lower()


def unescape_percent_u(path: bytes) -> bytes:
    """Decode the escapes that only IIS knows.

    >>> unescape_percent_u(b"/%u0073ecret")
    b'/secret'
    """
    return _PERCENT_U.sub(lambda match: chr(int(match[1], 16)).encode("utf-8", "surrogatepass"), path)


# An ASCII character in two to six octets. In valid UTF-8, these octets mean nothing.
_OVERLONG = late_pattern(
    rb"[\xc0\xc1][\x80-\xbf]|\xe0[\x80\x81][\x80-\xbf]|\xf0\x80[\x80\x81][\x80-\xbf]"
    rb"|\xf8\x80\x80[\x80\x81][\x80-\xbf]|\xfc\x80\x80\x80[\x80\x81][\x80-\xbf]"
)


def is_overlong(path: bytes) -> bool:
    """Whether a character is written in more octets than it needs."""
    return not path.isascii() and _OVERLONG.search(path) is not None


def shorten_overlong(path: bytes) -> bytes:
    r"""Decode ASCII characters in more octets than they need, as decoders did before that was forbidden.

    >>> shorten_overlong(b"/a\xc0\xafb"), shorten_overlong(b"/\xe0\x81\xb3ecret")
    (b'/a/b', b'/secret')

    Spec: RFC 3629, 3 and 10
    """
    # The last octet has six bits of the character; the octet before has the seventh.
    return _OVERLONG.sub(lambda match: bytes(((match[0][-2] & 1) << 6 | match[0][-1] & 0x3F,)), path)


def backslashes_to_slashes(path: bytes) -> bytes:
    """Replace backslashes with slashes, as some servers do."""
    return path.replace(b"\\", b"/")
