"""The policy's ``unblock``: what block pages offer to whoever was stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import Reading, choice, converted, list_of, numbers, read_rows, switch, switch_or
from hushlist.core.policy.keys import Key, Schema, Type
from hushlist.extensions.unblock import GRANT_SCOPES

#: most minutes of an unblock by a block page; a longer one is for the command line
MOST_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class UnblockSettings:
    #: as ``hushlist override passphrase`` prints it; ``None``: no passphrase
    passphrase: str | None = None
    #: whether single-use codes are accepted
    codes: bool = True
    #: scopes that can be unblocked; the first is the default
    scopes: tuple[str, ...] = ("host", "url")
    minutes: tuple[int, ...] = (15, 60)
    #: whether a person can ask for access, which somebody else then grants or declines
    ask: bool = False
    #: whether those who answer see the asker's address and user, whatever the log may have
    names_asker: bool = False


def _parsed(text: str) -> str:
    """The stored form of a passphrase; ``ValueError`` if it is none."""
    from hushlist.extensions.unblock.credentials import parse_stored  # most policies start faster without it

    parse_stored(text)
    return text


#: what ``hushlist override passphrase`` prints
STORED = converted(
    _parsed,
    schema={
        "type": "string",
        "pattern": r"^scrypt\$n=[0-9]{1,9},r=[0-9]{1,3},p=[0-9]{1,3}\$[A-Za-z0-9+/]{22,86}\$[A-Za-z0-9+/]{22,86}$",
    },
)
_EXPECTED_SCOPES = f"expected some of {', '.join(GRANT_SCOPES)}"


def _scopes(fields: MappingReader, key: str, reading: Reading) -> tuple[str, ...]:
    scopes = list(fields.items(key))
    for item in scopes:
        if item.value not in GRANT_SCOPES:
            reading.report.error(item.line, f"{key}: {item}", _EXPECTED_SCOPES)
    fields.refuse_empty(key, _EXPECTED_SCOPES)
    return tuple(str(item.value) for item in scopes if item.value in GRANT_SCOPES)


def _minutes(fields: MappingReader, key: str, _: Reading) -> tuple[int, ...]:
    fields.refuse_empty(key, f"expected numbers from 1 to {MOST_MINUTES}")
    return tuple(fields.numbers(key, MOST_MINUTES, least=1))


_ASK_KEYS = (
    Key("name", choice(("logged", "shown"))).says("""how whoever asks is called to those who answer: `logged` (the
        default), as the log calls them; `shown`, by user and address, whatever the log may have, and the page says
        so"""),
)
#: whether somebody can ask, and whether that shows who asks
_ASK = switch_or(
    _ASK_KEYS,
    lambda fields, reading: (True, read_rows(_ASK_KEYS, fields, reading).get("name") == "shown"),
    on=(True, False),
    off=(False, False),
)
_KEYS = (
    Key("passphrase", STORED).says("""what `hushlist override passphrase` prints: a salted, slow hash of the passphrase
        that the form asks for; without it, no passphrase is taken"""),
    Key("codes", switch).says("whether single-use codes are taken: `on` (the default) or `off`"),
    Key("scopes", Type(_scopes, list_of({"enum": list(GRANT_SCOPES)}, minItems=1))).says("""what can be unblocked by
        the passphrase, of which the person chooses one: `host`, the host and those below it; `site`, the same with what
        its pages load from others; `url`, this address alone; `category`, all that the rule's category covers; without
        it, `host` and `url`"""),
    Key("minutes", Type(_minutes, numbers(1, MOST_MINUTES, minItems=1).schema)).says("""for how long, by the passphrase,
        of which the person chooses one: 1 to 1440; without it, 15 and 60"""),
    Key("ask", _ASK).says("""whether a person can ask for access: `on`, the page has a button and a line for the reason;
        `off` (the default); or a mapping, which turns it on: see [Ask for access](unblocking.md#ask-for-access)"""),
)
_ASKING: Schema = {"anyOf": [{"enum": ["on", True]}, {"type": "object"}]}
_NOTHING_ELSE: Schema = {
    "if": {"required": ["codes"], "properties": {"codes": {"enum": ["off", False]}}},
    "then": {"anyOf": [{"required": ["passphrase"]}, {"required": ["ask"], "properties": {"ask": _ASKING}}]},
}


def _settings(fields: MappingReader, reading: Reading) -> UnblockSettings:
    values = read_rows(_KEYS, fields, reading)
    ask, names_asker = values.pop("ask", (False, False))
    settings = UnblockSettings(**values, ask=ask, names_asker=names_asker)
    if not settings.codes and not ask and "passphrase" not in fields:
        reading.report.error(fields.line, "unblock", "it takes neither a passphrase nor codes, and nobody can ask")
    return settings


UNBLOCK = switch_or(_KEYS, _settings, on=UnblockSettings(), name="unblock", **_NOTHING_ELSE)


# -- the address -------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]{1,255})(?::[0-9]{1,5})?")


def _own_address(text: str) -> str:
    """The address at which phones reach the proxy.

    >>> _own_address("http://192.168.1.2:8080/")
    'http://192.168.1.2:8080'
    """
    if not _ADDRESS.fullmatch(text.removesuffix("/")):
        raise ValueError("expected http:// or https:// with a host and perhaps a port, such as http://192.168.1.2:8080")
    host = urlsplit(text).hostname or ""
    try:
        is_far = not ip_address(host).is_private
    except ValueError:
        is_far = False
    if is_far and text.startswith("http:"):
        raise ValueError("over http, anybody on the way can read the links: use https, or a private address")
    return text.removesuffix("/")


OWN_ADDRESS = converted(_own_address, schema={"type": "string", "pattern": "^https?://[^/?#@\\s]+/?$"})
