"""Servers with which TLS does not begin: what is told in the log, and on the page in their place."""

from __future__ import annotations

import asyncio
import html
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import connection, ctx, http
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.test import taddons, tflow
from mitmproxy.tls import TlsData

from hushlist.proxy.connections.server_handshakes import ServerHandshakes, Unreached
from hushlist.proxy.runtime import Runtime
from support.engines import engine_of
from support.mitmproxied import client_of
from unit.rows import each_row

UNKNOWN = "Certificate verify failed: unable to get local issuer certificate"
OTHER = "OpenSSL Error([('SSL routines', '', 'tls alert handshake failure')])"
OLD = "it speaks an old TLS, which the proxy does not"
WANTED = "it wants a certificate of the client, and the proxy shows none"


def shown(page: http.Response) -> str:
    return html.unescape(page.get_text() or "")


def unreached(
    handshakes: ServerHandshakes, error: str, *, mode: str = "block", asks: bool = False, method: str = "GET"
) -> http.Response | None:
    """The page for a request to ``old.example``, with whose server TLS does not begin."""
    handshakes._runtime.mode = mode
    flow = tflow.tflow(req=http.Request.make(method, "https://old.example/x"), client_conn=client_of())
    flow.server_conn = connection.Server(address=("old.example", 443), timestamp_tcp_setup=1.0)
    if asks:
        handshakes.asking.add(flow.server_conn)
    data = Unreached(flow, error, None)
    handshakes.unreached(data)
    return data.response


@pytest.fixture
def handshakes() -> Iterator[ServerHandshakes]:
    runtime = Runtime()
    runtime.engine = engine_of("rules: []")
    with taddons.context() as context:
        yield ServerHandshakes(runtime)
        context.master.event_loop.close()


@each_row(
    ("error", "asks", "words", "option"),
    [
        (
            UNKNOWN,
            False,
            "its certificate is signed by an authority that the proxy does not trust",
            "ssl_verify_upstream_trusted_ca=FILE",
        ),
        ("Certificate verify failed: hostname mismatch", False, "its certificate is not valid for it, or not now", ""),
        ("tlsv13 alert certificate required", False, WANTED, "client_certs=FOLDER"),
        (OTHER, True, WANTED, "client_certs=FOLDER"),
        ("peer closed connection", True, WANTED, "client_certs=FOLDER"),
        (
            "unsupported protocol",
            False,
            "it speaks an old TLS, which the proxy does not",
            "tls_version_server_min=TLS1",
        ),
        (OTHER, False, "it refuses the connection, or speaks no TLS", ""),
    ],
)
def test_why_there_is_no_tls_and_what_to_write_is_on_the_page_and_in_the_log(
    handshakes: ServerHandshakes, caplog: pytest.LogCaptureFixture, error: str, asks: bool, words: str, option: str
) -> None:
    handshakes = ServerHandshakes(handshakes._runtime)  # which says a thing once
    caplog.clear()
    caplog.set_level(logging.WARNING)
    page = unreached(handshakes, error, asks=asks)
    assert page is not None
    text = shown(page)
    assert "pass-through: ['=old.example']" in text
    assert f"--set {option}" in text if option else "--set" not in text
    error_shown = "tls alert handshake failure" if error is OTHER else error
    by_option = f"start mitmproxy with --set {option}, or " if option else ""
    assert [record.getMessage().removeprefix("hushlist: ") for record in caplog.records] == [
        f"no TLS with old.example:443: {words} ({error_shown}); {by_option}"
        "add to policy.yaml:  pass-through: ['=old.example']"
    ]


@each_row(
    ("how", "words"),
    [
        ({"error": "connection refused"}, None),  # mitmproxy's page says that
        ({"error": "unsupported protocol", "mode": "off"}, None),
        ({"error": "unsupported protocol", "method": "CONNECT"}, None),
        ({"error": "unsupported protocol"}, "an old TLS"),
        ({"error": UNKNOWN}, UNKNOWN),  # not what it was before
        ({"error": "unsupported protocol"}, "an old TLS"),
    ],
)
def test_the_page_is_for_tls_that_fails_now_and_only_while_the_filter_is_on(
    handshakes: ServerHandshakes, how: dict[str, str], words: str | None
) -> None:
    page = unreached(handshakes, **how)  # type: ignore[arg-type]
    assert (page is None) is (words is None)
    assert words is None or (page is not None and words in shown(page))


def test_a_server_to_which_nothing_was_connected_has_a_page_without_a_remedy(handshakes: ServerHandshakes) -> None:
    flow = tflow.tflow(req=http.Request.make("GET", "https://gone.example/x"), client_conn=client_of())
    flow.server_conn = connection.Server(address=("gone.example", 443))
    data = Unreached(flow, "connection refused", None)
    handshakes.unreached(data)
    assert data.response is not None
    text = shown(data.response)
    assert "connection refused" in text
    assert "pass-through" not in text


@each_row(
    ("error", "mode", "asks", "via", "words"),
    [
        ("unsupported protocol", "block", False, None, OLD),
        ("unsupported protocol", "off", False, None, None),
        ("peer closed connection", "block", False, None, None),
        ("peer closed connection", "block", True, None, WANTED),
        (UNKNOWN, "block", False, None, "an authority that the proxy does not trust"),
        ("unsupported protocol", "block", False, ("https", ("old.example", 443)), None),  # the proxy before it
        ("unsupported protocol", "block", False, ("https", ("proxy.example", 443)), OLD),
    ],
)
def test_a_server_with_which_tls_fails_is_told_in_the_log(
    handshakes: ServerHandshakes,
    caplog: pytest.LogCaptureFixture,
    error: str,
    mode: str,
    asks: bool,
    via: Any,
    words: str | None,
) -> None:
    handshakes = ServerHandshakes(handshakes._runtime)  # which says a thing once
    handshakes._runtime.mode = mode
    ctx.options.add_option("client_certs", str | None, None, "")
    caplog.clear()
    server = connection.Server(address=("old.example", 443), error=error)
    context = Context(client_of(), Options())
    context.server.via = via
    if asks:
        handshakes.asking.add(server)
    asyncio.run(handshakes.failed(TlsData(server, context)))
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(messages) == (words is not None)
    assert words is None or words in messages[0]
