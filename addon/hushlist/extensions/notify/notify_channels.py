"""The policy's ``notify``: where people are told of what waits for them; ``hushlist.extensions.notify`` tells them.

No secret is in the policy: a token, and a name with its password, are in files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.extensions.subscriptions.subscription import WEB_URL, parts_of

#: makes sure that a file is there which a line of the policy names
FindFile = Callable[[MappingReader, str], Path | None]

#: in which people can be told: those of the pages
LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "it", "ja", "nl", "pl", "pt", "tr", "uk", "zh-hans")
_KEYS = {
    "webhook": ("webhook", "topic", "token", "weekly"),
    "mail": ("mail", "from", "server", "port", "tls", "login", "weekly"),
    "command": ("command", "weekly"),
}
_TLS_PORTS = {"starttls": 587, "tls": 465, "none": 25}
# Spec: what ntfy takes for a topic
_TOPIC = re.compile("[-_A-Za-z0-9]{1,64}")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
_SERVER = re.compile(r"[A-Za-z0-9.:-]{1,255}")


@dataclass(frozen=True, slots=True)
class WebhookChannel:
    """A URL to which JSON is posted; whoever knows it may be able to use it."""

    url: str
    host: str
    topic: str | None = None
    #: the file with a bearer token
    token: Path | None = None
    #: whether it takes the summary of a week
    weekly: bool = False

    @property
    def name(self) -> str:
        """For people; it has no secret."""
        return f"the webhook at {self.host}"


@dataclass(frozen=True, slots=True)
class MailChannel:
    to: tuple[str, ...]
    sender: str
    server: str
    port: int
    #: ``starttls``, ``tls`` or ``none``
    tls: str
    #: the file with a name, and a password on its second line
    login: Path | None = None
    weekly: bool = False

    @property
    def name(self) -> str:
        return f"mail from {self.server}"


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """A program, which gets JSON on its standard input, and its arguments."""

    command: tuple[str, ...]
    weekly: bool = False

    @property
    def name(self) -> str:
        """For people; arguments may be secret."""
        return f"the command {self.command[0]}"


Channel = WebhookChannel | MailChannel | CommandChannel


def read_channel(node: YamlNode, report: ProblemReport, find_file: FindFile) -> Channel | None:
    """One item of ``notify``; ``None`` if it cannot be used."""
    given = node.value if isinstance(node.value, dict) else {}
    kinds = [kind for kind in _KEYS if kind in given]
    if len(kinds) != 1:
        report.error(node.line, "notify", f"expected a mapping with one of {', '.join(_KEYS)}")
        return None
    fields = MappingReader(node, _KEYS[kinds[0]], report)
    readers = {"webhook": _webhook, "mail": _mail, "command": _command}
    channel, weekly = readers[kinds[0]](fields, find_file), fields.choice("weekly", ("on", "off"))
    return channel if channel is None else replace(channel, weekly=weekly == "on")


def _webhook(fields: MappingReader, find_file: FindFile) -> Channel | None:
    topic, token = fields.text("topic"), find_file(fields, "token")
    if topic is not None and not _TOPIC.fullmatch(topic):
        fields.error("topic", "expected 1 to 64 letters, digits, - and _")
    return fields.converted("webhook", lambda url: WebhookChannel(url, _host_of(url), topic, token))


def _host_of(url: str) -> str:
    """The host of a webhook's URL; ``ValueError`` if the URL cannot be used."""
    if not WEB_URL.fullmatch(url):
        raise ValueError("expected an address with https:// or http://")
    parts = parts_of(url)
    if parts is None or parts.hostname is None:
        raise ValueError("it names no host and port")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("it has a name, a password or a fragment, which are not sent: put a token into a file")
    if parts.scheme.lower() == "http" and not is_near(parts.hostname):
        raise ValueError("over http, anybody on the way can read it: use https, or a private or loopback address")
    return parts.hostname


def is_near(host: str) -> bool:
    """Whether what is sent to a host stays on this machine or in a private network.

    >>> [is_near(host) for host in ("127.0.0.1", "192.168.1.2", "fd00::1", "localhost", "8.8.8.8", "nas")]
    [True, True, True, True, False, False]
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return address.is_loopback or (address.is_private and not address.is_unspecified)


def _mail(fields: MappingReader, find_file: FindFile) -> Channel | None:
    for key in ("from", "server"):
        fields.require(key, "mail", f"it has no {key!r}")
    node = fields.node("mail")
    items = [] if node is None else node.items
    to = [item.value for item in items if isinstance(item.value, str) and _ADDRESS.fullmatch(item.value)]
    if len(to) < max(1, len(items)):
        fields.error("mail", "expected an address such as jo@example.org, or a list of them")
    sender = fields.converted("from", lambda text: text if _ADDRESS.fullmatch(text) else None, "expected an address")
    server = fields.converted("server", lambda text: text if _SERVER.fullmatch(text) else None, "expected a host")
    tls = fields.choice("tls", _TLS_PORTS) or "starttls"
    port, login = fields.number("port", 1, 65535) or _TLS_PORTS[tls], find_file(fields, "login")
    if tls == "none" and server is not None and not is_near(server):
        why = "without TLS, anybody on the way can read it: only for a server at a private or loopback address"
        fields.error("tls", why, "tls: none")
    if not to or sender is None or server is None:
        return None
    return MailChannel(tuple(to), sender, server, port, tls, login)


def _command(fields: MappingReader, _: FindFile) -> Channel | None:
    words = [item.value for item in fields.items("command")]
    if not words or not all(isinstance(word, str) and word and "\0" not in word for word in words):
        fields.error("command", "expected a list: a program and its arguments, each of them text")
        return None
    if not Path(str(words[0])).is_absolute():
        why = "expected a program's whole path, such as /usr/local/bin/tell"
        fields.error("command", why, f"command: {words[0]}")
        return None
    return CommandChannel(tuple(map(str, words)))
