"""What the policy's ``files`` do with a file, by the facts that ``hushlist check`` and ``explain`` have of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import Explained
from hushlist.core.match.rule import Action
from hushlist.core.system.files import open_regular, source_errors
from hushlist.extensions.files.content_kinds import LONGEST_LOOK, kinds_of
from hushlist.extensions.files.file_hashes import FileHasher, algorithms_for, listed_match
from hushlist.extensions.files.file_names import file_name, name_of_target
from hushlist.extensions.files.file_rules import FileFacts, FileRule, judge_file
from hushlist.extensions.files.upload_look import media_types_of

_CHUNK = 1 << 20


def explain_file(engine: Engine, judgement: Judgement, moment: datetime, told: Mapping[str, str]) -> Explained:
    """What becomes of a file, by which rule, and why by no other.

    Raises:
        SourceError: the local file cannot be read.
    """
    rules: tuple[FileRule, ...] = judgement.settings.of("files")
    facts, digests = _facts(engine, judgement, told)
    verdict = judge_file(rules, facts, moment)
    lines = [f"File         {', '.join(_seen(facts))}", *(f"  {name}  {digest}" for name, digest in digests)]
    doubts: list[str] = []
    has_decided = False
    for rule in rules:
        place, doubt = f"{rule.source}:{rule.line}", ""
        why = _why_not(rule, facts, moment) or (doubt := _doubt(rule, facts))
        if not why and not has_decided and verdict.match is not None:
            has_decided, why = True, f"<- decides: {rule.evidence(facts)}"
        lines.append(f"  {place}: {rule.action.value} {rule.words}  {why or 'fits, but another may decide'}")
        doubts += [f"{place} {doubt}"] if doubt and not has_decided else []
    if not rules:
        lines.append("  no rules: every file passes")
    is_decision = verdict.match is not None and verdict.match.rule.terms.action is not Action.ALLOW
    return Explained(tuple(lines), verdict.match if is_decision else None, tuple(doubts))


def _facts(engine: Engine, judgement: Judgement, told: Mapping[str, str]) -> tuple[FileFacts, list[tuple[str, str]]]:
    names = (file_name(told.get("name", "")), name_of_target(judgement.request.target))
    media_types = media_types_of([told.get("media-type", "")])
    facts = FileFacts(told.get("for") == "upload", media_types, tuple(filter(None, names)))
    if "file" not in told:
        return facts, []
    path, hasher = Path(told["file"]), FileHasher("", algorithms_for(engine, judgement.client))
    octets, beginning = 0, b""
    with source_errors(path, "file"), open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            beginning = beginning or chunk[:LONGEST_LOOK]
            octets += len(chunk)
            hasher.take(chunk)
    listed = listed_match(engine, judgement.client, hasher)
    return facts._replace(octets=octets, kinds=kinds_of(beginning), listed=listed), list(hasher.digests())


def _seen(facts: FileFacts) -> Iterator[str]:
    yield "upload" if facts.is_upload else "download"
    yield from filter(None, (*facts.media_types, *facts.names))
    if facts.octets is not None and facts.kinds is not None:
        yield f"{facts.octets:,} octets"
        yield " ".join(sorted(facts.kinds)) or "text"


def _why_not(rule: FileRule, facts: FileFacts, moment: datetime) -> str:
    """Why a rule says nothing of a file; empty if it may."""
    if not rule.applies(is_upload=facts.is_upload, now=moment):
        is_other_way = rule.way not in ("both", "upload" if facts.is_upload else "download")
        return f"is for {rule.way} alone" if is_other_way else "is outside its schedule"
    unfit = ((condition, has) for condition, has, fits in rule.conditions(facts) if fits is None)
    return next((f"does not fit: {condition} ({has or 'not stated'})" for condition, has in unfit), "")


def _doubt(rule: FileRule, facts: FileFacts) -> str:
    """What it depends on whether a rule fits; empty if that is sure."""
    if (rule.needs_content and facts.kinds is None) or (rule.listed and facts.listed is None):
        return "depends on the file itself: name one by --file"
    return "depends on the scanner, which is not asked here" if rule.infected and facts.infection is None else ""
