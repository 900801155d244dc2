"""What administrators do at the live page with the rules of their list, with sessions, and with the record itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from hushlist.core.decide.engine import Engine
from hushlist.core.decide.trace import trace
from hushlist.core.errors import UrlError, one_line
from hushlist.core.lists.patterns import canonical_target, parse_expression, why_whole
from hushlist.core.match.overbroad import breadth_of_order
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import Reach
from hushlist.core.policy.recurrence import parse_moment
from hushlist.core.routes import (
    BESIDE,
    Account,
    Action,
    ActionError,
    Done,
    Limit,
    MissingError,
    Number,
    Order,
    Parts,
    Role,
    RoleError,
    Target,
    Text,
    Undoings,
    Whole,
    usable,
)
from hushlist.core.system.files import LONGEST_DOCUMENT, read_regular
from hushlist.core.url.host import is_address
from hushlist.core.url.parts import as_typed
from hushlist.core.url.request import readable_host
from hushlist.extensions.dashboard.admin_store import AdminStore, RecordedAction, Session
from hushlist.extensions.dashboard.people import devices, home, people
from hushlist.extensions.dashboard.rule_edits import (
    WrittenRule,
    change_list,
    overrides_list,
    rule_text,
    with_rule,
    without_rule,
    written_rules,
)
from hushlist.extensions.dashboard.what_holds import this_week, what_holds
from hushlist.extensions.quotas.metered_use import uses_in
from hushlist.proxy.runtime import Runtime


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule of the administrator's list."""

    #: ``None``: it cannot be removed here
    id: str | None
    line: int
    expression: str
    action: str | None
    reason: str | None
    expires: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class Rules:
    file: str
    rules: list[RuleStatus]


@dataclass(frozen=True, slots=True)
class AddedRule:
    expression: str
    action: str
    file: str
    reason: str | None = None
    expires: str | None = None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class RemovedRule:
    """Its keys are as they were written."""

    file: str
    comment: str | None
    keys: Mapping[str, str] = field(metadata=BESIDE)


@dataclass(frozen=True, slots=True)
class RecordStatus:
    """Something that was done."""

    id: int
    at: float
    who: str
    client: str
    what: str
    can_undo: bool
    undone: float | None
    undone_by: str | None
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Undone:
    """What the record has of what was undone stands beside its number."""

    undone: int
    what: str
    detail: Mapping[str, object] = field(metadata=BESIDE)


# -- rules -------------------------------------------------------------------------------------------------------------


def rules(policy: Policy) -> Rules:
    """The administrator's own rules."""
    path = overrides_list(policy)
    return Rules(str(path), [_status_of(rule) for rule in _written_rules(path)])


def _status_of(rule: WrittenRule) -> RuleStatus:
    terms = rule.rule.terms
    action = None if terms.action is None else terms.action.value
    expires = None if terms.expires is None else terms.expires.isoformat()
    pattern, comment = str(rule.rule.pattern), rule.comment or None
    return RuleStatus(rule.id or None, rule.rule.line, pattern, action, terms.reason, expires, comment)


def add_rule(
    policy: Policy,
    account: Account,
    action: Order,
    scope: Annotated[str, Text("a host with all below it, or a page", choices=("host", "url"))],
    target: Target,
    days: Annotated[int, Whole("to the end of which day of UTC, 1 being today; 0: for good", 366, 0)] = 0,
    reason: Annotated[str, Text("why; a block page shows it", 200)] = "",
) -> Done[AddedRule]:
    """Allow or block something for everybody."""
    path, now = overrides_list(policy), datetime.now(UTC)
    with usable():
        typed = as_typed(target).decode("utf-8", "surrogateescape")
        expression = f"{canonical_target(scope, target)}/" if scope == "host" else str(parse_expression(typed))
    more = {"reason": one_line(reason), "expires": str(now.date() + timedelta(days=days - 1)) if days else ""}
    rule = {"expression": expression, "action": action} | {name: text for name, text in more.items() if text}
    comment = f"{one_line(account.name)}, {now:%Y-%m-%d %H:%M} UTC"
    _change(policy, path, lambda text: with_rule(text, rule, comment))
    warning = "; ".join(filter(None, [breadth_of_order("url", expression), why_whole(scope, target)])) or None
    added = AddedRule(file=str(path), warning=warning, **rule)
    return Done(added, {"kind": "rule", "file": str(path), "item": rule_text(rule)}, Role.MANAGE)


def remove_rule(
    policy: Policy, identity: Annotated[str, Text("its id, which changes with its text", 64, pattern="^[0-9a-f]{64}$")]
) -> Done[RemovedRule]:
    """Remove one of the own rules.

    Whoever wrote it.
    """
    path = overrides_list(policy)
    written = [rule for rule in _written_rules(path) if rule.id == identity]
    if not written:
        raise MissingError("the rule is not there any more, or was changed since")
    keys, comment = written[-1].keys, written[-1].comment
    _change(policy, path, lambda text: without_rule(text, written[-1].item))
    undo = {"kind": "rule removed", "file": str(path), "keys": keys, "comment": comment}
    return Done(RemovedRule(str(path), comment or None, keys), undo, Role.MANAGE)


def change_rule_back(policy: Policy, how: Mapping[str, Any]) -> None:
    """Take a rule away that was added, or add one that was removed."""
    path = overrides_list(policy)
    if str(path) != how["file"]:
        raise MissingError("the policy has another list of own rules now")

    def edit(text: str) -> str:
        if how["kind"] == "rule":
            return without_rule(text, how["item"])
        return with_rule(text, how["keys"], how["comment"])

    _change(policy, path, edit)


def _written_rules(path: Path) -> list[WrittenRule]:
    try:
        return written_rules(read_regular(path, LONGEST_DOCUMENT).decode("utf-8"))
    except (OSError, UnicodeError, ActionError) as error:
        raise ActionError(f"{path}: {error}") from error


def _change(policy: Policy, path: Path, edit: Callable[[str], str]) -> None:
    if not change_list(policy, path, edit):
        raise ActionError("there is such a rule already")


# -- what would be decided ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explained:
    """A trace, the mode of the proxy, and the quotas of whoever asks."""

    option: str
    quotas: list[Mapping[str, object]]
    trace: Mapping[str, object] = field(metadata=BESIDE)


def explain(
    engine: Engine,
    runtime: Runtime,
    url: Annotated[str, Text("an address", 8192, 1)],
    client: Annotated[str, Text("whose: an address")] = "",
    user: Annotated[str, Text("its user in the proxy", 256)] = "",
    at: Annotated[str, Text("when, as 2026-12-24T22:30, by the clock of the policy; nothing: now", 40)] = "",
) -> Explained:
    """Each step from an address to its decision."""
    asker = Client(client.strip(), user.strip() or None)
    if asker.address and not is_address(readable_host(asker.address.encode("utf-8", "replace"))):
        raise ActionError("a client is an address such as 192.168.1.7")
    try:
        moment = parse_moment(at) if at else datetime.now(UTC)
    except ValueError as error:
        raise ActionError("a time is written as 2026-12-24T22:30") from error
    try:
        typed = as_typed(url.strip())
        if not typed:
            raise ActionError("there is no address in it")
        steps = trace(engine, typed, moment if moment.tzinfo else moment.replace(tzinfo=engine.policy.zone), asker)
    except UrlError as error:
        raise ActionError(f"it cannot be read: {error.reason}") from error
    return Explained(runtime.mode, [use.as_dict() for use in uses_in(runtime, asker)], steps.as_dict())


# -- sessions and the record -------------------------------------------------------------------------------------------


def sessions(store: AdminStore) -> list[Session]:
    """Who else is signed in."""
    return store.sessions()


def end_session(store: AdminStore, number: Number) -> Done[Session]:
    """End a session.

    Sign somebody out.
    """
    session = next((candidate for candidate in store.sessions() if candidate.id == number), None)
    if session is None or not store.end_session(number):
        raise MissingError("there is no such session, or it has ended")
    return Done(session)


def record(account: Account, store: AdminStore, reach: Reach) -> list[RecordStatus]:
    """What was done, and by whom.

    The newest first.
    """
    done = [entry for entry in store.recorded() if reach.is_all or entry.who == account.name]
    return [_record_status(entry) for entry in done if reach.has(_whom_of(entry))]


def _whom_of(entry: RecordedAction) -> str | None:
    """Whom something was done for, where the record says it."""
    whom = entry.detail.get("client")
    return whom if isinstance(whom, str) else None


def _record_status(entry: RecordedAction) -> RecordStatus:
    can_undo = entry.undo is not None and entry.undone is None
    return RecordStatus(
        *(entry.id, entry.at, entry.who, entry.client, entry.what, can_undo, entry.undone, entry.undone_by),
        detail=entry.detail,
    )


def undo(account: Account, store: AdminStore, parts: Parts, undoings: Undoings, number: Number) -> Done[Undone]:
    """Undo something that was done.

    Once.
    """
    done = store.recorded_action(number)
    if done is None or done.undo is None or done.role is None:
        raise MissingError("there is nothing to undo with this number")
    if not account.role.may(done.role):
        raise RoleError(done.role)
    if str(done.undo.get("kind")) not in undoings:
        raise MissingError("another version of Hushlist has to undo it")
    if not store.mark_undone(number, account.name):
        raise ActionError("it is undone already")
    try:
        parts.call(undoings[str(done.undo["kind"])], how=done.undo)
    except BaseException:
        store.unmark_undone(number)
        raise
    return Done(Undone(number, done.what, done.detail))


ACTIONS = (
    Action("GET", "/rules", Role.VIEW, rules),
    Action("POST", "/rules", Role.MANAGE, add_rule, "added a rule"),
    Action("DELETE", "/rules/{identity}", Role.MANAGE, remove_rule, "removed a rule"),
    Action("GET", "/client", Role.VIEW, what_holds),
    Action("GET", "/explain", Role.VIEW, explain),
    Action("GET", "/home", Role.VIEW, home, limit=Limit.NARROWED),
    Action("GET", "/people", Role.VIEW, people, limit=Limit.NARROWED),
    Action("GET", "/week", Role.VIEW, this_week),
    Action("GET", "/devices", Role.VIEW, devices),
    Action("GET", "/sessions", Role.MANAGE, sessions),
    Action("DELETE", "/sessions/{number}", Role.MANAGE, end_session, "ended a session"),
    Action("GET", "/record", Role.VIEW, record, limit=Limit.NARROWED),
    Action("POST", "/record/{number}/undo", Role.APPROVE, undo, "undid", limit=Limit.ITEM),
)
UNDOINGS = {"rule": change_rule_back, "rule removed": change_rule_back}
