"""A site that is blocked, by services that show it: nothing of it reaches them, and the page names both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.policies import write_list, write_policy
from e2e.proxy import Proxy, read_answer
from e2e.test_blocking import Page
from e2e.test_tunnels import ask, is_the_origin_s, records, tls_over
from e2e.test_unblock import folder, unlock

__all__ = ("folder",)

CARRIER = "https://translate.google.com/translate?sl=auto&u=https%3A%2F%2Fads.test%2Fnews"


@pytest.mark.parametrize("http2", [False, True])
def test_the_page_names_the_address_and_what_carries_it(proxy: Proxy, origin: Origin, http2: bool) -> None:
    with origin.watch() as arrived, proxy.client(http2=http2) as client:
        blocked = client.get(CARRIER)
        passed = client.get(CARRIER.replace("ads.test", "good.test"))
    page = Page(blocked.text).words
    assert blocked.status_code == 403
    assert "https://ads.test/news" in page
    assert CARRIER in page
    assert passed.text == "from the origin"
    assert [(request.host, b"good.test" in request.target) for request in arrived.requests] == [
        ("translate.google.com", True)
    ]


@pytest.mark.parametrize("how", ["where-needed", "never"])
def test_a_tunnel_to_a_host_that_stands_for_a_blocked_one_carries_nothing(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    write_list(folder / "rules.yaml", "ads.test")
    policy = write_policy(folder, ["rules.yaml"], decrypt=how, log={"folder": "log", "what": "all"})
    proxy = start(policy=policy)
    with (
        origin.watch() as arrived,
        tls_over(proxy.tunnel("good-test.translate.goog", 443), "good-test.translate.goog") as tls,
    ):
        assert is_the_origin_s(tls) is (how == "never")  # where it is needed, what is at the address is looked at
        assert b"from the origin" in ask(tls, "good-test.translate.goog", "/")
    assert len(arrived.requests) == 1
    with origin.watch() as arrived:
        for name in ("ads-test.translate.goog", "www-ads-test.translate.goog"):
            if how == "never":
                with proxy.connect() as connection:
                    connection.sendall(f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
                    assert read_answer(connection, "CONNECT").status == 403
            else:
                with tls_over(proxy.tunnel(name, 443), name) as tls:
                    assert b"from the origin" not in ask(tls, name, "/news?_x_tr_tl=de")
    assert (arrived.connections, arrived.requests) == (0, [])
    proxy.stop()
    told = [(record["action"], record["url"], record.get("via")) for record in records(policy)]
    assert ("block", "ads.test") in {(action, url.split("/")[2]) for action, url, _ in told}
    assert {via for action, _, via in told if action == "block"} == {
        "inside ads-test.translate.goog",
        "inside www-ads-test.translate.goog",
    }


@pytest.mark.parametrize("url", [CARRIER, "https://ads-test.translate.goog/;a/news?_x_tr_tl=de"])
def test_what_is_unblocked_is_unblocked_wherever_it_is_carried(
    start: Callable[..., Proxy], origin: Origin, folder: Path, url: str
) -> None:
    write_list(folder / "rules.yaml", "ads.test")
    proxy = start(policy=folder / "policy.yaml")
    with origin.watch() as arrived, proxy.client() as client:
        before = client.get("https://ads.test/news").status_code, client.get(CARRIER).status_code
        unlocked = unlock(client, url)
        assert before == (403, 403)
        assert (unlocked.status_code, unlocked.headers["location"]) == (303, "/" + url.split("/", 3)[3])
        after = [client.get(own).text for own in ("https://ads.test/news", CARRIER)]
    assert after == ["from the origin"] * 2
    assert [request.target.startswith(b"/.well-known") for request in arrived.requests] == [False, False]
