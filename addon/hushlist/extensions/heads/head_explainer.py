"""What rules for heads do with a request and its answer, for ``hushlist check`` and ``explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from hushlist.core.decide.decision import Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import Explained
from hushlist.core.url.header_names import as_read
from hushlist.extensions.files.upload_look import media_types_of
from hushlist.extensions.heads.head_rules import HeadRule
from hushlist.extensions.heads.listed_heads import listed_heads, listed_rules


def explain_heads(engine: Engine, judgement: Judgement, moment: datetime, options: Mapping[str, str]) -> Explained:
    """Which rules change the heads of a request and of its answer, or block the answer, and why others do not."""
    listed = listed_heads(judgement.decision)
    rules = (*listed_rules(judgement.decision), *judgement.settings.of("heads"))
    status = options.get("status", "")
    is_upload, names = options.get("for") == "upload", _names(options)
    # of an upload, the media type says nothing of the answer
    media_types = () if is_upload else media_types_of([options.get("media-type", "")])
    lines, match, doubts = ["Heads"] if rules or listed else ["Heads        no rules"], None, list[str]()
    changes = list[str]()
    lines += [
        f"  {head.match.rule.place}: {head.filter}  is lifted by {head.lifted_by.rule.place}"
        for head in listed
        if head.lifted_by
    ]
    for rule in rules:
        place, doubt = f"{rule.source}:{rule.line}", ""
        why = _why_not(rule, judgement, moment, status, media_types, names)
        why = why or (doubt := _doubt(rule, status, media_types, names))
        if not why and rule.blocks and match is None:
            match, why = rule.match(f"{status} {', '.join(media_types)}".strip()), "<- decides"
        lines.append(f"  {place}: {rule.way}, {'; '.join(_does(rule))}  {why or 'fits'}")
        if (not why or doubt) and _changes(rule, names, is_upload=is_upload):
            changes.append(f"{place} {rule.way}, {'; '.join(_does(rule))} {doubt}".rstrip())
        doubts += [f"{place} {doubt}"] if doubt and rule.blocks and match is None and not is_upload else []
    return Explained(tuple(lines), match, tuple(doubts), tuple(changes))


def _changes(rule: HeadRule, names: frozenset[bytes] | None, *, is_upload: bool) -> bool:
    """Whether a rule that fits may change a head, by the names of the answer's fields, if they are said."""
    if rule.way == "request" or rule.blocks:
        return not rule.blocks
    if is_upload:
        return False
    if names is None or rule.set or rule.add or rule.before:
        return True
    return not names.isdisjoint(rule.remove) or (rule.cookies is not None and b"set-cookie" in names)


def _names(options: Mapping[str, str]) -> frozenset[bytes] | None:
    """The names of the answer's fields, as servers read them; ``None``: nobody says them."""
    text = options.get("fields")
    return None if text is None else frozenset(as_read(name.strip().lower().encode()) for name in text.split(","))


def _why_not(
    rule: HeadRule,
    judgement: Judgement,
    moment: datetime,
    status: str,
    media_types: tuple[str, ...],
    names: frozenset[bytes] | None,
) -> str:
    """Why a rule does nothing; empty if it may."""
    if rule.during is not None and not rule.during.is_on(moment):
        return "is outside its schedule"
    if not rule.fits_request(judgement, moment):
        return "does not fit: the address is of another site or category"
    seen = replace(
        rule, status=rule.status if status else frozenset(), types=rule.types if media_types else frozenset()
    )
    if rule.way == "answer" and not seen.fits_answer(int(status or 0), media_types, None):
        return f"does not fit: {' '.join(filter(None, (status, *media_types)))}"
    if rule.has and names is not None and rule.has not in names:
        return f"does not fit: the answer has no {rule.has.decode()}"
    return ""


def _doubt(rule: HeadRule, status: str, media_types: tuple[str, ...], names: frozenset[bytes] | None) -> str:
    """What it depends on whether a rule fits; empty if that is sure."""
    if rule.status and not status:
        return "depends on the answer's status (--status)"
    if rule.types and not media_types:
        return "depends on the answer's media type (--media-type)"
    if rule.has and names is None:
        return f"depends on whether the answer has {rule.has.decode()} (--fields)"
    return f"depends on the value of {rule.has.decode()}" if rule.value is not None else ""


def _does(rule: HeadRule) -> Iterator[str]:
    if rule.blocks:
        yield "block"
    if rule.remove:
        yield f"remove {', '.join(sorted(name.decode() for name in rule.remove))}"
    if rule.cookies is not None:
        which = "cookies" if rule.listed is None else str(rule.listed.rule.pattern)
        yield f"{'change' if rule.cookies.life else 'remove'} the cookies of {which}"
    for what, pairs in (("set", rule.set), ("add", rule.before + rule.add)):
        if pairs:
            yield f"{what} {', '.join(f'{name}: {value}' for name, value in pairs)}"
