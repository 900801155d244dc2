"""One notice by each kind of channel, to servers and programs of the test's own; no fault tells a secret."""

from __future__ import annotations

import email
import json
import os
import socket
import ssl
import sys
from email.policy import default
from pathlib import Path

import pytest

from hushlist.extensions.notify import delivery
from hushlist.extensions.notify.delivery import DeliveryError, deliver
from hushlist.extensions.notify.notifier import Notice
from hushlist.extensions.notify.notify_channels import Channel, CommandChannel, MailChannel, WebhookChannel
from support.https_origin import write_chain
from unit.extensions.notify.servers import LOOPBACK, HttpServer, SmtpServer, listening
from unit.rows import each_row

PLAIN = {"title": "jo asks", "message": "for \u00e9\u2028", "request": {"id": 1}}


def send(channel: Channel) -> None:
    deliver(channel, Notice("jo asks for \u00e9", "for \u00e9\nReason: <b>\n", PLAIN))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "login"
    path.write_text("jo\npass word\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """That of a server whose certificate is trusted."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*write_chain(tmp_path, tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


def webhook(port: int, scheme: str = "http", **more: object) -> WebhookChannel:
    return WebhookChannel(f"{scheme}://{LOOPBACK}:{port}/secret?a=b", LOOPBACK, **more)  # type: ignore[arg-type]


def mail(port: int, tls: str, login: Path | None = None) -> MailChannel:
    return MailChannel(("jo@a.example", "mo@a.example"), "filter@a.example", LOOPBACK, port, tls, login)


# -- as HTML -----------------------------------------------------------------------------------------------------------


def test_a_summary_is_html_in_mail_and_in_the_json_of_programs() -> None:
    page, smtp = "<!doctype html><p>é", SmtpServer()
    with listening(smtp) as port:
        deliver(mail(port, "none"), Notice("The week", "in words", PLAIN, html=page))
    message = email.message_from_bytes(smtp.mail, policy=default)
    assert message.get_content_type() == "multipart/alternative"
    parts = [(part.get_content_type(), part.get_content().strip()) for part in message.iter_parts()]  # type: ignore[attr-defined]
    assert parts == [("text/plain", "in words"), ("text/html", page)]
    for topic, told in ((None, page), ("phone", None)):
        server = HttpServer()
        with listening(server) as port:
            deliver(webhook(port, topic=topic), Notice("The week", "in words", PLAIN, html=page))
        assert json.loads(server.body).get("html") == told


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_json_with_the_topic_and_the_token(secret: Path) -> None:
    server = HttpServer()
    with listening(server) as port:
        send(webhook(port, topic="filter", token=secret))
    assert server.head.startswith(b"POST /secret?a=b HTTP/1.1\r\n")
    assert b"Authorization: Bearer jo\r\n" in server.head
    assert b"Content-Type: application/json\r\n" in server.head
    assert json.loads(server.body) == {"topic": "filter", **PLAIN}
    assert server.body.isascii()


def test_a_webhook_is_posted_to_by_https(context: ssl.SSLContext) -> None:
    server = HttpServer(context=context)
    with listening(server) as port:
        send(webhook(port, "https"))
    assert json.loads(server.body) == PLAIN


def test_a_certificate_that_nobody_vouches_for_is_refused(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server = HttpServer(context=context)
    with listening(server) as port, pytest.raises(DeliveryError, match="its certificate is not valid"):
        send(webhook(port, "https"))
    assert server.head == b""


@each_row(
    ("answer", "why"),
    [
        (b"HTTP/1.1 403 secret\r\nContent-Length: 0\r\n\r\n", "the server answered 403"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/secret\r\n\r\n", "the server answered 302"),
        (b"secret\r\n", "the server's answer is broken, or a refusal: BadStatusLine"),
        (b"", "the server's answer is broken, or a refusal: RemoteDisconnected"),
    ],
)
def test_what_a_server_says_is_told_without_its_words(answer: bytes, why: str) -> None:
    with listening(HttpServer(answer)) as port, pytest.raises(DeliveryError) as caught:
        send(webhook(port))
    assert str(caught.value) == why


def test_a_server_that_is_not_there_is_told_without_its_address() -> None:
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DeliveryError) as caught:
        send(webhook(port))
    assert "secret" not in str(caught.value)


def test_a_server_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE", 0.05)
    with socket.create_server((LOOPBACK, 0)) as silent, pytest.raises(DeliveryError, match="nothing was heard"):
        send(webhook(silent.getsockname()[1]))


@pytest.mark.parametrize(
    ("octets", "mode", "why"),
    [
        (None, 0o600, "No such file"),
        (b"\n", 0o600, "it is empty"),
        (b"\xff", 0o600, "it is not ASCII"),
        pytest.param(b"token", 0o644, "it is secret, and others can use it", marks=pytest.mark.posix),
        (b"x" * 9999, 0o600, "it is longer than"),
    ],
)
def test_a_file_with_a_token_is_private_and_short(tmp_path: Path, octets: bytes | None, mode: int, why: str) -> None:
    path = tmp_path / "token"
    if octets is not None:
        path.write_bytes(octets)
        path.chmod(mode)
    with pytest.raises(DeliveryError, match=why):
        send(webhook(9, token=path))


# -- mail --------------------------------------------------------------------------------------------------------------


def test_mail_is_sent_after_starttls_with_a_login(context: ssl.SSLContext, secret: Path) -> None:
    server = SmtpServer(context)
    with listening(server) as port:
        send(mail(port, "starttls", secret))
    in_clear = [command.split()[0].upper() for is_secret, command in server.commands if not is_secret]
    assert in_clear == [b"EHLO", b"STARTTLS"]
    assert b"AUTH PLAIN AGpvAHBhc3Mgd29yZA==" in [command for _, command in server.commands]
    sent = email.message_from_bytes(server.mail, policy=default)
    assert (sent["From"], sent["To"]) == ("filter@a.example", "jo@a.example, mo@a.example")
    assert sent["Subject"] == "jo asks for \u00e9"
    assert sent.get_content().splitlines() == ["for \u00e9", "Reason: <b>"]  # type: ignore[attr-defined]
    assert sent["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize("tls", ["tls", "none"])
def test_mail_is_sent_by_tls_from_the_first_octet_or_without(context: ssl.SSLContext, tls: str) -> None:
    server = SmtpServer(context if tls == "tls" else None, is_wrapped=tls == "tls")
    with listening(server) as port:
        send(mail(port, tls))
    assert b"jo asks for" in server.mail
    assert {is_secret for is_secret, _ in server.commands} == {tls == "tls"}


def test_mail_is_not_sent_to_a_server_that_has_no_starttls(secret: Path) -> None:
    server = SmtpServer()
    with listening(server) as port, pytest.raises(DeliveryError, match="SMTPNotSupportedError"):
        send(mail(port, "starttls", secret))
    assert server.mail == b""
    assert not [command for _, command in server.commands if command.startswith(b"AUTH")]


@pytest.mark.parametrize("refused", [b"AUTH", b"MAIL", b"RCPT", b"DATA"])
def test_a_refusal_is_told_without_the_words_of_the_server(secret: Path, refused: bytes) -> None:
    with listening(SmtpServer(refuses=refused)) as port, pytest.raises(DeliveryError) as caught:
        send(mail(port, "none", secret))
    assert "a refusal: SMTP" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_who_has_got_a_mail_gets_it_no_second_time_where_another_address_is_refused() -> None:
    server = SmtpServer(refuses=b"RCPT TO:<MO@")
    with listening(server) as port, pytest.raises(DeliveryError) as caught:
        send(mail(port, "none"))
    assert b"jo asks for" in server.mail
    assert str(caught.value) == "the server refused some of the addresses"
    assert isinstance(caught.value.rest, MailChannel)
    assert caught.value.rest.to == ("mo@a.example",)


def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_at_the_end() -> None:
    server = SmtpServer(refuses=b"QUIT")
    with listening(server) as port:
        send(mail(port, "none"))
    assert b"jo asks for" in server.mail
    assert server.commands[-1] == (False, b"quit")


# -- commands ----------------------------------------------------------------------------------------------------------


def command(script: str, *arguments: str) -> CommandChannel:
    return CommandChannel((sys.executable, "-c", script, *arguments))


@pytest.mark.slow
def test_a_command_gets_json_and_its_arguments_and_no_shell(tmp_path: Path) -> None:
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.stdin.read())"
    send(command(script, str(tmp_path / "out"), "$HOME;`id`"))
    told = (tmp_path / "out").read_text()
    assert told.startswith("$HOME;`id`{")
    assert json.loads(told.removeprefix("$HOME;`id`")) == PLAIN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "why"),
    [
        (command("import sys; sys.exit(3)"), "it ended with 3"),
        (CommandChannel(("/no/such/program", "secret")), "No such file or directory"),
    ],
)
def test_a_command_that_fails_is_told(channel: CommandChannel, why: str) -> None:
    with pytest.raises(DeliveryError) as caught:
        send(channel)
    assert str(caught.value) == why


@pytest.mark.slow
def test_a_command_that_reads_nothing_is_none_that_failed() -> None:
    deliver(command("pass"), Notice("", "", {"message": "x" * (1 << 20)}))


@pytest.mark.slow
@pytest.mark.posix
def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PATIENCE", 3.0)
    script = "import os, sys, time; os.fork() or os.write(int(sys.argv[1]), b'x'); time.sleep(600)"
    own, its = os.pipe()
    os.set_inheritable(its, True)
    with pytest.raises(DeliveryError, match="it was not done after 3 seconds"):
        send(command(script, str(its)))
    os.close(its)
    with os.fdopen(own, "rb") as left:
        left.read()  # to its end: nobody has the other side
