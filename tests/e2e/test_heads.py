"""Header fields that a real proxy takes out and sets."""

from __future__ import annotations

import socket
from pathlib import Path

from e2e.origin import PATIENCE
from e2e.plain_origin import PlainOrigin
from e2e.proxy import mitmdump
from e2e.test_streaming import read_head

_POLICY = """
layers: [{name: own, lists: [{file: trackers, format: domains, action: tag, category: hrn://tests/trackers}]}]
heads:
- {for: request, category: hrn://tests/trackers, remove: [Cookie, Referer], set: {User-Agent: Browser}}
- {sites: good.test/page, remove: [set-cookie], add: {Content-Security-Policy: "script-src 'none'"}}
- {types: text/x-bad, block: true, reason: No such type}
- {status: 4xx, has: X-Bad, block: true, reason: No such status}
files: [{endings: exe}]
"""


def test_heads_are_changed_and_answers_blocked_by_them(tmp_path: Path) -> None:
    heads: dict[bytes, bytes] = {}

    def serve(connection: socket.socket) -> None:
        head = read_head(connection)
        path = head.split()[1]
        heads[path] = head.lower()
        kind = b"text/x-bad" if path == b"/bad.exe" else b"text/html"
        status = b"404 No\r\nX-Bad: 1" if path == b"/missing" else b"200 OK"
        connection.sendall(b"HTTP/1.1 %b\r\nContent-Type: %b\r\nSet-Cookie: a=b\r\n" % (status, kind))
        connection.sendall(b"Set_Cookie: c\r\nContent-Security-Policy: img-src *\r\nContent-Length: 2\r\n\r\nok")

    (tmp_path / "trackers").write_text("tracker.test\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY)
    sent = {"Cookie": "a=b", "Referer": "http://x.test/", "User-Agent": "me", "Accept": "text/html"}
    with (
        PlainOrigin(serve) as origin,
        mitmdump(tmp_path, origin, policy=policy) as proxy,
        proxy.client(timeout=PATIENCE) as client,
    ):
        client.headers.update(sent)
        page = client.get("http://good.test/page/1")
        assert page.text == "ok"
        assert "set-cookie" not in page.headers
        assert page.headers.get_list("content-security-policy") == ["img-src *", "script-src 'none'"]
        assert client.get("http://good.test/other").headers["set-cookie"] == "a=b"
        client.get("http://tracker.test/pixel")
        assert "No such type" in client.get("http://good.test/bad.exe").text
        assert "No such status" in client.get("http://good.test/missing").text
    assert b"cookie: a=b" in heads[b"/other"]
    assert b"cookie" not in heads[b"/pixel"]
    assert b"referer" not in heads[b"/pixel"]
    assert b"user-agent: browser\r\n" in heads[b"/pixel"]
