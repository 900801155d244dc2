"""The report as one HTML page, which needs nothing else: its style, its script and its figures are in it.

The script makes elements of the figures, as text and never as markup; the content security policy lets nothing else
run, and nothing be loaded. However much an audit has counted, the page stays small enough to be opened: it has so many
rows of each table as ``_MOST`` and ``_MOST_OCTETS`` allow, and says how many were left out.
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

from hushlist.audit.text import printable, short_names

#: rows of each table
_MOST = 10_000
#: octets of each table's rows, and of all explanations together
_MOST_OCTETS = 1 << 21
_MOST_OCTETS_OF_RECORDS = 1 << 22
#: lists of the matrix of overlaps
_MOST_IN_MATRIX = 30
#: rules of a list that are named for never having fired
_MOST_UNUSED = 20
#: characters of a text, of which a URL may have any number
_LONGEST_TEXT = 2000
_SCRIPTS = ("elements.js", "explain.js", "report.js")

_HITS = ("fits", "decided", "stopped", "alone", "popular", "breaks")


def report_page(report: Mapping[str, Any], made: datetime) -> str:
    """The page of a report as ``Report.as_dict`` gives it, made at ``made``."""
    web = files("hushlist.audit").joinpath("web")
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
    r"""JSON that can stand in a script element: it has no ``<``, and is ASCII, whatever its texts are.

    >>> script_json("</script>\udcff")
    '"\\u003c/script\\u003e\\udcff"'
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(report: Mapping[str, Any], made: datetime) -> dict[str, Any]:
    """What the page's script reads: the report, but no more rows than a page can have; rules and sites as rows.

    ``left_out`` says how many rows of what are not there.
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
    """The places of the lists that overlap with others, those that do most, in the order of the report."""
    most: dict[int, int] = {}
    for own in report["overlaps"]:
        for place in own["lists"]:
            most[place] = most.get(place, 0) + own["requests"]
    return sorted(sorted(most, key=lambda place: (-most[place], place))[:_MOST_IN_MATRIX])


def _within(rows: Sequence[Any], most_octets: int) -> Iterator[Any]:
    """The first rows, as many as there may be."""
    octets = 0
    for row in rows[:_MOST]:
        short = _short(row)
        octets += len(script_json(short))
        if octets > most_octets:
            return
        yield short


def _records(report: Mapping[str, Any]) -> dict[str, Any]:
    """The records with an explanation, those that matter most, as many as there may be."""
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
    """The same without what is empty, and with the beginnings of long texts."""
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
    """What a content security policy names an inline style or script by."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
