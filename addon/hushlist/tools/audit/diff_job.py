"""``hushlist diff``: compares two states of lists, rule by rule.

    find the two sides -> read each chunk of their lists -> compare rules -> find rules that cover others -> report

The gate's comparer does it (``extensions/subscriptions/rule_comparison.py``), on as many processes as there are cores.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.core.compile import list_chunks
from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_formats import files_of_folder
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.index_file import decode_terms, table_key
from hushlist.core.match.rule import Action, Terms
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import unspill
from hushlist.core.policy.policy_file import Layer, ListFile, Policy, list_files
from hushlist.core.system.files import fingerprints, open_regular
from hushlist.extensions.subscriptions.rule_comparison import (
    ChangeKind,
    Cover,
    ReachTask,
    RuleEvent,
    RulePlace,
    SpillByPart,
    TwoStates,
    compare_rules,
    find_covers,
    grain_of,
    ranges_of,
    sources_of,
)

#: parts whose rules are kept in memory, to show the other rule of a change
_MOST_PARTS_KEPT = 8
#: kinds of rules that have no partner of the same pattern
_ALONE = (ChangeKind.ADDED, ChangeKind.REMOVED)
#: octets of a file that are searched for signs of a policy
_HEAD = 1 << 20
_LAYERS = re.compile(rb"""^[ \t{]*["']?layers["']?[ \t]*:""", re.MULTILINE)
_LAYER = "lists"

# -- changes -----------------------------------------------------------------------------------------------------------


class RuleMeaning(NamedTuple):
    """All of a rule but its pattern and its place."""

    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    #: the policy's layer that has its list
    layer: str
    #: whether the list shows in the clear what the rule fits
    is_clear: bool
    #: as in ``Terms``
    values: tuple[tuple[str, str], ...] = ()


def meaning_of(is_clear: bool, terms: Terms) -> RuleMeaning:
    return RuleMeaning(terms.action, terms.category, terms.reason, terms.expires, terms.layer, is_clear, terms.values)


class RuleState(NamedTuple):
    """A rule: its place, what it fits, and its meaning; whether it is in the clear shows in what it fits."""

    source: str
    line: int
    rule: str
    action: Action
    category: str | None
    reason: str | None
    expires: date | None
    layer: str


_SIGNS = {ChangeKind.REMOVED: "-", ChangeKind.ADDED: "+", ChangeKind.MOVED: "="}


class RuleChange(NamedTuple):
    kind: ChangeKind
    old: RuleState | None
    new: RuleState | None
    #: what differs in the new rule's meaning
    how: tuple[str, ...]
    #: why it is broad, for a person
    broad: str | None

    def __str__(self) -> str:
        old, new = self.old, self.new
        place = " -> ".join(f"{stand.source}:{stand.line}" for stand in (old, new) if stand is not None)
        rules = " -> ".join(dict.fromkeys(stand.rule for stand in (old, new) if stand is not None))
        kind = "" if self.kind in _SIGNS else f"{self.kind}: "
        asks = ""
        only = new or old
        if (old is None or new is None) and only is not None and only.action is not Action.BLOCK:
            asks = f" ({only.action})"
        how = f" ({'; '.join(self.how)})" if self.how else ""
        broad = f": broad: {self.broad}" if self.broad else ""
        return f"{_SIGNS.get(self.kind, '~')} {place}: {kind}{rules}{asks}{how}{broad}"


def differences(old: RuleMeaning, new: RuleMeaning) -> Iterator[str]:
    """The differences, in words.

    >>> own = RuleMeaning(Action.BLOCK, None, "ads", None, "", is_clear=True)
    >>> [*differences(own, own._replace(action=Action.WARN, is_clear=False))]
    ['action: block -> warn', 'now hashed']
    >>> [*differences(own, own._replace(values=(("with", "needs"),)))]
    ['with: none -> needs']
    """
    for name in ("action", "category", "reason", "expires", "layer"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name}: {_named(before)} -> {_named(after)}"
    before, after = dict(old.values), dict(new.values)
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield f"{key}: {_named(before.get(key))} -> {_named(after.get(key))}"
    if old.is_clear != new.is_clear:
        yield "now in the clear" if new.is_clear else "now hashed"


def _named(value: object) -> str:
    return "none" if value is None else str(value)


# -- the two sides -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One of the two states: files, and the name of each; a rule in a file of another name has moved."""

    files: tuple[ListFile, ...]
    names: tuple[str, ...]
    #: uses these files
    policy: Policy


def is_policy(path: Path) -> bool:
    """Whether a file is a policy (a YAML document with layers), not a list."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    try:
        with open_regular(path) as file:
            return _LAYERS.search(file.read(_HEAD)) is not None
    except (OSError, ValueError):
        return False  # the next reader reports why


def side_of_policy(policy: Policy) -> DiffSide:
    """All files of a policy, named by their paths relative to it."""
    files = tuple(file for layer in policy.layers for file in layer.lists)
    folder = Path(policy.source).parent
    return DiffSide(files, tuple(file.url or os.path.relpath(file.path, folder) for file in files), policy)


def side_of_list(path: Path, form: str | None, defaults: ListDefaults, key: SealKey | None = None) -> DiffSide:
    """The file of a list, or the files of a folder, which keep their names; and a policy with just this list.

    ``key`` is that of sealed hashes; without it, nothing can be decided by them. ``SourceError`` if there is no such
    list.
    """
    files = tuple(list_files(path, form, defaults._replace(layer=defaults.layer or _LAYER)))
    seals = {} if key is None else {key.fingerprint: key}
    looks = fingerprints(file.path for file in files)
    return _side(path, files, Policy(str(path), (Layer(_LAYER, lists=files),), seals=seals, files=looks))


def _side(path: Path, files: Sequence[ListFile], policy: Policy) -> DiffSide:
    return DiffSide(tuple(files), tuple(file.path.name if path.is_dir() else "" for file in files), policy)


def replaced(policy: Policy, old: Path, new: Path) -> tuple[DiffSide, DiffSide]:
    """A policy's list, and its replacement, read as the policy says; ``SourceError`` if one of them cannot be used."""
    olds = [file for layer in policy.layers for file in layer.lists if _is_of(file.path, old)]
    if not olds:
        names = ", ".join(sorted({file.source for layer in policy.layers for file in layer.lists}))
        raise SourceError(
            [Problem(policy.source, 0, str(old), f"it is none of the policy's lists ({names or 'none'})")]
        )
    news: list[ListFile] = []
    layers: list[Layer] = []
    for layer in policy.layers:
        of_layer = [file for file in layer.lists if _is_of(file.path, old)]
        lists: list[ListFile] = []
        for file in layer.lists:
            if not _is_of(file.path, old):
                lists.append(file)
                continue
            replacements = _replacements(file, of_layer, new, is_folder=old.is_dir())
            news += replacements
            lists += replacements
        layers.append(layer._replace(lists=tuple(lists)))
    if not news:
        raise SourceError([Problem(str(new), 0, "list", f"nothing in it can stand in the place of {old}")])
    files = {path: seen for path, seen in policy.files.items() if not _is_of(path, old)}
    files |= fingerprints(file.path for file in news)
    return _side(old, olds, policy), _side(new, news, policy._replace(layers=tuple(layers), files=files))


def _is_of(path: Path, old: Path) -> bool:
    """Whether a file is the list, or in its folder."""
    resolved, wanted = path.resolve(), old.resolve()
    return resolved == wanted or (resolved.parent == wanted and wanted.is_dir())


def _replacements(file: ListFile, olds: Sequence[ListFile], new: Path, *, is_folder: bool) -> list[ListFile]:
    """What replaces a file of a layer; it keeps the old name, as if it were moved there.

    The first of a folder also brings the files that the old folder does not have.
    """
    defaults = file.defaults._replace(name=file.defaults.name or file.path.stem)
    if not is_folder:
        return [file._replace(path=new, defaults=defaults)]
    files = [file._replace(path=new / file.path.name, defaults=defaults)]
    if file is olds[0]:
        names = {file_.path.name for file_ in olds}
        more = files_of_folder(new, "squidguard", Path.exists)
        files += [ListFile(path, form, defaults) for path, form in more if path.name not in names]
    return [file_ for file_ in files if file_.path.exists()]


# -- comparing them ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Diff:
    """The numbers of a diff; a rule that a list has twice is counted once."""

    #: rules
    old: int = 0
    new: int = 0
    #: entries that make no rule
    old_refused: int = 0
    new_refused: int = 0
    #: all rules that were added or removed, also those that another rule covers
    added: int = 0
    removed: int = 0
    #: changes by kind: each added or removed rule is in at most one kind
    counts: Counter[ChangeKind] = field(default_factory=Counter)
    #: rules that were added or changed, and cover more than their author probably means
    broad: int = 0
    #: changes that were reported
    shown: Counter[ChangeKind] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, object]:
        """The same as plain types, for JSON."""
        return {
            "rules": {"old": self.old, "new": self.new},
            "left_out": {"old": self.old_refused, "new": self.new_refused},
            "added": self.added,
            "removed": self.removed,
            "counts": {kind.value: self.counts[kind] for kind in ChangeKind},
            "broad": self.broad,
            "shown": {kind.value: self.shown[kind] for kind in ChangeKind if self.shown[kind]},
        }


@dataclass(frozen=True, slots=True)
class DiffOptions:
    #: most changes of each kind; ``None`` for all
    limit: int | None = None
    #: whether to report rules that have only moved
    moved: bool = False
    #: canonical hosts, the most popular first: a rule that covers one of them is broad
    popular: tuple[bytes, ...] = ()


def diff(
    old: DiffSide,
    new: DiffSide,
    report: Callable[[RuleChange], object],
    wanted: DiffOptions = DiffOptions(),
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Diff:
    """Compare; ``report`` is called with each change: removed rules in the order of OLD, then others in that of NEW.

    Raises:
        SourceError: a file cannot be read or has errors, or there are too many rules.
        WorkerError: a process ended too early.
    """
    lists = list_chunks.chunk_lists((*old.files, *new.files), "diff")
    with TemporaryDirectory() as name, list_chunks.list_workers(lists, jobs, progress) as workers:
        run = _DiffRun(wanted, Path(name), workers)
        run.read(lists, len(old.files), (*old.names, *new.names))
        run.compare()
        run.cover()
        return run.tell(report)


#: where a rule of a part is: its line, table and key -> why it is broad
_Broad = dict[tuple[int, str, bytes], str]


def _collect(chunk: list_chunks.LoadedChunk, popular: tuple[bytes, ...], folder: Path) -> tuple[CollectedPart, _Broad]:
    part, broad = list_chunks.collect_rules(chunk, chunk.rule_blocks, popular, folder)
    return part, {(rule.line, *table_key(rule.pattern)): why for rule, why in broad}  # type: ignore[arg-type]


class _DiffRun:
    """One run; each step uses the results of the steps before it."""

    def __init__(self, wanted: DiffOptions, folder: Path, workers: Workers) -> None:
        self._wanted, self._folder, self._workers = wanted, folder, workers
        self._diff = Diff()
        self._parts: list[CollectedPart] = []
        #: by part: the broad rules of NEW; what its rules mean, by number; the name of its file
        self._broad: list[_Broad] = []
        self._meanings: list[list[RuleMeaning]] = []
        self._names: list[str] = []
        #: this part and all after it are NEW's
        self._border = 0
        #: by part of the rule that an event is of
        self._events: SpillByPart[RuleEvent] = SpillByPart(folder)
        #: by part of the covered rule; and numbers of rules that cover one
        self._covers: SpillByPart[Cover] = SpillByPart(folder)
        self._partners: SpillByPart[int] = SpillByPart(folder)
        self._patterns = lru_cache(_MOST_PARTS_KEPT)(lambda part: self._sources[part].patterns())

    def read(self, lists: Sequence[list_chunks.ChunkedList], olds: int, names: Sequence[str]) -> None:
        """Read the lists, of which the first are OLD's; each has a name."""
        self._sources = sources_of(lists)
        self._border = len(sources_of(lists[:olds]))
        collect = partial(_collect, popular=self._wanted.popular, folder=self._folder)
        for at, (part, broad) in list_chunks.read_lists(lists, self._workers, collect):
            self._parts.append(part)
            self._broad.append(broad if at >= olds else {})
            self._meanings.append([meaning_of(*decode_terms(terms)) for terms in part.terms])
            self._names.append(names[at])
        list_chunks.raise_errors(lists)
        self._diff.old_refused = sum(chunked.report.refused for chunked in lists[:olds])
        self._diff.new_refused = sum(chunked.report.refused for chunked in lists[olds:])

    def compare(self) -> None:
        """Compare rules of one pattern."""
        states = TwoStates.of(self._parts, self._border, meaning_of)
        moved, folder = self._wanted.moved, self._folder
        compare = partial(compare_rules, states=states, folder=folder, names=self._names, tells_moved=moved)
        for compared in self._workers.map("compared", compare, ranges_of(self._parts)):
            self._diff.old += compared.old
            self._diff.new += compared.new
            self._diff.counts += compared.counts
            for event in unspill(compared.events):
                self._events.add(event[0].part, event)
        self._diff.added = self._diff.counts.pop(ChangeKind.ADDED, 0)
        self._diff.removed = self._diff.counts.pop(ChangeKind.REMOVED, 0)

    def _alone(self, part: int) -> list[RulePlace]:
        """The added or removed rules of a part; numbers of rules in covers are places in this list."""
        return sorted(place for place, kind, _ in self._events.of(part) if kind in _ALONE)

    def cover(self) -> None:
        """Find added rules that cover removed ones, and removed rules that covered added ones."""
        if not (self._diff.added and self._diff.removed):
            return
        grains = [grain_of(self._parts[: self._border]), grain_of(self._parts[self._border :])]
        for covers_old in (True, False):
            tasks = (
                ReachTask(self._parts[part], self._sources[part], places, None if is_cover else grains[covers_old])
                for part in sorted(self._events.parts)
                for is_cover in ((part >= self._border) is covers_old,)
                if (places := self._alone(part))
            )
            for cover in find_covers(tasks, self._border, self._folder, self._workers, covers_old=covers_old):
                self._covers.add(cover[0][0], cover)

    # -- reporting -----------------------------------------------------------------------------------------------

    def tell(self, report: Callable[[RuleChange], object]) -> Diff:
        """Report what became of each rule."""
        for part in sorted(self._covers.parts):
            for _, _, cover in self._nearest(part).values():
                self._partners.add(*cover)
        self._place_of = lru_cache(_MOST_PARTS_KEPT)(self._alone)
        for part in range(len(self._parts)):
            for kind, old, new in self._outcomes(part):
                self._tell(kind, old, new, report)
        return self._diff

    def _nearest(self, part: int) -> dict[int, Cover]:
        """For rules of a part, by number: the closest rule that covers them."""
        nearest: dict[int, Cover] = {}
        for cover in self._covers.of(part):
            number = cover[0][1]
            nearest[number] = min(cover, nearest.get(number, cover), key=itemgetter(1, 2))
        return nearest

    def _outcomes(self, part: int) -> Iterator[tuple[ChangeKind, RulePlace | None, RulePlace | None]]:
        """What became of the rules of a part, in their order."""
        is_new, broad, number = part >= self._border, self._broad[part], -1
        nearest, partners = self._nearest(part), {*self._partners.of(part)}
        for place, kind, other in sorted(self._events.of(part), key=itemgetter(0)):
            if kind in _ALONE:
                number += 1
                if number in nearest:
                    kind = ChangeKind.NARROWED if is_new else ChangeKind.BROADENED
                    cover, at = nearest[number][2]
                    other = self._place_of(cover)[at]
                elif number in partners:
                    if place[:3] not in broad:
                        continue
                    self._diff.counts[kind] -= 1  # reported as broad, counted with the rules that it covers
                self._diff.counts[kind] += 1
            yield (kind, other, place) if is_new else (kind, place, other)

    def _tell(
        self, kind: ChangeKind, old: RulePlace | None, new: RulePlace | None, report: Callable[[RuleChange], object]
    ) -> None:
        """Report a change if the options ask for it; broad rules are always reported."""
        broad = self._why_broad(kind, old, new)
        self._diff.broad += broad is not None
        limit = self._wanted.limit
        if broad is not None or limit is None or self._diff.shown[kind] < limit:
            self._diff.shown[kind] += 1
            how = tuple(differences(self._meaning(old), self._meaning(new))) if old and new else ()
            report(RuleChange(kind, self._state(old), self._state(new), how, broad))

    def _why_broad(self, kind: ChangeKind, old: RulePlace | None, new: RulePlace | None) -> str | None:
        if new is None or kind in (ChangeKind.BROADENED, ChangeKind.MOVED):
            return None
        why = self._broad[new.part].get(new[:3])
        if why is not None and kind is ChangeKind.CHANGED and old is not None:
            return why if self._meaning(old).action is not self._meaning(new).action else None
        return why

    def _meaning(self, place: RulePlace) -> RuleMeaning:
        return self._meanings[place.part][place.terms]

    def _state(self, place: RulePlace | None) -> RuleState | None:
        if place is None:
            return None
        source, pattern = self._sources[place.part], self._patterns(place.part).get(place[:3])
        if pattern is None:
            raise source.changed
        return RuleState(source.file.source, place.line, str(pattern), *self._meaning(place)[:-2])
