"""A real mitmdump whose list keeps itself up to date, from a real HTTPS server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.policies import write_policy
from e2e.proxy import Proxy, eventually, run_mitmdump
from hushlist.extensions.safe_browsing.threat_list_update import server_store
from hushlist.extensions.subscriptions.list_update import subscribed_lists
from hushlist.extensions.subscriptions.subscription import SubscribedList
from support.https_origin import HttpsOrigin, Page

Start = Callable[..., Proxy]
HTML = b"<!DOCTYPE html>\n<html><body>Sorry</body></html>\n"


@pytest.fixture
def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with HttpsOrigin(tmp_path / "publisher") as publisher:
        monkeypatch.setenv("SSL_CERT_FILE", str(publisher.authority))
        publisher.pages["/list"] = Page(b"first.test\n")
        yield publisher


def policy_of(folder: Path, publisher: HttpsOrigin, **more: Any) -> Path:
    return write_policy(folder, [{"url": f"{publisher.url}/list", "format": "domains", **more}])


def make_due(policy: Path, *urls: str) -> list[SubscribedList]:
    """As if the time of the next try had come, for lists whose URLs begin so; by default, for all."""
    due = [own for own in subscribed_lists(policy) if own.subscription.url.startswith(urls or "")]
    for own in due:
        stores = [own.store]
        if own.subscription.server is not None:
            stores.append(server_store(policy, own.subscription.server.service))
        for store in stores:
            with store.locked():
                store.note(next_try=1.0)
    return due


def is_blocked(proxy: Proxy, host: str) -> bool:
    return proxy.get(f"http://{host}/").status_code == 403


def test_a_list_is_fetched_before_the_first_request_and_updates_itself(
    start: Start, tmp_path: Path, publisher: HttpsOrigin
) -> None:
    policy = policy_of(tmp_path, publisher)
    proxy = start(policy=policy)
    url = f"{publisher.url}/list"
    proxy.log.wait_for(f"hushlist: {url}: updated \\+1 -0 lines")
    assert is_blocked(proxy, "first.test")
    assert not is_blocked(proxy, "second.test")
    assert len(publisher.requests) == 1

    publisher.pages["/list"] = Page(b"second.test\n")
    make_due(policy)
    proxy.log.wait_for(f"hushlist: {url}: updated \\+1 -1 lines")
    assert eventually(lambda: is_blocked(proxy, "second.test") and not is_blocked(proxy, "first.test"))


def test_what_goes_wrong_leaves_the_last_good_list_in_force_and_is_told(
    start: Start, tmp_path: Path, publisher: HttpsOrigin
) -> None:
    policy = policy_of(tmp_path, publisher)
    proxy = start(policy=policy)
    publisher.pages["/list"] = Page(HTML)
    make_due(policy)
    proxy.log.wait_for("list: held back: it cannot be read: line 1: the file begins as a web page does")
    assert is_blocked(proxy, "first.test")
    held = f'hushlist_list_held_back{{file="{publisher.url}/list"}} 1'
    assert eventually(lambda: held in proxy.get("http://hushlist.internal/metrics").text)
    metrics = proxy.get("http://hushlist.internal/metrics").text
    assert f'hushlist_list_failing{{file="{publisher.url}/list"}} 0' in metrics


def test_without_a_copy_the_proxy_ends_with_the_reason(tmp_path: Path, publisher: HttpsOrigin) -> None:
    publisher.pages.clear()
    (tmp_path / "mitmdump").mkdir()
    done = run_mitmdump(tmp_path / "mitmdump", "-n", policy=policy_of(tmp_path, publisher))
    assert done.returncode == 1
    assert "there is no copy of it yet, and fetching it failed: the server says 404 Not Found" in done.stdout


def test_an_optional_list_is_fetched_while_requests_pass(start: Start, tmp_path: Path, publisher: HttpsOrigin) -> None:
    publisher.pages["/list"] = Page(b"", 503)
    policy = policy_of(tmp_path, publisher, optional="true")
    proxy = start(policy=policy)
    assert not is_blocked(proxy, "first.test")
    proxy.log.wait_for("list: failed: the server says 503 Service Unavailable")
    publisher.pages["/list"] = Page(b"first.test\n")
    done = subprocess.run(
        [sys.executable, "-m", "hushlist", "update", "--policy", str(policy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"updated    {publisher.url}/list  +1 -0 lines\n", done.stderr
    assert eventually(lambda: is_blocked(proxy, "first.test"))
