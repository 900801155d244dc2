"""``hushlist leak``: how much of a list of hashes falls to a dictionary.

"Given H hashed URIs and P possible initial URIs, the time take to do this search is O(H+P)": the hashes are in memory,
the dictionary passes by, each of its entries is hashed once, whatever the list's length.

Spec: draft-feather-hashed-uri-03, 6
"""

from __future__ import annotations

import math
import os
import pickle
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.audit.dictionary import Block, blocks_of, dictionaries, size_of
from hushlist.audit.guesses import Task, Tried, try_block
from hushlist.audit.targets import Table, Targets
from hushlist.errors import Problem, SourceError
from hushlist.policy.policy import ListFile
from hushlist.policy.processes import Progress, processes, silent
from hushlist.policy.survey import read_stretch, survey_of


class Recovered(NamedTuple):
    """A rule that fell; the order is that of lines."""

    line: int
    #: what was hashed: an expression, or a URI
    plaintext: str
    table: str


@dataclass(frozen=True, slots=True)
class Row:
    """What fell of the hashes of one kind and length."""

    table: Table
    #: H: different hashes
    hashes: int
    #: P: strings that were hashed, those that two pieces of the dictionary have twice
    tried: int
    recovered: int

    @property
    def by_chance(self) -> float:
        """Of how many hashes a match is expected though nobody hashed what was tried.

        Each of P guesses is one of 2**bits equally likely digests: H * (1 - (1 - 2**-bits) ** P).
        """
        return -self.hashes * math.expm1(self.tried * math.log1p(-(2.0 ** (-8 * self.table.octets))))

    @property
    def real(self) -> float:
        """How many are left when those by chance are subtracted."""
        return max(0.0, self.recovered - self.by_chance)

    @property
    def likelihood(self) -> float:
        """At most how likely chance alone gives so many: Chernoff's bound for a Poisson distribution."""
        mean, number = self.by_chance, self.recovered
        if number <= mean:
            return 1.0
        if mean == 0:
            return 0.0
        return math.exp(min(0.0, number - mean + number * math.log(mean / number)))

    def as_dict(self) -> dict[str, object]:
        """Plain types, as JSON needs them."""
        return {
            "kind": str(self.table),
            "bits": 8 * self.table.octets,
            "hashes": self.hashes,
            "tried": self.tried,
            "recovered": self.recovered,
            "expected_by_chance": self.by_chance,
            "likelihood_of_chance": self.likelihood,
        }


@dataclass(slots=True)
class Leak:
    """What came of a search."""

    source: str
    rows: list[Row] = field(default_factory=list)
    recovered: list[Recovered] = field(default_factory=list)
    #: rules of the list that hide nothing
    clear: int = 0
    #: names and URLs of the dictionary
    entries: int = 0
    #: strings that were hashed
    tried: int = 0
    #: of the search; reading the list is not in it
    seconds: float = 0.0
    jobs: int = 1

    @property
    def hashes(self) -> int:
        """H."""
        return sum(row.hashes for row in self.rows)

    @property
    def share(self) -> float:
        """What part of the hashes fell, those by chance subtracted: 0 to 1."""
        return sum(row.real for row in self.rows) / self.hashes if self.hashes else 0.0


def read_targets(files: Sequence[ListFile]) -> tuple[Targets, list[Problem]]:
    """The hashes of a list, and warnings.

    Raises:
        SourceError: it cannot be used.
    """
    targets = Targets()
    warnings: list[Problem] = []
    for file in files:
        survey = survey_of(file)
        report = survey.report
        for stretch in survey.pieces:
            octets, own = read_stretch(file, stretch)
            targets.add(file.format.read(octets, file.defaults, own))
            report.merge(own)
        if report.errors:
            raise SourceError(report.errors)
        warnings += report.warnings
    return targets, warnings


def search(
    source: str,
    targets: Targets,
    paths: Sequence[Path],
    *,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Leak:
    """Try dictionaries on a list's hashes.

    Raises:
        SourceError: a dictionary cannot be read, or a process ended before it had done its part.
    """
    jobs = jobs or os.cpu_count() or 1
    files = list(dictionaries(list(paths)))
    found: dict[tuple[int, bytes], bytes] = {}
    tried = Tried(0, 0, 0, [])
    started = time.perf_counter()
    try:
        with TemporaryDirectory() as name, processes(jobs) as parallel:
            sets = Path(name) / "hashes"
            sets.touch(mode=0o600)
            sets.write_bytes(pickle.dumps(targets.sets))
            tasks = (Task(block, sets) for block in _watched(files, progress))
            for result in parallel(try_block, tasks):
                entries, expressions, uris, hits = result
                tried = Tried(tried.entries + entries, tried.expressions + expressions, tried.uris + uris, [])
                for number, digest, text in hits:
                    found.setdefault((number, digest), text)
    except BrokenExecutor as error:
        why = "a process ended before it had done its part"
        raise SourceError([Problem(source, 0, "search", why)]) from error
    leak = Leak(
        source,
        clear=targets.clear,
        entries=tried.entries,
        tried=tried.expressions + tried.uris,
        seconds=time.perf_counter() - started,
        jobs=jobs,
    )
    tables = targets.tables
    fallen = Counter(at for at, _ in found)
    for number, table in enumerate(tables):
        of_table = tried.expressions if table.uri is None else tried.uris
        leak.rows.append(Row(table, len(targets.lines[table]), of_table, fallen[number]))
    leak.recovered = sorted(
        Recovered(targets.lines[tables[at]][digest], text.decode(errors="backslashreplace"), str(tables[at]))
        for (at, digest), text in found.items()
    )
    return leak


def _watched(files: Sequence[Path], progress: Progress) -> Iterator[Block]:
    """The pieces of all dictionaries, with progress told."""
    path = Path()
    try:
        sizes = [size_of(path) for path in files]
        total, before = sum(sizes), 0
        for path, size in zip(files, sizes, strict=True):
            for block in blocks_of(path):
                yield block
                progress("tried", before + block.done, total)
            before += size
    except (OSError, EOFError, zlib.error) as error:
        name = str(getattr(error, "filename", None) or path)
        why = getattr(error, "strerror", None) or str(error)
        raise SourceError([Problem(name, 0, "dictionary", why)]) from error
