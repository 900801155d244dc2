"""The policy file: layers of lists, read into a ``Policy`` as a whole or not at all.

``rules/README.md`` is the reference of its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hushlist.errors import Problem, SourceError
from hushlist.lists.document import Fields, Node, read_document
from hushlist.lists.formats import FOLDERS, FORMATS, Reader, format_of
from hushlist.lists.source import Defaults, Report, read_octets
from hushlist.lists.yaml_rules import DEFAULTS_KEYS, read_defaults
from hushlist.match.checks import CHECKS, Check
from hushlist.match.hashing import FULL_LENGTH, SHORTEST_PREFIX
from hushlist.match.rule import Action, Rule, Terms

#: a file's identity: modification time in ns, size in octets, inode; ``None`` where there is no such file
Fingerprint = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Layer:
    """Rules that are asked together."""

    name: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that decides; immutable."""

    source: str
    layers: tuple[Layer, ...]
    #: for a request that cannot be read: block or pass
    unparsable: Action
    #: every file that the policy came from, as it was before it was read
    files: dict[Path, Fingerprint]
    warnings: tuple[Problem, ...] = ()


class PolicyError(SourceError):
    """A policy cannot be used; ``files`` are those that were read, to know when trying again makes sense."""

    def __init__(self, problems: Iterable[Problem], files: dict[Path, Fingerprint]) -> None:
        super().__init__(problems)
        self.files = files


def fingerprint(path: Path) -> Fingerprint:
    """What changes when a file does."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: no file can have that name
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def load_policy(path: Path) -> Policy:
    """Read a policy and all its lists.

    Raises:
        PolicyError: with every problem of every file.
    """
    loader = _Loader(path)
    policy = loader.load()
    errors = [problem for report in loader.reports for problem in report.errors]
    if policy is None or errors:
        raise PolicyError(errors, loader.files)
    return policy


_CHECK_ACTIONS = (Action.BLOCK, Action.TAG, Action.PASS)


def _check(code: str, node: Node, layer: str, report: Report) -> Rule | None:
    """The rule that a check makes, or ``None`` where it is passed or not known."""
    if code not in CHECKS:
        report.error(node.line, code, f"unknown check (known: {', '.join(CHECKS)})")
        return None
    entry = Node(node.line, {"action": node}) if isinstance(node.value, str) else node
    fields = Fields(entry, ("action", "ports") if code == "well-known-port" else ("action",), report)
    action = fields.choice("action", _CHECK_ACTIONS)
    if isinstance(entry.value, dict) and "action" not in fields:
        report.error(node.line, code, "it has no action")
    check = Check(code, frozenset(fields.numbers("ports", 65535)))
    if action is None or action is Action.PASS:
        return None
    terms = Terms(action, "checks", report.source, reason=check.sentence, layer=layer)
    return Rule(check, terms, fields.line_of("action"))


_UNPARSABLE = (Action.BLOCK, Action.PASS)


class _Loader:
    """Reads one policy; remembers the files and what was wrong with them."""

    def __init__(self, path: Path) -> None:
        self.files: dict[Path, Fingerprint] = {}
        self.reports: list[Report] = []
        self._path = path

    def load(self) -> Policy | None:
        octets, report = self._read(self._path)
        document = None if octets is None else read_document(octets, report)
        if document is None:
            return None
        fields = Fields(document, ("unparsable", "layers"), report)
        unparsable = fields.choice("unparsable", _UNPARSABLE) or Action.BLOCK
        if isinstance(document.value, dict) and "layers" not in fields:
            report.error(document.line, "layers", "the policy has none")
        layers = [self._layer(node, report) for node in fields.items("layers")]
        names = [layer.name for layer in layers]
        for name in {name for name in names if name and names.count(name) > 1}:
            report.error(fields.line_of("layers"), name, "more than one layer has this name")
        warnings = tuple(problem for report in self.reports for problem in report.warnings)
        return Policy(str(self._path), tuple(layers), unparsable, self.files, warnings)

    def _read(self, path: Path) -> tuple[bytes | None, Report]:
        report = Report(str(path))
        self.reports.append(report)
        self.files.setdefault(path, fingerprint(path))
        return read_octets(path, report), report

    def _layer(self, node: Node, report: Report) -> Layer:
        fields = Fields(node, ("name", "checks", "lists"), report)
        name = fields.text("name")
        if name is None and isinstance(node.value, dict):
            report.error(node.line, "layer", "it has no name")
        name = name or ""
        checks = (_check(code, item, name, report) for code, item in fields.entries("checks"))
        rules = [rule for item in fields.items("lists") for rule in self._list(item, name, report)]
        return Layer(name, (*(rule for rule in checks if rule is not None), *rules))

    def _list(self, node: Node, layer: str, report: Report) -> list[Rule]:
        entry = Node(node.line, {"file": node}) if isinstance(node.value, str) else node
        fields = Fields(entry, ("file", "format", "prefix-length", *DEFAULTS_KEYS), report)
        length = fields.number("prefix-length", SHORTEST_PREFIX, FULL_LENGTH)
        defaults = replace(read_defaults(fields), prefix_length=length, layer=layer)
        name = fields.text("file")
        if name is None:
            if isinstance(entry.value, dict) and "file" not in fields:
                report.error(node.line, "list", "it names no file")
            return []
        path = self._path.parent / name
        form = fields.choice("format", (*FORMATS, *FOLDERS)) or format_of(path)
        if length is not None and form != "safebrowsing-raw":
            report.error(fields.line_of("prefix-length"), "prefix-length", "only the format safebrowsing-raw has one")
        if form in FOLDERS or (form is None and fingerprint(path) and path.is_dir()):
            return self._folder(path, FOLDERS[form or "squidguard"], defaults, report, fields.line_of("file"))
        if form is None:
            known = ", ".join(FORMATS)
            report.error(fields.line_of("file"), name, f"its name tells no format: give one of {known}")
            return []
        if fingerprint(path) is None:
            report.error(fields.line_of("file"), name, "there is no such file")
            self.files[path] = None
            return []
        octets, own_report = self._read(path)
        return [] if octets is None else FORMATS[form](octets, defaults, own_report)

    def _folder(
        self, folder: Path, readers: Mapping[str, Reader], defaults: Defaults, report: Report, line: int
    ) -> list[Rule]:
        """The rules of all files of a folder; a list without a name goes by the folder's."""
        defaults = replace(defaults, name=defaults.name or folder.name)
        rules: list[Rule] = []
        missing = 0
        for name, reader in readers.items():
            path = folder / name
            if fingerprint(path) is None:
                self.files[path] = None
                missing += 1
                continue
            octets, own_report = self._read(path)
            rules += [] if octets is None else reader(octets, defaults, own_report)
        if missing == len(readers):
            report.error(line, folder.name, f"there is no folder with {' or '.join(readers)}")
        return rules
