"""Reads the policy file, key by key: as a whole or not at all; ``compile`` reads the lists.

``rules/policy.md`` is the reference of its format.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.core.errors import SourceError, did_you_mean
from hushlist.core.lists.list_formats import FOLDERS, FORMATS, list_format_of
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_octets, read_seal_key
from hushlist.core.lists.yaml_nodes import DEFAULTS_KEYS, MappingReader, YamlNode, read_defaults, read_document
from hushlist.core.match.checks import CHECKS, Check
from hushlist.core.match.expressions import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.core.match.rule import Action, Rule, Terms
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.groups import DEFAULT, DEFAULT_LAYER, SETTINGS_KEYS, Group, read_group, read_settings
from hushlist.core.policy.pass_through import HostSet, read_kept_headers
from hushlist.core.policy.policy_file import Layer, ListFile, Policy, list_files, uses_of
from hushlist.core.policy.proxy_settings import (
    LOOPBACK,
    NameAnswers,
    read_database,
    read_live,
    read_log,
    read_name_answers,
    read_on_failure,
)
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.policy.schedule import read_during, read_schedules, read_timezone
from hushlist.core.system.files import LONGEST_DOCUMENT, Fingerprint, fingerprint, read_private, reason_of
from hushlist.extensions.dashboard.admin_keys import read_admin
from hushlist.extensions.notify.notify_channels import LANGUAGES, read_channel
from hushlist.extensions.subscriptions.gate_limits import GateLimits, read_gate
from hushlist.extensions.subscriptions.subscription import (
    SUBSCRIPTION_KEYS,
    SubscribedList,
    Subscription,
    read_subscription,
)

if TYPE_CHECKING:
    from hushlist.extensions.safe_browsing.threat_lists import ThreatList


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
    keys = ("action", "ports") if code == "well-known-port" else ("action",)
    fields = MappingReader(node.short_for("action"), keys, report)
    action = fields.choice("action", _CHECK_ACTIONS)
    fields.require("action", code)
    check = Check(code, frozenset(fields.numbers("ports", 65535)))
    if action is None or action is Action.PASS:
        return None
    terms = Terms(action, "checks", report.source, reason=check.sentence, layer=layer)
    return Rule(check, terms, fields.line_of("action"))


POLICY_KEYS = (
    *("unparsable", "unknown-context", "timezone", "schedules", "layers", *SETTINGS_KEYS, "groups"),
    *("store", "log", "block-page", "dns", "keep-headers", "on-failure", "live", "gate", "admin", "notify", "language"),
    "require-patches",
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
        zone = read_timezone(fields)
        schedules = fields.node("schedules")
        if schedules is not None:
            self._schedules = read_schedules(schedules, zone, report)
        self._gate, gate = read_gate(fields.node("gate"), self._gate, report)
        popular = None if gate is None else self._file(gate, "popular")
        fields.require("layers", "layers", "the policy has none")
        layers = tuple(self._layer(node) for node in fields.items("layers"))
        self._check_names(fields, "layer", layers, DEFAULT_LAYER, "this name stands for what no layer decides")
        settings = read_settings(fields, self._schedules, zone, self._read_beside)
        uses = uses_of(layers)
        groups = tuple(
            read_group(node, uses, settings, self._schedules, zone, report, self._read_beside)
            for node in fields.items("groups")
        )
        self._check_names(fields, "group", groups, DEFAULT, "this is the name of the group of everybody who is in none")
        channels = [read_channel(node, report, self._file) for node in fields.items("notify")]
        log, dns, live, kept = (fields.node(key) for key in ("log", "dns", "live", "keep-headers"))
        return Policy(
            source=str(self._path),
            layers=layers,
            unparsable=unparsable,
            groups=groups,
            settings=settings,
            zone=zone,
            store=read_database(fields, "store"),
            log=None if log is None else read_log(log, report),
            block_page=self._file(fields, "block-page"),
            name_answers=NameAnswers() if dns is None else read_name_answers(dns, report),
            kept_headers=HostSet() if kept is None else read_kept_headers(kept, report, self._read_beside),
            on_failure=read_on_failure(fields),
            live=LOOPBACK if live is None else read_live(live, report),
            admin=read_admin(fields),
            notify=tuple(channel for channel in channels if channel is not None),
            language=fields.choice("language", LANGUAGES) or "en",
            require_patches=fields.choice("require-patches", ("on", "off")) == "on",
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
        name = fields.text(key)
        path = None if name is None else self._named(name, fields.line_of(key))
        if name is not None and path is not None and path.is_dir():
            fields.error(key, "expected a file, not a folder", name)
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
        during = read_during(fields, self._schedules)
        return Layer(name, tuple(rule for rule in checks if rule is not None), lists, during)

    def _list(self, node: YamlNode, layer: str) -> list[ListFile]:
        report = self._report
        entry = self._of_catalogue(node.short_for("file"))
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
                fields.error(key, "a list has a file, or a url and how it is fetched")
        if name is None and url is None:
            if isinstance(entry.value, dict) and not {"file", "url"} & entry.value.keys():
                report.error(node.line, "list", "it names no file and no url")
            return []
        path = self._path.parent / (name or (url or "").partition("?")[0].rpartition("/")[2])
        form = fields.choice("format", (*FORMATS, *FOLDERS)) or list_format_of(path)
        if length is not None and form != "safebrowsing-raw":
            fields.error("prefix-length", "only the format safebrowsing-raw has one")
        try:
            files = (
                self._copy(fields, form, defaults, gate)
                if name is None
                else list_files(path, form, defaults, self._is_there)
            )
        except SourceError as error:
            fields.error("url" if name is None else "file", error.problems[0].why, name or url or "")
            return []
        files = [replace(file, gate=gate) for file in files]
        if defaults.seal and not all(file.format.can_be_sealed for file in files):
            fields.error("seal", "only lists of the formats yaml and sha256 can be sealed")
        return files

    def _of_catalogue(self, node: YamlNode) -> YamlNode | None:
        """A list with what the catalogue says of it, if it names one there; ``None`` if there is an error."""
        given = node.value
        if not isinstance(given, dict) or "catalogue" not in given:
            return node
        from hushlist.extensions.subscriptions.catalogue import (  # few policies need it
            read_catalogue,
            shipped_catalogue,
        )

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
            fields.error("seal", error.problems[0].why, name)
            return None
        self._seals[key.fingerprint] = key
        return key.fingerprint

    def _copy(
        self, fields: MappingReader, form: str | None, defaults: ListDefaults, gate: GateLimits
    ) -> list[ListFile]:
        """The copy of a list that is fetched; none if there is none yet, which is an error unless it is optional.

        Raises:
            SourceError: nothing tells its format.
        """
        report = self._report
        subscription = read_subscription(fields, self._read_beside)
        if subscription is None:
            return []
        if form in FOLDERS:
            why = f"the format {form} is for folders, and a folder cannot be fetched"
            report.error(subscription.line, subscription.url, why)
            return []
        return self._fetched(subscription, form, defaults, gate)

    def _prefix_lists(self, fields: MappingReader, layer: str) -> list[ListFile]:
        from hushlist.extensions.safe_browsing.threat_lists import (  # few policies need it
            ThreatList,
            read_safe_browsing,
        )

        report, line = self._report, fields.line_of("safe-browsing")
        for key in _LIST_KEYS:
            if key in fields and key not in _PREFIX_LIST_KEYS:
                fields.error(key, "a list of Safe Browsing has none")
        defaults = read_defaults(fields)
        if defaults.action is Action.ALLOW:
            fields.error("action", "a prefix may fit by chance, and cannot allow")
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
        from hushlist.extensions.subscriptions.list_store import ListStore  # most policies start faster without it

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
