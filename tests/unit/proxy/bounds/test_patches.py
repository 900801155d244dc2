"""Each name of mitmproxy that is replaced or wrapped is there, and it is noticed where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from pathlib import Path

import pytest

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.bounds import bounded_input
from hushlist.proxy.bounds.bounded_input import PATCHES, Patch, bound_input, not_taken
from hushlist.proxy.dashboard.metrics import metrics
from hushlist.proxy.service.health import is_ready
from unit.mitmproxied import mitmproxied

PLACES = sorted({patch.place: patch for patch in PATCHES}.items())


@pytest.fixture(autouse=True)
def _bounded() -> None:
    bound_input()


def test_all_are_taken_and_each_says_why() -> None:
    assert not_taken() == []
    assert [patch.place for patch in PATCHES if len(patch.why) < 20] == []


@pytest.fixture(params=[patch for _, patch in PLACES], ids=[place for place, _ in PLACES])
def undone(request: pytest.FixtureRequest) -> Iterator[Patch]:
    """Somebody has put another thing in the place of ours."""
    patch: Patch = request.param
    ours = getattr_static(patch.owner, patch.name)
    setattr(patch.owner, patch.name, object())
    yield patch
    setattr(patch.owner, patch.name, ours)


def test_one_that_is_undone_is_noticed(undone: Patch) -> None:
    assert not_taken() == [undone.place]


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two names are none of this mitmproxy, one that is replaced and one that is wrapped."""
    two = [next(patch for patch in PATCHES if patch.wraps is wraps) for wraps in (False, True)]
    lacking = [patch._replace(owner=type("Other", (), {})) for patch in two]
    monkeypatch.setattr(bounded_input, "MISSED", lacking)
    return [patch.place for patch in lacking]


def test_a_mitmproxy_that_lacks_names_is_told_of(
    tmp_path: Path, lacking: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    hushlist = Hushlist()
    with mitmproxied(hushlist, _policy_of(tmp_path, "")):
        (warning,) = is_ready(hushlist.runtime).warnings
        assert warning.endswith(", ".join(lacking))
        assert "hushlist_patches_missing 2\n" in metrics(hushlist.runtime)
    assert ", ".join(lacking) in caplog.text


def _policy_of(folder: Path, more: str) -> Path:
    (folder / "rules.yaml").write_text("rules:\n- ads.test/\n")
    policy = folder / "policy.yaml"
    policy.write_text(f"{more}layers:\n- {{name: lists, lists: [rules.yaml]}}\n")
    return policy


@pytest.mark.parametrize(
    ("more", "is_error"), [("", False), ("require-patches: off\n", False), ("require-patches: on\n", True)]
)
def test_a_policy_may_refuse_the_start(
    tmp_path: Path, lacking: list[str], more: str, is_error: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with mitmproxied(Hushlist(), _policy_of(tmp_path, more)):
        pass
    levels = {record.levelname for record in caplog.records if lacking[0] in record.getMessage()}
    assert levels == ({"ERROR"} if is_error else {"WARNING"})


def test_a_name_that_is_missing_is_found_when_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = type("Owner", (), {})
    for patches in ("TAKEN", "MISSED"):
        monkeypatch.setattr(bounded_input, patches, type(getattr(bounded_input, patches))())
    monkeypatch.setattr(bounded_input, "PATCHES", (Patch(owner, "there_is_none", object(), wraps=False),))
    bound_input()
    assert [place.rpartition(".")[2] for place in not_taken()] == ["there_is_none"]
    assert not hasattr(owner, "there_is_none")
