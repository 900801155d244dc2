"""What the filter learns from permanent redirects of a real origin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.policies import simple_policy
from e2e.proxy import Proxy


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Blocks two folders by the names that they have with a slash."""
    return simple_policy(tmp_path / "policy", "learn.test/folder/", "learn.test/moved/", reason="A folder")


@pytest.mark.parametrize(("scheme", "http2"), [("http", False), ("https", True)])
def test_a_rule_for_a_folder_fits_its_other_name_once_the_origin_has_redirected(
    start: Callable[..., Proxy], origin: Origin, policy: Path, scheme: str, http2: bool
) -> None:
    proxy = start(policy=policy)
    with origin.watch() as arrived, proxy.client(http2=http2) as client:
        first, second = (client.get(f"{scheme}://learn.test/folder") for _ in range(2))
        moved = [client.get(f"{scheme}://learn.test/moved").status_code for _ in range(2)]
        elsewhere = client.get(f"{scheme}://other.test/folder").status_code
    assert (first.status_code, second.status_code) == (301, 403)
    assert "A folder" in second.text
    assert moved == [301, 301]
    assert elsewhere == 301
    assert [request.target for request in arrived.requests] == [b"/folder", b"/moved", b"/moved", b"/folder"]


def test_nothing_is_learned_where_that_is_turned_off(start: Callable[..., Proxy], policy: Path) -> None:
    proxy = start(policy=policy, options={"hushlist_learn": "false"})
    with proxy.client() as client:
        assert [client.get("http://learn.test/folder").status_code for _ in range(2)] == [301, 301]
