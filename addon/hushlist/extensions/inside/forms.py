r"""Forms of addresses: where in a service's URLs another address stands, or what names the thing that they ask for.

>>> form = Form("web.archive.org/web/*/{url}")
>>> [bytes(value) for _, value in form.values(b"web.archive.org", [b"/web/2020/http://h.example/?x"])]
[b'http://h.example/?x']

A form is a host, a path and perhaps a query, with these placeholders:

- in the host, ``*.`` in front stands for any subdomain, or none; ``.*`` at the end for any country's ending; another
  ``*`` for a part of a label; ``|`` stands between several hosts
- in the path, ``*`` stands for any part of a segment, and ``/**`` at the end for any rest, or none
- ``{url}`` stands for an address: to the end of the target, or the value of a parameter; ``{base64}`` and ``{hex}``
  for one that is encoded; ``{dashed}`` for one with ``-`` for ``%`` and ``_`` for ``/``; ``{host}`` for a name with
  dashes for its dots, as one label
- any other name in braces stands for a label, a segment or a value; ``{rest}`` may have slashes, ``{#name}`` is a
  number

Parameters with several names are written with commas: ``?u,url={url}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.normalization import percent_decode_repeatedly, unescape_once

#: placeholders of addresses
ADDRESSES = ("url", "base64", "hex", "dashed", "host")
_TOKEN = late_pattern(r"\{(#?)([a-z0-9]+)\}|/\*\*\Z|\*\*|\*")
#: octets of what ``*`` or a name stands for
_LONGEST = 256
_NAME = late_pattern(r"\{#?([a-z0-9]+)\}")
_ENDING = r"(?:com?\.|org\.)?[a-z]{2,3}"
_PARTS = late_pattern(r"([^/?]+)(/[^?]*)(?:\?(?:([^={}]+)=)?(.+))?")


class FormError(ValueError):
    """A form that cannot be read; the text says why."""


class Form:
    """One form of a service's URLs."""

    def __init__(self, text: str) -> None:
        """Raises ``FormError``."""
        parts = _PARTS.fullmatch(text)
        if parts is None or not text.isascii():
            raise FormError("expected a host and a path, such as proxy.example/*?u={url}")
        host, path, keys, value = parts.groups()
        if ":" in host:
            raise FormError("a form has no scheme and no port: it is for all of them")
        host = host.lower()
        self.text, self._host_texts = text, host.split("|")
        #: the names of its placeholders
        self.names = frozenset(_NAME.findall(text))
        #: whether a label of its host is an address; and whether an address stands anywhere in it
        self.is_by_host, self.has_address = "host" in self.names, not self.names.isdisjoint(ADDRESSES)
        whole = keys is None and value is not None
        #: whether the rest of the target is the address, with the query
        self._takes_query = whole or path.endswith("{url}")
        self._path_text = f"{path}?{value}" if whole else path
        self._key_names, self._value_text = (keys or "").split(","), "" if keys is None else value
        self._has_keys = keys is not None
        #: whether no target without a query has it
        self.needs_query = value is not None
        #: whether no text of a value is fixed
        self._is_whole_value = _NAME.fullmatch(self._value_text) is not None
        #: what all its paths begin with, in lower case
        self.start = path[: min(path.find(mark) % (len(path) + 1) for mark in "{*")].removesuffix("/").lower().encode()
        #: the last two labels of its domains, and fixed labels before any ending, by which its hosts are found
        self.domains, self.labels = set[bytes](), set[bytes]()
        for host_text in self._host_texts:
            self._index(host_text)

    def check(self, name: str | None) -> None:
        """Raise ``FormError`` where its placeholders cannot be read, or do not go with the name of what it asks for."""
        for host in self._host_texts:
            names = _NAME.findall(f"{host}{self._path_text}?{self._value_text}")
            if len(set(names)) < len(names):
                raise FormError("a placeholder stands in it twice")
            if sum(placeholder in ADDRESSES for placeholder in names) > 1:
                raise FormError("it has two addresses")
        for text, stop in ((self._path_text, "/?"), (self._value_text, "&:/")):
            _pattern(text, stop=stop)
        if name is None:
            if not self.has_address:
                raise FormError(
                    "it has no {url}, {base64}, {hex}, {dashed} or {host}, and no 'same' says what it names"
                )
            return
        host, slash, _ = name.partition("/")
        if not slash or "." not in host or ":" in host or "*" in name:
            raise FormError(f"expected a host and a path for 'same', such as video.example/{{id}}, not {name}")
        for placeholder in _NAME.findall(name):
            if placeholder not in self.names:
                raise FormError(f"it has no {{{placeholder}}}, which stands in 'same'")

    # made when a host has the form: a run with few of them starts faster

    @cached_property
    def _hosts(self) -> list[_HostReader]:
        return [*map(_host_reader, self._host_texts)]

    @cached_property
    def _path(self) -> re.Pattern[bytes]:
        return re.compile(_pattern(self._path_text).encode(), re.IGNORECASE | re.DOTALL)

    @cached_property
    def _keys(self) -> list[re.Pattern[bytes]]:
        return [*map(_parameter, self._key_names)]

    @cached_property
    def _value(self) -> re.Pattern[bytes]:
        return re.compile(_pattern(self._value_text, stop="&:/").encode(), re.IGNORECASE | re.DOTALL)

    def _index(self, host: str) -> None:
        fixed = re.sub(r"^(?:\*\.|\{host\}\.|\{[a-z]+\}\.)+", "", host)
        label = fixed.removesuffix(".*").rpartition(".")[2] if fixed.endswith(".*") else ""
        fixed = fixed.partition("*")[2].partition(".")[2] if "*" in fixed and not label else fixed
        if label:
            self.labels.add(label.encode())
        elif "." in fixed and "{" not in fixed:
            self.domains.add(".".join(fixed.rsplit(".", 2)[-2:]).encode())
        else:
            raise FormError("its host has no fixed domain")

    def fits_host(self, host: bytes) -> bool:
        """Whether a canonical host is one of the service's."""
        return any(True for _ in self.host_groups(host))

    def values(self, host: bytes, targets: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """The address in each target that has one: its placeholder, and it as it stands there."""
        for groups in self.groups(host, targets):
            for name, value in groups.items():
                if name in ADDRESSES:
                    yield name, value

    def groups(self, host: bytes, targets: Iterable[bytes]) -> Iterator[dict[str, bytes]]:
        """What stands for the placeholders, for each target that has this form."""
        for of_host in self.host_groups(host):
            yield from self._groups(of_host, targets)

    def host_groups(self, host: bytes) -> Iterator[dict[str, bytes]]:
        """What stands for the placeholders of its hosts, for the first that fits."""
        for read in self._hosts:
            if (groups := read(host)) is not None:
                yield groups
                return

    def _groups(self, of_host: dict[str, bytes], targets: Iterable[bytes]) -> Iterator[dict[str, bytes]]:
        for target in targets:
            path, _, query = (target, b"", b"") if self._takes_query else target.partition(b"?")
            begins = path[: len(self.start)].lower() == self.start  # most that do not fit need no expression for it
            by_path = self._path.fullmatch(path) if begins else None
            if by_path is None:
                continue
            groups = {**of_host, **by_path.groupdict()}
            if not self._has_keys:
                yield groups
            for key in self._keys if self._has_keys else ():
                for value in key.findall(query):
                    readings = (value,) if self._is_whole_value else self._as_read(value)
                    if (by_value := next(filter(None, map(self._value.fullmatch, readings)), None)) is not None:
                        value_groups = by_value.groupdict()
                        if "url" in value_groups and not self._is_whole_value:  # what follows a space is no address
                            value_groups["url"] = value_groups["url"].strip().partition(b" ")[0]
                        yield {**groups, **value_groups}

    def _as_read(self, value: bytes) -> Iterator[bytes]:
        """A value with its fixed text as services read it: unescaped, without white space in front."""
        if "url" in self.names:
            value = value.replace(b"+", b" ")
        for reading in dict.fromkeys((unescape_once(value), percent_decode_repeatedly(value), value)):
            yield reading.lstrip(_IN_FRONT)


#: spaces and controls
_IN_FRONT = bytes((*range(0x21), ord("+"), 0x7F))


#: from a host to what stands for the placeholders in it; ``None``: it is another host
_HostReader = Callable[[bytes], "dict[str, bytes] | None"]


def _host_reader(text: str) -> _HostReader:
    bare = text.removeprefix("*.")
    has_subdomains = bare != text
    if not {"*", "{"}.intersection(bare):  # as most: an expression would take long to compile
        name = bare.encode()
        return lambda host: {} if host == name or (has_subdomains and host.endswith(b"." + name)) else None
    before, after = r"(?:.+\.)?" if has_subdomains else "", rf"\.{_ENDING}" if bare.endswith(".*") else ""
    fullmatch = re.compile((before + _pattern(bare.removesuffix(".*"), stop=".") + after).encode()).fullmatch
    return lambda host: None if (match := fullmatch(host)) is None else match.groupdict()


def _pattern(text: str, *, stop: str = "/?") -> str:
    """A regular expression for a text with placeholders, none of which passes one of the ``stop`` characters.

    What may be of any length stands in it once, so that it takes time linear in the target.
    """
    none = f"[^{re.escape(stop)}]"
    parts, place, unbounded = [], 0, 0
    for token in _TOKEN.finditer(text):
        parts.append(re.escape(text[place : token.start()]))
        place, name = token.end(), token[2]
        if name is None and token[0] == "*":
            parts.append(f"{none}{{0,{_LONGEST}}}")
        elif name is None or name in ("url", "base64", "hex", "dashed", "rest"):
            unbounded += 1
            parts.append({"/**": "(?:/[^?]*)?", "**": "[^?]*", "{url}": "(?P<url>.+)"}.get(token[0], ""))
            if not parts[-1]:
                long = "[^&]" if "&" in stop else "[^?]" if name == "rest" else none
                parts[-1] = f"(?P<{name}>{long}+)"
        else:
            parts.append(f"(?P<{name}>{'[0-9]' if token[1] else f'[^/?&;@{stop}]'}{{1,{_LONGEST}}})")
    if unbounded > 1:
        raise FormError("no more than one placeholder of any length may stand in it: **, {rest} or an address")
    return "".join([*parts, re.escape(text[place:])])


def _parameter(name: str) -> re.Pattern[bytes]:
    """Finds a parameter's values, however its name is escaped."""
    letters = (f"(?:{re.escape(letter)}|%(?:25)*(?i:{ord(letter):x}))" for letter in name.strip())
    return re.compile(f"(?:\\A|[&;])(?:\\+|%20)*(?i:{''.join(letters)})=([^&]*)".encode())


def filled(template: str, groups: dict[str, bytes]) -> bytes | None:
    """A template with values for its placeholders; ``None`` if one is missing, or empty."""
    pieces: list[bytes] = []
    for place, piece in enumerate(_NAME.split(template)):
        value = groups.get(piece) if place % 2 else piece.encode()
        if value is None or (place % 2 and not value):
            return None
        pieces.append(value)
    return b"".join(pieces)


def hosts_of(forms: Sequence[Form]) -> tuple[dict[bytes, list[Form]], dict[bytes, list[Form]]]:
    """The forms by the last two labels of their domains, and by the fixed labels before any ending."""
    by_domain: dict[bytes, list[Form]] = {}
    by_label: dict[bytes, list[Form]] = {}
    for form in forms:
        for domain in form.domains:
            by_domain.setdefault(domain, []).append(form)
        for label in form.labels:
            by_label.setdefault(label, []).append(form)
    return by_domain, by_label
