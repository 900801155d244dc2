"""The policy file: layers of lists, read as a whole or not at all; ``compile`` reads the lists.

``rules/README.md`` is the reference of its format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path

from hushlist.errors import HushlistError, Problem, SourceError
from hushlist.lists.list_formats import FOLDERS, FORMATS, ListFormat, list_format_of
from hushlist.lists.list_source import ListDefaults, ProblemReport, read_octets
from hushlist.lists.yaml_nodes import MappingReader, YamlNode, read_document
from hushlist.lists.yaml_rules import DEFAULTS_KEYS, read_defaults
from hushlist.match.checks import CHECKS, Check
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import Action, Rule, Terms
from hushlist.policy.groups import (
    DEFAULT,
    DEFAULT_LAYER,
    SETTINGS_KEYS,
    Group,
    GroupSettings,
    LayerUse,
    read_group,
    read_settings,
)
from hushlist.policy.proxy_settings import (
    LivePageSettings,
    LogSettings,
    NameAnswers,
    OnFailure,
    read_live,
    read_log,
    read_name_answers,
    read_on_failure,
)
from hushlist.policy.schedule import Schedule, read_schedules, read_timezone
from hushlist.policy.scheduled_action import read_during
from hushlist.system.files import LONGEST_DOCUMENT

#: a file's identity: modification time in ns, size in octets, inode; ``None`` if there is no such file
Fingerprint = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class ListFile:
    """A file of rules."""

    path: Path
    format: ListFormat
    defaults: ListDefaults


@dataclass(frozen=True, slots=True)
class Layer:
    """Rules of equal precedence."""

    name: str
    #: rules of request inspection
    checks: tuple[Rule, ...] = ()
    lists: tuple[ListFile, ...] = ()
    #: when the layer is in use, if not always
    during: Schedule | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy without the rules of its lists; immutable."""

    source: str
    layers: tuple[Layer, ...]
    #: the action for an unreadable request: block or pass
    unparsable: Action = Action.BLOCK
    #: groups of clients, the first that fits is used; everybody's group is not among them
    groups: tuple[Group, ...] = ()
    #: settings for clients in no group
    settings: GroupSettings = GroupSettings()  # noqa: RUF009  it is immutable
    #: the time zone of times in the policy
    zone: tzinfo = UTC
    #: settings of the decision log; ``None``: no log
    log: LogSettings | None = None
    #: the administrator's own template of the block page
    block_page: Path | None = None
    #: the answer for blocked names
    name_answers: NameAnswers = NameAnswers()  # noqa: RUF009  it is immutable
    #: what to do with requests if the filter fails
    on_failure: OnFailure = OnFailure()  # noqa: RUF009  it is immutable
    #: who may see the live page; ``None``: nobody
    live: LivePageSettings | None = LivePageSettings()  # noqa: RUF009  it is immutable
    #: the fingerprint of every file of the policy, taken before it was read
    files: dict[Path, Fingerprint] = field(default_factory=dict)

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups, and everybody's at the end."""
        return (*self.groups, Group(DEFAULT, uses_of(self.layers), self.settings))


def uses_of(layers: Iterable[Layer]) -> tuple[LayerUse, ...]:
    """All layers, in their order, with their own schedules."""
    return tuple(LayerUse(layer.name, layer.during) for layer in layers)


class PolicyError(SourceError):
    """A policy cannot be used; ``files`` are those that were read: if they change, trying again makes sense."""

    def __init__(self, problems: Iterable[Problem], files: dict[Path, Fingerprint], *, may_pass: bool = False) -> None:
        super().__init__(problems)
        self.files = files
        #: whether the files may be good, and the machine failed: a full disk, a killed process
        self.may_pass = may_pass


class ListError(HushlistError):
    """There is no such list, or it cannot be read."""


def list_files(
    path: Path, form: str | None, defaults: ListDefaults, is_there: Callable[[Path], bool] = Path.exists
) -> list[ListFile]:
    """The files of a list: one, or those of a folder; without a given format, the file's name shows it.

    Lists in a folder get the folder's name, unless ``defaults`` has one.

    Raises:
        ListError: the name shows no format, or there is no such file.
    """
    if form in FOLDERS or (form is None and path.is_dir()):
        formats = FOLDERS[form or "squidguard"]
        defaults = replace(defaults, name=defaults.name or path.name)
        named = ((path / name, own) for name, own in formats.items())
        found = [ListFile(file, own, defaults) for file, own in named if is_there(file)]
        for one in found:
            # a link may lead to any file of this machine, which warnings would then quote
            if not one.path.resolve().is_relative_to(path.resolve()):
                raise ListError(f"{one.path.name} in it is a link that leads out of the folder")
        if not found:
            raise ListError(f"there is no folder with {' or '.join(formats)}")
        return found
    if not is_there(path):
        is_url = not {"http:", "https:"}.isdisjoint(path.parts)
        raise ListError("there is no such file" + (": fetch it, and name the file" if is_url else ""))
    if form is None:
        raise ListError(f"its name tells no format: give one of {', '.join(FORMATS)}")
    if path.is_dir():
        raise ListError(f"it is a folder, which only the format {' or '.join(FOLDERS)} reads")
    return [ListFile(path, FORMATS[form], defaults)]


def fingerprint(path: Path) -> Fingerprint:
    """A value that changes when the file does."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: the name is not valid for a file
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read_policy(path: Path, report: ProblemReport) -> Policy | None:
    """Read a policy, without its lists; problems are in the report; ``None`` if nothing can be read."""
    files = {path: fingerprint(path)}
    octets = read_octets(path, report, LONGEST_DOCUMENT)
    document = None if octets is None else read_document(octets, report)
    return None if document is None else _PolicyReader(path, report, files).read(document)


_CHECK_ACTIONS = (Action.BLOCK, Action.TAG, Action.PASS)


def _check(code: str, node: YamlNode, layer: str, report: ProblemReport) -> Rule | None:
    """The rule of a check, or ``None`` if it passes or is unknown."""
    if code not in CHECKS:
        report.error(node.line, code, f"unknown check (known: {', '.join(CHECKS)})")
        return None
    entry = YamlNode(node.line, {"action": node}) if isinstance(node.value, str) else node
    fields = MappingReader(entry, ("action", "ports") if code == "well-known-port" else ("action",), report)
    action = fields.choice("action", _CHECK_ACTIONS)
    if isinstance(entry.value, dict) and "action" not in fields:
        report.error(node.line, code, "it has no action")
    check = Check(code, frozenset(fields.numbers("ports", 65535)))
    if action is None or action is Action.PASS:
        return None
    terms = Terms(action, "checks", report.source, reason=check.sentence, layer=layer)
    return Rule(check, terms, fields.line_of("action"))


POLICY_KEYS = (
    *("unparsable", "timezone", "schedules", "layers", *SETTINGS_KEYS, "groups"),
    *("log", "block-page", "dns", "on-failure", "live"),
)
_UNPARSABLE = (Action.BLOCK, Action.PASS)


class _PolicyReader:
    """Reads one policy; remembers the files that it names."""

    def __init__(self, path: Path, report: ProblemReport, files: dict[Path, Fingerprint]) -> None:
        self._path, self._report, self._files = path, report, files
        self._schedules: dict[str, Schedule] = {}

    def read(self, document: YamlNode) -> Policy:
        report = self._report
        fields = MappingReader(document, POLICY_KEYS, report)
        unparsable = fields.choice("unparsable", _UNPARSABLE) or Action.BLOCK
        zone = read_timezone(fields, "timezone", report)
        schedules = fields.node("schedules")
        if schedules is not None:
            self._schedules = read_schedules(schedules, zone, report)
        if isinstance(document.value, dict) and "layers" not in fields:
            report.error(document.line, "layers", "the policy has none")
        layers = tuple(self._layer(node) for node in fields.items("layers"))
        self._check_names(fields, "layer", layers, DEFAULT_LAYER, "this name stands for what no layer decides")
        settings = read_settings(fields, self._schedules, report, self._read_beside)
        uses = uses_of(layers)
        groups = tuple(
            read_group(node, uses, settings, self._schedules, report, self._read_beside)
            for node in fields.items("groups")
        )
        self._check_names(fields, "group", groups, DEFAULT, "this is the name of the group of everybody who is in none")
        log, dns, live = (fields.node(key) for key in ("log", "dns", "live"))
        return Policy(
            source=str(self._path),
            layers=layers,
            unparsable=unparsable,
            groups=groups,
            settings=settings,
            zone=zone,
            log=None if log is None else read_log(log, report),
            block_page=self._block_page(fields),
            name_answers=NameAnswers() if dns is None else read_name_answers(dns, report),
            on_failure=read_on_failure(fields, report),
            live=LivePageSettings() if live is None else read_live(live, report),
            files=self._files,
        )

    def _check_names(
        self, fields: MappingReader, what: str, named: Iterable[Layer | Group], reserved: str, why: str
    ) -> None:
        """Report names of layers or groups that are there twice, and the one that stands for something else."""
        counts, line = Counter(one.name for one in named if one.name), fields.line_of(f"{what}s")
        for name, number in counts.items():
            if number > 1:
                self._report.error(line, name, f"more than one {what} has this name")
        if reserved in counts:
            self._report.error(line, reserved, why)

    def _block_page(self, fields: MappingReader) -> Path | None:
        name = fields.text("block-page")
        if name is None:
            return None
        path = self._path.parent / name
        if not self._is_there(path):
            self._report.error(fields.line_of("block-page"), name, "there is no such file")
        elif path.is_dir():
            self._report.error(fields.line_of("block-page"), name, "expected a file, not a folder")
        return path

    def _layer(self, node: YamlNode) -> Layer:
        fields = MappingReader(node, ("name", "during", "checks", "lists"), self._report)
        name = fields.text("name")
        if name is None and isinstance(node.value, dict):
            self._report.error(node.line, "layer", "it has no name")
        name = name or ""
        checks = (_check(code, item, name, self._report) for code, item in fields.entries("checks"))
        lists = tuple(file for item in fields.items("lists") for file in self._list(item, name))
        during = read_during(fields, self._schedules, self._report)
        return Layer(name, tuple(rule for rule in checks if rule is not None), lists, during)

    def _list(self, node: YamlNode, layer: str) -> list[ListFile]:
        report = self._report
        entry = YamlNode(node.line, {"file": node}) if isinstance(node.value, str) else node
        fields = MappingReader(entry, ("file", "format", "prefix-length", *DEFAULTS_KEYS), report)
        length = fields.number("prefix-length", SHORTEST_PREFIX, FULL_LENGTH)
        defaults = replace(read_defaults(fields), prefix_length=length, layer=layer)
        name = fields.text("file")
        if name is None:
            if isinstance(entry.value, dict) and "file" not in fields:
                report.error(node.line, "list", "it names no file")
            return []
        path = self._path.parent / name
        form = fields.choice("format", (*FORMATS, *FOLDERS)) or list_format_of(path)
        if length is not None and form != "safebrowsing-raw":
            report.error(fields.line_of("prefix-length"), "prefix-length", "only the format safebrowsing-raw has one")
        try:
            return list_files(path, form, defaults, self._is_there)
        except ListError as error:
            report.error(fields.line_of("file"), name, str(error))
            return []

    def _read_beside(self, name: str, line: int) -> tuple[Path, bytes] | None:
        """A file that line ``line`` of the policy names."""
        path = self._path.parent / name
        if not self._is_there(path):
            self._report.error(line, name, "there is no such file")
            return None
        octets = read_octets(path, self._report, LONGEST_DOCUMENT)
        return None if octets is None else (path, octets)

    def _is_there(self, path: Path) -> bool:
        return self._files.setdefault(path, fingerprint(path)) is not None
