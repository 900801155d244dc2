"""What administrators do at the page with the policy itself: they see its sections, change them, and go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.key_types import whole_schema
from hushlist.core.policy.keys import Key
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import policy_rows
from hushlist.core.policy.usable_keys import table_of
from hushlist.core.routes import Account, Action, ActionError, AnyPlain, Done, MissingError, Role, Text, Whole
from hushlist.extensions.policy_edits.policy_change import ChangedError, Edit, PolicyFile, UnusableError
from hushlist.extensions.policy_edits.policy_text import PolicyText, Section, policy_text, why_read_only
from hushlist.extensions.policy_edits.policy_trial import Editor
from hushlist.extensions.policy_edits.policy_versions import PolicyVersion, digest_of
from hushlist.extensions.policy_edits.yaml_edits import EditError, Plain
from hushlist.proxy.bounds.body_looks import LONGEST_FORM
from hushlist.proxy.runtime import Runtime

#: an account of a program
_TOKEN = "token:"  # noqa: S105
SectionName = Annotated[str, Text("a key of the policy", 40, 1, "[a-z-]+")]
IfMatch = Annotated[
    str, Text("the ETag that the section had when it was shown; `*`: whatever it is", 100, 1, header="If-Match")
]
Value = Annotated[
    Any,
    AnyPlain("the section's value, as its schema has it; null takes it away. What stays the same keeps its comments"),
]
Written = Annotated[
    str,
    Text("instead of a value: the section with its key, as YAML", LONGEST_FORM, is_recorded=False),
]
Besides = Annotated[
    Any,
    AnyPlain("other sections that change with it, at once: by name, each with its `value`, and the `etag` that it had"),
]
#: a value that was not sent
_NONE = ""


class MeanwhileError(ActionError):
    """It was changed by somebody else; the detail has how it is now, and what was to be."""

    status = HTTPStatus.PRECONDITION_FAILED


@dataclass(frozen=True, slots=True)
class SectionSummary:
    name: str
    #: what it is for, in Markdown
    sentence: str
    #: of the file; 0: the policy has it not
    line: int
    #: of its text
    etag: str | None


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The policy file."""

    file: str
    #: of the whole file
    etag: str | None
    #: whether the filter decides by just this file; a moment after a change it does
    is_in_force: bool
    #: why it cannot be changed here
    read_only: str | None
    #: why what is in the file is not used
    problem: str | None
    sections: list[SectionSummary]


@dataclass(frozen=True, slots=True)
class SectionStatus:
    """A section as it is written, and what it says: every scalar is text, or null."""

    section: str
    file: str
    line: int
    etag: str
    text: str
    value: Any
    read_only: str | None


@dataclass(frozen=True, slots=True)
class ChangedSection:
    """How a section was written, is written, and what is odd about it although it is used."""

    section: str
    line: int
    etag: str
    before: str
    after: str
    #: of the version before
    version: int
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class PolicySchema:
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class WentBack:
    """Which change does not hold any more; a version is kept of what was before that, too."""

    #: the section that it changed
    section: str
    undone: int
    version: int


@dataclass(frozen=True, slots=True)
class OtherDecision:
    url: str
    was: str
    will: str
    count: int


@dataclass(frozen=True, slots=True)
class SectionPreview:
    """What a change of a section makes otherwise, by the newest records of the last week's log."""

    #: how it would be written
    text: str
    warnings: list[str]
    #: why nobody can tell what would have been decided; then the other figures are 0
    unknown_because: str | None
    #: how many were decided again, how many cannot be, and whether that is the whole week
    requests: int
    unknown: int
    is_all: bool
    #: how many would be stopped now, let through now, or end otherwise, as with a warning instead of a block
    stopped: int
    let_through: int
    other: int
    #: how many would be decided otherwise, by group
    groups: Mapping[str, int]
    addresses: list[OtherDecision]


@contextmanager
def _edit_errors() -> Iterator[None]:
    """What cannot be changed is an ``ActionError``."""
    try:
        yield
    except UnusableError as error:
        refused = ActionError(f"the policy could not be used, so nothing was changed: {error.problems[0]}")
        refused.detail = {
            "problems": [
                {"file": problem.source, "line": problem.line, "what": problem.what, "why": problem.why}
                for problem in error.problems
            ]
        }
        raise refused from error
    except EditError as error:
        raise ActionError(str(error)) from error


@cache
def _rows(extensions: tuple[str, ...]) -> tuple[Key, ...]:
    return policy_rows(table_of(extensions))


def _check_section(policy: Policy, section: str) -> None:
    if section not in {row.name for row in _rows(policy.extensions)}:
        raise MissingError(f"a policy has no key {section!r}")


def _file(policy: Policy, account: Account, client: Client, runtime: Runtime) -> PolicyFile:
    name = "" if account.name.startswith(_TOKEN) else account.name
    editor = Editor(name, address_text(client.address), client.user)
    index = None if runtime.engine is None else runtime.engine.index
    return PolicyFile(Path(policy.source), account.name, editor, index, runtime.own_ports)


def policy_status(policy: Policy, runtime: Runtime) -> PolicyStatus:
    """The policy file, and its sections."""
    path, sections, etag = Path(policy.source), list[Section](), None
    why = why_read_only(path)
    try:
        text = policy_text(path)
        etag = digest_of(text.octets)
        sections = [text.section(row.name) for row in _rows(policy.extensions)]
    except EditError as error:
        why = why or str(error)
    by_name = {section.name: section for section in sections}
    return PolicyStatus(
        str(path),
        etag,
        etag == policy.digest,
        why,
        runtime.problem,
        [
            SectionSummary(row.name, row.sentence, section.line if section else 0, section.etag if section else None)
            for row in _rows(policy.extensions)
            for section in [by_name.get(row.name)]
        ],
    )


def policy_schema(policy: Policy) -> PolicySchema:
    """What each section may have, as a JSON schema.

    The sentences of the reference are its descriptions.
    """
    return PolicySchema(whole_schema(_rows(policy.extensions)))


def policy_section(policy: Policy, section: SectionName) -> SectionStatus:
    """A section of the policy, as it is written and as its value."""
    _check_section(policy, section)
    path = Path(policy.source)
    why = why_read_only(path)
    try:
        current = policy_text(path).section(section)
    except EditError as error:
        current, why = Section(section, "", None, 0), why or str(error)
    return _status(current, path, why)


def _status(section: Section, path: Path, why: str | None = None) -> SectionStatus:
    return SectionStatus(section.name, str(path), section.line, section.etag, section.text, section.value, why)


def _edit(section: str, value: Any, text: str) -> Edit:
    if (value == _NONE) is (text == _NONE):
        raise ActionError("expected either a value or a text")
    if text:
        return lambda before: before.with_text(section, text)
    return lambda before: before.with_value(section, _as_text(value))


def _besides(policy: Policy, section: str, besides: Any) -> dict[str, Any]:
    """What other sections become, and the ETags that they had."""
    if besides == _NONE:
        return {}
    if not isinstance(besides, dict) or section in besides:
        raise ActionError("besides: expected other sections, by name")
    for name, other in besides.items():
        _check_section(policy, name)
        if not isinstance(other, dict) or other.keys() != {"value", "etag"}:
            raise ActionError(f"besides: {name}: expected a value and an etag")
    return besides


def _edit_all(edit: Edit, besides: Mapping[str, Any]) -> Edit:
    def edited(before: PolicyText) -> PolicyText:
        after = edit(before)
        for name, other in besides.items():
            after = after.with_value(name, _as_text(other["value"]))
        return after

    return edited


def _as_text(value: Any) -> Plain:
    """A value of JSON whose numbers are text."""
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value if value is None else str(value)


def change_section(
    policy: Policy,
    account: Account,
    client: Client,
    runtime: Runtime,
    section: SectionName,
    if_match: IfMatch,
    value: Value = _NONE,
    text: Written = _NONE,
    besides: Besides = _NONE,
) -> Done[ChangedSection]:
    """Change a section of the policy.

    It is compiled before it holds; all else in the file stays as it is.
    """
    _check_section(policy, section)
    others, file = _besides(policy, section, besides), _file(policy, account, client, runtime)
    edit = _edit_all(_edit(section, value, text), others)
    seen = {section: [etag.strip().strip('"') for etag in if_match.split(",")]}
    seen |= {name: [str(other["etag"])] for name, other in others.items()}
    with _edit_errors():
        try:
            change = file.change(seen, edit)
        except ChangedError as error:
            raise _meanwhile(error, file.path, value, text) from error
        before, after = change.before.section(section), change.after.section(section)
    changed = ChangedSection(section, after.line, after.etag, before.text, after.text, change.version, change.warnings)
    detail = {"section": ", ".join(seen), "line": after.line, "version": change.version}
    undo = {"kind": "policy", "version": change.version} if change.version else None
    return Done(changed, undo, Role.MANAGE, detail)


def _meanwhile(error: ChangedError, path: Path, value: Any = _NONE, text: str = _NONE) -> MeanwhileError:
    refused, now = MeanwhileError(str(error)), _status(error.now, path)
    refused.detail = {"now": {field.name: getattr(now, field.name) for field in fields(now)}}
    if value != _NONE:
        refused.detail = {**refused.detail, "value": value}
    if text:
        refused.detail = {**refused.detail, "text": text}
    return refused


def preview_section(
    policy: Policy,
    account: Account,
    client: Client,
    runtime: Runtime,
    section: SectionName,
    value: Value = _NONE,
    text: Written = _NONE,
    besides: Besides = _NONE,
) -> SectionPreview:
    """What a change of a section would have made otherwise in the last week.

    Nothing is changed.
    """
    _check_section(policy, section)
    with _edit_errors():
        edit = _edit_all(_edit(section, value, text), _besides(policy, section, besides))
        preview = _file(policy, account, client, runtime).preview(section, edit)
    outcome = preview["preview"]
    if isinstance(outcome, str):
        return SectionPreview(preview["text"], preview["warnings"], outcome, 0, 0, False, 0, 0, 0, {}, [])
    addresses = [OtherDecision(**address) for address in outcome.pop("addresses")]
    return SectionPreview(preview["text"], preview["warnings"], None, addresses=addresses, **outcome)


def policy_versions(policy: Policy) -> list[PolicyVersion]:
    """The last changes of the policy that were made here, the newest first."""
    return PolicyFile(Path(policy.source), "").versions.all()


def undo_policy_change(
    policy: Policy,
    account: Account,
    client: Client,
    runtime: Runtime,
    number: Annotated[int, Whole("of a change in the list of versions; 0: the last one", (1 << 53) - 1, 0)] = 0,
) -> Done[WentBack]:
    """Go back to the policy before the last change.

    Or before a change of the list of versions.
    """
    file = _file(policy, account, client, runtime)
    with _edit_errors():
        try:
            version, change = file.undo(number)
        except ChangedError as error:
            raise _meanwhile(error, file.path) from error
    return Done(WentBack(version.section, version.id, change.version))


def change_policy_back(
    policy: Policy, account: Account, client: Client, runtime: Runtime, how: Mapping[str, Any]
) -> None:
    """Of the record: go back to what a section was before it was changed."""
    undo_policy_change(policy, account, client, runtime, int(how["version"]))


_SECTION = "/policy/{section}"
ACTIONS = (
    Action("GET", "/policy", Role.VIEW, policy_status),
    Action("GET", _SECTION, Role.MANAGE, policy_section),
    Action("PUT", _SECTION, Role.MANAGE, change_section, "changed the policy"),
    Action("POST", f"{_SECTION}/preview", Role.MANAGE, preview_section),
    Action("GET", "/policy/schema", Role.VIEW, policy_schema),
    Action("GET", "/policy/versions", Role.MANAGE, policy_versions),
    Action("POST", "/policy/undo", Role.MANAGE, undo_policy_change, "went back to the policy before"),
)
UNDOINGS: dict[str, Callable[..., None]] = {"policy": change_policy_back}
