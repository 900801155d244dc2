"""`hrn:` names: the hierarchical names of categories in policies and lists.

    hrn://[user@]host[/name-path]     a name under an authority:   hrn://john.doe@widgets.org/thesis
    hrn://-/UUID[/name-path]          a name under a root of its own

An `Hrn` holds the normal form: two spellings of one name are equal, and have the same hash.

Deviation: the length and the levels of a name are bounded, so that no list can fill the memory with the superordinates
of a name (reading 21).

Spec: draft-pstickler-hrn-00; RFC 3986, 6.2.2, for the normal form
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.system.late_pattern import late_pattern

# "Note that the URI scheme prefix "hrn:" is considered to be a valid URI denoting this URI scheme, though it
# is not itself a valid URI according to this URI scheme."
_PREFIX = "hrn://"

#: characters of a name as written; and levels below host or UUID
LONGEST_NAME = 1024
MOST_LEVELS = 32

# 'UUID = 8hex "-" 4hex "-" 4hex "-" 4hex "-" 12hex'
_UUID_SHAPE = "00000000-0000-0000-0000-000000000000"
_HEX = late_pattern("[0-9A-Fa-f]")

# 'unreserved = alpha | digit | safe | extra', where 'safe = "$" | "-" | "_" | "." | "+"'
# and 'extra = "!" | "*" | "'" | "(" | ")" | ","'
_UNRESERVED = r"A-Za-z0-9$\-_.+!*'(),"

# Each of these finds an 'escape = "%" hex hex', or one character that is not allowed; neither backtracks.
# 'name = 1*uchar', where 'uchar = unreserved | escape'
_SPECIAL_IN_NAME = late_pattern(f"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED}]")
# 'user = *[ uchar | ";" | "?" | "&" | "=" ]': there is no password, which would need a ":"
_SPECIAL_IN_USER = late_pattern(f"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED};?&=]")

_NOT_IN_HOST = late_pattern(r"[^0-9A-Za-z.\-]")
# 'hostnumber = digits "." digits "." digits "." digits', where 'digits = 1*digit'. Numbers of any size stay as they
# are: the host only says who defines a name, and nobody connects to it.
_HOSTNUMBER = late_pattern(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")


class Hrn(NamedTuple):
    """One `hrn:` name in normal form, as `parse_hrn` makes it: under a host, or under a UUID.

    >>> parse_hrn("HRN://John.Doe@Widgets.ORG/%74hesis")
    Hrn(user='John.Doe', host='widgets.org', uuid=None, names=('thesis',))

    Spec: draft-pstickler-hrn-00, 2
    """

    #: '' is not None (RFC 3986, 6.2.3): "Normalization should not remove delimiters when their associated
    #: component is empty unless licensed to do so by the scheme specification."
    user: str | None
    #: None in the UUID form, and only there
    host: str | None
    #: None in the host form, and only there
    uuid: str | None
    #: the levels below host or UUID. "No special meaning or interpretation is ascribed by this specification
    #: to particular 'hrn:' URI levels": "." and ".." are names like any other.
    names: tuple[str, ...]

    def __str__(self) -> str:
        user = "" if self.user is None else f"{self.user}@"
        authority = f"-/{self.uuid}" if self.host is None else f"{user}{self.host}"
        return _PREFIX + "/".join((authority, *self.names))

    def levels(self) -> Iterator[str]:
        """The name itself and the names that it implies, nearest first, as text (draft-pstickler-hrn-00, 3).

        >>> list(parse_hrn("hrn://abc.com/ads/video").levels())
        ['hrn://abc.com/ads/video', 'hrn://abc.com/ads', 'hrn://abc.com']

        The last is the authority level. In the UUID form that is the root name, ``hrn://-/UUID``: by the BNF
        ``hrn://-`` alone is no `hrn:` name, and the authority "may be implicit in a UUID root name as
        indicated by a hyphen '-'".

        >>> uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
        >>> list(parse_hrn(f"hrn://-/{uuid}/xml").levels())[1:]
        ['hrn://-/f81d4fae-7dec-11d0-a765-00a0c91e6bf6']
        """
        # "Each 'hrn:' URI containing one or more levels beyond the URI authority implies an 'hrn:' URI for
        # each level up to and including the authority level"
        text = str(self)
        yield text
        for _ in self.names:
            text = text.rpartition("/")[0]
            yield text


@lru_cache(1 << 8)
def parse_hrn(text: str) -> Hrn:
    """Read one `hrn:` name, in time linear in its length (draft-pstickler-hrn-00, 2).

    >>> print(parse_hrn("hrn://ABC.com/288918293/3/%65n/global/docbook"))
    hrn://abc.com/288918293/3/en/global/docbook

    Raises ``UrlError`` if the text is not an `hrn:` name; ``position`` is the offset of the fault, in characters.
    """
    if len(text) > LONGEST_NAME:
        raise UrlError(text, f"an hrn: name has at most {LONGEST_NAME:,} characters", LONGEST_NAME)
    fault = _first_difference(text[: len(_PREFIX)].lower(), _PREFIX)
    if fault is not None:
        raise UrlError(text, f"an hrn: name must begin with {_PREFIX!r}", fault)
    authority, *levels = _levels(text, len(_PREFIX))
    # 'hrn-URI = "hrn://-/" UUID [ "/" name-path ]': no host begins with a hyphen, so the two forms are distinct
    if text[slice(*authority)] == "-":
        root, *levels = levels or [(len(text), len(text))]
        user, host, uuid = None, None, _parse_uuid(text, *root)
    else:
        user, host, uuid = *_parse_authority(text, *authority), None
    if len(levels) > MOST_LEVELS:
        raise UrlError(text, f"an hrn: name has at most {MOST_LEVELS} levels", levels[MOST_LEVELS][0])
    return Hrn(user, host, uuid, tuple(_parse_name(text, *level) for level in levels))


# Each function below reads text[start:end], and gives a fault's offset in the whole text.


def _levels(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Start and end of each part between slashes."""
    while (slash := text.find("/", start)) >= 0:
        yield start, slash
        start = slash + 1
    yield start, len(text)


def _parse_authority(text: str, start: int, end: int) -> tuple[str | None, str]:
    # 'authority = [ user "@" ] host': neither has an "@" of its own
    at = text.rfind("@", start, end)
    if at < 0:
        return None, _parse_host(text, start, end)
    return _normalize_escapes(_SPECIAL_IN_USER, "user", text, start, at), _parse_host(text, at + 1, end)


def _parse_host(text: str, start: int, end: int) -> str:
    if start == end:
        raise UrlError(text, "an authority must name a host", start)
    if stray := _NOT_IN_HOST.search(text, start, end):
        reason = f"{stray[0]!r} has no place in a host: ASCII letters, digits, '-' and '.' only"
        raise UrlError(text, reason, stray.start())
    host = text[start:end]
    # 'host = hostname | hostnumber'
    if not _HOSTNUMBER.fullmatch(host):
        _check_hostname(text, start, host)
    # RFC 3986, 6.2.2.1: "the scheme and host are case-insensitive and therefore should be normalized to
    # lowercase"
    return host.lower()


def _check_hostname(text: str, start: int, hostname: str) -> None:
    # 'hostname = *[ domainlabel "." ] toplabel'
    *_, toplabel = labels = hostname.split(".")
    for label in labels:
        # 'domainlabel = alphadigit | alphadigit *[ alphadigit | "-" ] alphadigit'
        if not label:
            raise UrlError(text, "a label of a host name may not be empty", start)
        if label.startswith("-"):
            raise UrlError(text, "a label of a host name must begin with a letter or digit", start)
        start += len(label) + 1
        if label.endswith("-"):
            raise UrlError(text, "a label of a host name must end with a letter or digit", start - 2)
    # 'toplabel = alpha | alpha *[ alphadigit | "-" ] alphadigit'
    if toplabel[0].isdigit():
        reason = "the last label of a host name must begin with a letter"
        raise UrlError(text, reason, start - 1 - len(toplabel))


def _parse_uuid(text: str, start: int, end: int) -> str:
    uuid = text[start:end]
    fault = _first_difference(_HEX.sub("0", uuid), _UUID_SHAPE)
    if fault is not None:
        raise UrlError(text, "hrn://- must be followed by a UUID, 8-4-4-4-12 hex digits", start + fault)
    # RFC 4122, 3: "The hexadecimal values "a" through "f" are output as lower case characters and are case
    # insensitive on input."
    return uuid.lower()


def _parse_name(text: str, start: int, end: int) -> str:
    if start == end:
        raise UrlError(text, "a name may not be empty", start)
    return _normalize_escapes(_SPECIAL_IN_NAME, "name", text, start, end)


def _normalize_escapes(special: re.Pattern[str], kind: str, text: str, start: int, end: int) -> str:
    """A user or name with its escapes in normal form; ``special`` finds escapes and characters that are not allowed."""

    def normalize(match: re.Match[str]) -> str:
        piece = match[0]
        if len(piece) == 3:
            # RFC 3986, 6.2.2.2: "These URIs should be normalized by decoding any percent-encoded octet that
            # corresponds to an unreserved character, as described in Section 2.3."
            # Deviation: unreserved is what the draft calls so, not Section 2.3. So %2B becomes "+", and %7E stays,
            # since the BNF does not allow "~" (reading 21).
            character = chr(int(piece[1:], 16))
            # 6.2.2.1: "the hexadecimal digits within a percent-encoding triplet (e.g., "%3a" versus "%3A") are
            # case-insensitive and therefore should be normalized to use uppercase letters for the digits A-F"
            return piece.upper() if _SPECIAL_IN_NAME.match(character) else character
        if piece == "%":
            reason = "'%' must be followed by two hex digits"
        else:
            escaped = "".join(f"%{octet:02X}" for octet in piece.encode("utf-8", "surrogatepass"))
            reason = f"{piece!r} has no place in a {kind}: write it as {escaped}"
        raise UrlError(text, reason, start + match.start())

    return special.sub(normalize, text[start:end])


def _first_difference(text: str, wanted: str) -> int | None:
    return next((at for at, (a, b) in enumerate(zip_longest(text, wanted)) if a != b), None)


@lru_cache(1024)
def category_levels(category: str) -> tuple[bytes, ...]:
    """A category and its superordinates.

    >>> category_levels("hrn://c.example/web/games")
    (b'hrn://c.example/web/games', b'hrn://c.example/web', b'hrn://c.example')
    """
    try:
        return tuple(name.encode("ascii") for name in parse_hrn(category).levels())
    except UrlError:
        return ()
