"""Decides DNS questions that mitmproxy is asked as a DNS server, or sees on their way to one.

A name is blocked if its whole host is blocked. If a rule is about a path of the host, or warns only, the name is
resolved, and the HTTP request is decided later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from struct import error as StructError  # noqa: N812
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import addonmanager, ctx, dns
from mitmproxy.flow import Error
from mitmproxy.net.dns import classes, response_codes, types
from mitmproxy.proxy.mode_specs import DnsMode, RegularMode, Socks5Mode, UpstreamMode, WireGuardMode

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import logger_of
from hushlist.core.match.rule import Action, Anything
from hushlist.core.policy.groups import Client
from hushlist.core.policy.proxy_settings import NameAnswers
from hushlist.core.url.http_head import Naming
from hushlist.core.url.parts import to_bytes
from hushlist.core.url.request import Request
from hushlist.proxy import flow_outcome
from hushlist.proxy.connections.alternative_services import read_service_record
from hushlist.proxy.flow_request import client_of_flow, hosts_of_name, naming_of, request_of_question
from hushlist.proxy.hook_calls import begin
from hushlist.proxy.object_patches import put_on
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: modes in which a client itself asks for a tunnel, to any port
TUNNELLING = (RegularMode, Socks5Mode, UpstreamMode)
#: addresses of the resolver that mitmproxy is in WireGuard mode
_OWN_RESOLVER = ("10.0.0.53", 53)
#: time to live of answers made here, in seconds: short, so that an unblocked site can be used soon
TTL = 10
#: names by which software asks whether it may bypass the network's own resolver: only "no such name" means that it
#: may not (support.mozilla.org, Canary domain; developer.apple.com, Prepare your network for iCloud Private Relay)
_CANARIES = frozenset(("use-application-dns.net", "mask.icloud.com", "mask-h2.icloud.com"))
#: "authentic data", one of the three bits that mitmproxy keeps as reserved (RFC 4035, 3.2.3)
_AUTHENTIC = 0b010


class DnsQueries:
    """Decides names, and carries decisions out; if anything fails here, the answer is a failure."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: the answers made here
        self._answers: WeakKeyDictionary[dns.DNSFlow, dns.Message] = WeakKeyDictionary()
        #: flows whose name a rule allows, wherever it leads
        self._allowed: WeakKeyDictionary[dns.DNSFlow, bool] = WeakKeyDictionary()

    def ask(self, flow: dns.DNSFlow) -> Awaitable[None] | None:
        """mitmproxy's hook ``dns_request``."""
        return begin(self._ask(flow))

    def answer(self, flow: dns.DNSFlow) -> Awaitable[None] | None:
        """mitmproxy's hook ``dns_response``."""
        return begin(self._answer(flow))

    async def _ask(self, flow: dns.DNSFlow) -> None:
        """Decide a question before it is answered.

        In a tunnel no question is decided: a tunnel carries HTTP or nothing, and mitmproxy would take one to port 53 or
        5353 for DNS.
        """
        if isinstance(flow.client_conn.proxy_mode, TUNNELLING):
            if self._runtime.mode == "block" and flow.killable:
                flow.kill()
            return
        try:
            self._forget_stale(flow)
            if self._runtime.mode == "off":
                return
            client, server = client_of_flow(flow), _server_of(flow)
            judgement = await self._judge(request_of_question(flow.request), client)
            if judgement is None:
                return
            no_server = None if server is None else await self._judge_further(server, client)
            self._allowed[flow] = judgement.decision.action is Action.ALLOW
            self._act(flow, no_server or judgement, refused=bool(no_server))
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=self._is_answered(flow))

    async def _answer(self, flow: dns.DNSFlow) -> None:
        """Decide the names and addresses in an answer; then remove records that would lead past the filter."""
        response = flow.response
        if response is None or self._is_answered(flow) or not flow.live:
            return
        if isinstance(flow.client_conn.proxy_mode, TUNNELLING):
            return
        try:
            client = client_of_flow(flow)
            if self._runtime.settings(client).mode == "off":
                return
            await _take_out(response)
            # An answer to an earlier question with the same number is not about the allowed name.
            if self._allowed.get(flow) and response.questions == flow.request.questions:
                return
            for number, hosts in enumerate(dict.fromkeys(_leads_to(response))):
                await _let_others(number)
                judgement = await self._judge_further(Request(b"dns", hosts, 53, b"/"), client)
                if judgement is not None:
                    self._act(flow, judgement)
                    return
            await self._check_leads(flow, response, client)
        except Exception as error:
            self._runtime.failure_policy.act(flow, error, is_blocked=self._is_answered(flow))

    async def _check_leads(self, flow: dns.DNSFlow, response: dns.Message, client: Client) -> None:
        """Have the checks look at where an answer leads, with the name that was asked for."""
        engine = self._runtime.engine
        if engine is None or not engine.checks_leads:
            return
        request, leads = request_of_question(flow.request), [host for hosts in _leads_to(response) for host in hosts]
        for start in range(0, len(leads), _IN_A_ROW):
            judgement = await self._judge(request._replace(leads=tuple(leads[start : start + _IN_A_ROW])), client)
            if judgement is not None and judgement.stops:
                self._act(flow, judgement)
                return
            await asyncio.sleep(0)

    def _is_answered(self, flow: dns.DNSFlow) -> bool:
        """Whether a question has an answer that was made here."""
        return flow.response is not None and self._answers.get(flow) is flow.response

    def _forget_stale(self, flow: dns.DNSFlow) -> None:
        """Have a question answered again: mitmproxy takes a question with a used number for the earlier question."""
        response = flow.response
        if flow.live and response is not None:
            is_stale = response.questions != flow.request.questions
            flow.response = None if is_stale or self._is_answered(flow) else response

    async def _judge(self, request: Request, client: Client) -> Judgement | None:
        """The judgement of the names as whole hosts; ``None`` while the filter is off for the client."""
        judgement = await self._runtime.confirmed(self._runtime.judge(request, client, is_lookup=True), is_lookup=True)
        engine = self._runtime.engine
        if judgement is None or engine is None:
            return judgement
        decision = judgement.decision
        if request.hosts == (b"",) and request.fault is None:
            decision = engine.view(client).nothing.of(request)  # the root is not a host, so no rule can be about it
        may_be_part = decision.action is Action.BLOCK and decision.fault is None
        # last: a message that is no question has thousands of names
        is_part = may_be_part and any(engine.hosts.allows_below(host, client) for host in request.hosts)
        if decision.action is Action.WARN or is_part:
            decision = decision._replace(action=Action.PASS, winner=None)
        return judgement._replace(decision=decision)

    async def _judge_further(self, request: Request, client: Client) -> Judgement | None:
        """The judgement of a name server, or of where an answer leads, if a rule blocks it.

        A block by the default action does not count: an allowed name may lead to names that no rule allows.
        """
        judgement = await self._judge(request, client)
        if judgement is None or judgement.decision.action is not Action.BLOCK:
            return None
        winner = judgement.decision.winner
        return None if winner is not None and isinstance(winner.rule.pattern, Anything) else judgement

    def _act(self, flow: dns.DNSFlow, judgement: Judgement, *, refused: bool = False) -> None:
        """Answer a blocked question, and log a decision; ``refused``: refuse it, whatever the policy's DNS setting."""
        if judgement.stops and flow.live:
            engine = self._runtime.engine
            answers = NameAnswers() if engine is None else engine.policy.name_answers
            refused = refused or judgement.decision.fault is not None
            self._answers[flow] = flow.response = _blocked(flow.request, answers, refused=refused)
        method = f"DNS {' '.join(types.to_str(question.type) for question in flow.request.questions[:4])}".rstrip()
        flow_outcome.annotate(flow, self._runtime.record(judgement, method, is_live=flow.live))


def _is_own_resolver(flow: dns.DNSFlow) -> bool:
    """Whether a question is for mitmproxy's own resolver, which WireGuard clients use."""
    return isinstance(flow.client_conn.proxy_mode, WireGuardMode) and flow.server_conn.address == _OWN_RESOLVER


def _server_of(flow: dns.DNSFlow) -> Request | None:
    """The server that a client asks by address, before mitmproxy connects to it; ``None`` if it named none."""
    server, mode = flow.server_conn, flow.client_conn.proxy_mode
    if server.address is None or server.connected or naming_of(mode) is not Naming.ADDRESS:
        return None
    if _is_own_resolver(flow):
        return None
    return Request(b"dns", (to_bytes(server.address[0]),), server.address[1], b"/")


async def ask_name_server(resolver: Any, flow: dns.DNSFlow) -> None:
    """Send a decided question for mitmproxy itself on to a name server, as ``dns_request`` of mitmproxy's resolver.

    That one returns addresses only, not the names that led to them; and it reads "\\" in a name as an escape. It is
    asked only while the filter is off.
    """
    is_own = isinstance(flow.client_conn.proxy_mode, DnsMode) or _is_own_resolver(flow)
    if ctx.options.hushlist_mode == "off":
        await type(resolver).dns_request(resolver, flow)
    elif is_own and flow.live and flow.response is None and flow.error is None:
        servers = resolver.name_servers()
        if servers:
            flow.server_conn.address = (servers[0], 53)
        else:
            flow.error = Error("no name server is known: set dns_name_servers")


def ask_filter_first(addons: addonmanager.AddonManager) -> None:
    """Ask name servers only after the scripts, the filter among them, have run.

    mitmproxy's own resolver is before them, and would ask first. The list is replaced, since a loop may be using the
    old one.
    """
    resolver = addons.get("dnsresolver")
    if resolver in addons.chain:
        # no addon around it: mitmproxy looks for every hook in every addon, which is slow where attributes are computed
        put_on(resolver, "dns_request", partial(ask_name_server, resolver))
        addons.chain = [*(addon for addon in addons.chain if addon is not resolver), resolver]


def _blocked(request: dns.Message, answers: NameAnswers, *, refused: bool) -> dns.Message:
    """The answer that replaces another: addresses if the client asks for them, and no other data."""
    question = request.question
    is_canary = question is not None and question.name.lower() in _CANARIES
    if question is None or refused or (answers.refused and not is_canary):
        return request.fail(response_codes.REFUSED)
    if is_canary or not answers.addresses:
        return request.fail(response_codes.NXDOMAIN)
    wanted = {types.A: 4, types.AAAA: 6}.get(question.type) if question.class_ == classes.IN else None
    addresses = [address.packed for address in answers.addresses if address.version == wanted]
    records = [dns.ResourceRecord(question.name, question.type, question.class_, TTL, data) for data in addresses]
    return request.succeed(records)


#: records that lead a client to another name or address
_LEADING = (types.A, types.AAAA, types.CNAME, types.DNAME, types.SVCB, types.HTTPS)


#: records of an answer that are looked at in a row: one may have thousands, and everybody else would wait
_IN_A_ROW = 64


async def _let_others(number: int) -> None:
    """Let others have their turn, at every so-manieth record."""
    if number % _IN_A_ROW == _IN_A_ROW - 1:
        await asyncio.sleep(0)


async def _take_out(response: dns.Message) -> None:
    """Remove ECH and HTTP/3 from HTTPS and SVCB records; remove unreadable records that would lead on."""
    for section in (response.answers, response.authorities, response.additionals):
        before = [(record, record.data) for record in section]
        kept = []
        for number, record in enumerate(section):
            await _let_others(number)
            if _is_kept(record):
                kept.append(record)
        section[:] = kept
        if before != [(record, record.data) for record in section]:
            response.reserved &= ~_AUTHENTIC


def _is_kept(record: dns.ResourceRecord) -> bool:
    """Whether a record stays; removes from it what must not stay."""
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
    """The names and addresses that the client would go on with, each as hosts.

    The owner names of such records count, too: they may differ from the name in the question.
    """
    for record in (*response.answers, *response.additionals):
        if record.type in _LEADING:
            yield tuple(hosts_of_name(record.name))
            yield from _targets(record)


def _targets(record: dns.ResourceRecord) -> Iterator[tuple[bytes, ...]]:
    """Where a record leads.

    Raises:
            ValueError: the record cannot be read; ``struct.error`` means the same.
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
