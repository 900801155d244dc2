"""Parts of extensions: which are called, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from mitmproxy import http

from hushlist.core import extension
from hushlist.core.decide.decision import Decision, Judgement, LogRecord
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.verdict import NO_BLOCKS, Blocks
from hushlist.core.extension import Extension, Notice
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.policy.groups import NOBODY
from hushlist.core.policy.policy_file import Layer, Policy
from hushlist.core.url.request import request_of
from hushlist.extensions.dashboard.metrics import metrics
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.parts import Metric, Part
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.health import is_ready, why_unready
from support.engines import index_of
from support.flows import flow_of

#: what was called, in its order
CALLS: list[str] = []
POLICY, ONE, NOTHING = (
    Policy("policy.yaml", (Layer("lists"),), extensions=names) for names in (("first", "second"), ("first",), ())
)
BLOCKED = Rule(parse_expression("a.example/"), Terms(Action.BLOCK, "own", "own", layer="lists"), 1)


class Verdict:
    """Warns of what is blocked, and allows what is warned of."""

    def blocks_at(self, now: float) -> Blocks:
        return NO_BLOCKS

    def after(
        self, decision: Decision, blocks: Blocks, host: bytes, client_names: Sequence[str], now: float
    ) -> Decision:
        return decision._replace(action=Action.ALLOW if decision.action is Action.WARN else Action.WARN)


class First(Part):
    """Has each of the roles beside requests."""

    def __init__(self, runtime: Runtime, _: object) -> None:
        self.log = self

    def load(self) -> None:
        CALLS.append("load")

    def running(self) -> None:
        CALLS.append("running")

    def prepare(self, policy: Policy) -> Verdict:
        return Verdict()

    def follow(self, policy: Policy) -> None:
        CALLS.append("follow")

    def judged(self, judgement: Judgement, *, may_warn: bool) -> Judgement:
        CALLS.append(f"judged, may warn: {may_warn}")
        return judgement._replace(decision=judgement.decision._replace(group="judged"))

    def reference(self, moment: float) -> str:
        return "number 1"

    def write(self, record: LogRecord) -> None:
        CALLS.append(f"logged {record.reference}")

    def send(self, notice: Notice) -> None:
        CALLS.append(notice.title)

    def metrics(self) -> Iterator[Metric]:
        yield Metric("bets_total", "Bets.", [(("horse",), 3)], ("kind",))

    def faults(self) -> Iterator[str]:
        yield "no bets: the disk is full"

    def warnings(self) -> Iterator[str]:
        yield "no bets"

    def why_unready(self) -> str:
        return "the bank is closed"


class Second(First):
    """Has a verdict, too, and says the same; it has nothing to do with requests."""

    def is_idle(self, *, is_needed: bool) -> bool:
        return True


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """A proxy whose policies name extensions of these parts."""
    kinds = {name: Extension(name, part=f"{__name__}:{name.title()}") for name in ("first", "second")}
    monkeypatch.setattr(extension, "extension_named", kinds.__getitem__)
    runtime = Runtime()
    runtime.parts.follow(NOTHING)
    CALLS.clear()
    return runtime


def use(runtime: Runtime, policy: Policy = POLICY) -> Engine:
    engine = Engine(policy, index_of([BLOCKED]), None, *runtime.parts.prepare(policy))
    runtime.use(engine, None)
    return engine


def test_a_part_that_comes_later_has_the_moments_that_were_before_once(runtime: Runtime) -> None:
    runtime.parts.begin("load")
    runtime.parts.begin("running")
    assert CALLS == []
    use(runtime, ONE)
    assert CALLS == ["load", "running", "follow"]
    use(runtime, NOTHING)
    use(runtime)
    assert CALLS[3:] == ["follow", "load", "running", "follow"]


def test_each_verdict_has_its_say_on_what_those_before_it_have_made(runtime: Runtime) -> None:
    url = b"http://a.example/"
    assert [use(runtime, policy).decide_url(url).action for policy in (NOTHING, ONE, POLICY)] == [
        *(Action.BLOCK, Action.WARN, Action.ALLOW),
    ]


def test_what_is_decided_goes_through_the_parts_that_are_not_idle(runtime: Runtime) -> None:
    use(runtime)
    CALLS.clear()
    request = request_of(b"http://a.example/")
    for more in ({}, {"goes_on": True}, {"is_lookup": True}):
        judgement = runtime.judge(request, NOBODY, **more)
        assert judgement is not None
    assert CALLS == ["judged, may warn: True", "judged, may warn: False"]
    assert judgement.decision.group != "judged"
    assert runtime.record(judgement, "GET").reference == "number 1"
    assert CALLS[2:] == ["logged number 1"]


def test_a_decision_has_no_reference_without_a_log_and_one_about_a_recording_is_for_no_part(runtime: Runtime) -> None:
    use(runtime, NOTHING)
    noted = list[LogRecord]()
    runtime.parts.noted = (noted.append,)
    judgement = runtime.judge(request_of(b"http://a.example/"), NOBODY)
    assert judgement is not None
    for is_live in (True, False):
        assert runtime.record(judgement, "GET", is_live=is_live).reference is None
    assert [record.reference for record in noted] == [""]


def test_what_parts_say_is_told_once_where_it_belongs(runtime: Runtime) -> None:
    use(runtime)
    assert why_unready(runtime) == "the bank is closed"
    assert is_ready(runtime).warnings.count("no bets") == 1
    assert runtime.status().count("no bets: the disk is full") == 1
    runtime.engine = None
    assert 'hushlist_bets_total{kind="horse"} 3' in metrics(runtime).splitlines()
    CALLS.clear()
    runtime.notify(Notice("a title", "a message"))
    assert CALLS == ["a title"] * 2


def test_the_policy_before_stays_if_a_part_cannot_follow(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = use(runtime)

    def fail(part: Part, policy: Policy) -> None:
        raise OSError("odd")

    monkeypatch.setattr(Second, "follow", fail)
    with pytest.raises(OSError, match="odd"):
        use(runtime, Policy("other.yaml", (), extensions=("first", "second")))
    assert runtime.engine is engine


class Everywhere(Part):
    """Is asked of every request."""

    def answer(self, flow: http.HTTPFlow) -> None:
        CALLS.append(type(self).__name__)


class Somewhere(Everywhere):
    """Is asked for its targets."""

    targets = (b"/own/", b"/own?")


class Last(Everywhere):
    """Comes behind the others."""


def test_a_part_with_targets_is_asked_for_these_alone_and_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("everywhere", "somewhere", "last")
    kinds = {name: Extension(name, part=f"{__name__}:{name.title()}") for name in names}
    hushlist = Hushlist()
    monkeypatch.setattr(extension, "extension_named", kinds.__getitem__)
    hushlist.parts.follow(Policy("policy.yaml", (), extensions=names))
    hushlist.runtime.mode = "off"
    every, others = ["Everywhere", "Somewhere", "Last"], ["Everywhere", "Last"]
    for path, asked in (("/own/x", every), ("/own?x", every), ("/own", others), ("/x/own/", others)):
        CALLS.clear()
        hushlist.requestheaders(flow_of(f"http://h.example{path}"))
        assert asked == CALLS
