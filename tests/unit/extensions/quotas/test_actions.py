"""What administrators do at the live page with quotas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hushlist.proxy.addon import Hushlist
from support.administrators import Browser, browser, use

__all__ = ["browser", "use"]

pytestmark = pytest.mark.usefixtures("own_folders")


def test_a_quota_is_extended_and_that_is_undone(hushlist: Hushlist, use: Callable[..., Path], browser: Browser) -> None:
    use("groups: [{name: kids, clients: [10.0.1.0/24]}]\nquotas: {'hrn://c.example/ads': 30}")

    def limit(client: str) -> int:
        return int(browser.call("GET", f"/client?client={client}")[1]["quotas"][0]["limit"])

    assert browser.sign_in("anna") == 200
    for client, changed in (("10.0.1.7", (40, 30)), ("group:kids", (40, 30)), ("everybody", (40, 40))):
        body = {"category": "hrn://c.example/ads", "minutes": 10, "client": client}
        status, done = browser.call("POST", "/extensions", body)
        assert status == 200, done
        assert (limit("10.0.1.7"), limit("10.0.0.7")) == changed
        assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 200
        assert (limit("10.0.1.7"), limit("10.0.0.7")) == (30, 30)
        assert browser.call("POST", f"/record/{done['recorded']}/undo", {})[0] == 400
        assert browser.recorded()[:2] == ["undid", "extended a quota"]
    assert browser.call("POST", "/extensions", {"category": "ads", "minutes": 10})[0] == 400
    assert browser.call("POST", "/extensions", {"category": "hrn://c.example/ads", "minutes": 10081})[0] == 400
