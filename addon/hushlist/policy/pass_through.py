"""Which TLS is decrypted. Pass-through: hosts that never are, such as those of apps that pin their certificates.

They are still decided by name and address. A host covers itself and its subdomains; with "=" in front, only itself.

    pass-through:
      hosts: [bank.example, =api.pinned.example, 192.0.2.0/24, {file: pinned.txt}]
      failed-handshakes: add
    decrypt: where-needed
    always-decrypt:
      hosts: [cdn.example]
      categories: [hrn://lists.example/cdn]
    relayed: keep
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from hushlist.errors import UrlError
from hushlist.lists.list_source import ProblemReport, entries
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.url.host import DELIMITERS, is_address, parse_address
from hushlist.url.hrn import parse_hrn
from hushlist.url.parts import to_bytes
from hushlist.url.request import canonical_host

#: characters that no canonical host has: they begin a port or an escape
_NOT_IN_NAME = re.compile(rb"[:%\[\]]")
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

Network = IPv4Network | IPv6Network
#: reads a file named in a line of the policy: its path and octets; ``None`` after an error, which is in the report
ReadFile = Callable[[str, int], tuple[Path, bytes] | None]


@dataclass(frozen=True, slots=True)
class HostSet:
    #: canonical names, and whether each covers its subdomains
    names: frozenset[tuple[bytes, bool]] = frozenset()
    networks: tuple[Network, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def entries(self) -> frozenset[tuple[bytes, bool] | Network]:
        return self.names.union(self.networks)

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


@dataclass(frozen=True, slots=True)
class PassThrough(HostSet):
    """The hosts that are not decrypted, for a group or for everybody."""

    #: what to do when a client refuses the proxy's certificate
    on_failure: str = REPORT
    #: the file that such a host is added to
    file: Path | None = None
    #: its place in the policy, as ``file:line``
    place: str | None = None


@dataclass(frozen=True, slots=True)
class AlwaysDecrypted(HostSet):
    """The hosts that ``decrypt: where-needed`` decrypts in any case, for a group or for everybody."""

    #: ``hrn:`` names in normal form; hosts that a rule of one of them, or of one below it, names as a whole
    categories: frozenset[str] = frozenset()

    def has(self, category: str | None) -> bool:
        """Whether a rule's category is one of them, or below one."""
        return category is not None and not self.categories.isdisjoint(parse_hrn(category).levels())


_KEYS = ("hosts", "failed-handshakes")
_ALWAYS_KEYS = ("hosts", "categories")


def read_pass_through(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> PassThrough:
    """The value of ``pass-through``: a list of hosts, or a mapping."""
    fields = _fields_of(node, "pass-through", _KEYS, report)
    if fields is None:
        return PassThrough()
    fields.require("hosts", "pass-through")
    hosts, files = _read_hosts("pass-through", fields, read_file)
    on_failure = fields.choice("failed-handshakes", ON_FAILURE) or REPORT
    if on_failure == ADD and not files:
        fields.error("failed-handshakes", "there is no file to add to", "failed-handshakes: add")
    place = f"{report.source}:{node.line}"
    return PassThrough(hosts.names, hosts.networks, on_failure, files[0] if files else None, place)


def read_always_decrypted(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> AlwaysDecrypted:
    """The value of ``always-decrypt``: a list of hosts, or a mapping."""
    fields = _fields_of(node, "always-decrypt", _ALWAYS_KEYS, report)
    if fields is None:
        return AlwaysDecrypted()
    if not any(key in fields for key in _ALWAYS_KEYS):
        report.error(node.line, "always-decrypt", f"expected one of {', '.join(_ALWAYS_KEYS)}")
    hosts, _ = _read_hosts("always-decrypt", fields, read_file)
    names = (
        MappingReader(YamlNode(item.line, {"categories": item}), _ALWAYS_KEYS, report).name("categories")
        for item in fields.items("categories")
    )
    return AlwaysDecrypted(hosts.names, hosts.networks, frozenset(name for name in names if name is not None))


def _fields_of(node: YamlNode, key: str, keys: tuple[str, ...], report: ProblemReport) -> MappingReader | None:
    """The mapping that a key has, or that its list of hosts is short for; ``None`` with an error in the report."""
    if isinstance(node.value, list | dict):
        return MappingReader(node.short_for("hosts", list), keys, report)
    report.error(node.line, key, f"expected a list of hosts, or a mapping with {', '.join(keys)}, not {node.kind}")
    return None


def _read_hosts(what: str, fields: MappingReader, read_file: ReadFile) -> tuple[HostSet, list[Path]]:
    """The value of ``hosts`` in the key ``what``, and the files that it names."""
    names: set[tuple[bytes, bool]] = set()
    networks: list[Network] = []
    files: list[Path] = []
    for text, line, source in _entries(what, fields, read_file, files):
        found = _read_host(text, line, source)
        if isinstance(found, bytes):
            names.add((found, not text.startswith("=")))
        elif found is not None:
            networks.append(found)
    return HostSet(frozenset(names), tuple(dict.fromkeys(networks))), files


def _entries(
    what: str, fields: MappingReader, read_file: ReadFile, files: list[Path]
) -> Iterator[tuple[str, int, ProblemReport]]:
    """Each entry, its line, and the report of its source; adds the files that it reads to ``files``."""
    for item in fields.items("hosts"):
        if isinstance(item.value, str):
            yield item.value, item.line, fields.report
            continue
        own = MappingReader(item, ("file",), fields.report)
        name = own.text("file")
        own.require("file", what, "it names no file")
        found = None if name is None else read_file(name, own.line_of("file"))
        if found is None:
            continue
        path, octets = found
        files.append(path)
        of_file = ProblemReport(str(path))
        for line, text in entries(octets, of_file):
            yield text, line, of_file
        fields.report.merge(of_file)


def _read_host(text: str, line: int, report: ProblemReport) -> bytes | Network | None:
    """A canonical name, or a network; ``None`` with an error in the report."""
    name = text.removeprefix("=")
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
            host = canonical_host(octets)
            address = parse_address(host)
            if address is not None:
                return ip_network(address)
            if host and not _NOT_IN_NAME.search(host + octets):
                return host
        report.error(line, text, "expected a host without a port, or an address")
    return None
