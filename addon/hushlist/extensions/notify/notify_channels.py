"""The policy's ``notify``: where people are told of what waits for them; ``hushlist.extensions.notify`` tells them.

No secret is in the policy: a token, and a name with its password, are in files of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from hushlist.core.extension import Notice
from hushlist.core.lists.list_keys import NAMED_GROUPS
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    choice,
    converted,
    file,
    list_of,
    matching,
    names_of,
    number,
    of_node,
    read_rows,
    schema_of,
    schema_of_rows,
    some_of,
    switch,
)
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.extensions.notify.templates import Template, check_address, read_template
from hushlist.extensions.subscriptions.subscription import WEB_URL, parts_of

#: in which people can be told: those of the pages
LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "it", "ja", "nl", "pl", "pt", "tr", "uk", "zh-hans")
_TLS_PORTS = {"starttls": 587, "tls": 465, "none": 25}
# Spec: what ntfy takes for a topic
_TOPIC = re.compile("[-_A-Za-z0-9]{1,64}")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
_SERVER = re.compile(r"[A-Za-z0-9.:-]{1,255}")
NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


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
    #: what the policy calls it
    called: str = ""
    #: the groups whose clients alone its notices are about; ``None``: all notices
    groups: tuple[str, ...] | None = None
    method: str = "POST"
    #: what is sent in the place of the notice's own JSON
    json: Template | None = None

    @property
    def name(self) -> str:
        """For people; it has no secret."""
        return self.called or f"the webhook at {self.host}"


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
    called: str = ""
    groups: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.called or f"mail from {self.server}"


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """A program, which gets JSON on its standard input, and its arguments."""

    command: tuple[str, ...]
    weekly: bool = False
    called: str = ""
    groups: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """For people; arguments may be secret."""
        return self.called or f"the command {self.command[0]}"


Channel = WebhookChannel | MailChannel | CommandChannel


def is_for(notice: Notice, channel: Channel) -> bool:
    """Whether a notice goes to a channel; of summaries, each goes only to whom it was made for.

    >>> teacher, head = CommandChannel(("/bin/a",), True, groups=("7a",)), CommandChannel(("/bin/b",), True)
    >>> notices = Notice("", "", group="7a"), Notice("", "", group="7b"), Notice("", "")
    >>> [is_for(notice, teacher) for notice in notices], [is_for(notice, head) for notice in notices]
    ([True, False, False], [True, True, True])
    >>> [is_for(Notice("", "", html="", group=group), head) for group in ("7a", None)]
    [False, True]
    """
    is_summary = notice.html is not None
    is_wanted = channel.weekly if is_summary else not notice.to or channel.called in notice.to
    if channel.groups is None:
        return is_wanted and (notice.group is None or not is_summary)
    return is_wanted and notice.group in channel.groups


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


def _usable(url: str) -> str:
    _host_of(url)
    check_address(url)
    return url


def _topic(text: str) -> str:
    if _TOPIC.fullmatch(text):
        return text
    raise ValueError("expected 1 to 64 letters, digits, - and _")


def _mails(fields: MappingReader, key: str, _: Reading) -> tuple[str, ...]:
    items = fields.some(key)
    to = tuple(item.value for item in items if isinstance(item.value, str) and _ADDRESS.fullmatch(item.value))
    if len(to) < max(1, len(items)):
        fields.error(key, "expected an address such as jo@example.org, or a list of them")
    return to


def _command(fields: MappingReader, key: str, _: Reading) -> tuple[str, ...] | None:
    words = [item.value for item in fields.items(key)]
    if not words or not all(isinstance(word, str) and word and "\0" not in word for word in words):
        fields.error(key, "expected a list: a program and its arguments, each of them text")
        return None
    if not Path(str(words[0])).is_absolute():
        fields.error(key, "expected a program's whole path, such as /usr/local/bin/tell", f"{key}: {words[0]}")
        return None
    return tuple(map(str, words))


_URL_SCHEMA: Schema = {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[!-~]{1,2000}$"}
_TEMPLATE: Schema = {"type": ["object", "array"]}
_SENDER = matching(_ADDRESS, "expected an address")
_SHARED_KEYS = (
    Key("weekly", switch).says("whether the summary of each week goes there: `on`, or `off` (the default)"),
    Key("groups", NAMED_GROUPS).says("""names of groups, or one: only what is about clients of these goes there, and a
        summary of the week of each; without it, all"""),
    Key("name", matching(NAME, "expected a name of letters, digits, - and _"), into="called").says("""what
        [alerts](alerts.md) call it, and the record of who answered: letters, digits, `-` and `_`"""),
)
_WEBHOOK_KEYS = (
    Key("webhook", converted(_usable, schema=_URL_SCHEMA), into="url", is_required=True).says("""a URL to which JSON is
        posted, with `title`, `message` and `request`: `https://`, or `http://` to a loopback or private address"""),
    Key("topic", converted(_topic, schema={"type": "string", "pattern": f"^{_TOPIC.pattern}$"})).says("""of a webhook:
        the topic of a server such as ntfy, which the JSON then names"""),
    Key("token", file).says("""of a webhook: a file with a bearer token, private to the proxy's user; where the URL has
        `$token`, it stands there"""),
    Key("method", choice(("POST", "PUT"))).says("of a webhook: `POST` (the default) or `PUT`"),
    Key("json", of_node(lambda node, reading: read_template(node, reading.report), _TEMPLATE)).says("""of a webhook:
        what is sent in place of that JSON: see [Other services](unblocking.md#other-services)"""),
    *_SHARED_KEYS,
)
_MAIL_KEYS = (
    Key("mail", Type(_mails, some_of(schema_of(_SENDER), minItems=1)), into="to", is_required=True).says("""an address
        to write to, or a list of them"""),
    Key("from", _SENDER, into="sender", is_required=True).says("of mail: the sender's address"),
    Key("server", matching(_SERVER, "expected a host"), is_required=True).says("""of mail: the server that takes it, by
        SMTP"""),
    Key("port", number(1, 65535)).says("""of mail: the server's port; without it, 587 with `starttls`, 465 with `tls`,
        25 with `none`"""),
    Key("tls", choice(_TLS_PORTS)).says("""of mail: `starttls` (the default); `tls`, from the first byte; `none`, only
        for a server at a loopback or private address"""),
    Key("login", file).says("""of mail: a file with a name and, on its second line, a password, private to the proxy's
        user"""),
    *_SHARED_KEYS,
)
_COMMAND_KEYS = (
    Key("command", Type(_command, list_of(TEXT, minItems=1)), is_required=True).says("""a program, by its whole path,
        and its arguments: it gets the same JSON on its standard input, by no shell, and has ten seconds"""),
    *_SHARED_KEYS,
)
_KINDS = {"webhook": _WEBHOOK_KEYS, "mail": _MAIL_KEYS, "command": _COMMAND_KEYS}


def _channel(node: YamlNode, reading: Reading) -> Channel | None:
    """One item of ``notify``; ``None`` if it cannot be used."""
    mapping = node.value if isinstance(node.value, dict) else {}
    kinds = [kind for kind in _KINDS if kind in mapping]
    if len(kinds) != 1:
        reading.report.error(node.line, "notify", f"expected a mapping with one of {', '.join(_KINDS)}")
        return None
    kind, rows = kinds[0], _KINDS[kinds[0]]
    fields = MappingReader(node, names_of(rows), reading.report)
    needed = [row for row in rows if row.is_required]
    for row in needed:
        fields.require(row.name, kind, f"it has no {row.name!r}")
    values = read_rows(rows, fields, reading)
    tls = values.setdefault("tls", "starttls") if kind == "mail" else ""
    if tls == "none" and "server" in values and not is_near(values["server"]):
        why = "without TLS, anybody on the way can read it: only for a server at a private or loopback address"
        fields.error("tls", why, "tls: none")
    if not all(values.get(row.field) for row in needed):
        return None
    if kind == "webhook" and "json" in values and "topic" in values:
        fields.error("json", "it stands in place of what a topic is in: leave one of both out")
    if kind == "webhook" and "$token" in values["url"] and "token" not in values:
        fields.error("webhook", "it has $token, and there is no file in 'token'", "webhook")
    if kind == "mail":
        return MailChannel(**{"port": _TLS_PORTS[tls], **values})
    return CommandChannel(**values) if kind == "command" else WebhookChannel(host=_host_of(values["url"]), **values)


def _channels(fields: MappingReader, key: str, reading: Reading) -> tuple[Channel, ...]:
    channels, named = list[Channel](), set[str]()
    for node in fields.items(key):
        channel = _channel(node, reading)
        if channel is not None and channel.called and channel.called in named:
            reading.report.error(node.line, channel.called, "more than one channel has this name")
        elif channel is not None:
            named.add(channel.called)
            channels.append(channel)
    return tuple(channels)


def _schema() -> Schema:
    return list_of({"$name": "notify-channel", "anyOf": [schema_of_rows(rows) for rows in _KINDS.values()]})


NOTIFY = Type(_channels, _schema, (*_WEBHOOK_KEYS[:-3], *_MAIL_KEYS[:-3], *_COMMAND_KEYS))
LANGUAGE = choice(LANGUAGES)
