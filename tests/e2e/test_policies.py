"""A family, a school and a company: each example as it stands, with real clients in each role and at set times.

Each row of the tables is asked of ``hushlist check``, by the addresses that the policy names, and of a real mitmdump by
a client with an address of loopback: there, the first number of each client's address is 127, and nothing else is
changed. What reaches the origin is the judge.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from html import unescape
from pathlib import Path
from shutil import copytree, which
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import pytest

from e2e.origin import LOOPBACK, Origin
from e2e.proxy import CHECKOUT, PATIENCE, Answer, Proxy, mitmdump, request_head
from e2e.tables import EXAM_PORT, ROLES, ROWS, TABLES, ZONES, Role, Row
from hushlist import cli
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.policy.groups import Client
from hushlist.extensions.unblock.overrides import Overrides
from unit.rows import each_row

EXAMPLES = CHECKOUT / "examples"
CURL = which("curl")

pytestmark = [
    pytest.mark.skipif(not CURL, reason="there is no curl on PATH"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without being told"),
    pytest.mark.xdist_group("policies"),  # one proxy of each example for all of them
]


each_example = pytest.mark.parametrize("example", TABLES)


def policy_of(example: str) -> Path:
    return EXAMPLES / example / "policy.yaml"


def last_name(category: str | None) -> str:
    return "" if category is None else category.rpartition("/")[2].replace("-", " ")


def answered(row: Row, action: str, category: str | None, until: str | None) -> tuple[str, str, str]:
    """What was answered, in the words of the tables; until when is told of what stops somebody."""
    shown = ""
    if until is not None and row.action in ("block", "warn"):
        shown = datetime.fromisoformat(until).astimezone(ZONES[row.example]).strftime("%Y-%m-%dT%H:%M")
    return action, last_name(category), shown


# -- as they stand -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@each_row("row", ROWS)
def test_check_answers_for_another_moment_and_another_person(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    address, user, port = row.role
    who = ["--client", address, *(["--user", user] if user else []), *(["--port", str(port)] if port else [])]
    policy = ["--policy", str(policy_of(row.example))]
    code = cli.main(["check", "--json", *policy, "--at", row.at, *who, f"http://{row.url}"])
    out, err = capsys.readouterr()
    answer = json.loads(out)
    winner = answer["winner"] or {"category": None, "until": None}
    assert err == ""
    assert answered(row, answer["action"], winner["category"], winner["until"]) == row[4:]
    assert code == (row.action in ("block", "warn") and row.who != "pilot")  # who only tries it out passes


@each_example
def test_an_example_compiles_without_a_warning(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compile", "--json", "--policy", str(policy_of(example))]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    report = json.loads(out)
    assert report["warnings"] == []


def test_the_examples_have_lists_of_many_kinds() -> None:
    """Of those formats that are Hushlist's, and of those that most people have."""
    layers = (layer for example in TABLES for layer in load_engine(policy_of(example)).policy.layers)
    used = {file.format for layer in layers for file in layer.lists}
    names = {name for name, form in FORMATS.items() if form in used}
    common = {
        "adblock",
        "addresses",
        "chromium",
        "csv",
        "dnsmasq",
        "domains",
        "hosts",
        "rpz",
        "squidguard-urls",
        "urls",
    }
    assert names >= common | {"hashed-uris", "sha256", "yaml"}


@pytest.mark.parametrize(
    ("example", "client", "group"),
    [
        ("family", "fd12:3456:789a::22", "mia"),
        ("family", "::ffff:192.168.1.22", "mia"),
        ("family", "192.168.1.99", "default"),
        ("school", "2001:db8:20:1::7", "pupils"),
        ("school", "2001:db8:30:1::7", "own devices"),
        ("school", "2001:db8:40:1::7", "default"),
        ("company", "2001:db8:77::9", "guests"),
        ("company", "2001:db8:8::9", "servers"),
        ("company", "2001:db8:9::9", "default"),
    ],
)
def test_a_group_is_found_by_a_network_of_either_family(example: str, client: str, group: str) -> None:
    assert load_engine(policy_of(example)).view(Client(client)).group.name == group


# -- end to end --------------------------------------------------------------------------------------------------------


class Running(NamedTuple):
    """An example's proxy, at whose clock the tests turn."""

    proxy: Proxy
    #: the address at which the exam room asks
    room: str
    #: the folder for state
    state: Path

    def set_clock(self, row_or_moment: Row | str) -> None:
        moment = row_or_moment if isinstance(row_or_moment, str) else _zoned(row_or_moment).isoformat()
        url = f"http://clock.test/?at={quote(moment)}".encode()
        login = b"Proxy-Authorization: Basic " + base64.b64encode(f"somebody:{password_of('somebody')}".encode())
        assert self.proxy.send(request_head(url, b"clock.test", headers=[login])).status == 204

    def ask(self, role: Role, url: str, *arguments: str, accept: str = "application/json") -> Answer:
        """What curl gets, from the role's address, by its user's name."""
        host, port = (LOOPBACK, self.proxy.port) if role.port is None else (self.room, role.port)
        user = role.user or "somebody"
        command = [
            *(str(CURL), "--disable", "--silent", "--show-error", "--include", "--suppress-connect-headers"),
            *("--proxy", f"http://{host}:{port}", "--proxy-user", f"{user}:{password_of(user)}"),
            *("--interface", replaced(role.address), "--cacert", str(self.proxy.authority), "--noproxy", ""),
            *("--header", f"Accept: {accept}", *arguments, url),
        ]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
        return Answer(int(status.split()[1]), headers, body)

    def log(self) -> list[dict[str, Any]]:
        """The records of the decision log so far; the file is there a moment after the first."""
        path = self.state / "hushlist" / "decisions.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def logged(self, reference: str) -> dict[str, Any]:
        """A record by its reference; it is written a moment after the answer."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for record in self.log():
                if record["reference"] == reference:
                    return record
            time.sleep(0.05)
        raise AssertionError(f"{reference} is not in the log")


def _zoned(row: Row) -> datetime:
    moment = datetime.fromisoformat(row.at)
    return moment if moment.tzinfo else moment.replace(tzinfo=ZONES[row.example])


def password_of(user: str) -> str:
    return f"the password of {user}"


def replaced(text: str) -> str:
    """Addresses of loopback in the place of the private ones."""
    return re.sub(r"\b(?:10|192)(?=(?:\.\d+){3})", "127", text)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Callable[[str], Running]]:
    """Each example's proxy, which is started when it is first asked for, with clients on loopback."""
    found: dict[str, Running] = {}
    with ExitStack() as stack:

        def run(example: str) -> Running:
            if example not in found:
                found[example] = _run(example, tmp_path_factory.mktemp(example), origin, stack)
            return found[example]

        yield run


def _run(example: str, folder: Path, origin: Origin, stack: ExitStack) -> Running:
    copytree(EXAMPLES / example, folder / example)
    policy = folder / example / "policy.yaml"
    lines = policy.read_text(encoding="utf-8").splitlines(keepends=True)
    policy.write_text("".join(replaced(line) if "clients: [" in line else line for line in lines), encoding="utf-8")
    # An address of its own, so that the exam room's port is free whoever else runs tests.
    room = ".".join(("127", *(str(random.randint(100, 250)) for _ in range(3))))
    (folder / "htpasswd").write_text("".join(map(_htpasswd, _users())), encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        proxy = stack.enter_context(
            mitmdump(
                folder,
                origin,
                policy=policy,
                more_modes=[f"regular@{room}:{EXAM_PORT}"],
                options={"proxyauth": f"@{folder / 'htpasswd'}"},
                scripts=["clock.py"],
            )
        )
    return Running(proxy, room, folder / "state")


def _users() -> set[str]:
    return {role.user or "somebody" for roles in ROLES.values() for role in roles.values()}


def _htpasswd(user: str) -> str:
    digest = base64.b64encode(hashlib.sha1(password_of(user).encode()).digest()).decode()
    return f"{user}:{{SHA}}{digest}\n"


@each_row("row", ROWS)
def test_the_proxy_does_what_check_says(row: Row, running: Callable[[str], Running], origin: Origin) -> None:
    example = running(row.example)
    example.set_clock(row)
    passes = row.action not in ("block", "warn") or row.who == "pilot"
    with origin.watch() as arrived:
        answer = example.ask(row.role, f"http://{row.url}")
    host, _, path = row.url.partition("/")
    assert answer.status == (200 if passes else 403)
    # of this host: what another test's browser asks for may come late
    targets = [seen.target.decode() for seen in arrived.requests if seen.host == host]
    assert targets == [f"/{path}"] * passes
    if passes:
        assert answer.body == b"from the origin"
    else:
        told = json.loads(answer.body)
        kinds = {"blocked": "block", "warned": "warn"}
        assert answered(row, kinds[told["kind"]], told["category"], told["until"]) == row[4:]


@pytest.mark.parametrize(
    ("example", "who", "url", "words"),
    [
        (
            "family",
            "mia",
            "games.example",
            ["Homework comes first", "games", "16 November 2026, 16:30 (UTC+01:00)", "Passphrase"],
        ),
        ("family", "leo", "adult.example", ["This is not for children", "Not for children", "adult.txt:3"]),
        (
            "school",
            "pupil",
            "football.example",
            ["Example School", "Not during lessons", "16 November 2026, 15:30 (UTC+01:00)"],
        ),
        ("school", "exam", "football.example", ["Example School", "Only what is allowed passes"]),
        ("company", "staff", "mail.example", ["private accounts", "16 November 2026, 17:30 (UTC)", "Go on"]),
        ("company", "guest", "casino.example", ["Gambling", "gambling.hosts:1"]),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_page_explains(
    running: Callable[[str], Running], example: str, who: str, url: str, words: list[str], scheme: str
) -> None:
    asked = running(example)
    asked.set_clock("2026-11-16T14:45+00:00" if example == "company" else "2026-11-16T14:45+01:00")
    answer = asked.ask(ROLES[example][who], f"{scheme}://{url}/", accept="text/html")
    page = unescape(answer.body.decode())
    assert answer.status == 403
    assert [
        word for word in (*words, f"{scheme}://{url}/", answer.headers["x-hushlist-reference"]) if word not in page
    ] == []


def test_without_a_name_nobody_is_let_in(running: Callable[[str], Running], origin: Origin) -> None:
    proxy = running("school").proxy
    with origin.watch() as arrived, proxy.client() as client:
        assert client.get("http://library.example/").status_code == 407
        assert client.get("http://adult.example/").status_code == 407
        # not even to the form, whose page would have a token for the next try
        form = "http://adult.example/.well-known/hushlist/unblock?url=http://adult.example/"
        assert client.post(form, data={"token": "x", "code": "x"}).status_code == 407
    assert arrived.requests == []


def form_of(page: bytes) -> tuple[str, str]:
    """Where a page's form goes, and its token."""
    action = re.search(r'<form[^>]* action="([^"]+)"', page.decode())
    token = re.search(r'name="token" value="([^"]+)"', page.decode())
    assert action
    assert token
    return unescape(action[1]), unescape(token[1])


def send(running: Running, role: Role, page: Answer, host: str, **fields: str) -> Answer:
    action, token = form_of(page.body)
    data = urlencode({"token": token, **fields})
    return running.ask(role, f"http://{host}{action}", "--data-raw", data, accept="text/html")


def test_a_teachers_code_lets_one_pupil_through_until_it_is_over(running: Callable[[str], Running]) -> None:
    school, pupil, other = running("school"), ROLES["school"]["pupil"], Role("10.20.3.5")
    start = datetime.fromisoformat("2026-11-16T08:10+01:00")
    school.set_clock(start.isoformat())
    with Overrides(school.state / "hushlist" / "overrides.sqlite", start.timestamp) as overrides:
        code = overrides.make_code("host", 45 * 60)
    page = school.ask(pupil, "http://football.example/results", accept="text/html")
    assert b'type="password"' not in page.body
    assert send(school, pupil, page, "football.example", code="not-a-code").status == 403
    page = school.ask(pupil, "http://football.example/results", accept="text/html")
    answer = send(school, pupil, page, "football.example", code=code)
    assert (answer.status, answer.headers["location"]) == (303, "/results")
    assert school.ask(pupil, "http://football.example/results").status == 200
    assert school.ask(pupil, "http://social.example/").status == 403
    assert school.ask(other, "http://football.example/").status == 403
    page = school.ask(other, "http://football.example/", accept="text/html")
    assert send(school, other, page, "football.example", code=code).status == 403  # it was good once
    school.set_clock("2026-11-16T08:54:59+01:00")
    assert school.ask(pupil, "http://football.example/").status == 200
    school.set_clock("2026-11-16T08:55:01+01:00")
    assert school.ask(pupil, "http://football.example/").status == 403


def test_the_exam_room_cannot_unblock_anything(running: Callable[[str], Running]) -> None:
    school = running("school")
    assert b"<form" not in school.ask(ROLES["school"]["exam"], "http://social.example/", accept="text/html").body


def test_the_school_log_has_neither_names_nor_searches(running: Callable[[str], Running]) -> None:
    school = running("school")
    school.set_clock("2026-11-16T10:00+01:00")
    answer = school.ask(ROLES["school"]["pupil"], "http://games.example/find?q=secret-wish")
    record = school.logged(answer.headers["x-hushlist-reference"])
    assert (record["url"], record["group"], record["action"]) == ("http://games.example/find", "pupils", "block")
    assert record["user"] != "pupil7"
    assert "127.20.3.4" not in json.dumps(record)
    again = school.ask(ROLES["school"]["pupil"], "http://games.example/")
    assert school.logged(again.headers["x-hushlist-reference"])["user"] == record["user"]
    assert "secret-wish" not in json.dumps(school.log())


def test_a_child_searches_safely_and_goes_on_behind_a_warning_as_the_log_says(
    running: Callable[[str], Running], origin: Origin
) -> None:
    family, mia = running("family"), Role(ROLES["family"]["mia"].address, "pupil7")  # whom no row above is about
    family.set_clock("2026-11-16T17:00+01:00")
    with origin.watch() as arrived:
        assert family.ask(mia, "https://www.google.com/search?q=x&safe=off").status == 200
        page = family.ask(mia, "http://shop.example/bikes", accept="text/html")
        answer = send(family, mia, page, "shop.example")
        assert (answer.status, answer.headers["location"]) == (303, "/bikes")
        assert family.ask(mia, "http://shop.example/bikes").status == 200
        other = family.ask(ROLES["family"]["mia"], "http://shop.example/bikes")
    assert [(seen.host, seen.target) for seen in arrived.requests] == [
        ("www.google.com", b"/search?q=x&safe=active&ssui=on"),
        ("shop.example", b"/bikes"),
    ]
    assert other.status == 403
    family.logged(other.headers["x-hushlist-reference"])
    own = [record for record in family.log() if (record["user"], record["method"]) == (mia.user, "GET")]
    assert [(record["url"], record["group"], record["action"], "grant" in record) for record in own] == [
        ("http://shop.example/bikes", "mia", "warn", False),
        ("http://shop.example/bikes", "mia", "allow", True),
    ]


def test_a_group_is_found_by_ipv6_on_the_wire(tmp_path: Path, origin: Origin) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    copytree(EXAMPLES / "school", tmp_path / "school")
    policy = tmp_path / "school" / "policy.yaml"
    text = policy.read_text(encoding="utf-8").replace("2001:db8:30::/48", "::1/128")
    policy.write_text(text, encoding="utf-8")
    with mitmdump(tmp_path, origin, policy=policy, more_modes=["regular@::1:0"], scripts=["clock.py"]) as proxy:
        proxy.get("http://clock.test/?at=2026-11-16T09:35%2B01:00")
        port = proxy.log.wait_for(r"listening at \[?::1\]?:(\d+)")[1]
        with httpx.Client(proxy=f"http://[::1]:{port}", trust_env=False, timeout=PATIENCE) as client:
            assert client.get("http://social.example/").status_code == 200  # own devices, in a break
        assert proxy.get("http://social.example/").status_code == 403  # a stranger


# -- in a browser ------------------------------------------------------------------------------------------------------
