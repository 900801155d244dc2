"""What is done with questions for names, where mitmproxy is asked them: as a DNS server, or on the way to one.

A name is blocked where its host is as a whole. Where a rule is about some path of it, or asks before it lets through,
the name is told, and HTTP decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import error as StructError  # noqa: N812
from time import perf_counter_ns
from weakref import WeakKeyDictionary

from mitmproxy import addonmanager, dns
from mitmproxy.net.dns import classes, response_codes, types
from mitmproxy.proxy.mode_specs import RegularMode, Socks5Mode, UpstreamMode, WireGuardMode

from hushlist.match.rule import Action, Anything
from hushlist.policy.decision import Decision
from hushlist.policy.groups import Client
from hushlist.policy.name_answers import NameAnswers
from hushlist.proxy import notes
from hushlist.proxy.in_force import InForce
from hushlist.proxy.service_records import read_service_record
from hushlist.proxy.wire import client_of_flow, hosts_of_name, naming_of, request_of_question
from hushlist.url.message import Naming
from hushlist.url.parts import to_bytes
from hushlist.url.request import Request

logger = logging.getLogger(__name__)

#: modes in which a client asks for a tunnel by itself, and can ask for one to any port
_TUNNELLING = (RegularMode, Socks5Mode, UpstreamMode)
#: by which mitmproxy itself is asked, with WireGuard
_OWN_RESOLVER = ("10.0.0.53", 53)
#: of the answers that are made here, in seconds: what is unblocked is there soon
TTL = 10
#: names by which software asks whether it may pass the network's own resolver: only "no such name" means that it may
#: not (support.mozilla.org, Canary domain; developer.apple.com, Prepare your network for iCloud Private Relay)
_CANARIES = frozenset(("use-application-dns.net", "mask.icloud.com", "mask-h2.icloud.com"))
#: "authentic data", in the three bits that mitmproxy keeps as reserved (RFC 4035, 3.2.3)
_AUTHENTIC = 0b010


class NameQueries:
    """Decides names, and acts; whatever fails here, the question is not answered but with a failure."""

    def __init__(self, in_force: InForce) -> None:
        self._in_force = in_force
        #: the answers that were made here
        self._own: WeakKeyDictionary[dns.DNSFlow, dns.Message] = WeakKeyDictionary()
        #: flows whose name is allowed, wherever it may lead
        self._allowed: WeakKeyDictionary[dns.DNSFlow, bool] = WeakKeyDictionary()

    def ask(self, flow: dns.DNSFlow, mode: str) -> None:
        """Decide a question before it is answered.

        In a tunnel there is none to decide: it carries HTTP or nothing, and one to port 53 or 5353 would be taken for
        DNS.
        """
        if isinstance(flow.client_conn.proxy_mode, _TUNNELLING):
            if mode == "block" and flow.killable:
                flow.kill()
            return
        try:
            self._forget_stale(flow)
            client = client_of_flow(flow)
            mode = self._in_force.settings(client).mode_under(mode)
            if mode == "off":
                return
            request, server = request_of_question(flow.request), _server_of(flow)
            start = perf_counter_ns()
            decision = self._decide(request, client)
            no_server = None if server is None else self._stopping(server, client)
            self._allowed[flow] = decision.action is Action.ALLOW
            self._act(flow, no_server or decision, client, mode, perf_counter_ns() - start, refused=bool(no_server))
        except Exception as error:
            self._in_force.failing.act(flow, error)

    def answer(self, flow: dns.DNSFlow, mode: str) -> None:
        """Decide the names and addresses that an answer leads to; then take out what leads past the filter."""
        response = flow.response
        if response is None or self._own.get(flow) is response or not flow.live:
            return
        if isinstance(flow.client_conn.proxy_mode, _TUNNELLING):
            return
        try:
            client = client_of_flow(flow)
            mode = self._in_force.settings(client).mode_under(mode)
            if mode == "off":
                return
            _take_out(response)
            # One to an earlier question with the same number is not about the name that is allowed.
            if self._allowed.get(flow) and response.questions == flow.request.questions:
                return
            start = perf_counter_ns()
            for hosts in _leads_to(response):
                decision = self._stopping(Request(b"dns", hosts, 53, b"/"), client)
                if decision is not None:
                    self._act(flow, decision, client, mode, perf_counter_ns() - start)
                    return
        except Exception as error:
            self._in_force.failing.act(flow, error)

    def _forget_stale(self, flow: dns.DNSFlow) -> None:
        """Have a question answered anew: mitmproxy takes one with the number of an earlier one for that."""
        response = flow.response
        if flow.live and response is not None:
            is_own = self._own.get(flow) is response
            if is_own or response.questions != flow.request.questions:
                flow.response = None

    def _decide(self, request: Request, client: Client) -> Decision:
        engine = self._in_force.engine
        if engine is not None and request.hosts == (b"",) and request.fault is None:
            return engine.view(client).nothing.of(request)  # the root is no host, and no rule can be about it
        decision = self._in_force.decide(request, client)
        is_whole = decision.fault is not None or not self._allows_below(request.hosts, client)
        if decision.action is Action.WARN or (decision.action is Action.BLOCK and not is_whole):
            return decision._replace(action=Action.PASS, winner=None)
        return decision

    def _stopping(self, request: Request, client: Client) -> Decision | None:
        """The decision that blocks what a question goes to or its answer leads to, if a rule does.

        What is only not allowed by name may be what an allowed name leads to.
        """
        decision = self._decide(request, client)
        is_default = decision.winner is not None and isinstance(decision.winner.rule.pattern, Anything)
        return decision if decision.action is Action.BLOCK and not is_default else None

    def _allows_below(self, hosts: tuple[bytes, ...], client: Client) -> bool:
        engine = self._in_force.engine
        return engine is not None and any(engine.allows_below(host, client=client) for host in hosts)

    def _act(
        self,
        flow: dns.DNSFlow,
        decision: Decision,
        client: Client,
        mode: str,
        duration: int,
        *,
        refused: bool = False,
    ) -> None:
        """Note a decision, and answer what it blocks; ``refused``: whatever the policy says of blocked names."""
        stops = decision.action is Action.BLOCK
        would_block = stops and mode == "tag"
        method = f"DNS {' '.join(types.to_str(question.type) for question in flow.request.questions[:4])}".rstrip()
        self._in_force.record(decision, client, method, would_block=would_block, duration=duration, is_live=flow.live)
        notes.annotate(flow, decision, would_block=would_block)
        if stops and not would_block and flow.live:
            engine = self._in_force.engine
            answers = NameAnswers() if engine is None else engine.policy.name_answers
            refused = refused or decision.fault is not None
            self._own[flow] = flow.response = _blocked(flow.request, answers, refused=refused)


def _server_of(flow: dns.DNSFlow) -> Request | None:
    """The server that a client asks by its address, before it is connected to; ``None`` where it has named none."""
    server, mode = flow.server_conn, flow.client_conn.proxy_mode
    if server.address is None or server.connected or naming_of(mode) is not Naming.ADDRESS:
        return None
    if isinstance(mode, WireGuardMode) and server.address == _OWN_RESOLVER:
        return None
    return Request(b"dns", (to_bytes(server.address[0]),), server.address[1], b"/")


def ask_filter_first(addons: addonmanager.AddonManager) -> None:
    """Let mitmproxy's own resolver come behind the scripts, among them the filter.

    It stands in front of them, and would have asked another server already. A new list takes the place of the old one,
    which may just be gone through.
    """
    resolver = addons.get("dnsresolver")
    if resolver in addons.chain:
        addons.chain = [*(addon for addon in addons.chain if addon is not resolver), resolver]


def _blocked(request: dns.Message, answers: NameAnswers, *, refused: bool) -> dns.Message:
    """The answer in place of another; addresses for who asks for these, and no data of another kind."""
    question = request.question
    is_canary = question is not None and question.name.lower() in _CANARIES
    if question is None or refused or (answers.refused and not is_canary):
        return request.fail(response_codes.REFUSED)
    if is_canary or not answers.has_addresses:
        return request.fail(response_codes.NXDOMAIN)
    records = []
    if question.class_ == classes.IN:
        if question.type == types.A and answers.ipv4 is not None:
            records = [dns.ResourceRecord.A(question.name, answers.ipv4, ttl=TTL)]
        elif question.type == types.AAAA and answers.ipv6 is not None:
            records = [dns.ResourceRecord.AAAA(question.name, answers.ipv6, ttl=TTL)]
    return request.succeed(records)


def _take_out(response: dns.Message) -> None:
    """Write HTTPS and SVCB records without ECH and HTTP/3; leave out what would lead on, and cannot be read."""
    for section in (response.answers, response.authorities, response.additionals):
        before = [(record, record.data) for record in section]
        section[:] = filter(_is_kept, section)
        if before != [(record, record.data) for record in section]:
            response.reserved &= ~_AUTHENTIC


def _is_kept(record: dns.ResourceRecord) -> bool:
    """Whether a record stays, with what of it may stay."""
    try:
        if record.type in (types.SVCB, types.HTTPS):
            filtered = read_service_record(record.data).filtered()
            if filtered is None:
                return False
            record.data = filtered.to_bytes()
        list(_targets(record))
    except (ValueError, StructError) as error:
        logger.debug("hushlist: a record is left out: %s", error)
        return False
    return True


def _leads_to(response: dns.Message) -> Iterator[tuple[bytes, ...]]:
    """The names and addresses that whoever asked would go on with, each as hosts."""
    for record in (*response.answers, *response.additionals):
        yield from _targets(record)


def _targets(record: dns.ResourceRecord) -> Iterator[tuple[bytes, ...]]:
    """Where a record leads.

    Raises:
        ValueError: it cannot be read; so does ``struct.error``.
    """
    if record.type in (types.CNAME, types.DNAME):
        yield tuple(hosts_of_name(record.domain_name))
    elif record.type == types.A:
        yield _host_of(IPv4Address(record.data))
    elif record.type == types.AAAA:
        yield _host_of(IPv6Address(record.data))
    elif record.type in (types.SVCB, types.HTTPS):
        service = read_service_record(record.data)
        if service.target:
            yield tuple(hosts_of_name(b".".join(service.target).decode("utf-8", "surrogateescape")))
        yield from map(_host_of, service.addresses)


def _host_of(address: IPv4Address | IPv6Address) -> tuple[bytes, ...]:
    return (str(address).encode() if isinstance(address, IPv4Address) else b"[%s]" % str(address).encode(),)
