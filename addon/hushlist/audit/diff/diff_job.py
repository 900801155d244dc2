"""``hushlist diff``: compares two states of lists, rule by rule.

    list the chunks -> read each chunk -> compare rules of one pattern -> find rules that cover others -> report

It runs on as many processes as there are cores. Intermediate results wait in files, so memory grows neither with the
lists nor with the number of changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.audit.diff.rule_change import ChangeKind, RuleChange, RuleMeaning, RuleState
from hushlist.audit.diff.rule_comparison import (
    Cover,
    Grain,
    KeptRule,
    ReachTask,
    ReadChunk,
    RuleEvent,
    RulePlace,
    compare_rules,
    pattern_of,
    reach,
    read_rules,
    search_covers,
)
from hushlist.jobs.digest_runs import SpillByPart, digest_ranges
from hushlist.jobs.list_chunks import ChunkedList, chunk_lists, list_workers, raise_errors, read_lists
from hushlist.jobs.worker_processes import Progress, Workers
from hushlist.match.index_writer import unspill
from hushlist.policy.policy_file import ListFile

#: parts whose rules are kept in memory, to show the other rule of a change
_MOST_PARTS_KEPT = 8


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One of the two states: files, and the name of each; a rule in a file of another name has moved."""

    files: tuple[ListFile, ...]
    names: tuple[str, ...]


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
    """Which changes to report."""

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
        #: by part of OLD, numbers of removed rules; by part of NEW, numbers of added rules, and changes of others
        self._single: SpillByPart[int] = SpillByPart(folder, "single")
        self._double: SpillByPart[tuple[ChangeKind, RulePlace, int]] = SpillByPart(folder, "double")
        #: by part of the covered rule; and numbers of rules that cover one
        self._covers: SpillByPart[Cover] = SpillByPart(folder, "covers")
        self._partners: SpillByPart[int] = SpillByPart(folder, "partners")
        self._rules = lru_cache(_MOST_PARTS_KEPT)(self._read_rules)

    def read(self, old: Sequence[ChunkedList], new: Sequence[ChunkedList], names: Sequence[str]) -> None:
        """Read the lists; each has a name."""
        lists = [*old, *new]
        self._border = sum(len(own.chunks) for own in old)
        read = partial(read_rules, border=self._border, popular=self._wanted.popular, folder=self._folder)
        for at, part in read_lists(lists, self._workers, read):
            self._parts.append(part)
            self._paths.append(str(lists[at].file.path))
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
            for kind, old, new in events:
                if old is not None and new is not None:
                    self._double.add(new[0], (kind, old, new[1]))
                elif (place := old or new) is not None:
                    self._single.add(*place)
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
        for number in sorted(self._single.parts):
            is_cover = (number >= self._border) is covers_old
            grain = None if is_cover else grains[covers_old]
            yield ReachTask(number, self._parts[number], [*self._single.of(number)], grain)

    # -- reporting -----------------------------------------------------------------------------------------------

    def tell(self, found: Callable[[RuleChange], object]) -> Diff:
        """Report what became of each rule."""
        for part in sorted(self._covers.parts):
            for _, _, cover in self._nearest(part).values():
                self._partners.add(*cover)
        for part in range(len(self._parts)):
            for kind, old, new in self._events(part):
                self._tell(kind, old, new, found)
        return self._diff

    def _nearest(self, part: int) -> dict[int, Cover]:
        """For rules of a part, by number: the closest rule that covers them."""
        nearest: dict[int, Cover] = {}
        for cover in self._covers.of(part):
            number = cover[0][1]
            nearest[number] = min(cover, nearest.get(number, cover), key=itemgetter(1, 2))
        return nearest

    def _events(self, part: int) -> Iterator[tuple[ChangeKind, RulePlace | None, RulePlace | None]]:
        """What became of the rules of a part, in their order."""
        is_new = part >= self._border
        nearest, partners = self._nearest(part), {*self._partners.of(part)}
        events: list[tuple[int, ChangeKind, RulePlace | None]] = [
            (number, kind, old) for kind, old, number in self._double.of(part)
        ]
        for number in self._single.of(part):
            if number in nearest:
                events.append((number, ChangeKind.NARROWED if is_new else ChangeKind.BROADENED, nearest[number][2]))
            elif number not in partners:
                events.append((number, ChangeKind.ADDED if is_new else ChangeKind.REMOVED, None))
            elif number in self._parts[part].broad:
                self._diff.counts[ChangeKind.ADDED] -= 1  # reported as broad, counted with the rules that it covers
                events.append((number, ChangeKind.ADDED, None))
        for number, kind, other in sorted(events, key=itemgetter(0)):
            if kind not in (ChangeKind.CHANGED, ChangeKind.MOVED):
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
            found(RuleChange(kind, self._stand(old), self._stand(new), broad))

    def _why_broad(self, kind: ChangeKind, old: RulePlace | None, new: RulePlace | None) -> str | None:
        """Why an added or changed rule is broad."""
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
        return RuleState(self._paths[part], kept[0], str(pattern_of(kept)), self._meaning(place))

    def _read_rules(self, part: int) -> list[KeptRule]:
        rules: list[KeptRule] = unspill(self._parts[part].rules)
        return rules
