"""The ordinary requests that a new list is tried by."""

from __future__ import annotations

import pytest

from hushlist.core.url.request import request_of
from hushlist.extensions.subscriptions.ordinary_requests import ordinary_requests


def test_a_page_asks_for_itself_and_each_other_kind_is_asked_for_by_another_site_now_and_then() -> None:
    third_parties, kinds = dict[str, int](), dict[str, int]()
    for request in ordinary_requests():
        kinds[request.kind] = kinds.get(request.kind, 0) + 1
        is_own = request.page.encode() in request_of(request.url).hosts
        third_parties[request.kind] = third_parties.get(request.kind, 0) + (not is_own)
    assert third_parties.pop("document") == 0
    del kinds["document"]
    for kind, all_of_kind in kinds.items():
        assert third_parties[kind] == pytest.approx(all_of_kind / 3, abs=all_of_kind / 20)
