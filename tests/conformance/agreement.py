"""How far other people's vectors agree with our profiles, family by family, and into which classes the rest falls.

A family is some rows of a file, and a profile. README.md beside this has a table for each: its classes, and the clause
that decides on each; ``test_agreement`` holds the two against each other.

Where it can, a class is a repair: what a browser does to the text and the profile does not. The row is of the first one
that makes it agree, behind those before it, so that the class is proven to be the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from conformance import test_addresses as addresses
from conformance import test_rfc3986_normalization as rfc3986_rows
from conformance.vectors import Row, rows
from hushlist.core.errors import UrlError
from hushlist.core.url import host as hosts
from hushlist.core.url import iri, normalization, rfc3986
from hushlist.core.url.hashed_uri import HashKey, hashed_string, matching_strings
from hushlist.core.url.iri import SCHEME
from hushlist.core.url.parts import split_generic, to_bytes
from hushlist.core.url.safebrowsing import canonicalize, remove_tab_cr_lf, strip_spaces

Predicate = Callable[[Row], bool]
Repair = Callable[[Row, bytes], bytes]


@dataclass(frozen=True)
class Family:
    """Rows that are compared in one way."""

    #: the heading in README.md
    name: str
    #: the file's name, without its ending
    file: str
    #: whether the row says what the text says: the input, or a repair of it
    agrees: Callable[[Row, bytes], bool]
    selects: Predicate = lambda _: True
    #: classes by their name in README.md: what the rows of it have in common
    kinds: Mapping[str, Predicate] = field(default_factory=dict)
    #: classes by their name in README.md: what makes the rows agree; each is done to what the one before has left
    repairs: Mapping[str, Repair] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        return (*self.kinds, *self.repairs)

    def rows(self) -> list[Row]:
        return [row for row in rows(self.file) if self.selects(row)]

    def differs(self, row: Row) -> bool:
        return not self.agrees(row, to_bytes(row["input"]))

    def class_of(self, row: Row) -> str | None:
        """The class of a row that differs; ``None`` where it has none."""
        for name, fits in self.kinds.items():
            if fits(row):
                return name
        text = to_bytes(row["input"])
        for name, repair in self.repairs.items():
            text = repair(row, text)
            if self.agrees(row, text):
                return name
        return None


# -- what a browser does -------------------------------------------------------------------------------------------

_SPECIAL = (b"http", b"https", b"ws", b"wss", b"ftp")


def scheme(row: Row) -> bytes:
    """The scheme that a browser goes by: of what it asks for, or else of what it was given, or of its base."""
    texts = (to_bytes(row["expected"] or ""), cleaned(row, to_bytes(row["input"])), to_bytes(row.get("base") or ""))
    return next((found.lower() for text in texts if (found := split_generic(text).scheme)), b"")


def cleaned(_: Row, text: bytes) -> bytes:
    """White space around the text, tabs and line ends in it removed."""
    return remove_tab_cr_lf(strip_spaces(text))


def with_slashes(row: Row, text: bytes) -> bytes:
    """Slashes for backslashes, up to the query."""
    if scheme(row) not in _SPECIAL:
        return text
    end = re.search(rb"[?#]|$", text)
    assert end is not None
    return text[: end.start()].replace(b"\\", b"/") + text[end.start() :]


def relative_to_its_scheme(row: Row, text: bytes) -> bytes:
    """Without a scheme that is the base's, if no authority follows."""
    own, base = split_generic(text), split_generic(to_bytes(row.get("base") or ""))
    if own.scheme is None or own.scheme.lower() != base.scheme or own.host is not None:
        return text
    return own._replace(scheme=None).join()


def with_two_slashes(row: Row, text: bytes) -> bytes:
    """Two slashes, where there are more or fewer in front of an authority."""
    if scheme(row) not in _SPECIAL:
        return text
    return re.sub(rb"^([A-Za-z]+:)/*|^//+", lambda match: (match[1] or b"") + b"//", text)


def with_plain_user(_: Row, text: bytes) -> bytes:
    """Reserved characters of the user information escaped, its delimiters removed where nothing is in between."""
    parts = split_generic(text)
    if parts.userinfo is None:
        return text
    name, _colon, password = parts.userinfo.partition(b":")
    name, password = (re.sub(rb"[^A-Za-z0-9._~!$&'()*+,%-]", _escape, part) for part in (name, password))
    return parts._replace(userinfo=(name + b":" + password if password else name) or None).join()


def _escape(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def with_one_address(_: Row, text: bytes) -> bytes:
    """The host unescaped, mapped, and in the one spelling of its address."""
    parts = split_generic(text)
    if parts.host is None:
        return text
    name = hosts.collapse_dots(hosts.to_ascii(normalization.percent_decode_repeatedly(parts.host)))
    name = re.sub(rb"\b0x(?=\.|$)", b"0", name)
    return parts._replace(host=hosts.normalize_address(name)).join()


def with_digits(_: Row, text: bytes) -> bytes:
    """A zero for an "0x" without digits."""
    return re.sub(rb"\b0x(?=\.|$)", b"0", text)


def with_escaped_apostrophes(row: Row, text: bytes) -> bytes:
    """ "'" escaped in the query."""
    parts = split_generic(text)
    if parts.query is None or scheme(row) not in _SPECIAL:
        return text
    return parts._replace(query=parts.query.replace(b"'", b"%27")).join()


def as_uri(_: Row, text: bytes) -> bytes:
    """Mapped to a URI, with A-labels."""
    parts = split_generic(text)
    for step in (rfc3986.lowercase_scheme, iri.map_to_uri, rfc3986.normalize_escapes, iri.convert_to_a_labels):
        parts = step(parts)
    return parts.join()


# -- how we compare -------------------------------------------------------------------------------------------------


def absolute(row: Row, text: bytes) -> bytes:
    """A relative reference against the row's base by RFC 3986, 5.2; anything else as it stands."""
    is_reference = row.get("base") and split_generic(text).scheme is None
    return rfc3986.resolve(text, row["base"]) if is_reference else text


@cache
def canonical(url: bytes) -> bytes | None:
    """The Safe Browsing form, or ``None`` where there is none."""
    try:
        return canonicalize(url)
    except UrlError:
        return None


def safebrowsing(row: Row, text: bytes) -> bool:
    """Whether the text and what a browser then asks for have one canonical form.

    A relative reference is resolved without what a browser removes from it; the profile does that by itself.
    """
    asked = None if row["expected"] is None else canonical(to_bytes(row["expected"]))
    text = text if split_generic(text).scheme else cleaned(row, text)
    return canonical(absolute(row, text)) == asked


def ladder(row: Row, text: bytes) -> bool:
    """Whether the two are equivalent on the rung "scheme", or on one below."""
    return SCHEME.canonicalize(absolute(row, text)) == SCHEME.canonicalize(row["expected"])


def hashed(variant: str) -> Callable[[Row, bytes], bool]:
    """Whether a hashed URI that was made of the text is found when a browser asks for what it asks for."""

    def agrees(row: Row, text: bytes) -> bool:
        asked = split_generic(to_bytes(row["expected"]))
        key = HashKey("sha1", variant, query=asked.query is not None, fragment=False)
        (strings,) = matching_strings([asked], [key.kind])
        return hashed_string(split_generic(absolute(row, text)), key) in strings

    return agrees


@cache
def host_of(url: bytes) -> str | None:
    """The host of the Safe Browsing form."""
    form = canonical(url)
    return None if form is None else form.split(b"/")[2].decode()


def safebrowsing_name(row: Row, text: bytes) -> bool:
    """Whether a name becomes the A-labels that a browser makes of it."""
    return host_of(b"http://" + text + b"/") == row["expected"]


def ladder_name(row: Row, text: bytes) -> bool:
    """The same by the rung "scheme"."""
    host = split_generic(SCHEME.canonicalize(b"http://" + text + b"/")).host
    return host == to_bytes(row["expected"] or "")


def safebrowsing_address(row: Row, text: bytes) -> bool:
    """Whether a host is the address that a browser takes it for."""
    if addresses.is_bare(row):
        return str(hosts.parse_ipv6(text)) == row["expected"]
    return addresses.address_of(text.decode()) == addresses.expected_address(row)


def is_listed(exceptions: Mapping[str, tuple[str, str | None]]) -> dict[str, Predicate]:
    """Classes by the reasons that are given beside the tests of the addresses."""
    reasons = {row: reason for row, (reason, _) in exceptions.items()}
    return {reason: lambda row, reason=reason: reasons.get(row["input"]) == reason for reason in reasons.values()}


def has(pattern: str) -> Predicate:
    """Rows whose input has such a place."""
    compiled = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    return lambda row: compiled.search(row["input"]) is not None


def is_requested(*schemes: bytes) -> Predicate:
    return lambda row: row["expected"] is not None and scheme(row) in schemes


def is_refused(*schemes: bytes) -> Predicate:
    return lambda row: row["expected"] is None and scheme(row) in schemes


def is_expected(row: Row) -> bool:
    return row["expected"] is not None and not addresses.is_bare(row)


def ends_in_a_number(row: Row) -> bool:
    """A last label that makes a browser expect an IPv4 address."""
    host = host_of(to_bytes(row["input"])) or ""
    return re.fullmatch(r"(.*\.)?([0-9]+|0x[0-9a-f]*)", host) is not None


def has_no_port(row: Row) -> bool:
    """What stands for the port is no number, or none up to 65535."""
    match = re.match(r"[a-z]+://[^:/?#]+:([^/?#]*)", row["input"])
    return match is not None and not (re.fullmatch("[0-9]*", match[1]) and int(match[1] or 0) < 1 << 16)


# -- the families ---------------------------------------------------------------------------------------------------

#: what a browser does to a reference before it has a scheme and an authority
_REFERENCE: dict[str, Repair] = {
    "a scheme that is the base's, without an authority": relative_to_its_scheme,
    "a backslash for a slash": with_slashes,
    "more or fewer than two slashes in front of the authority": with_two_slashes,
}
_USER_AND_ADDRESS: dict[str, Repair] = {
    "delimiters in the user information": with_plain_user,
    "another spelling of an address": with_one_address,
}
_APOSTROPHE: dict[str, Repair] = {"an apostrophe in the query": with_escaped_apostrophes}
_CLEANED: dict[str, Repair] = {"white space or control characters around it, tabs or line ends in it": cleaned}
_HASHED: dict[str, Repair] = {
    **_CLEANED,
    **_REFERENCE,
    "delimiters in the user information": with_plain_user,
    "characters that no URI has": as_uri,
    "another spelling of an address": with_one_address,
    **_APOSTROPHE,
}

_NAMES: dict[str, Predicate] = {
    "what is marked as an A-label, but is none": has(r"xn--(a\.|te)"),
    "joiners, and letters of both directions in one label": has("\u200d|\u064a|\u05be"),
}

FAMILIES = (
    Family(
        "rfc3986_normalization, on the ladder",
        "rfc3986_normalization",
        lambda row, _: rfc3986_rows.agrees(row),
        kinds={
            reason: lambda row, listed=frozenset(listed): rfc3986_rows.name(row) in listed
            for reason, listed in rfc3986_rows.EXCEPTIONS.items()
        },
    ),
    Family(
        "wpt_toascii, safebrowsing",
        "wpt_toascii",
        safebrowsing_name,
        kinds={
            "empty labels": has(r"\.\."),
            **_NAMES,
            "a name that is refused": lambda row: row["expected"] is None,
            "a label that is longer than any of DNS": has(r"[^.]{60}"),
        },
    ),
    Family(
        "wpt_toascii, scheme",
        "wpt_toascii",
        ladder_name,
        kinds={
            **_NAMES,
            "a name that is refused": lambda row: row["expected"] is None,
            "a label that is longer than any of DNS": has(r"[^.]{60}"),
            "an angle bracket that a mark makes a letter": has("[<>]\xad?\u0338"),
        },
    ),
    Family("ipv4_wpt, safebrowsing", "ipv4_wpt", safebrowsing_address, kinds=is_listed(addresses.IPV4_EXCEPTIONS)),
    Family(
        "ipv4_wpt, scheme",
        "ipv4_wpt",
        ladder,
        is_expected,
        repairs={"another spelling of an address": with_one_address},
    ),
    Family("ipv6, safebrowsing", "ipv6", safebrowsing_address, kinds=is_listed(addresses.IPV6_EXCEPTIONS)),
    Family(
        "ipv6, scheme",
        "ipv6",
        ladder,
        is_expected,
        kinds={"a scheme that is the base's, without an authority": has(r"^http:\[")},
        repairs=_USER_AND_ADDRESS,
    ),
    Family(
        "wpt_urltestdata, http and https that a browser asks for, safebrowsing",
        "wpt_urltestdata",
        safebrowsing,
        is_requested(b"http", b"https"),
        repairs={**_REFERENCE, "0x without digits": with_digits},
    ),
    Family(
        "wpt_urltestdata, http and https that a browser refuses, safebrowsing",
        "wpt_urltestdata",
        safebrowsing,
        is_refused(b"http", b"https"),
        kinds={
            "an IPv6 address without its brackets": has("://2001::1$"),
            "brackets without an address in them, or with something beside them": has(r"://([^/]*%5B|\[|[^/]*\])"),
            "a port that is none": has_no_port,
            "a delimiter of URLs, escaped in the host": has("%(2F|3A|3F|40|5C)"),
            "a number at the end of a name": ends_in_a_number,
            "a name that is refused": has("://[^/]*([^\x00-\x7f]|%[89a-f])"),
            "a character that no name has": has(r"://[^/]*([\x00-\x20\x7f<>^|\[]|%)"),
        },
    ),
    Family(
        "wpt_urltestdata, ws, wss and ftp that a browser asks for, safebrowsing",
        "wpt_urltestdata",
        safebrowsing,
        is_requested(b"ws", b"wss", b"ftp"),
        repairs={name: _REFERENCE[name] for name in list(_REFERENCE)[1:]},
    ),
    Family(
        "wpt_urltestdata, scheme",
        "wpt_urltestdata",
        ladder,
        lambda row: row["expected"] is not None,
        kinds={
            "file: its drive letters, slashes and bases": lambda row: scheme(row) == b"file",
            "white space at the end of an opaque path": has("^non-special:opaque"),
        },
        repairs={**_CLEANED, **_REFERENCE, **_USER_AND_ADDRESS, **_APOSTROPHE},
    ),
    Family(
        "wpt_urltestdata, http and https that a browser asks for, hashed-n",
        "wpt_urltestdata",
        hashed("n"),
        is_requested(b"http", b"https"),
        repairs=_HASHED,
    ),
    Family(
        "wpt_urltestdata, http and https that a browser asks for, hashed-p",
        "wpt_urltestdata",
        hashed("p"),
        is_requested(b"http", b"https"),
        repairs=_HASHED,
    ),
)
