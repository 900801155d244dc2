"""Adds to a report the rules that never fired, and explanations of decisions.

Both are made at the end, in one process, with the policy that decided.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushlist.audit.replay.audit_report import AuditReport, FileDigest, ListUse, PolicyDigest, UnusedRule
from hushlist.audit.replay.auditor import ReplayMoment, decide_recorded
from hushlist.audit.replay.tally import AuditTally, ListKey, RuleKey
from hushlist.audit.sources.recorded_request import RecordedRequest
from hushlist.decide.decision import Decision
from hushlist.decide.engine import Engine
from hushlist.errors import UrlError
from hushlist.lists.list_source import LONGEST_LINE
from hushlist.match.expressions import expressions, full_hash
from hushlist.match.rule import Terms
from hushlist.policy.policy_file import Policy
from hushlist.url.request import Request, canonical_forms, request_of

#: rules whose example is explained: those with the most hits
_MOST_EXPLAINED_RULES = 500
#: most characters of a rule's text
_LONGEST_TEXT = 120


def add_details(report: AuditReport, engine: Engine, moment: ReplayMoment, unused: int = 10) -> None:
    """Complete a report: name up to ``unused`` rules of each list that never fired."""
    report.lists = _states(report.tally, engine, unused)
    report.explanations = {record.key: explain_record(engine, record, moment) for record in _to_explain(report.tally)}


# -- the policy --------------------------------------------------------------------------------------------------------


def digest_policy(path: Path, policy: Policy) -> PolicyDigest:
    """The files that decide, and their digests.

    Raises:
            OSError: a file can no longer be read.
    """
    digests = {str(file): digest_file(file) for file, seen in policy.files.items() if seen is not None}
    own = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        own.update(f"{name}\0{digest}\n".encode("utf-8", "backslashreplace"))
    lists = sorted({str(file.path) for layer in policy.layers for file in layer.lists})
    return PolicyDigest(str(path), own.hexdigest(), tuple(FileDigest(name, digests[name]) for name in lists))


def digest_file(path: Path) -> str:
    """The SHA-256 of what is in a file, in hex.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- rules that never fired --------------------------------------------------------------------------------------------


def _states(tally: AuditTally, engine: Engine, most: int) -> dict[ListKey, ListUse]:
    """For each list: how many rules it has, how many fired, and the first of the others."""
    states: dict[ListKey, ListUse] = {}
    fired = {(own.source, own.line, digest) for own in tally.rules for digest in _digests_of(own.rule)}
    fired_lines = {(own.source, own.line) for own in tally.rules}
    unused: dict[ListKey, list[int]] = {}
    for terms, line, digest in _places(engine):
        key = ListKey(terms.list, terms.source)
        state = states.get(key)
        if state is None:
            state = states[key] = ListUse(terms.title)
            unused[key] = []
        state.rules += 1
        if (terms.source, line, digest) in fired:
            state.fired += 1
            continue
        lines = unused[key]
        # A line may have several rules; it is named if none of them fired.
        if (terms.source, line) in fired_lines or line in lines:
            continue
        if len(lines) < most or line < lines[-1]:
            insort(lines, line)
            del lines[most:]
    for key, lines in unused.items():
        texts = _lines_of(Path(key.source), lines)
        states[key].unused_first = [UnusedRule(line, texts.get(line, "")) for line in lines]
    return states


def _places(engine: Engine) -> Iterator[tuple[Terms, int, bytes]]:
    """Every rule's terms, line, and key in the index."""
    for layer in engine.policy.layers:
        for rule in layer.checks:
            yield rule.terms, rule.line, full_hash(str(rule.pattern).encode())
    yield from engine.index.places()


def _digests_of(rule: str) -> tuple[bytes, ...]:
    """The index's keys of a rule, given as text; also that of the other rule, if its entry may have made two.

    In some formats an entry means both a page and the folder of that name: if one fits, neither is unused.
    """
    kind, colon, rest = rule.partition(":")
    if colon and kind == "sha256":
        return (bytes.fromhex(rest),)
    if colon and kind == "hashed":
        return (bytes.fromhex(rest.partition("=")[2].partition("+")[0]),)
    other = rule.removesuffix("/") if rule.endswith("/") else f"{rule}/"
    return full_hash(rule.encode()), full_hash(other.encode())


def _lines_of(path: Path, numbers: list[int]) -> dict[int, str]:
    """Lines of a file, for people; none if it has no lines, or has changed and cannot be read."""
    texts: dict[int, str] = {}
    if not numbers:
        return texts
    try:
        with path.open("rb") as file:
            for number in range(1, numbers[-1] + 1):
                line = file.readline(LONGEST_LINE)
                if b"\0" in line:
                    return {}  # a list of binary hashes has no lines
                if number in numbers:
                    texts[number] = line.strip().decode("utf-8", "backslashreplace")[:_LONGEST_TEXT]
    except OSError:
        return {}
    return texts


# -- explanations ------------------------------------------------------------------------------------------------------


def _to_explain(tally: AuditTally) -> Iterator[RecordedRequest]:
    """The records that a report shows, without examples of rules that hardly fire."""
    seen: set[str] = set()
    most = sorted(tally.rules, key=lambda own: (-tally.rules[own].stopped, -tally.rules[own].fits, own))
    for record in _shown(tally, most[:_MOST_EXPLAINED_RULES]):
        if record.key not in seen:
            seen.add(record.key)
            yield record


def _shown(tally: AuditTally, rules: list[RuleKey]) -> Iterator[RecordedRequest]:
    for examples in (tally.list_examples, tally.category_examples, tally.break_examples):
        yield from (record for _, record in examples)
    for rule in rules:
        yield from tally.rule_examples[rule]
    yield from (slow.record for slow in tally.slowest)


def explain_record(engine: Engine, record: RecordedRequest, moment: ReplayMoment) -> dict[str, Any]:
    """The decision for a record, with its canonical URLs and expressions."""
    decision = decide_recorded(engine, record.asked, *moment.of(record))
    return {**_plain(decision), "forms": _forms(record.asked)}


def _plain(decision: Decision) -> Mapping[str, object]:
    return decision._replace(asked=_without_user(decision.asked)).as_dict()


def _without_user(asked: Request | bytes) -> Request | bytes:
    return RecordedRequest(asked).url if isinstance(asked, bytes) else asked


def _forms(asked: Request | bytes) -> list[dict[str, Any]]:
    try:
        request = request_of(asked) if isinstance(asked, bytes) else asked
        forms = [form for host in dict.fromkeys(request.hosts) for form in canonical_forms(request, host)]
    except UrlError:
        return []
    return [
        {
            "canonical": form.join().decode("ascii", "backslashreplace"),
            "expressions": [
                {"expression": own.decode("ascii", "backslashreplace"), "sha256": full_hash(own).hex()}
                for own in expressions(form)
            ],
        }
        for form in forms
    ]
