"""The policy's ``notify``: what is read, and what is refused, without quoting what may be secret."""

from pathlib import Path

import pytest

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_reader import read_policy
from hushlist.extensions.notify.notify_channels import Channel, CommandChannel, MailChannel, WebhookChannel
from unit.rows import each_row

MAIL = "mail: jo@a.example, from: filter@a.example, server: smtp.a.example"


def read(folder: Path, item: str) -> tuple[tuple[Channel, ...], list[str]]:
    (folder / "token").write_text("secret")
    path = folder / "policy.yaml"
    path.write_text(f"layers: []\nnotify:\n- {item}\ngroups: [{{name: 7a, clients: [10.0.0.0/8]}}]\n")
    report = ProblemReport("p")
    policy = read_policy(path, report)
    assert policy is not None
    return policy.of("notify"), list(map(str, report.errors))


@each_row(
    ("item", "channel"),
    [
        ("webhook: https://ntfy.example/x?y", WebhookChannel("https://ntfy.example/x?y", "ntfy.example")),
        ("{webhook: 'http://[::1]:8080', topic: a-B_9}", WebhookChannel("http://[::1]:8080", "::1", "a-B_9")),
        ("webhook: http://192.168.1.2/hook", WebhookChannel("http://192.168.1.2/hook", "192.168.1.2")),
        (
            f"{{{MAIL}}}",
            MailChannel(("jo@a.example",), "filter@a.example", "smtp.a.example", 587, "starttls"),
        ),
        (
            "{mail: [jo@a.example, mo@a.example], from: f@a.example, server: 10.0.0.1, tls: none, port: 2525}",
            MailChannel(("jo@a.example", "mo@a.example"), "f@a.example", "10.0.0.1", 2525, "none"),
        ),
        ("command: [/bin/tell, --loud]", CommandChannel(("/bin/tell", "--loud"))),
        ("{command: [/bin/tell], groups: 7a}", CommandChannel(("/bin/tell",), groups=("7a",))),
        (
            "{webhook: 'https://a.example', weekly: on, groups: [7a]}",
            WebhookChannel("https://a.example", "a.example", weekly=True, groups=("7a",)),
        ),
    ],
)
def test_channels_are_read(tmp_path: Path, item: str, channel: Channel) -> None:
    assert read(tmp_path, item) == ((channel,), [])


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("webhook: https://ntfy.example/secret?y", "the webhook at ntfy.example"),
        (f"{{{MAIL}}}", "mail from smtp.a.example"),
        ("command: [/bin/tell, --loud]", "the command /bin/tell"),
    ],
)
def test_a_channel_has_a_name_without_secrets(tmp_path: Path, item: str, name: str) -> None:
    ((channel,), _) = read(tmp_path, item)
    assert channel.name == name


def test_secrets_are_in_files_beside_the_policy(tmp_path: Path) -> None:
    assert read(tmp_path, "{webhook: 'https://n.example', token: token}") == (
        (WebhookChannel("https://n.example", "n.example", None, tmp_path / "token"),),
        [],
    )
    ((mail,), errors) = read(tmp_path, f"{{{MAIL}, login: token, tls: tls}}")
    assert isinstance(mail, MailChannel)
    assert (mail.login, mail.port, errors) == (tmp_path / "token", 465, [])


@each_row(
    ("item", "error"),
    [
        ("{}", "p:3: notify: expected a mapping with one of webhook, mail, command"),
        ("text", "p:3: notify: expected a mapping with one of webhook, mail, command"),
        ("{webhook: 'https://a.example', command: [/a]}", "p:3: notify: expected a mapping with one of"),
        ("{webhook: 'https://a.example', server: b}", "p:3: server: unknown key"),
        ("{webhook: 'https://a.example', name: a b}", "p:3: name: a b: expected a name of letters, digits"),
        ("{webhook: 'https://a.example/$tok'}", "p:3: webhook: an address may have $id and $token alone"),
        ("{webhook: 'https://a.example/$token'}", "p:3: webhook: it has $token, and there is no file in 'token'"),
        ("{webhook: 'https://a.example', topic: a, json: {a: b}}", "p:3: json: it stands in place of what a topic"),
        ("{webhook: 'https://a.example', json: $title}", "p:3: json: expected a mapping or a list, not text"),
        (
            "{webhook: 'https://a.example', json: {a: $titel}}",
            "p:3: $titel: there is no such placeholder; did you mean",
        ),
        ("{webhook: 'https://a.example', json: {a: $token}}", "p:3: $token: there is no such placeholder"),
        (
            "{webhook: 'https://a.example', json: {parse_mode: HTML}}",
            "p:3: parse_mode: what people wrote is sent as text",
        ),
        ("{webhook: 'https://a.example', json: {a: [{formatted_body: x}]}}", "p:3: formatted_body: what people wrote"),
        ("{command: [/a], name: x}\n- {command: [/b], name: x}", "p:4: x: more than one channel has this name"),
        ("webhook: ftp://secret.example", "p:3: webhook: expected an address with https:// or http://"),
        ("webhook: https://jo:secret@a.example", "p:3: webhook: it has a name, a password or a fragment"),
        ("webhook: https://:99999/secret", "p:3: webhook: it names no host and port"),
        ("webhook: http://secret.example/x", "p:3: webhook: over http, anybody on the way can read it"),
        ("webhook: http://0.0.0.0/secret", "p:3: webhook: over http, anybody on the way can read it"),
        ("{webhook: 'https://a.example', topic: secret/x}", "p:3: topic: expected 1 to 64 letters, digits, - and _"),
        ("{webhook: 'https://a.example', token: none}", "p:3: none: there is no such file"),
        ("{mail: jo@a.example}", "p:3: mail: it has no 'from'"),
        (f"{{{MAIL}, tls: none}}", "p:3: tls: none: without TLS, anybody on the way can read it"),
        ("{mail: 'jo@a.example,x@b', from: f@a.example, server: s}", "p:3: mail: expected an address such as"),
        ("{mail: [], from: f@a.example, server: s}", "p:3: mail: expected an address such as"),
        ('{mail: jo@a.example, from: "f@a.example\\nBcc: x@y", server: s}', "p:3: from:"),
        ("{mail: jo@a.example, from: f@a.example, server: 'a b'}", "p:3: server: a b: expected a host"),
        ("command: /bin/tell", "p:3: command: expected a list, not text"),
        ("command: []", "p:3: command: expected a list: a program and its arguments"),
        ("{command: [/a], groups: 7b}", "p:3: 7b: there is no such group (known: 7a)"),
        ("{command: [/a], groups: default}", "p:3: default: there is no such group (known: 7a)"),
        ("{command: [/a], groups: []}", "p:3: groups: expected some groups"),
        (f"{{{MAIL}, groups: {{a: b}}}}", "p:3: groups: expected"),
        ("command: [tell]", "p:3: command: tell: expected a program's whole path"),
        ("command: [/bin/tell, [x]]", "p:3: command: expected a list: a program and its arguments"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_line_without_secrets(tmp_path: Path, item: str, error: str) -> None:
    _, errors = read(tmp_path, item)
    assert error in errors[0]
    assert "secret" not in "".join(errors)
