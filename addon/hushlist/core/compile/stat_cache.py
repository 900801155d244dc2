"""Finds the index of a policy of which no file has changed, without reading its lists: by what ``stat`` tells of them.

    a policy file -> its Policy -> what stat tells of its files and of this package -> a record -> the index

The record is a file in the cache, one for each policy. It is written after the lists were read and the index was
verified. A program can set a file's time of modification, but not the time of its last change of status (ctime). So a
file of which ``stat`` tells the same was not written to, unless that was within one tick of the file system's clock, or
by a mapping soon after another write: with files that changed just now, nothing is recorded. After a day, the lists are
read and the index is verified again.

The record has the nodes of the policy file, too, by the digest of its octets: PyYAML takes an eighth of a start. It
begins with a digest of itself, since what a disk damages there would be another policy.

What git calls its stat cache is the same; files that changed just now are "racily clean" there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.decide.engine import Engine
from hushlist.core.extension import foreign_code
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import YamlNode
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import LONGEST_DOCUMENT, Fingerprint, read_regular, source_files
from hushlist.core.url.comparison import RedirectMemory

if TYPE_CHECKING:
    from hushlist.core.compile.policy_compiler import Compiled
    from hushlist.core.decide.verdict import Verdict

#: nanoseconds for which no file may have changed. No file system's clock has longer ticks. A write to a file that is
#: mapped into memory changes its times only when a clean page becomes dirty: Linux cleans all within about 35 s
SETTLED = 60 * 10**9
#: seconds that a record is valid
_VALID = 86400.0
#: packages that change canonical hosts, the reading of lists, or warnings
_PACKAGES = ("idna", "yaml", "publicsuffixlist")

#: octets of the digest before it
_DIGEST = 64
#: octets of a record; of one with thousands of lists, it is not read
_LONGEST = 1 << 20
#: octets of a policy whose document is in its record
_LONGEST_DOCUMENT = 1 << 16


def load_policy(path: Path) -> tuple[Policy, Index]:
    """A policy and its index, compiled if the cache has none; ``PolicyError`` with every problem of every file."""
    if (recorded := _recorded(path)) is not None:
        return recorded
    from hushlist.core.compile.policy_compiler import compile_policy

    compiled = compile_recorded(path, lambda: compile_policy(path).let_go())
    return compiled.policy, compiled.index


def load_engine(path: Path) -> Engine:
    """An engine for a policy file; the rest is as for ``load_policy``."""
    return asking_engine(*load_policy(path))


def asking_engine(
    policy: Policy,
    index: Index,
    redirect_memory: RedirectMemory | None = None,
    overrides: Verdict | None = None,
) -> Engine:
    """An engine that asks what has to be confirmed, and waits for the answers."""
    confirmer = next(iter(policy.confirmers.values()), None)
    confirmations = None if confirmer is None else confirmer.confirmations()
    return Engine(policy, index, redirect_memory, overrides, confirmations, waits=True)


def compile_recorded(path: Path, compile_lists: Callable[[], Compiled]) -> Compiled:
    """What a function compiles of a policy file, recorded for ``load_policy``."""
    state = _state_at(path)[1]
    compiled = compile_lists()
    _record(path, state, compiled)
    return compiled


def _state_at(path: Path, documents: Mapping[str, YamlNode] | None = None) -> tuple[Policy | None, str | None]:
    """A policy, and the state of its files; ``None`` for what cannot be used."""
    report = ProblemReport(str(path))
    policy = read_policy(path, report, documents=documents)
    return policy, None if policy is None or report.errors else state_of(policy)


def _cache() -> IndexCache | None:
    """The cache; ``None`` if the user has no home."""
    try:
        return IndexCache()
    except RuntimeError:
        return None


def _with_pointers(state: str, pointers: Mapping[Path, Fingerprint]) -> str:
    return json.dumps((state, [(str(path), seen) for path, seen in pointers.items()]))


def _recorded(path: Path) -> tuple[Policy, Index] | None:
    """A policy and its index, as recorded, if its files and that of the index are as they were.

    The document of the record counts only where the state is that of the record, so that this code has made it.
    """
    if (cache := _cache()) is None:
        return None
    try:
        cache.check()
        record = cache.record(path)
        if not 0 <= time.time() - record.stat().st_mtime < _VALID:
            return None
        key, held, documents, *recorded = json.loads(_undamaged(read_regular(record, _LONGEST)))
        nodes = {digest: YamlNode.of_plain(plain) for digest, plain in documents.items()}
        policy, state = _state_at(path, nodes)
        if policy is None or state is None:
            return None
        file, pointers = cache.path(str(key)), cache.pointers(policy)
        if recorded != [_with_pointers(state, pointers), *_stat(file)[1:]]:
            return None
        held = {Path(name): why for name, why in held.items()}
        index = Index.open(file)
        cache.touch(str(key))
    except (OSError, ValueError, TypeError, AttributeError, IndexFileError):  # there is none, or it is not ours
        return None
    return policy._replace(held=held, pointers=pointers), index


def _record(path: Path, state: str | None, compiled: Compiled) -> None:
    """Record the index of a policy whose files did not change while it was made; never in a folder of others."""
    file, cache = Path(compiled.index.source), _cache()
    if state is None or cache is None or file.parent != cache.folder or state_of(compiled.policy) != state:
        return
    with suppress(OSError):  # the next start reads the lists again
        held = {str(list_path): why for list_path, why in compiled.policy.held.items()}
        seen = _with_pointers(state, compiled.policy.pointers)
        documents = _documents_of(path)
        octets = json.dumps((file.stem, held, documents, seen, *_stat(file)[1:])).encode()
        cache.write_record(path, _digest(octets) + octets)


def _digest(octets: bytes) -> bytes:
    return hashlib.sha256(octets).hexdigest().encode()


def _undamaged(record: bytes) -> bytes:
    """What a record says; ``ValueError`` if it is not as it was written."""
    digest, octets = record[:_DIGEST], record[_DIGEST:]
    if digest != _digest(octets):
        raise ValueError("it is damaged")
    return octets


def _documents_of(path: Path) -> dict[str, list[object]]:
    """What is in a policy file, by the digest of its octets, so that it need not be parsed; nothing if that is long."""
    from hushlist.core.lists.yaml_documents import read_document

    octets, report = read_regular(path, LONGEST_DOCUMENT), ProblemReport(str(path))
    document = read_document(octets, report) if len(octets) < _LONGEST_DOCUMENT else None
    if document is None or report.errors or report.warnings:
        return {}
    return {hashlib.sha256(octets).hexdigest(): document.as_plain()}


def state_of(policy: Policy) -> str | None:
    """A digest of what ``stat`` tells of a policy's lists, this package and those it uses, and of how lists are read.

    The packages of the policy's extensions are among these.

    The policy file itself is read anew each time. ``None`` if a file changed just now, or time does not tell: on
    Windows there is no ctime.
    """
    if os.name != "posix":
        return None
    foreign = (find_spec(name) for name in _PACKAGES)
    used = [Path(spec.origin).parent for spec in foreign if spec is not None and spec.origin is not None]
    lists = [
        (str(file.path), file.source, file.format.reader, file.defaults, repr(file.gate))
        for layer in policy.layers
        for file in layer.lists
    ]
    is_list = {path for path, *_ in lists}.__contains__
    named = [file for file in policy.files if str(file) != policy.source or is_list(policy.source)]
    files: list[Path | os.DirEntry[str]] = [
        *named,
        *sorted(source_files(Path(__file__).parent.parent.parent), key=os.fspath),
        *used,
        *_foreign_files(policy),
    ]
    stats = [_stat(file) for file in files]
    # both times may be ahead of this clock
    if any(max(stat[:2]) > time.time_ns() - SETTLED for stat in stats if stat):
        return None
    return hashlib.sha256(json.dumps((sys.version, list(map(os.fspath, files)), stats, lists)).encode()).hexdigest()


def _foreign_files(policy: Policy) -> list[Path]:
    """The files of the packages whose extensions a policy names."""
    if not (places := foreign_code(policy.extensions)):
        return []
    from hushlist.core.system.package_code import files_of_code  # most policies start faster without it

    return [file for place in places for file in files_of_code(place)]


def _stat(path: Path | os.DirEntry[str]) -> tuple[int, ...]:
    """Times of the last change of status and of content in ns, size, device, inode; nothing if there is no file."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: the name is not valid for a file
        return ()
    return stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_dev, stat.st_ino
