"""What extensions do in a proxy: the part of each, and the moments at which the proxy calls it.

A part is made once, for the first policy that needs it (``core/policy/part_needs.py``), and lives as long as the proxy;
until then, its code is not even imported. Its class has the moments below that it needs, and nothing is called in parts
that have none; so an extension that is not in use costs a request nothing.
The moments of a request, in order: ``answer``, ``claims``, the decision, ``passed`` or ``refused``, ``take``, the
decision again if anything has changed, ``refused_body``, ``request``, ``responseheaders``. Each decision goes through
``judged``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from mitmproxy import connection, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from hushlist.core.decide.decision import Judgement, LogRecord
from hushlist.core.decide.verdict import Confirmations, Verdict, together
from hushlist.core.errors import Problem
from hushlist.core.extension import ALL_BUILT_IN, Extension, Notice, extensions_named, load
from hushlist.core.policy.groups import Client
from hushlist.core.policy.part_needs import needs_part
from hushlist.core.policy.policy_file import Policy
from hushlist.core.url.request import Request
from hushlist.proxy.page.pages import Offer, PageForm

if TYPE_CHECKING:
    from hushlist.proxy.flow_request import SelfConnections
    from hushlist.proxy.runtime import Runtime


class DecisionLog(Protocol):
    """Takes each decision; waits for nothing, and raises nothing."""

    def reference(self, moment: float) -> str:
        """The number by which a decision at a moment will be in the log."""

    def write(self, record: LogRecord) -> None:
        """Take a decision."""


class Metric(NamedTuple):
    """A figure for ``/metrics``, without ``hushlist_``: a counter if its name ends in "_total", else a gauge."""

    name: str
    #: what it is
    text: str
    #: values of the labels, and the value of the metric, if it has one
    samples: Iterable[tuple[tuple[str, ...], float | None]]
    labels: tuple[str, ...] = ()


class Part:
    """What an extension does in a proxy; a subclass has those of these moments that it needs."""

    #: hosts that the proxy itself answers for, in lower case
    hosts: frozenset[str] = frozenset()
    #: beginnings of the only targets that ``answer`` answers for, on any host; empty: it looks at every request
    targets: tuple[bytes, ...] = ()
    #: the log of decisions, as the policy in use has it
    log: DecisionLog | None = None
    #: whether nothing that is written down may name clients
    hides_clients = False
    #: what is asked about rules that only suspect
    confirmations: Confirmations | None = None

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        """``loops``: the proxy's connections to itself."""

    # -- life ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Once, when mitmproxy loads the filter."""

    def configured(self) -> None:
        """After mitmproxy's options have changed."""

    def running(self) -> None:
        """In the event loop, once mitmproxy listens."""

    def summary(self) -> str:
        """Lines for people, at the end; nothing if there is nothing to say."""
        raise NotImplementedError

    def leave(self) -> None:
        """At the end: begin to end, without waiting."""

    def close(self) -> None:
        """At the end, after ``leave`` of all: stop threads, and write all data; may wait for a moment."""

    # -- the policy ----------------------------------------------------------------------------------------------

    def prepare(self, policy: Policy) -> Verdict | None:
        """A policy was read: open what it needs, without changing what is in use; what has a say beside its rules.

        May wait, and raises nothing. Perhaps the policy is never used.
        """

    def follow(self, policy: Policy) -> None:
        """The policy is in use from now on; without waiting."""

    def is_idle(self, *, is_needed: bool) -> bool:
        """Whether there is nothing to do with requests; ``is_needed``: by the policy in use (``needs_part``)."""
        return not is_needed

    def problems(self, policy: Policy) -> Iterator[Problem]:
        """What is wrong with the policy in use that only the extension knows."""
        raise NotImplementedError

    def can_more(self, policy: Policy) -> bool:
        """Once a minute, in a thread: whether ``prepare`` can do more now for the policy in use than it could."""
        raise NotImplementedError

    # -- beside requests -----------------------------------------------------------------------------------------

    def watch(self, policy: Policy) -> None:
        """Every five seconds, in a thread of its own, which may wait."""

    def keep_up(self, policy: Policy | None) -> None:
        """Once a minute, in a thread, which may wait; also without a policy."""

    def send(self, notice: Notice) -> None:
        """Tell people who are away; without waiting."""

    def noted(self, record: LogRecord) -> None:
        """A decision was counted, and logged where there is a log; without waiting."""

    def happened(self, what: str, client: Client, about: str) -> None:
        """Something of ``HAPPENINGS`` that is no decision, by a client, about a host; without waiting."""

    def kept_files(self) -> Iterable[tuple[Path, Any]]:
        """Files of this machine that have to stay, each with its ``databases.kept_files.DatabaseKind``, if it has one.

        Raises:
            RuntimeError: the user has no home.
        """
        raise NotImplementedError

    def neighbours(self) -> Iterable[int]:
        """Ports of this machine at which other proxies of its user listen."""
        raise NotImplementedError

    def values(self) -> Iterable[object]:
        """What the functions of ``Extension.actions`` may take, by its type."""
        raise NotImplementedError

    def states(self) -> Iterable[str]:
        """What ``hushlist.status`` says of it."""
        raise NotImplementedError

    def faults(self) -> Iterable[str]:
        """What fails although requests are decided, for administrators."""
        raise NotImplementedError

    def warnings(self) -> Iterable[str]:
        """What fails, for everybody who can reach ``/readyz``: without the name of a file, list or host."""
        raise NotImplementedError

    def metrics(self) -> Iterable[Metric]:
        """Figures; labels are names of the policy or of proxies, never what clients ask for."""
        raise NotImplementedError

    def why_unready(self) -> str:
        """Why the proxy is not ready for traffic, for everybody; empty if it is."""
        raise NotImplementedError

    # -- requests ------------------------------------------------------------------------------------------------

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request's head has arrived: answer what is for the filter; it is decided if it is then still open."""
        raise NotImplementedError

    def judged(self, judgement: Judgement, *, may_warn: bool) -> Judgement:
        """What becomes of a decision; ``may_warn``: it is new, so that a page may warn of what comes."""
        raise NotImplementedError

    def claims(self, request: http.Request) -> bool:
        """Whether a request is for the filter although it goes to an origin's path: no origin may see it."""
        raise NotImplementedError

    def offer(self, request: http.Request, judgement: Judgement) -> Offer | None:
        """What the block page offers for a stopped request."""
        raise NotImplementedError

    def form(self, judgement: Judgement) -> PageForm | None:
        """A form that the block page of a stopped request has besides."""
        raise NotImplementedError

    def refused(self, flow: http.HTTPFlow, judgement: Judgement | None) -> None:
        """A request was answered with a page; ``None``: a claimed one, which the filter does not decide: answer it."""

    def passed(
        self,
        used: http.HTTPFlow | connection.Client,
        client: connection.Client,
        judgement: Judgement,
        *,
        goes_on: bool = False,
    ) -> None:
        """A request, or a connection that is not decrypted, is let through; ``goes_on``: it was before, too."""

    def change(self, flow: http.HTTPFlow, judgement: Judgement) -> bool:
        """A request is let through: change it, and say whether it was changed."""
        raise NotImplementedError

    async def look_up(self, request: Request, client: Client) -> Request:
        """The request with where its names lead: it is decided by that, too. Only where the engine ``asks_leads``."""
        raise NotImplementedError

    def server_connect(self, data: ServerConnectionHookData) -> Awaitable[None] | None:
        """mitmproxy's hook, once the proxy itself has let the connection be."""
        raise NotImplementedError

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """mitmproxy's hook, before anything is sent."""

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook."""

    async def look(self) -> None:
        """Once a second."""

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request that ``answer`` has hidden is whole, body included, and is not yet decided again: answer it."""
        raise NotImplementedError

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook, after the decision."""
        raise NotImplementedError

    def refused_body(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """mitmproxy's hook ``request``, before the parts' own, for a request that has an answer."""
        raise NotImplementedError

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """mitmproxy's hook."""


_Part = TypeVar("_Part", bound=Part)
_Answering = tuple[Callable[[http.HTTPFlow], Awaitable[None] | None], ...]


class Parts:
    """The parts of the extensions in use; an attribute a moment, with the methods to call."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        self._made, self._making = dict[str, Part](), Lock()
        self._make: Callable[[Extension], Part] = lambda extension: load(extension.part)(runtime, loops)
        self._in_use: Sequence[Part] = ()
        #: of ``load``, ``configured`` and ``running``, those that have been, and the parts that had them
        self._lived = dict[str, set[Part]]()
        self._use(self._parts_of(None))

    def _parts_of(self, policy: Policy | None) -> dict[Part, bool]:
        """The parts of a policy's ``extensions`` that it needs, or has needed before; whether it needs them.

        Raises:
            ExtensionError: a name is of none.
        """
        names = (ALL_BUILT_IN,) if policy is None else policy.extensions
        chosen = {each.name: needs_part(policy, each) for each in extensions_named(names) if each.part}
        with self._making:
            for each in extensions_named(names):
                if chosen.get(each.name) and each.name not in self._made:
                    self._made[each.name] = self._make(each)
            return {self._made[name]: is_needed for name, is_needed in chosen.items() if name in self._made}

    def prepare(self, policy: Policy) -> tuple[Verdict | None, Confirmations | None]:
        """What an engine of a policy that was read needs of its extensions; may wait."""
        parts = self._parts_of(policy)
        verdicts = filter(None, [part.prepare(policy) for part in parts])
        return together(verdicts), next((part.confirmations for part in parts if part.confirmations), None)

    def follow(self, policy: Policy) -> None:
        """Call the parts of a policy's extensions from now on, and no others.

        Raises:
            ExtensionError: a name is of none.
        """
        parts = self._parts_of(policy)
        self._in_use = list(parts)  # some look for others
        for part in parts:
            for moment, lived in self._lived.items():
                if part not in lived:
                    getattr(part, moment)()
                    lived.add(part)  # not if it failed: that is tried again, with the policy
            part.follow(policy)
        self._use(parts)

    @property
    def leave(self) -> tuple[Callable[[], None], ...]:
        """Of all that were made, perhaps for a policy that was never used."""
        return _calls(list(self._made.values()), "leave")

    @property
    def close(self) -> tuple[Callable[[], None], ...]:
        """Of all that were made."""
        return _calls(list(self._made.values()), "close")

    def begin(self, moment: str) -> None:
        """Call ``load``, ``configured`` or ``running`` of the parts in use, and of others once they are."""
        lived = self._lived.setdefault(moment, set())
        for part in self._in_use:
            lived.add(part)
            getattr(part, moment)()

    def _use(self, chosen: Mapping[Part, bool]) -> None:
        self._in_use = parts = list(chosen)
        self.log = next((part.log for part in parts if part.log is not None), None)
        self.hides_clients = any(part.hides_clients for part in parts)
        self.summary, self.problems = _calls(parts, "summary"), _calls(parts, "problems")
        self.can_more, self.watch = _calls(parts, "can_more"), _calls(parts, "watch")
        self.keep_up, self.kept_files, self.values = (_calls(parts, of) for of in ("keep_up", "kept_files", "values"))
        self.neighbours: tuple[Callable[[], Iterable[int]], ...] = _calls(parts, "neighbours")
        self.send: tuple[Callable[[Notice], None], ...] = _calls(parts, "send")
        self._messages = {of: _calls(parts, of) for of in ("states", "faults", "warnings")}
        self.metrics: tuple[Callable[[], Iterable[Metric]], ...] = _calls(parts, "metrics")
        self.why_unready: tuple[Callable[[], str], ...] = _calls(parts, "why_unready")
        self.look_up: tuple[Callable[[Request, Client], Awaitable[Request]], ...] = _calls(parts, "look_up")
        connections = ("server_connect", "server_connected")
        self.server_connect, connected = (_calls(parts, of) for of in connections)
        self.server_connected = connected[::-1]  # each takes back what it did before the connection
        self.http_connect_upstream: tuple[Callable[[http.HTTPFlow], None], ...] = _calls(parts, "http_connect_upstream")
        parts = [part for part, is_needed in chosen.items() if not part.is_idle(is_needed=is_needed)]
        self.hosts = frozenset(host for part in parts for host in part.hosts)
        self.answer: _Answering = _calls(parts, "answer")
        self.targets = tuple(target for part in parts for target in part.targets)
        self.answer_any: _Answering = _calls([part for part in parts if not part.targets], "answer")
        self.take: _Answering = _calls(parts, "take")
        self.request: _Answering = _calls(parts, "request")
        self.refused_body: _Answering = _calls(parts, "refused_body")
        self.judged: tuple[Callable[..., Judgement], ...] = _calls(parts, "judged")
        self.change: tuple[Callable[[http.HTTPFlow, Judgement], bool], ...] = _calls(parts, "change")
        self.claims: tuple[Callable[[http.Request], bool], ...] = _calls(parts, "claims")
        self.offer: tuple[Callable[[http.Request, Judgement], Offer | None], ...] = _calls(parts, "offer")
        self.form: tuple[Callable[[Judgement], PageForm | None], ...] = _calls(parts, "form")
        self.passed, self.refused, self.look = (_calls(parts, of) for of in ("passed", "refused", "look"))
        self.noted: tuple[Callable[[LogRecord], None], ...] = _calls(parts, "noted")
        self.happened: tuple[Callable[[str, Client, str], None], ...] = _calls(parts, "happened")
        self.responseheaders: tuple[Callable[[http.HTTPFlow], None], ...] = _calls(parts, "responseheaders")

    def offered(self, request: http.Request, judgement: Judgement) -> Offer | None:
        """What the page of a stopped request offers: of the first part that offers something."""
        for offer in self.offer:
            if (offered := offer(request, judgement)) is not None:
                return offered
        return None

    def messages(self, kind: str) -> Iterator[str]:
        """What the parts say: their ``states``, ``faults`` or ``warnings``, each once."""
        return iter(dict.fromkeys(words for tell in self._messages[kind] for words in tell()))

    def of(self, kind: type[_Part]) -> _Part | None:
        """The part of one class; ``None`` if its extension is not in use."""
        return next((part for part in self._in_use if isinstance(part, kind)), None)


def _calls(parts: Iterable[Part], moment: str) -> tuple[Any, ...]:
    return tuple(getattr(part, moment) for part in parts if getattr(type(part), moment) is not getattr(Part, moment))
