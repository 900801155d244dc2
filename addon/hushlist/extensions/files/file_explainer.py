"""What the policy's ``files`` do with a file, by the facts that ``hushlist check`` and ``explain`` have of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import HushlistError
from hushlist.core.extension import Explained
from hushlist.core.match.rule import Action
from hushlist.core.system.files import open_regular, source_errors
from hushlist.extensions.files.content_kinds import KINDS, LONGEST_LOOK, kinds_of
from hushlist.extensions.files.file_hashes import ALGORITHMS, FileHasher, algorithms_for, listed_match
from hushlist.extensions.files.file_names import name_of_target
from hushlist.extensions.files.file_rules import FileFacts, FileRule, judge_file, rules_about
from hushlist.extensions.files.member_scanner import MOST_SHOWN, Members
from hushlist.extensions.files.recorded_files import TEXT, facts_of_octets, names_of
from hushlist.extensions.files.upload_look import media_types_of

_CHUNK = 1 << 20


def explain_file(engine: Engine, judgement: Judgement, moment: datetime, options: Mapping[str, str]) -> Explained:
    """What becomes of a file, by which rule, and why by no other.

    Raises:
        HushlistError: the local file cannot be read, or no file is of such a kind.
    """
    rules: tuple[FileRule, ...] = judgement.settings.of("files")
    facts, digests = _facts(engine, judgement, options)
    about = rules_about(rules, judgement)
    verdict = judge_file(about, facts, moment)
    lines = [f"File         {', '.join(_seen(facts))}", *(f"  {name}  {digest}" for name, digest in digests)]
    doubts: list[str] = []
    has_decided = False
    for rule in rules:
        place, doubt = f"{rule.source}:{rule.line}", ""
        why = "" if rule in about else "does not fit: the address is of another site or category"
        may_fit = facts if rule.evidence(facts) is not None else _as_unseen(facts)
        why = why or _why_not(rule, may_fit, moment) or (doubt := _doubt(rule, may_fit))
        if not why and not has_decided and verdict.match is not None:
            has_decided, why = True, f"<- decides: {rule.evidence(facts)}"
        lines.append(f"  {place}: {rule.action.value} {rule.words}  {why or 'fits, but another may decide'}")
        doubts += [f"{place} {doubt}"] if doubt and not has_decided else []
    if not rules:
        lines.append("  no rules: every file passes")
    is_decision = verdict.match is not None and verdict.match.rule.terms.action is not Action.ALLOW
    return Explained(tuple(lines), verdict.match if is_decision else None, tuple(doubts))


def _facts(engine: Engine, judgement: Judgement, options: Mapping[str, str]) -> tuple[FileFacts, list[tuple[str, str]]]:
    if "file" in options:
        options = {**options, **_facts_of_file(Path(options["file"]), algorithms_for(engine, judgement.client))}
    names = (*names_of(options.get("name", "")), name_of_target(judgement.request.target))
    media_types = media_types_of([options.get("media-type", "")])
    facts = FileFacts(options.get("for") == "upload", media_types, tuple(filter(None, names)))
    if "size" in options:
        facts = facts._replace(octets=int(options["size"]))
    if "content" in options:
        kinds = frozenset(options["content"].replace(",", " ").split()) - {TEXT}
        if odd := kinds - KINDS.keys():
            raise HushlistError(f"--content: {min(odd)}: expected {TEXT} or some of {', '.join(KINDS)}")
        facts = facts._replace(kinds=kinds)
    if "members" in options:
        facts = facts._replace(members=Members.of_text(options["members"]))
    digests = [(ALGORITHMS[len(digest)], digest.lower()) for digest in options.get("hash", "").split(",") if digest]
    if digests:
        facts = facts._replace(listed=listed_match(engine, judgement.client, digests))
    return facts, digests


def _facts_of_file(path: Path, algorithms: Iterable[str]) -> dict[str, str]:
    octets, beginning, hasher = 0, b"", FileHasher("", algorithms, sees_members=True)
    with source_errors(path, "file"), open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            beginning = beginning or chunk[:LONGEST_LOOK]
            octets += len(chunk)
            hasher.take(chunk)
    return facts_of_octets(kinds_of(beginning), octets, hasher)


def _seen(facts: FileFacts) -> Iterator[str]:
    yield "upload" if facts.is_upload else "download"
    yield from filter(None, (*facts.media_types, *facts.names))
    if facts.octets is not None:
        yield f"{facts.octets:,} octets"
    if facts.kinds is not None:
        yield " ".join(sorted(facts.kinds)) or TEXT
    if facts.members:
        members = (*sorted(facts.members.kinds), *facts.members.names[:MOST_SHOWN])
        yield from (f"member {member}" for member in members)


def _as_unseen(facts: FileFacts) -> FileFacts:
    """Facts of a file without its members, if not all of them can be read."""
    return facts._replace(members=None) if facts.members is not None and facts.members.why_unseen else facts


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
        return "depends on the file itself (--file)"
    if rule.waits_for_members(facts):
        return "depends on the members of the file: they are not told (--file), or cannot be read (ranges)"
    return "depends on the scanner, which is not asked here" if rule.infected and facts.infection is None else ""
