"""Options of filters that are about heads: what they take out of requests and answers, set, add, or block by.

Such a filter decides no request. It says what becomes of the head of one that passes, or of its answer.

>>> head_effect({"csp": "script-src 'self'"}, lifts=False)
HeadEffect(option='csp', value="script-src 'self'", lifts=False, header='')
>>> head_effect({"removeheader": "Content-Security-Policy"}, lifts=False)
Traceback (most recent call last):
ValueError: $removeheader: without this field, a page would be less safe

Spec: https://adguard.com/kb/general/ad-filtering/create-own-filters/, Advanced capabilities;
https://github.com/gorhill/uBlock/wiki/Static-filter-syntax, csp, permissions and responseheader
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from hushlist.core.url.header_names import as_read, is_bound
from hushlist.extensions.adblock.automaton import ExhaustedError
from hushlist.extensions.adblock.linear_regex import Searching, linear_regex

#: of one filter, one of them at most, but that ``header`` may stand beside ``csp`` and ``removeheader``
HEAD_OPTIONS = ("csp", "permissions", "referrerpolicy", "removeheader", "cookie", "header")
#: those that are about pages alone, unless they name other types
OF_PAGES = ("csp", "permissions", "referrerpolicy")
#: what uBlock Origin's ``##^responseheader()`` may take out
REMOVABLE = frozenset(("location", "refresh", "report-to", "set-cookie"))
#: what AdGuard's ``removeheader`` may not take out, besides fields that are bound to the message (``is_bound``)
FORBIDDEN = frozenset((
    b"access-control-allow-credentials access-control-allow-headers access-control-allow-methods "
    b"access-control-allow-origin access-control-expose-headers access-control-max-age "
    b"access-control-request-headers access-control-request-method origin timing-allow-origin allow "
    b"cross-origin-embedder-policy cross-origin-opener-policy cross-origin-resource-policy "
    b"content-security-policy content-security-policy-report-only expect-ct feature-policy origin-isolation "
    b"strict-transport-security upgrade-insecure-requests x-content-type-options x-download-options "
    b"x-frame-options x-permitted-cross-domain-policies x-powered-by x-xss-protection public-key-pins "
    b"public-key-pins-report-only sec-websocket-key sec-websocket-extensions sec-websocket-accept "
    b"sec-websocket-protocol sec-websocket-version p3p sec-fetch-mode sec-fetch-dest sec-fetch-site "
    b"sec-fetch-user referrer-policy content-type content-length accept accept-encoding host connection "
    b"transfer-encoding upgrade"
).split())  # fmt: skip
#: those that tell no other site anything, and those that tell no more than browsers do by themselves
SILENT = frozenset(("no-referrer", "same-origin"))
_REFERRER_POLICIES = SILENT | {"strict-origin", "strict-origin-when-cross-origin"}
_LOOSE = frozenset(("no-referrer-when-downgrade", "origin", "origin-when-cross-origin", "unsafe-url"))
FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]{0,4000}[\x21-\x7e])?")
_FRAMES = re.compile(r"(?:^|[;,])\s*frame-ancestors(?![\w-])", re.IGNORECASE)
_FORBIDS = re.compile(r"[a-z][a-z0-9-]*=\( *\)")
_REPORTS = re.compile(r"(?:^|[;,])\s*report-(?:to|uri)\b", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([,$|])")
_COOKIE = re.compile(r"(/.+/|[^;/][^;]*)?((?:;[^;]*)*)")
_COOKIE_LIFE = re.compile(r"\s*(?i:(maxage)\s*=\s*([0-9]{1,10})|(samesite)\s*=\s*(lax|strict))\s*")
_LOOSE_COOKIE = re.compile(r";\s*samesite\s*=\s*none\s*(?:;|$)", re.IGNORECASE)


class HeadEffect(NamedTuple):
    """What a filter does with heads."""

    #: one of ``HEAD_OPTIONS``
    option: str
    #: empty: every cookie; of an exception, every filter with the option
    value: str
    #: whether it is an exception, which lifts filters with the option
    lifts: bool = False
    #: the field that an answer has to have, ``name`` or ``name:value``; empty: any answer
    header: str = ""

    def is_lifted_by(self, other: HeadEffect) -> bool:
        """Whether an exception lifts it; of cookies, one with a name lifts only what is done with these."""
        return other.lifts and other.option == self.option and other.value in ("", self.value)


def head_effect(options: Mapping[str, str], *, lifts: bool) -> HeadEffect:
    """The effect of a filter's options, of which it has some; ``ValueError`` with the reason if it can have none."""
    options = {
        name: _ESCAPED.sub(r"\1", value) if name not in _WITH_REGEX else value for name, value in options.items()
    }
    header, others = options.get("header", ""), [*(options.keys() - {"header"})]
    if len(others) > 1 or (header and others and others[0] not in ("csp", "removeheader")):
        raise ValueError("options about heads that exclude each other")
    option = others[0] if others else "header"
    value = options[option]
    if header or option == "header":
        header = _header(header, lifts=lifts)
    if header and value.lower().startswith("request:"):
        raise ValueError("$header: a request goes on before its answer has a head")
    if value or not (lifts or option == "cookie"):
        value = header if option == "header" else _READERS[option](value)
    return HeadEffect(option, value, lifts, header)


#: regular expressions in them have their escapes
_WITH_REGEX = ("cookie", "header")


def _csp(value: str) -> str:
    if _REPORTS.search(value):
        raise ValueError("$csp: a policy that has reports sent")
    if _FRAMES.search(value):  # browsers take it in the place of X-Frame-Options
        raise ValueError("$csp: with frame-ancestors, a page would be less safe")
    return _value("csp", value)


def _permissions(value: str) -> str:
    if _REPORTS.search(value):
        raise ValueError("$permissions: a policy that has reports sent")
    parts = [part.strip() for part in re.split(r"[|,]", value)]
    if not all(map(_FORBIDS.fullmatch, parts)):
        raise ValueError("$permissions: a list may only forbid: NAME=()")
    return ", ".join(parts)


def _referrer_policy(value: str) -> str:
    if value.lower() in _LOOSE:
        raise ValueError("$referrerpolicy: with this policy, a page would be less safe")
    if value.lower() not in _REFERRER_POLICIES:
        raise ValueError("$referrerpolicy: a policy that is not known")
    return value.lower()


def _removed(value: str) -> str:
    name = value.lower().strip()
    field = name.removeprefix("request:")
    if not FIELD_NAME.fullmatch(field):
        raise ValueError("$removeheader: no name of a field")
    if as_read(field.encode()) in FORBIDDEN or is_bound(field.encode()):
        raise ValueError("$removeheader: without this field, a page would be less safe")
    return name


def _header(value: str, *, lifts: bool) -> str:
    name, colon, text = value.partition(":")
    if not name and lifts and not colon:
        return ""
    if not FIELD_NAME.fullmatch(name.strip()):
        raise ValueError("$header: no name of a field")
    value_test(text)
    return f"{name.strip().lower()}{colon}{text}"


def _cookie(value: str) -> str:
    Cookies.of(value)
    return value


def _value(option: str, value: str) -> str:
    if not FIELD_VALUE.fullmatch(value):
        raise ValueError(f"${option}: no value of a field")
    return value


_READERS = {
    "csp": _csp,
    "permissions": _permissions,
    "referrerpolicy": _referrer_policy,
    "removeheader": _removed,
    "cookie": _cookie,
}


class ValueTest(NamedTuple):
    """A text that has to be the same, or a regular expression, between slashes, that has to be in it."""

    text: bytes
    expression: Searching | None = None

    def fits(self, octets: bytes) -> bool:
        """Whether a value fits; what takes too long to know does not."""
        if self.expression is None:
            return octets == self.text
        try:
            return self.expression.search(octets) is not None
        except ExhaustedError:
            return False


@lru_cache(maxsize=1 << 10)
def value_test(text: str, *, match_case: bool = True) -> ValueTest:
    r"""The test of a value; ``ValueError`` if it is an expression that cannot be taken.

    >>> [value_test(r"/^a\,b/").fits(octets) for octets in (b"a,bc", b"aab")]
    [True, False]
    """
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return ValueTest(b"", linear_regex(text[1:-1], match_case=match_case)[0])
    return ValueTest(_ESCAPED.sub(r"\1", text).strip().encode())


class Cookies(NamedTuple):
    """What ``cookie`` says: which cookies, and whether they get another life instead of being taken out."""

    #: ``None``: all
    name: ValueTest | None
    #: attributes that ``Set-Cookie`` gets, by their names in lower case
    life: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def of(cls, value: str) -> Cookies:
        """Read the option's value; ``ValueError`` with the reason."""
        match = _COOKIE.fullmatch(value)
        lives = [] if match is None else [_COOKIE_LIFE.fullmatch(each) for each in match[2].split(";")[1:]]
        if match is None or None in lives:
            is_loose = match is not None and _LOOSE_COOKIE.search(match[2])
            raise ValueError("$cookie: " + ("sameSite=none is less safe" if is_loose else "no name of a cookie"))
        said = {(life[1] or life[3]).lower(): life[2] or life[4] for life in lives if life is not None}
        names = {"maxage": b"Max-Age", "samesite": b"SameSite"}
        life = tuple(
            (names[name], text.capitalize().encode()) for name, text in said.items() if said.get("maxage") != "0"
        )
        return cls(None if not match[1] else value_test(match[1].strip()), life)

    def has(self, name: bytes) -> bool:
        return self.name is None or self.name.fits(name)
