"""Pass-through: hosts whose TLS is not decrypted, such as those of apps that pin their certificates, and of banks.

They are still decided by name and address. A host covers itself and its subdomains; with "=" in front, only itself.

    pass-through:
      hosts: [bank.example, =api.pinned.example, 192.0.2.0/24, {file: pinned.txt}]
      failed-handshakes: add
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
from hushlist.url.parts import to_bytes
from hushlist.url.request import canonical_host

#: characters that no canonical host has: they begin a port or an escape
_NOT_IN_NAME = re.compile(rb"[:%\[\]]")
#: what to do when clients refuse the proxy's certificate for a host
REPORT, ADD = "report", "add"
ON_FAILURE = (REPORT, ADD)

Network = IPv4Network | IPv6Network
#: reads a file named in a line of the policy: its path and octets; ``None`` after an error, which is in the report
ReadFile = Callable[[str, int], tuple[Path, bytes] | None]


@dataclass(frozen=True, slots=True)
class PassThrough:
    """The hosts that are not decrypted, for a group or for everybody."""

    #: canonical names that cover their subdomains, and those that do not
    domains: frozenset[bytes] = frozenset()
    hosts: frozenset[bytes] = frozenset()
    networks: tuple[Network, ...] = ()
    #: what to do when a client refuses the proxy's certificate
    on_failure: str = REPORT
    #: the file that such a host is added to
    file: Path | None = None
    #: its place in the policy, as ``file:line``
    place: str | None = None

    def __len__(self) -> int:
        """The number of hosts and networks."""
        return len(self.entries)

    @property
    def entries(self) -> frozenset[bytes | Network]:
        """All hosts and networks."""
        return frozenset((*self.domains, *(b"=" + host for host in self.hosts), *self.networks))

    def covers(self, host: bytes) -> bool:
        """Whether a host is passed through; ``host`` is canonical.

        >>> PassThrough(frozenset([b"bank.example"])).covers(b"www.bank.example")
        True
        """
        if host in self.hosts:
            return True
        if is_address(host):
            address = parse_address(host)
            return address is not None and any(address in network for network in self.networks)
        while host not in self.domains:
            _, dot, host = host.partition(b".")
            if not dot:
                return False
        return True


_KEYS = ("hosts", "failed-handshakes")


def read_pass_through(node: YamlNode, report: ProblemReport, read_file: ReadFile) -> PassThrough:
    """The value of ``pass-through``: a list of hosts, or a mapping."""
    if not isinstance(node.value, list | dict):
        why = f"expected a list of hosts, or a mapping with {', '.join(_KEYS)}, not {node.kind}"
        report.error(node.line, "pass-through", why)
        return PassThrough()
    entry = YamlNode(node.line, {"hosts": node}) if isinstance(node.value, list) else node
    fields = MappingReader(entry, _KEYS, report)
    if isinstance(entry.value, dict) and "hosts" not in fields:
        report.error(node.line, "pass-through", "it has no hosts")
    domains: set[bytes] = set()
    hosts: set[bytes] = set()
    networks: list[Network] = []
    files: list[Path] = []
    for text, line, source in _entries(fields, report, read_file, files):
        found = _read_host(text, line, source)
        if isinstance(found, bytes):
            (hosts if text.startswith("=") else domains).add(found)
        elif found is not None:
            networks.append(found)
    on_failure = fields.choice("failed-handshakes", ON_FAILURE) or REPORT
    if on_failure == ADD and not files:
        report.error(fields.line_of("failed-handshakes"), "failed-handshakes: add", "there is no file to add to")
    return PassThrough(
        frozenset(domains),
        frozenset(hosts),
        tuple(dict.fromkeys(networks)),
        on_failure,
        files[0] if files else None,
        f"{report.source}:{node.line}",
    )


def _entries(
    fields: MappingReader, report: ProblemReport, read_file: ReadFile, files: list[Path]
) -> Iterator[tuple[str, int, ProblemReport]]:
    """Each entry, its line, and the report of its source; adds the files that it reads to ``files``."""
    for item in fields.items("hosts"):
        if isinstance(item.value, str):
            yield item.value, item.line, report
            continue
        own = MappingReader(item, ("file",), report)
        name = own.text("file")
        if isinstance(item.value, dict) and "file" not in own:
            report.error(item.line, "pass-through", "it names no file")
        found = None if name is None else read_file(name, own.line_of("file"))
        if found is None:
            continue
        path, octets = found
        files.append(path)
        of_file = ProblemReport(str(path))
        for line, text in entries(octets, of_file):
            yield text, line, of_file
        report.merge(of_file)


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
        report.error(line, text, "a host covers those below it by itself, without '*'")
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
