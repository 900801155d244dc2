"""Prepares text in which IRIs stand, before they are compared; and says where a reader may take one for another.

"Any kind of IRI comparison REQUIRES that any additional contextual processing is first performed".

Spec: draft-ietf-iri-comparison-00, 3; RFC 3987, 4
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Iterator
from itertools import groupby

import idna

from hushlist.core.errors import UrlError
from hushlist.tools.reference.abnf import Parsed

_HTML_ESCAPE = re.compile(r"&(?:#(?:[xX](?P<hex>[0-9A-Fa-f]+)|(?P<decimal>[0-9]+));?|(?P<name>[A-Za-z0-9]+)(;|=)?)")
_XML_ESCAPE = re.compile(r"&(?:#(?:x(?P<hex>[0-9A-Fa-f]+)|(?P<decimal>[0-9]+))|(?P<name>amp|lt|gt|quot|apos));")
#: digits without leading zeroes; no code point has more in either base
_MOST_DIGITS = 7


def undo_html_escapes(text: str) -> str:
    """The value of an HTML attribute that is written as ``text``.

    >>> undo_html_escapes("http://example.org/ros&eacute;?a&amp;b&copy=1")
    'http://example.org/rosé?a&b&copy=1'

    Spec: draft-ietf-iri-comparison-00, 3; HTML, 13.2.5.73: in an attribute, a name without ";" before "=" or an
    alphanumeric is not decoded
    """
    return _HTML_ESCAPE.sub(_html_character, text)


def _html_character(match: re.Match[str]) -> str:
    from html import unescape
    from html.entities import html5

    if match["name"] is not None:
        name, end = match["name"], match[4]
        if end == ";" and name + ";" in html5:
            return html5[name + ";"]
        return html5[name] if end is None and name in html5 else match[0]
    digits, base = _digits(match)
    return unescape(f"&#{int(digits, base)};") if len(digits) <= _MOST_DIGITS else "\ufffd"


def _digits(match: re.Match[str]) -> tuple[str, int]:
    """The digits of a character reference, and their base."""
    digits, base = (match["hex"], 16) if match["hex"] else (match["decimal"], 10)
    return digits.lstrip("0") or "0", base


def undo_xml_escapes(text: str) -> str:
    """The text that XML writes as ``text``; entities that a DTD would have to declare stay as they are.

    >>> undo_xml_escapes("http://example.org/ros&#xE9;?a&amp;b&eacute;")
    'http://example.org/rosé?a&b&eacute;'

    Raises ``UrlError`` if a character reference is to none of XML's characters.

    Spec: draft-ietf-iri-comparison-00, 3; XML 1.0, 4.1 and 4.6
    """
    return _XML_ESCAPE.sub(_xml_character, text)


_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _xml_character(match: re.Match[str]) -> str:
    if match["name"] is not None:
        from html.entities import html5

        return html5[match["name"] + ";"]
    digits, base = _digits(match)
    code = int(digits, base) if len(digits) <= _MOST_DIGITS else 0
    if code > 0x10FFFF or _NOT_IN_XML.match(chr(code)):
        raise UrlError(match.string, "the reference is to no character of XML", match.start())
    return chr(code)


#: how the names of codecs begin that encode Unicode, all of it (reading 38)
_UNICODE_ENCODINGS = ("utf", "gb18030", "unicode", "raw-unicode", "punycode", "idna")


def convert_to_ucs(octets: bytes, encoding: str) -> str:
    """Text from octets; in NFC if, and only if, their encoding is not a Unicode encoding.

    >>> convert_to_ucs(b"Vi\\xea\\xf2t", "windows-1258") == "Vi\\u1ec7t"
    True
    >>> convert_to_ucs("re\\u0301sume\\u0301".encode(), "utf-8") == "re\\u0301sume\\u0301"
    True

    "IRIs already in Unicode MUST NOT be normalized"; but in the "conversion from a non-UCS-based character encoding to
    a UCS-based character encoding ... NFC or a normalizing transcoder using NFC MUST be used".

    Raises ``UrlError`` if there is no such encoding, or the octets are not valid in it.

    Spec: draft-ietf-iri-comparison-00, 4.2.2
    """
    try:
        name = codecs.lookup(encoding).name
        text = octets.decode(encoding)
    except UnicodeError as error:
        raise UrlError(octets, f"no text in {encoding}: {error}") from error
    except (LookupError, ValueError) as error:
        raise UrlError(encoding, "no known character encoding") from error
    return text if name.startswith(_UNICODE_ENCODINGS) else normalize_nfc(text)


def normalize_nfc(text: str) -> str:
    """Normalization Form C.

    ``unicodedata`` orders marks in time that grows with the square of their number, so this function orders them first.
    """
    if text.isascii():
        return text
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in text)
    runs = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    return unicodedata.normalize("NFC", "".join("".join(sorted(run, key=unicodedata.combining)) for _, run in runs))


def undo_base64(octets: bytes) -> bytes:
    r"""The body of a MIME part with ``Content-Transfer-Encoding: base64``.

    >>> undo_base64(b"aHR0cDovL2gu\r\nZXhhbXBsZS8=\r\n")
    b'http://h.example/'

    "All line breaks or other characters not found in Table 1 must be ignored" (RFC 2045, 6.8). Raises ``UrlError`` if
    the body is cut off.

    Spec: draft-ietf-iri-comparison-00, 3
    """
    try:
        return a2b_base64(octets)
    except ValueError as error:
        raise UrlError(octets[:_SHOWN], f"no base64: {error}") from error


#: octets of a text that are shown where it is wrong
_SHOWN = 40
#: the line before a chunk: its length in hexadecimal, and extensions; a length that no body has is not read
_CHUNK = re.compile(rb"(0*[0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_LINE_END = re.compile(rb"\r?\n")


def undo_chunked(octets: bytes) -> bytes:
    r"""The body of an HTTP message with ``Transfer-Encoding: chunked``; trailers are no part of it.

    >>> undo_chunked(b"7\r\nhttp://\r\n4;x=y\r\nh/p?\r\n0\r\n\r\n")
    b'http://h/p?'

    Raises ``UrlError`` if a chunk is not as long as it says, or the last one is missing.

    Spec: draft-ietf-iri-comparison-00, 3; RFC 9112, 7.1
    """
    chunks, place = list[bytes](), 0
    while line := _CHUNK.match(octets, place):
        end = line.end() + int(line[1], 16)
        if end == line.end():
            return b"".join(chunks)
        chunks.append(octets[line.end() : end])
        after = _LINE_END.match(octets, end)
        if after is None:
            raise UrlError(octets[place : place + _SHOWN], f"the chunk at {place} is not as long as it says")
        place = after.end()
    raise UrlError(octets[place : place + _SHOWN], f"there is no chunk at {place}, and none before it was the last")


# -- RFC 3987, 4: what the grammar cannot say about IRIs that are written from right to left ---------------------------

#: marks that change the direction of writing, and that nobody sees
DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")
#: the rules whose text is a component, or several with delimiters between them; a host's labels have rules of their own
_COMPONENTS = frozenset(("iuserinfo", "isegment", "isegment-nz", "isegment-nz-nc", "iquery", "ifragment"))
_COMPONENT = re.compile(r"[^.:;,!$&'()*+=/?@]+")
_LABEL = re.compile(r"[^.]+")


def direction_faults(text: str, parsed: Parsed) -> Iterator[tuple[int, str]]:
    """What breaks the rules for scripts that are written from right to left: the place, and why.

    >>> from hushlist.tools.reference.abnf import find_rule
    >>> iri = "http://example.com/\N{HEBREW LETTER ALEF}b"
    >>> [place for place, why in direction_faults(iri, find_rule("IRI").parse(iri))]
    [19]
    """
    for mark in DIRECTION_MARKS.finditer(text):
        yield mark.start(), "an IRI MUST NOT contain marks that change the direction of writing (RFC 3987, 4.1)"
    for _, part in parsed.walk():
        if part.rule == "ireg-name":
            yield from _label_faults(text, part)
        elif part.rule in _COMPONENTS:
            for component in _COMPONENT.finditer(text, part.start, part.end):
                directions = _directions(component[0])
                is_right_to_left = [direction in ("R", "AL") for direction in directions]
                if any(is_right_to_left) and "L" in directions:
                    yield component.start(), "a component SHOULD NOT be written in both directions (RFC 3987, 4.2)"
                elif any(is_right_to_left) and not (is_right_to_left[0] and is_right_to_left[-1]):
                    why = "a component that is written from right to left SHOULD begin and end so (RFC 3987, 4.2)"
                    yield component.start(), why


def _directions(text: str) -> list[str]:
    return [unicodedata.bidirectional(letter) for letter in text]


def _label_faults(text: str, name: Parsed) -> Iterator[tuple[int, str]]:
    """If a label of a name is written from right to left, all labels follow the Bidi rule (RFC 5893, 2)."""
    if {"R", "AL", "AN"}.intersection(_directions(text[name.start : name.end])):
        for label in _LABEL.finditer(text, name.start, name.end):
            try:
                idna.check_bidi(label[0], check_ltr=True)
            except idna.IDNABidiError as error:
                yield label.start(), f"a label breaks the Bidi rule (RFC 5893, 2): {error}"
