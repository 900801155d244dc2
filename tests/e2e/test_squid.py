"""A real Squid asks the filter: what is blocked does not reach the origin, and the client is told why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from documentation import COMMANDS, blocks
from e2e.origin import Origin
from e2e.policies import hashed_uri, write_list, write_policy
from e2e.proxy import request_head
from e2e.squid import COMMAND, Squid, squid, why_not

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.xdist_group("squid")]

ACL, REWRITER = blocks(COMMANDS, "squid")
POLICY = "/etc/hushlist/policy.yaml"


def lines_of(block: str, policy: Path) -> str:
    """The reference's lines for a policy, and some that make it harder or show more."""
    more = "deny_info ERR_HUSHLIST blocked" if block == ACL else "uri_whitespace allow"
    assert block.count(f"--policy {POLICY}") == 1
    return block.replace(POLICY, str(policy)) + more


REASON = 'Not "here" \\ <b>now</b>'


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    write_list(
        folder / "ads.yaml",
        *(
            "ads.test/",
            "path.test/secret/",
            "path.test/find?q=secret",
            hashed_uri("http://hashed.test/page"),
            {"address": "2001:db8::/32"},
            {"expression": "tagged.test/", "action": "tag"},
        ),
        reason=REASON,
        category="hrn://example.org/web/ads",
    )
    return write_policy(folder, ["ads.yaml"])


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory, origin: Origin, rules: Path) -> Iterator[Squid]:
    """A Squid that asks the filter as an access control list."""
    with squid(tmp_path_factory.mktemp("acl"), origin, lines_of(ACL, rules)) as running:
        yield running


@pytest.fixture(scope="module")
def rewriter(tmp_path_factory: pytest.TempPathFactory, origin: Origin, rules: Path) -> Iterator[Squid]:
    """A Squid that asks the filter as a redirector."""
    with squid(tmp_path_factory.mktemp("rewriter"), origin, lines_of(REWRITER, rules)) as running:
        yield running


@pytest.fixture(params=["acl", "rewriter"])
def either(request: pytest.FixtureRequest) -> Squid:
    running = request.getfixturevalue(request.param)
    assert isinstance(running, Squid)
    return running


@pytest.mark.parametrize(
    "url",
    [
        "http://good.test/x?y",
        "http://path.test/",
        "http://path.test/secret",
        "http://path.test/find?q=secret%23x",
        "http://path.test/a%252f%7c%zz",
    ],
)
def test_what_passes_reaches_the_origin(either: Squid, origin: Origin, url: str) -> None:
    with origin.watch() as arrived:
        assert either.get(url).text == "from the origin"
    assert [request.host for request in arrived.requests] == [urlsplit(url).netloc]


@pytest.mark.parametrize("url", ["https://good.test:{}/", "https://path.test:{}/secret/"])
def test_a_tunnel_is_decided_by_its_host_alone(either: Squid, origin: Origin, url: str) -> None:
    with origin.watch() as arrived:
        assert either.get(url.format(origin.https_port)).text == "from the origin"
    assert [request.scheme for request in arrived.requests] == ["https"]


BLOCKED = [
    "http://ads.test/",
    "http://a.ADS.test:8080/x?y",
    "http://path.test/a/%2e./secret/x",
    "http://[2001:db8::1]/",
]


@pytest.mark.parametrize("url", BLOCKED)
def test_an_access_control_list_denies_and_says_why(acl: Squid, origin: Origin, url: str) -> None:
    with origin.watch() as arrived:
        answer = acl.get(url)
    assert (answer.status_code, arrived.connections) == (403, 0)
    assert "Not &quot;here&quot; \\ &lt;b&gt;now&lt;/b&gt; - ads (ads.yaml:" in answer.text


@pytest.mark.parametrize("url", BLOCKED)
def test_a_redirector_sends_to_a_page_that_says_why(rewriter: Squid, origin: Origin, url: str) -> None:
    with origin.watch() as arrived:
        answer = rewriter.get(url)
    assert (answer.status_code, arrived.connections) == (302, 0)
    page = urlsplit(answer.headers["location"])
    assert (page.netloc, page.path) == ("filter.example", "/blocked")
    facts = {name: value for name, (value,) in parse_qs(page.query, strict_parsing=True).items()}
    assert (facts["client"], facts["reason"], facts["rule"][:14]) == ("127.0.0.1", REASON, "ads (ads.yaml:")


@pytest.mark.parametrize("target", [b"ads.test:%d", b"WWW.ads.test:%d", b"[2001:db8::1]:%d"])
def test_a_tunnel_to_what_is_blocked_is_refused(either: Squid, origin: Origin, target: bytes) -> None:
    target %= origin.https_port
    with origin.watch() as arrived:
        answer = either.send(request_head(target, target, method=b"CONNECT"), "CONNECT")
    assert answer.status in (302, 403)
    assert arrived.connections == 0


@pytest.mark.parametrize("url", ["http://path.test/find?q=secret", "http://hashed.test/page"])
@pytest.mark.parametrize("fragment", ["", "#", "#x", "#/../x"])
def test_a_fragment_that_is_sent_hides_nothing(either: Squid, origin: Origin, url: str, fragment: str) -> None:
    with origin.watch() as arrived:
        answer = either.send(request_head((url + fragment).encode(), urlsplit(url).netloc.encode()))
    assert answer.status in (302, 403)
    assert arrived.connections == 0


@pytest.mark.parametrize("path", [b"/a b/../secret/x", b"/a 1.2.3.4/- - GET x=y/../../../secret/", b"/ /../secret/ \t"])
def test_spaces_in_a_url_hide_nothing_from_a_redirector(rewriter: Squid, origin: Origin, path: bytes) -> None:
    with origin.watch() as arrived:
        answer = rewriter.send(request_head(b"http://path.test" + path, b"path.test"))
    assert (answer.status, arrived.connections) == (302, 0)


@pytest.mark.parametrize(
    "path", [b"/%0d%0aX-Injected:%20yes", b'/"%22%0D%0AX-Injected:%20yes', b"/\\r\\nX-Injected: yes"]
)
def test_nothing_of_a_url_becomes_a_header(either: Squid, path: bytes) -> None:
    answer = either.send(request_head(b"http://ads.test" + path, b"ads.test"))
    assert answer.status in (302, 403)
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize(("host", "status"), [("ads.test", 403), ("tagged.test", 200)])
def test_the_access_log_says_why(acl: Squid, host: str, status: int) -> None:
    acl.get(f"http://{host}/logged")
    start = f"http://{host}/logged {status} tag=hrn://example.org/web/ads log="
    assert acl.logged(start).startswith(f"{start}{host}/ by ads (")


@pytest.mark.parametrize("block", [ACL, REWRITER], ids=["acl", "rewriter"])
def test_new_rules_hold_after_a_reconfiguration(tmp_path: Path, origin: Origin, block: str) -> None:
    write_list(tmp_path / "list.yaml", "old.test/")
    policy = write_policy(tmp_path, ["list.yaml"])
    with squid(tmp_path, origin, lines_of(block, policy)) as running:
        assert running.get("http://new.test/").status_code == 200
        assert running.get("http://old.test/").status_code in (302, 403)
        write_list(tmp_path / "list.yaml", "new.test/")
        running.reconfigure()
        assert running.get("http://new.test/").status_code in (302, 403)
        assert running.get("http://old.test/").status_code == 200


@pytest.mark.parametrize(("block", "status"), [(ACL, 403), (REWRITER, 200)], ids=["acl", "rewriter"])
def test_what_squid_makes_of_a_helper_that_is_broken(tmp_path: Path, origin: Origin, block: str, status: int) -> None:
    # So the filter may say that it is broken as an access control list, but not as a redirector.
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\nwhile read -r channel _; do echo "$channel BH"; done\n', encoding="ascii")
    broken.chmod(0o755)
    with squid(tmp_path, origin, lines_of(block, tmp_path).replace(COMMAND, str(broken))) as running:
        assert running.get("http://good.test/").status_code == status
