"""What a policy file says: layers of lists, and all settings. ``policy_reader`` reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hushlist.core.errors import Problem, SourceError
from hushlist.core.extension import ALL_BUILT_IN, Extension, ListFormat, usable_extensions
from hushlist.core.lists.list_formats import FOLDERS, UNTOLD, by_head, files_of_folder, folder_named, format_named
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.rule import Action, Rule
from hushlist.core.policy.groups import DEFAULT, Group, GroupSettings, uses_of
from hushlist.core.policy.pass_through import NOTHING, HostSet
from hushlist.core.policy.proxy_settings import NameAnswers, OnFailure
from hushlist.core.policy.times import rules_of_zone
from hushlist.core.policy.usable_keys import default_of
from hushlist.core.system.files import Fingerprint, fingerprint

if TYPE_CHECKING:
    from hushlist.core.decide.verdict import Confirmer
    from hushlist.core.match.seal import SealKey
    from hushlist.core.policy.recurrence import Schedule


class ListFile(NamedTuple):
    """A list that a policy names, and how its file is read."""

    path: Path
    format: ListFormat
    defaults: ListDefaults
    #: the format, if the content told it; and why that is not sure, for people
    detected: str | None = None
    doubt: str = ""
    #: whether its report keeps every problem
    tells_all: bool = False
    #: the values of extensions' keys, by their names
    values: Mapping[str, Any] = NOTHING
    #: the file that is read in its place, while it is held back
    copy: Path | None = None
    #: where it was fetched from, if it is a copy
    url: str | None = None

    def __hash__(self) -> int:
        return hash(self.path)  # ``values`` has no hash

    @property
    def gate(self) -> Any:
        """How much it may change before it is held back; ``None``: as it likes."""
        return self.values.get("gate")

    @property
    def read_from(self) -> Path:
        return self.copy or self.path

    @property
    def source(self) -> str:
        """What people know it by: the path, or where it is from."""
        return self.url or str(self.path)


class Layer(NamedTuple):
    """Rules of equal precedence."""

    name: str
    #: rules of request inspection
    checks: tuple[Rule, ...] = ()
    lists: tuple[ListFile, ...] = ()
    #: when the layer is in use, if not always
    during: Schedule | None = None
    #: the values of extensions' keys, by their names
    values: Mapping[str, Any] = NOTHING
    #: the groups that it is for, if not everybody
    groups: tuple[str, ...] = ()
    line: int = 0


class Policy(NamedTuple):
    """A policy without the rules of its lists; immutable."""

    source: str
    layers: tuple[Layer, ...]
    #: the action for an unreadable request: block or pass
    unparsable: Action = Action.BLOCK
    #: groups of clients, the first that fits is used; everybody's group is not among them
    groups: tuple[Group, ...] = ()
    #: settings for clients in no group
    settings: GroupSettings = GroupSettings()
    #: its schedules, by their names
    schedules: Mapping[str, Schedule] = NOTHING
    #: the time zone of times in the policy
    zone: tzinfo = UTC
    #: the administrator's own template of the block page
    block_page: Path | None = None
    #: the answer for blocked names
    name_answers: NameAnswers = NameAnswers()
    #: origins to which fields go on that servers believe, and whose requests are decided by these, too
    kept_headers: HostSet = HostSet()
    #: what to do with requests if the filter fails
    on_failure: OnFailure = OnFailure()
    #: whether a start ends if a name of mitmproxy is missing that the filter replaces
    requires_patches: bool = False
    #: what to do where a filter of an Adblock list depends on a context that is not known: block or pass
    unknown_context: Action = Action.PASS
    #: the keys of sealed lists, by their fingerprints
    seals: Mapping[str, SealKey] = NOTHING
    #: the names of the extensions that it uses
    extensions: tuple[str, ...] = (ALL_BUILT_IN,)
    #: those of extensions' keys, by the names of the keys that there are
    values: Mapping[str, Any] = NOTHING
    #: lists that are held back, so that their last good copies are in force: why, for people
    held: Mapping[Path, str] = NOTHING
    #: what changes when a person has another copy of a list in force
    pointers: Mapping[Path, Fingerprint] = NOTHING
    #: its lists that are fetched, also those of which there is no copy
    subscribed: tuple[Any, ...] = ()
    #: lists of prefixes, which have to be confirmed, by the rules' ``confirmer``
    confirmers: Mapping[str, Confirmer] = NOTHING
    #: the fingerprint of every file of the policy, taken before it was read
    files: Mapping[Path, Fingerprint] = NOTHING
    #: the SHA-256 of the policy file, in hexadecimal; empty for a policy that is in no file
    digest: str = ""

    @property
    def popular(self) -> Path | None:
        """Popular domains, which no list may newly cover."""
        limits = self.of("gate")
        return None if limits is None else limits.file

    def of(self, key: str) -> Any:
        """The value of an extension's key."""
        return self.values[key] if key in self.values else default_of(key)

    @property
    def number_of_files(self) -> int:
        """How many files it is of; ``files`` has also those that would be read if they were there."""
        return sum(seen is not None for seen in self.files.values())

    @property
    def watched(self) -> dict[Path, Fingerprint]:
        """The fingerprints of all that changes what is in force."""
        rules = rules_of_zone(self.zone)
        return {**self.files, **self.pointers, **({} if rules is None else {rules: fingerprint(rules)})}

    @property
    def keeps(self) -> Callable[[bytes], bool] | None:
        """Whether fields that servers believe go on to a canonical host; ``None`` if they do to none."""
        return self.kept_headers.covers if self.kept_headers else None

    @property
    def held_back(self) -> list[Problem]:
        """A warning for each list that is held back."""
        return [Problem(str(path), 0, "list", why) for path, why in self.held.items()]

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups, and everybody's at the end."""
        return (*self.groups, Group(DEFAULT, uses_of(self.layers), self.settings, self.schedules))

    def next_morning(self, now: datetime) -> datetime:
        """The next end of the night, by the schedules that groups go by and its clock."""
        from hushlist.core.policy.recurrence import next_morning  # most policies start faster without it

        schedules = {schedule for group in self.all_groups for schedule in group.schedules.values()}
        return next_morning(schedules, self.zone, now)


class PolicyError(SourceError):
    """A policy cannot be used; ``files`` are those that were read: if they change, trying again makes sense."""

    def __init__(
        self, problems: Iterable[Problem], files: Mapping[Path, Fingerprint], *, may_pass: bool = False
    ) -> None:
        super().__init__(problems)
        self.files = files
        #: whether the files may be good, and the machine failed: a full disk, a killed process
        self.may_pass = may_pass


def list_files(
    path: Path,
    form: str | None,
    defaults: ListDefaults,
    is_there: Callable[[Path], bool] = Path.exists,
    foreign: Iterable[Extension] | None = None,
) -> list[ListFile]:
    """The files of a list: one, or those of a folder; without a given format, the file's content tells it.

    ``foreign``: extensions of other packages whose formats the content may have, by default of all that are installed.
    Lists in a folder get the folder's name, unless ``defaults`` has one. ``SourceError`` if there is no such file.
    """
    if folder_named(form) is not None or (form is None and path.is_dir()):
        form = form or "squidguard"
        defaults = defaults._replace(name=defaults.name or path.name)
        files = [ListFile(file, list_format, defaults) for file, list_format in files_of_folder(path, form, is_there)]
        for listed in files:
            # a link may lead to any file of this machine, which warnings would then quote
            if not listed.path.resolve().is_relative_to(path.resolve()):
                raise _unlisted(path, f"{listed.path.name} in it is a link that leads out of the folder")
        if not files:
            raise _unlisted(path, f"there is no folder with {' or '.join(folder_named(form) or ())}")
        return files
    if not is_there(path):
        is_url = not {"http:", "https:"}.isdisjoint(path.parts)
        raise _unlisted(path, "there is no such file" + (": to have it fetched, write it as its url" if is_url else ""))
    if path.is_dir():
        raise _unlisted(path, f"it is a folder, which only the format {' or '.join(FOLDERS)} reads")
    name, doubt = form, ""
    with suppress(OSError, ValueError):  # who reads the list says why it cannot be read
        if form is None or format_named(form).dialect:
            from hushlist.core.lists.format_detection import detect_format  # most policies start faster without it

            installed = usable_extensions() if form is None and foreign is None else ()
            name, doubt = detect_format(path, form, installed if foreign is None else foreign)
        else:
            name = by_head(path, form)
    if name is None:
        return [ListFile(path, UNTOLD, defaults)]  # who reads it says so; a policy may have its last good copy
    return [ListFile(path, format_named(name), defaults, None if name == form else name, doubt)]


def _unlisted(path: Path, why: str) -> SourceError:
    return SourceError([Problem(str(path), 0, "list", why)])
