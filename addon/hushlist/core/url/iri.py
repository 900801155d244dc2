"""The rungs of the comparison ladder, for IRIs and URIs, and functions that prepare text for them.

>>> SYNTAX.canonicalize("eXAMPLE://a/./b/../b/%63/%7bfoo%7d/rosé")
b'example://a/b/c/%7Bfoo%7D/ros%C3%A9'
>>> SCHEME.canonicalize("http://résumé.example.org:80")
b'http://xn--rsum-bpad.example.org/'

A URI is an IRI of US-ASCII characters, and mapping it to a URI does not change it. So each rung has one profile. A
profile begins with the steps of the rung below, so IRIs that are equivalent on a rung are equivalent on all higher
ones. A normal form is a URI, made "only for local comparison"; the caller keeps the original: "its original form MUST
be preserved" (4.2.3).

No rung normalizes characters: "Equivalence of IRIs MUST rely on the assumption that IRIs are appropriately
pre-character-normalized" (4.2.2). No rung decodes escapes of the text around an IRI: "this preprocessing is usually
done when the protocol or format is parsed" (3). For that, callers have ``undo_html_escapes``, ``undo_xml_escapes`` and
``convert_to_ucs``.

Spec: draft-ietf-iri-comparison-00; RFC 3986, 6.2; RFC 3987, 3.1 for the mapping
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Iterator
from contextlib import suppress
from functools import partial, wraps
from itertools import groupby
from typing import TYPE_CHECKING

import idna

from hushlist.core.errors import UrlError
from hushlist.core.url import host as hosts
from hushlist.core.url import normalization, rfc3986
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import DEFAULT_PORTS, Parts, Profile, Step, split_generic

if TYPE_CHECKING:
    from hushlist.core.url.abnf import Parsed

# -- 3: preparation for comparison -------------------------------------------------------------------------------

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

    >>> from hushlist.core.url.abnf import find_rule
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


# -- 4.2.3, 4.3: the steps that only an IRI needs ----------------------------------------------------------------

_IN_URI = normalization.UNRESERVED + b":/?#[]@!$&'()*+,;=%"


#: percent-encodes what no URI has
mapped_to_uri = partial(normalization.percent_encode, safe=_IN_URI)


def map_to_uri(parts: Parts) -> Parts:
    """4.2.3: "the percent-encoding of both IRIs to be compared has to be aligned; for example, by converting both IRIs
    to URIs".

    The host, too, is percent-encoded here: only the scheme says that "IDN components and their conversions to punycode"
    are equivalent (4.3). US-ASCII characters that no URI has, such as space and "{", are mapped like the others, as
    RFC 3987, 3.1 permits: "differences in percent-encoding (except for the percent-encoding of reserved characters)
    MUST always result in the same resource".
    """
    return parts.change(mapped_to_uri)


_ESCAPED_NON_ASCII = re.compile(rb"%([89A-F][0-9A-F])")


def _a_labels(host: bytes) -> bytes:
    """A-labels of a percent-encoded host; one that is not a name, or that UTS 46 refuses, stays as it is."""
    decoded = _ESCAPED_NON_ASCII.sub(lambda match: bytes((int(match[1], 16),)), host)
    name = hosts.to_ascii(decoded)
    return mapped_to_uri(name) if name and name.isascii() else host


def convert_to_a_labels(parts: Parts) -> Parts:
    """4.3: "Scheme-based normalization may also consider IDN components and their conversions to punycode as
    equivalent", "either in their ireg-name part or elsewhere", which is ``mailto``, ``sip``, ``sips`` and ``xmpp``.

    Deviation: "For legibility purposes, they SHOULD NOT be converted into ASCII Compatible Encoding". Here nobody reads
    them. Two U-labels can have the same A-label, but not the reverse (reading 7).

    Only for schemes whose hosts are looked up in the DNS.
    """
    if parts.host is not None and parts.scheme in DEFAULT_PORTS:
        parts = parts._replace(host=_a_labels(parts.host))
    return rfc3986.change_mail_hosts(parts, _a_labels)


def _generic(step: Step) -> Step:
    """The step, but not for ``hrn`` and ``hashed``, whose text has its own syntax: ".." is a name in an ``hrn`` name,
    and what stands in front of "?" may be a user."""

    @wraps(step)
    def change(parts: Parts) -> Parts:
        return parts if parts.scheme in (b"hrn", b"hashed") else step(parts)

    return change


def normalize_own_syntax(parts: Parts) -> Parts:
    """The normal form of an ``hrn`` name (RFC 3986, 6.2.2, by draft-pstickler-hrn-00), and of a hashed URI: "The entire
    URI is case-insensitive" (draft-feather-hashed-uri-03, 4.1), and its flags have no order.

    What their grammars refuse stays as it is.
    """
    text = parts.join().decode("ascii", "replace")
    if parts.scheme == b"hrn":
        with suppress(UrlError):
            return split_generic(str(parse_hrn(text)).encode())
    elif parts.scheme == b"hashed":
        from hushlist.core.url.abnf import find_rule

        if find_rule("hashed-uri").accepts(text):
            data, *flags = parts.path.lower().split(b"+")
            return parts._replace(path=b"+".join((data, *sorted(set(flags)))))
    return parts


# -- 4: the ladder -----------------------------------------------------------------------------------------------

#: 4.1: "the comparison function MUST NOT map IRIs to URIs". Text is compared as UTF-8, which gives every sequence of
#: characters octets of its own: equal octets are equal "codepoint by codepoint".
SIMPLE = Profile("simple", steps=())
#: 4.2: "case normalization, character normalization, percent-encoding normalization, and removal of dot-segments"; the
#: second "MUST rely on the assumption" that it was done before
SYNTAX = Profile(
    "syntax",
    steps=(
        map_to_uri,
        rfc3986.lowercase_scheme,
        *map(_generic, (rfc3986.normalize_escapes, rfc3986.lowercase_host, rfc3986.remove_dots)),
    ),
)
#: 4.3. "Normalization should not remove delimiters when their associated component is empty unless it is licensed to do
#: so by the scheme specification": "?", "#", and the "@" and ":" of user information stay.
SCHEME = Profile(
    "scheme",
    steps=(
        *SYNTAX.steps,
        convert_to_a_labels,
        rfc3986.lowercase_mail_host,
        rfc3986.join_recipients,
        rfc3986.lowercase_namespace,
        _generic(rfc3986.remove_port),
        rfc3986.normalize_default_host,
        _generic(rfc3986.complete_path),
        normalize_own_syntax,
    ),
)
