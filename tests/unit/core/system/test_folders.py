"""Where a user's own files are: each platform's rules."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist.core.system.files import cache_folder, state_folder
from hushlist.extensions.unblock import default_path
from unit.rows import each_row

On = Callable[[str, dict[str, str]], None]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    """Called with a platform and the variables that are set there, it makes this process believe in them."""

    def on(platform: str, variables: dict[str, str]) -> None:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Path, "home", lambda: Path("/home/jo"))
        monkeypatch.setattr(sys, "platform", platform)

    return on


@each_row(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/hushlist"),
        # "All paths set in these environment variables must be absolute. ... consider the path invalid and ignore it."
        ("linux", {"XDG_CACHE_HOME": "x/cache"}, "/home/jo/.cache/hushlist"),
        ("linux", {"XDG_CACHE_HOME": ""}, "/home/jo/.cache/hushlist"),
        ("linux", {}, "/home/jo/.cache/hushlist"),
        ("freebsd14", {}, "/home/jo/.cache/hushlist"),
        ("darwin", {"XDG_CACHE_HOME": "/x/cache"}, "/home/jo/Library/Caches/hushlist"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/hushlist"),
        ("win32", {}, "/home/jo/AppData/Local/hushlist"),
    ],
)
def test_the_cache_is_where_the_platform_has_caches(
    on: On, platform: str, variables: dict[str, str], folder: str
) -> None:
    on(platform, variables)
    assert cache_folder() == Path(folder)


@each_row(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_STATE_HOME": "/state"}, "/state/hushlist"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/home/jo/.local/state/hushlist"),
        ("linux", {}, "/home/jo/.local/state/hushlist"),
        ("darwin", {"XDG_STATE_HOME": "/state"}, "/home/jo/Library/Application Support/hushlist"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/hushlist"),
        ("win32", {}, "/home/jo/AppData/Local/hushlist"),
    ],
)
def test_the_state_folder_is_the_platform_s(on: On, platform: str, variables: dict[str, str], folder: str) -> None:
    on(platform, variables)
    assert state_folder().as_posix() == folder
    assert default_path().parent == state_folder()
