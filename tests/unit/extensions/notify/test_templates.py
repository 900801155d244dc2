"""Templates of webhooks: what strangers write stays text, secrets stay out, missing buttons leave no hole."""

from __future__ import annotations

import json
from pathlib import Path

from hushlist.core.extension import Button, Notice
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.extensions.notify.delivery import deliver
from hushlist.extensions.notify.notify_channels import WebhookChannel
from hushlist.extensions.notify.templates import Template, filled, read_template
from unit.extensions.notify.servers import LOOPBACK, HttpServer, listening
from unit.rows import each_row

HOSTILE = '", "chat_id": "1"}\\ $token <b>\n\u2028'


def template(text: str) -> Template:
    report = ProblemReport("p")
    node = read_document(text.encode(), report)
    assert node is not None
    read = read_template(node, report)
    assert read is not None
    assert report.errors == []
    return read


@each_row(
    ("text", "buttons", "result"),
    [
        ("{a: '$title', b: [x, $label1]}", 0, {"a": HOSTILE, "b": ["x"]}),
        ("{a: '$title_html'}", 0, {"a": HOSTILE.replace('"', "&#34;").replace("<b>", "&lt;b&gt;")}),
        ("{a: {link: $link1, b: c}}", 0, {"a": {"b": "c"}}),
        ("{a: [[{text: $label1, url: $link1}], [{url: $link2}]]}", 1, {"a": [[{"text": "one", "url": "u1"}]]}),
        ("[$link1, {n: {deep: $link2}}]", 1, ["u1", {"n": {}}]),
        ("{a: '5 $ and $5', b: }", 0, None),
    ],
)
def test_a_template_is_filled_text_by_text(text: str, buttons: int, result: object) -> None:
    values = {"title": HOSTILE, "title_html": HOSTILE.replace('"', "&#34;").replace("<b>", "&lt;b&gt;")}
    for number, word in list(enumerate(("one", "two"), 1))[:buttons]:
        values |= {f"label{number}": word, f"link{number}": f"u{number}"}
    if result is None:
        report = ProblemReport("p")
        read_template(read_document(text.encode(), report), report)  # type: ignore[arg-type]
        assert [error.what for error in report.errors] == ["$5"]
    else:
        assert filled(template(text), values) == result


def test_what_a_stranger_writes_ends_no_text_and_a_token_is_in_the_address_alone(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("12:ab/c")
    secret.chmod(0o600)
    server = HttpServer()
    text = "{chat_id: '7', text: '$title: $message', h: '$message_html', keys: [{url: $link1}, {url: $link3}]}"
    with listening(server) as port:
        url = f"http://{LOOPBACK}:{port}/bot$token/send/$id"
        channel = WebhookChannel(url, LOOPBACK, None, secret, method="PUT", json=template(text))
        deliver(channel, Notice(HOSTILE, HOSTILE), [Button("Yes", "http://h/1")], "k3y")
    assert server.head.startswith(b"PUT /bot12:ab%2Fc/send/k3y HTTP/1.1\r\n")
    assert b"authorization" not in server.head.lower()
    said = json.loads(server.body)
    assert list(said) == ["chat_id", "text", "h", "keys"]
    assert (said["chat_id"], said["text"], said["keys"]) == ("7", f"{HOSTILE}: {HOSTILE}", [{"url": "http://h/1"}])
    assert "<" not in said["h"]
    assert b"12:ab" not in server.body
