"""Compiles a policy file and its lists into an index, unless the cache has that index.

    chunk the lists -> key -> in the cache?  no: collect -> merge -> assemble -> cache

Other processes read the chunks of large lists. The key in the cache is a digest of everything the index is made of,
this package's code included. If any of it changes, the policy is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from itertools import chain, islice
from os import SEEK_END
from pathlib import Path, PurePath
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from hushlist.core.compile.compile_report import SECTION as REPORT
from hushlist.core.compile.compile_report import CompileReport, ListReport
from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.list_chunks import (
    ChunkedList,
    LoadedChunk,
    chunk_list,
    collect_rules,
    list_workers,
    read_lists,
    too_many_chunks,
)
from hushlist.core.compile.policy_update import SECTION as SOURCES
from hushlist.core.compile.policy_update import Sources, Update, described, update_policy
from hushlist.core.compile.worker_processes import Progress, WorkerError, Workers
from hushlist.core.errors import Problem, number_of
from hushlist.core.extension import extensions_named, foreign_code, load
from hushlist.core.lists.list_formats import FOLDERS, unnamed_reader
from hushlist.core.lists.list_source import MOST_SHOWN, ProblemReport
from hushlist.core.lists.patterns import plain_expression
from hushlist.core.lists.popular_domains import read_popular_file
from hushlist.core.match.expressions import host_suffixes, path_prefixes
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import EXPRESSION_TABLE, GUIDE, IndexFileError, decode_terms, key_length, seal_of
from hushlist.core.match.index_table import PLACE
from hushlist.core.match.index_update import NotByUpdate
from hushlist.core.match.index_writer import append, assemble, duplicates_of, merge_all
from hushlist.core.match.overbroad import breadth_test
from hushlist.core.match.rule import Action, ExpressionHash
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.sorted_runs import rows_in_range
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import fingerprint, reason_of
from hushlist.core.system.package_code import digest_of_code, loaded_digest


@dataclass(frozen=True, slots=True)
class Compiled:
    policy: Policy
    index: Index
    report: CompileReport
    #: the index's folder, if it is not in the cache
    temporary: Path | None = None

    def let_go(self) -> Compiled:
        """Remove an index that is not in the cache; ``index`` is open and can still be read."""
        if self.temporary is not None:
            rmtree(self.temporary, ignore_errors=True)
        return self


def compile_policy(
    source: Path | Policy,
    *,
    cache: IndexCache | None = None,
    jobs: int | None = None,
    popular: Path | None = None,
    progress: Progress | None = None,
    may_do_without: bool = True,
    before: Path | None = None,
) -> Compiled:
    """Compile a policy, from its file or in memory, in ``jobs`` processes; by default one for each core.

    ``popular`` is a list of popular domains: rules that cover one get a warning. The default ``cache`` is the user's.
    If that cannot be used, the index goes into a temporary folder, with a warning; without ``may_do_without``, that is
    an error. ``before`` is the index that is in use: where few lines of lists have changed, only these are read.

    Raises:
        PolicyError: with every problem of every file.
    """
    policy_report = ProblemReport(source.source if isinstance(source, Policy) else str(source))
    policy = source if isinstance(source, Policy) else read_policy(source, policy_report)
    if policy is None:
        path = Path(policy_report.source)
        raise PolicyError(policy_report.errors, {path: fingerprint(path)})
    compile_into = partial(_compile, policy, policy_report, jobs, popular or policy.popular, progress, before)

    def in_memory(other: Policy) -> Index:
        return compile_policy(other, cache=cache, jobs=jobs, popular=popular, progress=progress).let_go().index

    gate: Any = None
    try:
        try:
            place = cache or IndexCache()
            # a policy in memory is an audit's: that compares what it is asked to
            if not isinstance(source, Policy):
                gate = _gate_of(policy, place, _code(policy.extensions), in_memory, jobs, progress)
            return compile_into(gate, place)
        except (OSError, RuntimeError) as error:
            if cache is not None or not may_do_without:
                raise
            if gate is not None:
                gate.keeps = False
            return _without_cache(partial(compile_into, gate), policy_report, error)
    except WorkerError as error:
        problem = Problem(policy.source, 0, "compile", str(error))
        raise PolicyError([problem], policy.files, may_pass=True) from error
    except OSError as error:
        why = f"it cannot be used: {reason_of(error)}"
        problem = Problem(str(error.filename or (cache.folder if cache else "cache")), 0, "cache", why)
        raise PolicyError([problem], policy.files, may_pass=True) from error
    except RuntimeError as error:
        raise PolicyError([Problem("cache", 0, "folder", str(error))], policy.files) from error


def _gate_of(policy: Policy, *how: Any) -> Any:
    """What holds back the policy's lists that have changed too much; ``None`` if no extension does."""
    gates = (extension.gate for extension in extensions_named(policy.extensions) if extension.gate)
    return next((load(gate)(policy, *how) for gate in gates), None)


def _without_cache(
    compile_into: Callable[[IndexCache], Compiled], policy_report: ProblemReport, error: OSError | RuntimeError
) -> Compiled:
    """Compile into a temporary folder that only the user can read; ``OSError`` if that cannot be used either."""
    place = f"{error.filename}: {reason_of(error)}" if isinstance(error, OSError) and error.filename else str(error)
    policy_report.warn(0, "cache", f"it cannot be used, and every start compiles anew: {place}")
    folder = Path(mkdtemp(prefix="hushlist-"))
    try:
        return replace(compile_into(IndexCache(folder)), temporary=folder)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _compile(
    policy: Policy,
    policy_report: ProblemReport,
    jobs: int | None,
    popular: Path | None,
    progress: Progress | None,
    before: Path | None,
    gate: Any,
    cache: IndexCache,
) -> Compiled:
    cache.check()
    popular_report = ProblemReport(str(popular))
    popular_domains = read_popular_file(popular, popular_report)
    lists = [chunk_list(file) for layer in policy.layers for file in layer.lists]
    if gate is not None:
        lists = gate.hold_back(lists, popular_domains, cache)
    reports = [policy_report, popular_report, *(chunked.report for chunked in lists)]
    looks = [extension.list_warnings for extension in extensions_named(policy.extensions) if extension.list_warnings]
    domains = hashlib.sha256(b"\n".join(popular_domains)).hexdigest()
    by = (_code(policy.extensions), domains, list(map(str, popular_report.warnings)), looks)
    key = hashlib.sha256(json.dumps((by, described(lists))).encode()).hexdigest()
    if not any(report.errors for report in reports):
        cached = _cached(cache.path(key))
        if cached is not None:
            cache.touch(key)
            return Compiled(_in_force(policy, gate, lists), *cached)
    if too_many := too_many_chunks(lists):
        policy_report.error(0, "lists", f"they have {too_many}")
        raise PolicyError(policy_report.errors, policy.files)
    cache.tidy()  # before it: what others left may have filled the disk
    with cache.writing() as name:
        target, written = Path(name) / "index", None
        target.touch(mode=0o600, exist_ok=False)
        if (
            before is not None
            and gate is not None
            and not any(report.errors for report in (policy_report, popular_report))
        ):
            collect = partial(_collect, popular=popular_domains, folder=None)
            with suppress(NotByUpdate):
                written = update_policy(target, before, by, lists, gate.copy_of, collect)
        if written is None:
            with list_workers(lists, jobs, progress) as workers:
                collect = partial(_collect, popular=popular_domains, folder=target.parent)
                collected = list(read_lists(lists, workers, collect, longest_first=True))
                _doubt_formats(lists, {at for at, part in collected if part.rules}, policy.extensions)
                _doubt_exceptions(lists, collected)
                _raise_errors(policy, reports)
                written = _build(target, lists, collected, by, workers)
        _raise_errors(policy, (policy_report, popular_report))
        report = _finish(target, written, [*policy_report.warnings, *popular_report.warnings], looks)
        target.replace(cache.path(key))
    return Compiled(_in_force(policy, gate, lists), Index.open(cache.path(key)), report)


def _raise_errors(policy: Policy, reports: Iterable[ProblemReport]) -> None:
    """Raise the errors of reports, and of files that changed since they were looked at."""
    errors = [problem for report in reports for problem in report.errors]
    changed = [file for file, seen in policy.files.items() if fingerprint(file) != seen]
    errors += [Problem(str(file), 0, file.name, "it changed while it was read") for file in changed]
    if errors:
        raise PolicyError(errors, policy.files)


def _in_force(policy: Policy, gate: Any, lists: Sequence[ChunkedList]) -> Policy:
    """The policy, which knows what is held back; keeps copies of the lists that are in force."""
    if gate is None:
        return policy
    gate.use(lists)
    return policy._replace(held=gate.held, pointers=gate.pointers)


# -- looking at the lists ----------------------------------------------------------------------------------------------


#: packages whose versions change canonical hosts, the reading of lists, or warnings
_PACKAGES = ("idna", "PyYAML", "publicsuffixlist")


@cache
def _code(extensions: tuple[str, ...]) -> str:
    """A digest of the code of this package and of a policy's extensions, and of the versions of what it uses."""
    made_of = (sys.version, *map(_version, _PACKAGES), loaded_digest(), digest_of_code(foreign_code(extensions)))
    return hashlib.sha256("\0".join(made_of).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it is not installed, or not as a package
        return ""


def _cached(path: Path) -> tuple[Index, CompileReport] | None:
    """An intact index from the cache and its report, or ``None``."""
    if not path.exists():
        return None
    try:
        index = Index.open(path)
        index.verify()
        return index, CompileReport.of(index)
    except IndexFileError:
        return None


# -- compiling them ----------------------------------------------------------------------------------------------------


def _collect(chunk: LoadedChunk, popular: tuple[bytes, ...], folder: Path | None) -> CollectedPart:
    """The rules of a chunk; broad ones get a warning."""
    part, broad = collect_rules(chunk, chunk.rule_blocks, popular, folder)
    for rule, why in broad:
        chunk.report.warn(rule.line, str(rule.pattern), why)
    for line, what, why in _broad_hashes(part, popular):
        chunk.report.warn(line, what, why)
    return part


def _broad_hashes(part: CollectedPart, popular: tuple[bytes, ...]) -> Iterator[tuple[int, str, str]]:
    """The hashes of public suffixes and popular domains in a part."""
    breadth = breadth_test(popular)
    for name in part.runs if part.has_hashes else ():
        if name.startswith(EXPRESSION_TABLE) and not seal_of(name):
            size, terms = key_length(name), [decode_terms(octets) for octets in part.terms]
            for row in rows_in_range([part.runs[name]], size + PLACE.size, 0, 256):
                expression = breadth.hashed(row[:size])
                _, line, number = PLACE.unpack_from(row, size)
                if not expression or number == GUIDE or terms[number][0] or terms[number][1].confirmer:
                    continue
                if why := breadth.of_hash(ExpressionHash(row[:size])):
                    yield line, f"sha256:{row[:size].hex()}", why


def _doubt_formats(lists: Sequence[ChunkedList], with_rules: Container[int], extensions: Container[str]) -> None:
    """Warn of lists that have entries but no rule, of empty lists, and of those that another extension may read.

    Regular expressions have a warning already. In squidGuard's folders, many files are empty: they get no warning.
    """
    for at, chunked in enumerate(lists):
        file, report = chunked.file, chunked.report
        if not chunked.length and not report.errors and not any(file.path.name in names for names in FOLDERS.values()):
            report.warn(0, "list", "it is empty")
        if file.detected and (hint := unnamed_reader(PurePath(file.url or file.path), extensions)):
            report.warn(0, "list", f"it is read as {file.detected}, as its content tells, but {hint}")
        is_empty = report.left_out > 0 and at not in with_rules
        if is_empty and not file.format.may_be_empty:
            report.warn(0, "list", "no entry of it could be made a rule: is its format right?")


def _doubt_exceptions(lists: Sequence[ChunkedList], collected: Iterable[tuple[int, CollectedPart]]) -> None:
    """Warn of exceptions in a layer in which nothing stops a request, so that they can lift nothing."""
    stopping, exceptions = set[str](), Counter[int]()
    for at, part in collected:
        exceptions[at] += part.exceptions
        if not part.actions.isdisjoint((Action.BLOCK, Action.WARN)):
            stopping.add(part.layer)
    for at, number in exceptions.items():
        layer = lists[at].file.defaults.layer or ""
        if number and layer not in stopping:
            of = number_of(number, "exception lifts", "exceptions lift")
            why = f"its {of} nothing: they are about what stops in their own layer, {layer}, and nothing does there"
            lists[at].report.warn(0, "list", f"{why}; to have it allow, write 'action: allow' for it")


def _build(
    target: Path,
    lists: Sequence[ChunkedList],
    collected: Sequence[tuple[int, CollectedPart]],
    by: object,
    workers: Workers,
) -> Update:
    """Write the index; ``collected`` has the number of each part's list."""
    parts = [part for _, part in collected]
    merged = merge_all(parts, partial(workers.map, "sorted"), target.parent)
    duplicates = duplicates_of(merged)
    rows = [
        ListReport(chunked.file.source, refused=chunked.report.refused, detected=chunked.file.detected)
        for chunked in lists
    ]
    with target.open("wb") as file:
        directory = assemble(file, parts, merged)
    for at, part in collected:
        line = rows[at]
        line.duplicates += duplicates[part.number]
        line.kept += part.rules - duplicates[part.number]
        line.opaque += part.opaque
        line.below_hosts += part.below_hosts
    for line in rows:
        line.read = line.kept + line.duplicates + line.refused
    left_out = list(_left_out(lists, collected))
    sources = Sources(
        by,
        described(lists),
        [at for at, _ in collected],
        [chunked.report.to_plain() for chunked in lists],
        [problem._asdict() for problem in left_out],
    )
    return Update(directory, list(lists), rows, left_out, sources)


def _finish(target: Path, written: Update, warnings: Iterable[Problem], looks: Sequence[str]) -> CompileReport:
    """Add the report to an index, and what it was made of."""
    index = Index.open(target)
    of_lists = chain.from_iterable(chunked.report.warnings for chunked in written.lists)
    report = CompileReport(written.rows, [*warnings, *of_lists, *written.left_out])
    for look in looks:
        report.warnings.extend(load(look)(index, written.lists))
    for chunked, line in zip(written.lists, report.lists, strict=True):
        line.exceptions, some = chunked.report.exceptions
        line.too_broad = list(islice(_too_broad(index, chunked.file.defaults.layer or "", some), MOST_SHOWN))
    with target.open("r+b") as file:
        file.seek(0, SEEK_END)
        append(file, written.directory, REPORT, json.dumps(report.to_plain()).encode())
        append(file, written.directory, SOURCES, written.sources.to_json())
    return report


def _left_out(lists: Sequence[ChunkedList], collected: Sequence[tuple[int, CollectedPart]]) -> Iterator[Problem]:
    """Warnings of filters that cost too much on every request: of each list the first ones, and how many there are."""
    for at, chunked in enumerate(lists):
        every = [costly for number, part in collected if number == at for costly in part.left_out]
        for line, text, why in every[:MOST_SHOWN]:
            yield Problem(chunked.file.source, line, text, f"it is left out: {why}")
        if len(every) > MOST_SHOWN:
            yield Problem(chunked.file.source, 0, "filters", f"{len(every):,} in all are left out for what they cost")


#: an exception for a host, and perhaps a path on it
_EXCEPTED = re.compile(r"@@\|\|([^\s/?#|^*:@$]+(?:/[^\s?#|^*$]*)?)")


def _too_broad(index: Index, layer: str, exceptions: Iterable[Problem]) -> Iterator[str]:
    """Blocking rules of a layer that stop what an exception was to let pass; ``exceptions`` are those left out.

    Of each exception that names its host, the most specific rule at it or above it; the others cannot be told.
    """
    for problem in exceptions:
        match = _EXCEPTED.match(problem.what)
        expression = plain_expression(match[1].lower()) if match else None
        if expression is None:
            continue
        host, _, page = expression.value.partition(b"/")
        paths = path_prefixes(b"/" + page, None, deepest=page.count(b"/") + 1)
        hosts = host_suffixes(host, deepest=host.count(b".") + 1)
        rules, _ = index.clear_rules([suffix + path for suffix in hosts for path in paths])
        broad = (rule for matching in rules.values() for rule in matching)
        for rule in broad:
            if rule.terms.layer == layer and rule.terms.action is Action.BLOCK:
                place = f"{rule.terms.source}:{rule.line}"
                yield f"{rule.pattern} ({place}) stops what line {problem.line} excepts: {problem.what}"
                break
