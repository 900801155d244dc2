"""RFC 3986, 7: what a check finds, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushlist.decide.engine import Engine, load_engine
from hushlist.match.checks import CHECKS, Check, CheckedRequest
from hushlist.match.rule import Action
from hushlist.policy.policy_file import PolicyError
from hushlist.url.request import Request, request_of
from unit.hostile import octets

SECRET = b"s3cr3t"


def asked(url: str) -> CheckedRequest:
    request = request_of(url)
    return CheckedRequest(request.scheme, request.hosts[0], request.port, request.target, request.userinfo)


@pytest.mark.parametrize(
    ("code", "url", "evidence"),
    [
        ("well-known-port", "http://h.example:25/", b"port 25"),
        ("well-known-port", "https://h.example:80/", b"port 80"),
        ("well-known-port", "http://h.example:0/", b"port 0"),
        ("well-known-port", "http://h.example:1023/", b"port 1023"),
        ("well-known-port", "http://h.example:1024/", None),
        ("well-known-port", "http://h.example:8080/", None),
        ("well-known-port", "http://h.example/", None),
        ("well-known-port", "https://h.example:443/", None),
        ("encoded-nul", "http://h.example/a%00.html", b"%00"),
        ("encoded-nul", "http://h.example/?a=%2500", b"%00"),
        ("encoded-nul", "http://h.example/%2000", None),
        ("encoded-line-end", "http://h.example/x%0d%0aSet-Cookie:a", b"%0D"),
        ("encoded-line-end", "http://h.example/?q=%250A", b"%0A"),
        ("encoded-line-end", "http://h.example/a\nb", None),  # a browser removes it
        ("encoded-line-end", "http://h.example/%20", None),
        ("rare-ipv4", "http://0x7f.1/", b"0x7f.1"),
        ("rare-ipv4", "http://3279880203/", b"3279880203"),
        ("rare-ipv4", "http://010.0.0.1/", b"010.0.0.1"),
        ("rare-ipv4", "http://%31.2.3.4/", b"%31.2.3.4"),
        ("rare-ipv4", "http://1.2.3.4./", b"1.2.3.4."),
        ("rare-ipv4", "http://１.2.3.4/", "１.2.3.4".encode()),
        ("rare-ipv4", "http://1.2.3.4/", None),
        ("rare-ipv4", "http://276.2.3/", None),
        ("rare-ipv4", "http://beef/", None),
        ("rare-ipv4", "http://[::1]/", None),
        ("user-information", "http://me@h.example/", b"user information"),
        ("user-information", "http://@h.example/", b"user information"),
        ("user-information", "http://h.example/@me", None),
        # the specification's own example, 7.6
        (
            "misleading-user",
            "ftp://cnn.example.com&story=breaking_news@10.0.0.1/top_story.htm",
            b"user information",
        ),
        ("misleading-user", "http://www.bank.example:pw@h.example/", b"user information"),
        ("misleading-user", "http://www%2Ebank%2Eexample@h.example/", b"user information"),
        ("misleading-user", "http://me:pw@h.example/", None),
        ("misleading-user", "http://h.example/", None),
        # the specification's own examples: RFC 8484, 4.1.1
        (
            "dns-over-https",
            "https://h.example/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB",
            b"?dns=",
        ),
        (
            "dns-over-https",
            "https://h.example/q?ct&dns=AAABAAABAAAAAAABAWE-NjJjaGFyYWN0ZXJsYWJlbC1tYWtlcy1iYXNlNjR1cmwtZGlzdGluY3QtZnJvb"
            "S1zdGFuZGFyZC1iYXNlNjQHZXhhbXBsZQNjb20AAAEAAQ",
            b"?dns=",
        ),
        (
            "dns-over-https",
            "https://h.example/?dns=%41AABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB%3D%3D",
            b"?dns=",
        ),
        ("dns-over-https", "https://h.example/?dns=8.8.8.8", None),
        ("dns-over-https", "https://h.example/?dns=aHR0cHM6Ly93d3cuZXhhbXBsZS5jb20vYWJvdXQ", None),
        ("dns-over-https", "https://h.example/?dns=AACBAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", None),  # an answer
        ("dns-over-https", "https://h.example/?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2Nvb", None),  # cut off
        ("dns-over-https", "https://h.example/?name=h.example&type=A", None),
    ],
)
def test_a_check_finds_what_its_section_names(code: str, url: str, evidence: bytes | None) -> None:
    assert Check(code).find(asked(url)) == evidence


@pytest.mark.parametrize(
    ("media", "target", "evidence"),
    [
        ([b"application/dns-message"], b"/x", b"application/dns-message"),
        ([b"text/html", b"application/oblivious-dns-message"], b"/", b"application/oblivious-dns-message"),
        ([b"application/dns-json"], b"/resolve?name=h.example&type=A", b"application/dns-json"),
        ([b"application/dns-json"], b"/about", None),
        ([b"application/json"], b"/resolve?name=h.example&type=A", None),
        ([], b"/dns-query", None),
    ],
)
def test_dns_over_https_is_known_by_the_media_types_of_a_request(
    media: list[bytes], target: bytes, evidence: bytes | None
) -> None:
    found = CheckedRequest(b"https", b"h.example", 443, target, None, tuple(media))
    assert Check("dns-over-https").find(found) == evidence


def test_media_types_are_asked_for_only_by_a_policy_with_that_check(tmp_path: Path) -> None:
    assert engine(tmp_path, "    dns-over-https: tag\n").asks_media
    assert not engine(tmp_path, "    dns-over-https: pass\n    rare-ipv4: block\n").asks_media


def test_a_port_that_the_policy_names_is_no_fault() -> None:
    check = Check("well-known-port", frozenset({81}))
    assert check.find(asked("http://h.example:81/")) is None
    assert check.find(asked("http://h.example:82/")) == b"port 82"


@given(octets(), octets(), octets(), st.integers(0, 65535), st.none() | octets())
def test_no_request_makes_a_check_raise(
    scheme: bytes, host: bytes, target: bytes, port: int, userinfo: bytes | None
) -> None:
    for code in CHECKS:
        assert isinstance(Check(code).find(CheckedRequest(scheme, host, port, target, userinfo)), bytes | None)


@pytest.mark.parametrize("code", CHECKS)
def test_each_check_has_a_sentence(code: str) -> None:
    assert Check(code).sentence.endswith(".")
    assert str(Check(code)) == f"check:{code}"


# -- in a policy -------------------------------------------------------------------------------------------------------


def engine(folder: Path, checks: str, lists: str = "[own.yaml]") -> Engine:
    (folder / "own.yaml").write_text("rules: [{expression: allowed.example, action: allow}]")
    layers = f"- {{name: own, lists: {lists}}}\n- name: checks\n  checks:\n{checks}"
    (folder / "policy.yaml").write_text(f"layers:\n{layers}")
    return load_engine(folder / "policy.yaml")


def test_a_check_blocks_or_tags_and_says_where_it_stands(tmp_path: Path) -> None:
    filled = engine(tmp_path, "    rare-ipv4: block\n    well-known-port:\n      action: tag\n      ports: [81]\n")
    decision = filled.decide(request_of("http://0x7f.1:25/"))
    assert decision.action is Action.BLOCK
    assert decision.url == b"http://127.0.0.1/"
    assert [(found.rule.line, str(found.rule.pattern)) for found in decision.matches] == [
        (5, "check:rare-ipv4"),
        (7, "check:well-known-port"),
    ]
    assert str(decision) == (
        f"0x7f.1 by checks ({tmp_path / 'policy.yaml'}:5): The address is an IPv4 address in a rare spelling."
    )
    assert filled.decide(request_of("http://h.example:25/")).action is Action.TAG
    assert filled.decide(request_of("http://h.example:81/")).action is Action.PASS


def test_a_layer_above_the_checks_beats_them(tmp_path: Path) -> None:
    filled = engine(tmp_path, "    well-known-port: block\n")
    assert filled.decide(request_of("http://h.example:25/")).action is Action.BLOCK
    assert filled.decide(request_of("http://allowed.example:25/")).action is Action.ALLOW


def test_a_check_that_is_passed_does_nothing(tmp_path: Path) -> None:
    assert engine(tmp_path, "    rare-ipv4: pass\n").decide(request_of("http://0x7f.1/")).action is Action.PASS


def test_every_host_of_a_request_is_checked(tmp_path: Path) -> None:
    request = Request(b"http", (b"h.example", b"0x7f.1"), 80, b"/")
    assert engine(tmp_path, "    rare-ipv4: block\n").decide(request).action is Action.BLOCK


@pytest.mark.parametrize(
    ("checks", "problem"),
    [
        (
            "    nope: block\n",
            "4: nope: unknown check (known: well-known-port, encoded-nul, encoded-line-end, rare-ipv4, "
            "user-information, misleading-user, dns-over-https, names-disagree)",
        ),
        ("    rare-ipv4: allow\n", "4: action: allow: expected one of block, tag, pass"),
        ("    rare-ipv4: {action: block, ports: [1]}\n", "4: ports: unknown key (known: action)"),
        ("    well-known-port: {action: tag, ports: [x]}\n", "4: ports: 'x': expected a number from 0 to 65535"),
        (
            "    well-known-port: {action: tag, ports: [65536]}\n",
            "4: ports: '65536': expected a number from 0 to 65535",
        ),
        ("    well-known-port: {ports: [81]}\n", "4: well-known-port: it has no action"),
        ("    - x\n", "4: checks: expected a mapping, not a list"),
    ],
)
def test_a_bad_check_is_reported(tmp_path: Path, checks: str, problem: str) -> None:
    (tmp_path / "policy.yaml").write_text(f"layers:\n- name: a\n  checks:\n{checks}")
    with pytest.raises(PolicyError) as caught:
        load_engine(tmp_path / "policy.yaml")
    assert str(caught.value) == f"{tmp_path / 'policy.yaml'}:{problem}"


def test_user_information_is_never_shown(tmp_path: Path) -> None:
    filled = engine(tmp_path, "    user-information: block\n    misleading-user: block\n")
    decision = filled.decide(request_of(b"http://www.bank.example:" + SECRET + b"@h.example/"))
    assert decision.action is Action.BLOCK
    assert SECRET.decode() not in f"{decision} {decision.as_dict()}"


@pytest.mark.parametrize(
    ("names", "evidence"),
    [
        ((), None),
        ((b"a.example",), None),
        ((b"a.example", b"A.example."), None),
        ((b"a.example", b"%61.example"), None),
        ((b"a.example", b""), None),
        ((b"a.example", b"b.example"), b"a.example and b.example"),
        ((b"a.example", b"b.example", b"A.example"), b"a.example and b.example"),
        ((b"a.example", b"www.a.example"), b"a.example and www.a.example"),
        ((b"192.0.2.7", b"a.example"), b"192.0.2.7 and a.example"),
        ((b"192.0.2.7", b"0xC0.0.2.7"), None),
        (("stra\u00dfe.example".encode(), b"strasse.example"), None),
        (("stra\u00dfe.example".encode(), b"strasse.example", b"b.example"), b"xn--strae-oqa.example and b.example"),
        ((b"a.example", b"a/b"), None),  # which is decided as what cannot be read
    ],
)
def test_names_disagree_where_they_are_different_hosts(names: tuple[bytes, ...], evidence: bytes | None) -> None:
    request = CheckedRequest(b"https", b"a.example", 443, b"/", None, names=names)
    assert Check("names-disagree").find(request) == evidence
