"""What households need: every entry is a vendor's, and has a port."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.policy.household import HOUSEHOLD, needs
from hushlist.core.policy.pass_through import PassThrough, read_always_decrypted, read_pass_through
from hushlist.extensions.safe_search.safe_search import services
from support.readings import read_node
from unit.rows import each_row

SAID = yaml.safe_load(files("hushlist.core.policy").joinpath("household.yaml").read_text(encoding="utf-8"))
PAGE = (Path(__file__).parents[4] / "rules" / "network.md").read_text(encoding="utf-8")


def read(text: str) -> tuple[PassThrough, list[str]]:
    return read_node(lambda *read: read_pass_through(*read, lambda *_: None), text)


#: what passes by each need: a host that a device asks for, and its port; and what is beside it, and does not
PASSED = [
    ("time", b"17.253.4.125", 123, 443),
    ("time", b"time.windows.com", 123, 443),
    ("time", b"time.android.com", 123, 80),
    ("time", b"[2001:4860:4806:4::]", 123, 443),
    ("push", b"7-courier.push.apple.com", 5223, 5222),
    ("push", b"7-courier.push.apple.com", 2197, 80),
    ("push", b"alt3-mtalk.google.com", 5228, 53),
    ("push", b"db5p.wns.windows.com", 443, 80),
    ("checks", b"captive.apple.com", 443, 8443),
    ("checks", b"captive.apple.com", 80, 8080),
    ("calls", b"17.1.2.3", 16402, 16403),
    ("calls", b"17.1.2.3", 3478, 3498),
    ("calls", b"52.113.1.1", 3479, 443),
    ("calls", b"[2603:1063::9]", 3481, 3482),
    ("calls", b"74.125.250.7", 19305, 443),
    ("calls", b"[2001:4860:4864:6::81]", 3478, 443),
    ("calls", b"206.247.8.9", 8801, 443),
    ("calls", b"170.114.52.2", 3479, 8811),
    ("messages", b"g.whatsapp.net", 443, 80),
    ("messages", b"e16.whatsapp.net", 5222, 5223),
]
#: hosts behind which there is more
LARGE = ["www.google.com", "www.gstatic.com", "android.apis.google.com", "apple.com", "www.apple.com", "whatsapp.net"]
LARGE += ["web.whatsapp.com", "zoom.us", "www.xbox.com", "www.playstation.com", "ctest.cdn.nintendo.net", "34.1.2.3"]


@each_row(("need", "host", "port", "other"), PASSED)
def test_it_is_passed_through_on_its_ports_alone(need: str, host: bytes, port: int, other: int) -> None:
    for text in ("household", f"[{{needs: {need}}}]"):
        passed, _ = read(text)
        assert passed.covers_at(host, port)
        assert not passed.covers_at(host, other)
    for name in set(needs()) - {HOUSEHOLD, need}:
        assert not read(f"[{{needs: {name}}}]")[0].covers_at(host, port), name


@pytest.mark.slow
@each_row("host", LARGE)
@pytest.mark.thorough
def test_a_large_server_is_not(host: str) -> None:
    passed, _ = read("household")
    assert not [port for port in range(1, 65536) if passed.covers_at(host.encode(), port)]


@each_row(
    ("text", "error"),
    [
        ("[{needs: games}]", "expected one of household, time, push, checks, calls, messages"),
        ("[{needs: push, file: a.txt}]", "an entry is a file, or names what needs"),
        ("houses", "expected a list of hosts, or a mapping with hosts, failed-handshakes, or household, not text"),
    ],
)
def test_what_is_no_need_is_told(text: str, error: str) -> None:
    _, errors = read(text)
    assert any(error in one for one in errors), errors


def test_nothing_of_it_is_a_reason_to_decrypt() -> None:
    report = ProblemReport("p")
    node = read_document(b"[{needs: push}]", report)
    assert node is not None
    read_always_decrypted(node, report, lambda *_: None)
    assert [error.what for error in report.errors] == ["needs", "always-decrypt"]


def test_no_server_has_more_behind_it() -> None:
    """Whoever reaches a large server past the decryption reaches all that it serves, without safe search."""
    passed, _ = read("household")
    searched = {host for service in services().values() for host in service.hosts}
    assert passed.names == frozenset()
    assert passed.networks == ()
    for hosts in passed.by_port.values():
        assert not [host for host in searched if hosts.covers(host)]


def test_the_page_names_every_server_port_and_source() -> None:
    def named() -> Iterator[str]:
        for said in SAID.values():
            yield from (
                host
                for host in said["hosts"]
                if not re.fullmatch(r"alt\d-mtalk.*|mtalk4.*|e\d+\.whatsapp.*|.*/(32|128)", host)
            )
            yield from (str(port).replace("-", " to ") for port in said["ports"])

    rows = "\n".join(line for line in PAGE.partition("### What households need")[2].splitlines() if line[:1] == "|")
    assert [name for name in named() if name not in rows] == []
    assert {said["for"] for said in SAID.values()} == {name for name in needs() if name != HOUSEHOLD}
    assert all(said["source"].partition(" (")[0].partition(",")[0] in rows for said in SAID.values())
