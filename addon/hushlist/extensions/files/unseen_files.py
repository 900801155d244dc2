"""The rule that decides about a file of which not all can be seen."""

from __future__ import annotations

from datetime import UTC, datetime

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_match import Match
from hushlist.extensions.files.file_rules import FileFacts, file_rules_of, judge_file


def match_of_unseen(judgement: Judgement, facts: FileFacts, why: str) -> Match:
    """The match of the first rule that needs to see more of a file than can be seen; of those that block, if any."""
    now = datetime.now(UTC)
    every = file_rules_of(judgement)
    rules = [rule for rule in every if rule.needs_content or rule.listed or rule.infected]
    rules = [rule for rule in rules if rule.applies(is_upload=facts.is_upload, now=now)] or [every[0]]
    # who goes on past a warning has seen nothing of what the others are about
    by_strength = (rule for action in (Action.BLOCK, Action.WARN) for rule in rules if rule.action is action)
    return next(by_strength, rules[0]).match(why)._replace(file=facts.seen)


def match_of_unseen_members(judgement: Judgement, facts: FileFacts) -> Match | None:
    """The match of the first rule that blocks by members, if not all can be seen, and the policy stops such files."""
    why = facts.members.why_unseen if facts.members is not None else ""
    if not why or judgement.settings.of("ranges") == "pass":
        return None
    now, facts = datetime.now(UTC), facts._replace(members=None)
    rules = [rule for rule in file_rules_of(judgement) if rule.applies(is_upload=False, now=now)]
    if not judge_file(rules, facts, now).needs_whole:
        return None
    blocking = (rule for rule in rules if rule.action in STOPPING and rule.waits_for_members(facts))
    return next((rule.match(why, facts) for rule in blocking), None)


def match_of_unseen_kind(judgement: Judgement, facts: FileFacts, why: str) -> Match | None:
    """The match of the first rule that blocks by kinds, and fits a download but for them; ``None`` if none counts."""
    now = datetime.now(UTC)
    rules = (rule for rule in file_rules_of(judgement) if rule.needs_content and rule.action in STOPPING)
    fitting = (rule for rule in rules if rule.applies(is_upload=False, now=now) and rule.evidence(facts) is not None)
    rule = next(fitting, None) if judge_file(file_rules_of(judgement), facts, now).needs_content else None
    return None if rule is None else rule.match(why, facts)
