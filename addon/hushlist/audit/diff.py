"""``hushlist diff``: what became of the rules of one state of lists in another.

    survey the files -> read each piece -> compare rules of one pattern -> look for what covers what is gone -> tell

On as many processes as there are cores; what is found waits in files, so that the memory that it takes grows neither
with the lists nor with what has changed in them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hushlist.audit.broader import Grain
from hushlist.audit.by_part import ByPart
from hushlist.audit.change import Change, Kind, Meaning, Stand
from hushlist.audit.compare import (
    Compared,
    Cover,
    Event,
    Kept,
    Look,
    Part,
    Piece,
    Place,
    Reach,
    Search,
    compare,
    pattern_of,
    reach,
    read,
    search,
)
from hushlist.audit.rows import fetch, tasks
from hushlist.errors import Problem, SourceError
from hushlist.match.compiler import MOST_PARTS, Run
from hushlist.policy.policy import ListFile
from hushlist.policy.processes import Parallel, Progress, processes, silent, watched
from hushlist.policy.survey import Survey, survey_of

#: with fewer octets than this in all lists, other processes are not worth their start
_FEW = 1 << 21
#: parts whose rules are kept in memory, to say what the other end of a change is
_MOST_PARTS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two states: files, and what each is called where that tells whether a rule has moved."""

    files: tuple[ListFile, ...]
    names: tuple[str, ...]


@dataclass(slots=True)
class Diff:
    """How much there is of what; a rule that a list has twice is one."""

    #: rules
    old: int = 0
    new: int = 0
    #: entries that no rule could be made of
    old_refused: int = 0
    new_refused: int = 0
    #: all that came and all that is gone, those among them that another covers, too
    added: int = 0
    removed: int = 0
    #: by kind: each rule that came or is gone is of at most one
    counts: Counter[Kind] = field(default_factory=Counter)
    #: rules that came, or do something else now, and cover more than their author hardly means
    broad: int = 0
    #: changes that were told
    shown: Counter[Kind] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "rules": {"old": self.old, "new": self.new},
            "left_out": {"old": self.old_refused, "new": self.new_refused},
            "added": self.added,
            "removed": self.removed,
            "counts": {kind.value: self.counts[kind] for kind in Kind},
            "broad": self.broad,
            "shown": {kind.value: self.shown[kind] for kind in Kind if self.shown[kind]},
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be told."""

    #: changes of each kind; ``None`` for all
    limit: int | None = None
    #: those that have only moved, too
    moved: bool = False
    #: canonical hosts, the most popular first: rules that cover one are broad
    popular: tuple[bytes, ...] = ()


def diff(
    old: Side,
    new: Side,
    found: Callable[[Change], object],
    wanted: Wanted = Wanted(),
    *,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Diff:
    """Compare; ``found`` is called with each change: of what is gone in the order of OLD, then in the order of NEW.

    Raises:
        SourceError: a file cannot be read or has errors, they are too many, or a process ended before its time.
    """
    surveys = [(is_new, survey_of(file)) for is_new, side in ((False, old), (True, new)) for file in side.files]
    if errors := [problem for _, survey in surveys for problem in survey.report.errors]:
        raise SourceError(errors)
    if sum(len(survey.pieces) for _, survey in surveys) >= MOST_PARTS:
        raise _error(f"there are more than {MOST_PARTS - 1} files and pieces of files")
    is_small = sum(survey.length for _, survey in surveys) < _FEW
    try:
        with TemporaryDirectory() as name, processes(1 if is_small else jobs or os.cpu_count() or 1) as parallel:
            run = _Run(wanted, Path(name), parallel, progress)
            run.read(surveys, (*old.names, *new.names))
            run.compare()
            run.cover()
            return run.tell(found)
    except BrokenExecutor as error:
        raise _error("a process ended before it had done its part") from error


def _error(why: str) -> SourceError:
    return SourceError([Problem("diff", 0, "lists", why)])


class _Run:
    """One run; each step uses what those before it have found."""

    def __init__(self, wanted: Wanted, folder: Path, parallel: Parallel, progress: Progress) -> None:
        self._wanted, self._folder, self._parallel, self._progress = wanted, folder, parallel, progress
        self._diff = Diff()
        self._parts: list[Part] = []
        #: by part: the path of its file, and what that is called
        self._paths: list[str] = []
        self._names: list[str] = []
        #: the parts from this one on are NEW's
        self._border = 0
        #: by part of OLD, numbers of rules that are gone; by part of NEW, those that came, and changes of others
        self._single: ByPart[int] = ByPart(folder, "single")
        self._double: ByPart[tuple[Kind, Place, int]] = ByPart(folder, "double")
        #: by part of the rule that is covered; and numbers of rules that cover one
        self._covers: ByPart[Cover] = ByPart(folder, "covers")
        self._partners: ByPart[int] = ByPart(folder, "partners")
        self._rules = lru_cache(_MOST_PARTS_KEPT)(self._read_rules)

    def read(self, surveys: Sequence[tuple[bool, Survey]], names: Sequence[str]) -> None:
        """Read the files: whether each is of NEW, and what it is called."""
        work = [(at, stretch) for at, (_, survey) in enumerate(surveys) for stretch in survey.pieces]
        pieces = (
            Piece(number, surveys[at][1].file, stretch, surveys[at][0], self._wanted.popular, self._folder)
            for number, (at, stretch) in enumerate(work)
        )
        results = watched("read", self._parallel(read, pieces), len(work), self._progress)
        for (at, _), part in zip(work, results, strict=True):
            is_new, survey = surveys[at]
            survey.report.merge(part.report)
            self._parts.append(part)
            self._paths.append(str(survey.file.path))
            self._names.append(names[at])
            self._border += not is_new
        if errors := [problem for _, survey in surveys for problem in survey.report.errors]:
            raise SourceError(errors)
        self._diff.old_refused = sum(survey.report.refused for is_new, survey in surveys if not is_new)
        self._diff.new_refused = sum(survey.report.refused for is_new, survey in surveys if is_new)

    def compare(self) -> None:
        """Compare rules of one pattern."""
        meanings = tuple(part.meanings for part in self._parts)
        own = [
            Look(task, self._border, tuple(self._names), meanings, self._wanted.moved, self._folder)
            for task in tasks([part.run for part in self._parts])
        ]
        results: Iterator[Compared] = watched("compared", self._parallel(compare, own), len(own), self._progress)
        for compared in results:
            self._diff.old += compared.old
            self._diff.new += compared.new
            self._diff.counts += compared.counts
            events: list[Event] = fetch(compared.events)
            for kind, old, new in events:
                if old is not None and new is not None:
                    self._double.add(new[0], (kind, old, new[1]))
                elif (place := old or new) is not None:
                    self._single.add(*place)
        self._diff.added = self._diff.counts.pop(Kind.ADDED, 0)
        self._diff.removed = self._diff.counts.pop(Kind.REMOVED, 0)

    def cover(self) -> None:
        """Look for what came that covers what is gone, and the other way round."""
        if not (self._diff.added and self._diff.removed):
            return
        for covers_old in (True, False):
            own = list(self._parallel(reach, self._reaches(covers_old=covers_old)))
            runs: list[Run] = [run for run in own if run.starts[-1]]
            looks = [Search(task, self._border, covers_old, self._folder) for task in tasks(runs)]
            for stored in watched("covered", self._parallel(search, looks), len(looks), self._progress):
                for cover in fetch(stored):
                    self._covers.add(cover[0][0], cover)

    def _reaches(self, *, covers_old: bool) -> Iterator[Reach]:
        """Of parts with rules that are gone or came."""
        grains = (
            _joined(self._parts[: self._border]),
            _joined(self._parts[self._border :]),
        )
        for number in sorted(self._single.parts):
            is_cover = (number >= self._border) is covers_old
            grain = None if is_cover else grains[covers_old]
            yield Reach(number, self._parts[number], [*self._single.of(number)], grain, self._folder)

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell(self, found: Callable[[Change], object]) -> Diff:
        """Say of each rule what became of it."""
        for part in sorted(self._covers.parts):
            for _, _, cover in self._nearest(part).values():
                self._partners.add(*cover)
        for part in range(len(self._parts)):
            for kind, old, new in self._events(part):
                self._tell(kind, old, new, found)
        return self._diff

    def _nearest(self, part: int) -> dict[int, Cover]:
        """Of rules of a part, by their numbers, the next that covers them."""
        nearest: dict[int, Cover] = {}
        for cover in self._covers.of(part):
            number = cover[0][1]
            nearest[number] = min(cover, nearest.get(number, cover), key=_distance)
        return nearest

    def _events(self, part: int) -> Iterator[tuple[Kind, Place | None, Place | None]]:
        """What became of the rules of a part, in their order."""
        is_new = part >= self._border
        nearest, partners = self._nearest(part), {*self._partners.of(part)}
        events: list[tuple[int, Kind, Place | None]] = [
            (number, kind, old) for kind, old, number in self._double.of(part)
        ]
        for number in self._single.of(part):
            if number in nearest:
                events.append((number, Kind.NARROWED if is_new else Kind.BROADENED, nearest[number][2]))
            elif number not in partners:
                events.append((number, Kind.ADDED if is_new else Kind.REMOVED, None))
            elif number in self._parts[part].broad:
                self._diff.counts[Kind.ADDED] -= 1  # it is told for being broad, and counted with what it covers
                events.append((number, Kind.ADDED, None))
        for number, kind, other in sorted(events, key=_number):
            if kind not in (Kind.CHANGED, Kind.MOVED):
                self._diff.counts[kind] += 1
            own = part, number
            yield (kind, other, own) if is_new else (kind, own, other)

    def _tell(self, kind: Kind, old: Place | None, new: Place | None, found: Callable[[Change], object]) -> None:
        """Tell of a change, if it is one of those to be told; what is broad always is."""
        broad = self._why_broad(kind, old, new)
        self._diff.broad += broad is not None
        limit = self._wanted.limit
        if broad is not None or limit is None or self._diff.shown[kind] < limit:
            self._diff.shown[kind] += 1
            found(Change(kind, self._stand(old), self._stand(new), broad))

    def _why_broad(self, kind: Kind, old: Place | None, new: Place | None) -> str | None:
        """What is broad about a rule that came, or does something else now."""
        if new is None or kind in (Kind.BROADENED, Kind.MOVED):
            return None
        why = self._parts[new[0]].broad.get(new[1])
        if why is not None and kind is Kind.CHANGED and old is not None:
            return why if self._meaning(old).action is not self._meaning(new).action else None
        return why

    def _meaning(self, place: Place) -> Meaning:
        part, number = place
        return self._parts[part].meanings[self._rules(part)[number][2]]

    def _stand(self, place: Place | None) -> Stand | None:
        if place is None:
            return None
        part, number = place
        kept = self._rules(part)[number]
        return Stand(self._paths[part], kept[0], str(pattern_of(kept)), self._meaning(place))

    def _read_rules(self, part: int) -> list[Kept]:
        rules: list[Kept] = fetch(self._parts[part].rules)
        return rules


def _joined(parts: Sequence[Part]) -> Grain:
    grain = Grain()
    for part in parts:
        grain = grain.joined(part.grain)
    return grain


def _distance(cover: Cover) -> tuple[int, Place]:
    return cover[1:]


def _number(event: tuple[int, Kind, Place | None]) -> int:
    return event[0]
