"""Delivers one notice by one channel; waits for the network, or for a command, but never long.

What a fault says contains no address of a webhook, no topic, token, password or message: it goes into the log.
"""

from __future__ import annotations

import smtplib
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from markupsafe import escape

from hushlist import __version__
from hushlist.core.errors import HushlistError, to_json
from hushlist.core.system.files import read_private, reason_of
from hushlist.core.system.platform import end_with_children
from hushlist.extensions.notify.notify_channels import Channel, CommandChannel, MailChannel, WebhookChannel
from hushlist.extensions.notify.templates import MOST_BUTTONS, filled, filled_address

if TYPE_CHECKING:
    from hushlist.core.extension import Button, Notice

#: seconds that a server may say nothing, and that a command may take
PATIENCE = 10.0
#: octets of a file with a token, or with name and password
_LONGEST_SECRET = 4096


class DeliveryError(HushlistError):
    """A notice could not be delivered; the message says why, without secrets."""

    def __init__(self, why: str, rest: Channel | None = None) -> None:
        super().__init__(why)
        #: those who have not got it, where others have
        self.rest = rest


def deliver(channel: Channel, notice: Notice, buttons: Sequence[Button] = (), key: str = "") -> None:
    """Deliver a notice, to mail programs and to programs also as a page; ``DeliveryError`` if that was not possible.

    ``key`` is the same for each try of one notice: a server that takes it has it once.
    """
    plain = notice.as_dict()
    whole = plain if notice.html is None else {**plain, "html": notice.html}
    if buttons:
        whole = {**whole, "buttons": [button._asdict() for button in buttons]}
    try:
        match channel:
            case WebhookChannel(json=None):
                _send(channel, whole if channel.topic is None else _short(channel.topic, plain, buttons), key)
            case WebhookChannel():
                assert channel.json is not None
                _send(channel, filled(channel.json, _words_of(notice, buttons)), key)
            case MailChannel():
                _mail(channel, notice, buttons)
            case CommandChannel():
                _run(channel, whole)
    except DeliveryError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise DeliveryError(f"its certificate is not valid: {error.verify_message}") from None
    except TimeoutError:
        raise DeliveryError(f"nothing was heard for {PATIENCE:g} seconds") from None
    except (HTTPException, smtplib.SMTPException) as error:  # they quote what a server said
        raise DeliveryError(f"the server's answer is broken, or a refusal: {type(error).__name__}") from None
    except OSError as error:
        raise DeliveryError(error.strerror or type(error).__name__) from None


def _short(topic: str, plain: Mapping[str, object], buttons: Sequence[Button]) -> dict[str, object]:
    """What a server of notices such as ntfy takes, whose phones send the buttons' POST themselves."""
    actions = [
        {"action": "http", "label": button.label, "url": button.url, "method": "POST", "clear": True}
        for button in buttons[:MOST_BUTTONS]
    ]
    return {"topic": topic, **plain, **({"actions": actions} if actions else {})}


def _words_of(notice: Notice, buttons: Sequence[Button]) -> dict[str, str]:
    """What stands for the placeholders of a template."""
    texts = {"title": notice.title, "message": notice.message}
    in_html = {f"{name}_html": str(escape(text)) for name, text in texts.items()}
    of_buttons = {
        f"{name}{number}": text
        for number, button in enumerate(buttons[:MOST_BUTTONS], 1)
        for name, text in (("label", button.label), ("link", button.url))
    }
    return {**texts, **in_html, **of_buttons}


def _send(channel: WebhookChannel, plain: object, key: str) -> None:
    token = None if channel.token is None else _secret(channel.token)[0]
    url = filled_address(channel.url, {"id": key, **({} if token is None else {"token": quote(token, safe=":")})})
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": f"hushlist/{__version__}", "Connection": "close"}
    if token is not None and "$token" not in channel.url:
        headers["Authorization"] = f"Bearer {token}"
    body = to_json(plain).encode("ascii")
    host = parts.hostname or ""
    connection: HTTPConnection
    if parts.scheme.lower() == "https":
        connection = HTTPSConnection(host, parts.port, timeout=PATIENCE, context=ssl.create_default_context())
    else:
        connection = HTTPConnection(host, parts.port, timeout=PATIENCE)
    try:
        connection.request(
            channel.method, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", body, headers
        )
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise DeliveryError(f"the server answered {status}")


def _mail(channel: MailChannel, notice: Notice, buttons: Sequence[Button]) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = channel.sender, ", ".join(channel.to), notice.title
    mail["Date"], mail["Message-ID"] = formatdate(), make_msgid(domain=channel.sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday note answers it
    mail.set_content("\n".join([notice.message, *(f"{button.label}: {button.url}" for button in buttons)]))
    if notice.html is not None:
        mail.add_alternative(notice.html, subtype="html")
    context = ssl.create_default_context()
    if channel.tls == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(channel.server, channel.port, timeout=PATIENCE, context=context)
    else:
        server = smtplib.SMTP(channel.server, channel.port, timeout=PATIENCE)
    try:
        if channel.tls == "starttls":
            server.starttls(context=context)
        if channel.login is not None:
            name, password = (*_secret(channel.login), "")[:2]
            server.login(name, password)
        refused = server.send_message(mail)
    finally:
        with suppress(OSError, smtplib.SMTPException):  # a mail that was taken is sent, whatever comes of the end
            server.quit()
        server.close()
    if refused:
        raise DeliveryError("the server refused some of the addresses", replace(channel, to=tuple(refused)))


def _run(channel: CommandChannel, plain: Mapping[str, object]) -> None:
    process = subprocess.Popen(  # noqa: S603  the policy's own command, and no shell
        channel.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.communicate(to_json(plain).encode("ascii") + b"\n", PATIENCE)
    except subprocess.TimeoutExpired:
        raise DeliveryError(f"it was not done after {PATIENCE:g} seconds") from None
    finally:
        if process.poll() is None:
            end_with_children(process)
            process.wait()
    if process.returncode:
        raise DeliveryError(f"it ended with {process.returncode}")


def _secret(path: Path) -> list[str]:
    try:
        lines = read_private(path, _LONGEST_SECRET).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "it is not ASCII"
        raise DeliveryError(f"{path}: {why}") from None
    if not lines or not lines[0].strip():
        raise DeliveryError(f"{path}: it is empty")
    return [line.strip() for line in lines]
