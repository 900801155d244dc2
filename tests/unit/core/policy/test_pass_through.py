"""Which hosts are passed through, and how a policy says so."""

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.policy.pass_through import (
    AlwaysDecrypted,
    PassThrough,
    ReadFile,
    read_always_decrypted,
    read_kept_headers,
    read_pass_through,
)
from hushlist.core.policy.policy_reader import read_policy
from unit.rows import each_row

PASSED = PassThrough(
    frozenset([(b"bank.example", True), (b"localhost", True), (b"api.pinned.example", False)]),
    (ip_network("192.0.2.0/24"), ip_network("2001:db8::/32")),
)


@each_row(
    ("host", "is_covered"),
    [
        (b"bank.example", True),
        (b"www.bank.example", True),
        (b"a.b.bank.example", True),
        (b"mybank.example", False),
        (b"example", False),
        (b"bank.example.evil.example", False),
        (b"localhost", True),
        (b"api.pinned.example", True),
        (b"x.api.pinned.example", False),
        (b"pinned.example", False),
        (b"192.0.2.7", True),
        (b"192.0.3.7", False),
        (b"[2001:db8::7]", True),
        (b"[2001:db9::7]", False),
        (b"", False),
        (b".", False),
    ],
)
def test_a_host_covers_itself_and_those_below_and_a_network_its_addresses(host: bytes, is_covered: bool) -> None:
    assert PASSED.covers(host) is is_covered


Read = TypeVar("Read")


def read(text: str, files: dict[str, bytes] | None = None) -> tuple[PassThrough, list[str]]:
    return read_by(read_pass_through, text, files)


def read_by(
    reader: Callable[[YamlNode, ProblemReport, ReadFile], Read], text: str, files: dict[str, bytes] | None = None
) -> tuple[Read, list[str]]:
    report = ProblemReport("p")
    node = read_document(text.encode(), report)
    assert node is not None

    def read_file(name: str, line: int) -> tuple[Path, bytes] | None:
        octets = (files or {}).get(name)
        if octets is None:
            report.error(line, name, "there is no such file")
            return None
        return Path(name), octets

    found = reader(node, report, read_file)
    return found, list(map(str, report.errors))


def test_hosts_are_canonical_and_come_from_files_too() -> None:
    text = "hosts:\n- BANK.example.\n- =api.bücher.example\n- {file: f}\n- 192.0.2.7\nfailed-handshakes: add"
    found, errors = read(text, {"f": b"# apps\nApp.example # one\n\n10.0.0.0/8\n=192.0.2.7\n"})
    assert errors == []
    assert found == PassThrough(
        frozenset([(b"bank.example", True), (b"app.example", True), (b"api.xn--bcher-kva.example", False)]),
        (ip_network("10.0.0.0/8"), ip_network("192.0.2.7")),
        "add",
        Path("f"),
        "p:1",
    )
    assert len(found) == 5


def test_an_entry_with_a_port_is_about_that_port_alone() -> None:
    text = "hosts: [bank.example, 'mail.example:25', '=mail.example:143', {file: f}, '192.0.2.0/24:22']"
    found, errors = read(text, {"f": b"[2001:db8::7]:22 # a server\n[2001:db8:1::/48]:22\n192.0.2.7:0443\n"})
    assert errors == []
    assert len(found) == 7
    covered = [
        (host, port)
        for host in (b"bank.example", b"mail.example", b"a.mail.example", b"192.0.2.7", b"[2001:db8::7]")
        for port in (22, 25, 143, 443)
        if found.covers_at(host, port)
    ]
    assert covered == [
        *((b"bank.example", port) for port in (22, 25, 143, 443)),
        (b"mail.example", 25),
        (b"mail.example", 143),
        (b"a.mail.example", 25),
        (b"192.0.2.7", 22),
        (b"192.0.2.7", 443),
        (b"[2001:db8::7]", 22),
    ]
    assert found.covers_at(b"[2001:db8:1::9]", 22)
    assert not found.covers(b"mail.example")


NAMED = "for a host of that name"
EXPECTED = "expected a list of hosts, or a mapping with hosts, failed-handshakes, or household"
HOST = "expected a host such as bank.example, or a network such as 192.0.2.0/24"
ANY_PORT = "expected a host or an address, with the number of a port or without it"


@each_row(
    ("text", "errors"),
    [
        ("bank.example", [f"p:1: pass-through: {EXPECTED}, not text"]),
        ("", [f"p:1: pass-through: {EXPECTED}, not nothing"]),
        ("{failed-handshakes: report}", ["p:1: pass-through: it has no hosts"]),
        ("[[]]", ["p:1: a list: expected a mapping with file, needs"]),
        ("[{}]", ["p:1: pass-through: it names no file"]),
        ("[{file: g}]", ["p:1: g: there is no such file"]),
        *(
            (
                f"[{word}]",
                [f"p:1: {word}: it is no host: write {{needs: {word}}} for what is needed, or ={word} {NAMED}"],
            )
            for word in ("household", "push")
        ),
        ("[bank.example/login]", [f"p:1: bank.example/login: {HOST}"]),
        ("['https://bank.example']", [f"p:1: https://bank.example: {HOST}"]),
        ("['*.bank.example']", ["p:1: *.bank.example: a host covers those below it by itself: write 'bank.example'"]),
        ("['bank.example:https']", [f"p:1: bank.example:https: {ANY_PORT}"]),
        ("['bank.example:0']", ["p:1: bank.example:0: a port is a number from 1 to 65,535"]),
        ("['bank.example:65536']", ["p:1: bank.example:65536: a port is a number from 1 to 65,535"]),
        ("['bank.example:25:26']", [f"p:1: bank.example:25:26: {ANY_PORT}"]),
        ("['bank.example:25/x']", [f"p:1: bank.example:25/x: {HOST}"]),
        ("['2001:db8::1:22:']", [f"p:1: 2001:db8::1:22:: {ANY_PORT}"]),
        ("[':25']", [f"p:1: :25: {ANY_PORT}"]),
        ("['[]:25']", [f"p:1: []:25: {ANY_PORT}"]),
        (
            "['192.0.2.1/24:25']",
            ["p:1: 192.0.2.1/24:25: some of its bits are behind the prefix: the network is 192.0.2.0/24"],
        ),
        ("['bank example']", [f"p:1: bank example: {ANY_PORT}"]),
        ("['.']", [f"p:1: .: {ANY_PORT}"]),
        ("['=']", [f"p:1: =: {ANY_PORT}"]),
        ("[192.0.2.1/24]", ["p:1: 192.0.2.1/24: some of its bits are behind the prefix: the network is 192.0.2.0/24"]),
        ("{hosts: [a.example],\n failed-handshakes: add}", ["p:2: failed-handshakes: add: there is no file to add to"]),
        ("[{file: f}]", ["f:3: b/c: " + HOST]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, errors: list[str]) -> None:
    assert read(text, {"f": b"\n# one\nb/c\n"})[1] == errors


def test_a_file_is_one_of_the_policy_s_and_a_group_s_own_takes_the_place_of_everybody_s(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "layers: []\npass-through: [{file: all.txt}]\n"
        "groups: [{name: a, ports: [1], pass-through: [b.example]}, {name: c, ports: [2]}, "
        "{name: d, ports: [3], pass-through: []}]\n"
    )
    (tmp_path / "all.txt").write_text("e.example\n")
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    assert policy is not None
    assert report.errors == []
    assert tmp_path / "all.txt" in policy.files
    passed = [group.settings.pass_through.names for group in policy.all_groups]
    assert passed == [{(b"b.example", True)}, {(b"e.example", True)}, frozenset(), {(b"e.example", True)}]
    assert policy.settings.pass_through.place == f"{path}:2"
    (tmp_path / "all.txt").unlink()
    read_policy(path, report)
    assert [str(error) for error in report.errors] == [f"{path}:2: all.txt: there is no such file"]


def test_what_is_always_decrypted_has_hosts_and_categories() -> None:
    text = "hosts: [=CDN.example, {file: f}]\ncategories: [hrn://A.example/cdn]"
    found, errors = read_by(read_always_decrypted, text, {"f": b"192.0.2.0/24"})
    assert errors == []
    named = frozenset([(b"cdn.example", False)])
    assert found == AlwaysDecrypted(named, (ip_network("192.0.2.0/24"),), frozenset(["hrn://a.example/cdn"]))
    assert [
        found.has(name) for name in ("hrn://a.example/cdn/big", "hrn://a.example/cdn", "hrn://a.example", None)
    ] == [*(True, True, False, False)]
    assert read_by(read_always_decrypted, "[a.example]")[0].covers(b"www.a.example")


@each_row(
    ("text", "errors"),
    [
        (
            "cdn.example",
            ["p:1: always-decrypt: expected a list of hosts, or a mapping with hosts, categories, not text"],
        ),
        ("{}", ["p:1: always-decrypt: expected one of hosts, categories"]),
        ("[a/b]", [f"p:1: a/b: {HOST}"]),
        ("[{}]", ["p:1: always-decrypt: it names no file"]),
        ("hosts: [a.example]\ncategories:\n- cdn", ["p:3: categories: cdn: it is no hrn: name"]),
    ],
)
def test_what_is_wrong_in_what_is_always_decrypted_is_named_with_its_place(text: str, errors: list[str]) -> None:
    found = read_by(read_always_decrypted, text)[1]
    assert [one[: len(expected)] for one, expected in zip(found, errors, strict=True)] == errors


@each_row(
    ("text", "errors"),
    [
        ("[]", []),
        ("[=DAV.example, {file: f}]", []),
        ("dav.example", ["p:1: keep-headers: expected a list of hosts, not text"]),
        ("{hosts: [a.example]}", ["p:1: keep-headers: expected a list of hosts, not a mapping"]),
        ("[a/b]", [f"p:1: a/b: {HOST}"]),
        ("[{}]", ["p:1: keep-headers: it names no file"]),
    ],
)
def test_origins_that_need_headers_are_hosts(text: str, errors: list[str]) -> None:
    kept, found = read_by(read_kept_headers, text, {"f": b"192.0.2.0/24"})
    assert [one[: len(expected)] for one, expected in zip(found, errors, strict=True)] == errors
    if "DAV" in text:
        assert [kept.covers(host) for host in (b"dav.example", b"x.dav.example", b"192.0.2.7")] == [True, False, True]


def test_a_group_decrypts_as_it_says_itself(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "layers: []\ndecrypt: where-needed\nalways-decrypt: [e.example]\n"
        "groups: [{name: a, ports: [1], decrypt: never, relayed: keep},"
        " {name: c, ports: [2], always-decrypt: [b.example]}]\n"
    )
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    assert policy is not None
    assert report.errors == []
    every = [group.settings for group in policy.all_groups]
    assert [own.decrypt for own in every] == ["never", "where-needed", "where-needed"]
    assert [own.relayed for own in every] == ["keep", "end", "end"]
    always = [own.always_decrypted.names for own in every]
    assert always == [{(b"e.example", True)}, {(b"b.example", True)}, {(b"e.example", True)}]
    path.write_text("layers: []\ndecrypt: some\n")
    read_policy(path, report)
    assert [str(error) for error in report.errors] == [
        f"{path}:2: decrypt: some: expected one of all, where-needed, without-pages, never"
    ]
