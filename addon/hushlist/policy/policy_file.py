"""The policy file: layers of lists, read as a whole or not at all; ``compile`` reads the lists.

``rules/policy.md`` is the reference of its format.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.errors import HushlistError, Problem, SourceError, did_you_mean
from hushlist.lists.list_formats import FOLDERS, FORMATS, UNTOLD, ListFormat, files_of_folder, list_format_of
from hushlist.lists.list_source import ListDefaults, ProblemReport, read_octets, read_seal_key
from hushlist.lists.yaml_nodes import DEFAULTS_KEYS, MappingReader, YamlNode, read_defaults, read_document
from hushlist.match.checks import CHECKS, Check
from hushlist.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import Action, Rule, Terms
from hushlist.match.seal import SealKey
from hushlist.policy.admin import AdminPerson, read_admin
from hushlist.policy.gate_limits import GateLimits, read_gate
from hushlist.policy.groups import (
    DEFAULT,
    DEFAULT_LAYER,
    SETTINGS_KEYS,
    ClientConditions,
    Group,
    GroupSettings,
    LayerUse,
    read_group,
    read_settings,
)
from hushlist.policy.notify_channels import LANGUAGES, Channel, read_channel
from hushlist.policy.proxy_settings import (
    LOOPBACK,
    LogSettings,
    NameAnswers,
    OnFailure,
    read_database,
    read_live,
    read_log,
    read_name_answers,
    read_on_failure,
)
from hushlist.policy.recurrence import Schedule
from hushlist.policy.schedule import read_during, read_schedules, read_timezone
from hushlist.policy.subscription import SUBSCRIPTION_KEYS, SubscribedList, Subscription, read_subscription
from hushlist.system.files import LONGEST_DOCUMENT, read_private, reason_of
from hushlist.system.postgres_address import PostgresAddress

if TYPE_CHECKING:
    from hushlist.policy.safe_browsing import ThreatList

#: a file's identity: modification time in ns, size in octets, inode; ``None`` if there is no such file
Fingerprint = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class ListFile:
    """A file of rules."""

    path: Path
    format: ListFormat
    defaults: ListDefaults
    #: the format, if the content told it
    detected: str | None = None
    #: how much it may change before it is held back
    gate: GateLimits = GateLimits()  # noqa: RUF009  it is immutable
    #: the file that is read in its place, while it is held back
    copy: Path | None = None
    #: where it was fetched from, if it is a copy
    url: str | None = None

    @property
    def read_from(self) -> Path:
        """The file that is read."""
        return self.copy or self.path

    @property
    def source(self) -> str:
        """What people know it by: the path, or where it is from."""
        return self.url or str(self.path)


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
    #: the database of temporary unblocks and administrators; ``None``: files of this machine
    store: PostgresAddress | None = None
    #: settings of the decision log; ``None``: no log
    log: LogSettings | None = None
    #: the administrator's own template of the block page
    block_page: Path | None = None
    #: the answer for blocked names
    name_answers: NameAnswers = NameAnswers()  # noqa: RUF009  it is immutable
    #: what to do with requests if the filter fails
    on_failure: OnFailure = OnFailure()  # noqa: RUF009  it is immutable
    #: who may see the live page; ``None``: nobody
    live: ClientConditions | None = LOOPBACK
    #: who may sign in to it; if there is nobody, the page only shows
    admin: tuple[AdminPerson, ...] = ()
    #: where people are told of what waits for them
    notify: tuple[Channel, ...] = ()
    #: the language in which they are told
    language: str = "en"
    #: what to do where a filter of an Adblock list depends on a context that is not known: block or pass
    unknown_context: Action = Action.PASS
    #: the keys of sealed lists, by their fingerprints
    seals: dict[str, SealKey] = field(default_factory=dict)
    #: popular domains, which no list may newly cover
    popular: Path | None = None
    #: lists that are held back, so that their last good copies are in force: why, for people
    held: dict[Path, str] = field(default_factory=dict)
    #: what changes when a person has another copy of a list in force
    pointers: dict[Path, Fingerprint] = field(default_factory=dict)
    #: its lists that are fetched, also those of which there is no copy
    subscribed: tuple[SubscribedList, ...] = ()
    #: lists of prefixes, which have to be confirmed, by the rules' ``confirmer``
    confirmers: dict[str, ThreatList] = field(default_factory=dict)
    #: the fingerprint of every file of the policy, taken before it was read
    files: dict[Path, Fingerprint] = field(default_factory=dict)
    #: the SHA-256 of the policy file, in hexadecimal; empty for a policy that is in no file
    digest: str = ""

    @property
    def watched(self) -> dict[Path, Fingerprint]:
        """The fingerprints of all that changes what is in force."""
        return {**self.files, **self.pointers}

    @property
    def held_back(self) -> list[Problem]:
        """A warning for each list that is held back."""
        return [Problem(str(path), 0, "list", why) for path, why in self.held.items()]

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
    """The files of a list: one, or those of a folder; without a given format, the file's content tells it.

    Lists in a folder get the folder's name, unless ``defaults`` has one. ``ListError`` if there is no such file.
    """
    if form in FOLDERS or (form is None and path.is_dir()):
        form = form or "squidguard"
        defaults = replace(defaults, name=defaults.name or path.name)
        found = [ListFile(file, own, defaults) for file, own in files_of_folder(path, form, is_there)]
        for one in found:
            # a link may lead to any file of this machine, which warnings would then quote
            if not one.path.resolve().is_relative_to(path.resolve()):
                raise ListError(f"{one.path.name} in it is a link that leads out of the folder")
        if not found:
            raise ListError(f"there is no folder with {' or '.join(FOLDERS[form])}")
        return found
    if not is_there(path):
        is_url = not {"http:", "https:"}.isdisjoint(path.parts)
        raise ListError("there is no such file" + (": to have it fetched, write it as its url" if is_url else ""))
    if path.is_dir():
        raise ListError(f"it is a folder, which only the format {' or '.join(FOLDERS)} reads")
    told = form
    if form in (None, "adblock"):
        from hushlist.lists.format_detection import detect_format  # most policies start faster without it

        with suppress(OSError, ValueError):  # who reads the list says why it cannot be read
            told = detect_format(path, form)
    if told is None:
        return [ListFile(path, UNTOLD, defaults)]  # who reads it says so; a policy may have its last good copy
    return [ListFile(path, FORMATS[told], defaults, None if told == form else told)]


def fingerprint(path: Path) -> Fingerprint:
    """A value that changes when the file does; also where it keeps its length and is given its old time."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: the name is not valid for a file
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def read_policy(path: Path, report: ProblemReport) -> Policy | None:
    """Read a policy, without its lists; problems are in the report; ``None`` if nothing can be read."""
    files = {path: fingerprint(path)}
    octets = read_octets(path, report, LONGEST_DOCUMENT)
    document = None if octets is None else read_document(octets, report)
    if octets is None or document is None:
        return None
    return replace(_PolicyReader(path, report, files).read(document), digest=hashlib.sha256(octets).hexdigest())


def policy_at(path: Path) -> Policy:
    """A policy without its lists; ``SourceError`` if there is a problem."""
    report = ProblemReport(str(path))
    policy = read_policy(path, report)
    if policy is None or report.errors:
        raise SourceError(report.errors)
    return policy


def subscribed_lists(policy: Path) -> tuple[SubscribedList, ...]:
    """The lists of a policy that are fetched, each once; none if it cannot be read."""
    known = read_policy(policy, ProblemReport(str(policy)))
    return tuple({own.store.folder: own for own in (known.subscribed if known else ())}.values())


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
    *("unparsable", "unknown-context", "timezone", "schedules", "layers", *SETTINGS_KEYS, "groups"),
    *("store", "log", "block-page", "dns", "on-failure", "live", "gate", "admin", "notify", "language"),
)
_BLOCK_OR_PASS = (Action.BLOCK, Action.PASS)
_LIST_KEYS = (
    *("file", "catalogue", "safe-browsing", "url", *SUBSCRIPTION_KEYS),
    *("format", "prefix-length", "fragments", "seal", "gate"),
    *DEFAULTS_KEYS,
)
#: of these, what a list of Safe Browsing may have besides
_PREFIX_LIST_KEYS = ("safe-browsing", "optional", "covers", "name", "title", "action", "category", "reason")
_LONGEST_KEY = 1 << 12


class _PolicyReader:
    """Reads one policy; remembers the files that it names."""

    def __init__(self, path: Path, report: ProblemReport, files: dict[Path, Fingerprint]) -> None:
        self._path, self._report, self._files = path, report, files
        self._schedules: dict[str, Schedule] = {}
        self._seals: dict[str, SealKey] = {}
        self._gate = GateLimits()
        self._subscribed: list[SubscribedList] = []
        self._confirmers: dict[str, ThreatList] = {}

    def read(self, document: YamlNode) -> Policy:
        report = self._report
        fields = MappingReader(document, POLICY_KEYS, report)
        unparsable = fields.choice("unparsable", _BLOCK_OR_PASS) or Action.BLOCK
        unknown_context = fields.choice("unknown-context", _BLOCK_OR_PASS) or Action.PASS
        zone = read_timezone(fields, "timezone", report)
        schedules = fields.node("schedules")
        if schedules is not None:
            self._schedules = read_schedules(schedules, zone, report)
        self._gate, gate = read_gate(fields.node("gate"), self._gate, report)
        popular = None if gate is None else self._file(gate, "popular")
        if isinstance(document.value, dict) and "layers" not in fields:
            report.error(document.line, "layers", "the policy has none")
        layers = tuple(self._layer(node) for node in fields.items("layers"))
        self._check_names(fields, "layer", layers, DEFAULT_LAYER, "this name stands for what no layer decides")
        settings = read_settings(fields, self._schedules, zone, report, self._read_beside)
        uses = uses_of(layers)
        groups = tuple(
            read_group(node, uses, settings, self._schedules, zone, report, self._read_beside)
            for node in fields.items("groups")
        )
        self._check_names(fields, "group", groups, DEFAULT, "this is the name of the group of everybody who is in none")
        channels = [read_channel(node, report, self._file) for node in fields.items("notify")]
        log, dns, live = (fields.node(key) for key in ("log", "dns", "live"))
        return Policy(
            source=str(self._path),
            layers=layers,
            unparsable=unparsable,
            groups=groups,
            settings=settings,
            zone=zone,
            store=read_database(fields, "store", report),
            log=None if log is None else read_log(log, report),
            block_page=self._file(fields, "block-page"),
            name_answers=NameAnswers() if dns is None else read_name_answers(dns, report),
            on_failure=read_on_failure(fields, report),
            live=LOOPBACK if live is None else read_live(live, report),
            admin=read_admin(fields, report),
            notify=tuple(channel for channel in channels if channel is not None),
            language=fields.choice("language", LANGUAGES) or "en",
            unknown_context=unknown_context,
            seals=self._seals,
            popular=popular,
            subscribed=tuple(self._subscribed),
            confirmers=self._confirmers,
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

    def _file(self, fields: MappingReader, key: str) -> Path | None:
        """The file that a key names."""
        name = fields.text(key)
        path = None if name is None else self._named(name, fields.line_of(key))
        if name is not None and path is not None and path.is_dir():
            self._report.error(fields.line_of(key), name, "expected a file, not a folder")
        return path

    def _named(self, name: str, line: int) -> Path | None:
        """The path of a file that a line of the policy names, if it is there."""
        path = self._path.parent / name
        if self._is_there(path):
            return path
        self._report.error(line, name, "there is no such file")
        return None

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
        entry = YamlNode(node.line, {"file": node}) if isinstance(node.value, str) else self._of_catalogue(node)
        if entry is None:
            return []
        fields = MappingReader(entry, _LIST_KEYS, report)
        if "safe-browsing" in fields:
            return self._prefix_lists(fields, layer)
        gate, _ = read_gate(fields.node("gate"), self._gate, report, is_of_list=True)
        length = fields.number("prefix-length", SHORTEST_PREFIX, FULL_LENGTH)
        fragments = fields.choice("fragments", ("drop",))
        defaults = replace(read_defaults(fields), prefix_length=length, fragments=fragments, layer=layer)
        defaults = replace(defaults, seal=self._seal(fields))
        name, url = fields.text("file"), fields.text("url") if "url" in fields else None
        for key in ("file",) if url else SUBSCRIPTION_KEYS if name else ():
            if key in fields:
                report.error(fields.line_of(key), key, "a list has a file, or a url and how it is fetched")
        if name is None and url is None:
            if isinstance(entry.value, dict) and not {"file", "url"} & entry.value.keys():
                report.error(node.line, "list", "it names no file and no url")
            return []
        path = self._path.parent / (name or (url or "").partition("?")[0].rpartition("/")[2])
        form = fields.choice("format", (*FORMATS, *FOLDERS)) or list_format_of(path)
        if length is not None and form != "safebrowsing-raw":
            report.error(fields.line_of("prefix-length"), "prefix-length", "only the format safebrowsing-raw has one")
        try:
            files = (
                self._copy(fields, form, defaults, gate)
                if name is None
                else list_files(path, form, defaults, self._is_there)
            )
        except ListError as error:
            report.error(fields.line_of("url" if name is None else "file"), name or url or "", str(error))
            return []
        files = [replace(file, gate=gate) for file in files]
        if defaults.seal and any(file.format.reader not in ("read_yaml", "read_sha256") for file in files):
            report.error(fields.line_of("seal"), "seal", "only lists of the formats yaml and sha256 can be sealed")
        return files

    def _of_catalogue(self, node: YamlNode) -> YamlNode | None:
        """A list with what the catalogue says of it, if it names one there; ``None`` if there is an error."""
        given = node.value
        if not isinstance(given, dict) or "catalogue" not in given:
            return node
        from hushlist.policy.catalogue import read_catalogue, shipped_catalogue  # few policies need it

        own, line = given["catalogue"], given["catalogue"].line
        try:
            known = read_catalogue(shipped_catalogue())
        except SourceError as error:
            self._report.error(line, "catalogue", str(error.problems[0]))
            return None
        entry = known.get(own.value) if isinstance(own.value, str) else None
        if entry is None:
            near = did_you_mean(str(own.value), known)
            self._report.error(
                line, f"catalogue: {own}", f"it has no such list{near} (see 'hushlist lists --catalogue')"
            )
            return None
        if both := [key for key in ("file", "url") if key in given]:
            self._report.error(line, "catalogue", f"it says where the list is: leave out {both[0]!r}")
            return None
        said = {"url": entry.url, "format": entry.format, "title": entry.title, "category": entry.category}
        rest = {key: value for key, value in given.items() if key != "catalogue"}
        return YamlNode(node.line, {key: YamlNode(line, text) for key, text in said.items()} | rest)

    def _seal(self, fields: MappingReader) -> str | None:
        """The fingerprint of the key that a list names; empty if it names none, ``None`` if there is an error."""
        name = fields.text("seal")
        if name is None:
            return None if "seal" in fields else ""
        path = self._named(name, fields.line_of("seal"))
        if path is None:
            return None
        try:
            key = read_seal_key(path)
        except SourceError as error:
            self._report.error(fields.line_of("seal"), name, error.problems[0].why)
            return None
        self._seals[key.fingerprint] = key
        return key.fingerprint

    def _copy(
        self, fields: MappingReader, form: str | None, defaults: ListDefaults, gate: GateLimits
    ) -> list[ListFile]:
        """The copy of a list that is fetched; none if there is none yet, which is an error unless it is optional.

        Raises:
            ListError: nothing tells its format.
        """
        report = self._report
        subscription = read_subscription(fields, report, self._read_beside)
        if subscription is None:
            return []
        if form in FOLDERS:
            why = f"the format {form} is for folders, and a folder cannot be fetched"
            report.error(subscription.line, subscription.url, why)
            return []
        return self._fetched(subscription, form, defaults, gate)

    def _prefix_lists(self, fields: MappingReader, layer: str) -> list[ListFile]:
        """The copies of lists of Safe Browsing."""
        from hushlist.policy.safe_browsing import ThreatList, read_safe_browsing  # few policies need it

        report, line = self._report, fields.line_of("safe-browsing")
        for key in _LIST_KEYS:
            if key in fields and key not in _PREFIX_LIST_KEYS:
                report.error(fields.line_of(key), key, "a list of Safe Browsing has none")
        defaults = read_defaults(fields)
        if defaults.action is Action.ALLOW:
            report.error(fields.line_of("action"), "action", "a prefix may fit by chance, and cannot allow")
        is_optional = fields.choice("optional", ("true", "false")) == "true"
        node = fields.node("safe-browsing")
        service = None if node is None else read_safe_browsing(node, report, self._read_secret)
        if service is None:
            return []
        files = []
        for own in (ThreatList(service, name) for name in service.lists):
            self._confirmers[own.key] = own
            terms = replace(
                defaults,
                title=defaults.title or own.name,
                category=own.category or defaults.category,
                layer=layer,
                seal="",
                confirmer=own.key,
            )
            asked = Subscription(service.url_of(own.name), is_optional=is_optional, line=line, prefixes=own)
            files += self._fetched(asked, "sha256", terms, self._gate)
        return files

    def _read_secret(self, name: str, line: int) -> bytes | None:
        """A private file that line ``line`` of the policy names."""
        path = self._named(name, line)
        try:
            return None if path is None else read_private(path, _LONGEST_KEY)
        except (OSError, ValueError) as error:  # ValueError: no file can have that name
            self._report.error(line, name, reason_of(error))
            return None

    def _fetched(
        self, subscription: Subscription, form: str | None, defaults: ListDefaults, gate: GateLimits
    ) -> list[ListFile]:
        """The copy of a list, as for ``_copy``."""
        from hushlist.system.list_store import ListStore  # most policies start faster without it

        report, url, line = self._report, subscription.url, subscription.line
        try:
            store = ListStore(self._path, subscription.identity)
        except RuntimeError as error:
            report.error(line, url, str(error))
            return []
        for own in self._subscribed:
            if own.store.folder == store.folder and (own.form, own.gate) != (form, gate):
                why = f"line {own.subscription.line} has it with another format or gate, and both share one copy"
                report.error(line, url, f"{why}: give them the same")
        self._subscribed.append(SubscribedList(subscription, form, defaults, gate, store))
        self._is_there(store.pointer)
        version = store.current()
        if version is not None:
            return [replace(own, url=url) for own in list_files(version.path, form, defaults, self._is_there)]
        if not subscription.is_optional:
            fault, update = store.state().fault, f"hushlist update --policy {self._path}"
            tried = f", and fetching it failed: {fault}; '{update}' tries again" if fault else f": run '{update}'"
            report.error(line, url, f"there is no copy of it yet{tried}")
        return []

    def _read_beside(self, name: str, line: int) -> tuple[Path, bytes] | None:
        """A file that line ``line`` of the policy names."""
        path = self._named(name, line)
        octets = None if path is None else read_octets(path, self._report, LONGEST_DOCUMENT)
        return None if path is None or octets is None else (path, octets)

    def _is_there(self, path: Path) -> bool:
        return self._files.setdefault(path, fingerprint(path)) is not None
