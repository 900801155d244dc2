"""What the rules say about whole hosts: it is found out when a host is first seen, and kept for each group of clients.

client, moment -> its group's effective policy and hosts;  host -> its rules, and the decision if they alone decide
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import NamedTuple

from hushlist.core.decide.decision import BY_CATEGORY, Decision, own_categories
from hushlist.core.decide.effective_policy import EffectivePolicy
from hushlist.core.decide.readings import HostReader, Readings
from hushlist.core.decide.verdict import NO_BLOCKS, Verdict
from hushlist.core.errors import UrlError
from hushlist.core.extension import extensions_named, load
from hushlist.core.match.checks import Check
from hushlist.core.match.index import Host, Index
from hushlist.core.match.index_file import ALLOWING, CATEGORIZED, FILTERED
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import NOBODY, Client, Group, GroupSettings
from hushlist.core.policy.part_needs import says_something
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.memory import BoundedCache
from hushlist.core.url.host import LONGEST_NAME, is_plain_name, tunnelled_ipv4
from hushlist.core.url.parts import DEFAULT_PORTS
from hushlist.core.url.request import Request, canonical_host

#: hosts in the cache of each group of clients
MOST_KNOWN = 1 << 14


class KnownHost:
    """What the rules say about one spelling of a host, to one group."""

    __slots__ = ("alone", "canonical", "decision", "has_filters", "host", "is_name", "readers", "tunnelled", "view")

    def __init__(
        self,
        view: EffectivePolicy,
        canonical: bytes,
        host: Host,
        alone: Decision | None,
        decision: Decision | None,
        tunnelled: bytes | None,
        readers: tuple[HostReader, ...],
        *,
        is_name: bool,
        has_filters: bool,
    ) -> None:
        self.view, self.canonical, self.host = view, canonical, host
        #: whether it is canonical, and a name
        self.is_name = is_name
        #: the decision, without a URL, if only rules for the whole host fit; ``None`` if one of these expires
        self.alone = alone
        #: the same, but ``None`` if other rules may fit too
        self.decision = decision
        #: whether network filters may fit some of its requests
        self.has_filters = has_filters
        #: the IPv4 address by which a tunnel or a translator reaches it, which is decided, too
        self.tunnelled = tunnelled
        #: what finds addresses inside its requests, and other names of what they ask for, that some rule may fit
        self.readers = readers

    def concerns(self, path: bytes, query: bytes | None) -> bool:
        """Whether anything besides may be read in a plain target of it."""
        return any(reader.concerns(path, query) for reader in self.readers)

    @property
    def is_named(self) -> bool:
        """Whether network filters name the host or a domain above it."""
        return self.host.bits & FILTERED != 0

    @property
    def is_stopped(self) -> bool:
        """Whether a rule for the whole host stops it, or may by its category."""
        return bool(self.host.matches) and stops(self.host.matches)

    @property
    def has_pages(self) -> bool:
        """Whether there are rules in the clear, or blocks of administrators, for paths on the host."""
        return self.host.has_rules_below or self.view.blocks.has_pages(self.canonical)


class GroupHosts(NamedTuple):
    """A group's effective policy, and its cache of hosts."""

    view: EffectivePolicy
    by_name: BoundedCache[bytes, KnownHost]
    #: why every connection is to be decrypted, whatever its host
    needs_all: str | None


class KnownHosts:
    """The hosts of one policy and its index, by group."""

    def __init__(
        self, policy: Policy, index: Index, overrides: Verdict | None, readings: tuple[Readings, ...] = ()
    ) -> None:
        self._policy, self._index, self._overrides, self._readings = policy, index, overrides, readings
        #: those of which a rule may fit something
        self._useful = tuple(reading for reading in readings if _has_rules(index, reading.hosts_of_names))
        #: the group of a client
        self.group = _group_finder(policy)
        used = [each for each in extensions_named(policy.extensions) if says_something(policy, each)]
        self._why_decrypt: list[Callable[[bytes, GroupSettings], str | None]] = [
            load(each.why_decrypt) for each in used if each.why_decrypt
        ]
        #: by the group's name
        self._groups: dict[str, GroupHosts] = {}
        #: the one cache, if the policy is the same for everybody at every moment
        self.only: GroupHosts | None = None
        if not policy.groups:
            only = self.of_group(NOBODY, None)
            self.only = only if only.view.is_timeless and not only.view.has_blocks else None

    def why_decrypt(self, known_host: KnownHost) -> str | None:
        """Why a TLS connection has to be decrypted that goes by a host, for people."""
        host, settings = known_host.canonical.decode("ascii", "backslashreplace"), known_host.view.group.settings
        if known_host.has_pages:
            return f"there are rules for paths on {host}"
        for why_decrypt in self._why_decrypt:
            if why := why_decrypt(known_host.canonical, settings):
                return f"{why} {host}"
        for reader in known_host.readers:
            if reader.why_decrypt:
                return f"{reader.why_decrypt} {host}"
        always = settings.always_decrypted
        if always.covers(known_host.canonical) or any(
            always.has(match.rule.terms.category) for match in known_host.host.matches
        ):
            return f"always-decrypt has {host}"
        return None

    def of_group(self, client: Client, now: datetime | None, group: Group | None = None) -> GroupHosts:
        """The hosts of a client's group at a moment; ``group`` is the client's, if it is known."""
        overrides = self._overrides
        blocks = NO_BLOCKS if overrides is None else overrides.blocks_at(time() if now is None else now.timestamp())
        only = self.only
        if only is not None and (blocks is only.view.blocks or not blocks):  # the first is faster
            return only
        group = group or self.group(client)
        hosts = self._groups.get(group.name)
        if hosts is None or hosts.view.blocks is not blocks or not hosts.view.holds_at(now or datetime.now(UTC)):
            view = EffectivePolicy(group, now or datetime.now(UTC), blocks, self._index.directory.schedules)
            by_name = BoundedCache(partial(know, self._index, view, self._useful), MOST_KNOWN)
            hosts = self._groups[group.name] = GroupHosts(view, by_name, next(self._opaque_parts(view), None))
        return hosts

    def has_paths(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether there are rules in the clear for paths on a host or its domain; they need the path to be known."""
        try:
            return self.of_group(client, None).by_name[host].has_pages
        except UrlError:
            return True

    def may_have_paths(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether there may be rules for paths on a host or its domain, in the clear or hidden."""
        return self.of_group(client, None).needs_all is not None or self.has_paths(host, client)

    def why_inside(self, host: bytes, client: Client) -> str | None:
        """Why requests to a host have to be seen though an app refuses that, for people; ``None`` if no rule is about
        what is on the host."""
        if self.has_paths(host, client):
            return "there are rules for its paths"
        known_host = self.of_group(client, None).by_name[host]
        return "there are filters for it" if known_host.is_named else self.why_decrypt(known_host)

    def allows_below(self, host: bytes, client: Client = NOBODY) -> bool:
        """Whether a rule in the clear may allow part of a host, so that it must not be blocked as a whole."""
        group_hosts = self.of_group(client, None)
        try:
            known_host = group_hosts.by_name[host]
        except UrlError:
            return False
        bits = known_host.host.bits
        if bits & ALLOWING or (bits & CATEGORIZED and group_hosts.view.allows_categories):
            return True
        connection = Request(b"https", (host,), DEFAULT_PORTS[b"https"], b"/")
        inner = (
            inner_address.request.hosts[0]
            for reader in known_host.readers
            for inner_address in reader.inner(connection, ())
        )
        return any(self.allows_below(name, client) for name in inner)

    def _opaque_parts(self, view: EffectivePolicy) -> Iterator[str]:
        """What may decide by the inside of every connection, whatever its host, for people."""
        yield from (reading.needs_all for reading in self._readings if reading.needs_all is not None)
        for layer in view.layers:
            if layer in self._index.directory.opaque:
                yield f"rules in layer {layer} may be of paths on any host"
        for rule in (rule for layer in self._policy.layers for rule in layer.checks):
            if rule.terms.layer in view.layers and isinstance(rule.pattern, Check) and rule.pattern.needs_request:
                yield f"the check {rule.pattern.code} in layer {rule.terms.layer} needs the requests"


def _group_finder(policy: Policy) -> Callable[[Client], Group]:
    """What finds the group of a client."""
    groups = policy.all_groups
    if len(groups) == 1:
        return lambda _: groups[0]
    # without groups, nobody waits for what it imports
    from hushlist.core.policy.group_table import GroupTable, device_names

    return GroupTable(groups, device_names(policy)).group


def know(index: Index, view: EffectivePolicy, readings: tuple[Readings, ...], host: bytes) -> KnownHost:
    """What the rules say about a host; ``UrlError`` if it is not valid."""
    is_name = is_plain_name(host) and len(host) <= LONGEST_NAME
    canonical = host if is_name else canonical_host(host)
    on_host = index.on_host(canonical)
    alone: Decision | None = view.nothing
    if on_host.matches:
        alone = None if any(map(may_change, on_host.matches)) else view.decide(on_host.matches)
    has_filters = index.has_general_filters or on_host.bits & FILTERED != 0
    tunnelled = None if is_name else tunnelled_ipv4(canonical)
    readers: tuple[HostReader, ...] = ()
    for reading in readings:
        reader = reading.of_host(canonical)
        if reader is not None and (reader.has_inner or _has_rules(index, reader.hosts_of_names)):
            readers += (reader,)  # of a name, a rule has to fit a path below its host
    decision = None if on_host.suffixes or has_filters or index.has_uris or tunnelled or readers else alone
    if decision is not None and view.has_blocks and view.blocks.touches(canonical, own_categories(decision)):
        decision = None
    return KnownHost(
        view, canonical, on_host, alone, decision, tunnelled, readers, is_name=is_name, has_filters=has_filters
    )


def _has_rules(index: Index, hosts: Iterable[bytes] | None) -> bool:
    """Whether there are rules for paths below one of some hosts; ``None``: any."""
    return hosts is None or any(index.on_host(name).suffixes for name in hosts)


def stops(matches: Iterable[Match]) -> bool:
    """Whether a match stops a request, or may by its category."""
    return any(match.rule.terms.action in BY_CATEGORY for match in matches)


def may_change(match: Match) -> bool:
    """Whether a match may count at one moment, and not at another."""
    return match.rule.terms.expires is not None or match.rule.terms.confirmer != ""
