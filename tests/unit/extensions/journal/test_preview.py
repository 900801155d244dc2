"""What a rule would have covered, by the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist.extensions.journal import preview
from hushlist.extensions.journal.journal import log_of
from hushlist.proxy.addon import Hushlist
from support.administrators import Browser, browser, decided, use

__all__ = ["browser", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")


def test_a_preview_counts_what_a_rule_would_have_covered(
    hushlist: Hushlist, use: Callable[..., Path], browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use()
    assert browser.sign_in("vera") == 200
    assert browser.call("GET", "/preview?scope=host&target=blocked.example")[0] == 400
    use(f"log: {{what: all, folder: '{tmp_path / 'log'}'}}")
    for path in ("a", "a/b", "ab", "c"):
        decided(hushlist, f"http://www.blocked.example/{path}")
    decided(hushlist, "http://fine.example/")
    for client in ("10.0.0.7", "10.0.0.9", "10.0.0.9"):
        decided(hushlist, "http://shared.example/", client)
    assert log_of(hushlist.runtime) is not None
    assert log_of(hushlist.runtime).flush(30)
    assert browser.call("GET", "/preview?scope=host&target=shared.example")[1]["clients"] == 2
    found = browser.call("GET", "/preview?scope=host&target=blocked.example")[1]
    assert (found["requests"], found["actions"], found["clients"], found["is_all"]) == (4, {"block": 4}, 1, True)
    assert found["changed"] == 0
    for query, changed in (
        ("scope=host&target=blocked.example&action=allow", 4),
        ("scope=host&target=fine.example", 1),
        ("scope=host&target=fine.example&client=10.0.0.7", 1),
        ("scope=host&target=fine.example&client=group:default", 1),
        ("scope=host&target=fine.example&client=10.0.0.8", 0),
        ("scope=host&target=fine.example&client=group:kids", 0),
        ("scope=host&target=fine.example&client=user:jo", 0),
        ("scope=category&target=hrn://c.example/ads&action=allow", 4),
        ("scope=category&target=hrn://c.example&action=allow&client=10.0.0.7", 4),
    ):
        assert browser.call("GET", f"/preview?{query}")[1]["changed"] == changed, query
    found = browser.call("GET", "/preview?scope=url&target=http://www.blocked.example/a")[1]
    assert sorted(one["url"] for one in found["addresses"]) == [
        "http://www.blocked.example/a",
        "http://www.blocked.example/a/b",
    ]
    assert [(one["action"], one["count"]) for one in found["addresses"]] == [("block", 1)] * 2
    monkeypatch.setattr(preview, "MOST_PREVIEWED", 4)
    for host, is_all in (("fine", True), ("blocked", False)):
        assert browser.call("GET", f"/preview?scope=host&target={host}.example")[1]["is_all"] is is_all
