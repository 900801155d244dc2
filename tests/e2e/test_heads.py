"""Header fields that a real proxy takes out and sets."""

from __future__ import annotations

import socket
from pathlib import Path

from e2e.origin import PATIENCE
from e2e.plain_origin import PlainOrigin
from e2e.proxy import mitmdump
from e2e.test_streaming import read_head
from e2e.test_unblock import form_of

_POLICY = """
layers:
- {name: own, lists: [{file: trackers, format: domains, action: tag, category: hrn://tests/trackers}]}
- {name: others, lists: [{file: filters, format: adblock}]}
heads:
- {for: request, category: hrn://tests/trackers, remove: [Cookie, Referer], set: {User-Agent: Browser}}
- {sites: good.test/page, remove: [set-cookie], add: {Content-Security-Policy: "script-src 'none'"}}
- {types: text/x-bad, block: true, reason: No such type}
- {status: 4xx, has: X-Bad, block: true, reason: No such status}
files: [{endings: exe}]
reports: on
unblock: on
log: {folder: log}
"""
_FILTERS = """
||good.test/listed^$csp=img-src 'self'
||good.test/listed^$cookie=track
||good.test/listed^$removeheader=request:x-id
@@||good.test/listed/fine^$cookie
||good.test/listed/shut$document,header=set-cookie:/track/
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
        connection.sendall(b"Set-Cookie: track=2\r\n" if path.startswith(b"/listed") else b"")
        connection.sendall(b"Set_Cookie: c\r\nContent-Security-Policy: img-src *\r\nContent-Length: 2\r\n\r\nok")

    (tmp_path / "trackers").write_text("tracker.test\n")
    (tmp_path / "filters").write_text(_FILTERS)
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY)
    sent = {
        "Cookie": "a=b; track=1",
        "X-Id": "1",
        "Referer": "http://x.test/",
        "User-Agent": "me",
        "Accept": "text/html",
    }
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
        bad = client.get("http://good.test/bad.exe")
        assert ("No such type" in bad.text, "bad.exe (text/x-bad)" in bad.text) == (True, True)
        assert bad.text.count("<form") == 1  # no unblock lets an answer pass
        action, token = form_of(bad)
        told = client.post(action, data={"token": token, "report": "on", "words": "It is fine"})
        assert (told.status_code, 'role="status"' in told.text) == (403, True)
        assert "No such status" in client.get("http://good.test/missing").text
        listed = client.get("http://good.test/listed/")
        assert listed.headers.get_list("content-security-policy") == ["img-src *", "img-src 'self'"]
        assert listed.headers.get_list("set-cookie") == ["a=b"]
        assert client.get("http://good.test/listed/fine/").headers.get_list("set-cookie") == ["a=b", "track=2"]
        assert "filters:6" in client.get("http://good.test/listed/shut").text
    assert b"cookie: a=b; track=1\r\n" in heads[b"/other"]
    assert b"cookie: a=b\r\n" in heads[b"/listed/"]
    assert b"x-id" not in heads[b"/listed/"]
    assert b"cookie: a=b; track=1\r\n" in heads[b"/listed/fine/"]
    assert b"cookie" not in heads[b"/pixel"]
    assert b"referer" not in heads[b"/pixel"]
    assert b"user-agent: browser\r\n" in heads[b"/pixel"]
