"""What is relayed undecrypted, where the policy decrypts only what a rule could need, or nothing."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.origin import Origin
from e2e.policies import sha256, write_list, write_policy
from e2e.proxy import Proxy, read_answer
from e2e.test_tunnels import arriving, ask, is_the_origin_s, records, tls_over

RULES = ("ads.test", "path.test/secret/", "query.test/?q=bad", {"expression": "fine.test", "action": "allow"})


def decrypting(folder: Path, how: str, *rules: str) -> Path:
    """A policy with rules of each kind that can be decided by a host."""
    folder.mkdir(exist_ok=True)
    write_list(folder / "rules.yaml", *RULES, *rules, {"address": "10.0.0.0/8"})
    write_list(folder / "hashes.yaml", {"sha256": sha256("hashed.test/", 8)}, covers="hosts")
    layers = ["rules.yaml"], ["hashes.yaml"]
    more = {"always-decrypt": ["cdn.test"], "log": {"folder": "log", "what": "all"}}
    return write_policy(folder, *layers, decrypt=how, **more)


@pytest.mark.parametrize("host", ["good.test", "www.fine.test"])
def test_what_no_rule_needs_shows_its_own_certificate_and_is_logged_once(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, host: str
) -> None:
    policy = decrypting(tmp_path / "own", "where-needed")
    proxy = start(policy=policy)
    with origin.watch() as arrived, tls_over(proxy.tunnel(host, 443), host) as tls:
        assert is_the_origin_s(tls)
        assert b"from the origin" in ask(tls, host, "/any/path?q=bad")
    assert len(arrived.requests) == 1
    proxy.stop()
    (record,) = records(policy)
    told = "allow" if host.endswith("fine.test") else "pass"
    assert (record["method"], record["url"], record["action"]) == ("CONNECT", f"https://{host}/", told)


def test_what_a_rule_needs_is_decrypted_and_decided_request_by_request(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    proxy = start(policy=decrypting(tmp_path / "own", "where-needed"))
    for host, path, is_blocked in (
        ("path.test", "/secret/x", True),
        ("www.path.test", "/a/..//secret/x", True),
        ("path.test", "/open", False),
        ("query.test", "/?q=bad", True),
        ("query.test", "/?q=good", False),
        ("ads.test", "/", True),
        ("www.hashed.test", "/x", True),
        ("cdn.test", "/", False),
    ):
        with origin.watch() as arrived, tls_over(proxy.tunnel(host, 443), host) as tls:
            assert not is_the_origin_s(tls), host
            answer = ask(tls, host, path)
        assert (b"from the origin" not in answer) is is_blocked, (host, path)
        assert len(arrived.requests) == (not is_blocked), (host, path)


def test_no_name_of_a_connection_hides_another_that_a_rule_needs(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    proxy = start(policy=decrypting(tmp_path / "own", "where-needed"))
    pairs = [("good.test", "path.test"), ("path.test", "good.test"), ("good.test", "www.query.test")]
    pairs += [("good.test", "ads.test"), ("ads.test", "good.test"), ("198.51.100.7", "good.test")]
    with origin.watch() as arrived:
        for target, name in pairs:
            with tls_over(proxy.tunnel(target, 443), name) as tls:
                assert not is_the_origin_s(tls), (target, name)
                assert b"from the origin" not in ask(tls, "path.test", "/secret/x"), (target, name)
        with tls_over(proxy.tunnel("198.51.100.7", 443), None) as tls:  # its Host header could name any site
            assert b"from the origin" not in ask(tls, "ads.test")
    assert arrived.requests == []


@pytest.mark.parametrize("how", ["where-needed", pytest.param("never", marks=pytest.mark.thorough)])
def test_no_way_to_begin_tls_has_a_blocked_name_relayed(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path, how: str
) -> None:
    assert arriving(start(policy=decrypting(tmp_path / "own", how)), origin, "good.test") == []


def test_where_nothing_is_decrypted_hosts_decide(start: Callable[..., Proxy], origin: Origin, tmp_path: Path) -> None:
    policy = decrypting(tmp_path / "own", "never")
    proxy = start(policy=policy)
    with origin.watch() as arrived:
        for host, path in (("good.test", "/"), ("path.test", "/secret/x"), ("cdn.test", "/")):
            with tls_over(proxy.tunnel(host, 443), host) as tls:
                assert is_the_origin_s(tls)
                assert b"from the origin" in ask(tls, host, path)
    assert len(arrived.requests) == 3
    with origin.watch() as arrived:
        for host in ("ads.test", "hashed.test", "10.1.2.3"):
            with proxy.connect() as connection:
                connection.sendall(b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % host.encode())
                assert read_answer(connection, "CONNECT").status == 403
        with pytest.raises((ssl.SSLError, ConnectionError)), tls_over(proxy.tunnel("good.test", 443), "ads.test"):
            pass
    assert arrived.connections == 0
    proxy.stop()
    assert [record["action"] for record in records(policy)] == [*["pass"] * 3, *["block"] * 4]


def test_where_no_page_is_wanted_a_blocked_connection_ends_and_what_a_rule_needs_is_decrypted(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    policy = decrypting(tmp_path / "own", "without-pages")
    proxy = start(policy=policy)
    with origin.watch() as arrived:
        with proxy.connect() as connection:
            connection.sendall(b"CONNECT ads.test:443 HTTP/1.1\r\n\r\n")
            assert read_answer(connection, "CONNECT").status == 403
        with pytest.raises((ssl.SSLError, ConnectionError)), tls_over(proxy.tunnel("good.test", 443), "ads.test"):
            pass
        with tls_over(proxy.tunnel("path.test", 443), "path.test") as tls:
            assert not is_the_origin_s(tls)
            assert b"from the origin" not in ask(tls, "path.test", "/secret/x")
    assert arrived.connections == 0
    with tls_over(proxy.tunnel("good.test", 443), "good.test") as tls:
        assert is_the_origin_s(tls)
    proxy.stop()
    assert [record["action"] for record in records(policy)] == ["block", "block", "block", "pass"]


def test_a_rule_that_comes_later_holds_for_new_connections(
    start: Callable[..., Proxy], origin: Origin, tmp_path: Path
) -> None:
    proxy = start(policy=decrypting(tmp_path / "own", "where-needed"))
    with tls_over(proxy.tunnel("good.test", 443), "good.test") as tls:
        assert is_the_origin_s(tls)
    seen = len(proxy.log)
    decrypting(tmp_path / "own", "where-needed", "good.test/new/")
    proxy.log.wait_for(r"hushlist: .*policy", seen)
    with origin.watch() as arrived, tls_over(proxy.tunnel("good.test", 443), "good.test") as tls:
        assert not is_the_origin_s(tls)
        assert b"from the origin" not in ask(tls, "good.test", "/new/x")
    assert arrived.requests == []
