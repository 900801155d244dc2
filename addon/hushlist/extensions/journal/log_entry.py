"""What is written of a decision: its line, and its columns in a database.

A line is put together of texts that hold for many decisions, such as those of a rule; JSON makes the rest.

>>> entry = entry_of_fields({"reference": "003F8KQ71Z", "time": "2026-12-24T22:30:00.250Z", "user": "me\\nyou"})
>>> line_of(entry)
b'{"reference": "003F8KQ71Z", "time": "2026-12-24T22:30:00.250Z", "user": "me\\\\nyou"}\\n'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.core.errors import to_json
from hushlist.core.match.rule import Action, Terms
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.group_table import DeviceNames
from hushlist.core.policy.groups import UNNAMED, address_text
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import (
    LogFields,
    Privacy,
    file_of_record,
    host_of_url,
    shown_url,
    shown_urls,
    time_text,
    to_line,
    who,
)
from hushlist.extensions.journal.request_counts import WOULD

#: most characters of each text in a record
MOST_SHOWN = 4096
#: of the table, besides the number of a record; those of the first line are fields of it
_OF_FIELDS = ("reference", "time", "client", "user", "action", "category", "list", "title", "rule")
COLUMNS = (*_OF_FIELDS, "host", "file", "media_type", "file_name", "record")
_ACTION = COLUMNS.index("action")
_OF_RULE = _OF_FIELDS[_ACTION + 1 :]
#: most characters of a user's name and a method with which texts are kept for later records
_SHORT = 256
#: what stands for NULL in the columns of an entry: None takes the sqlite3 of Python 3.11 as long as a row of texts
NULL = 0


#: a record as it is written: as ``COLUMNS`` names them, texts that databases accept, and ``NULL``; the last is its line
LogEntry = list[Any]


def line_of(entry: LogEntry) -> bytes:
    """A record as JSON, with its line end."""
    line: str = entry[-1]
    return line.encode("ascii")


def entry_of(record: LogRecord, privacy: Privacy, device_of: DeviceNames | None = None) -> LogEntry:
    """What is written of a decision."""
    reference, moment, decision, address, name, group, method, would_block, grant, duration, request = record
    device = device_of(address, name) if device_of and address and privacy.clients is LoggedClients.KEEP else None
    of_client = _of_client if len(f"{name}{method}") <= _SHORT else _of_client.__wrapped__
    about, client, user = of_client(
        address, name, None if device == UNNAMED else device, group, method, privacy.clients, privacy.pseudonym
    )
    time, (url, original) = time_text(moment), shown_urls(decision, request, privacy)
    action, winner = decision.action._value_, decision.winner  # without a call of Python
    said, of_rule, more = f'"action": "{action}"', _NO_RULE, _NOTHING
    if original is not None:
        said = f'"original": {to_json(original)}, {said}'
    if would_block:
        said += ', "would_block": true'
    if winner is not None:
        members, of_rule = _of_rule(winner, shown_url(winner.expression, privacy))
        said += f", {members}"
    if decision.matches or winner is not None or decision.fault is not None or grant is not None:
        more = _more_of(decision, grant)
        said += f", {_members(more)}" if more else ""
    if duration is not None:
        said += f', "duration": {duration}'
    text = f'{{"reference": "{reference}", "time": "{time}", {about}"url": {to_json(url)}, {said}}}\n'
    if len(text) > MOST_SHOWN:  # else no text in it is longer
        return entry_of_fields(_shortened(json.loads(text)))
    columns = [
        *(reference, time, client, user, WOULD if would_block else action),
        *of_rule,
        host_of_url(url) or NULL,
        *(_of_file(more, NULL) if more else _NO_FILE),
        text,
    ]
    return columns if "\\" not in text else _accepted(columns, NULL)


def entry_of_fields(fields: LogFields) -> LogEntry:
    """What is written of a record that is not about a decision, or is shorter than its decision says."""
    return row_of(fields, to_line(fields), nothing=NULL)


def fields_of(record: LogRecord, privacy: Privacy, device_of: DeviceNames | None = None) -> LogFields:
    """What a line has of a record."""
    fields: LogFields = json.loads(entry_of(record, privacy, device_of)[-1])
    return fields


class _ClientTexts(NamedTuple):
    """What is written of who asked, and how: in a line, and in columns."""

    members: str
    client: str | int
    user: str | int


@lru_cache(1024)
def _of_client(
    address: str | None,
    name: str | None,
    device: str | None,
    group: str | None,
    method: str | None,
    clients: LoggedClients,
    pseudonym: Callable[[str, str], str],
) -> _ClientTexts:
    privacy = Privacy(clients=clients, pseudonym=pseudonym)
    client, user = who("client", address and address_text(address), privacy), who("user", name, privacy)
    fields = {"client": client, "user": user, "device": device, "group": group, "method": method}
    members = "".join(f'"{name}": {to_json(value)}, ' for name, value in fields.items() if value is not None)
    return _ClientTexts(members, NULL if client is None else client, NULL if user is None else user)


class _TermsTexts(NamedTuple):
    """What is written of the terms of a rule that decided: before its line, behind its expression, and in columns."""

    before: str
    behind: str
    columns: tuple[Any, ...]


_NO_RULE, _NO_FILE = (NULL,) * len(_OF_RULE), (NULL,) * 3
_NOTHING: LogFields = {}


@lru_cache(512)
def _of_terms(terms: Terms) -> _TermsTexts:
    fields = {"layer": terms.layer, "category": terms.category, "list": terms.list, "title": terms.title}
    said: LogFields = {name: value for name, value in fields.items() if value is not None}
    behind = "" if terms.reason is None else f', "reason": {to_json(terms.reason)}'
    columns = tuple(map(said.get, _OF_RULE[:-1], repeat(NULL)))
    return _TermsTexts(f'{_members(said)}, "rule": {to_json(terms.source)[:-1]}:', behind, columns)


def _of_rule(winner: Match, expression: str) -> tuple[str, tuple[Any, ...]]:
    """What is written of the rule that decided: in a line, and in columns."""
    (_, terms, line), via = winner.rule, winner.via
    before, behind, columns = _of_terms(terms)
    members = f'{before}{line}", "expression": {to_json(expression)}{behind}'
    if via is not None:
        members += f', "via": {to_json(via)}'
    return members, (*columns, f"{terms.source}:{line}")


def _more_of(decision: Decision, grant: str | None) -> LogFields:
    """What few records have."""
    fields: LogFields = {}
    if decision.winner is not None and decision.winner.file is not None:
        fields["file"] = decision.winner.file.as_dict()
    if tags := [terms for match in decision.matches if (terms := match.rule.terms).action is Action.TAG]:
        fields["tags"] = [{"list": terms.list, "category": terms.category} for terms in tags]
    if decision.fault is not None:
        fields["fault"] = decision.fault
    if grant is not None:
        fields["grant"] = grant
    return fields


def _members(fields: LogFields) -> str:
    """Fields as members of an object in JSON, without its brackets."""
    return to_json(fields)[1:-1]


def _shortened(fields: LogFields) -> LogFields:
    return {
        name: value[:MOST_SHOWN] + "..." if isinstance(value, str) and len(value) > MOST_SHOWN else value
        for name, value in fields.items()
    }


def row_of(fields: LogFields, line: bytes, columns: Sequence[str] = COLUMNS, nothing: int | None = None) -> list[Any]:
    """The columns of a record, of which one is its line; a line without an escape has texts that databases accept.

    What only a dry run let pass has an action of its own there: nothing that is counted takes it for a block.
    """
    record, host = line.decode("ascii"), host_of_url(str(fields.get("url", "")))
    row = [*map(fields.get, _OF_FIELDS, repeat(nothing)), host or nothing, *_of_file(fields, nothing), record]
    if fields.get("would_block"):
        row[_ACTION] = WOULD
    if columns is not COLUMNS:
        row = [row[COLUMNS.index(name)] for name in columns]
    return row if line and "\\" not in record else _accepted(row, nothing)


def _of_file(fields: LogFields, nothing: int | None) -> tuple[Any, Any, Any]:
    """What the columns say of the file that a decision is about."""
    file = fields.get("file")
    if not isinstance(file, dict):
        return nothing, nothing, nothing
    return file_of_record(fields), file.get("media_type", nothing), file.get("name", nothing)


def _accepted(row: list[Any], nothing: int | None) -> list[Any]:
    return [value if value is nothing else accepted(value) for value in row]


def accepted(value: object) -> str | None:
    """Text that databases accept: without surrogates and NUL."""
    if value is None or (isinstance(value, str) and value.isascii() and "\0" not in value):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
