"""Copies of the log's records for other programs: lines on standard output, or messages to a syslog server.

Each copy has a thread of its own, so that neither a slow server nor a reader that stands still keeps the log's files
waiting. A server may get a record twice if a connection breaks: its reference tells. Spec: RFC 5424, 6 (messages);
RFC 5426 (UDP); RFC 6587, 3.4.1 (TCP, octet counting)

>>> fields = {"reference": "003F8KQ71Z", "time": "2026-12-24T22:30:00.250Z", "action": "block"}
>>> syslog_message(fields, to_line(fields), host="gate", process=7)[:67]
b'<133>1 2026-12-24T22:30:00.250Z gate hushlist 7 decision - {"refere'
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from errno import EMSGSIZE
from typing import Any

from hushlist.core.decide.decision import STOPPING
from hushlist.extensions.journal.log_entry import LogEntry, line_of
from hushlist.extensions.journal.log_keys import LogCopy
from hushlist.extensions.journal.log_record import LOST, LogFields, to_line

#: seconds that a server has for taking a connection, or a message
PATIENCE = 5.0
_STANDARD_OUTPUT = 1
#: the facility "local0"
_FACILITY = 16 * 8
_WARNING, _NOTICE, _INFORMATIONAL = 4, 5, 6
#: "HOSTNAME = NILVALUE / 1*255PRINTUSASCII"
_NOT_PRINTABLE = re.compile(r"[^!-~]")
#: most characters of a value in the place of a record that is too long for a datagram
_SHORT = 256


def syslog_message(fields: LogFields, line: bytes, *, host: str, process: int) -> bytes:
    """A record as a message of syslog, without a line end: what stops a request is a notice, a loss is a warning."""
    action = fields.get("action")
    severity = _WARNING if action == LOST else _NOTICE if action in _STOPPING else _INFORMATIONAL
    name = _NOT_PRINTABLE.sub("", host)[:255] or "-"
    head = f"<{_FACILITY + severity}>1 {fields['time']} {name} hushlist {process} decision - "
    return head.encode("ascii") + line.rstrip(b"\n")


_STOPPING = frozenset(action.value for action in STOPPING)


class CopySink:
    """Writes records to one place; after an error, the next call goes on with the record that was not written."""

    def __init__(self, copy: LogCopy) -> None:
        self.name = str(copy)
        self._copy = copy
        #: how many records of the batch that failed are written
        self._written = 0
        self._socket: socket.socket | None = None
        self._host, self._process = socket.gethostname(), os.getpid()

    def append(self, entries: list[LogEntry], moment: float) -> None:
        """Write them in order; after an ``OSError``, call it with the same records again."""
        del moment  # each record has its own
        while self._written < len(entries):
            try:
                self._send(line_of(entries[self._written]))
            except OSError:
                self.close()
                raise
            self._written += 1
        self._written = 0

    def tidy(self, moment: float) -> bool:
        """Do nothing: who takes the records keeps them."""
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _send(self, line: bytes) -> None:
        if self._copy.kind == "stdout":
            _write_all(line)
            return
        fields: LogFields = json.loads(line)
        message = self._message(fields, line)
        if self._socket is not None and self._copy.kind == "tcp" and _has_ended(self._socket):
            self.close()
        if self._socket is None:
            self._socket = _connected(self._copy)
        if self._copy.kind == "tcp":
            self._socket.sendall(b"%d %s" % (len(message), message))
            return
        try:
            self._socket.send(message)
        except OSError as error:
            if error.errno != EMSGSIZE:
                raise
            short = _shortened(fields)
            self._socket.send(self._message(short, to_line(short)))

    def _message(self, fields: LogFields, line: bytes) -> bytes:
        return syslog_message(fields, line, host=self._host, process=self._process)


def _write_all(octets: bytes) -> None:
    while octets:
        octets = octets[os.write(_STANDARD_OUTPUT, octets) :]


def _connected(copy: LogCopy) -> socket.socket:
    if copy.kind == "tcp":
        return socket.create_connection((copy.place, copy.port), timeout=PATIENCE)
    if sys.platform != "win32" and copy.kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address: Any = copy.place
    else:
        family, kind, _, _, address = socket.getaddrinfo(copy.place, copy.port, type=socket.SOCK_DGRAM)[0]
        connection = socket.socket(family, kind)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def _has_ended(connection: socket.socket) -> bool:
    """Whether the server has closed it: what is sent then vanishes without an error."""
    with suppress(OSError):
        while select.select([connection], [], [], 0)[0]:
            if not connection.recv(4096):
                return True
        return False
    return True


def _shortened(fields: Mapping[str, object]) -> LogFields:
    return {
        name: value[:_SHORT] if isinstance(value, str) else value for name, value in fields.items() if name != "tags"
    }
