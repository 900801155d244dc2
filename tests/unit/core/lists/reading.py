"""What a reader makes of a text, as tests compare it."""

from collections.abc import Callable, Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.match.rule import Action, Rule, RuleBlock, each_rule

Reader = Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]
NO_WILDCARD = "'*' is no wildcard here; a rule fits its host, all hosts below it, and all paths below it"


def read(reader: Reader, text: str | bytes, defaults: ListDefaults | None = None) -> tuple[list[str], list[str]]:
    """``(rules, warnings)``: a rule as "line:pattern", with a "+" in front where it allows; there are no errors."""
    report = ProblemReport("f")
    rules = list(
        each_rule(reader(text if isinstance(text, bytes) else text.encode(), defaults or ListDefaults(), report))
    )
    assert report.errors == []
    found = [f"{'+' if rule.terms.action is Action.ALLOW else ''}{rule.line}:{rule.pattern}" for rule in rules]
    return found, [str(warning).removeprefix("f:") for warning in report.warnings]
