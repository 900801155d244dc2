"""A policy to audit by, and records of every fate."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hushlist.audit.auditor import Auditor, Moment
from hushlist.audit.record import Kind, Read, Record
from hushlist.audit.tally import Tally
from hushlist.engine import Engine, load_engine
from hushlist.policy.groups import NOBODY

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AT_NOW = Moment(NOW, NOBODY)

POLICY = """
layers:
- {name: own, lists: [own.yaml]}
- {name: lists, lists: [ads.yaml, {file: more.domains, format: domains}]}
"""
OWN = "rules: [{expression: ads.example/allowed/, action: allow}]\n"
ADS = """category: 'hrn://c.example/ads'
rules:
- ads.example
- both.example
- page.example/own.js
- page.example/own.css
- never.example
- {expression: tagged.example, action: tag}
"""
MORE = "both.example\nmore.example\nunused.example\n"


def write_policy(folder: Path, policy: str = POLICY, **files: str) -> Path:
    """Write the policy and its lists."""
    for name, text in {"policy.yaml": policy, "own.yaml": OWN, "ads.yaml": ADS, "more.domains": MORE, **files}.items():
        (folder / name).write_text(text)
    return folder / "policy.yaml"


def engine(folder: Path) -> Engine:
    return load_engine(write_policy(folder))


def tally_of(
    asked: Engine, records: list[Read], moment: Moment = AT_NOW, popular: dict[bytes, int] | None = None
) -> Tally:
    return Auditor(asked, moment, popular).add(records, "s", "urls")


PAGE = b"http://page.example/"
RECORDS: list[Record] = [
    Record(url, "s", number, kind, page)
    for number, (url, kind, page) in enumerate(
        [
            (PAGE, Kind.DOCUMENT, None),
            (b"http://page.example/own.js", Kind.SCRIPT, PAGE),
            (b"http://www.page.example/own.css", Kind.STYLE, PAGE),
            (b"http://page.example/own.js", Kind.SCRIPT, b"http://other.example/"),
            (b"http://ads.example/x.js", Kind.SCRIPT, PAGE),
            (b"http://ads.example/x.js", Kind.SCRIPT, PAGE),
            (b"http://ads.example/allowed/x.js", Kind.SCRIPT, PAGE),
            (b"https://both.example/", Kind.DOCUMENT, None),
            (b"https://both.example/frame", Kind.FRAME, PAGE),
            (b"http://a.more.example/i.gif", Kind.IMAGE, PAGE),
            (b"http://tagged.example/", Kind.XHR, PAGE),
            (b"http://user:secret@more.example/", Kind.UNKNOWN, None),
            (b"http:///", Kind.UNKNOWN, None),
            (b"http://clean.example/?q#f", Kind.OTHER, None),
        ],
        1,
    )
]
