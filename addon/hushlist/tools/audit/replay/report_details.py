"""Adds to a report the rules that never fired, and explanations of decisions.

Both are made at the end, in one process, with the policy that decided.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.match.rule import Terms
from hushlist.core.policy.policy_file import ListFile, Policy
from hushlist.core.system.files import sha256_of
from hushlist.core.url.request import Request, canonical_forms, request_of
from hushlist.tools.audit.replay.audit_report import (
    AuditReport,
    ExplainedExpression,
    ExplainedForm,
    FileDigest,
    ListFacts,
    ListUse,
    Overlap,
    PolicyDigest,
    RecordExplanation,
    RuleUse,
    UnusedRule,
    recorded,
)
from hushlist.tools.audit.replay.auditor import ReplayMoment, decide_recorded, decide_seen
from hushlist.tools.audit.replay.tally import ListKey, by_source
from hushlist.tools.audit.sources.recorded_request import RecordedRequest, hide_user
from hushlist.tools.audit.written_lines import written_lines

#: rules whose example is explained: those with the most hits
_MOST_EXPLAINED_RULES = 500
#: rules whose text is read: those with the most hits
_MOST_WRITTEN_RULES = 10_000


def add_details(report: AuditReport, engine: Engine, moment: ReplayMoment, unused: int = 10) -> AuditReport:
    """Complete a report: name up to ``unused`` rules of each list that never fired."""
    facts = _list_facts(report, engine, unused)
    used = {row.key: row for row in report.lists}
    keys = sorted({*facts, *used}, key=by_source)
    # Lists without a hit, which are new, may stand before the others.
    places = {key: place for place, key in enumerate(keys)}
    moved = [places[row.key] for row in report.lists]
    explained = {*report.keys(_MOST_EXPLAINED_RULES)}
    return replace(
        report,
        lists=tuple(used.get(key, ListUse(key))._replace(facts=facts.get(key, ListFacts())) for key in keys),
        rules=_as_written(report.rules, engine),
        overlaps=tuple(Overlap((moved[first], moved[second]), number) for (first, second), number in report.overlaps),
        records_shown={
            key: replace(row, explanation=explain_record(engine, recorded(row), moment) if key in explained else None)
            for key, row in report.records_shown.items()
        },
    )


# -- the policy --------------------------------------------------------------------------------------------------------


def digest_policy(path: Path, policy: Policy) -> PolicyDigest:
    """The files that decide, and their digests; ``OSError`` if a file can no longer be read."""
    digests = {str(file): sha256_of(file) for file, seen in policy.files.items() if seen is not None}
    whole = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        whole.update(f"{name}\0{digest}\n".encode("utf-8", "backslashreplace"))
    lists = sorted({(file.source, digests[str(file.path)]) for layer in policy.layers for file in layer.lists})
    return PolicyDigest(str(path), whole.hexdigest(), tuple(FileDigest(*pair) for pair in lists))


# -- rules that never fired --------------------------------------------------------------------------------------------


def _list_facts(report: AuditReport, engine: Engine, most: int) -> dict[ListKey, ListFacts]:
    """For each list: how many rules it has, how many fired, and the first of the others."""
    places = {(use.key.source, use.key.line, use.key.rule): _digests_of(use.key.rule) for use in report.rules}
    fired = {(source, line, digest) for (source, line, _), digests in places.items() for digest in digests}
    fired_lines = {(use.key.source, use.key.line) for use in report.rules}
    #: those of the index that have fired; lists of those that have not, by the lines of those that have
    seen = set[tuple[str, int, bytes]]()
    beside: dict[tuple[str, int], list[ListKey]] = {}
    titles: dict[ListKey, str | None] = {}
    rules, hit = Counter[ListKey](), Counter[ListKey]()
    unused: dict[ListKey, list[int]] = {}
    for terms, line, digest in _places(engine):
        key = ListKey(terms.list, terms.source)
        titles.setdefault(key, terms.title)
        rules[key] += 1
        place = terms.source, line
        if (*place, digest) in fired:
            hit[key] += 1
            seen.add((*place, digest))
        elif place in fired_lines:
            beside.setdefault(place, []).append(key)
        lines = unused.setdefault(key, [])
        # A line may have several rules; it is named if none of them fired.
        if place in fired_lines or line in lines:
            continue
        if len(lines) < most or line < lines[-1]:
            insort(lines, line)
            del lines[most:]
    for (source, line, _), digests in places.items():
        if not any((source, line, digest) in seen for digest in digests):  # a filter, whose text does not tell its key
            hit.update(beside.pop((source, line), ()))
    paths = {file.source: file.read_from for file in _files(engine)}
    return {
        key: ListFacts(
            title,
            rules[key],
            hit[key],
            tuple(_unused_rules(paths.get(key.source, Path(key.source)), unused.get(key, []))),
        )
        for key, title in titles.items()
    }


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
    if colon and kind in ("sha256", "sealed"):
        return (bytes.fromhex(rest),)
    if colon and kind == "hashed":
        return (bytes.fromhex(rest.partition("=")[2].partition("+")[0]),)
    url, is_whole, _ = rule.rpartition(" (match: ")
    if is_whole:
        return (full_hash(url.encode()),)
    other = rule.removesuffix("/") if rule.endswith("/") else f"{rule}/"
    return full_hash(rule.encode()), full_hash(other.encode())


def _unused_rules(path: Path, lines: list[int]) -> Iterator[UnusedRule]:
    """The rules at some lines of a file."""
    texts = written_lines(path, lines)
    return (UnusedRule(line, texts.get(line, "")) for line in lines)


def _as_written(rules: Sequence[RuleUse], engine: Engine) -> tuple[RuleUse, ...]:
    """The rules; those with the most hits that are filters have the texts of their lists."""
    paths = {file.source: file.read_from for file in _files(engine) if file.format.conditions}
    lines: dict[str, set[int]] = {}
    for use in rules[:_MOST_WRITTEN_RULES]:
        if use.key.source in paths:
            lines.setdefault(use.key.source, set()).add(use.key.line)
    texts = {source: written_lines(paths[source], numbers) for source, numbers in lines.items()}
    return tuple(use._replace(text=texts.get(use.key.source, {}).get(use.key.line, "")) for use in rules)


def _files(engine: Engine) -> Iterator[ListFile]:
    return chain.from_iterable(layer.lists for layer in engine.policy.layers)


# -- explanations ------------------------------------------------------------------------------------------------------


def explain_record(engine: Engine, record: RecordedRequest, moment: ReplayMoment) -> RecordExplanation:
    """The decision for a record, with its canonical URLs and expressions."""
    request = record.request
    now, client = moment.of(record)
    decision = decide_recorded(engine, request, now, client, record.context)
    decision = decide_seen(engine, record, decision, now, client).decision
    shown = decision._replace(canonical=hide_user(decision.url), request=b"")
    return RecordExplanation(shown, tuple(_forms(request)))


def _forms(request_or_url: Request | bytes) -> Iterator[ExplainedForm]:
    try:
        request = request_of(request_or_url) if isinstance(request_or_url, bytes) else request_or_url
        forms = [form for host in dict.fromkeys(request.hosts) for form in canonical_forms(request, host)]
    except UrlError:
        return
    for form in forms:
        hashes = (
            ExplainedExpression(_ascii(expression), full_hash(expression).hex()) for expression in expressions(form)
        )
        yield ExplainedForm(_ascii(form.join()), tuple(hashes))


def _ascii(octets: bytes) -> str:
    return octets.decode("ascii", "backslashreplace")
