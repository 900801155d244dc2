"""Which TLS is decrypted. Pass-through: hosts that never are, such as those of apps that pin their certificates.

They are still decided by name and address. A host covers itself and its subdomains; with "=" in front, only itself.
With a port behind it, an entry is about that port alone.

    pass-through:
      hosts: [bank.example, =api.pinned.example, 192.0.2.0/24, 'mail.example:25', {file: pinned.txt}, {needs: push}]
      failed-handshakes: add
    decrypt: where-needed
    always-decrypt:
      hosts: [cdn.example]
      categories: [hrn://lists.example/cdn]
    relayed: keep
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from hushlist.core.errors import UrlError
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.list_source import ProblemReport, entries
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.household import HOUSEHOLD, needs
from hushlist.core.policy.key_types import (
    any_text,
    choice,
    list_of,
    names_of,
    of_node,
    schema_of,
    schema_of_category,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.core.system.late_pattern import late_pattern
from hushlist.core.url.host import DELIMITERS, is_address, parse_address
from hushlist.core.url.hrn import parse_hrn
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import canonical_host

#: characters that no canonical host has: they begin a port or an escape
_NOT_IN_NAME = late_pattern(rb"[:%\[\]]")
#: an entry with a port; an IPv6 address or network is in brackets then, as in a URL
_WITH_PORT = late_pattern(r"(=?)(?:\[([^\[\]]*)\]|([^:\[\]]*)):([0-9]{1,5})")
_LAST_PORT = (1 << 16) - 1
#: what to do when clients refuse the proxy's certificate for a host
REPORT, ADD = "report", "add"
ON_FAILURE = (REPORT, ADD)
#: values of ``decrypt``: every connection; those in which something could change what is done, or a page be shown; the
#: same without pages; none
ALL, WHERE_NEEDED, WITHOUT_PAGES, NEVER = "all", "where-needed", "without-pages", "never"
DECRYPTION = (ALL, WHERE_NEEDED, WITHOUT_PAGES, NEVER)
#: those that ask what is needed
BY_NEED = (WHERE_NEEDED, WITHOUT_PAGES)
#: what becomes of a connection that is not decrypted, and would be blocked or decrypted now
KEEP, END = "keep", "end"
RELAYED = (KEEP, END)

#: what a mapping of a policy is where nothing is said
NOTHING: Mapping[Any, Any] = {}

Network = IPv4Network | IPv6Network
#: an entry for everything: a canonical name and whether it covers its subdomains, or a network
Entry = tuple[bytes, bool] | Network
#: reads a file named in a line of the policy: its path and octets; ``None`` after an error, which is in the report
ReadFile = Callable[[str, int], tuple[Path, bytes] | None]


class HostSet:
    """Hosts by their names and networks; immutable."""

    def __init__(self, names: frozenset[tuple[bytes, bool]] = frozenset(), networks: tuple[Network, ...] = ()) -> None:
        #: canonical names, and whether each covers its subdomains
        self.names = names
        self.networks = networks

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def entries(self) -> frozenset[object]:
        return frozenset((*self.names, *self.networks))

    def covers(self, host: bytes) -> bool:
        """Whether a host is among them; ``host`` is canonical.

        >>> HostSet(frozenset([(b"bank.example", True)])).covers(b"www.bank.example")
        True
        """
        if (host, False) in self.names:
            return True
        if is_address(host):
            address = parse_address(host)
            return address is not None and any(address in network for network in self.networks)
        while (host, True) not in self.names:
            _, dot, host = host.partition(b".")
            if not dot:
                return False
        return True


class PassThrough(HostSet):
    """The hosts that are not decrypted, for a group or for everybody."""

    def __init__(
        self,
        names: frozenset[tuple[bytes, bool]] = frozenset(),
        networks: tuple[Network, ...] = (),
        on_failure: str = REPORT,
        file: Path | None = None,
        place: str | None = None,
        by_port: Mapping[int, HostSet] = NOTHING,
    ) -> None:
        super().__init__(names, networks)
        #: what to do when a client refuses the proxy's certificate
        self.on_failure = on_failure
        #: the file that such a host is added to
        self.file = file
        #: its place in the policy, as ``file:line``
        self.place = place
        #: those of one port alone
        self.by_port = by_port

    @property
    def entries(self) -> frozenset[object]:
        by_port = ((port, entry) for port, hosts in self.by_port.items() for entry in hosts.entries)
        return frozenset((*self.names, *self.networks, *by_port))

    def covers_at(self, host: bytes, port: int) -> bool:
        """Whether a host is passed through on a port.

        >>> mail = HostSet(frozenset([(b"mail.example", True)]))
        >>> PassThrough(by_port={25: mail}).covers_at(b"mail.example", 25)
        True
        """
        return self.covers(host) or (port in self.by_port and self.by_port[port].covers(host))


class AlwaysDecrypted(HostSet):
    """The hosts that ``decrypt: where-needed`` decrypts in any case, for a group or for everybody."""

    def __init__(
        self,
        names: frozenset[tuple[bytes, bool]] = frozenset(),
        networks: tuple[Network, ...] = (),
        categories: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(names, networks)
        #: ``hrn:`` names in normal form; hosts that a rule of one of them, or of one below it, names as a whole
        self.categories = categories

    def has(self, category: str | None) -> bool:
        """Whether a rule's category is one of them, or below one."""
        return category is not None and not self.categories.isdisjoint(parse_hrn(category).levels())


#: the key of an entry that stands for several
_NEEDS = "needs"
_HOST: Schema = {
    "$name": "passed-host",
    "type": "string",
    "pattern": r"^=?[^\s/?#@\\*%]+(?:/[0-9.]+(?:\]?:[0-9]{1,5})?)?$",
}
_FILE_KEYS = (
    Key("file", any_text, is_required=True).says("""a file with one host or network a line, relative to the policy's
        folder"""),
)
_ENTRY_KEYS = (
    _FILE_KEYS[0]._replace(is_required=False),
    Key(_NEEDS, choice(lambda: needs())).says("""what is needed, for which there are several entries: `time`, `push`,
        `checks`, `calls`, `messages`, or `household` for all of these"""),
)


def _hosts(name: str, rows: tuple[Key, ...], **more: Any) -> Type:
    """A list of hosts, some of them by mappings; ``_read_hosts`` reads it."""

    def schema() -> Schema:
        return {"$name": name, **list_of({"anyOf": [_HOST, schema_of_rows(rows, **more)]})}

    return of_node(lambda node, _: node, schema, rows)


PASSED_HOSTS = _hosts("passed-hosts", _ENTRY_KEYS, oneOf=[{"required": ["file"]}, {"required": [_NEEDS]}])
_DECRYPTED_HOSTS = _hosts("decrypted-hosts", _FILE_KEYS)
_KEYS = (
    Key("hosts", PASSED_HOSTS, is_required=True).says("""the hosts and networks, each by itself or as `{file:
        pinned.txt}`, and what devices need as `{needs: push}`"""),
    Key("failed-handshakes", choice(ON_FAILURE)).says("""what is done when an app refuses the proxy's certificate:
        `report` (the default), the log of mitmproxy says which line to add; `add`, it is added to the first `file`"""),
)
_ALWAYS_KEYS = (
    Key("hosts", _DECRYPTED_HOSTS).says("the hosts and networks, each by itself or as `{file: pinned.txt}`"),
    Key("categories", of_node(lambda node, _: node, lambda: list_of(schema_of_category()))).says("""categories:
        hosts that lists name as a whole in one of these, or in one below it"""),
)


def read_pass_through(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> PassThrough:
    """The value of ``pass-through``: a list of hosts, a mapping, or the word for what households need."""
    if node.value == HOUSEHOLD:
        node = YamlNode(node.line, [YamlNode(node.line, {_NEEDS: node})])
    fields = _fields_of(node, "pass-through", names_of(_KEYS), report)
    if fields is None:
        return PassThrough()
    fields.require("hosts", "pass-through")
    by_port, files = _read_hosts("pass-through", fields, read_file)
    hosts = by_port.pop(None, HostSet())
    on_failure = fields.choice("failed-handshakes", ON_FAILURE) or REPORT
    if on_failure == ADD and not files:
        fields.error("failed-handshakes", "there is no file to add to", "failed-handshakes: add")
    place = f"{report.source}:{node.line}"
    by_number = {port: of_port for port, of_port in by_port.items() if port is not None}
    return PassThrough(hosts.names, hosts.networks, on_failure, files[0] if files else None, place, by_number)


def read_always_decrypted(
    node: YamlNode, report: ProblemReport, read_file: ReadFile, category: Callable[[str], str] = category_named
) -> AlwaysDecrypted:
    """The value of ``always-decrypt``: a list of hosts, or a mapping."""
    keys = names_of(_ALWAYS_KEYS)
    fields = _fields_of(node, "always-decrypt", keys, report)
    if fields is None:
        return AlwaysDecrypted()
    if not any(key in fields for key in keys):
        report.error(node.line, "always-decrypt", f"expected one of {', '.join(keys)}")
    hosts = _read_hosts("always-decrypt", fields, read_file, has_ports=False)[0].get(None, HostSet())
    names = (
        MappingReader(YamlNode(item.line, {"categories": item}), keys, report).name("categories", category)
        for item in fields.items("categories")
    )
    return AlwaysDecrypted(hosts.names, hosts.networks, frozenset(name for name in names if name is not None))


def read_kept_headers(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> HostSet:
    """The value of ``keep-headers``: a list of hosts."""
    if not isinstance(node.value, list):
        report.error(node.line, "keep-headers", f"expected a list of hosts, not {node.kind}")
        return HostSet()
    fields = MappingReader(node.short_for("hosts", list), ("hosts",), report)
    return _read_hosts("keep-headers", fields, read_file, has_ports=False)[0].get(None, HostSet())


PASS_THROUGH = of_node(
    lambda node, reading: read_pass_through(node, reading.report, reading.beside),
    lambda: {
        "$name": "pass-through",
        "anyOf": [schema_of(PASSED_HOSTS), schema_of_rows(_KEYS), {"const": HOUSEHOLD}],
    },
    _KEYS,
)
ALWAYS_DECRYPT = of_node(
    lambda node, reading: read_always_decrypted(node, reading.report, reading.beside, reading.category),
    lambda: {
        "$name": "always-decrypt",
        "anyOf": [schema_of(_DECRYPTED_HOSTS), schema_of_rows(_ALWAYS_KEYS, minProperties=1)],
    },
    _ALWAYS_KEYS,
)
KEEP_HEADERS = of_node(
    lambda node, reading: read_kept_headers(node, reading.report, reading.beside), PASSED_HOSTS.schema
)


def _fields_of(node: YamlNode, key: str, keys: tuple[str, ...], report: ProblemReport) -> MappingReader | None:
    """The mapping that a key has, or that its list of hosts is short for; ``None`` with an error in the report."""
    if isinstance(node.value, list | dict):
        return MappingReader(node.short_for("hosts", list), keys, report)
    word = f", or {HOUSEHOLD}" if key == "pass-through" else ""
    why = f"expected a list of hosts, or a mapping with {', '.join(keys)}{word}, not {node.kind}"
    report.error(node.line, key, why)
    return None


def _read_hosts(
    what: str, fields: MappingReader, read_file: ReadFile, *, has_ports: bool = True
) -> tuple[dict[int | None, HostSet], list[Path]]:
    """The value of ``hosts`` in the key ``what``, by port, and the files that it names; ``None``: for all ports."""
    by_port: dict[int | None, list[Entry]] = {}
    files: list[Path] = []
    for text, line, source in _entries(what, fields, read_file, files, has_needs=has_ports):
        host, port = _split_port(text) if has_ports else (text, None)
        if port is not None and not 0 < port <= _LAST_PORT:
            source.error(line, text, f"a port is a number from 1 to {_LAST_PORT:,}")
        elif (entry := _read_host(host, text, line, source, has_ports=has_ports)) is not None:
            by_port.setdefault(port, []).append(entry)
    return {port: _host_set(entries) for port, entries in by_port.items()}, files


def _host_set(entries: list[Entry]) -> HostSet:
    networks = [entry for entry in entries if not isinstance(entry, tuple)]
    return HostSet(frozenset(entry for entry in entries if isinstance(entry, tuple)), tuple(dict.fromkeys(networks)))


def _split_port(text: str) -> tuple[str, int | None]:
    """An entry without its port, and the port.

    >>> _split_port("mail.example:25"), _split_port("=[2001:db8::1]:22"), _split_port("2001:db8::1")
    (('mail.example', 25), ('=2001:db8::1', 22), ('2001:db8::1', None))
    """
    match = _WITH_PORT.fullmatch(text)
    if match is None:
        return text, None
    return match[1] + (match[2] or match[3] or ""), int(match[4])


def _entries(
    what: str, fields: MappingReader, read_file: ReadFile, files: list[Path], *, has_needs: bool
) -> Iterator[tuple[str, int, ProblemReport]]:
    """Each entry, its line, and the report of its source; adds the files that it reads to ``files``."""
    for item in fields.items("hosts"):
        if isinstance(item.value, str):
            if has_needs and item.value in needs():
                how = f"write {{{_NEEDS}: {item.value}}} for what is needed, or ={item.value} for a host of that name"
                fields.report.error(item.line, item.value, f"it is no host: {how}")
            else:
                yield item.value, item.line, fields.report
            continue
        entry = MappingReader(item, ("file", _NEEDS) if has_needs else ("file",), fields.report)
        if has_needs and _NEEDS in entry:
            if "file" in entry:
                entry.error("file", f"an entry is a file, or names what {_NEEDS}")
            needed = entry.choice(_NEEDS, tuple(needs()))
            yield from ((text, item.line, fields.report) for text in needs().get(needed or "", ()))
            continue
        name = entry.text("file")
        entry.require("file", what, "it names no file")
        file = None if name is None else read_file(name, entry.line_of("file"))
        if file is None:
            continue
        path, octets = file
        files.append(path)
        of_file = ProblemReport(str(path))
        for line, text in entries(octets, of_file):
            yield text, line, of_file
        fields.report.merge(of_file)


def _read_host(host: str, text: str, line: int, report: ProblemReport, *, has_ports: bool) -> Entry | None:
    """An entry without its port; ``None`` with an error about its ``text`` in the report."""
    name = host.removeprefix("=")
    with suppress(ValueError):
        return ip_network(name)
    with suppress(ValueError):
        network = ip_network(name, strict=False)
        report.error(line, text, f"some of its bits are behind the prefix: the network is {network}")
        return None
    octets = to_bytes(name)
    if DELIMITERS.search(octets):
        report.error(line, text, "expected a host such as bank.example, or a network such as 192.0.2.0/24")
    elif "*" in name:
        report.error(line, text, f"a host covers those below it by itself: write '{name.removeprefix('*.')}'")
    else:
        with suppress(UrlError):
            canonical = canonical_host(octets)
            address = parse_address(canonical)
            if address is not None:
                return ip_network(address)
            if canonical and not _NOT_IN_NAME.search(canonical + octets):
                return canonical, not host.startswith("=")
        port = "with the number of a port or without it" if has_ports else "without a port"
        report.error(line, text, f"expected a host or an address, {port}")
    return None
