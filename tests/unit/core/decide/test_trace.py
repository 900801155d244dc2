"""The steps from a URL to its decision, as data."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.decide.trace import LayerAsked, trace
from hushlist.core.errors import UrlError
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import NOBODY
from support.policies import write_policy

NOW = datetime(2026, 12, 24, 22, 30, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    files = {
        "own.yaml": "rules: [{expression: a.example/fine, action: allow}]",
        "list.yaml": "title: Games\nrules: [a.example]",
    }
    own = "{name: own, checks: {encoded-nul: block}, lists: [own.yaml]}"
    return load_engine(write_policy(tmp_path, f"layers: [{own}, {{name: lists, lists: [list.yaml]}}]", files))


def test_it_has_every_step_to_the_layer_that_decides(engine: Engine) -> None:
    found = trace(engine, b"http://www.A.example/%67ames#x", NOW, NOBODY)
    assert found.steps[0][1] == b"http://www.A.example/%67ames"
    assert found.steps[-1] == ("canonicalize_host", b"http://www.a.example/games")
    assert [form.url for form in found.forms] == [b"http://www.a.example/games"]
    assert found.forms[0].expressions[-1][0] == b"a.example/"
    assert found.decision.action is Action.BLOCK
    assert found.layers == (LayerAsked("own", 2, 0, False), LayerAsked("lists", 1, 1, True))
    assert (found.group, found.mode, found.until) == ("default", "block", None)


def test_it_can_be_written_as_json(engine: Engine) -> None:
    plain = json.loads(json.dumps(trace(engine, b"http://a.example/\xff", NOW, NOBODY).as_dict()))
    assert plain["url"] == "http://a.example/\\xff"
    assert plain["decision"]["winner"]["title"] == "Games"
    assert plain["forms"][0]["url"] == "http://a.example/%FF"
    assert len(plain["forms"][0]["expressions"][0]["sha256"]) == 64


def test_of_what_is_too_long_no_step_is_made(engine: Engine) -> None:
    found = trace(engine, b"http://www.a.example/" + b"%2e%2e/" * (1 << 20), NOW, NOBODY)
    assert (found.steps, found.forms) == ((), ())
    assert found.decision.action is Action.BLOCK
    assert len(json.dumps(found.as_dict())) < 10_000


def test_what_cannot_be_read_at_all_is_an_error(engine: Engine) -> None:
    with pytest.raises(UrlError):
        trace(engine, b"mailto:me", NOW, NOBODY)
