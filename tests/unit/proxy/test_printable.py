"""Nothing that others wrote steers a terminal or begins a line: of the log, of what commands answer, or of errors."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import exceptions, http
from mitmproxy.log import MitmFormatter
from mitmproxy.test import taddons

from hushlist.core.errors import printable
from hushlist.proxy.addon import Hushlist
from support.mitmproxied import mitmproxied
from unit.extensions.unblock.test_unblock_handler import Guest

#: C0, DEL, C1, marks, overrides and isolates of direction, ends of lines and of paragraphs
FORGED = "x\nFORGED\r\tFORGED\x1b[2J\x07\x7f\x85FORGED\x9b31m\u200f\u202e\u2066\u2028FORGED\u2029FORGED"


def assert_printable(*texts: str) -> None:
    for text in texts:
        assert [line for line in text.split("\n") if not line.isprintable()] == []
        assert "\nFORGED" not in "\n" + text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / FORGED
    folder.mkdir()
    rules = [{"expression": f"{action}.example", "action": action, "reason": FORGED} for action in ("block", "warn")]
    (folder / f"{FORGED}.yaml").write_text(json.dumps({"title": FORGED, "rules": rules}))
    (folder / "own.hosts").write_bytes(b"a b " + FORGED.encode() + b"\nother.example\n")
    policy = {
        "unblock": "on",
        "groups": [{"name": FORGED, "users": [FORGED]}],
        "layers": [
            {"name": "overrides", "lists": ["own.hosts"]},
            {"name": FORGED, "lists": [{"file": f"{FORGED}.yaml", "category": "hrn://c.example/a"}]},
        ],
    }
    (folder / "policy.yaml").write_text(json.dumps(policy))
    return folder


@pytest.fixture
def context(folder: Path, hushlist: Hushlist, caplog: pytest.LogCaptureFixture) -> Iterator[taddons.context]:
    caplog.set_level(logging.DEBUG)
    with mitmproxied(hushlist, folder / "policy.yaml") as context:
        yield context


class Pupil(Guest):
    """Somebody whom ``proxyauth=any`` has let in by a name of his own."""

    def flow(self, *arguments: object, **headers: str) -> http.HTTPFlow:  # type: ignore[override]
        flow = super().flow(*arguments, **headers)  # type: ignore[arg-type]
        flow.metadata["proxyauth"] = (FORGED, "any")
        return flow


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [MitmFormatter(colorize=False).format(record) for record in caplog.records if "hushlist" in record.name]


def test_what_the_proxy_says_is_printable(
    context: taddons.context, hushlist: Hushlist, caplog: pytest.LogCaptureFixture
) -> None:
    pupil = Pupil(hushlist)
    url = "http://block.example/"
    blocked, warned, unparsable = pupil.flow(url), pupil.flow("http://warn.example/"), pupil.flow(url)
    blocked.request.data.path = b"/" + FORGED.encode()
    unparsable.request.data.host = unparsable.request.data.headers["host"] = FORGED
    for flow in (blocked, warned, unparsable):
        pupil.go(flow)
        assert_printable(flow.comment)
    pupil.page(url).send(token=FORGED, passphrase=FORGED)
    call = context.master.commands.call
    assert_printable(call("hushlist.status"), call("hushlist.explain", [blocked, warned]))
    for command in ("hushlist.allow", "hushlist.block"):
        with pytest.raises(exceptions.CommandError) as caught:
            call(command, [blocked])
        assert_printable(str(caught.value))
    for _ in range(2):  # the second without a traceback
        try:
            raise ValueError(FORGED)  # noqa: TRY301
        except ValueError as error:
            hushlist.runtime.failure_policy.act(pupil.flow(url), error)
    assert_printable(hushlist.runtime.status())
    hushlist.done()
    words = logged(caplog)
    assert_printable(*words)
    for expected in ("Traceback", "stopped by list", f"hushlist: user:{printable(FORGED)}: "):
        assert any(expected in message for message in words), expected
