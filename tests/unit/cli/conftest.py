"""The command line in this process, and a policy to ask."""

from pathlib import Path

import pytest

from unit.cli.running import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test goes by the temporary unblocks, or the log, of who runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def _one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands start no processes unless they are told to: these take longer to start than what tests have for them."""
    monkeypatch.setattr("hushlist.core.compile.worker_processes.number_of_cores", lambda: 1)
    monkeypatch.setattr("hushlist.core.system.platform.number_of_cores", lambda: 1)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.yaml").write_text("rules: [{expression: blocked.example/ok, action: allow}]")
    (tmp_path / "ads.yaml").write_text(
        "rules:\n- {expression: blocked.example, reason: Ads, category: 'hrn://c.example/ads'}\n"
        "- {expression: tagged.example, action: tag}\n"
    )
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: overrides, lists: [own.yaml]}\n- {name: lists, lists: [ads.yaml]}\n"
    )
    monkeypatch.chdir(tmp_path)
    return Path("policy.yaml")
