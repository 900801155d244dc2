"""Visits of pages as the probe tells of them, with nothing on the page but what a test puts there."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hushlist.tools.visit.signals import Visit

ADDRESS = "https://www.shop.example/a/"
_SEEN: dict[str, Any] = {
    **{key: {} for key in ("words", "content", "boxes", "controls", "pictures", "videos", "forms", "frames")},
    **{key: [] for key in ("spinners", "notices", "dialogs", "listeners", "errors", "styles", "links", "faults")},
    "screen": 0.5,
    "locked": False,
    "long": 2000,
    "height": 800,
    "width": 1280,
    "seconds": 0.5,
    "cookies": 0,
}


def visit(requests: list[dict[str, Any]] | None = None, **seen: Any) -> Visit:
    return Visit(ADDRESS, deepcopy(_SEEN) | seen, requests or [])


def request(url: str, kind: str = "script", *, stopped: bool = False, **more: Any) -> dict[str, Any]:
    rule = {"source": "/lists/ads.txt", "line": 3, "rule": "||ads.example^"}
    usual = {"method": "GET", "page": ADDRESS, "status": 200, "octets": 1000, "cookies": 0, "missing": False}
    return usual | {"url": url, "kind": kind, "stopped": stopped, "rules": [rule] if stopped else []} | more
