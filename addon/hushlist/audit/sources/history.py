"""Browsers' own histories: the SQLite files ``History`` of Chrome and Edge and ``places.sqlite`` of Firefox.

They are opened read-only and as files that nobody changes, so that nothing is written beside them; what is still in the
write-ahead log of a browser that runs is not read.

Spec: chromium components/history/core/browser/visit_database.cc and ui/base/page_transition_types.h;
mozilla toolkit/components/places/nsPlacesTables.h and nsINavHistoryService.idl
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hushlist.audit.record import Broken, Kind, Record, time_of

MAGIC = b"SQLite format 3\0"

# URLs as octets, since a history may have anything in it; in the order of the visits, whatever indexes there are. Each
# visit is one row, whatever the tables have twice.
_CHROMIUM = """
    select id, (select cast(url as blob) from urls where id = v.url limit 1), visit_time, transition & 255,
        (select cast(url as blob) from urls
         where id = (select url from visits where id = v.from_visit limit 1) limit 1)
    from visits v order by id
"""
_FIREFOX = """
    select id, (select cast(url as blob) from moz_places where id = v.place_id limit 1), visit_date, visit_type,
        (select cast(url as blob) from moz_places
         where id = (select place_id from moz_historyvisits where id = v.from_visit limit 1) limit 1)
    from moz_historyvisits v order by id
"""
#: octets of a text or row; a file may say how to make longer ones of nothing
_LONGEST = 1 << 24
#: seconds from 1601, from which Chromium counts, to 1970
_SINCE_1601 = 11_644_473_600
_CHROMIUM_KINDS = {3: Kind.FRAME, 4: Kind.FRAME}  # AUTO_SUBFRAME, MANUAL_SUBFRAME
_FIREFOX_KINDS = {4: Kind.FRAME, 7: Kind.OTHER, 8: Kind.FRAME}  # EMBED, DOWNLOAD, FRAMED_LINK


def read_history(path: Path, source: str) -> Iterator[Record | Broken]:
    """The visits of a file."""
    number = 0
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        yield Broken(source, 0, f"its last visits may be in {log.name}, which is not read: close the browser first")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
            if {"visits", "urls"} <= tables:
                query, kinds, epoch = _CHROMIUM, _CHROMIUM_KINDS, _SINCE_1601
            elif {"moz_historyvisits", "moz_places"} <= tables:
                query, kinds, epoch = _FIREFOX, _FIREFOX_KINDS, 0
            else:
                yield Broken(source, 0, "it has neither the tables of Chromium's history nor of Firefox's")
                return
            for visit, url, time, transition, page in database.execute(query):
                number = visit if isinstance(visit, int) else number + 1
                if not url:
                    yield Broken(source, number, "the visit has no URL")
                    continue
                seconds = time_of(time, 1e6, epoch)
                kind = kinds.get(transition, Kind.DOCUMENT)
                yield Record(url, source, number, kind, page if kind is Kind.FRAME else None, seconds)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # it quotes what is no UTF-8 in what is wrong
        yield Broken(source, number, f"it cannot be read: {error}")
