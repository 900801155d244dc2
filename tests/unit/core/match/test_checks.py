"""RFC 3986, 7: what a check finds, and what it leaves alone."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documentation import RULES
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.match.checks import CHECKS, Check, CheckedRequest, may_fail
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import PolicyError
from hushlist.core.url.request import Request, canonical_host, request_of
from support.policies import write_policy
from unit.hostile import octets
from unit.rows import each_row

SECRET = b"s3cr3t"
_QUERY_OF_LONGEST_NAME = urlsafe_b64encode(
    b"\0\0\1\0\0\1" + bytes(6) + (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\0\0\1\0\1"
)


def checked_request(url: str) -> CheckedRequest:
    request = request_of(url)
    return CheckedRequest(request.scheme, request.hosts[0], request.port, request.target, request.userinfo)


@each_row(
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
        ("encoded-line-end", "http://h.example/%250A?q", b"%0A"),
        ("encoded-line-end", "http://h.example/?q=%0A", None),  # of a form
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
        ("misleading-user", "http://%5B2001:db8::1%5D@h.example/", b"user information"),
        ("misleading-user", "http://[::ffff:1.2.3.4]:pw@h.example/", b"user information"),
        *(
            ("misleading-user", f"http://{user}@h.example/", b"user information")
            for user in (
                *("www.bank.com.", "user:www.bank.com", "https%3A%2F%2Fwww.bank.com", "http:www.bank.com", "x%40h.com"),
                *("bücher.example", "b%C3%BCcher.example", "xn--bcher-kva.example", "www。bank。com", "a%252Ebank.com"),
                *(
                    "www.bank.example~login",
                    "a.example|x",
                    "a.example%22",
                    "a.example{",
                    "a.example%7F",
                    "a.example%FF",
                ),
                ":".join(f"a{number}" for number in range(65)),  # more than anybody's name has
                *("1.2.3.4", "0x7f.1", "3279880203", "a:1.2.3.4.", "www.b_nk.com", "www.bank.com&x=y"),
            )
        ),
        *(("misleading-user", f"http://{user}@h.example/", None) for user in ("", ":", "me.", "1234567", "a..b")),
        ("misleading-user", "http://me:pw@h.example/", None),
        ("misleading-user", "http://[dead]:[a:b]@h.example/", None),
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
        *(
            ("dns-over-https", f"https://h.example/q{parameter}AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", b"?dns=")
            for parameter in ("?%64ns=", "?a&d%6es=", "?d%6E%73=", "?%64%6e%73=", "?%2564n%252573=", "?a;dns=")
        ),
        ("dns-over-https", "https://h.example/?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB;a", b"?dns="),
        (  # padded, as RFC 8467 has it
            "dns-over-https",
            "https://h.example/?dns=AAABAAABAAAAAAABA3d3dwdleGFtcGxlA2NvbQAAAQABAAApEAAAAAAAAgAADAH8" + 680 * "A",
            b"?dns=",
        ),
        (  # every character escaped
            "dns-over-https",
            "https://h.example/?dns=" + "".join(f"%{octet:02x}" for octet in _QUERY_OF_LONGEST_NAME),
            b"?dns=",
        ),
        ("dns-over-https", "https://h.example/?Dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", None),
        # a name that ends by a pointer to a zero in the header; the other alphabet of base64
        ("dns-over-https", "https://h.example/?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbcAKAAEAAQ", b"?dns="),
        ("dns-over-https", "https://h.example/?dns=+/8BAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", b"?dns="),
        ("dns-over-https", "https://h.example/?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbcAKAAEA", None),  # cut off
        ("dns-over-https", "https://h.example/?dns=8.8.8.8", None),
        ("dns-over-https", "https://h.example/?dns=aHR0cHM6Ly93d3cuZXhhbXBsZS5jb20vYWJvdXQ", None),
        ("dns-over-https", "https://h.example/?dns=AACBAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", None),  # an answer
        ("dns-over-https", "https://h.example/?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2Nvb", None),  # cut off
        ("dns-over-https", "https://h.example/?name=h.example&type=A", None),
    ],
)
def test_a_check_finds_what_its_section_names(code: str, url: str, evidence: bytes | None) -> None:
    assert Check(code).find(checked_request(url)) == evidence


@each_row(
    ("media", "target", "evidence"),
    [
        ([b"application/dns-message"], b"/x", b"application/dns-message"),
        ([b"text/html", b"application/oblivious-dns-message"], b"/", b"application/oblivious-dns-message"),
        ([b"application/dns-json"], b"/resolve?name=h.example&type=A", b"application/dns-json"),
        ([b"application/dns-json"], b"/resolve?n%61m%65=h.example&type=A", b"application/dns-json"),
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


def test_a_port_that_the_policy_names_is_no_fault() -> None:
    check = Check("well-known-port", frozenset({81}))
    assert check.find(checked_request("http://h.example:81/")) is None
    assert check.find(checked_request("http://h.example:82/")) == b"port 82"


_QUERY = urlsafe_b64encode(b"\0\0\1\0\0\1" + bytes(6) + b"\1a\0\0\1\0\1")
_TARGET_PIECES = (
    *(b"%", b"0", b"0", b"25", b"2", b"5", b"3", b"30", b"a", b"A", b"d", b"D", b"%30", b"%25", b"%00", b"%0d", b"%0A"),
    *(b"%41", b"%61", b"%64", b"%32", b"%35", b"\0", b"\r", b"\n", b"/", b"?", b"&", b"x", b"dns=", b"%64ns="),
    *(_QUERY, b"#", b"d%6Es=", b"name=", b"?dns=" + _QUERY),
)
_HOSTS = (
    *(b"h.example", b"H.example", b"h.example.", b"1.2.3.4", b"01.2.3.4", b"1.2.772", b"0x7f.1", b"2130706433"),
    *(b"%31.2.3.4", "１.2.3.4".encode(), "1。2.3.4".encode(), b"[::1]", b"[::ffff:1.2.3.4]", b"::1", b"xn--a", b"a b"),
)


def _checked() -> st.SearchStrategy[Request]:
    """Requests of which a check may find something, or nearly."""
    hosts = st.lists(st.sampled_from(_HOSTS), min_size=1, max_size=3)
    media = st.lists(st.sampled_from([b"text/html", b"application/dns-json", b"application/dns-message"]), max_size=2)
    return st.builds(
        Request,
        st.sampled_from([b"http", b"https", b"ws", b"ftp", b""]),
        hosts.map(tuple) | st.sampled_from(_HOSTS[:4]).map(lambda host: (host,)),
        st.sampled_from([0, 21, 80, 443, 443, 80, 1023, 1024, 8080]),
        st.lists(st.sampled_from(_TARGET_PIECES), max_size=8).map(b"".join).map(b"/".__add__) | octets(),
        userinfo=st.sampled_from([None, None, None, b"", b"a.example"]),
        media=media.map(tuple),
        destination=st.sampled_from([None, None, *_HOSTS[:4]]),
    )


@settings(max_examples=5 * settings.default.max_examples)
@given(_checked())
def test_no_check_finds_anything_where_none_may(request: Request) -> None:
    names = tuple(name for name in request.hosts if name != request.destination)
    for host in request.hosts:
        with suppress(UrlError):
            if not may_fail(request, host, canonical_host(host)):
                sent = request.scheme, host, request.port, request.target, request.userinfo, request.media, names
                assert [code for code in CHECKS if Check(code).find(CheckedRequest(*sent)) is not None] == []


@pytest.mark.parametrize(
    "url", ["http://h.example/", "https://h.example:8443/a%20b/c.js?d=%2F%7B&e=f%0B", "http://192.0.2.7/x"]
)
def test_of_a_usual_request_no_check_is_asked(url: str) -> None:
    request = request_of(url)
    assert not may_fail(request, request.hosts[0], canonical_host(request.hosts[0]))


# -- in a policy -------------------------------------------------------------------------------------------------------


def engine(folder: Path, checks: str, lists: str = "[own.yaml]") -> Engine:
    layers = f"layers:\n- {{name: own, lists: {lists}}}\n- name: checks\n  checks:\n{checks}"
    own = "rules: [{expression: allowed.example, action: allow}]"
    return load_engine(write_policy(folder, layers, {"own.yaml": own}))


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


@each_row(
    ("checks", "problem"),
    [
        (
            "    nope: block\n",
            "4: nope: unknown check (known: well-known-port, encoded-nul, encoded-line-end, rare-ipv4, "
            "user-information, misleading-user, dns-over-https, names-disagree, mixed-scripts, "
            "looks-like, new-name, private-answer, country, asn)",
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


@each_row(
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


NAME = b"\3www\7example\3com\0"


@each_row(
    ("message", "is_query"),
    [
        (b"\0\0\1\0" + b"\0\1" + bytes(6) + NAME + b"\0\1\0\1", True),
        (b"\0\0\1\0" + b"\0\1" + bytes(6) + NAME + b"\0\1\0", False),  # the class is cut off
        (b"\0\0\1\0" + b"\0\2" + bytes(6) + NAME + b"\0\1\0\1", False),  # two questions
        (b"\0\0\1\0" + b"\0\1\0\1" + bytes(4) + NAME + b"\0\1\0\1", False),  # an answer
        (b"\0\0\x28\0" + b"\0\1" + bytes(6) + NAME + b"\0\1\0\1", False),  # an update
        (b"\0\0\1\0" + b"\0\1" + bytes(6) + b"\3www\xc0\x0a\0\1\0\1", True),  # compressed, as servers read it
        (b"\0\0\1\0" + b"\0\1" + bytes(6) + b"\3www\xc0\x0a\0\1\0", False),  # the class is cut off
        (b"\0\0\1\0" + b"\0\1" + bytes(6) + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", False),  # too long a label
    ],
)
def test_a_parameter_that_is_a_whole_question_is_one(message: bytes, is_query: bool) -> None:
    value = urlsafe_b64encode(message).decode().rstrip("=")
    assert (Check("dns-over-https").find(checked_request(f"https://h.example/?dns={value}")) is not None) is is_query


@pytest.mark.parametrize(
    ("hosts", "destination", "action"),
    [
        ((b"192.0.2.7", b"a.example"), b"192.0.2.7", Action.PASS),  # the client names one host
        ((b"192.0.2.7", b"a.example", b"b.example"), b"192.0.2.7", Action.BLOCK),
        ((b"192.0.2.7", b"a.example"), None, Action.BLOCK),
        ((b"192.0.2.7",), b"192.0.2.7", Action.PASS),
    ],
)
def test_a_destination_that_the_client_has_not_named_disagrees_with_nothing(
    tmp_path: Path, hosts: tuple[bytes, ...], destination: bytes | None, action: Action
) -> None:
    asked = Request(b"https", hosts, 443, b"/", destination=destination)
    assert engine(tmp_path, "    names-disagree: block\n").decide(asked).action is action


def test_the_shipped_policy_tags_a_port_of_another_protocol() -> None:
    """7.2: "unless the protocol being used to dereference that URI is compatible with the protocol expected on that
    well-known port": some sites speak HTTP there (reading 41)."""
    decision = load_engine(RULES / "policy.yaml").decide(request_of("http://h.example:81/"))
    assert decision.action is Action.TAG
    assert [match.rule.pattern for match in decision.matches] == [Check("well-known-port")]
