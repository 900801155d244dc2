"""From a policy file to its index: the lists are compiled, unless the cache has what they would give.

    survey the files -> key -> in the cache?  no: collect -> merge -> assemble -> look for covered rules -> cache

Large lists are cut into pieces that other processes read. All that the index is made of makes its key in the cache, the
code that makes it among it: whatever changes there compiles anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from importlib import metadata
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

from hushlist.errors import Problem
from hushlist.lists.popular import read_popular
from hushlist.lists.source import Report, read_octets
from hushlist.lists.squidguard import read_squidguard_expressions
from hushlist.match.breadth import Breadth
from hushlist.match.compiler import (
    MOST_PARTS,
    Collector,
    Merged,
    Part,
    Stored,
    append,
    assemble,
    duplicates_of,
    load,
    merge,
    store,
    tasks,
)
from hushlist.match.cover import covered
from hushlist.match.index import Index
from hushlist.match.index_file import IndexFileError
from hushlist.match.rule import Action
from hushlist.policy.cache import Cache
from hushlist.policy.policy import ListFile, Policy, PolicyError, fingerprint, read_policy
from hushlist.policy.processes import Parallel, Progress, processes, silent, watched
from hushlist.policy.report import SECTION, CompileReport, ListReport
from hushlist.policy.survey import Stretch, Survey, read_stretch, survey_of

#: with fewer octets than this in all sources, other processes are not worth their start
_FEW = 1 << 21


@dataclass(frozen=True, slots=True)
class Compiled:
    """A policy, its index, and what became of its lists."""

    policy: Policy
    index: Index
    report: CompileReport
    #: where the index is, if not in the cache
    temporary: Path | None = None

    def let_go(self) -> Compiled:
        """Have nobody else find the index, unless it is in the cache; where it is open it stays as it is."""
        if self.temporary is not None:
            rmtree(self.temporary, ignore_errors=True)
        return self


def compile_policy(
    path: Path,
    *,
    cache: Cache | None = None,
    jobs: int | None = None,
    popular: Path | None = None,
    progress: Progress | None = None,
    may_do_without: bool = True,
) -> Compiled:
    """Compile a policy, in as many processes as there are cores, or as ``jobs`` says.

    ``popular`` is a list of popular domains: rules that cover one get a warning. Where ``cache`` is not given, and the
    user's cannot be used, the index goes into a temporary folder, with a warning, unless ``may_do_without`` forbids it.

    Raises:
        PolicyError: with every problem of every file.
    """
    own = Report(str(path))
    policy = read_policy(path, own)
    if policy is None:
        raise PolicyError(own.errors, {path: fingerprint(path)})
    return compile_lists(
        policy, own, cache=cache, jobs=jobs, popular=popular, progress=progress, may_do_without=may_do_without
    )


def compile_lists(
    policy: Policy,
    report: Report | None = None,
    *,
    cache: Cache | None = None,
    jobs: int | None = None,
    popular: Path | None = None,
    progress: Progress | None = None,
    may_do_without: bool = True,
) -> Compiled:
    """Compile a policy that was read, or that no file has; ``report`` is that of its file.

    Raises:
        PolicyError: with every problem of every file.
    """
    own = report or Report(policy.source)

    def compile_into(cache: Cache) -> Compiled:
        return _compile(policy, own, cache, jobs or os.cpu_count() or 1, popular, progress or silent)

    try:
        try:
            return compile_into(cache or Cache())
        except (OSError, RuntimeError) as error:
            if cache is not None or not may_do_without or isinstance(error, BrokenExecutor):
                raise
            return _without_cache(compile_into, own, error)
    except BrokenExecutor as error:
        problem = Problem(policy.source, 0, "compile", "a process ended before it had done its part")
        raise PolicyError([problem], policy.files, may_pass=True) from error
    except OSError as error:
        why = f"it cannot be used: {error.strerror or error}"
        problem = Problem(str(error.filename or (cache.folder if cache else "cache")), 0, "cache", why)
        raise PolicyError([problem], policy.files, may_pass=True) from error
    except RuntimeError as error:
        raise PolicyError([Problem("cache", 0, "folder", str(error))], policy.files) from error


def _without_cache(compile_into: Callable[[Cache], Compiled], own: Report, error: OSError | RuntimeError) -> Compiled:
    """The index in a temporary folder, which is the user's alone.

    Raises:
        OSError: there can be none either.
    """
    place = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    own.warn(0, "cache", f"it cannot be used, and every start compiles anew: {place}")
    folder = Path(mkdtemp(prefix="hushlist-"))
    try:
        return replace(compile_into(Cache(folder)), temporary=folder)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _compile(
    policy: Policy, own: Report, cache: Cache, jobs: int, popular: Path | None, progress: Progress
) -> Compiled:
    cache.check()
    popular_domains, popular_report = _read_popular(popular)
    surveys = [survey_of(file) for layer in policy.layers for file in layer.lists]
    reports = [own, popular_report, *(survey.report for survey in surveys)]
    key = _key(surveys, popular_domains, popular_report)
    if not any(report.errors for report in reports):
        known = _cached(cache.path(key))
        if known is not None:
            cache.touch(key)
            return Compiled(policy, *known)
    if sum(len(survey.pieces) for survey in surveys) >= MOST_PARTS:
        own.error(0, "lists", f"they have more than {MOST_PARTS - 1} files and pieces of files")
        raise PolicyError(own.errors, policy.files)
    is_small = sum(survey.length for survey in surveys) < _FEW
    with TemporaryDirectory(dir=cache.make()) as name, processes(1 if is_small else jobs) as parallel:
        folder = Path(name)
        collected = list(_collect_all(surveys, popular_domains, folder, parallel, progress))
        _doubt_formats(surveys, collected)
        errors = [problem for report in reports for problem in report.errors]
        errors += [_changed(file) for file, seen in policy.files.items() if fingerprint(file) != seen]
        if errors:
            raise PolicyError(errors, policy.files)
        warnings = [problem for report in reports for problem in report.warnings]
        report = _build(folder / "index", surveys, collected, warnings, folder, parallel, progress)
        (folder / "index").replace(cache.path(key))
    cache.tidy()
    return Compiled(policy, Index.open(cache.path(key)), report)


def _changed(file: Path) -> Problem:
    return Problem(str(file), 0, file.name, "it changed while it was read")


# -- what there is -----------------------------------------------------------------------------------------------------


def _read_popular(path: Path | None) -> tuple[tuple[bytes, ...], Report]:
    report = Report(str(path))
    if path is None:
        return (), report
    octets = read_octets(path, report)
    return tuple(read_popular(octets or b"", report)), report


def _key(surveys: Sequence[Survey], popular: Sequence[bytes], popular_report: Report) -> str:
    """What an index is made of, as a file's name."""
    lists = [
        (str(survey.file.path), survey.file.format.read.__name__, astuple(survey.file.defaults), survey.digest)
        for survey in surveys
    ]
    warnings = list(map(str, popular_report.warnings))
    made_of = (_code(), lists, hashlib.sha256(b"\n".join(popular)).hexdigest(), warnings)
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


#: packages whose versions decide how a host is canonical, what a list says, and of what there are warnings
_PACKAGES = ("idna", "PyYAML", "publicsuffix2")


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of the package's own code, and the versions of what it uses."""
    digest = hashlib.sha256("\0".join((sys.version, *map(_version, _PACKAGES))).encode())
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(b"%b\0%d\0" % (str(path.relative_to(package)).encode(), path.stat().st_size))
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it is not there as a package, or not there
        return ""


def _cached(path: Path) -> tuple[Index, CompileReport] | None:
    """An index that is in the cache and whole, and its report, or ``None``."""
    if not path.exists():
        return None
    try:
        index = Index.open(path)
        index.verify()
        return index, CompileReport.of(index)
    except IndexFileError:
        return None


# -- what is done with it ----------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A task: a piece of a file to be read, and where to put what is collected."""

    number: int
    file: ListFile
    stretch: Stretch
    popular: tuple[bytes, ...]
    folder: Path


class _Collected(NamedTuple):
    part: Part
    report: Report
    candidates: Stored


def _collect_all(
    surveys: Sequence[Survey], popular: tuple[bytes, ...], folder: Path, parallel: Parallel, progress: Progress
) -> Iterator[list[_Collected]]:
    """What was collected of each file; what was wrong with it is in the survey's report."""
    numbers = count()
    pieces = [
        _Piece(next(numbers), survey.file, stretch, popular, folder) for survey in surveys for stretch in survey.pieces
    ]
    results = iter(parallel(_collect, pieces))
    total, done = sum(survey.length for survey in surveys), 0
    for survey in surveys:
        own: list[_Collected] = []
        for stretch in survey.pieces:
            collected = next(results)
            survey.report.merge(collected.report)
            own.append(collected)
            done += stretch.length
            progress("read", done, total)
        yield own


def _doubt_formats(surveys: Sequence[Survey], collected: Sequence[Sequence[_Collected]]) -> None:
    """Warn of lists that have entries, but no rule; of regular expressions there is a warning already."""
    for survey, of_file in zip(surveys, collected, strict=True):
        is_empty = survey.report.left_out > 0 and not any(own.part.rules for own in of_file)
        if is_empty and survey.file.format.read is not read_squidguard_expressions:
            survey.report.warn(0, "list", "no entry of it could be made a rule: is its format right?")


def _collect(piece: _Piece) -> _Collected:
    number, file, stretch, popular, folder = piece
    text, report = read_stretch(file, stretch)
    collector = Collector(number, file.defaults.layer or "")
    breadth = _breadth(popular)
    collector.add(file.format.read(text, file.defaults, report), breadth.of_expression)
    for rule in collector.broad:
        why = breadth.of_rule(rule)
        if why is not None:
            report.warn(rule.line, str(rule.pattern), why)
    part = collector.finish(folder)
    return _Collected(part, report, store(pickle.dumps(collector.candidates), folder))


@lru_cache(maxsize=1)
def _breadth(popular: tuple[bytes, ...]) -> Breadth:
    return Breadth(popular)


def _build(
    target: Path,
    surveys: Sequence[Survey],
    collected: Sequence[Sequence[_Collected]],
    warnings: list[Problem],
    folder: Path,
    parallel: Parallel,
    progress: Progress,
) -> CompileReport:
    """Write the index, with the report in it."""
    parts = [own.part for of_file in collected for own in of_file]
    by_table = tasks(parts)
    every = [task for own in by_table.values() for task in own]
    pieces = watched("sorted", parallel(partial(merge, folder=folder), every), len(every), progress)
    merged = {name: Merged(own[0].shape, [next(pieces) for _ in own]) for name, own in by_table.items()}
    target.touch(mode=0o600, exist_ok=False)
    with target.open("wb") as file:
        directory = assemble(file, parts, merged)
        file.flush()
        looks = [(target, own.part.number, own.part.layer, own.candidates) for of_file in collected for own in of_file]
        found = watched("compared", parallel(_covered, looks), len(looks), progress)
        duplicates = duplicates_of(merged)
        lists = []
        for survey, of_file in zip(surveys, collected, strict=True):
            line = ListReport(str(survey.file.path), refused=survey.report.refused)
            for own in of_file:
                number, example = next(found)
                line.covered += number
                line.example = line.example or example
                line.duplicates += duplicates[own.part.number]
                line.kept += own.part.rules
            line.kept -= line.duplicates
            line.read = line.kept + line.duplicates + line.refused
            lists.append(line)
        report = CompileReport(lists, warnings)
        append(file, directory, SECTION, report.to_json())
    return report


def _covered(look: tuple[Path, int, str, Stored]) -> tuple[int, str | None]:
    """How many rules of a part are covered, and one of them; duplicates, which are left out, do not count."""
    path, part, layer, stored = look
    candidates = pickle.loads(load(stored))  # noqa: S301  we wrote it, into a folder of our own
    index = Index.open(path)
    number, example = 0, None
    counted: set[tuple[bytes, Action]] = set()
    for (expression, line, action), cover in covered(index, layer, candidates):
        if (expression, action) in counted:
            continue
        counted.add((expression, action))
        # A policy may treat another category in another way.
        same = action, cover.rule.terms.category
        kept = sum((terms.action, terms.category) == same for terms in index.terms_of(expression, part))
        number += kept
        if kept and example is None:
            example = f"line {line}: {expression.decode()}: {cover}"
    return number, example
