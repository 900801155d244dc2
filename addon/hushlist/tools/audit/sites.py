"""The host and the site of an address: what visitors take for a party."""

from __future__ import annotations

import re

from hushlist.core.errors import UrlError
from hushlist.core.match.public_suffixes import public_suffixes
from hushlist.core.url.host import is_plain_name
from hushlist.core.url.request import PLAIN_URL, canonical_host, request_of
from hushlist.tools.audit.sources.recorded_request import hide_user, text_of

_QUERY = re.compile(rb"[?#].*", re.DOTALL)


def host_of_url(url: bytes) -> bytes | None:
    """The canonical host of a URL, or ``None`` where it names none."""
    plain = PLAIN_URL.match(url)
    if plain is not None and is_plain_name(plain[2]):
        return plain[2]
    try:
        return canonical_host(request_of(url).hosts[0])
    except UrlError:
        return None


def site_of_host(host: bytes) -> str:
    """The site of a host: the registrable domain, or the address."""
    return public_suffixes().registrable_domain(host).decode("ascii", "backslashreplace")


def site_of_url(url: bytes) -> str | None:
    """The site of a URL, or ``None`` where it names no host."""
    host = host_of_url(url)
    return None if host is None else site_of_host(host)


def page_name(url: bytes) -> str:
    """What a page is called in reports: its address without user information, query and fragment.

    >>> page_name(b"https://me@news.example/a?id=7#top")
    'https://***@news.example/a'
    """
    return text_of(_QUERY.sub(b"", hide_user(url)))
