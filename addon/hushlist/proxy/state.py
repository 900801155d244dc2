"""What is in force, in plain types: the lists of the policy, and the log."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from hushlist.engine import Engine
from hushlist.lists.formats import FOLDERS, FORMATS, Format
from hushlist.policy.log import Settings as LogSettings
from hushlist.policy.report import CompileReport
from hushlist.proxy.in_force import InForce


@dataclass(frozen=True, slots=True)
class ListState:
    """A list that is in force."""

    file: str
    title: str | None
    format: str
    layer: str
    #: entries that were read, and what became of them
    read: int
    rules: int
    duplicates: int
    refused: int
    covered: int
    #: of the file when it was read: seconds since 1970, and octets
    modified: float | None
    size: int | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogState:
    """What becomes of decisions in the log."""

    is_on: bool
    folder: str | None
    #: records that are still to be written
    waiting: int
    #: why it cannot be written, if so
    fault: str | None
    #: what it keeps: ``keep``, ``pseudonym`` or ``drop``
    queries: str
    clients: str


#: an engine never changes
_lists: WeakKeyDictionary[Engine, tuple[ListState, ...]] = WeakKeyDictionary()


def lists_of(engine: Engine) -> tuple[ListState, ...]:
    """The lists of an engine, in the order of its policy."""
    known = _lists.get(engine)
    if known is None:
        known = _lists[engine] = _read_lists(engine)
    return known


def _read_lists(engine: Engine) -> tuple[ListState, ...]:
    report, titles, files = CompileReport.of(engine.index), engine.index.titles(), engine.policy.files
    listed = [(layer.name, file) for layer in engine.policy.layers for file in layer.lists]
    found = []
    for (layer, file), own in zip(listed, report.lists, strict=True):
        fingerprint = files.get(file.path)
        found.append(
            ListState(
                file=own.source,
                title=titles.get(own.source),
                format=_format_name(file.format),
                layer=layer,
                read=own.read,
                rules=own.kept,
                duplicates=own.duplicates,
                refused=own.refused,
                covered=own.covered,
                modified=None if fingerprint is None else fingerprint[0] / 1e9,
                size=None if fingerprint is None else fingerprint[1],
                warnings=tuple(str(problem) for problem in report.warnings if problem.source == own.source),
            )
        )
    return tuple(found)


def _format_name(wanted: Format) -> str:
    known = {**FORMATS, **{folder: own for folder, formats in FOLDERS.items() for own in formats.values()}}
    return next(name for name, own in known.items() if own == wanted)


def log_of(in_force: InForce) -> LogState:
    """The log, as it is now; what it keeps holds for whoever looks, where there is none too."""
    engine, journal = in_force.engine, in_force.journal
    settings = None if engine is None else engine.policy.log
    kept = settings or LogSettings()
    if journal is None:
        fault = None if settings is None else "it cannot be written: see the messages of the proxy"
        return LogState(settings is not None, None, 0, fault, kept.queries.value, kept.clients.value)
    return LogState(True, str(journal.folder), journal.waiting, journal.fault, kept.queries.value, kept.clients.value)
