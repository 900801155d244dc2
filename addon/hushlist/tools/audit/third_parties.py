"""What other sites do for a page that people notice when it is gone, by the table ``third_parties.yaml``."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from hushlist.core.match.expressions import host_suffixes
from hushlist.tools.audit.sites import host_of_url

_MOST_LABELS = 8
_PATH = re.compile(rb"^(?:[a-z][a-z0-9+.-]*:)?//[^/?#]*([^?#]*)", re.IGNORECASE)


class Role(NamedTuple):
    """What a third party is for."""

    name: str
    says: str
    #: the signal of a visit that a lost frame of it gives
    signal: str | None
    #: what tells it in the address of a frame from a host that the table does not have
    words: re.Pattern[str] | None


#: folders or pages at a host, "" for all of it, and the role of what is there; the longest first
Places = tuple[tuple[bytes, str], ...]


@cache
def roles() -> dict[str, Role]:
    """The roles, in the order of the table."""
    return {
        name: Role(
            name,
            row["says"],
            row.get("signal"),
            re.compile(row["words"], re.IGNORECASE) if "words" in row else None,
        )
        for name, row in table().items()
    }


def role_text(name: str) -> str:
    """What a role is called for people; another version's table may have others."""
    role = roles().get(name)
    return name if role is None else role.says


def places_at(host: bytes) -> Places:
    """What the table has at a canonical host, and at those above it; mostly nothing."""
    every = _places()
    there = [place for name in host_suffixes(host, _MOST_LABELS) for place in every.get(name, ())]
    return tuple(sorted(there, key=lambda place: -len(place[0]))) if there else ()


def role_at(places: Places, url: bytes) -> str | None:
    """The role of an address at a host with these places.

    >>> places = places_at(b"www.google.com")
    >>> [role_at(places, b"//www.google.com" + path) for path in (b"/maps/embed?pb=1", b"/recaptcha/api.js", b"/")]
    ['map', 'captcha', None]
    """
    match = _PATH.match(url)
    path = match[1] or b"/" if match else b"/"
    return next((role for folder, role in places if path.startswith(folder)), None)


def role_of_frame(address: str) -> Role | None:
    """What a frame is for, by its host or else by the words in its address.

    >>> [role and role.name for role in map(role_of_frame, ("//js.stripe.com/", "//a.example/sign-in", "//a.example/"))]
    ['payment', 'sign-in', None]
    """
    url = address.encode("utf-8", "surrogateescape")
    host = host_of_url(url)
    if host is not None and (name := role_at(places_at(host), url)):
        return roles()[name]
    return next((role for role in roles().values() if role.words and role.words.search(address)), None)


@cache
def table() -> dict[str, dict[str, Any]]:
    """The rows of the table, by role."""
    text = files("hushlist.tools.audit").joinpath("third_parties.yaml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return rows


@cache
def _places() -> dict[bytes, Places]:
    """Host -> what is there."""
    every: dict[bytes, Places] = {}
    for role, row in table().items():
        for entry in row["hosts"]:
            host, slash, path = entry.encode().partition(b"/")
            every[host] = (*every.get(host, ()), (slash + path, role))
    return every
