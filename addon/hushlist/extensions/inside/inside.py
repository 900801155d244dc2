"""Which addresses a request carries, and by which other names what it asks for goes, as a policy has it.

The table is ``addresses.tsv``; a policy adds rows of its own.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hushlist.core.decide.readings import HostReader, Inner
from hushlist.core.errors import UrlError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.match.rule import Terms
from hushlist.core.policy.key_types import TEXT, any_text, choice, list_of, names_of, of_node, schema_of_rows
from hushlist.core.policy.keys import Key
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.normalization import percent_decode_repeatedly, unescape_once
from hushlist.core.url.parts import Parts
from hushlist.core.url.request import Request, request_of
from hushlist.extensions.inside.forms import Form, FormError, filled, hosts_of

TABLE, ANY, OFF, ALLOW = "table", "any", "off", "allow"
MODE, MODE_OF_RULES = choice((TABLE, ANY, OFF)), choice((TABLE, ANY, OFF, ALLOW))
#: of a service: it shows what is at the address; it sends the client there; it goes by another name
_SHOWS, _LEADS, _SAME = "shows", "leads", "same"


class Row(NamedTuple):
    """A form of a service's URLs, and what it is."""

    form: Form
    kind: str
    #: other names of the same thing, with the form's placeholders
    names: tuple[str, ...] = ()
    #: where it is described
    source: str = ""


_TABLE_FILE = Path(__file__).with_name("addresses.tsv")


@cache
def shipped_rows() -> tuple[Row, ...]:
    """The rows of the table: kind, form, names and source, with tabs between them; ``"`` repeats the source above."""
    rows, source = list[Row](), ""
    for line in _TABLE_FILE.read_text(encoding="utf-8").splitlines():  # importing importlib.resources takes longer
        if line and not line.startswith("#"):
            kind, form, names, cell = line.split("\t")
            source = source if cell == '"' else cell
            rows.append(Row(Form(form), kind, tuple(names.split()), source))
    return tuple(rows)


# -- rows of the policy ------------------------------------------------------------------------------------------------

_ROW_KEYS = (
    Key("form", any_text, is_required=True).says("the form of its URLs, such as `proxy.example/go?to={url}`"),
    Key("same", any_text).says("""the name of what they ask for, such as `video.example/{id}`; without it, the form has
        an address in it"""),
    Key("source", any_text).says("where that is described"),
)


def read_row(node: YamlNode, report: ProblemReport) -> Row | None:
    """A row of the policy; errors are in the report."""
    fields = MappingReader(node.short_for("form"), names_of(_ROW_KEYS), report)
    fields.require("form", "carriers")
    text, same = fields.text("form"), fields.text("same")
    if text is None:
        return None
    try:
        form = Form(text)
        form.check(same)
    except FormError as error:
        fields.error("form", str(error), text)
        return None
    if same:
        host, slash, rest = same.partition("/")
        same = host.lower() + slash + rest
    return Row(form, _SHOWS if same is None else _SAME, (same,) if same else (), fields.text("source") or "")


CARRIERS = of_node(
    lambda node, reading: tuple(
        row
        for item in MappingReader(YamlNode(node.line, {"carriers": node}), ("carriers",), reading.report).items(
            "carriers"
        )
        if (row := read_row(item, reading.report)) is not None
    ),
    lambda: list_of({"anyOf": [TEXT, schema_of_rows(_ROW_KEYS)]}),
    _ROW_KEYS,
)


#: how an address is found -> whether a rule says anything of it
_Counts = dict[str, Callable[[Terms], bool] | None]

# -- what a policy reads -----------------------------------------------------------------------------------------------


class _Modes:
    """Which rules say anything of addresses inside a request."""

    def __init__(self, policy: Policy) -> None:
        self._everywhere: str = policy.of("inside")
        self._layers = {layer.name: mode for layer in policy.layers if (mode := layer.values.get("inside")) is not None}
        self._lists = {
            (layer.name, file.source): mode
            for layer in policy.layers
            for file in layer.lists
            if (mode := file.values.get("inside")) is not None
        }
        self.all: set[str] = {self._everywhere, *self._layers.values(), *self._lists.values()}

    def of(self, terms: Terms) -> str:
        """That of the list of a rule with these terms, of its layer, or of the policy."""
        return self._lists.get((terms.layer, terms.source)) or self._layers.get(terms.layer) or self._everywhere

    def says_of_table(self, terms: Terms) -> bool:
        """Whether a rule says anything of an address that the table tells."""
        return self.of(terms) != OFF

    def says_of_any(self, terms: Terms) -> bool:
        """Whether a rule says anything of an address that only looks like one."""
        return self.of(terms) == ANY


class InnerAddresses:
    """What the table reads in requests, and for which rules, by one policy."""

    #: any
    hosts_of_names = None

    def __init__(self, policy: Policy) -> None:
        self._modes = modes = _Modes(policy)
        self._has_any = ANY in modes.all
        rows = [row for row in (*shipped_rows(), *policy.of("carriers")) if row.kind == _SAME or modes.all != {OFF}]
        self._rows = {row.form: row for row in rows}
        self._by_domain, self._by_label = hosts_of(list(self._rows))
        #: labels of which each host of a row has one
        self._labels = {*self._by_label, *(domain.partition(b".")[0] for domain in self._by_domain)}
        self._counts: _Counts = {
            TABLE: None if OFF not in modes.all else modes.says_of_table,
            ANY: None if modes.all == {ANY} else modes.says_of_any,
        }
        self.needs_all = "any address in a request counts (inside: any)" if self._has_any else None

    def of_host(self, host: bytes) -> HostReader | None:
        """What reads the requests to a canonical host."""
        labels = host.split(b".")
        if self._labels.isdisjoint(labels) and not self._has_any:  # as for most hosts
            return None
        forms = [*self._by_domain.get(b".".join(labels[-2:]), ())]
        forms += (form for label in dict.fromkeys(labels) for form in self._by_label.get(label, ()))
        rows = [self._rows[form] for form in forms if form.fits_host(host)]
        if not rows and not self._has_any:
            return None
        return _Reader(host, rows, self._counts, self._modes, has_any=self._has_any)


class _Reader(HostReader):
    """Reads the requests to one host."""

    via = "another name of it"

    def __init__(
        self,
        host: bytes,
        rows: Sequence[Row],
        counts: _Counts,
        modes: _Modes,
        *,
        has_any: bool,
    ) -> None:
        self._host, self._counts, self._modes, self._has_any = host, counts, modes, has_any
        self._carriers = [row.form for row in rows if row.kind != _SAME]
        self._same = [row for row in rows if row.kind == _SAME]
        self.has_inner = bool(self._carriers) or has_any
        starts: dict[bool, set[bytes]] = {False: set(), True: set()}
        for form in (row.form for row in rows):
            if form.is_by_host:  # whatever the target is
                starts[False].add(b"")
            else:
                starts[form.needs_query].add(form.start)
        #: what the paths of its forms begin with, in lower case: of those without a query, and of those with one
        self._starts, self._starts_before_queries = tuple(starts[False]), tuple(starts[True])
        names = [
            filled(name.partition("/")[0], groups)
            for row in self._same
            for groups in row.form.host_groups(host)
            for name in row.names
        ]
        self.hosts_of_names: Sequence[bytes] | None = None if None in names else tuple({*filter(None, names)})
        self.why_decrypt = ""
        if any(row.kind == _SHOWS for row in rows):
            self.why_decrypt = "addresses may stand inside requests to"
        elif not self.has_inner:
            self.why_decrypt = "rules for other names of a page may be of"

    def concerns(self, path: bytes, query: bytes | None) -> bool:
        """Whether there may be an address or a name in a target."""
        path = path.lower()
        if path.startswith(self._starts):
            return True
        return query is not None and (self._has_any or path.startswith(self._starts_before_queries))

    def inner(self, request: Request, forms: Sequence[Parts]) -> Iterator[Inner]:
        """The addresses inside a request, each once."""
        seen: set[tuple[tuple[bytes, ...], int, bytes]] = set()
        for mode, address in self._addresses(request, forms):
            key = (address.hosts, address.port, address.target)
            if key not in seen:
                seen.add(key)
                address.method, address.fields, address.context = request.method, request.fields, request.context
                yield Inner(address, self._counts[mode])

    def _addresses(self, request: Request, forms: Sequence[Parts]) -> Iterator[tuple[str, Request]]:
        targets, seen = _targets(request, forms), set[tuple[str, bytes]]()
        for form in self._carriers:
            if form.is_by_host:
                yield from (
                    (TABLE, address) for address in _by_label(form, self._host, request.target if forms else None)
                )
                continue
            for place in form.values(self._host, targets) if forms else ():
                if place not in seen:
                    seen.add(place)
                    yield from ((TABLE, address) for address in _decoded_as(*place))
        if self._has_any:
            for name, text in dict.fromkeys(_whole(targets)):
                yield from ((ANY, address) for address in _decoded_as(name, text))

    def names(self, form: Parts, target: bytes = b"") -> Iterator[Parts]:
        """Other canonical URLs of what one form of the target asks for."""
        target = form.path if form.query is None else form.path + b"?" + form.query
        for row in self._same:
            for groups in row.form.groups(self._host, [target]):
                for name in row.names:
                    url = filled(name, groups)
                    host, _, rest = (b"", b"", b"") if url is None else url.partition(b"/")
                    path, mark, query = rest.partition(b"?")
                    if host and host != b".":
                        yield form._replace(host=host, path=b"/" + path, query=query if mark else None)

    def spares(self, terms: Terms) -> bool:
        """Whether a rule with these terms allows what is inside as well."""
        return self._modes.of(terms) == ALLOW


def _targets(request: Request, forms: Sequence[Parts]) -> list[bytes]:
    """The target as it was sent, and its other paths and queries as servers may read them, each with the other as sent.

    A canonical query is another one only where an escape of its beginning was in the path.
    """
    _, mark, query = request.target.partition(b"?")
    targets = {request.target: None}
    standard = forms[0].query if forms else None
    for form in forms:
        rest = mark + query if form.query == standard else b"" if form.query is None else b"?" + form.query
        targets[form.path + rest] = None
    return list(targets)


# -- what is an address ------------------------------------------------------------------------------------------------

#: what people write before an address: a browser's way to show the source of a page
#: and "ssl", as weserv has it
_BEFORE = re.compile(rb"(?:(?:view-source|url|feed|cache|ssl):)+(?=[^/0-9])", re.IGNORECASE)
_WEB = re.compile(rb"(https?|wss?|ftp|(?=://)):?[/\\]+", re.IGNORECASE)
_BARE_WEB = re.compile(rb"https?:", re.IGNORECASE)
#: a host without a scheme, with a port or not; it has several labels, or is an address; with a user, it is a mailbox
_BARE_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]++\]|[^/\\?#\s:@]++)(?::[0-9]*+)?(?=[/\\?#%]|\Z)")
_SEVERAL_LABELS = re.compile(rb"[.:\x80-\xff]")
#: behind a slash, the name of a file of the same site
_FILE = re.compile(rb"\.(?:aspx?|cgi|css|gif|html?|jpe?g|js|json|jsp|pdf|php|png|svg|txt|xml)\Z", re.IGNORECASE)
#: of Google's translation: the beginning of a long name
_NAME_BEFORE = re.compile(rb"(?:\A|&)_x_tr_hp=([a-z0-9-]*)")
#: whether names have marks
_MARKS = re.compile(rb"(?:\A|&)_x_tr_enc=([0-9,]*)")
_OF_TRANSLATION = re.compile(rb"(?:(?<=\?)|&)_x_tr_[a-z]+=[^&]*")
#: Spec: RFC 3986, Appendix C: delimited by quotes, angle brackets or white space
_WHOLE_URL = re.compile(rb"(?:https?|wss?|ftp)://[^\s<>\"]+", re.IGNORECASE)

#: a value that is one in base64: "http", or "://" without it, as Glype writes it
_BASE64_URL = re.compile(rb"(?:\A|=)((?:aHR0c|Oi8v)[A-Za-z0-9+/_-]+(?:=|%3[Dd])*)\Z")


def address(text: bytes) -> Request | None:
    """The request for an address as a service may read it; ``None`` if it is none.

    >>> address(b"hTTp%253A//Blocked.example%2F").hosts, address(b"blocked.example/x").target
    ((b'Blocked.example',), b'/x')
    >>> address(b"about blocked.example"), address(b"me@blocked.example"), address(b"javascript:alert(1)")
    (None, None, None)
    """
    text = _bare(text)
    if b"%" in text and not _WEB.match(text):
        once = _bare(unescape_once(text))
        text = once if _WEB.match(once) or b"%" not in once else _bare(percent_decode_repeatedly(once))
    if prefix := _BEFORE.match(text):
        text = text[prefix.end() :]
    web = _WEB.match(text)
    if web is not None:
        url = (web[1].lower().replace(b"ftp", b"http") or b"https") + b"://" + text[web.end() :]
    elif bare := _BARE_WEB.match(text):
        url = b"https://" + text[bare.end() :]
    elif text[:2] in (b"//", b"\\\\", b"/\\", b"\\/"):
        url = b"https://" + text.lstrip(b"/\\")
    elif (host := _BARE_HOST.match(text, start := text[:1] in (b"/", b"\\"))) and _SEVERAL_LABELS.search(host[1]):
        if start and _FILE.search(host[1]):
            return None
        url = b"https://" + text[start:]
    else:
        return None
    return _request(url)


def _bare(text: bytes) -> bytes:
    r"""An address without what readers of URLs leave out, plain or escaped, and what people put around it.

    >>> _bare(b"+%00%C2%A0ht%0Atps://h.example\"%20"), _bare(b"%3Ch.example%3e")
    (b'https://h.example', b'h.example')

    Spec: URL Standard, 4.4: "Remove any leading and trailing C0 control or space", "all ASCII tab or newline"
    """
    text = _TAB_OR_NEWLINE.sub(b"", text)
    edge = _start_of(text)
    plain = _decoded(edge)
    if (kept := plain.lstrip(_AROUND + "+")) != plain:
        text = kept.encode("utf-8", "surrogateescape") + text[len(edge) :]
    edge = _end_of(text)
    plain = _decoded(edge)
    if (kept := plain.rstrip(_AROUND)) != plain:
        text = text[: len(text) - len(edge)] + kept.encode("utf-8", "surrogateescape")
    return text


def _start_of(text: bytes, edge: re.Pattern[bytes] | None = None) -> bytes:
    match = (edge or _EDGE).match(text)
    return match[0] if match else b""


def _end_of(text: bytes) -> bytes:
    return _start_of(text[::-1], _EDGE_OF_REVERSED)[::-1]


def _decoded(edge: bytes) -> str:
    return percent_decode_repeatedly(edge).decode("utf-8", "surrogateescape")


_TAB_OR_NEWLINE = re.compile(rb"[\t\r\n]|%(?:25)*0[9AaDd]")
#: controls, spaces, what nobody sees, quotation marks and angle brackets
_AROUND = "".join(
    chr(code)
    for first, last in (
        *((0, 0x20), (0x7F, 0xA0), (0x2000, 0x200F), (0x2018, 0x201F), (0x2028, 0x202F), (0x205F, 0x206F)),
        *((code, code) for code in (0x22, 0x27, 0x3C, 0x3E, 0x60, 0xAB, 0xAD, 0xBB, 0x1680, 0x180E, 0x3000, 0xFEFF)),
    )
    for code in range(first, last + 1)
)
#: where these may stand, with other escapes and letters
_EDGE = re.compile(rb"(?:[^!-~]|[+\"'<>`]|%(?:25)*[0-9A-Fa-f]{2})*+")
_EDGE_OF_REVERSED = re.compile(rb"(?:[^!-~]|[+\"'<>`]|[0-9A-Fa-f]{2}(?:52)*%)*+")


def _both_ways(text: bytes) -> Iterator[bytes]:
    """A text as it stands, and with spaces for each ``+`` at its end: in a form it is one, elsewhere it is not."""
    yield text
    edge = _end_of(text)
    if b"+" in edge:
        yield text[: len(text) - len(edge)] + edge.replace(b"+", b" ")


#: of a host, what is behind an escaped delimiter: a reader that takes it as written connects to nothing
_ESCAPED_DELIMITER = re.compile(rb"%(?:25)*(23|2[Ff]|3[Ff]|5[Cc])")
#: what ends a host, with its port
_END_OF_HOST = re.compile(rb"(?::[0-9]*)?(?:[/\\?#].*)?\Z", re.DOTALL)
_AUTHORITY = re.compile(rb"([a-z]+://)([^/\\?#]*)")
#: no host ends so
_BEHIND = b"!$&'()*+,;=~"


def _request(url: bytes) -> Request | None:
    authority = _AUTHORITY.match(url)
    behind = b""
    if authority is not None and b"@" not in authority[2]:
        name = _ESCAPED_DELIMITER.sub(lambda match: bytes.fromhex(match[1].decode()), authority[2], 1)
        end = _END_OF_HOST.search(name)
        host = name[: end.start()] if end else name
        readable, behind = _readable(host)
        url = authority[1] + readable + name[len(host) :] + url[authority.end() :]
    try:
        request = request_of(url)
    except UrlError as error:
        host = re.split(rb"[:/\\?#]", url.partition(b"://")[2].rpartition(b"@")[2], maxsplit=1)[0]
        return Request(b"https", (host,), 443, b"/", fault=error.reason) if host else None
    if b"." in behind:  # or it is a part of a longer name
        request.hosts = (*request.hosts, readable + behind)
    return request


def _readable(host: bytes) -> tuple[bytes, bytes]:
    r"""A host up to the first escape in it that is none, or not of UTF-8, which some decoders leave out; and the rest.

    >>> [_readable(b"h.example" + end)[1] for end in (b"%zz", b"%25C3", b";%")], _readable(b"h%C3%A4.example")
    ([b'%zz', b'\xc3', b';%'], (b'h%C3%A4.example', b''))
    """
    if host.isascii() and b"%" not in host and host[-1:] not in _BEHIND:
        return host, b""
    plain = percent_decode_repeatedly(host)
    try:
        end = len(plain)
        plain.decode("utf-8")
    except UnicodeDecodeError as error:
        end = error.start
    kept = plain[:end].partition(b"%")[0].rstrip(_BEHIND)
    is_whole = len(kept) == len(plain) or b"." not in kept or kept[:1] == b"["  # of an address, it is a zone
    return (host, b"") if is_whole else (kept, plain[len(kept) :])


def _of_base64(text: bytes) -> Request | None:
    plain = unescape_once(text.strip(b"+")).translate(_TO_URLSAFE, _NOT_OF_BASE64)
    try:
        return address(urlsafe_b64decode(plain + b"=" * (-len(plain) % 4)))
    except ValueError:
        return None


_TO_URLSAFE = bytes.maketrans(b"+/", b"-_")
#: decoders pass over what is none of its digits
_NOT_OF_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]").sub(b"", bytes(range(256)))


def _of_hex(text: bytes) -> Request | None:
    try:
        return address(bytes.fromhex(text.decode("ascii")))
    except ValueError:
        return None


def _of_dashed(text: bytes) -> Request | None:
    return address(text.translate(_FROM_DASHED))


_FROM_DASHED = bytes.maketrans(b"-_", b"%/")

_DECODED: dict[str, Callable[[bytes], Request | None]] = {
    "url": address,
    "base64": _of_base64,
    "hex": _of_hex,
    "dashed": _of_dashed,
}


def _decoded_as(name: str, value: bytes) -> Iterator[Request]:
    texts = _both_ways(value) if name == "url" else (value,)
    return (address for text in texts if (address := _DECODED[name](text)) is not None)


def _by_label(form: Form, host: bytes, target: bytes | None) -> Iterator[Request]:
    """The addresses that a label of a host stands for: with a dash for each dot, and two for each dash.

    Google's translation has some of their beginning in the query, and says there whether it marks names that are not in
    ASCII, or that begin with a digit and a dash. Without a ``target``, they may be either.
    """
    query = (target or b"").partition(b"?")[2]
    before, marks = _NAME_BEFORE.search(query), _MARKS.search(query)
    marked = b"01" if target is None else b"" if marks is None else marks[1]
    inner = b"/" if target is None else _OF_TRANSLATION.sub(b"", target).replace(b"?&", b"?").removesuffix(b"?")
    for groups in form.host_groups(host):
        names = [(b"" if before is None else before[1]) + groups["host"]]
        if b"1" in marked and names[0][:2] == b"1-":
            names.append(names[0][2:])
        if b"0" in marked and names[-1][:2] == b"0-":
            names.append(b"xn----" + names[-1][2:])
        for name in names if target is None else names[-1:]:
            plain = name.replace(b"--", b"\0").replace(b"-", b".").replace(b"\0", b"-")
            if b"." in plain:
                yield Request(b"https", (plain,), 443, inner)


def _whole(targets: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """The whole URLs in the queries of targets, however often they are encoded, each as a placeholder has it."""
    for target in targets:
        for value in re.split(rb"[&;]", target.partition(b"?")[2]):
            if b":" in value or b"%" in value:
                plain = percent_decode_repeatedly(value)
                for text in {plain: None, plain.translate(None, b"\t\r\n"): None}:
                    yield from (("url", match) for match in _WHOLE_URL.findall(text))
            if encoded := _BASE64_URL.search(value):
                yield "base64", encoded[1]
