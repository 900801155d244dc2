"""What ``hushlist compile`` prints: the counts of each list, problems by their kind, and what is decrypted for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hushlist.core.compile.compile_report import CompileReport
from hushlist.core.errors import Problem, number_of, right_aligned
from hushlist.core.match.checks import Check
from hushlist.core.policy.pass_through import BY_NEED
from hushlist.core.policy.policy_file import Policy

_COLUMNS = ("read", "kept", "duplicates", "refused")


def table(report: CompileReport) -> Iterator[str]:
    """Lines for people: the counts of every file, and formats that content told."""
    rows = [([getattr(row, name) for name in _COLUMNS], row.source) for row in report.lists]
    total = [sum(numbers[at] for numbers, _ in rows) for at in range(len(_COLUMNS))]
    rows.append((total, number_of(len(rows), "file", "files")))
    yield from right_aligned((*_COLUMNS, ""), [(*map("{:,}".format, numbers), name) for numbers, name in rows])
    for row in report.lists:
        if row.detected:
            yield f"format of {row.source}: {row.detected}, as its content tells"
    for row in report.lists:
        if row.exceptions:
            more = f"; of filters that this makes too broad, {len(row.too_broad)} are named below"
            yield f"exceptions left out of {row.source}: {row.exceptions:,}{more if row.too_broad else ''}"
            yield from (f"  {text}" for text in row.too_broad)


#: problems of one kind that are named one by one
_FEW = 3
#: what a reason says of one problem alone, and of how many a problem tells
_ASIDE = re.compile(r" \([^()]*\)(?=[:;]|$)")
_OTHERS, _FIRST_OF = re.compile(r"([0-9][0-9,]{0,15}) more"), re.compile(r" \(the first of ([0-9][0-9,]{0,15})\)$")


def by_kind(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each kind of problem: the first, how many more there are, and why; of a few, all.

    >>> lines = [Problem("a.txt", line, f"{line}.example", f"too long ({line} octets)") for line in range(1, 6)]
    >>> [*by_kind(lines)], [*by_kind(lines[:2])]
    (['a.txt:1: 1.example, and 4 more: too long'], ['a.txt:1: 1.example, a.txt:2: 2.example: too long'])
    """
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(_ASIDE.sub("", problem.why), []).append(problem)
    for kind, (first, *others) in kinds.items():
        yield _line_of(kind, [first, *others]) if others else str(first)


def _line_of(kind: str, same: Sequence[Problem]) -> str:
    number, sources = sum(map(_told_by, same)), len({problem.source for problem in same})
    shown = [*same] if number == len(same) <= _FEW else same[:1]
    places = ", ".join(str(problem._replace(why="")).removesuffix(": ") for problem in shown)
    where = "" if sources == 1 else f" in {sources} lists"
    more = f", and {number - len(shown):,} more{where}" if number > len(shown) else ""
    whole = {problem.why for problem in same}
    return f"{places}{more}: {whole.pop() if len(whole) == 1 else kind}"


def _told_by(problem: Problem) -> int:
    """For how many problems one stands."""
    match = _FIRST_OF.search(problem.why) or (
        _OTHERS.fullmatch(problem.what) if problem.why.endswith(")") and " (the last in line " in problem.why else None
    )
    return 1 if match is None else int(match[1].replace(",", ""))


def decrypting(policy: Policy, report: CompileReport) -> Iterator[str]:
    """Lines for people: what has connections decrypted, if a group decrypts where that is needed."""
    if all(group.settings.decrypt not in BY_NEED for group in policy.all_groups):
        return
    everything = "everything is decrypted where its layer is asked"
    for row in report.lists:
        if row.opaque:
            rules = number_of(row.opaque, "rule", "rules")
            yield f"decrypt: {row.source}: {rules} may be of paths on any host: {everything}"
        elif row.below_hosts:
            rules = number_of(row.below_hosts, "rule", "rules")
            yield f"decrypt: {row.source}: {rules} for less than a host: these hosts are decrypted"
    for layer in policy.layers:
        for rule in layer.checks:
            if isinstance(rule.pattern, Check) and rule.pattern.needs_request:
                yield f"decrypt: the check {rule.pattern.code} in layer {layer.name} needs the requests: {everything}"
