"""``hushlist serve-lists``: a version that cannot be kept is not published, not even in part."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from hushlist.cli import main
from hushlist.publish import list_history, list_publisher, list_server
from hushlist.publish.list_publisher import Publication


def test_what_a_full_disk_does_not_take_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "policy.yaml").write_text("layers: [{name: lists, lists: [games.domains]}]")
    (tmp_path / "games.domains").write_text("games.example\n")
    services: list[Any] = []

    def no_server(service: Any, *_: object) -> Any:
        services.append(service)
        return type("Server", (), {"listen": lambda *_: 8088, "thread": None})()

    async def once(
        _: Publication,
        read: Callable[[], Publication],
        use: Callable[[Publication], None],
        thread: Executor,
        complain: Callable[[Exception], object],
    ) -> None:
        with (tmp_path / "games.domains").open("a") as file:
            file.write("more.example\n")
        monkeypatch.setattr(list_history, "replace_file", lambda *_, **__: _full())
        with pytest.raises(OSError, match="No space left"):
            use(read())

    monkeypatch.setattr(list_server, "ListServer", no_server)
    monkeypatch.setattr(list_publisher, "keep_publishing", once)
    assert main(["serve-lists", "--policy", str(tmp_path / "policy.yaml")]) == 0
    assert "mw-4b: version 1, 1 full hash" in capsys.readouterr().out
    assert [len(own) for service in services for own in service.lists.values()] == [1, 0, 0, 0]


def _full() -> None:
    raise OSError(28, "No space left on device")
