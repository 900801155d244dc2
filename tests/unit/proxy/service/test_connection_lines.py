"""mitmproxy's messages about connections: warnings alone where they are not wanted; no client where none is logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import ctx
from mitmproxy.proxy.server import ConnectionHandler

from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.journal import log_writer
from hushlist.extensions.journal.log_keys import LoggedClients, LogSettings
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.connection_lines import ConnectionLines

HANDLER: Any = SimpleNamespace(client=SimpleNamespace(peername=("192.0.2.7", 1)))


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setattr(log_writer, "LogWriter", lambda _: None)
    runtime = Runtime()
    lines = ConnectionLines(runtime)
    lines.begin()
    yield runtime
    lines.end()


def logs(runtime: Runtime, clients: LoggedClients | None) -> None:
    """Use a policy whose log keeps clients so; ``None``: it has no log."""
    log = None if clients is None else LogSettings(clients=clients)
    runtime.parts.follow(Policy("policy.yaml", (), values={"log": log}))


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """The messages about a connection, each with its client."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            ConnectionHandler.log(HANDLER, logging.getLevelName(level), level)
    return [(record.getMessage(), record.__dict__["client"]) for record in caplog.records]


@pytest.mark.parametrize("clients", [None, LoggedClients.KEEP])
@pytest.mark.parametrize(("quiet", "levels"), [(False, ["DEBUG", "INFO", "WARNING"]), (True, ["DEBUG", "WARNING"])])
def test_what_is_no_warning_is_left_out_where_it_is_not_wanted(
    runtime: Runtime,
    clients: LoggedClients | None,
    quiet: bool,
    levels: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctx, "options", SimpleNamespace(hushlist_quiet=quiet), raising=False)
    logs(runtime, clients)
    assert said(caplog) == [(level, ("192.0.2.7", 1)) for level in levels]


@pytest.mark.parametrize("clients", [LoggedClients.PSEUDONYM, LoggedClients.DROP])
def test_no_client_is_named_where_the_log_keeps_none(
    runtime: Runtime, clients: LoggedClients, caplog: pytest.LogCaptureFixture
) -> None:
    logs(runtime, clients)
    assert said(caplog) == [("WARNING", None)]
