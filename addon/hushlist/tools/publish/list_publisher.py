"""Reads the lists of a policy that are to be published, again whenever they change, and makes versions of them.

The policy is compiled as the proxy does it, in another process, so a list that is broken or held back stays as it was
in its last good version. A change is a new version as soon as that is done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from datetime import UTC, date, datetime
from hashlib import sha256
from os import fsencode
from pathlib import Path
from typing import NamedTuple

from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.errors import Problem, SourceError, did_you_mean, number_of
from hushlist.core.policy.policy_file import ListFile, Policy, PolicyError
from hushlist.core.system.files import Fingerprint, fingerprints, state_folder
from hushlist.extensions.safe_browsing.v4_messages import ThreatType
from hushlist.tools.publish.list_history import ListHistory, open_history
from hushlist.tools.publish.published_list import PublishedList, publish
from hushlist.tools.publish.safebrowsing_service import LIST_NAMES

#: seconds between two looks at the files; a change has to be seen twice
INTERVAL = 0.25
#: seconds until what the machine failed at, such as a write to a full disk, is tried again
RETRY = 60.0

_Files = Mapping[Path, Fingerprint]


class Publication(NamedTuple):
    lists: dict[int, PublishedList]
    #: what it was made of; if that changes, it is made again
    files: _Files
    day: date

    def lines(self, histories: Mapping[int, ListHistory]) -> Iterator[str]:
        """What people are told of it."""
        for threat, published in self.lists.items():
            if not published.packed and not published.left_out:
                continue
            left_out = (
                f"; {number_of(published.left_out, 'rule is', 'rules are')} left out" if published.left_out else ""
            )
            version = histories[threat].number
            hashes = number_of(len(published), "full hash", "full hashes")
            yield f"{LIST_NAMES[ThreatType(threat)]}: version {version}, {hashes}{left_out}"


def open_histories(policy: Path, complain: Callable[[str], object]) -> dict[int, ListHistory]:
    """The versions of a policy's lists, as far as they are kept; ``RuntimeError`` if the user has no home.

    What cannot be used of them is complained of.
    """
    folder = state_folder() / "published" / sha256(fsencode(policy.absolute())).hexdigest()
    return {int(threat): open_history(folder / name, int(threat), complain) for threat, name in LIST_NAMES.items()}


def read_publication(policy: Path, chosen: Mapping[str, ThreatType]) -> Publication:
    """Read the lists of a policy; ``chosen`` has the names of lists, and is empty for all of them as malware.

    Raises:
        PolicyError: the policy or a list of it cannot be used.
        SourceError: it has no such list, or one cannot be published.
    """
    compiled, _ = BackgroundCompiler().compile(policy, is_start=True)
    today = datetime.now(UTC).date()
    files = _files_by_threat(compiled, chosen)
    lists = {int(threat): publish(files[threat], today) if files[threat] else PublishedList() for threat in LIST_NAMES}
    return Publication(lists, compiled.watched, today)


def _files_by_threat(policy: Policy, chosen: Mapping[str, ThreatType]) -> dict[ThreatType, list[ListFile]]:
    every = [file for layer in policy.layers for file in layer.lists]
    by_threat: dict[ThreatType, list[ListFile]] = {threat: [] for threat in LIST_NAMES}
    if not chosen:
        by_threat[ThreatType.MALWARE] = every
    problems = list[Problem]()
    for name, threat in chosen.items():
        files = [file for file in every if name in _names_of(file)]
        by_threat[threat] += files
        if not files:
            near = did_you_mean(name, sorted({listed for file in every for listed in _names_of(file)}))
            problems.append(Problem(policy.source, 0, name, f"the policy has no such list{near}"))
    if problems:
        raise SourceError(problems)
    return by_threat


def _names_of(file: ListFile) -> set[str]:
    """The names that people know a list by."""
    return {
        file.source,
        file.path.name,
        file.path.parent.name,
        *filter(None, (file.defaults.name, file.defaults.title)),
    }


def make_versions(publication: Publication, histories: Mapping[int, ListHistory]) -> None:
    """Make the newest versions of what is published; ``OSError`` if a version cannot be kept."""
    for threat, published in publication.lists.items():
        histories[threat].add(published.prefixes())


async def keep_publishing(
    publication: Publication,
    read: Callable[[], Publication],
    use: Callable[[Publication], None],
    thread: Executor,
    complain: Callable[[Exception], object],
) -> None:
    """Publish again whenever something has changed, and at the turn of a day, for rules that expire; never ends.

    ``use`` is called in ``thread``. What cannot be used is complained of, and the last good lists stay. What the
    machine failed at is tried again.
    """
    loop = asyncio.get_running_loop()
    files = seen = publication.files
    day, again = publication.day, math.inf
    while True:
        await asyncio.sleep(INTERVAL)
        before, seen = seen, await loop.run_in_executor(None, fingerprints, files)
        is_new_day = datetime.now(UTC).date() != day
        if seen != before or (seen == files and not is_new_day and loop.time() < again):
            continue
        again = math.inf
        try:
            new = await loop.run_in_executor(None, read)
            await loop.run_in_executor(thread, use, new)
            files = seen = new.files
            day = new.day
        except PolicyError as error:
            complain(error)
            files = seen = {**seen, **error.files}
            again = loop.time() + RETRY if error.may_pass else math.inf
        except SourceError as error:
            complain(error)
            files = seen
        except Exception as error:  # a full disk, no memory, no thread: it goes on
            complain(error)
            files, again = seen, loop.time() + RETRY
        day = datetime.now(UTC).date()
