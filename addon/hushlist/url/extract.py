"""URIs in free text: in double quotes, in angle brackets, behind ``URL:``, or with nothing but white space around.

>>> text = 'I found it under "http://www.w3.org/Addressing/", or <ftp://foo.example.\\n  com/rfc/>; see www.w3.org.'
>>> [found.uri for found in extract(text)]
['http://www.w3.org/Addressing/', 'ftp://foo.example.com/rfc/', 'www.w3.org']

What counts as one:

- a scheme and ``://`` with something behind it, whose authority, if any, the grammar allows and has a letter or digit;
- ``mailto:``, ``news:``, ``tel:``, ``urn:`` and other schemes that need no ``//`` and that are no word of a sentence;
- behind ``URL:``, any scheme: ``Note:this`` is no URI elsewhere;
- ``www.`` and a name, although it is no URI but a suffix reference: "intended for human interpretation rather than for
  machines", which is what free text is. Other names without a scheme are not taken.

Deviation: letters and symbols that are not US-ASCII are part of a URI, lest ``http://bücher.example/`` become
``http://b``; so are, behind the authority, a "%" without its digits and square brackets, as browsers send them.

Encodings of the text, such as HTML's and quoted-printable's, are undone by whoever calls, before.

Spec: RFC 3986, Appendix C; 4.5 for suffix references
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hushlist.errors import UrlError
from hushlist.url.abnf import parse_uri


@dataclass(frozen=True, slots=True)
class Found:
    """A URI, and where it stands."""

    #: without what delimits it, and without the white space that broke it
    uri: str
    #: characters from the beginning of the text to the URI's first
    offset: int
    #: the same to behind its last
    end: int
    #: of its first character, counted from 1
    line: int
    #: the same URI without the hyphens that stand before a line break; None where there is none
    unhyphenated: str | None = None

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every URI that may be meant, the likelier first."""
        # "the interpreter of a URI containing a line break immediately after a hyphen should ignore all whitespace
        # around the line break and should be aware that the hyphen may or may not actually be part of the URI"
        return (self.uri,) if self.unhyphenated is None else (self.uri, self.unhyphenated)


def extract(text: str) -> Iterator[Found]:
    """All URIs of a text in their order, in time linear in its length; never fails.

    >>> [found] = extract("<URL:http://example.com/in-\\n  dex.html>")
    >>> found.candidates, found.offset, found.line
    (('http://example.com/in-dex.html', 'http://example.com/index.html'), 5, 1)

    Spec: RFC 3986, Appendix C
    """
    position, line, counted = 0, 1, 0
    while start := _START.search(text, position):
        found, position = (_delimited if start["wrapper"] else _undelimited)(text, start)
        if found is not None:
            line += sum(1 for _ in _LINE_BREAK.finditer(text, counted, found.offset))
            counted = found.offset
            yield replace(found, line=line)


# -- characters ------------------------------------------------------------------------------------------------------

_LINE_BREAK = re.compile(r"\r\n?+|\n")
# What ends a URI in a text: white space and control characters; of US-ASCII, what the grammar has no place for; beyond
# it, the punctuation of other scripts and of typesetters.
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
#: where a URI may begin; each alternative takes what it has looked at, so that nothing is looked at again and again
_START = re.compile(
    r'(?P<wrapper>[<"])'
    rf"|(?<![\w@/\\%.+\-]){_WWW}"
    rf"|(?<![A-Za-z0-9+.\-])[0-9+.\-]*+(?P<scheme>{_SCHEME}):"
)
_SCHEME_AND_REST = re.compile(rf"(?P<scheme>{_SCHEME}):(?P<slashes>//)?+(?P<rest>.+)", re.DOTALL)
_SUFFIX_REFERENCE = re.compile(_WWW)
#: schemes that do without an authority; "data" and "about", say, are words too
_WITHOUT_AUTHORITY = frozenset(("hashed", "magnet", "mailto", "news", "sip", "sips", "tel", "urn", "xmpp"))
_AUTHORITY_END = re.compile(r"[/?#]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _is_uri(text: str, *, any_scheme: bool) -> bool:
    """Whether text that has none of the stops is one of what the module lists."""
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
    try:
        parse_uri("x://" + _NOT_ASCII.sub("_", authority))
    except UrlError:
        return False
    return True


# -- delimited -------------------------------------------------------------------------------------------------------

# "URIs are delimited in a variety of ways, but usually within double-quotes "http://example.com/", angle brackets
# <http://example.com/>, or just by using whitespace"; "The prefix "URL:" (with or without a trailing space) was
# formerly recommended"
_IN_WRAPPERS = {
    "<": re.compile(r'<\s*+(?P<prefix>[Uu][Rr][Ll]:\s*+)?+(?P<uri>[^<>"]*+)>'),
    # Words are quoted too, and a closing quote looks like an opening one: so no white space is next to either.
    '"': re.compile(r'"(?P<prefix>[Uu][Rr][Ll]:[ ]?+)?+(?P<uri>(?!\s)[^<>"]*+(?<!\s))"'),
}
_WHITE_SPACE = re.compile(r"\s++")
_BLANK_LINE = re.compile(r"(?:\r\n?+|\n)[^\S\r\n]*+[\r\n]")
_HYPHEN_AT_LINE_END = re.compile(r"-(?=[^\S\r\n]*+[\r\n])")


def _delimited(text: str, start: re.Match[str]) -> tuple[Found | None, int]:
    """A URI in quotes or angle brackets, all of it, and where to go on."""
    wrapper = start["wrapper"]
    match = _IN_WRAPPERS[wrapper].match(text, start.start())
    if match is None or _BLANK_LINE.search(match["uri"]):
        return None, start.end()
    offset, given, any_scheme = match.start("uri"), match["uri"].rstrip(), match["prefix"] is not None
    uri = _join(given, wrapper)
    if _STOP.search(uri) or not _is_uri(uri, any_scheme=any_scheme):
        return None, start.end()
    # "Because some typesetters and printers may (erroneously) introduce a hyphen at the end of line when breaking it":
    # whoever breaks one line so breaks all, hence one candidate more, not one for each choice.
    unhyphenated = _join(_HYPHEN_AT_LINE_END.sub("", given), wrapper)
    is_other = unhyphenated != uri and _is_uri(unhyphenated, any_scheme=any_scheme)
    return Found(uri, offset, offset + len(given), 0, unhyphenated if is_other else None), match.end()


def _join(given: str, wrapper: str) -> str:
    """The URI in one piece: "The whitespace should be ignored when the URI is extracted".

    "Using <> angle brackets around each URI is especially recommended as a delimiting style for a reference that
    contains embedded whitespace": within quotes, only line breaks and what is around them break a URI; a space alone
    separates words.
    """
    if wrapper == "<":
        return _WHITE_SPACE.sub("", given)
    return _WHITE_SPACE.sub(lambda space: "" if _LINE_BREAK.search(space[0]) else space[0], given)


# -- without delimiters ----------------------------------------------------------------------------------------------

_BEGINNING = re.compile(f"{_SCHEME}:|{_WWW}")
_CLOSERS = {"(": ")", "[": "]", "'": "'"}
#: what can end a URI, by the character right before it
_MARKS = {
    "": _STOP,
    **{opener: re.compile(f"[{re.escape(opener + closer)}{_STOPS}]") for opener, closer in _CLOSERS.items()},
}
#: punctuation of the sentence around
_SENTENCE = frozenset(".,;:!?'")
_OPENERS = {")": "(", "]": "["}


def _undelimited(text: str, start: re.Match[str]) -> tuple[Found | None, int]:
    """A URI with something around it that cannot belong to it, and where to go on."""
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
    return Found(uri, offset, offset + len(uri), 0), offset + len(uri)


def _stop(text: str, offset: int, opener: str) -> int:
    """Where a URI ends at the latest: at what it cannot have, or at what closes the bracket or quote before it."""
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
