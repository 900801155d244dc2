"""What ``hushlist doctor`` says of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hushlist.core.diagnosis import GOOD, WARNING, WRONG, About, Diagnosis, examine_writing
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.files import state_folder
from hushlist.extensions.databases.kept_files import examine_kept
from hushlist.extensions.journal.log_figures import read_figures
from hushlist.extensions.journal.log_identifiers import read_key
from hushlist.extensions.journal.log_keys import LoggedClients


def examine_log(policy: Policy, now: float) -> Iterator[Diagnosis]:
    """The log's folder and key, how large the log is, and whether it ends before ``days`` says."""
    settings = policy.of("log")
    if settings is None:
        return
    if settings.folder is not None:
        yield examine_writing("the log's folder", settings.folder)
        yield from examine_kept(settings.folder)
    with suppress(RuntimeError):  # the folder for state is a finding already
        if settings.clients is LoggedClients.PSEUDONYM:
            yield from _examine_key(state_folder())
    if settings.to is not None:
        return
    with suppress(RuntimeError, OSError):  # the folder for state is a finding already
        figures = read_figures(settings.folder or state_folder(), settings, now)
        if figures is not None:
            condition = WARNING if figures.ends_early else GOOD
            advice = f"raise '{figures.ends}' of log, or lower 'days' to what is kept" if figures.ends_early else ""
            yield Diagnosis(About.FILES, condition, f"the log: {figures}", advice)


def _examine_key(state: Path) -> Iterator[Diagnosis]:
    try:
        read_key(state)
    except (OSError, ValueError) as error:
        advice = "put it back from a copy, or remove it: then clients get new names from the next start on"
        yield Diagnosis(About.FILES, WRONG, f"the key of pseudonyms: {error}", advice)
