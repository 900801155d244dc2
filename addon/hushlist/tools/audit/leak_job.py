"""``hushlist leak``: how much of a list of hashes a dictionary recovers, and what that says about its secrecy.

"Given H hashed URIs and P possible initial URIs, the time take to do this search is O(H+P)": the hashes are in memory,
the dictionary is streamed, and each of its entries is hashed once, however long the list is. Estimates say how long
larger dictionaries would take.

Spec: draft-feather-hashed-uri-03, 6

>>> list(estimates(Leak("l", entries=2_000_000, seconds=4.0)))
[('400,000,000 names, about as many as there are registered domains', 800.0)]
"""

from __future__ import annotations

import math
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hushlist.core.compile.list_chunks import chunk_list, raise_errors, read_lists
from hushlist.core.compile.worker_processes import Progress, Workers
from hushlist.core.errors import Problem, SourceError
from hushlist.core.match.seal import SealKey
from hushlist.core.match.sorted_runs import spill
from hushlist.core.policy.policy_file import ListFile
from hushlist.core.system.files import reason_of
from hushlist.tools.audit import guesses


class Recovered(NamedTuple):
    """A recovered rule; they sort by line."""

    line: int
    #: the recovered text: an expression, or a URI
    plaintext: str
    table: str


@dataclass(frozen=True, slots=True)
class LeakRow:
    """What was recovered of the hashes of one kind and length."""

    table: guesses.TargetKind
    #: H: different hashes
    hashes: int
    #: P: hashed strings; one that is in two chunks of the dictionary counts twice
    tried: int
    recovered: int

    @property
    def by_chance(self) -> float:
        """How many hashes are expected to match by chance.

        Each of P guesses is one of 2**bits equally likely digests: H * (1 - (1 - 2**-bits) ** P).
        """
        return -self.hashes * math.expm1(self.tried * math.log1p(-(2.0 ** (-8 * self.table.octets))))

    @property
    def real(self) -> float:
        """The number of matches, without those by chance."""
        return max(0.0, self.recovered - self.by_chance)

    @property
    def likelihood(self) -> float:
        """An upper limit of the probability that chance gives so many: Chernoff's bound for a Poisson distribution."""
        mean, number = self.by_chance, self.recovered
        if number <= mean:
            return 1.0
        return math.exp(min(0.0, number - mean + number * math.log(mean / number)))

    def as_dict(self) -> dict[str, object]:
        """The same as plain types, for JSON."""
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
    source: str
    rows: list[LeakRow] = field(default_factory=list)
    recovered: list[Recovered] = field(default_factory=list)
    #: rules of the list that are in the clear
    clear: int = 0
    #: names and URLs of the dictionary
    entries: int = 0
    #: strings that were hashed
    tried: int = 0
    #: seconds of the search, without reading the list
    seconds: float = 0.0
    jobs: int = 1
    #: the fingerprint of the key of sealed hashes that was given
    key: str = ""

    @property
    def is_sealed(self) -> bool:
        """Whether all hashes are sealed with keys that were not given."""
        return all(row.table.seal not in ("", self.key) for row in self.rows)

    @property
    def hashes(self) -> int:
        """H."""
        return sum(row.hashes for row in self.rows)

    @property
    def share(self) -> float:
        """The share of the hashes that were recovered, without those by chance: 0 to 1."""
        return sum(row.real for row in self.rows) / self.hashes if self.hashes else 0.0


def read_targets(files: Sequence[ListFile]) -> tuple[guesses.Targets, list[Problem]]:
    """The hashes of a list, and warnings; ``SourceError`` if the list cannot be used."""
    targets = guesses.Targets()
    lists = [chunk_list(file) for file in files]
    with Workers(1) as workers:
        list(read_lists(lists, workers, lambda chunk: targets.add(chunk.rules)))
    raise_errors(lists)
    return targets, [warning for chunked in lists for warning in chunked.report.warnings]


def search_dictionary(
    source: str,
    targets: guesses.Targets,
    paths: Sequence[Path],
    *,
    key: SealKey | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Leak:
    """Try dictionaries on a list's hashes; ``key`` is what sealed ones are tried with.

    Raises:
        SourceError: a dictionary cannot be read.
        WorkerError: a process ended too early.
    """
    guessed: dict[tuple[int, bytes], bytes] = {}
    tried = guesses.TriedBlock(0, 0, 0, [])
    started = time.perf_counter()
    with TemporaryDirectory() as name, Workers(jobs, progress) as workers:
        guess = partial(guesses.try_block, hashes=spill(targets.sets, Path(name)), seal_key=key)
        blocks = _blocks(list(guesses.dictionaries(list(paths))), workers.show)
        for entries, expressions, uris, hits in workers.apply(guess, blocks):
            tried = guesses.TriedBlock(tried.entries + entries, tried.expressions + expressions, tried.uris + uris, [])
            for number, digest, text in hits:
                guessed.setdefault((number, digest), text)
    leak = Leak(
        source,
        clear=targets.clear,
        entries=tried.entries,
        tried=tried.expressions + tried.uris,
        seconds=time.perf_counter() - started,
        jobs=workers.jobs,
        key="" if key is None else key.fingerprint,
    )
    tables = tuple(targets.lines)
    fallen = Counter(at for at, _ in guessed)
    for number, table in enumerate(tables):
        of_table = tried.expressions if table.uri is None else tried.uris
        leak.rows.append(LeakRow(table, len(targets.lines[table]), of_table, fallen[number]))
    leak.recovered = sorted(
        Recovered(targets.lines[tables[at]][digest], text.decode(errors="backslashreplace"), str(tables[at]))
        for (at, digest), text in guessed.items()
    )
    return leak


def _blocks(files: Sequence[Path], progress: Progress) -> Iterator[guesses.Block]:
    """The chunks of all dictionaries; reports progress."""
    path = Path()
    try:
        sizes = [guesses.size_of(path) for path in files]
        total, before = sum(sizes), 0
        for path, size in zip(files, sizes, strict=True):
            for block in guesses.blocks_of(path):
                yield block
                progress("tried", before + block.done, total)
            before += size
    except (OSError, EOFError, zlib.error) as error:
        name = str(getattr(error, "filename", None) or path)
        why = reason_of(error)
        raise SourceError([Problem(name, 0, "dictionary", why)]) from error


#: sizes of larger dictionaries, in names.
#: Registered domains: 368.4 million at the end of the third quarter of 2024 (Verisign, Domain Name Industry Brief),
#: which grows by a few million a year.
_REGISTERED = 400_000_000
#: seconds; a shorter search cannot be used to estimate speed
_LEAST = 1.0


def estimates(leak: Leak) -> Iterator[tuple[str, float]]:
    """Larger dictionaries, and the seconds that they take on this machine; nothing if the search was too short."""
    if leak.seconds >= _LEAST and leak.entries:
        seconds = leak.seconds / leak.entries
        yield f"{_REGISTERED:,} names, about as many as there are registered domains", seconds * _REGISTERED


def verdict(leak: Leak) -> str:
    """How far the list's secrecy can be trusted.

    >>> verdict(Leak("l"))
    'There is no hash in this list: it hides nothing.'
    """
    if not leak.hashes:
        return "There is no hash in this list: it hides nothing."
    recovered = len(leak.recovered)
    if leak.is_sealed:
        chance = " What fits does so by chance." if recovered else ""
        return f"The list is sealed: without its key no dictionary recovers anything, however large it is.{chance}"
    if not recovered:
        return (
            "Nothing fell to this dictionary. That shows that it is the wrong one, not that the list is secret: "
            "whatever a larger one names falls as fast."
        )
    if leak.share * leak.hashes < recovered / 2:
        return (
            "About as many match by chance: with prefixes so short a match proves little. What is meant is hidden "
            "among all that fits, as far as nobody can guess it from the rest of the list."
        )
    if leak.share >= 0.5:
        return "Half of the list or more can be read by whoever has such a dictionary: its hashes keep no secret."
    return (
        "What fell can be read by whoever has such a dictionary; the rest is hidden only until somebody tries one that "
        "names it."
    )


def span(seconds: float) -> str:
    """A time for a person.

    >>> [span(seconds) for seconds in (0.4, 75, 800, 9000, 400_000)]
    ['0.4 seconds', '75 seconds', '13 minutes', '2.5 hours', '4.6 days']
    """
    for length, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            number = seconds / length
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
