"""A helper program for Squid: it reads one line for each request, and answers with one line.

    [channel-ID SP] URL [SP extras] LF  ->  [channel-ID SP] OK|ERR|BH [SP key="value" ...] LF

As an access control list (``external_acl_type``) ``OK`` means: block the request. As a redirector
(``url_rewrite_program``) it says where to send the client instead. ``ERR`` lets the request pass in both.

The decision is the proxy's decision for the same request. A client that is not a browser may send the fragment, too.
The filtered client writes the URL, so no line is trusted: leading digits are echoed unchanged, everything else only as
a quoted value.

Spec: squid.conf of Squid 5, external_acl_type, url_rewrite_program, url_rewrite_extras
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import PurePath
from time import time
from typing import NamedTuple

from hushlist.core.decide.decision import STOPPING, Decision, decide_unread, original_url
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Excess, UrlError, printable
from hushlist.core.match.rule import Action
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.http_head import request_of_target
from hushlist.core.url.normalization import UNRESERVED
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import LONGEST_TARGET, PLAIN_URL, cut

#: most octets of a line; a longer one is not read. Squid's own URLs are much shorter
LONGEST_LINE = 72 * 1024
#: most octets of one read: all lines that have arrived are answered together
CHUNK = 64 * 1024
#: most characters of each value in an answer; servers refuse a much longer Location
MOST_SHOWN = 1000

_PASS = b"ERR"


# -- lines -------------------------------------------------------------------------------------------------------------


def cut_lines(reads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines that each read completes, without their ends; last, the line that has no end.

    A line that is too long is cut off, and remains too long.

    >>> list(cut_lines([b"one", b" line\\nand"]))
    [[], [b'one line'], [b'and']]
    """
    begun = b""
    for octets in reads:
        *lines, begun = (begun + octets).split(b"\n")
        begun = begun[: LONGEST_LINE + 1]
        yield lines
    if begun:
        yield [begun]


def serve(answers: Callable[[list[bytes]], bytes], source: int, sink: int) -> None:
    """Answer the lines of one file descriptor on another, until the lines end or nobody reads the answers."""
    with suppress(ConnectionError):
        for lines in cut_lines(iter(lambda: os.read(source, CHUNK), b"")):
            _write(sink, answers(lines))


def _write(sink: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(sink, octets) :]


# -- questions ---------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    url: bytes
    #: the client's address, and the user's name; empty if the line has none, ``-`` if Squid does not know it
    client: bytes = b""
    user: bytes = b""


def split_channel(line: bytes) -> tuple[bytes, bytes]:
    """A line's channel-ID with its space (empty if there is none), and the rest of the line.

    >>> split_channel(b"7 http://h.example/ -"), split_channel(b"http://h.example/ -")
    ((b'7 ', b'http://h.example/ -'), (b'', b'http://h.example/ -'))

    No URL that Squid sends is a number, so a leading number is a channel-ID.
    """
    if not line[:1].isdigit():
        return b"", line
    number, space, rest = line.partition(b" ")
    if not number.isdigit():
        return b"", line
    # No counter has more digits than this. Without the limit a client could make answers long.
    return (number + space, rest) if space and len(number) <= 20 else (b"", line)


# Spec: url_rewrite_extras, by default "%>a/%>A %un %>rm myip=%la myport=%lp"; a method is a token (RFC 9110, 5.6.2)
_EXTRAS = rb"([0-9A-Fa-f:.-]+)/[^ ]+ ([^ ]+) [!#$%&'*+.^_`|~0-9A-Za-z-]+(?: [A-Za-z_-]+=[^ ]*)*"
_ONLY_EXTRAS = late_pattern(_EXTRAS)
_URL_AND_EXTRAS = late_pattern(rb"(.*) " + _EXTRAS, re.DOTALL)


def read_rewrite(text: bytes) -> Question:
    """The question in a redirector's line without its channel-ID.

    >>> read_rewrite(b"http://h.example/ 192.0.2.7/- jo GET myip=192.0.2.1 myport=3128")
    Question(url=b'http://h.example/', client=b'192.0.2.7', user=b'jo')

    Squid does not escape this URL: with ``uri_whitespace allow``, the client's spaces are still in it. So the extras
    are found from the end. If they are not Squid's usual extras, the URL ends at the first space.
    """
    url, _, extras = text.partition(b" ")
    match = _ONLY_EXTRAS.fullmatch(extras)
    if match is not None:
        return Question(url, match[1], match[2])
    match = _URL_AND_EXTRAS.fullmatch(text)
    return Question(url) if match is None else Question(*match.groups())


# What Squid 5 never writes for "%#>ru": a needless escape, an escape in lower case, or a broken one.
_NOT_ESCAPED = late_pattern(rb"%(?![01][0-9A-F]|2[02357]|3[CE]|5[B-E]|60|7[B-F]|[89A-F][0-9A-F])")
_ESCAPE = late_pattern(rb"%(..)")


def url_of_acl(text: bytes) -> bytes:
    """The URL of an access control list's line, as the client sent it: ``%#>ru`` escapes it, percent signs, too.

    >>> url_of_acl(b"http://h.example/a%252fb%23c -")
    b'http://h.example/a%2fb#c'

    Raises ``UrlError`` if squid.conf asks for another escaping: Squid's escapes cannot be told from the client's.

    Spec: squid.conf, logformat: "# URL quoted output format"
    """
    url = text.partition(b" ")[0]
    if b"%" not in url:
        return url
    if _NOT_ESCAPED.search(url):
        raise UrlError(url, "it is not escaped as by %#>ru, which squid.conf has to say")
    return _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode("ascii")), url)


#: what Squid sends in place of a URL for a tunnel (CONNECT)
_TUNNEL = late_pattern(rb"(?:\[[0-9A-Fa-f:.]+\]|[^\x00-\x20/\\?#@:\[\]]+):([0-9]{1,5})")


def url_to_decide(url: bytes) -> bytes:
    """The URL to decide for a question.

    >>> url_to_decide(b"[::1]:443"), url_to_decide(b"http://h.example/")
    (b'https://[::1]:443/*', b'http://h.example/')

    A tunnel is decided by its host, since its requests are not known. It gets a path that no rule names, and not the
    home page's: a hashed URI of the home page would block, or open, the whole host.
    """
    if b"://" in url:
        return url
    tunnel = _TUNNEL.fullmatch(url)
    if tunnel is None:
        return url
    scheme = b"http" if int(tunnel[1]) == 80 else b"https"  # browsers open WebSockets without TLS this way
    return scheme + b"://" + url + b"/*"


#: a URL as browsers send it: it needs no parsing
_PLAIN = re.compile(rb"https?://([a-z0-9._-]+)(?::[0-9]{1,4})?(?:[/?][^\x00-\x20#\x7f]*+)?")
#: lines whose URL is as given, and whatever stands behind it
_LINES = rb"((?:[0-9]{1,20} )?)(%b)%b\n|[^\n]*\n"


# -- answers -----------------------------------------------------------------------------------------------------------


def quoted(text: str) -> bytes:
    r"""A value as Squid reads it: always exactly one value on one line, whatever the text.

    >>> quoted('say "a\\b"\n')
    b'"say \\"a\\\\b\\" "'

    Spec: "enclosed in double quotes (") and escaped using \ on any double quotes or \ characters within the value"
    """
    octets = printable(_CONTROLS.sub(" ", text[:MOST_SHOWN])).encode()
    return b'"' + octets.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


_CONTROLS = late_pattern(r"[\x00-\x1f\x7f]")


def category_of(decision: Decision) -> str:
    """The category of the rule that decided, or nothing."""
    return "" if decision.winner is None else decision.winner.rule.terms.category or ""


def why_blocked(decision: Decision) -> str:
    """Why the request is blocked, for the person who sent it."""
    if decision.winner is None:
        return f"The address cannot be read: {decision.fault}"
    return decision.winner.rule.terms.reason or "A rule of the filter blocks it"


def place_of(decision: Decision) -> str:
    """The list that decided, and the rule's place in it."""
    if decision.winner is None:
        return ""
    rule = decision.winner.rule
    return f"{rule.terms.label} ({rule.place})"


def notes_of(decision: Decision) -> bytes:
    """The category and the reason, for Squid's log and for other rules of squid.conf."""
    category = category_of(decision)
    return (b" tag=" + quoted(category) if category else b"") + b" log=" + quoted(str(decision))


class AccessList:
    """``external_acl_type``: ``OK`` says that the request is to be blocked."""

    #: On an answer that reports a failure, Squid refuses the request.
    failed = b"BH message=" + quoted("the filter failed")

    url_of = staticmethod(url_of_acl)
    #: of each line: its channel-ID with the space, URL and host; all empty if the URL needs unescaping, or is not plain
    plain_lines = late_pattern(_LINES % (_PLAIN.pattern.replace(b"#", b"#%"), rb"(?: [^\n]*)?"))

    def block(self, _text: bytes, _url: bytes, decision: Decision) -> bytes:
        """The answer to a blocked request; ``%o`` in Squid's error pages shows the message."""
        place = place_of(decision)
        message = why_blocked(decision) + (place and f" - {place}")
        return b"OK message=" + quoted(message)

    def block_host(self, decision: Decision) -> tuple[bytes, ...]:
        """The answer to every plain URL of a blocked host."""
        return (self.block(b"", b"", decision),)


#: placeholders for facts about the request, in a redirect's URL
PLACEHOLDERS = {
    "%u": "the address asked for",
    "%o": "the same as it was sent, with its port",
    "%a": "the client's address",
    "%i": "the user's name",
    "%t": "the category",
    "%r": "the reason",
    "%l": "the list, its file and the line",
    "%%": "a percent sign",
}
_PLACEHOLDER = late_pattern("(%.?)")
#: visible ASCII without characters that a URL has to escape, and no placeholder in the host
_REDIRECT = late_pattern(r"(?=[!#-;=?-\[\]-~]+\Z)https?://[^/?#%]+(?:[/?#].*)?")


class Redirector:
    """``url_rewrite_program``: sends the client of a blocked request to a URL that says why.

    Raises ``ValueError`` if a browser cannot open the URL, or a placeholder is unknown.
    """

    #: the URL and host of each line, and its channel-ID; all empty if the URL is not plain, or has spaces behind it
    plain_lines = late_pattern(_LINES % (_PLAIN.pattern, rb"(?: " + _EXTRAS.replace(b"([", b"(?:[") + rb")?"))

    def __init__(self, url: str) -> None:
        if not _REDIRECT.fullmatch(url):
            raise ValueError(f"{url!r}: expected http:// or https://, a host, and what a URL may have behind it")
        for placeholder in _PLACEHOLDER.findall(url):
            if placeholder not in PLACEHOLDERS:
                raise ValueError(f"{url!r}: {placeholder} is none of {', '.join(PLACEHOLDERS)}")
        #: the URL up to its first placeholder: the same for all requests
        self.base = url.partition("%")[0].encode("ascii")
        #: the URL as text, placeholder, text, ...
        self._template = _PLACEHOLDER.split(url)
        #: Squid lets a request pass if a redirector reports that it is broken; so this one never does.
        self.failed = self._answer({"%r": b"The filter failed"}.get)

    @staticmethod
    def url_of(text: bytes) -> bytes:
        """The URL of a line without its channel-ID."""
        return read_rewrite(text).url

    def block(self, text: bytes, url: bytes, decision: Decision) -> bytes:
        """The answer to a line whose URL is blocked."""
        return self._answer(lambda name: _VALUES[name](text, url, decision))

    def block_host(self, decision: Decision) -> tuple[bytes, ...] | None:
        """The answer to every plain URL of a blocked host, cut where the escaped URL belongs.

        ``None`` if the answer has anything else of the line, or the URL twice.
        """
        names = self._template[1::2]
        if names.count("%u") > 1 or not {"%u", "%t", "%r", "%l", "%%"}.issuperset(names):
            return None
        values = {name: escaped(_VALUES[name](b"", b"", decision)) for name in {*names} - {"%u", "%%"}}
        return tuple(self._filled({"%u": _PLACE, **values}.get).split(_PLACE))

    def _answer(self, value: Callable[[str], bytes | None]) -> bytes:
        return self._filled(lambda name: escaped(value(name) or b""))

    def _filled(self, value: Callable[[str], bytes | None]) -> bytes:
        """Always quoted: Squid decodes escapes in an unquoted value, line ends among them."""
        pieces = [piece.encode("ascii") for piece in self._template]
        pieces[1::2] = [b"%" if name == "%%" else value(name) or b"" for name in self._template[1::2]]
        return b'OK status=302 url="%b"' % b"".join(pieces)


#: placeholder -> its value, from the line's text, its URL, and the decision
_VALUES: dict[str, Callable[[bytes, bytes, Decision], bytes]] = {
    "%u": lambda _text, url, decision: shown_url(url, decision),
    "%o": lambda _text, url, decision: sent_url(url, decision),
    "%a": lambda text, *_: read_rewrite(text).client,
    "%i": lambda text, *_: read_rewrite(text).user,
    "%t": lambda _text, _url, decision: to_bytes(category_of(decision)),
    "%r": lambda _text, _url, decision: to_bytes(why_blocked(decision)),
    "%l": lambda _text, _url, decision: to_bytes(place_of(decision)),
}
_ESCAPES = {octet: (bytes((octet,)), b"%%%02X" % octet) for octet in range(256)}
_PERCENT = ord("%")
#: where an escaped URL belongs; no answer has this octet
_PLACE = b"\0"


def escaped(value: bytes) -> bytes:
    """A value with all but unreserved octets escaped. Cached by octet: a URL has many escapes of few octets."""
    value = value[:MOST_SHOWN]
    octets = set(value.translate(None, UNRESERVED))
    if _PERCENT in octets:
        octets.remove(_PERCENT)
        value = value.replace(b"%", b"%25")
    for octet in octets:
        value = value.replace(*_ESCAPES[octet])
    return value


def shown_url(url: bytes, decision: Decision) -> bytes:
    """The URL to show to a person, without user information; unchanged if it is plain.

    An unreadable URL may have user information anywhere, so everything before its last "@" is left out.
    """
    if PLAIN_URL.match(url):
        return url  # there is no user information in it
    if _TUNNEL.fullmatch(url):
        return _USER.sub(b"", url)
    return decision.url if decision.fault is None else _USER.sub(b"", decision.url)


def sent_url(url: bytes, decision: Decision) -> bytes:
    """The URL as the client sent it, without user information; where that is not certain, as ``shown_url``."""
    with suppress(UrlError):
        original = original_url(decision, request_of_target(url_to_decide(url)))
        if original is not None and not _TUNNEL.fullmatch(url):
            return original
    return shown_url(url, decision)


_USER = late_pattern(rb"\A.*(?:@|%(?:25)*40)", re.DOTALL)


#: texts of lines whose answers are cached, and the most octets of one
MOST_TEXTS, _LONGEST_CACHED = 1 << 13, 1 << 10
_DAY = 86400
#: hosts whose answers are cached
MOST_ANSWERED = 1 << 15
#: what an answer is made of: all of it, or what stands before and behind the escaped URL; ``None``: the engine decides
_HostAnswer = tuple[bytes, ...] | None


class SquidHelper:
    """Answers lines with an engine's decisions."""

    def __init__(self, engine: Engine, speech: AccessList | Redirector, complain: Callable[[str], object]) -> None:
        """``complain`` receives a line for the operator when the filter fails."""
        self._engine = engine
        self._too_long = decide_unread(engine.policy.unparsable, b"", Excess("it is too long"))
        self._speech = speech
        self._complain = complain
        #: cached answers to all plain URLs of a host
        self._hosts: BoundedCache[bytes, _HostAnswer] = BoundedCache(self._answer_of_host, MOST_ANSWERED)
        #: cached answers to texts of lines, of one day in UTC: by then a rule may expire
        self._texts: dict[bytes, bytes] = {}
        self._day = 0

    def answers(self, lines: list[bytes]) -> bytes:
        """The answers to lines without their ends, each with its end. Never raises.

        Most lines ask for a plain URL of a host on which rules for whole hosts alone decide. They are recognized all
        at once, and answered from the cache.
        """
        if not lines:
            return b""
        today = int(time() // _DAY)
        if today != self._day or len(self._texts) >= MOST_TEXTS:
            self._day = today
            self._texts.clear()
        hosts, answers = self._hosts, []
        is_short = max(map(len, lines)) <= LONGEST_TARGET
        fields = self._speech.plain_lines.findall(b"\n".join(lines) + b"\n") if is_short else repeat((b"", b"", b""))
        for line, (channel, url, host) in zip(lines, fields, strict=is_short):
            parts = hosts[host]
            if parts is None:
                answers.append(self._answer_again(line))
            else:
                answers.append(channel + (parts[0] if len(parts) == 1 else parts[0] + escaped(url) + parts[1]))
        return b"".join([answer + b"\n" for answer in answers])

    def _answer_again(self, line: bytes) -> bytes:
        """The answer to a line, from the cache if its text was answered today, and nothing else can change it."""
        channel, text = split_channel(line)
        if not self._engine.is_timeless or len(text) > _LONGEST_CACHED or text[:1].isdigit():
            return self.answer(line)
        answer = self._texts.get(text) or self.answer(text)
        if answer != self._speech.failed:
            self._texts[text] = answer
        return channel + answer

    def _answer_of_host(self, host: bytes) -> _HostAnswer:
        try:
            decision = self._engine.decide_plain(host) if host else None
            if decision is None or decision.action not in STOPPING:
                return None if decision is None else (self._act(b"", b"", decision),)
            answer = self._speech.block_host(decision)
            return answer and (*answer[:-1], answer[-1] + notes_of(decision))
        except Exception:  # it is reported when the line is answered
            return None

    def answer(self, line: bytes) -> bytes:
        """The answer to one line, both without line ends. Never raises."""
        channel, text = split_channel(line)
        try:
            if len(line) > LONGEST_LINE:
                return channel + self._act(b"", b"", self._too_long)
            try:
                url = self._speech.url_of(text)
                decision = self._decide(url)
            except UrlError as error:
                url = text.partition(b" ")[0]
                decision = decide_unread(self._engine.policy.unparsable, cut(url), error.reason)
            return channel + self._act(text, url, decision)
        except Exception as error:  # a missing answer would shift or stop all later ones
            self._complain(f"failed at a request: {_failure(error)}")
            return channel + self._speech.failed

    def _decide(self, url: bytes) -> Decision:
        """The decision of the proxy for the same request; ``UrlError`` if it names no host, or its port is none."""
        if _PLAIN.fullmatch(url):
            return self._engine.decide_url(url)
        request = request_of_target(url_to_decide(url))
        return self._engine.decide_host(request) if _TUNNEL.fullmatch(url) else self._engine.decide(request)

    def _act(self, text: bytes, url: bytes, decision: Decision) -> bytes:
        if decision.action in STOPPING:  # an answer to Squid cannot offer a page to click through
            return self._speech.block(text, url, decision) + notes_of(decision)
        return _PASS + notes_of(decision) if decision.action is Action.TAG else _PASS


def _failure(error: Exception) -> str:
    """What failed, and where. The error's own words are left out: they may quote the request."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}{where}"
