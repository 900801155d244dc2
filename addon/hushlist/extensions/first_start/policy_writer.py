"""Writes the policy of what was answered: the YAML that a person would write, with a comment where one helps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import flow_text
from hushlist.core.policy import shipped_policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import make_private, source_errors
from hushlist.extensions.first_start.questionnaire import (
    EVERYBODY,
    LESSONS,
    LIMITED,
    SAFE_SEARCH,
    SUBJECTS,
    Household,
    Person,
    webhook_of,
)
from hushlist.extensions.subscriptions.catalogue import CatalogueEntry, read_catalogue, shipped_catalogue
from hushlist.extensions.unblock.credentials import hash_passphrase

OVERRIDES = "overrides.yaml"
_OVERRIDES = """# Your own rules, which beat every list, such as:
#   - {expression: shop.example, action: allow}
"""
_NO_RULES = "rules: []\n"
#: what is open at bedtime: without an answer there, a tablet leaves the Wi-Fi
_NETWORK_CHECKS = """rules:
  # a tablet asks these whether it has a network, also at bedtime
  - {expression: captive.apple.com/, action: allow}
  - {expression: connectivitycheck.gstatic.com/, action: allow}
"""
_EXAMPLE = """rules:
  - {expression: blocked.example/, reason: An example of a rule of your own}
"""
_LOGS = {
    "school": "{clients: pseudonym, days: 14}    # who it was stays hidden: see log.md",
    "company": "{clients: pseudonym, days: 14}    # who it was stays hidden: see log.md",
}


def write_policy(household: Household, policy: Path) -> None:
    """Write the policy, and the list of one's own rules beside it; neither in the place of another file.

    Raises:
        SourceError: a file is there already, or cannot be written; or what would be written has a mistake.
    """
    texts = {policy: policy_text(household), policy.with_name(OVERRIDES): overrides_text(household)}
    for path in texts:
        with source_errors(path, "output"):
            if path.is_symlink() or path.exists():
                raise FileExistsError(f"{path} is there already, and is not written over")
    written: list[Path] = []
    try:
        for path in reversed(texts):  # the policy last: it is taken when it is there
            with source_errors(path, "output"), path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(texts[path])
        _check(policy)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _check(policy: Path) -> None:
    report = ProblemReport(str(policy))
    read_policy(policy, report)
    if report.errors:
        raise SourceError(report.errors)


def make_folder(policy: Path) -> None:
    """Make the folder of the policy, private to the user; ``SourceError`` if it cannot be made."""
    with source_errors(policy.parent, "output"):
        make_private(policy.parent)


def overrides_text(household: Household) -> str:
    if household.place == "testing":
        return _OVERRIDES + _EXAMPLE
    has_bedtime = any(any(person.bedtimes) for person in household.people)
    return _OVERRIDES + (_NETWORK_CHECKS if has_bedtime else _NO_RULES)


def policy_text(household: Household) -> str:
    return "".join(f"{line}\n" for line in _lines(household))


def _lines(household: Household) -> Iterator[str]:
    pages, schedules = shipped_policy().parent, _schedules(household)
    example = pages.parent / "examples" / "README.md"  # a package is installed without it
    more = f"; whole examples: {example}" if example.is_file() else ""
    yield f"# What this filter does, as the first start has written it (for: {household.place}). Change it as you like:"
    yield "# a change holds within seconds, and a mistake is told with its line, while the last good rules stay in use."
    yield f"# Every key: {pages / 'README.md'}{more}"
    yield f"timezone: {flow_text(household.zone)}"
    if schedules:
        yield from ("", "# A night belongs to the day on which it begins.", "schedules:")
        for name, spans in schedules.items():
            yield f"  {flow_text(name)}:"
            yield from (f"    - {flow_text(span)}" for span in spans)
    yield from ("", *_layers(household))
    yield from ("", *_settings(household))
    yield from _groups(household, {str(spans): name for name, spans in schedules.items()})
    yield from ("", *_administration(household))


@cache
def _entry(subject: str) -> CatalogueEntry:
    """The list of a subject."""
    return read_catalogue(shipped_catalogue())[SUBJECTS[subject]]


def _layers(household: Household) -> Iterator[str]:
    chosen = [_entry(subject) for subject in household.blocked if subject != SAFE_SEARCH]
    yield "# Asked from top to bottom: the first layer that has a rule for an address decides."
    yield from ("layers:", "  - name: overrides    # your own rules", f"    lists: [{OVERRIDES}]")
    yield "  - name: checks    # addresses written as no browser writes them"
    yield from ("    checks: {rare-ipv4: block, misleading-user: block}", "  - name: lists")
    if not chosen:
        yield "    lists: []    # the names of public ones: hushlist lists --catalogue"
        return
    yield "    # Public lists, which the filter fetches by itself; until one is there, it does without (optional)."
    yield "    lists:"
    for entry in chosen:
        yield f"      - {{catalogue: {entry.name}, optional: true}}    # {entry.purpose}"


def _settings(household: Household) -> Iterator[str]:
    some = [subject for subject in SUBJECTS if household.blocked.get(subject) in (LIMITED, LESSONS)]
    if some:
        yield from ("# Not for everybody: the groups below say for whom.", "categories:")
        yield from (f"  {_entry(subject).category}: pass" for subject in some)
    if household.blocked.get(SAFE_SEARCH) == EVERYBODY:
        yield "safe-search: strict"
    network = shipped_policy().with_name("network.md")
    mark = "" if household.passes_household else "# "
    yield f"{mark}pass-through: household    # time, push, calls and such, undecrypted: see {network}"
    yield "unblock: {codes: on, ask: on}    # on the block page: a code, or a question to whoever runs the filter"
    yield "reports: on    # there, too: this is blocked by mistake; the filter's page shows who says so, and which rule"


def _schedules(household: Household) -> dict[str, list[dict[str, object]]]:
    """The name of each schedule, and its spans; people with the same bedtimes share one."""
    schedules: dict[str, list[dict[str, object]]] = {}
    for person in household.limited:
        spans = _bedtime(person)
        if spans and spans not in schedules.values():
            schedules[f"bedtime {len(schedules) + 1}" if schedules else "bedtime"] = spans
    if household.lessons is not None:
        begin, end = household.lessons
        schedules["lessons"] = [{"days": "mon-fri", "times": f"{begin}-{end}"}]
    return schedules


def _bedtime(person: Person) -> list[dict[str, object]]:
    days: tuple[object, ...] = ("sun-thu", ["fri", "sat"])
    pairs = zip(days, person.bedtimes, strict=True)
    return [{"days": day, "times": "-".join(times)} for day, times in pairs if times is not None]


def _groups(household: Household, schedules: dict[str, str]) -> Iterator[str]:
    if household.people:
        yield from (
            "",
            "# The first group that fits is used. An address is a device's: give it a fixed one in the router.",
        )
        yield "groups:"
    for person in household.people:
        yield f"  - name: {flow_text(person.name)}"
        yield f"    clients: {flow_text(list(person.addresses))}"
        if person.is_limited:
            yield from (f"    {line}" for line in _limits(household, person, schedules))


def _limits(household: Household, person: Person, schedules: dict[str, str]) -> Iterator[str]:
    timed = flow_text({"action": "block", "during": "lessons", "otherwise": "pass"})
    actions = {LIMITED: "block", LESSONS: timed if household.lessons is not None else "block"}
    limited = {subject: actions[whom] for subject, whom in household.blocked.items() if whom in actions}
    is_safe = limited.pop(SAFE_SEARCH, None) is not None
    if limited:
        yield "categories:"
        yield from (f"  {_entry(subject).category}: {action}" for subject, action in limited.items())
    if is_safe:
        yield "safe-search: strict"
    if spans := _bedtime(person):
        during = flow_text({"action": "block", "during": schedules[str(spans)], "otherwise": "pass"})
        yield f"default: {during}    # at bedtime, only what {OVERRIDES} allows"


def _administration(household: Household) -> Iterator[str]:
    if household.admin and household.passphrase:
        yield "# Who signs in to the filter's page, https://hushlist.internal/, and what they may do there."
        yield from ("admin:", f"  - name: {flow_text(household.admin)}")
        yield f"    passphrase: {hash_passphrase(household.passphrase)}"
        yield "    role: manage"
    else:
        yield "# Nobody can sign in to the filter's page yet: 'hushlist override passphrase', and the key admin."
    free = [address for person in household.people if not person.is_limited for address in person.addresses]
    if free:
        yield f"live: {flow_text({'clients': free})}    # from where that page can be opened, besides this machine"
    if (webhook := webhook_of(household.notices)) is not None:
        server, topic = webhook
        yield from ("notify:    # where people are told that somebody asks", f"  - webhook: {server}")
        yield f"    topic: {topic}"
    yield f"log: {_LOGS.get(household.place, 'on')}"
