"""Each thing that an administrator does, as a function: the live page and its interface call the same ones.

Who may do what is said where they are called. Each is recorded: who, what, when and from where; and how to undo it,
where that can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.match.overbroad import breadth_of_order
from hushlist.core.policy.groups import address_text
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import LONGEST_DOCUMENT, read_regular, reason_of
from hushlist.core.url.host import is_address
from hushlist.core.url.parts import as_typed
from hushlist.core.url.request import canonical_host
from hushlist.extensions.dashboard.admin_keys import Role, longest_of
from hushlist.extensions.dashboard.admin_store import Account, ActionError, AdminStore, RecordedAction
from hushlist.extensions.dashboard.held_changes import HeldChanges
from hushlist.extensions.dashboard.rule_edits import (
    WrittenRule,
    change_list,
    own_list,
    rule_text,
    with_rule,
    without_rule,
    written_rules,
)
from hushlist.extensions.quotas.use_minutes import Extension, UseMinutes
from hushlist.extensions.subscriptions.list_store import Version
from hushlist.extensions.subscriptions.subscription import SubscribedList
from hushlist.extensions.unblock import EVERYTHING
from hushlist.extensions.unblock.admin_blocks import AdminBlock
from hushlist.extensions.unblock.grants import FOR_GOOD, WARNING, Grant, canonical_target, narrowness_of_grant
from hushlist.extensions.unblock.overrides import Overrides

#: how grants of an administrator are told of
HOW = "administrator"
_MINUTE = 60.0


class MissingError(ActionError):
    """What is to be changed is not there."""


#: the word for everybody: an order without a name is refused, since nobody may mean it
EVERYBODY = "everybody"


class Done(NamedTuple):
    """Something that was done, and its number in the record."""

    recorded: int
    result: dict[str, object]


class Administration:
    """All that administrators do; the methods wait for the disk, and raise ``ActionError`` or ``StoreError``."""

    def __init__(self, store: AdminStore, overrides: Overrides) -> None:
        self.store, self.overrides = store, overrides
        self._held = HeldChanges()

    # -- grants --------------------------------------------------------------------------------------------------------

    def grants(self) -> dict[str, list[dict[str, object]]]:
        """What is unblocked now."""
        return {"grants": [_plain_grant(grant) for grant in self.overrides.active(time())]}

    def grant(
        self, account: Account, policy: Policy, scope: str, target: str, minutes: int, client: str, reason: str
    ) -> Done:
        """Allow something for a while, for a client, a user, a group, or for everybody.

        No minutes: for good. That is a rule where it is a host or a page for everybody.
        """
        if not minutes and not account.role.may(Role.MANAGE):
            raise PermissionError(Role.MANAGE.value)
        _check_length(policy, account, minutes * _MINUTE)
        whom, canonical = _whom(policy, client), _target(scope, target)
        if not minutes and whom is None and scope != "category":
            return self.add_rule(account, policy, "allow", scope, target, 0, reason)
        return self._granted(account, "granted", scope, canonical, minutes * _MINUTE or None, whom, reason)

    def pause(self, account: Account, policy: Policy, group: str, minutes: int) -> Done:
        """Let everything pass that rules stop for a group; checks of requests stay."""
        whom = _whom(policy, f"group:{group}")
        return self._granted(account, "paused", EVERYTHING, "*", minutes * _MINUTE, whom)

    def _granted(
        self,
        account: Account,
        what: str,
        scope: str,
        target: str,
        seconds: float | None,
        whom: str | None,
        reason: str = "",
    ) -> Done:
        with usable():
            grant = self.overrides.grant(scope, target, seconds, client=whom, how=HOW, by=account.name)
        undo = {"kind": "grant", "id": grant.id, "made": grant.made}
        plain = _plain_grant(grant) | ({"reason": shown} if (shown := _one_line(reason)) else {})
        plain |= _warning(narrowness_of_grant(scope, target))
        return Done(self.store.record(account, what, plain, Role.APPROVE, undo), plain)

    def revoke(self, account: Account, number: int) -> Done:
        found = [grant for grant in self.overrides.active(time()) if grant.id == number]
        if not found or not self.overrides.revoke(number, by=account.name):
            raise MissingError("there is no such grant, or it has ended")
        plain = _plain_grant(found[0])
        # a pause that was ended, or what was for good, is for those to make again who may make it
        role = Role.MANAGE if found[0].scope == EVERYTHING or found[0].until >= FOR_GOOD else Role.APPROVE
        undo = {"kind": "revoked", **plain}
        return Done(self.store.record(account, "revoked", plain, role, undo), plain)

    # -- blocks and minutes --------------------------------------------------------------------------------------------

    def blocks(self) -> dict[str, list[dict[str, object]]]:
        """What is blocked beside the rules."""
        return {"blocks": [asdict(block) for block in self.overrides.blocks()]}

    def block(
        self, account: Account, policy: Policy, scope: str, target: str, minutes: int, client: str, reason: str
    ) -> Done:
        """Block something for a while, for a client, a user, a group, or for everybody.

        No minutes: for good. That is a rule where it is a host or a page for everybody.
        """
        whom = _whom(policy, client)
        if not minutes and whom is None and scope != "category":
            return self.add_rule(account, policy, "block", scope, target, 0, reason)
        canonical = _expression(scope, target) if scope == "url" else _target(scope, target)
        seconds, shown = minutes * _MINUTE or None, _one_line(reason) or None
        with usable():
            made = self.overrides.block(scope, canonical, seconds, client=whom, reason=shown, by=account.name)
        plain = asdict(made) | _warning(breadth_of_order(scope, canonical))
        undo = {"kind": "block", "id": made.id, "made": made.made}
        return Done(self.store.record(account, "blocked", plain, Role.MANAGE, undo), plain)

    def end_block(self, account: Account, number: int) -> Done:
        found = self.overrides.end_block(number, by=account.name)
        if found is None:
            raise MissingError("there is no such block, or it has ended")
        plain = asdict(found)
        undo = {"kind": "block ended", **plain}
        return Done(self.store.record(account, "ended a block", plain, Role.MANAGE, undo), plain)

    def extend(
        self,
        account: Account,
        policy: Policy,
        use_minutes: UseMinutes | None,
        category: str,
        minutes: int,
        client: str,
    ) -> Done:
        """Add minutes to the quotas of a category in their present periods."""
        if use_minutes is None:
            raise ActionError("the policy has no quotas")
        whom, canonical = _whom(policy, client), _target("category", category)
        with usable():
            made = use_minutes.extend(canonical, minutes, client=whom, by=account.name)
        plain: dict[str, object] = made._asdict()
        undo = {"kind": "extension", **plain}
        return Done(self.store.record(account, "extended a quota", plain, Role.APPROVE, undo), plain)

    # -- requests and codes --------------------------------------------------------------------------------------------

    def approve(self, account: Account, policy: Policy, number: int, scope: str, minutes: int) -> Done:
        """Grant a request for access to whoever made it; ``UnansweredError`` if it does not wait."""
        _check_length(policy, account, minutes * _MINUTE)
        grant = self.overrides.approve(number, scope, minutes * _MINUTE, by=account.name)
        plain = {**_plain_grant(grant), "request": number, **_warning(narrowness_of_grant(grant.scope, grant.target))}
        undo = {"kind": "grant", "id": grant.id, "made": grant.made}
        return Done(self.store.record(account, "approved a request", plain, Role.APPROVE, undo), plain)

    def decline(self, account: Account, number: int, word: str) -> Done:
        """Decline a request for access, perhaps with a word for whoever made it; raises as ``approve`` does."""
        found = self.overrides.decline(number, word, by=account.name)
        plain: dict[str, object] = {"request": number, "host": found.host, "word": found.word}
        return Done(self.store.record(account, "declined a request", plain), plain)

    def codes(self) -> dict[str, object]:
        """The codes that can still be used; of none, what it is."""
        return {
            "codes": [
                {
                    "id": code.hash.hex(),
                    "scope": code.scope,
                    "target": code.target,
                    "client": code.client,
                    "minutes": int(code.seconds // _MINUTE),
                    "until": code.until,
                    "by": code.by,
                }
                for code in self.overrides.codes()
            ]
        }

    def make_code(
        self, account: Account, policy: Policy, scope: str, target: str, minutes: int, client: str, hours: int
    ) -> Done:
        """Make a single-use code; only the result has it. An empty target or client is whatever its user has."""
        _check_length(policy, account, minutes * _MINUTE)
        whom = _whom(policy, client) if client else None
        if whom is not None and whom.startswith("group:"):
            raise ActionError("a code is for a client, a user, or whoever uses it first")
        canonical = _target(scope, target) if target else None
        with usable():
            code = self.overrides.make_code(
                scope, minutes * _MINUTE, canonical, whom, valid_for=hours * 60 * _MINUTE, by=account.name
            )
        made = self.overrides.code_hash(code).hex()
        plain: dict[str, object] = {"scope": scope, "target": canonical, "client": whom, "minutes": minutes}
        recorded = self.store.record(account, "made a code", plain, Role.APPROVE, {"kind": "code", "id": made})
        return Done(recorded, {**plain, "id": made, "code": code})

    def withdraw_code(self, account: Account, identity: str) -> Done:
        try:
            is_there = self.overrides.withdraw_hash(bytes.fromhex(identity), by=account.name)
        except ValueError:
            is_there = False
        if not is_there:
            raise MissingError("there is no such code that can still be used")
        return Done(self.store.record(account, "withdrew a code", {"id": identity}), {"id": identity})

    # -- rules ---------------------------------------------------------------------------------------------------------

    def rules(self, policy: Policy) -> dict[str, object]:
        """The administrator's own rules."""
        path = own_list(policy)
        return {"file": str(path), "rules": [_plain_rule(own) for own in _written_rules(path)]}

    def add_rule(
        self, account: Account, policy: Policy, action: str, scope: str, target: str, days: int, reason: str
    ) -> Done:
        """Allow or block a host or a page for everybody: for good, or to the end of a day of UTC with ``days``."""
        path, now = own_list(policy), datetime.now(UTC)
        rule = {"expression": _expression(scope, target), "action": action}
        if shown := _one_line(reason):
            rule["reason"] = shown
        if days:
            rule["expires"] = str(now.date() + timedelta(days=days - 1))
        comment = f"{_one_line(account.name)}, {now:%Y-%m-%d %H:%M} UTC"
        _change_list(policy, path, lambda text: with_rule(text, rule, comment))
        broad = _warning(breadth_of_order("url", rule["expression"]))
        plain: dict[str, object] = {**rule, "file": str(path), **broad}
        undo = {"kind": "rule", "file": str(path), "item": rule_text(rule)}
        return Done(self.store.record(account, "added a rule", plain, Role.MANAGE, undo), plain)

    def remove_rule(self, account: Account, policy: Policy, identity: str) -> Done:
        """Remove one of the own rules, whoever wrote it."""
        path = own_list(policy)
        found = [own for own in _written_rules(path) if own.id == identity]
        if not found:
            raise MissingError("the rule is not there any more, or was changed since")
        _change_list(policy, path, lambda text: without_rule(text, found[-1].item))
        plain: dict[str, object] = {**found[-1].keys, "comment": found[-1].comment or None, "file": str(path)}
        undo = {"kind": "rule removed", "file": str(path), "keys": found[-1].keys, "comment": found[-1].comment}
        return Done(self.store.record(account, "removed a rule", plain, Role.MANAGE, undo), plain)

    # -- lists ---------------------------------------------------------------------------------------------------------

    def lists(self, policy: Policy) -> dict[str, object]:
        """The lists that are fetched, and what is known of each."""
        return {"lists": [_plain_list(own) for own in _subscribed(policy).values()]}

    def update_list(self, account: Account, policy: Policy, url: str) -> Done:
        """Have a list fetched; the proxy does so within seconds."""
        own = _list_of(policy, url)
        with _locked(own):
            if own.subscription.prefixes is not None and not own.store.state().is_due(time()):
                raise ActionError("its server says when it may be asked again, and nobody asks before")
            own.store.note(next_try=0.0)
        return Done(self.store.record(account, "asked for an update", {"url": url}), _plain_list(own))

    def accept_list(self, account: Account, policy: Policy, url: str, digest: str) -> Done:
        """Put the version that is held back into force, if it is the one that was looked at."""
        own = _list_of(policy, url)
        with _locked(own):
            held = own.store.held()
            if held is None or held.stem != digest:
                raise MissingError("no such version of it is held back any more")
            before = own.store.current()
            own.store.accept()
        return self._changed_list(account, "accepted a list", own, digest, before)

    def roll_back_list(self, account: Account, policy: Policy, url: str) -> Done:
        """Go back to the version before the one in force, which is held back from then on."""
        own = _list_of(policy, url)
        with _locked(own):
            before, version = own.store.current(), own.store.roll_back()
        if version is None:
            raise MissingError("there is no version before the one in force")
        return self._changed_list(account, "rolled a list back", own, version.digest, before)

    def _changed_list(
        self, account: Account, what: str, own: SubscribedList, digest: str, before: Version | None
    ) -> Done:
        url = own.subscription.url
        detail: dict[str, object] = {"url": url, "digest": digest}
        kind = "accepted" if what.startswith("accepted") else "rolled back"
        undo = {"kind": kind, "url": url, "digest": digest, "before": None if before is None else before.digest}
        return Done(self.store.record(account, what, detail, Role.MANAGE, undo), _plain_list(own))

    def held_back(self, policy: Policy, url: str) -> dict[str, object]:
        """What would change with the version that is held back: lines that are new, and lines that would be gone."""
        own = _list_of(policy, url)
        held, current = own.store.held(), own.store.current()
        if held is None:
            raise MissingError("no version of it is held back")
        change = self._held.between(None if current is None else current.path, held)
        return {
            "url": url,
            "digest": held.stem,
            "reasons": list(own.store.state().reasons),
            **change._asdict(),
        }

    # -- who is signed in ----------------------------------------------------------------------------------------------

    def sessions(self) -> dict[str, object]:
        return {"sessions": [one._asdict() for one in self.store.sessions()]}

    def end_session(self, account: Account, number: int) -> Done:
        """Sign somebody out."""
        found = [one._asdict() for one in self.store.sessions() if one.id == number]
        if not found or not self.store.end_session(number):
            raise MissingError("there is no such session, or it has ended")
        return Done(self.store.record(account, "ended a session", found[0]), found[0])

    # -- the record ----------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, object]:
        """What was done, the newest first."""
        return {"record": [_plain_record(one) for one in self.store.recorded()]}

    def undo(self, account: Account, policy: Policy, use_minutes: UseMinutes | None, number: int) -> Done:
        """Undo something that was done, once."""
        found = self.store.recorded_action(number)
        if found is None or found.undo is None or found.role is None:
            raise MissingError("there is no such thing that can be undone")
        if not account.role.may(found.role):
            raise PermissionError(found.role.value)
        if not self.store.mark_undone(number, account.name):
            raise ActionError("it is undone already")
        try:
            self._undo(account, policy, use_minutes, found.undo)
        except BaseException:
            self.store.unmark_undone(number)
            raise
        detail: dict[str, object] = {"undone": number, "what": found.what, **found.detail}
        return Done(self.store.record(account, "undid", detail), detail)

    def _undo(self, account: Account, policy: Policy, use_minutes: UseMinutes | None, how: dict[str, object]) -> None:
        kind = how.get("kind")
        if kind == "grant":
            number = _number_of(how, self.overrides.active(time()))
            if number is None or not self.overrides.revoke(number, by=account.name):
                raise MissingError("the grant has ended")
        elif kind == "revoked":
            seconds, whom = _seconds_left(how), _whom_of(how)
            if seconds is not None:
                _check_length(policy, account, seconds)
            means = WARNING if how["how"] == WARNING else HOW  # after a click on a warning, only warnings pass
            self.overrides.grant(
                str(how["scope"]), str(how["target"]), seconds, client=whom, how=means, by=account.name
            )
        elif kind == "block":
            number = _number_of(how, self.overrides.blocks())
            if number is None or self.overrides.end_block(number, by=account.name) is None:
                raise MissingError("the block has ended")
        elif kind == "block ended":
            reason = None if how["reason"] is None else str(how["reason"])
            scope, target, left = str(how["scope"]), str(how["target"]), _seconds_left(how)
            self.overrides.block(scope, target, left, client=_whom_of(how), reason=reason, by=account.name)
        elif kind == "extension":
            category, minutes, minute = str(how["category"]), int(str(how["minutes"])), int(str(how["minute"]))
            extension = Extension(_whom_of(how), category, minutes, minute)
            if use_minutes is None or not use_minutes.shorten(extension, by=account.name):
                raise MissingError("the minutes are not there any more")
        elif kind == "code":
            if not self.overrides.withdraw_hash(bytes.fromhex(str(how["id"])), by=account.name):
                raise MissingError("the code was used, or is too old")
        elif kind in ("rule", "rule removed"):
            path = own_list(policy)
            if str(path) != how["file"]:
                raise MissingError("the policy has another list of own rules now")
            _change_list(policy, path, lambda text: _edit_back(text, how))
        elif kind in ("accepted", "rolled back"):
            self._undo_list(policy, how)
        else:
            raise MissingError("another version of Hushlist has to undo it")

    def _undo_list(self, policy: Policy, how: dict[str, object]) -> None:
        own, is_back = _list_of(policy, str(how["url"])), how["kind"] == "rolled back"
        with _locked(own):
            current, *kept = [version.digest for version in own.store.versions()] or [""]
            if current != how["digest"]:
                raise MissingError("another version of the list is in force by now")
            if is_back:
                held = own.store.held()
                kept = [] if held is None else [held.stem]
            if kept[:1] != [how.get("before")]:
                raise MissingError("there is no version to go back to")
            change = own.store.accept if is_back else own.store.roll_back
            change()


# -- what was said, in the form that is stored -------------------------------------------------------------------------


def _whom(policy: Policy, client: str) -> str | None:
    """Whom a grant is for: an address, a user, a group, or everybody."""
    if client == EVERYBODY:
        return None
    kind, _, name = client.partition(":")
    if kind == "group":
        if name not in {group.name for group in policy.all_groups}:
            raise ActionError(f"the policy has no group {name!r}")
        return client
    if kind == "user" and name:
        return client
    try:
        if is_address(canonical_host(client.encode("utf-8", "replace"))):
            return address_text(client)
    except UrlError:
        pass
    raise ActionError(f"{client!r}: expected an address, user:NAME, group:NAME or {EVERYBODY}")


def _check_length(policy: Policy, account: Account, seconds: float) -> None:
    """Raise ``ActionError`` if somebody may not let something through for so long."""
    longest = longest_of(policy.admin, account.name, account.role)
    if longest is not None and seconds > longest:
        raise ActionError(
            f"{account.name} may let something through for at most {longest // _MINUTE:g} minutes: "
            "for longer, ask somebody with the role manage"
        )


def _number_of(how: dict[str, object], found: Iterable[Grant | AdminBlock]) -> int | None:
    """The number of what was made: in a new store, where the first was removed, others have the same numbers."""
    return next((own.id for own in found if (own.id, own.made) == (how["id"], how.get("made"))), None)


def _whom_of(how: dict[str, object]) -> str | None:
    return None if how["client"] is None else str(how["client"])


def _seconds_left(how: dict[str, object]) -> float | None:
    """Of what has ended early; ``None`` if it was for good."""
    if how["until"] is None:
        return None
    seconds = float(str(how["until"])) - time()
    if seconds <= 0:
        raise MissingError("it would have ended by now")
    return seconds


@contextmanager
def usable() -> Iterator[None]:
    """What somebody wrote, and cannot be used, is an ``ActionError``."""
    try:
        yield
    except ValueError as error:
        raise ActionError(str(error)) from error


def _target(scope: str, target: str) -> str:
    with usable():
        return canonical_target(scope, target)


def _expression(scope: str, target: str) -> str:
    if scope == "host":
        return f"{_target(scope, target)}/"
    with usable():
        return str(parse_expression(as_typed(target).decode("utf-8", "surrogateescape")))


def _one_line(text: str) -> str:
    """Text that neither ends a line nor steers how it is shown."""
    return "".join(one if one.isprintable() else " " for one in text).strip()


def _written_rules(path: Path) -> list[WrittenRule]:
    try:
        return written_rules(read_regular(path, LONGEST_DOCUMENT).decode("utf-8"))
    except (OSError, UnicodeError, ActionError) as error:
        raise ActionError(f"{path}: {error}") from error


def _change_list(policy: Policy, path: Path, edit: Callable[[str], str]) -> None:
    if not change_list(policy, path, edit):
        raise ActionError("there is such a rule already")


def _edit_back(text: str, how: dict[str, Any]) -> str:
    """The text of a list without the rule that was added, or with the one that was removed."""
    if how["kind"] == "rule":
        return without_rule(text, how["item"])
    return with_rule(text, how["keys"], how["comment"])


def _subscribed(policy: Policy) -> dict[str, SubscribedList]:
    return {own.subscription.url: own for own in policy.subscribed}


def _list_of(policy: Policy, url: str) -> SubscribedList:
    try:
        return _subscribed(policy)[url]
    except KeyError:
        raise MissingError("the policy fetches no such list") from None


@contextmanager
def _locked(own: SubscribedList) -> Iterator[None]:
    try:
        with own.store.locked():
            yield
    except OSError as error:
        raise ActionError(f"the list cannot be changed: {reason_of(error)}") from error


# -- plain data --------------------------------------------------------------------------------------------------------


def _warning(why: str | None) -> dict[str, str]:
    """What whoever gave an order should know of it, beside what was done."""
    return {} if why is None else {"warning": why}


def _plain_grant(grant: Grant) -> dict[str, object]:
    return asdict(grant) | {"until": None if grant.until >= FOR_GOOD else grant.until}


def _plain_rule(own: WrittenRule) -> dict[str, object]:
    terms = own.rule.terms
    return {
        "id": own.id or None,
        "line": own.rule.line,
        "expression": str(own.rule.pattern),
        "action": None if terms.action is None else terms.action.value,
        "reason": terms.reason,
        "expires": None if terms.expires is None else terms.expires.isoformat(),
        "comment": own.comment or None,
    }


def _plain_list(own: SubscribedList) -> dict[str, object]:
    state, versions, held = own.store.state(), own.store.versions(), own.store.held()
    return {
        "url": own.subscription.url,
        "title": own.defaults.title,
        "layer": own.defaults.layer,
        "versions": [{"digest": one.digest, "since": one.since} for one in versions],
        "checked": state.checked or None,
        "next_try": state.next_try or None,
        "fault": state.fault or None,
        "held": None if held is None else held.stem,
        "reasons": list(state.reasons) if state.held else [],
    }


def _plain_record(one: RecordedAction) -> dict[str, object]:
    return {
        "id": one.id,
        "at": one.at,
        "who": one.who,
        "client": one.client,
        "what": one.what,
        "detail": one.detail,
        "can_undo": one.undo is not None and one.undone is None,
        "undone": one.undone,
        "undone_by": one.undone_by,
    }
