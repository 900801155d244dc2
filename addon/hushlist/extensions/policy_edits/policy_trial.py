"""Tries what is to become a policy, in another process: whether it can be used, and what it would have decided.

    python -m hushlist.extensions.policy_edits.policy_trial try|preview POLICY [--index INDEX] [PORT...]

reads the text of the policy from standard input, and prints one JSON object: its problems; or its warnings, and for
``preview`` also what it would have decided otherwise than the policy file of the newest records of its log. Lists that
are new in it are fetched.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from hushlist.core.compile.background_compiler import fetchers_of, serve
from hushlist.core.compile.compile_report import CompileReport, policy_warnings
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.decision import STOPPING, Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Problem, SourceError, UrlError
from hushlist.core.extension import extensions_named
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.match.rule import Action
from hushlist.core.policy.groups import Client, Group
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import LONGEST_DOCUMENT, state_folder
from hushlist.core.system.platform import number_of_cores
from hushlist.core.url.request import request_of
from hushlist.extensions.journal.log_database import LogFilters, newest_records
from hushlist.extensions.journal.log_entry import MOST_SHOWN
from hushlist.extensions.journal.log_record import LogFields, Privacy, hiding_of, time_text, without_query
from hushlist.proxy.page.template import load_template

#: records that a preview decides again, seconds that it takes for them, and how old they may be
MOST_DECIDED, _LONGEST = 10_000, 20.0
_WEEK = timedelta(days=7)
#: addresses that it shows, and warnings
_SHOWN = 50
#: what has to stay in use, so that a page is left to change a policy back
_NEEDED = ("dashboard", "policy_edits", "unblock", "databases")


@dataclass(frozen=True, slots=True)
class Editor:
    """Who changes a policy at the page, and must be able to change it back."""

    #: a person's name; empty for a program's token
    name: str
    address: str
    user: str | None

    def lock_out(self, policy: Policy) -> str | None:
        """Why they could not change a policy back, if so."""
        people = [person for person in policy.of("admin") or () if person.groups is None]
        managers = [person.name for person in people if person.role == "manage"]
        if not managers:
            return (
                "nobody could sign in who may change it back: 'admin' has to name a person with the role manage, and "
                "without groups"
            )
        if self.name and self.name not in managers:
            return f"you could not change it back: 'admin' has to name {self.name} with the role manage, without groups"
        live = policy.values.get("live", ...)
        if live is None or (live is not ... and not live.fits(Client(self.address, self.user))):
            return f"you could not open this page any more: 'live' has to allow {self.address}"
        names = {extension.name for extension in extensions_named(policy.extensions)}
        left_out = [name for name in _NEEDED if name not in names]
        return f"this page would be gone: 'extensions' leaves out {', '.join(left_out)}" if left_out else None


def told_to_try(octets: bytes, editor: Editor | None) -> bytes:
    """What the program reads."""
    return json.dumps([octets.decode("utf-8"), None if editor is None else astuple(editor)]).encode()


def _answer(work: str, path: Path, before: Path | None, ports: tuple[int, ...]) -> Mapping[str, object]:
    text, who = json.loads(sys.stdin.buffer.read(8 * LONGEST_DOCUMENT))
    try:
        policy, engine, warnings = _tried(path, text.encode("utf-8"), before, ports)
    except (PolicyError, SourceError) as error:
        return {"problems": [*error.problems]}
    if who is not None and (why := Editor(*who).lock_out(policy)):
        return {"problems": [(str(path), 0, "lock-out", why)]}
    answer: dict[str, object] = {"warnings": [str(warning) for warning in warnings[:_SHOWN]]}
    return answer | ({"preview": _preview(path, engine)} if work == "preview" else {})


def _tried(
    path: Path, octets: bytes, before: Path | None, ports: tuple[int, ...]
) -> tuple[Policy, Engine, list[Problem]]:
    """The policy that some octets would be in its file, compiled; and its warnings.

    Raises:
        SourceError: it cannot be used.
    """

    def read() -> Policy:
        report = ProblemReport(str(path))
        policy = read_policy(path, report, octets)
        if policy is None or report.errors:
            raise SourceError(report.errors)
        return policy

    report = ProblemReport(str(path))
    planned = read_policy(path, report, octets)
    for fetcher in fetchers_of(planned) if planned is not None and planned.subscribed else ():
        fetcher.fetch_missing(path, ports, is_start=True, planned=planned)
    policy = read()
    compiled = compile_policy(policy, jobs=max(1, number_of_cores() - 1), before=before).let_go()
    if policy.block_page is not None:
        load_template(policy.block_page)
    warnings = [*policy_warnings(policy, compiled.index), *CompileReport.of(compiled.index).warnings]
    return policy, Engine(policy, compiled.index), warnings


# -- what would have been decided otherwise ----------------------------------------------------------------------------


class _UnknownError(Exception):
    """A record does not tell enough to decide it again."""


def _preview(path: Path, engine: Engine) -> dict[str, object] | str:
    """What would have been decided otherwise; or why nobody can tell."""
    report = ProblemReport(str(path))
    before = read_policy(path, report)
    if before is None or report.errors:
        return "the policy file cannot be used as it is now"
    log: Any = before.of("log")
    if log is None:
        return "the policy keeps no log"
    try:
        old = Engine(before, compile_policy(before, jobs=1).let_go().index)
        since = time_text((datetime.now(UTC) - _WEEK).timestamp())
        records = newest_records(log.place or state_folder(), LogFilters(since=since), MOST_DECIDED)
    except (OSError, RuntimeError, SourceError) as error:
        return f"the log cannot be read, or the policy file: {error}"
    return _compared(old, engine, records, Privacy(log.queries, hides=hiding_of(before)))


def _compared(old: Engine, new: Engine, records: list[LogFields], privacy: Privacy) -> dict[str, object]:
    end = monotonic() + _LONGEST
    counts, changes, groups = Counter[str](), Counter[tuple[str, str, str]](), Counter[str]()
    is_all = len(records) < MOST_DECIDED
    for record in reversed(records):
        if monotonic() > end:
            is_all = False
            break
        try:
            was, will = _decided_by_both(old, new, record)
        except _UnknownError:
            counts["unknown"] += 1
            continue
        counts["decided"] += 1
        if was != will:
            changes[without_query(str(record.get("url", "")), privacy), was, will] += 1
            groups[str(record.get("group", ""))] += 1
            counts["stopped" if will in STOPPING else "let_through" if was in STOPPING else "other"] += 1
    return {
        "requests": counts["decided"],
        "unknown": counts["unknown"],
        "is_all": is_all,
        **{name: counts[name] for name in ("stopped", "let_through", "other")},
        "groups": dict(groups.most_common(_SHOWN)),
        "addresses": [
            {"url": url, "was": was, "will": will, "count": number}
            for (url, was, will), number in changes.most_common(_SHOWN)
        ],
    }


def _decided_by_both(old: Engine, new: Engine, record: LogFields) -> tuple[str, str]:
    """What both policies do with a recorded request, for whoever asked, at that time.

    The log has no ports, and perhaps no clients: then the group counts that it has.
    """
    url, name = str(record.get("url", "")), str(record.get("group", ""))
    if not url or len(url) >= MOST_SHOWN or record.get("fault"):
        raise _UnknownError
    client = Client(str(record.get("client", "")), None if "user" not in record else str(record["user"]))
    try:
        moment = datetime.fromisoformat(str(record.get("time", "")))
        request = request_of(url.encode("ascii", "backslashreplace"))
    except (ValueError, UrlError) as error:
        raise _UnknownError from error
    is_known = old.group(client).name == name
    is_connection = record.get("method") == "CONNECT"

    def outcome(engine: Engine) -> str:
        group = engine.group(client) if is_known else next(_named(engine, name), None)
        if group is None:
            raise _UnknownError
        decide = engine.decide_host if is_connection else engine.decide
        decision: Decision = decide(request, moment, client, group)
        is_stopped = decision.action in STOPPING
        return (Action.PASS if is_stopped and group.settings.mode != "block" else decision.action).value

    return outcome(old), outcome(new)


def _named(engine: Engine, name: str) -> Iterator[Group]:
    return (group for group in engine.policy.all_groups if group.name == name)


if __name__ == "__main__":
    serve(_answer)
