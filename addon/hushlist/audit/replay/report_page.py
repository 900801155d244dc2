"""The report as one HTML page that contains everything: its style, script and data.

The script turns the data into elements, as text and never as markup. The content security policy lets nothing else run,
and nothing be loaded. The page stays small enough to open: ``_MOST`` and ``_MOST_OCTETS`` limit the rows of each table,
and the page says how many are left out.
"""

from __future__ import annotations

import json
import string
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from hushlist.audit.replay.report_text import short_names
from hushlist.errors import printable

#: most rows of each table
_MOST = 10_000
#: most octets of each table's rows, and of all explanations together
_MOST_OCTETS = 1 << 21
_MOST_OCTETS_OF_RECORDS = 1 << 22
#: lists of the matrix of overlaps
_MOST_IN_MATRIX = 30
#: unused rules of a list that are named
_MOST_UNUSED = 20
#: most characters of a text, such as a URL
_LONGEST_TEXT = 2000
_SCRIPTS = ("elements.js", "explain.js", "report.js")

_HITS = ("fits", "decided", "stopped", "alone", "popular", "breaks")


def report_page(report: Mapping[str, Any], made: datetime) -> str:
    """The page of a report as ``AuditReport.as_dict`` returns it, made at ``made``."""
    web = files("hushlist.audit.replay").joinpath("web")
    style = web.joinpath("page.css").read_text(encoding="utf-8")
    script = "\n".join(web.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_source_of(style)}'; script-src '{_source_of(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    stopped = sum(own["stopped"] for own in report["kinds"].values())
    records = report["records"]
    values = {
        "content_policy": policy,
        "policy": printable(report["policy"]["path"]),
        "records": f"{records:,}",
        "stopped": f"{stopped:,}",
        "share": f"{stopped / records:.1%}" if records else "0%",
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


def page_data(report: Mapping[str, Any], made: datetime) -> dict[str, Any]:
    """The data of the page's script: the report with limited rows; rules and sites as rows.

    ``left_out`` says how many rows of each table are missing.
    """
    shown = _records(report)
    lists = {(own["list"], own["source"]): place for place, own in enumerate(report["lists"])}
    requests, broken = (dict(report["sites"][name]["counts"]) for name in ("requests", "breaks"))
    stopped = dict(report["sites"]["stopped"]["counts"])
    sites = stopped | requests  # those with stopped requests first
    every: dict[str, Sequence[Any]] = {
        "sources": report["sources"],
        "lists": [{**own, "unused_first": own["unused_first"][:_MOST_UNUSED]} for own in report["lists"]],
        "overlaps": report["overlaps"],
        "categories": report["categories"],
        "rules": [
            [
                lists[own["list"], own["source"]],
                own["line"],
                own["rule"],
                own["category"],
                *(own[name] for name in _HITS),
                own["example"] if own["example"] in shown else None,
            ]
            for own in report["rules"][:_MOST]
        ],
        "sites": [[name, requests.get(name, 0), stopped.get(name, 0), broken.get(name, 0)] for name in sites],
        "popular_domains": report["popular_domains"],
    }
    kept = {name: list(_within(rows, _MOST_OCTETS)) for name, rows in every.items()}
    left_out = {name: len(rows) - len(kept[name]) for name, rows in every.items()}
    left_out["rules"] += len(report["rules"]) - len(every["rules"])
    left_out["records_shown"] = sum(own["explanation"] is not None for own in report["records_shown"].values()) - len(
        shown
    )
    return {
        **{name: report[name] for name in _AS_THEY_ARE},
        **kept,
        "broken": _short(report["broken"]),
        "made": made.isoformat(timespec="seconds"),
        "names": {
            **short_names(own["source"] for own in report["sources"]),
            **short_names(own["source"] for own in report["lists"]),
        },
        "matrix": _matrix(report),
        "sites_error": max(own["error"] for own in report["sites"].values()),
        "rules_hit": len(report["rules"]),
        "sites_stopped": len(stopped),
        "left_out": {name: number for name, number in left_out.items() if number},
        "records_shown": shown,
    }


_AS_THEY_ARE = (
    *("policy", "asked", "popular", "seconds", "records", "records_a_second", "workers", "actions", "kinds", "faults"),
    *("popular_examples", "breaks", "slowest"),
)


def _matrix(report: Mapping[str, Any]) -> list[int]:
    """The places of the lists that overlap most with others, in the order of the report."""
    most: dict[int, int] = {}
    for own in report["overlaps"]:
        for place in own["lists"]:
            most[place] = most.get(place, 0) + own["requests"]
    return sorted(sorted(most, key=lambda place: (-most[place], place))[:_MOST_IN_MATRIX])


def _within(rows: Sequence[Any], most_octets: int) -> Iterator[Any]:
    """The first rows, up to the limits."""
    octets = 0
    for row in rows[:_MOST]:
        short = _short(row)
        octets += len(script_json(short))
        if octets > most_octets:
            return
        yield short


def _records(report: Mapping[str, Any]) -> dict[str, Any]:
    """The most important records with an explanation, up to the limits."""
    kept: dict[str, Any] = {}
    octets = 0
    for key in dict.fromkeys(_keys(report)):
        record = report["records_shown"][key]
        if record["explanation"] is None:
            continue
        short = _short(record)
        octets += len(script_json(short))
        if octets > _MOST_OCTETS_OF_RECORDS:
            break
        kept[key] = short
    return kept


def _keys(report: Mapping[str, Any]) -> Iterator[str]:
    for own in report["breaks"].values():
        yield from own["examples"]
    yield from (own["record"] for own in report["slowest"])
    for own in (*report["lists"], *report["categories"]):
        yield from own["examples"]
    yield from report["popular_examples"]
    yield from (own["example"] for own in report["rules"] if own["example"] is not None)


def _short(value: Any) -> Any:
    """The same without empty values, and with long texts cut off."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_TEXT:
            return value
        return f"{value[:_LONGEST_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {key: _short(own) for key, own in value.items() if own is not None}
    if isinstance(value, (list, tuple)):
        return [_short(own) for own in value]
    return value


def _source_of(text: str) -> str:
    """The source expression by which a content security policy allows an inline style or script."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
