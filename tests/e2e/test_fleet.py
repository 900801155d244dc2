"""Several workers behind HAProxy, as examples/fleet has them: to clients they are one proxy."""

from __future__ import annotations

import hashlib
import html
import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from urllib.parse import urlencode, urljoin

import pytest
import yaml

from documentation import FLEET, blocks
from e2e.haproxy import BALANCER, CONFIGURATION, HAPROXY, Balancer, haproxy, wait_until
from e2e.origin import LOOPBACK, PATIENCE, Origin, free_ports
from e2e.policies import stored, write_list, write_policy
from e2e.preloaded import start_hushlist
from e2e.proxy import Answer, Proxy, mitmdump, read_answer, request_head
from hushlist.extensions.databases.postgres_address import PostgresAddress
from postgres import GROUP

pytestmark = [
    pytest.mark.skipif(not HAPROXY, reason="there is no haproxy"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 on loopback"),
    pytest.mark.xdist_group("fleet"),
]

PASSPHRASE = "open sesame"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    write_list(folder / "games.yaml", "games.test/", "other-games.test/")
    write_list(folder / "ads.yaml", "ads.test/")
    policy = {
        "groups": [
            {"name": "pupils", "clients": ["127.0.1.0/24"], "unblock": {"passphrase": stored(PASSPHRASE)}},
            {"name": "teachers", "clients": ["127.0.2.0/24"], "layers": ["ads"]},
        ],
        "layers": [{"name": "games", "lists": ["games.yaml"]}, {"name": "ads", "lists": ["ads.yaml"]}],
    }
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return folder / "policy.yaml"


@pytest.fixture(scope="module")
def health() -> list[int]:
    """The ports at which the workers say how they are."""
    return free_ports(2)


@pytest.fixture(scope="module")
def workers(
    tmp_path_factory: pytest.TempPathFactory, origin: Origin, policy: Path, health: list[int]
) -> Iterator[list[Proxy]]:
    """Two of one user: with one certificate authority, one index and one store."""
    folder = tmp_path_factory.mktemp("home")
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield [
            running.enter_context(
                mitmdump(
                    folder,
                    origin,
                    policy=policy,
                    options={"hushlist_proxy_protocol": BALANCER, "hushlist_health": f"{LOOPBACK}:{port}"},
                )
            )
            for port in health
        ]


@pytest.fixture(scope="module")
def balancer(tmp_path_factory: pytest.TempPathFactory, workers: list[Proxy], health: list[int]) -> Iterator[Balancer]:
    ports = [(worker.port, own) for worker, own in zip(workers, health, strict=True)]
    with haproxy(tmp_path_factory.mktemp("haproxy"), ports) as running:
        yield running


def send(port: int, octets: bytes, source: str | None = None) -> Answer:
    """Send octets to a port from an address of loopback, and read one answer."""
    with socket.create_connection((LOOPBACK, port), PATIENCE, (source, 0) if source else None) as connection:
        connection.sendall(octets)
        return read_answer(connection)


def head(host: str) -> bytes:
    return request_head(b"http://%s/" % host.encode(), host.encode())


def handed_on(client: str) -> bytes:
    """What the balancer says of a client."""
    return b"PROXY TCP4 %s 127.0.0.1 50000 8080\r\n" % client.encode()


def test_the_example_s_workers_believe_the_example_s_haproxy() -> None:
    (command,) = blocks(FLEET, "sh")
    assert f"--set hushlist_proxy_protocol={BALANCER} " in command
    assert "regular@127.0.0.1:18081" in command
    assert "hushlist_health=127.0.0.1:18091" in command
    assert "127.0.0.1:18081 port 18091" in CONFIGURATION.read_text(encoding="utf-8")
    assert f"source {BALANCER} send-proxy-v2" in CONFIGURATION.read_text(encoding="utf-8")


# -- clients -----------------------------------------------------------------------------------------------------------


def test_a_client_is_in_its_group_by_its_own_address_at_each_worker(balancer: Balancer) -> None:
    for number in range(1, 9):
        assert send(balancer.port, head("games.test"), f"127.0.1.{number}").status == 403
        assert send(balancer.port, head("games.test"), f"127.0.2.{number}").status == 200
        assert send(balancer.port, head("ads.test"), f"127.0.2.{number}").status == 403
    rows = [row.split(",") for row in balancer.ask("show stat").splitlines() if row.startswith("workers,worker")]
    assert all(int(row[7]) > 0 for row in rows), rows  # the connections that each has had


def test_no_name_leads_a_client_back_to_a_proxy_of_the_machine(balancer: Balancer, workers: list[Proxy]) -> None:
    """Who comes from there is the machine itself, which sees the live page."""

    def led(port: int) -> list[int]:
        head = request_head(b"http://self.test:%d/metrics" % port, b"hushlist.internal")
        own = handed_on("127.0.1.7") + head
        return [send(balancer.port, head, "127.0.1.7").status, send(workers[0].port, own, BALANCER).status]

    assert send(workers[1].port, request_head(b"http://hushlist.internal/metrics", b"hushlist.internal")).status == 200
    assert led(balancer.port) == [502, 502]
    wait_until(lambda: led(workers[1].port)[1] == 502)  # in some seconds, each knows of the other


def test_the_log_of_the_proxy_names_the_client(balancer: Balancer, workers: list[Proxy]) -> None:
    assert send(balancer.port, head("games.test"), "127.0.1.77").status == 403
    wait_until(lambda: any("127.0.1.77" in worker.log.text() for worker in workers))


def test_https_through_either_worker_is_by_one_authority(workers: list[Proxy]) -> None:
    trusting = workers[0].tls()
    for worker in workers:
        with socket.create_connection((LOOPBACK, worker.port), PATIENCE, (BALANCER, 0)) as connection:
            connection.sendall(handed_on("127.0.1.7") + b"CONNECT games.test:443 HTTP/1.1\r\n\r\n")
            assert read_answer(connection, "CONNECT").status == 200
            with trusting.wrap_socket(connection, server_hostname="games.test") as tunnel:
                assert isinstance(tunnel, ssl.SSLSocket)
                tunnel.sendall(request_head(b"/", b"games.test"))
                assert read_answer(tunnel).status == 403


def test_both_workers_have_one_index_in_memory(workers: list[Proxy], tmp_path: Path) -> None:
    def mapped(pid: int) -> set[str]:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
        # device, inode and path of what is below the cache
        return {line.split(maxsplit=3)[3] for line in lines if "/cache/hushlist/" in line}

    first, second = (mapped(worker.process.pid) for worker in workers)
    assert first == second != set()


# -- who is believed ---------------------------------------------------------------------------------------------------


def test_the_balancer_is_believed_and_nobody_else(workers: list[Proxy], origin: Origin) -> None:
    port = workers[0].port
    assert send(port, handed_on("127.0.1.7") + head("games.test"), BALANCER).status == 403
    assert send(port, handed_on("127.0.2.7") + head("games.test"), BALANCER).status == 200
    with origin.watch() as arrived:
        assert send(port, handed_on("127.0.2.7") + head("games.test"), "127.0.1.7").status == 400  # it is no HTTP
        assert send(port, head("games.test"), "127.0.1.7").status == 403  # who comes without the balancer is served
    assert arrived.connections == 0


@pytest.mark.parametrize(
    "octets",
    [head("fine.test"), b"PROXY UNKNOWN\r\n" + head("fine.test"), b"PROXY TCP4 a b 1 2\r\n" + head("fine.test"), b"PR"],
)
def test_the_balancer_has_to_say_who_asks(workers: list[Proxy], origin: Origin, octets: bytes) -> None:
    connection = socket.create_connection((LOOPBACK, workers[0].port), PATIENCE, (BALANCER, 0))
    with origin.watch() as arrived, connection:
        connection.sendall(octets)
        connection.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError):
            read_answer(connection)
    assert arrived.connections == 0


def test_a_public_address_is_refused_as_without_a_balancer(workers: list[Proxy]) -> None:
    with pytest.raises(ConnectionError):
        send(workers[0].port, handed_on("8.8.8.8") + head("fine.test"), BALANCER)
    workers[0].log.wait_for(r"8\.8\.8\.8 killed by block_global")


# -- one state ---------------------------------------------------------------------------------------------------------


def unlock(worker: Proxy, client: str, host: str) -> None:
    """Give the passphrase to the page that a worker shows to a client."""
    page = send(
        worker.port, handed_on(client) + head(host).replace(b"\r\n\r\n", b"\r\nAccept: text/html\r\n\r\n"), BALANCER
    )
    assert page.status == 403
    text = page.body.decode()
    action, token = re.search(r'action="([^"]*)"', text), re.search(r'name="token" value="([^"]*)"', text)
    assert action
    assert token
    form = urlencode({"token": token[1], "passphrase": PASSPHRASE, "scope": "host", "minutes": "15"}).encode()
    target = urljoin(f"http://{host}/", html.unescape(action[1])).encode()
    headers = [b"Content-Type: application/x-www-form-urlencoded", b"Content-Length: %d" % len(form)]
    request = request_head(target, host.encode(), method=b"POST", headers=headers)
    assert send(worker.port, handed_on(client) + request + form, BALANCER).status == 303


def test_a_grant_at_one_worker_holds_at_the_other(workers: list[Proxy], origin: Origin) -> None:
    first, second = workers
    octets = handed_on("127.0.1.9") + head("other-games.test")
    assert send(second.port, octets, BALANCER).status == 403
    unlock(first, "127.0.1.9", "other-games.test")
    start = monotonic()
    wait_until(lambda: send(second.port, octets, BALANCER).status == 200)
    print(f"after {monotonic() - start:.3f} s")
    assert send(second.port, handed_on("127.0.1.8") + head("other-games.test"), BALANCER).status == 403


def test_a_worker_with_another_policy_is_named_by_command_page_and_metrics(
    tmp_path: Path, origin: Origin, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("state", "cache"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    other = policy.with_name("other.yaml")
    other.write_text(policy.read_text(encoding="utf-8") + "log: off\n", encoding="utf-8")
    with ExitStack() as running:
        first, second = (running.enter_context(mitmdump(tmp_path, origin, policy=policy)) for _ in range(2))
        wait_until(lambda: (code_and_lines := status(tmp_path))[0] == 0 and len(code_and_lines[1]) == 2)
        with mitmdump(tmp_path, origin, policy=other) as odd:
            wait_until(lambda: len(status(tmp_path)[1]) == 4)  # with a line about the odd one
            code, lines = status(tmp_path)
            assert code == 1
            place = next(number for number, line in enumerate(lines) if f":{odd.port}  " in line)
            digests = [hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in (other, policy)]
            assert lines[place + 1] == f"  another policy than the others: {digests[0]}, and not {digests[1]}"
            ports = {str(one.port): one is odd for one in (first, second, odd)}
            wait_until(lambda: troubled(first) == ports)
            headers = {"x-hushlist": "1"}
            seen = first.get("http://hushlist.internal/api/v1/live", headers).json()["fleet"]
            assert {one["name"].rpartition(":")[2]: bool(one["troubles"]) for one in seen} == ports
        assert len(status(tmp_path)[1]) == 2  # it has left
        second.process.kill()
        wait_until(lambda: second.process.poll() is not None)
        assert len(status(tmp_path)[1]) == 2  # it could not say so: in a minute and a half, it counts as gone


@GROUP
@pytest.mark.thorough
def test_proxies_of_several_machines_are_known_by_their_database(
    tmp_path: Path, origin: Origin, database: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_list(tmp_path / "rules.yaml", "ads.test/")
    policy = write_policy(tmp_path, ["rules.yaml"], store=database.url)
    with ExitStack() as running:
        for name in ("one", "two"):  # as on two machines, they have no file in common
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name / "state"))
            (tmp_path / name).mkdir()
            running.enter_context(mitmdump(tmp_path / name, origin, policy=policy))
        wait_until(lambda: len(status(tmp_path, "--policy", str(policy))[1]) == 2)
        assert status(tmp_path, "--policy", str(policy))[0] == 0
        assert not [*tmp_path.rglob("fleet.sqlite")]
    code, (line,) = status(tmp_path, "--policy", str(policy))
    assert (code, line.startswith("no proxy has said anything in postgresql://")) == (1, True)


def status(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """What ``hushlist fleet`` says of the workers with this home."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    process = start_hushlist(["fleet", "status", *arguments], folder, environment)
    with process.stdout as printed:
        lines = printed.read().splitlines()
    return process.wait(PATIENCE), lines


def troubled(worker: Proxy) -> dict[str, bool]:
    """By port, what the metrics of a worker tell of all."""
    text = worker.get("http://hushlist.internal/metrics").text
    found = re.findall(r'^hushlist_fleet_proxy_troubled\{proxy="[^"]*:(\d+)"\} (\d)$', text, re.MULTILINE)
    return {port: value == "1" for port, value in found}
