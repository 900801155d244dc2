"""What anybody logs is one line that steers nothing; a name of SOCKS that none has is refused before it is used."""

import io
import logging
from collections.abc import Iterator

import pytest
from mitmproxy.addons.termlog import TermLogHandler
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import modes
from mitmproxy.test import tflow

from hushlist.core.errors import Lines, logger_of
from hushlist.proxy.addon import Hushlist
from hushlist.proxy.bounds.bounded_input import bound_input
from support.mitmproxied import mitmproxied
from unit.proxy.test_printable import FORGED, assert_printable

OURS = logger_of("hushlist.test_printable_log")
OTHERS = logging.getLogger("others.test_printable_log")
MODES = logging.getLogger("mitmproxy.proxy.mode_servers")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What mitmproxy's handler writes to the terminal."""
    bound_input()
    out = io.StringIO()
    with monkeypatch.context() as own:
        own.delenv("PYTEST_CURRENT_TEST", raising=False)  # else it would take nothing once the test has begun
        handler = TermLogHandler(out)
    for logger in (OURS, OTHERS, MODES):
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    yield out
    for logger in (OURS, OTHERS, MODES):
        logger.removeHandler(handler)


def test_what_others_log_is_one_line(written: io.StringIO) -> None:
    OTHERS.info(f"server connect {FORGED}")  # as mitmproxy and its addons do
    OTHERS.info("%s, %r", FORGED, FORGED)
    OTHERS.info("%(name)s", {"name": FORGED})
    OTHERS.info("100 %")
    OTHERS.info("über 100 %%")
    lines = written.getvalue().splitlines()
    assert len(lines) == 5
    assert_printable(*lines)
    assert lines[3].endswith("100 %")
    assert lines[4].endswith("über 100 %%")


def test_lines_that_are_meant_stay(written: io.StringIO) -> None:
    OURS.error("hushlist: the change is not used:\n%s", Lines("a:1: x\x1b[2J\x07\nb:2: c"))
    OURS.error("hushlist: %s", FORGED)
    MODES.info("---\n[Interface]\nPrivateKey = x\x1b\n---")  # of a WireGuard client, as mitmproxy tells it
    texts = written.getvalue().split("\n")
    assert_printable(*texts)
    assert texts[0].endswith("hushlist: the change is not used:")
    assert "b:2: c" in texts
    assert texts[-4:] == ["[Interface]", r"PrivateKey = x\x1b", "---", ""]


@pytest.mark.parametrize("logger", [OURS, OTHERS], ids=["ours", "others"])
def test_a_traceback_keeps_its_lines_and_none_begins_as_a_message(written: io.StringIO, logger: logging.Logger) -> None:
    try:
        raise ValueError(FORGED)  # noqa: TRY301
    except ValueError:
        logger.exception("it failed: %s", FORGED)
    first, *others = written.getvalue().rstrip("\n").split("\n")
    assert_printable(first, *others)
    assert first.startswith("[")
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in others)
    assert any("test_printable_log.py" in line for line in others)


@pytest.fixture
def socks() -> Iterator[modes.Socks5Proxy]:
    with mitmproxied(Hushlist()) as context:
        yield modes.Socks5Proxy(Context(tflow.tclient_conn(), context.options))


def commands_of(proxy: modes.Socks5Proxy, *pieces: bytes) -> list[commands.Command]:
    """What the layer does as these arrive, until it would connect."""
    found = list(proxy.handle_event(events.Start()))
    for piece in pieces:
        found += proxy.handle_event(events.DataReceived(proxy.context.client, piece))
    return found


@pytest.mark.parametrize("name", [b"a\nb.test", b"a\x1b[2J.test", b"a\0", b"a b", b"\x7f.test", b"\rx"])
def test_a_name_of_socks_that_none_has_is_refused(socks: modes.Socks5Proxy, name: bytes) -> None:
    greeting, asked = b"\x05\x01\x00", b"\x05\x01\x00\x03" + bytes((len(name),)) + name + b"\0\x50"
    found = commands_of(socks, greeting, *(asked[at : at + 1] for at in range(len(asked))))
    (log,) = [one for one in found if isinstance(one, commands.Log)]
    assert log.message.startswith("The name that a SOCKS5 request asks for has an octet that none has: b")
    assert log.message.isprintable()
    assert [one.data for one in found if isinstance(one, commands.SendData)][-1][:2] == b"\x05\x04"
    assert any(isinstance(one, commands.CloseConnection) for one in found)
    assert socks.context.server.address is None
