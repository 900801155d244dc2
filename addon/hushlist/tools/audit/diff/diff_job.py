"""``hushlist diff``: compares two states of lists, rule by rule.

    find the two sides -> list the chunks -> read each chunk -> compare rules of one pattern
    -> find rules that cover others -> report

It runs on as many processes as there are cores. Intermediate results wait in files, so memory grows neither with the
lists nor with the number of changes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.core.compile.list_chunks import (
    ChunkedList,
    SpillByPart,
    chunk_lists,
    digest_ranges,
    list_workers,
    raise_errors,
    read_lists,
)
from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_formats import files_of_folder
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import unspill
from hushlist.core.policy.policy_file import Layer, ListFile, Policy, list_files
from hushlist.core.system.files import fingerprints, open_regular
from hushlist.tools.audit.diff.rule_comparison import (
    ChangeKind,
    Cover,
    Grain,
    KeptRule,
    ReachTask,
    ReadChunk,
    RuleChange,
    RuleEvent,
    RuleMeaning,
    RulePlace,
    RuleState,
    compare_rules,
    differences,
    pattern_of,
    reach,
    read_rules,
    search_covers,
)

#: parts whose rules are kept in memory, to show the other rule of a change
_MOST_PARTS_KEPT = 8
#: kinds of rules that have no partner of the same pattern
_ALONE = (ChangeKind.ADDED, ChangeKind.REMOVED)
#: octets of a file that are searched for signs of a policy
_HEAD = 1 << 20
_LAYERS = re.compile(rb"""^[ \t{]*["']?layers["']?[ \t]*:""", re.MULTILINE)
_LAYER = "lists"

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
    files = tuple(list_files(path, form, replace(defaults, layer=defaults.layer or _LAYER)))
    seals = {} if key is None else {key.fingerprint: key}
    looks = fingerprints(file.path for file in files)
    return _side(path, files, Policy(str(path), (Layer(_LAYER, lists=files),), seals=seals, files=looks))


def _side(path: Path, files: Sequence[ListFile], policy: Policy) -> DiffSide:
    return DiffSide(tuple(files), tuple(file.path.name if path.is_dir() else "" for file in files), policy)


def replaced(policy: Policy, old: Path, new: Path) -> tuple[DiffSide, DiffSide]:
    """A policy's list, and its replacement, read as the policy says; ``SourceError`` if one of them cannot be used."""
    olds = [file for layer in policy.layers for file in layer.lists if _is_of(file.path, old)]
    if not olds:
        known = ", ".join(sorted({file.source for layer in policy.layers for file in layer.lists}))
        raise SourceError(
            [Problem(policy.source, 0, str(old), f"it is none of the policy's lists ({known or 'none'})")]
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
            found = _replacements(file, of_layer, new, is_folder=old.is_dir())
            news += found
            lists += found
        layers.append(replace(layer, lists=tuple(lists)))
    if not news:
        raise SourceError([Problem(str(new), 0, "list", f"nothing in it can stand in the place of {old}")])
    files = {path: seen for path, seen in policy.files.items() if not _is_of(path, old)}
    files |= fingerprints(file.path for file in news)
    return _side(old, olds, policy), _side(new, news, replace(policy, layers=tuple(layers), files=files))


def _is_of(path: Path, old: Path) -> bool:
    """Whether a file is the list, or in its folder."""
    own, wanted = path.resolve(), old.resolve()
    return own == wanted or (own.parent == wanted and wanted.is_dir())


def _replacements(file: ListFile, olds: Sequence[ListFile], new: Path, *, is_folder: bool) -> list[ListFile]:
    """What replaces a file of a layer; it keeps the old name, as if it were moved there.

    The first of a folder also brings the files that the old folder does not have.
    """
    defaults = replace(file.defaults, name=file.defaults.name or file.path.stem)
    if not is_folder:
        return [replace(file, path=new, defaults=defaults)]
    found = [replace(file, path=new / file.path.name, defaults=defaults)]
    if file is olds[0]:
        known = {own.path.name for own in olds}
        more = files_of_folder(new, "squidguard", Path.exists)
        found += [ListFile(path, form, defaults) for path, form in more if path.name not in known]
    return [own for own in found if own.path.exists()]


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
    found: Callable[[RuleChange], object],
    wanted: DiffOptions = DiffOptions(),
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Diff:
    """Compare; ``found`` is called with each change: removed rules in the order of OLD, then others in that of NEW.

    Raises:
        SourceError: a file cannot be read or has errors, or there are too many rules.
        WorkerError: a process ended too early.
    """
    lists = chunk_lists((*old.files, *new.files), "diff")
    with TemporaryDirectory() as name, list_workers(lists, jobs, progress) as workers:
        run = _DiffRun(wanted, Path(name), workers)
        run.read(lists[: len(old.files)], lists[len(old.files) :], (*old.names, *new.names))
        run.compare()
        run.cover()
        return run.tell(found)


class _DiffRun:
    """One run; each step uses the results of the steps before it."""

    def __init__(self, wanted: DiffOptions, folder: Path, workers: Workers) -> None:
        self._wanted, self._folder, self._workers = wanted, folder, workers
        self._diff = Diff()
        self._parts: list[ReadChunk] = []
        #: by part: the path of its file, and the file's name
        self._paths: list[str] = []
        self._names: list[str] = []
        #: this part and all after it are NEW's
        self._border = 0
        #: by part: a rule's number, what became of it, and the place of the old rule
        self._events: SpillByPart[tuple[int, ChangeKind, RulePlace | None]] = SpillByPart(folder)
        #: by part of the covered rule; and numbers of rules that cover one
        self._covers: SpillByPart[Cover] = SpillByPart(folder)
        self._partners: SpillByPart[int] = SpillByPart(folder)
        self._rules = lru_cache(_MOST_PARTS_KEPT)(self._read_rules)

    def read(self, old: Sequence[ChunkedList], new: Sequence[ChunkedList], names: Sequence[str]) -> None:
        """Read the lists; each has a name."""
        lists = [*old, *new]
        self._border = sum(len(own.chunks) for own in old)
        read = partial(read_rules, border=self._border, popular=self._wanted.popular, folder=self._folder)
        for at, part in read_lists(lists, self._workers, read):
            self._parts.append(part)
            self._paths.append(lists[at].file.source)
            self._names.append(names[at])
        raise_errors(lists)
        self._diff.old_refused = sum(own.report.refused for own in old)
        self._diff.new_refused = sum(own.report.refused for own in new)

    def compare(self) -> None:
        """Compare rules of one pattern."""
        runs = [part.run for part in self._parts]
        compare = partial(
            compare_rules,
            runs=runs,
            border=self._border,
            names=self._names,
            meanings_by_part=[part.meanings for part in self._parts],
            folder=self._folder,
            tells_moved=self._wanted.moved,
        )
        for compared in self._workers.map("compared", compare, digest_ranges(runs)):
            self._diff.old += compared.old
            self._diff.new += compared.new
            self._diff.counts += compared.counts
            events: list[RuleEvent] = unspill(compared.events)
            for (part, number), kind, other in events:
                self._events.add(part, (number, kind, other))
        self._diff.added = self._diff.counts.pop(ChangeKind.ADDED, 0)
        self._diff.removed = self._diff.counts.pop(ChangeKind.REMOVED, 0)

    def cover(self) -> None:
        """Find added rules that cover removed ones, and removed rules that covered added ones."""
        if not (self._diff.added and self._diff.removed):
            return
        for covers_old in (True, False):
            reached = self._workers.apply(partial(reach, folder=self._folder), self._reaches(covers_old=covers_old))
            runs = [run for run in reached if run.starts[-1]]
            search = partial(search_covers, runs=runs, border=self._border, folder=self._folder, covers_old=covers_old)
            for stored in self._workers.map("covered", search, digest_ranges(runs)):
                for cover in unspill(stored):
                    self._covers.add(cover[0][0], cover)

    def _reaches(self, *, covers_old: bool) -> Iterator[ReachTask]:
        """The tasks for parts that have removed or added rules."""
        sides = self._parts[: self._border], self._parts[self._border :]
        grains = [reduce(Grain.joined, (part.grain for part in side), Grain()) for side in sides]
        for part in sorted(self._events.parts):
            numbers = [number for number, kind, _ in self._events.of(part) if kind in _ALONE]
            is_cover = (part >= self._border) is covers_old
            if numbers:
                yield ReachTask(part, self._parts[part], numbers, None if is_cover else grains[covers_old])

    # -- reporting -----------------------------------------------------------------------------------------------

    def tell(self, found: Callable[[RuleChange], object]) -> Diff:
        """Report what became of each rule."""
        for part in sorted(self._covers.parts):
            for _, _, cover in self._nearest(part).values():
                self._partners.add(*cover)
        for part in range(len(self._parts)):
            for kind, old, new in self._outcomes(part):
                self._tell(kind, old, new, found)
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
        is_new, broad = part >= self._border, self._parts[part].broad
        nearest, partners = self._nearest(part), {*self._partners.of(part)}
        for number, kind, other in sorted(self._events.of(part), key=itemgetter(0)):
            if kind in _ALONE:
                if number in nearest:
                    kind, other = ChangeKind.NARROWED if is_new else ChangeKind.BROADENED, nearest[number][2]
                elif number in partners:
                    if number not in broad:
                        continue
                    self._diff.counts[kind] -= 1  # reported as broad, counted with the rules that it covers
                self._diff.counts[kind] += 1
            own = part, number
            yield (kind, other, own) if is_new else (kind, own, other)

    def _tell(
        self, kind: ChangeKind, old: RulePlace | None, new: RulePlace | None, found: Callable[[RuleChange], object]
    ) -> None:
        """Report a change if the options ask for it; broad rules are always reported."""
        broad = self._why_broad(kind, old, new)
        self._diff.broad += broad is not None
        limit = self._wanted.limit
        if broad is not None or limit is None or self._diff.shown[kind] < limit:
            self._diff.shown[kind] += 1
            how = tuple(differences(self._meaning(old), self._meaning(new))) if old and new else ()
            found(RuleChange(kind, self._stand(old), self._stand(new), how, broad))

    def _why_broad(self, kind: ChangeKind, old: RulePlace | None, new: RulePlace | None) -> str | None:
        if new is None or kind in (ChangeKind.BROADENED, ChangeKind.MOVED):
            return None
        why = self._parts[new[0]].broad.get(new[1])
        if why is not None and kind is ChangeKind.CHANGED and old is not None:
            return why if self._meaning(old).action is not self._meaning(new).action else None
        return why

    def _meaning(self, place: RulePlace) -> RuleMeaning:
        part, number = place
        return self._parts[part].meanings[self._rules(part)[number][2]]

    def _stand(self, place: RulePlace | None) -> RuleState | None:
        if place is None:
            return None
        part, number = place
        kept = self._rules(part)[number]
        return RuleState(self._paths[part], kept[0], str(pattern_of(kept)), *self._meaning(place)[:-1])

    def _read_rules(self, part: int) -> list[KeptRule]:
        rules: list[KeptRule] = unspill(self._parts[part].rules)
        return rules
