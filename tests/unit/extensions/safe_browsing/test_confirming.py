"""Decisions where a prefix fits: what counts, what is asked, and what is decided while nobody answers."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import wait
from dataclasses import replace
from threading import Event, Semaphore

import pytest

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import FetchError
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action, Expression, ExpressionHash, Rule, Terms
from hushlist.core.policy.groups import GroupSettings
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.policy.scheduled_action import ScheduledAction
from hushlist.core.url.request import Request, StatedContext, request_of
from hushlist.extensions.safe_browsing.confirmations import Confirmations, FullHashes, Question, Search, Threat
from hushlist.extensions.safe_browsing.threat_lists import GOOGLE, SafeBrowsing, ThreatList
from support.engines import index_of

PHISHING, MALWARE = "hrn://a.example/phishing", "hrn://a.example/malware"
SERVICE = SafeBrowsing(
    5, "https://lists.example", ("mw-4b",), "", (("SOCIAL_ENGINEERING", PHISHING), ("MALWARE", MALWARE))
)
TERMS = Terms(Action.BLOCK, "mw-4b", "https://lists.example/v5/hashList/mw-4b", layer="lists", category=MALWARE)
BAD, PATH, ODD = b"bad.example/", b"site.example/bad/", b"odd.example/"
OVER = Terms(Action.BLOCK, "own", "own.yaml", layer="overrides")


class Server:
    """Knows the full hashes of some expressions; each question is in ``asked``."""

    def __init__(self, **threats: Threat) -> None:
        self.threats: dict[bytes, tuple[Threat, ...]] = {}
        self.questions: list[tuple[bytes, ...]] = []
        self.is_there, self.now = True, 1000.0

    def put(self, expression: bytes, *threats: Threat) -> None:
        self.threats[full_hash(expression)] = threats

    def __call__(self, _: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        self.questions.append(tuple(prefixes))
        if not self.is_there:
            raise FetchError("the server says 503")
        found = {own: threats for own, threats in self.threats.items() if own.startswith(tuple(prefixes))}
        return FullHashes(found, 300.0)


@pytest.fixture
def server() -> Server:
    server = Server()
    server.put(BAD, Threat("MALWARE", 300.0))
    server.put(PATH, Threat("MALWARE", 300.0))
    return server


def engine(
    server: Server,
    *others: Rule,
    service: SafeBrowsing = SERVICE,
    name: str = "all-4b",
    waits: bool = True,
    search: Search | None = None,
    **settings: object,
) -> Engine:
    named = ThreatList(service, name)
    terms = TERMS._replace(confirmer=named.key)
    rules = [Rule(ExpressionHash(full_hash(own)[:4]), terms, at) for at, own in enumerate((BAD, PATH, ODD), 1)]
    policy = Policy(
        "policy.yaml",
        (Layer("overrides"), Layer("lists")),
        settings=GroupSettings(**settings),  # type: ignore[arg-type]
        confirmers={named.key: named},
    )
    index = index_of([*(rule for rule in others), *rules])
    known = Confirmations(search or server, lambda: server.now, lambda: 0.0, lambda: server.now)
    return Engine(policy, index, confirmations=known, waits=waits)


@pytest.mark.parametrize("url", [b"http://bad.example/x", b"https://www.bad.example/", b"https://site.example/bad/a?b"])
def test_what_the_server_confirms_is_blocked(server: Server, url: bytes) -> None:
    decision = engine(server).decide_url(url)
    assert decision.action is Action.BLOCK
    assert decision.unconfirmed == ()
    assert str(decision).endswith("confirmed as MALWARE by https://lists.example at 1970-01-01 00:16:40 UTC)")
    assert decision.winner is not None
    assert decision.winner.confirmed_by == "https://lists.example"


def test_what_it_denies_passes_as_if_there_were_no_rule(server: Server) -> None:
    own = engine(server)
    assert own.decide_url(b"http://odd.example/") == own.decide_url(b"http://odd.example/")
    decision = own.decide_url(b"http://odd.example/")
    assert (decision.action, decision.matches) == (Action.PASS, ())
    assert server.questions == [(full_hash(ODD)[:4],)]


@pytest.mark.parametrize("blocks", [False, True])
def test_without_an_answer_the_policy_says_what_is_done(server: Server, *, blocks: bool) -> None:
    server.is_there = False
    own = engine(server, service=replace(SERVICE, blocks_unanswered=blocks))
    for url in (b"http://bad.example/", b"http://odd.example/"):
        decision = own.decide_url(url)
        assert decision.action is (Action.BLOCK if blocks else Action.PASS)
        assert len(decision.unconfirmed) == 1
        assert ("nobody has confirmed it" in str(decision)) is blocks
        assert (decision.winner is not None and decision.winner.confirmed_by == "") is blocks
    assert len(server.questions) == 1  # then it is left alone
    assert own.decide_url(b"http://good.example/").action is Action.PASS


@pytest.mark.parametrize("blocks", [False, True])
def test_an_engine_that_does_not_wait_names_what_it_would_ask(server: Server, *, blocks: bool) -> None:
    service = replace(SERVICE, blocks_unanswered=blocks)
    decision = engine(server, service=service, waits=False).decide_url(b"http://bad.example/")
    assert decision.action is (Action.BLOCK if blocks else Action.PASS)
    assert [(own.service, own.prefix, own.full_hash) for own in decision.unconfirmed] == [
        (service, full_hash(BAD)[:4], full_hash(BAD))
    ]
    assert server.questions == []


def test_what_can_change_nothing_is_not_asked(server: Server) -> None:
    allow = Rule(Expression(BAD), OVER._replace(action=Action.ALLOW), 1)
    own = engine(server, allow, Rule(Expression(PATH), OVER, 2))
    assert own.decide_url(b"http://bad.example/").action is Action.ALLOW
    assert own.decide_url(b"http://site.example/bad/").action is Action.BLOCK
    assert server.questions == []


def passing(*categories: str) -> dict[str, ScheduledAction]:
    return {category: ScheduledAction(Action.PASS, "policy.yaml", 1) for category in categories}


@pytest.mark.parametrize("blocks", [False, True])
def test_what_may_be_of_any_category_is_asked_if_one_is_blocked(server: Server, *, blocks: bool) -> None:
    server.put(BAD, Threat("SOCIAL_ENGINEERING", 300.0))
    service = replace(SERVICE, blocks_unanswered=blocks)
    own = engine(server, service=service, categories=passing(MALWARE))
    assert own.decide_url(b"http://bad.example/").action is Action.BLOCK
    server.is_there, server.now = False, server.now + 300
    assert own.decide_url(b"http://bad.example/").action is (Action.BLOCK if blocks else Action.PASS)


def flooded(server: Server, client: str) -> tuple[Engine, Event]:
    """An engine whose client has asked for more than its share, and what lets the server answer."""
    may_answer, has_come = Event(), Semaphore(0)

    def search(service: SafeBrowsing, prefixes: Collection[bytes]) -> FullHashes:
        has_come.release()
        assert may_answer.wait(60)
        return server(service, prefixes)

    own = engine(server, waits=False, search=search)
    known, service = own.confirmations, replace(SERVICE)
    assert known is not None
    for number in range(4):
        known.ask_soon([Question(service, b"%4d" % number, bytes(32))])
        assert has_come.acquire(timeout=60)
    for number in range(100):
        known.ask_soon([Question(service, b"x%3d" % number, bytes(32))], client)
    return own, may_answer


def test_a_flood_buys_nobody_a_pass(server: Server) -> None:
    """``no-answer: pass`` is about the server: it did not fail."""
    own, may_answer = flooded(server, "pupil")
    known, url = own.confirmations, b"http://bad.example/"
    assert known is not None
    theirs = own.decide_url(url)
    assert (theirs.action, len(theirs.unconfirmed)) == (Action.PASS, 1)  # before anybody is asked
    assert known.ask_soon(theirs.unconfirmed, "pupil") == []
    decision = own.decide(request_of(url), is_settled=True)
    assert decision.action is Action.BLOCK
    assert str(decision).endswith("it was not asked about in time, as too much was asked: https://lists.example)")
    assert own.decide(request_of(b"http://good.example/"), is_settled=True).action is Action.PASS
    mine = known.ask_soon(theirs.unconfirmed, "teacher")
    may_answer.set()
    assert not wait(mine, 60).not_done
    told = own.decide(request_of(url), is_settled=True)
    assert "confirmed as MALWARE" in str(told)
    assert (
        own.decide(request_of(b"http://odd.example/"), is_settled=True).action is Action.BLOCK
    )  # which nobody has asked about


def test_the_threat_that_is_confirmed_gives_the_category(server: Server) -> None:
    server.put(BAD, Threat("SOCIAL_ENGINEERING", 300.0))
    decision = engine(server).decide_url(b"http://bad.example/")
    assert decision.winner is not None
    assert decision.winner.rule.terms.category == PHISHING


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("document", Action.BLOCK),
        ("subdocument", Action.BLOCK),
        ("", Action.BLOCK),
        ("image", Action.PASS),
        ("websocket", Action.PASS),
        ("xmlhttprequest", Action.PASS),
    ],
)
def test_a_threat_for_frames_only_is_for_pages_and_frames(server: Server, kind: str, action: Action) -> None:
    server.put(BAD, Threat("MALWARE", 300.0, is_frame_only=True))
    own, told = engine(server), StatedContext(None, kind)
    assert own.decide_url(b"https://bad.example/a", context=told).action is action
    assert own.decide(request_of(b"https://bad.example/a", told)).action is action
    assert own.decide_host(Request(b"https", (b"bad.example",), 443, b"/")).action is Action.PASS


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ((), Action.BLOCK),
        (((b"Accept", b"text/html,*/*"),), Action.BLOCK),
        (((b"Sec-Fetch-Dest", b"iframe"),), Action.BLOCK),
        (((b"Sec-Fetch-Dest", b"image"), (b"Sec-Fetch-Dest", b"document")), Action.BLOCK),
        (((b"Sec-Fetch-Dest", b"nonsense"),), Action.BLOCK),
        (((b"Sec-Fetch-Dest", b"image"),), Action.PASS),
        (((b"Accept", b"image/avif,image/webp,*/*"),), Action.PASS),
    ],
)
def test_what_says_nothing_is_taken_for_a_frame_whatever_the_url_ends_with(
    server: Server, fields: tuple[tuple[bytes, bytes], ...], action: Action
) -> None:
    """A site chooses the path, and browsers send no ``Sec-Fetch-Dest`` over http."""
    server.put(BAD, Threat("MALWARE", 300.0, is_frame_only=True))
    request = Request(b"http", (b"bad.example",), 80, b"/page.png", fields=fields)
    assert engine(server).decide(request).action is action


def test_google_is_asked_for_pages_alone(server: Server) -> None:
    own = engine(server, service=replace(SERVICE, server=GOOGLE))
    assert own.decide_url(b"https://bad.example/a.js", context=StatedContext(None, "script")).action is Action.PASS
    assert own.decide_host(Request(b"https", (b"bad.example",), 443, b"/")).action is Action.PASS
    assert server.questions == []
    assert own.decide_url(b"https://bad.example/a", context=StatedContext(None, "document")).action is Action.BLOCK


def test_a_connection_is_decided_by_prefixes_of_whole_hosts(server: Server) -> None:
    own = engine(server)
    assert own.decide_host(Request(b"https", (b"www.bad.example",), 443, b"/")).action is Action.BLOCK
    assert own.decide_host(Request(b"https", (b"site.example",), 443, b"/")).action is Action.PASS
    assert server.questions == [(full_hash(BAD)[:4],)]
    assert own.why_decrypt(Request(b"https", (b"site.example",), 443, b"/")) == (
        "rules in layer lists may be of paths on any host"
    )


def test_no_cache_of_an_engine_outlives_a_verdict(server: Server) -> None:
    own = engine(server)
    assert own.decide_plain(b"bad.example") is None
    assert own.decide_plain(b"good.example") is None
    assert not own.is_timeless
    assert own.decide_url(b"http://bad.example/").action is Action.BLOCK
    server.threats.clear()
    server.now += 300
    assert own.decide_url(b"http://bad.example/").action is Action.PASS
