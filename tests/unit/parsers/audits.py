"""The readers of an audit's reports, of dictionaries, and of lists and policies that are compared or looked through."""

from __future__ import annotations

import gzip
import json
import pickle
import zlib
from functools import cache, partial
from io import StringIO
from pathlib import Path

from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.policy.groups import NOBODY, Client
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.policy.policy_reader import policy_at
from hushlist.core.url.request import Request
from hushlist.tools.audit.diff_job import DiffOptions, diff, is_policy, side_of_list, side_of_policy
from hushlist.tools.audit.guesses import Block, Targets, blocks_of, entries_of, try_block
from hushlist.tools.audit.lint_job import lint
from hushlist.tools.audit.replay.audit_page import report_page
from hushlist.tools.audit.replay.audit_report import (
    FileDigest,
    PolicyDigest,
    PopularDomains,
    ReplayOptions,
    read_report,
)
from hushlist.tools.audit.replay.audit_text import report_text
from hushlist.tools.audit.replay.auditor import Auditor, ReplayMoment
from hushlist.tools.audit.replay.partition import merge_reports, tallied_report
from hushlist.tools.audit.replay.report_details import add_details
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.audit.sources.recorded_request import BrokenRecord, RecordedRequest, ResourceType
from support.engines import rules_of
from unit.parsers.lines import engine
from unit.parsers.policy import policy_samples
from unit.parsers.table import NOON, Parser, put, scratch_file

PARSERS: dict[str, Parser] = {}
add = partial(put, PARSERS)


# -- reports -----------------------------------------------------------------------------------------------------------


@cache
def _reports() -> tuple[bytes, ...]:
    request = Request(b"https", (b"blocked.example", b"h.example"), 8443, b"/\xff", b"frag", b"me")
    records = [
        RecordedRequest(
            b"http://blocked.example/x.js",
            "s",
            1,
            ResourceType.SCRIPT,
            b"http://blocked.example/",
            1.5,
            Client("10.0.0.1"),
        ),
        RecordedRequest(
            request, "s", 2, ResourceType.DOCUMENT, None, None, Client("10.0.0.1", "mia", 8080), "POST", 204
        ),
        RecordedRequest(b"http:///", "s", 3),
        BrokenRecord("s", 4, "why"),
    ]
    tally = Auditor(engine(), ReplayMoment(NOON, NOBODY), {b"blocked.example": 1}).add(records, "s", "urls")
    policy = PolicyDigest("policy.yaml", "d1", (FileDigest("ads.yaml", "d2"),))
    whole = tallied_report(tally, policy, ReplayOptions(NOON), PopularDomains("top.txt", "d3", 1), 2.0, 2)
    empty = tallied_report(Auditor(engine(), ReplayMoment(NOON, NOBODY)).tally, policy, ReplayOptions(), None, 0.0, 1)
    detailed = add_details(whole, engine(), ReplayMoment(NOON, NOBODY))
    return tuple(json.dumps(encode(one)).encode() for one in (whole, empty, detailed))


def _report(octets: bytes) -> None:
    """What is read is merged, written and shown, as of another machine."""
    report = read_report(octets)
    merged = merge_reports(report, report)
    for one in (report, merged):
        assert read_report(json.dumps(encode(one)).encode()) == one
        assert all(isinstance(line, str) for line in report_text(one))
        assert report_page(one, NOON)


_VALUES = (b"1e999", b"NaN", b"-1", b"true", b"[]", b"{}", b'"\\udcff"', b'"\\ud800"', b"[[", b'{"a":', b"9" * 400)
PARSERS["audit report"] = Parser(_report, _reports, units=_VALUES)


# -- dictionaries ------------------------------------------------------------------------------------------------------


@cache
def _hidden() -> Path:
    """Hashes to look for, as a search has them."""
    targets = Targets()
    targets.add(rules_of("rules: [{sha256: '01020304'}, 'hashed:md5=be96302a0468481aca954431cf293e05']"))
    path = scratch_file().with_name("hashes")
    path.write_bytes(pickle.dumps(targets.sets))
    return path


def _dictionary(name: str, octets: bytes) -> None:
    path = scratch_file().with_name(name)
    path.write_bytes(octets)
    for block in blocks_of(path):
        assert all(entries_of(block))
        assert len(block.octets) < 1 << 20
        # hashing costs the same for each guess
        short = Block(block.source, block.form, 1, block.octets[:2048], 0)
        assert try_block(short, _hidden()).entries == len([*entries_of(short)])


_WORDS = b'rank,domain\n1,a.example\n"2","b\xc3\xbccher.example"\n0.0.0.0 c.example # x\nhttp://d.example/x,y?q=1#f\nA.Example\n'
_PACKED = gzip.compress(_WORDS, mtime=0)
for _name, _samples in {
    "top.txt": [_WORDS, _PACKED, _PACKED[:-9], gzip.compress(bytes(1 << 21), mtime=0)],
    "own.hosts": [b"0.0.0.0 a.example b.example\n"],
    "own.yaml": [b"rules: [A.example, b.example/x, {address: 192.0.2.0/24}]\n"],
}.items():
    PARSERS[f"leak dictionary {_name}"] = Parser(
        partial(_dictionary, _name),
        lambda samples=tuple(_samples): samples,  # type: ignore[misc]
        (OSError, EOFError, zlib.error),
        (b"a.example\n", b"1,a.example\n", b"http://a.example/b,", b"a.b "),
    )


# -- lists and policies ------------------------------------------------------------------------------------------------

_LISTS = {
    "yaml": b"category: 'hrn://c.example/web'\nrules:\n- h.example\n- www.h.example\n- H.example\n"
    b"- {sha256: '01020304'}\n- {expression: old.example, expires: 2020-01-01}\n"
    b"- {address: 10.0.0.0/8, action: tag}\n- {address: 10.1.0.0/16}\n",
    "domains": b"h.example\nwww.h.example # x\nH.example\n*.b\xc3\xbccher.example\ncom\n1.2.3.4\n",
    "adblock": b"! c\n||h.example^\n@@||www.h.example^$important\n|http://c.example/x|\n||h.example^$script\nd##e\n",
}


def _linted(form: str, octets: bytes) -> None:
    path = scratch_file()
    path.write_bytes(octets)
    shown = StringIO()
    file = ListFile(path, FORMATS[form], ListDefaults(layer="lists"))
    linted = lint(
        [file], lambda name, finding: shown.write(f"{name}: {finding}\n"), NOON, popular=(b"h.example",), jobs=1
    )
    assert json.dumps(linted.as_dict())


def _compared(form: str, octets: bytes) -> None:
    old, new = scratch_file().with_name("old"), scratch_file().with_name("new")
    old.write_bytes(_LISTS[form])
    new.write_bytes(octets)
    sides = [side_of_list(path, form, ListDefaults()) for path in (old, new)]
    for one, other in (sides, sides[::-1]):
        changes: list[object] = []
        diff(one, other, changes.append, DiffOptions(moved=True, popular=(b"h.example",)), jobs=1)
        assert all(map(str, changes))


for _form, _list in _LISTS.items():
    _own = partial(tuple[bytes], (_list,))
    PARSERS[f"lint {_form}"] = Parser(partial(_linted, _form), _own, units=(b"h.example\n", b"- h.example\n"))
    PARSERS[f"diff {_form}"] = Parser(partial(_compared, _form), _own, units=(b"h.example\n", b"- h.example\n"))


def _side(octets: bytes) -> None:
    path = scratch_file().with_suffix(".yaml")
    path.write_bytes(octets)
    if is_policy(path):
        side_of_policy(policy_at(path))


PARSERS["diff side"] = Parser(_side, policy_samples, units=(b"layers:", b" \t", b"\nlayers ", b'"'))
