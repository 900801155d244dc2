"""Finds URIs in free text: in double quotes, in angle brackets, after ``URL:``, or between white space.

>>> text = 'I found it under "http://www.w3.org/Addressing/", or <ftp://foo.example.\\n  com/rfc/>; see www.w3.org.'
>>> [found.uri for found in extract(text)]
['http://www.w3.org/Addressing/', 'ftp://foo.example.com/rfc/', 'www.w3.org']

These count as URIs:

- a scheme, ``://`` and more text; the authority, if any, must be valid and have a letter or digit;
- ``mailto:``, ``news:``, ``tel:``, ``urn:`` and other schemes that need no ``//`` and are not words of a sentence;
- after ``URL:``, any scheme; elsewhere ``Note:this`` is not a URI;
- ``www.`` and a name. That is a suffix reference, not a URI: "intended for human interpretation rather than for
  machines", as free text is. Other names without a scheme do not count.

Deviation: letters and symbols outside US-ASCII are part of a URI; otherwise ``http://bücher.example/`` would become
``http://b``. After the authority, so are square brackets and a "%" without digits, since browsers send them
(reading 1).

The caller must decode the text first, such as from HTML or quoted-printable.

Spec: RFC 3986, Appendix C; 4.5 for suffix references
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hushlist.core.url.parts import join_lines
from hushlist.tools.reference.abnf import find_rule


@dataclass(frozen=True, slots=True)
class ExtractedUri:
    """A URI, and its place in the text."""

    #: without delimiters, and without white space that broke it
    uri: str
    #: offset of its first character in the text
    offset: int
    #: offset after its last character
    end: int
    #: line of its first character, counted from 1
    line: int
    #: the same URI without the hyphens before line breaks; None if there are none
    unhyphenated: str | None = None

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every URI that may be meant, the likelier first."""
        # "the interpreter of a URI containing a line break immediately after a hyphen should ignore all whitespace
        # around the line break and should be aware that the hyphen may or may not actually be part of the URI"
        return (self.uri,) if self.unhyphenated is None else (self.uri, self.unhyphenated)


def extract(text: str) -> Iterator[ExtractedUri]:
    """All URIs of a text in their order, in time linear in its length; never fails (RFC 3986, Appendix C).

    >>> [found] = extract("<URL:http://example.com/in-\\n  dex.html>")
    >>> found.candidates, found.offset, found.line
    (('http://example.com/in-dex.html', 'http://example.com/index.html'), 5, 1)
    """
    position, line, counted = 0, 1, 0
    while start := _START.search(text, position):
        uri, position = (_delimited if start["wrapper"] else _undelimited)(text, start)
        if uri is not None:
            line += sum(1 for _ in _LINE_BREAK.finditer(text, counted, uri.offset))
            counted = uri.offset
            yield replace(uri, line=line)


# -- characters ------------------------------------------------------------------------------------------------------

_LINE_BREAK = re.compile(r"\r\n?+|\n")
# Characters that end a URI in a text: white space and control characters; US-ASCII characters that the grammar does not
# allow; the punctuation of other scripts and of typesetters.
_STOPS = "".join(
    (
        r"\s\x00-\x20\x7f-\xa0",
        r'"<>\\^`{|}',
        "\xa1\xab\xbb\xbf\u060c\u061b\u061f\u0964\u0965",
        "\u2000-\u200b\u200e-\u206f",  # general punctuation, but not the joiners, which names can have
        "\u3000-\u3003\u3008-\u3011\u3014-\u301f\ufe30-\ufe4f",
        "\uff01-\uff0d\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65",  # fullwidth, but not U+FF0E, a dot of host names
        "\ufeff\ufff9-\uffff",
    )
)
_STOP = re.compile(f"[{_STOPS}]")

# -- what a URI is ---------------------------------------------------------------------------------------------------

_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*+"
_WWW = r"[Ww]{3}\.(?=\w)"
#: where a URI may begin; each alternative consumes what it reads, so that the search is linear
_START = re.compile(
    r'(?P<wrapper>[<"])'
    rf"|(?<![\w@/\\%.+\-]){_WWW}"
    rf"|(?<![A-Za-z0-9+.\-])[0-9+.\-]*+(?P<scheme>{_SCHEME}):"
)
_SCHEME_AND_REST = re.compile(rf"(?P<scheme>{_SCHEME}):(?P<slashes>//)?+(?P<rest>.+)", re.DOTALL)
_SUFFIX_REFERENCE = re.compile(_WWW)
#: schemes without an authority; others, such as "data" and "about", are also words
_WITHOUT_AUTHORITY = frozenset(("hashed", "magnet", "mailto", "news", "sip", "sips", "tel", "urn", "xmpp"))
_AUTHORITY_END = re.compile(r"[/?#]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _is_uri(text: str, *, any_scheme: bool) -> bool:
    """Whether text without stops counts as a URI, as the module's docstring says."""
    match = _SCHEME_AND_REST.fullmatch(text)
    if _SUFFIX_REFERENCE.match(text):
        authority = text
    elif match is None:
        return False
    elif match["slashes"]:
        authority = match["rest"]
    else:
        return any_scheme or match["scheme"].lower() in _WITHOUT_AUTHORITY
    authority = _AUTHORITY_END.split(authority, maxsplit=1)[0]
    if authority and not _LETTER_OR_DIGIT.search(authority):  # "http://${host}/"
        return False
    return find_rule("authority").accepts(_NOT_ASCII.sub("_", authority))


# -- delimited -------------------------------------------------------------------------------------------------------

# "URIs are delimited in a variety of ways, but usually within double-quotes "http://example.com/", angle brackets
# <http://example.com/>, or just by using whitespace"; "The prefix "URL:" (with or without a trailing space) was
# formerly recommended"
_IN_WRAPPERS = {
    "<": re.compile(r'<\s*+(?P<prefix>[Uu][Rr][Ll]:\s*+)?+(?P<uri>[^<>"]*+)>'),
    # Words are quoted too, and a closing quote looks like an opening one. So no white space may be next to either.
    '"': re.compile(r'"(?P<prefix>[Uu][Rr][Ll]:[ ]?+)?+(?P<uri>(?!\s)[^<>"]*+(?<!\s))"'),
}
_BLANK_LINE = re.compile(r"(?:\r\n?+|\n)[^\S\r\n]*+[\r\n]")
_HYPHEN_AT_LINE_END = re.compile(r"-(?=[^\S\r\n]*+[\r\n])")


def _delimited(text: str, start: re.Match[str]) -> tuple[ExtractedUri | None, int]:
    """A URI in quotes or angle brackets, all of it, and where to go on."""
    wrapper = start["wrapper"]
    match = _IN_WRAPPERS[wrapper].match(text, start.start())
    if match is None or _BLANK_LINE.search(match["uri"]):
        return None, start.end()
    offset, written, any_scheme = match.start("uri"), match["uri"].rstrip(), match["prefix"] is not None
    uri = join_lines(written, wrapper)
    if _STOP.search(uri) or not _is_uri(uri, any_scheme=any_scheme):
        return None, start.end()
    # "Because some typesetters and printers may (erroneously) introduce a hyphen at the end of line when breaking it":
    # a typesetter does so at all lines or at none, so there is one more candidate, not one for each choice.
    unhyphenated = join_lines(_HYPHEN_AT_LINE_END.sub("", written), wrapper)
    is_other = unhyphenated != uri and _is_uri(unhyphenated, any_scheme=any_scheme)
    return ExtractedUri(uri, offset, offset + len(written), 0, unhyphenated if is_other else None), match.end()


# -- without delimiters ----------------------------------------------------------------------------------------------

_BEGINNING = re.compile(f"{_SCHEME}:|{_WWW}")
_CLOSERS = {"(": ")", "[": "]", "'": "'"}
#: character right before a URI -> the characters that can end the URI
_MARKS = {
    "": _STOP,
    **{opener: re.compile(f"[{re.escape(opener + closer)}{_STOPS}]") for opener, closer in _CLOSERS.items()},
}
#: punctuation of the sentence
_SENTENCE = frozenset(".,;:!?'")
_OPENERS = {")": "(", "]": "["}


def _undelimited(text: str, start: re.Match[str]) -> tuple[ExtractedUri | None, int]:
    """A URI without delimiters, and where to go on."""
    scheme = start["scheme"]
    offset = before = start.start() if scheme is None else start.start("scheme")
    any_scheme = scheme is not None and scheme.lower() == "url"
    if any_scheme:
        offset = start.end() + text.startswith(" ", start.end())
        if not _BEGINNING.match(text, offset):
            return None, start.end()
    elif scheme is not None and not text.startswith("//", start.end()) and scheme.lower() not in _WITHOUT_AUTHORITY:
        return None, start.end()
    stop = _stop(text, offset, text[before - 1 : before])
    uri = _without_punctuation(text[offset:stop])
    if not _is_uri(uri, any_scheme=any_scheme):
        return None, max(stop, start.end())
    return ExtractedUri(uri, offset, offset + len(uri), 0), offset + len(uri)


def _stop(text: str, offset: int, opener: str) -> int:
    """The latest end of a URI: at a character that it cannot have, or that closes the bracket or quote before it."""
    closer, depth = _CLOSERS.get(opener), 0
    for mark in _MARKS[opener if closer else ""].finditer(text, offset):
        if closer is None or mark[0] not in (opener, closer) or (mark[0] == closer and not depth):
            return mark.start()
        depth += -1 if mark[0] == closer else 1
    return len(text)


def _without_punctuation(uri: str) -> str:
    """The URI without the sentence's "punctuation marks that might be mistaken for part of the URI" at its end.

    >>> _without_punctuation("http://example.com/Set_(card_game)).")
    'http://example.com/Set_(card_game)'
    """
    surplus = {closer: uri.count(closer) - uri.count(opener) for closer, opener in _OPENERS.items()}
    end = len(uri)
    while end and (uri[end - 1] in _SENTENCE or surplus.get(uri[end - 1], 0) > 0):
        end -= 1
        if uri[end] in surplus:
            surplus[uri[end]] -= 1
    return uri[:end]
