"""``hushlist notify test``: one notice by each channel, and what became of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from unit.cli.running import Run
from unit.extensions.notify.servers import LOOPBACK, HttpServer, listening


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


@pytest.mark.slow
def test_each_channel_gets_one_notice(run: Run, policy: Path) -> None:
    server, got = HttpServer(), policy.with_name("got")
    script = f"import pathlib, sys; pathlib.Path({str(got)!r}).write_bytes(sys.stdin.buffer.read())"
    with listening(server) as port:
        notify = [{"webhook": f"http://{LOOPBACK}:{port}/secret"}, {"command": [sys.executable, "-c", script]}]
        policy.write_text(json.dumps({"layers": [], "notify": notify}))
        assert run("notify", "test", "--policy", policy) == (
            0,
            f"sent by the webhook at {LOOPBACK}\nsent by the command {sys.executable}\n",
            "",
        )
    for octets in (server.body, got.read_bytes()):
        assert json.loads(octets)["message"] == "This is a test: notices of the filter come here."


def test_what_does_not_go_out_is_told_without_a_secret_and_the_others_follow(run: Run, policy: Path) -> None:
    server = HttpServer()
    with listening(server) as port:
        notify = [{"webhook": f"http://{LOOPBACK}:1/secret"}, {"webhook": f"http://{LOOPBACK}:{port}/"}]
        policy.write_text(json.dumps({"layers": [], "notify": notify}))
        code, out, err = run("notify", "test", "--policy", policy)
    assert (code, err) == (1, "")
    first, second = out.splitlines()
    assert first.startswith(f"not sent by the webhook at {LOOPBACK}: ")
    assert "secret" not in out
    assert second == f"sent by the webhook at {LOOPBACK}"


def test_without_a_channel_there_is_nothing_to_try(run: Run, policy: Path) -> None:
    policy.write_text("layers: []\n")
    assert run("notify", "test", "--policy", policy) == (
        2,
        "",
        f"hushlist: {policy}: it names no channel: see the key 'notify'\n",
    )
