"""The report as one HTML page that contains everything: its style, script and data.

The script turns the data into elements, as text and never as markup. The content security policy lets nothing else run,
and nothing be loaded. The page stays small enough to open: ``_MOST`` and ``_MOST_OCTETS`` limit the rows of each table,
and the page says how many are left out.
"""

from __future__ import annotations

import json
import string
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from hushlist.core.errors import printable
from hushlist.tools.audit.replay.audit_report import AuditReport
from hushlist.tools.audit.replay.audit_text import SETTINGS, short_names
from hushlist.tools.audit.replay.tally import by_number
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.third_parties import roles

#: most rows of each table
_MOST = 10_000
#: most octets of each table's rows, and of all explanations together
_MOST_OCTETS = 1 << 21
_MOST_OCTETS_OF_RECORDS = 1 << 22
#: lists of the matrix of overlaps
_MOST_IN_MATRIX = 30
#: unused rules of a list that are named
_MOST_UNUSED = 20
#: pages of a third party's role that are named
_MOST_PAGES = 20
#: most characters of a text, such as a URL
_LONGEST_TEXT = 2000
_SCRIPTS = ("elements.js", "explain.js", "report.js")


def report_page(report: AuditReport, made: datetime) -> str:
    web = files("hushlist.tools.audit.replay").joinpath("web")
    style = web.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(web.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    values = {
        "content_policy": content_policy(style, script),
        "policy": printable(report.policy.path),
        "records": f"{report.records:,}",
        "stopped": f"{report.stopped:,}",
        "share": f"{report.stopped / report.records:.1%}" if report.records else "0%",
    }
    page = string.Template(web.joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        {name: escape(value) for name, value in values.items()},
        style=style,
        script=script,
        report=script_json(page_data(report, made)),
    )


def script_json(value: object) -> str:
    r"""JSON that is safe in a script element: ASCII without ``<``, whatever its texts are.

    >>> script_json("</script>\udcff")
    '"\\u003c/script\\u003e\\udcff"'
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(report: AuditReport, made: datetime) -> dict[str, Any]:
    """The data of the page's script: the report with limited rows; rules and sites as rows.

    ``left_out`` says how many rows of each table are missing.
    """
    shown = _records(report)
    lists = {row.key: place for place, row in enumerate(report.lists)}
    requests, stopped, broken = (dict(row.counts) for row in report.sites)
    sites = stopped | requests  # those with stopped requests first
    every: dict[str, Sequence[Any]] = {
        "sources": report.sources,
        "lists": [
            row._replace(facts=row.facts._replace(unused_first=row.facts.unused_first[:_MOST_UNUSED]))
            for row in report.lists
        ],
        "overlaps": report.overlaps,
        "categories": report.categories,
        "rules": [
            [
                lists[row.key.of_list],
                row.key.line,
                row.shown,
                row.category,
                *astuple(row.hits),
                row.example if row.example in shown else None,
            ]
            for row in report.rules[:_MOST]
        ],
        "sites": [[name, requests.get(name, 0), stopped.get(name, 0), broken.get(name, 0)] for name in sites],
        "popular_domains": report.popular_domains,
        "changes": by_number(report.changes),
        "doubts": by_number(report.doubts),
        "third_parties": [
            row._replace(pages=row.pages._replace(counts=row.pages.counts[:_MOST_PAGES]))
            for row in report.third_parties
        ],
    }
    kept = {name: list(_within(rows[:_MOST], _MOST_OCTETS)) for name, rows in every.items()}
    left_out = {name: len(rows) - len(kept[name]) for name, rows in every.items()}
    left_out["rules"] += len(report.rules) - len(every["rules"])
    left_out["records_shown"] = sum(row.explanation is not None for row in report.records_shown.values()) - len(shown)
    return {
        **{name: encode(getattr(report, name)) for name in _AS_THEY_ARE},
        **kept,
        "broken": _short(encode(report.broken)),
        "made": made.isoformat(timespec="seconds"),
        "names": {
            **short_names(row.source for row in report.sources),
            **short_names(row.key.source for row in report.lists),
        },
        "settings": SETTINGS,
        "roles": {name: role.says for name, role in roles().items()},
        "matrix": _matrix(report),
        "sites_error": max(row.error for row in report.sites),
        "rules_hit": len(report.rules),
        "sites_stopped": len(stopped),
        "left_out": {name: number for name, number in left_out.items() if number},
        "records_shown": shown,
    }


_AS_THEY_ARE = (
    *(
        "policy",
        "options",
        "popular",
        "seconds",
        "records",
        "records_a_second",
        "workers",
        "actions",
        "kinds",
        "faults",
    ),
    *("popular_examples", "breaks", "slowest", "decryption"),
)


def _matrix(report: AuditReport) -> list[int]:
    """The places of the lists that overlap most with others, in the order of the report."""
    most = Counter[int]()
    for overlap in report.overlaps:
        for place in overlap.lists:
            most[place] += overlap.requests
    return sorted(sorted(most, key=lambda place: (-most[place], place))[:_MOST_IN_MATRIX])


def _within(rows: Iterable[Any], most_octets: int) -> Iterator[Any]:
    """The first rows in short, as many as have no more octets."""
    octets = 0
    for row in rows:
        short = _short(encode(row))
        octets += len(script_json(short))
        if octets > most_octets:
            return
        yield short


def _records(report: AuditReport) -> dict[str, Any]:
    """The most important records with an explanation, up to the limits."""
    records = report.records_shown
    keys = [key for key in dict.fromkeys(report.keys()) if records[key].explanation is not None]
    return dict(zip(keys, _within((records[key] for key in keys), _MOST_OCTETS_OF_RECORDS), strict=False))


def _short(value: Any) -> Any:
    """The same without empty values, and with long texts cut off."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_TEXT:
            return value
        return f"{value[:_LONGEST_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_short(item) for item in value]
    return value


def content_policy(style: str, script: str) -> str:
    """The content security policy of a page that has its style and script in itself, and loads nothing."""
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*digests)
    return f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"
