"""A URL in parts, the two ways to split one, and profiles: ordered tuples of steps that give a canonical form.

``split_generic`` follows RFC 3986 and takes any URI. ``split_web`` is for the web filter and takes the text for
something with a host, so ``www.example.com/`` and ``example.com:443/x`` are URLs too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.host import parse_ipv6

#: scheme -> its default port, for schemes whose hosts are names of the DNS; each by the RFC that defines the scheme, or
#: by what is named (reading 39)
DEFAULT_PORTS = {
    b"http": 80,  # 9110, 4.2.1
    b"https": 443,  # 9110, 4.2.2
    b"ws": 80,  # 6455, 3
    b"wss": 443,  # 6455, 3
    b"ftp": 21,  # 1738, 3.2.2
    b"acap": 674,  # 2244, 2
    b"coap": 5683,  # 7252, 6.1
    b"coaps": 5684,  # 7252, 6.2
    b"dict": 2628,  # 2229, 5
    b"dns": 53,  # 4501, 3
    b"git": 9418,  # IANA's registry of ports, and Git's own pages
    b"gopher": 70,  # 4266, 2.1
    b"iax": 4569,  # 5456, 5
    b"imap": 143,  # 5092, 3
    b"ipp": 631,  # 3510, 4.3
    b"ipps": 631,  # 7472, 4.3
    b"ldap": 389,  # 4516, 2
    b"ldaps": 636,  # IANA's registry of ports
    b"mqtt": 1883,  # MQTT 5.0, 4.2, of OASIS
    b"mqtts": 8883,  # the same
    b"nfs": 2049,  # 2224, 3
    b"nntp": 119,  # 5538, 3
    b"pop": 110,  # 2384, 4
    b"prospero": 1525,  # 4157, 3
    b"rsync": 873,  # 5781, 2
    b"rtsp": 554,  # 7826, 4.2
    b"rtsps": 322,  # 7826, 4.2
    b"sftp": 22,  # draft-ietf-secsh-scp-sftp-ssh-uri-04, 3.3
    b"snmp": 161,  # 4088, 2
    b"ssh": 22,  # 4253, 4
    b"telnet": 23,  # 4248, 2
    b"tftp": 69,  # 3617, 2
    b"vnc": 5900,  # 7869, 2
    b"wais": 210,  # 4156, 2
    b"xmpp": 5222,  # 6120, 3.2.1
}


class Parts(NamedTuple):
    """The components of a URI without delimiters; ``None`` if a component and its delimiter are missing.

    Spec: RFC 3986, 3 and 5.3 ("undefined" is kept apart from "empty")
    """

    scheme: bytes | None
    userinfo: bytes | None
    #: an IP literal has its brackets; ``None`` if the URI has no authority
    host: bytes | None
    port: bytes | None
    path: bytes
    query: bytes | None = None
    fragment: bytes | None = None

    @property
    def contents(self) -> bytes:
        """All components joined without delimiters, for one search through all of them."""
        return b"".join(filter(None, self))

    def change(self, function: Callable[[bytes], bytes], *names: str) -> Parts:
        """The parts with some components changed, if they are there; all but the scheme, if none is named."""
        if not names:
            return Parts._make(
                (self[0], *[None if component is None else function(component) for component in self[1:]])
            )
        changed = {name: function(component) for name in names if (component := getattr(self, name)) is not None}
        return self._replace(**changed) if changed else self

    def join(self) -> bytes:
        """The URI with these parts (RFC 3986, 5.3).

        >>> split_generic(b"http://u@h:1/p?q#f").join()
        b'http://u@h:1/p?q#f'
        """
        scheme, userinfo, host, port, path, query, fragment = self
        url = b"" if scheme is None else scheme + b":"
        if host is not None:
            url += b"//" if userinfo is None else b"//" + userinfo + b"@"
            url += host if port is None else host + b":" + port
        url += path
        if query is not None:
            url += b"?" + query
        if fragment is not None:
            url += b"#" + fragment
        return url


def to_bytes(url: bytes | str) -> bytes:
    """The octets of a URL: text as UTF-8; surrogate escapes become the octets that they stand for."""
    if isinstance(url, bytes):
        return url
    try:
        return url.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no octet
        return url.encode("utf-8", "surrogatepass")


# -- Appendix C: URLs that a person types, and those in text -------------------------------------------------------

_SPACES = " \t\r\n\f\v"
_WHITE_SPACE = late_pattern(r"\s++")
_LINE_BREAK = late_pattern("[\r\n]")
#: the prefix that "was formerly recommended", if it is not a host with a port
_URL_PREFIX = late_pattern(r"URL:(?![0-9]{1,5}(?:[/?#]|\Z))", re.IGNORECASE)
_DELIMITER = late_pattern(r"[:/?#\\]")
#: the authority of a URL, with what is before it
_AUTHORITY = late_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*+://[^/?#\\]*+")
#: a line break that may be one of a word, too
_BROKEN_WORD = late_pattern(r"-[^\S\r\n]*+[\r\n]")


def as_typed(text: str) -> bytes:
    """The URL that a person has typed, without what only delimits it, or breaks it into lines.

    >>> as_typed("<URL:http://h.example/ >"), as_typed('"h.example"'), as_typed("url:80")
    (b'http://h.example/', b'h.example', b'url:80')
    >>> as_typed("http://h. example/a b")
    b'http://h.example/a b'

    Raises ``UrlError`` if a delimiter is not closed, or was never opened; or a line ends in a hyphen, which may or may
    not be part of the URL; or the scheme has an escape, so that the URL would be read as one of another host.

    Spec: RFC 3986, Appendix C: "software that accepts user-typed URI should attempt to recognize and strip both
    delimiters and embedded whitespace"
    """
    rest, url = text, text.strip(_SPACES)
    if _BROKEN_WORD.search(url):
        raise UrlError(text, "a line ends in a hyphen, which may or may not be part of it: write it in one line")
    for opening, closing in ("<>", '""'):
        begins, ends = url.startswith(opening), url.endswith(closing)
        if begins != ends or url == opening:
            raise UrlError(text, f"{opening if begins else closing} stands on one side alone")
        if begins:
            rest = url = join_lines(url[1:-1].strip(_SPACES), opening)
    if prefix := _URL_PREFIX.match(url):
        rest = url = url[prefix.end() :].strip(_SPACES)
    scheme, is_scheme, _ = url.partition("://")
    if is_scheme and "%" in scheme and not _DELIMITER.search(scheme):
        raise UrlError(text, "no scheme has an escape: write it in letters")
    return to_bytes(_without_spaces_in_host(rest))


def _without_spaces_in_host(url: str) -> str:
    """The URL without white space in its authority, where no component can have any; in a path, it is a browser's
    ``%20``. Text with another URL behind it stays as it is."""
    start = len(url) - len(url.lstrip(_SPACES))
    authority = _AUTHORITY.match(url, start)
    if authority is None or url.startswith("//", authority.end()):
        return url
    return url[:start] + _WHITE_SPACE.sub("", authority[0]) + url[authority.end() :]


def join_lines(text: str, wrapper: str) -> str:
    """The URI in one piece: "The whitespace should be ignored when the URI is extracted".

    "Using <> angle brackets around each URI is especially recommended as a delimiting style for a reference that
    contains embedded whitespace". In quotes, only line breaks with the white space around them are removed; a space
    alone separates words.
    """
    if wrapper == "<":
        return _WHITE_SPACE.sub("", text)
    return _WHITE_SPACE.sub(lambda space: "" if _LINE_BREAK.search(space[0]) else space[0], text)


# -- splitting -----------------------------------------------------------------------------------------------------

# Spec: RFC 3986, Appendix B, as one expression that cannot backtrack: every class excludes what follows it.
_GENERIC = late_pattern(rb"(?:([^:/?#]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SCHEME = late_pattern(rb"[A-Za-z][A-Za-z0-9+.-]*")


def split_generic(uri: bytes) -> Parts:
    """Split any URI reference; never fails (RFC 3986, Appendix B).

    >>> split_generic(b"mailto:clive@demon.net").path
    b'clive@demon.net'
    """
    match = _GENERIC.fullmatch(uri)
    assert match is not None
    scheme, authority, path, query, fragment = match.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        # "a path segment that contains a colon character" is not a scheme if it is not valid as one (RFC 3986, 4.2)
        path, scheme, authority = uri[: match.end(3)], None, None
    if authority is None:
        return Parts(scheme, None, None, None, path, query, fragment)
    return Parts(scheme, *split_authority(authority), path, query, fragment)


# After http and https, a browser takes a backslash for a slash, and needs none: "http:\\h", "http:/h", "http:h".
_WITH_AUTHORITY = late_pattern(
    rb"(?:([A-Za-z][A-Za-z0-9+.-]*+)://|([Hh][Tt][Tt][Pp][Ss]?):[/\\]{0,2}|//)([^/?\\]*+)([^?]*+)(?:\?(.*+))?",
    re.DOTALL,
)
#: a scheme without an authority; ``host:80`` and ``host:80/x`` are hosts with ports
_OPAQUE = late_pattern(rb"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]*(?:[/?]|$))")
_ONE_SLASH = late_pattern(rb"(?:wss?|ftp):/", re.IGNORECASE)


def split_web(url: bytes) -> Parts:
    r"""Split a web URL; the scheme may be missing, and the path is never empty; ``UrlError`` if the text names no host.

    As in a browser, a backslash ends the authority, and after http and https, one or no slash may begin it. Three
    slashes do not, by Safe Browsing's vectors. The caller must split off a fragment first.

    >>> split_web(b"example.com:443/abc?x").host
    b'example.com'
    """
    match = _WITH_AUTHORITY.fullmatch(url)
    if match is None:
        if parse_ipv6(url.split(b"/", 1)[0]) is None and _OPAQUE.match(url):
            raise UrlError(url, "it names no host")
        if _ONE_SLASH.match(url):
            raise UrlError(url, "expected '//' behind the scheme")
        match = _WITH_AUTHORITY.fullmatch(b"//" + url)
        assert match is not None
    scheme, web_scheme, authority, path, query = match.groups()
    userinfo, host, port = split_web_authority(authority)
    if not host:
        raise UrlError(url, "it names no host")
    return Parts(scheme or web_scheme, userinfo, host, port, rooted(path), query)


_COLON, _AT = b":@"  # searching for a number is faster


def split_web_authority(authority: bytes) -> tuple[bytes | None, bytes, bytes | None]:
    """Like ``split_authority``, but an IPv6 address without brackets gets them.

    >>> split_web_authority(b"::1")
    (None, b'[::1]', None)
    """
    if _COLON not in authority and _AT not in authority:
        return None, authority, None
    if authority.count(b":") > 1 and parse_ipv6(authority) is not None:
        return None, b"[" + authority + b"]", None
    return split_authority(authority)


def rooted(path: bytes) -> bytes:
    """The path with a slash in front.

    Spec: Safe Browsing v4: "The URL must include a path component; that is, it must have at least one slash"
    """
    return path if path[:1] == b"/" else b"/" + path


def split_authority(authority: bytes) -> tuple[bytes | None, bytes, bytes | None]:
    """``(userinfo, host, port)`` (RFC 3986, 3.2).

    >>> split_authority(b"me@[::1]:80"), split_authority(b"h:")
    ((b'me', b'[::1]', b'80'), (None, b'h', b''))
    """
    userinfo: bytes | None
    userinfo, at, host = authority.rpartition(b"@")
    if not at:
        userinfo = None
    if host.startswith(b"[") and b"]" in host:
        end = host.rindex(b"]") + 1
        rest, colon, port = host[end:].partition(b":")
        return userinfo, host[:end] + rest, port if colon else None
    host, colon, port = host.partition(b":")
    return userinfo, host, port if colon else None


# -- profiles ----------------------------------------------------------------------------------------------------

Step = Callable[[Parts], Parts]


class StepChange(NamedTuple):
    """One step that changed something, with the whole text before and after it."""

    step: str
    before: bytes
    after: bytes


class Profile(NamedTuple):
    """Steps that make a URL canonical, each a pure function with the step's name: two profiles differ only as data.

    The methods raise ``UrlError`` if ``split`` refuses the URL, or a step leaves nothing of the host.
    """

    name: str
    #: on the parts, in this order
    steps: tuple[Step, ...]
    split: Callable[[bytes], Parts] = split_generic
    #: steps on the octets before they are split
    prepare: tuple[Callable[[bytes], bytes], ...] = ()

    @property
    def step_names(self) -> tuple[str, ...]:
        """The names of all steps, in the order in which they run."""
        return tuple(step.__name__ for step in (*self.prepare, self.split, *self.steps))

    def parse(self, url: bytes | str) -> Parts:
        """Prepare and split only."""
        octets = to_bytes(url)
        for prepare in self.prepare:
            octets = prepare(octets)
        return self.split(octets)

    def apply(self, parts: Parts) -> Parts:
        """Run the steps."""
        for step in self.steps:
            parts = step(parts)
        return parts

    def canonicalize(self, url: bytes | str) -> bytes:
        """The canonical URL."""
        return self.apply(self.parse(url)).join()

    def trace(self, url: bytes | str) -> Iterator[tuple[str, bytes]]:
        """Every step's name with the whole URL after it."""
        octets = to_bytes(url)
        for prepare in self.prepare:
            octets = prepare(octets)
            yield prepare.__name__, octets
        parts = self.split(octets)
        yield self.split.__name__, parts.join()
        for step in self.steps:
            parts = step(parts)
            yield step.__name__, parts.join()

    def changes(self, url: bytes | str) -> Iterator[StepChange]:
        """The steps that change something."""
        before = to_bytes(url)
        for step, after in self.trace(url):
            if after != before:
                yield StepChange(step, before, after)
            before = after
