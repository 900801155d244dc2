"""Where a failure of the filter becomes what happens to a flow."""

from __future__ import annotations

import logging
import re

import pytest
from mitmproxy.flow import Flow
from mitmproxy.test import taddons, tflow

from hushlist.core.match.index_file import IndexFileError
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.proxy import failure_policy as module
from hushlist.proxy.failure_policy import FailurePolicy
from unit.rows import each_row

ERRORS = [
    (RuntimeError("broken"), FailureCause.ERROR),
    (IndexFileError("index", "it is shorter than it was"), FailureCause.INDEX),
]


@pytest.fixture(autouse=True)
def _options() -> object:
    with taddons.context() as context:
        context.options.add_option("stream_large_bodies", str | None, None, "")
        yield context
        context.master.event_loop.close()


def failure_policy(*opened: FailureCause) -> FailurePolicy:
    made = FailurePolicy()
    made.on_failure = OnFailure(frozenset(opened))
    return made


def act(made: FailurePolicy, flow: Flow, error: Exception, *, is_blocked: bool = False) -> bool:
    """Whether a flow passes a failure."""
    try:
        raise error  # noqa: TRY301  it has to have a traceback
    except Exception as raised:
        made.act(flow, raised, is_blocked=is_blocked)
    return flow.error is None and getattr(flow, "response", None) is None


def flows() -> list[Flow]:
    return [tflow.tflow(), tflow.ttcpflow(), tflow.tudpflow(), tflow.tdnsflow()]


@each_row(("error", "cause"), ERRORS)
@each_row("kind", range(4))
def test_a_flow_of_any_kind_passes_where_the_policy_says_so_and_only_there(
    error: Exception, cause: FailureCause, kind: int
) -> None:
    others = {*FailureCause} - {cause}
    assert not act(failure_policy(), flows()[kind], error)
    assert not act(failure_policy(*others), flows()[kind], error)
    assert act(failure_policy(cause), flows()[kind], error)


def test_a_request_that_is_refused_gets_an_answer_that_tells_nothing_of_it() -> None:
    flow = tflow.tflow()
    failure_policy().act(flow, RuntimeError("secret"))
    assert flow.response is not None
    assert flow.response.status_code == 403
    assert b"The filter failed" in (flow.response.content or b"")
    assert b"secret" not in (flow.response.content or b"")


def test_a_flow_is_refused_where_that_cannot_be_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    flow, made = tflow.tflow(), failure_policy()
    monkeypatch.setattr(made, "lets_pass", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.act(flow, RuntimeError("broken"))
    assert flow.response is not None


def test_neither_status_nor_log_can_be_forged_by_what_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    made = failure_policy()
    for _ in range(2):  # the second without a traceback
        act(made, tflow.tflow(), ValueError("a\n\x1b[31mhushlist: all is well"))
    assert "\n" not in made.status()
    assert "\x1b" not in made.status()
    assert "\n" not in caplog.records[-1].getMessage()
    assert "\x1b" not in caplog.records[-1].getMessage()


def test_a_traceback_is_logged_for_each_kind_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    made = failure_policy()
    caplog.set_level(logging.ERROR)
    for _ in range(3):
        act(made, tflow.tflow(), RuntimeError("one"))
    act(made, tflow.tflow(), KeyError("two"))
    now[0] = 61.0
    act(made, tflow.tflow(), RuntimeError("one"))
    assert ["Traceback" in record.getMessage() for record in caplog.records] == [True, False, False, True, True]
    assert all("the filter failed on a request, it is refused" in record.getMessage() for record in caplog.records)


def test_the_status_says_what_was_done_why_and_when() -> None:
    made = failure_policy(FailureCause.INDEX)
    assert made.status() == ""
    made.passes(FailureCause.INDEX)
    made.passes(FailureCause.ERROR, ValueError("x" * 400))
    made.passes(FailureCause.ERROR, is_blocked=True)
    status = made.status()
    assert re.fullmatch(
        r"failures: 2 by error refused, 1 by index passed undecided, "
        r"the last at [0-9-]{10} [0-9:]{8} UTC: ValueError: x{288}",
        status,
    )
    assert (made.refused, made.passed) == (2, 1)
