"""A policy to audit by, and records of every fate."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.policy.groups import NOBODY
from hushlist.tools.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.tools.audit.replay.tally import AuditTally
from hushlist.tools.audit.sources.recorded_request import ReadRecord, RecordedRequest, ResourceType

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AT_NOW = ReplayMoment(NOW, NOBODY)

POLICY = """
layers:
- {name: own, lists: [own.yaml]}
- {name: lists, lists: [ads.yaml, {file: more.domains, format: domains}]}
"""
OVERRIDES = "rules: [{expression: ads.example/allowed/, action: allow}]\n"
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
    for name, text in {
        "policy.yaml": policy,
        "own.yaml": OVERRIDES,
        "ads.yaml": ADS,
        "more.domains": MORE,
        **files,
    }.items():
        (folder / name).write_text(text)
    return folder / "policy.yaml"


def engine(folder: Path) -> Engine:
    return load_engine(write_policy(folder))


def tally_of(
    asked: Engine, records: list[ReadRecord], moment: ReplayMoment = AT_NOW, popular: dict[bytes, int] | None = None
) -> AuditTally:
    return Auditor(asked, moment, popular).add(records, "s", "urls")


PAGE = b"http://page.example/"
RECORDS: list[RecordedRequest] = [
    RecordedRequest(url, "s", number, kind, page)
    for number, (url, kind, page) in enumerate(
        [
            (PAGE, ResourceType.DOCUMENT, None),
            (b"http://page.example/own.js", ResourceType.SCRIPT, PAGE),
            (b"http://www.page.example/own.css", ResourceType.STYLE, PAGE),
            (b"http://page.example/own.js", ResourceType.SCRIPT, b"http://other.example/"),
            (b"http://ads.example/x.js", ResourceType.SCRIPT, PAGE),
            (b"http://ads.example/x.js", ResourceType.SCRIPT, PAGE),
            (b"http://ads.example/allowed/x.js", ResourceType.SCRIPT, PAGE),
            (b"https://both.example/", ResourceType.DOCUMENT, None),
            (b"https://both.example/frame", ResourceType.FRAME, PAGE),
            (b"http://a.more.example/i.gif", ResourceType.IMAGE, PAGE),
            (b"http://tagged.example/", ResourceType.XHR, PAGE),
            (b"http://user:secret@more.example/", ResourceType.UNKNOWN, None),
            (b"http:///", ResourceType.UNKNOWN, None),
            (b"http://clean.example/?q#f", ResourceType.OTHER, None),
        ],
        1,
    )
]
