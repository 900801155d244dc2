"""Decisions and records to be logged."""

from __future__ import annotations

import json
from pathlib import Path

from hushlist.core.decide.decision import Decision, LogRecord
from hushlist.extensions.journal.log_files import CURRENT
from hushlist.extensions.journal.log_identifiers import base32
from hushlist.extensions.journal.log_record import LogFields
from hushlist.extensions.journal.log_writer import LogWriter
from support.engines import engine_of

#: 2026-12-24T22:30:00.250Z
EVE = 1_798_151_400.25
ENGINE = engine_of(
    "title: Ads\nname: 'hrn://l.example/ads'\nrules:\n"
    "- {expression: ads.example, reason: 'No ads', category: 'hrn://c.example/ads/video'}\n"
    "- {expression: find.example/s?q=x, category: 'hrn://c.example/search'}\n"
    "- {expression: tagged.example, action: tag, category: 'hrn://c.example/adsless'}\n"
    "- {expression: ads.example/ok, action: allow}\n"
)


def decided(url: str | bytes = "http://ads.example/x") -> Decision:
    return ENGINE.decide_url(url.encode() if isinstance(url, str) else url)


def record(
    url: str | bytes = "http://ads.example/x",
    number: int = 0,
    *,
    moment: float | None = None,
    client: str | None = "10.0.0.7",
    user: str | None = None,
    would_block: bool = False,
    grant: str | None = None,
) -> LogRecord:
    return LogRecord(
        decision=decided(url),
        reference=base32(number, 10),
        moment=EVE + number if moment is None else moment,
        client=client,
        user=user,
        method="GET",
        would_block=would_block,
        grant=grant,
    )


def lines_of(folder: Path) -> list[LogFields]:
    """Every line of the file that is written."""
    return [json.loads(line) for line in (folder / CURRENT).read_bytes().split(b"\n")[:-1]]


def fill(journal: LogWriter, *records: LogRecord) -> None:
    for one in records:
        journal.write(one)
    assert journal.flush(30)
