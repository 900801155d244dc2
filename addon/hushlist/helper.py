"""A helper of Squid: it asks one line a request, and gets one line each.

    [channel-ID SP] URL [SP extras] LF  ->  [channel-ID SP] OK|ERR|BH [SP key="value" ...] LF

As an access control list (``external_acl_type``) ``OK`` says that the request is to be blocked; as a redirector
(``url_rewrite_program``) it says where to send the client instead. ``ERR`` lets the request pass in both.

Whoever is filtered writes the URL, so nothing of a line is trusted: of what came with it, only digits in front are
echoed as they are, and everything else only as a quoted value.

Spec: squid.conf of Squid 5, external_acl_type, url_rewrite_program, url_rewrite_extras
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from hushlist.engine import Engine
from hushlist.match.rule import Action
from hushlist.policy.decision import STOPPING, Decision
from hushlist.url.parts import to_bytes
from hushlist.url.percent import UNRESERVED
from hushlist.url.request import PLAIN_URL

#: octets of a line; one that is longer cannot be read. Squid's own URLs are much shorter
LONGEST_LINE = 72 * 1024
#: octets to read at once: every line that is there by then is answered in one go
CHUNK = 64 * 1024
#: characters of anything that an answer shows; a Location that is much longer is refused by servers
MOST_SHOWN = 1000

_PASS = b"ERR"


# -- lines -------------------------------------------------------------------------------------------------------------


class Lines:
    """Cuts octets into lines, in whatever pieces they come; a line that is too long loses its end, but stays too long.

    >>> lines = Lines()
    >>> lines.feed(b"one"), lines.feed(b" line\\nand"), lines.end()
    ([], [b'one line'], [b'and'])
    """

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, octets: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends."""
        *lines, rest = octets.split(b"\n")
        if lines:
            lines[0] = self._begun + lines[0]
            self._begun = rest
        else:
            self._begun += rest
        self._begun = self._begun[: LONGEST_LINE + 1]
        return lines

    def end(self) -> list[bytes]:
        """What is left where no more octets come: a line without its end, or none."""
        begun, self._begun = self._begun, b""
        return [begun] if begun else []


def serve(answer: Callable[[bytes], bytes], source: int, sink: int) -> None:
    """Answer the lines of one file descriptor on another until they end, or until nobody reads the answers."""
    lines = Lines()
    try:
        while octets := os.read(source, CHUNK):
            _write(sink, _answers(answer, lines.feed(octets)))
        _write(sink, _answers(answer, lines.end()))
    except ConnectionError:
        return


def _answers(answer: Callable[[bytes], bytes], lines: list[bytes]) -> bytes:
    return b"".join([answer(line) + b"\n" for line in lines])


def _write(sink: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(sink, octets) :]


# -- what a line asks --------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """What a line asks about, as it stands in it."""

    url: bytes
    #: the client's address, and the user's name; empty where the line does not tell them, ``-`` where Squid cannot
    client: bytes = b""
    user: bytes = b""


def split_channel(line: bytes) -> tuple[bytes, bytes]:
    """A line's channel-ID with the space behind it, empty where it has none, and the rest.

    >>> split_channel(b"7 http://h.example/ -"), split_channel(b"http://h.example/ -")
    ((b'7 ', b'http://h.example/ -'), (b'', b'http://h.example/ -'))

    No URL of Squid's is a number, so the line itself tells whether it has one.
    """
    if not line[:1].isdigit():
        return b"", line
    number, space, rest = line.partition(b" ")
    if not number.isdigit():
        return b"", line
    # No counter has more digits than this, and an answer is not to be as long as somebody likes.
    return (number + space, rest) if space and len(number) <= 20 else (b"", line)


# Spec: url_rewrite_extras, by default "%>a/%>A %un %>rm myip=%la myport=%lp"; a method is a token (RFC 9110, 5.6.2)
_EXTRAS = rb"([0-9A-Fa-f:.-]+)/[^ ]+ ([^ ]+) [!#$%&'*+.^_`|~0-9A-Za-z-]+(?: [A-Za-z_-]+=[^ ]*)*"
_ONLY_EXTRAS = re.compile(_EXTRAS)
_URL_AND_EXTRAS = re.compile(rb"(.*) " + _EXTRAS, re.DOTALL)


def read_rewrite(text: bytes) -> Question:
    """The question of a redirector's line, its channel-ID left out.

    >>> read_rewrite(b"http://h.example/ 192.0.2.7/- jo GET myip=192.0.2.1 myport=3128")
    Question(url=b'http://h.example/', client=b'192.0.2.7', user=b'jo')

    Squid does not escape this URL: where ``uri_whitespace`` is ``allow``, it has the spaces that the client put there.
    So the extras are looked for from the end; where they are none of Squid's usual ones, the URL ends at a space.
    """
    url, _, extras = text.partition(b" ")
    found = _ONLY_EXTRAS.fullmatch(extras)
    if found is not None:
        return Question(url, found[1], found[2])
    found = _URL_AND_EXTRAS.fullmatch(text)
    return Question(url) if found is None else Question(*found.groups())


def url_of_rewrite(text: bytes) -> bytes:
    """The URL that ``read_rewrite`` reads, at less cost: most lines have the same few extras, and need no more."""
    url, space, extras = text.partition(b" ")
    return url if not space or (len(extras) < 256 and _are_extras(extras)) else read_rewrite(text).url


@lru_cache(maxsize=1024)
def _are_extras(extras: bytes) -> bool:
    return _ONLY_EXTRAS.fullmatch(extras) is not None


def url_of_acl(text: bytes) -> bytes:
    """The URL of an access control list's line: "Request values sent to the helper are URL escaped"."""
    return text.partition(b" ")[0]


#: what Squid asks of a tunnel (CONNECT) in place of a URL
_TUNNEL = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[^\x00-\x20/\\?#@:\[\]]+):([0-9]{1,5})")
#: an IPv6 address as Squid escapes it for an access control list
_ESCAPED_ADDRESS = re.compile(rb"\A((?:[A-Za-z][A-Za-z0-9+.-]*://)?)%5B([0-9A-Fa-f:.]+)%5D")


def url_to_decide(url: bytes) -> bytes:
    """The URL that a question is about.

    >>> url_to_decide(b"%5B::1%5D:443"), url_to_decide(b"http://h.example/")
    (b'https://[::1]:443/*', b'http://h.example/')

    A tunnel is decided by its host: nobody knows what will be asked in it. Its path is one that no rule names, not the
    home page's: a hashed URI of that would block, or open, the whole host.
    """
    if b"%5B" in url:
        url = _ESCAPED_ADDRESS.sub(rb"\1[\2]", url)
    if b"://" in url:
        return url
    tunnel = _TUNNEL.fullmatch(url)
    if tunnel is None:
        return url
    scheme = b"http" if int(tunnel[1]) == 80 else b"https"  # browsers ask for WebSockets without TLS this way
    return scheme + b"://" + url + b"/*"


# -- answers -----------------------------------------------------------------------------------------------------------


def quoted(text: str) -> bytes:
    r"""A value as Squid reads it: never more than the one value of one line, whatever the text.

    >>> quoted('say "a\\b"\n')
    b'"say \\"a\\\\b\\" "'

    Spec: "enclosed in double quotes (") and escaped using \ on any double quotes or \ characters within the value"
    """
    octets = _CONTROLS.sub(b" ", text[:MOST_SHOWN].encode("utf-8", "backslashreplace"))
    return b'"' + octets.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")


def category_of(decision: Decision) -> str:
    """The category by which it was decided, or nothing."""
    return "" if decision.winner is None else decision.winner.rule.terms.category or ""


def reason_of(decision: Decision) -> str:
    """Why, for the person who is blocked."""
    if decision.winner is None:
        return f"The address cannot be read: {decision.fault}"
    return decision.winner.rule.terms.reason or "A rule of the filter blocks it"


def place_of(decision: Decision) -> str:
    """The list that decided, and where in it."""
    if decision.winner is None:
        return ""
    rule = decision.winner.rule
    return f"{rule.terms.label} ({rule.place})"


def notes_of(decision: Decision) -> bytes:
    """What Squid can log, and other rules of squid.conf can go by: the category, and why."""
    category = category_of(decision)
    return (b" tag=" + quoted(category) if category else b"") + b" log=" + quoted(str(decision))


class AccessList:
    """``external_acl_type``: ``OK`` says that the request is in the list of those to be blocked."""

    #: Squid refuses what an access control list cannot tell.
    failed = b"BH message=" + quoted("the filter failed")

    url_of = staticmethod(url_of_acl)

    def block(self, _text: bytes, _url: bytes, decision: Decision) -> bytes:
        """The answer to a request that is to be blocked; ``%o`` in Squid's error pages shows the message."""
        place = place_of(decision)
        message = reason_of(decision) + (place and f" - {place}")
        return b"OK message=" + quoted(message)


#: what stands in a redirect's URL for a fact about the request
PLACEHOLDERS = {
    "%u": "the address asked for",
    "%a": "the client's address",
    "%i": "the user's name",
    "%t": "the category",
    "%r": "the reason",
    "%l": "the list, its file and the line",
    "%%": "a percent sign",
}
_PLACEHOLDER = re.compile("(%.?)")
#: visible ASCII without what a URL has to escape; no placeholder in the host
_REDIRECT = re.compile(r"(?=[!#-;=?-\[\]-~]+\Z)https?://[^/?#%]+(?:[/?#].*)?")


class Redirector:
    """``url_rewrite_program``: sends a client whose request is to be blocked to a URL that says why.

    Raises:
        ValueError: the URL is none to send a browser to, or has a placeholder that is none.
    """

    url_of = staticmethod(url_of_rewrite)

    def __init__(self, url: str) -> None:
        if not _REDIRECT.fullmatch(url):
            raise ValueError(f"{url!r}: expected http:// or https://, a host, and what a URL may have behind it")
        for placeholder in _PLACEHOLDER.findall(url):
            if placeholder not in PLACEHOLDERS:
                raise ValueError(f"{url!r}: {placeholder} is none of {', '.join(PLACEHOLDERS)}")
        self._url = url
        #: the URL up to its first placeholder, which is the same for all requests
        self.base = url.partition("%")[0].encode("ascii")
        #: what stands in it, by turns: text, a placeholder, text
        self._template = _PLACEHOLDER.split(url)
        #: Squid lets a request pass where a redirector says that it is broken; so this one never says so.
        self.failed = self._answer({"%r": b"The filter failed"}.get)

    def block(self, text: bytes, url: bytes, decision: Decision) -> bytes:
        """The answer to a line about a URL that is to be blocked."""
        return self._answer(lambda name: _VALUES[name](text, url, decision))

    def _answer(self, value: Callable[[str], bytes | None]) -> bytes:
        """Quoted: of a value that is not, Squid decodes the escapes, line ends among them."""
        pieces = self._template.copy()
        pieces[1::2] = ["%" if name == "%%" else _escaped(value(name) or b"") for name in pieces[1::2]]
        return f'OK status=302 url="{"".join(pieces)}"'.encode("ascii")


#: placeholder -> its value, by the line's text, the URL in it, and the decision
_VALUES: dict[str, Callable[[bytes, bytes, Decision], bytes]] = {
    "%u": lambda _text, url, decision: shown_url(url, decision),
    "%a": lambda text, *_: read_rewrite(text).client,
    "%i": lambda text, *_: read_rewrite(text).user,
    "%t": lambda _text, _url, decision: to_bytes(category_of(decision)),
    "%r": lambda _text, _url, decision: to_bytes(reason_of(decision)),
    "%l": lambda _text, _url, decision: to_bytes(place_of(decision)),
}
_ESCAPES = {octet: (bytes((octet,)), b"%%%02X" % octet) for octet in range(256)}
_PERCENT = ord("%")


def _escaped(value: bytes) -> str:
    """A value with all but unreserved octets escaped; a URL has many escapes, but of few octets."""
    value = value[:MOST_SHOWN]
    octets = set(value.translate(None, UNRESERVED))
    for octet in (_PERCENT, *octets - {_PERCENT}) if _PERCENT in octets else octets:
        value = value.replace(*_ESCAPES[octet])
    return value.decode("ascii")


def shown_url(asked: bytes, decision: Decision) -> bytes:
    """What a person is told that was asked for, as it was asked where that is plain, without user information.

    What cannot be read may have that anywhere, so all of it in front of the last "@" is left out.
    """
    if PLAIN_URL.match(asked):
        return asked  # no user can stand in it
    if _TUNNEL.fullmatch(asked):
        return _USER.sub(b"", asked)
    return decision.url if decision.fault is None else _USER.sub(b"", decision.url)


_USER = re.compile(rb"\A.*(?:@|%(?:25)*40)", re.DOTALL)


class Helper:
    """Answers lines by an engine."""

    def __init__(self, engine: Engine, speech: AccessList | Redirector, complain: Callable[[str], object]) -> None:
        """``complain`` is given a line for whoever looks after the filter when it fails."""
        self._decide_url = engine.decide_url
        self._too_long = Decision(engine.policy.unparsable, b"", fault="it is too long")
        self._speech = speech
        self._url_of = speech.url_of
        self._complain = complain
        #: what usually stands behind a URL: it tells that the URL ends at the first space
        self._usual: set[bytes] = set()
        #: what is told of a match besides the answer
        self._notes: dict[tuple[str, int, bytes], bytes] = {}

    def answer(self, line: bytes) -> bytes:
        """The answer to one line, both without their ends. Never raises."""
        url, _, rest = line.partition(b" ")
        if rest not in self._usual or b"://" not in url or b"%5B" in url or len(line) > LONGEST_LINE:
            return self._answer(line)
        try:
            decision = self._decide_url(url)
            return _PASS if decision.action is Action.PASS else self._act(line, url, decision)
        except Exception as error:
            return self._fail(error)

    def _answer(self, line: bytes) -> bytes:
        """The same for a line whatever it looks like; takes note of what usually stands behind a URL."""
        channel, text = split_channel(line)
        try:
            if len(line) > LONGEST_LINE:
                return channel + self._act(b"", b"", self._too_long)
            url = self._url_of(text)
            decision = self._decide_url(url_to_decide(url))
            # Where the URL ends is told by what stands behind its first space, whatever the URL.
            asked, _, rest = text.partition(b" ")
            if not channel and url == asked and len(rest) < _LONGEST_USUAL and len(self._usual) < _MOST_USUAL:
                self._usual.add(rest)
            return channel + (_PASS if decision.action is Action.PASS else self._act(text, url, decision))
        except Exception as error:
            return channel + self._fail(error)

    def _fail(self, error: Exception) -> bytes:
        """Whatever it is: a line without an answer would shift or stop all that follow."""
        self._complain(f"failed at a request: {_failure(error)}")
        return self._speech.failed

    def _act(self, text: bytes, url: bytes, decision: Decision) -> bytes:
        if decision.action in STOPPING:  # nobody can click on in an answer to Squid
            return self._speech.block(text, url, decision) + self._notes_of(decision)
        return _PASS + self._notes_of(decision) if decision.action is Action.TAG else _PASS

    def _notes_of(self, decision: Decision) -> bytes:
        if decision.winner is None:
            return notes_of(decision)
        (_, terms, line), expression, *_ = decision.winner
        key = (terms.source, line, expression)
        notes = self._notes.get(key)
        if notes is None:
            if len(self._notes) >= _MOST_NOTES:
                self._notes.clear()
            notes = self._notes[key] = notes_of(decision)
        return notes


_MOST_NOTES = 1 << 13
_MOST_USUAL = 1 << 10
_LONGEST_USUAL = 256


def _failure(error: Exception) -> str:
    """What failed, and where; not the error's own words, which may have anything of the request in them."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}{where}"
