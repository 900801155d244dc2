"""What lies on the disk: versions, the policy and its lists, who may change what, the authority; and the clock."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from stat import S_ISVTX, S_IWGRP, S_IWOTH

from hushlist import __version__
from hushlist.core.compile.compile_report import CompileReport, policy_warnings
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.engine import Engine
from hushlist.core.diagnosis import GOOD, UNKNOWN, WARNING, WRONG, About, Diagnosis, examine_writing
from hushlist.core.errors import Problem, SourceError, number_of
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.recurrence import Schedule
from hushlist.core.system.authority_file import NAME, fault_of_authority
from hushlist.core.system.files import cache_folder, check_private, read_private, reason_of, state_folder
from hushlist.core.system.platform import is_root, others_can_write
from hushlist.extensions.subscriptions.subscription import NO_COPY

_LONGEST = 1 << 16
_DAY = 86400.0
#: days before its end in which an authority should be replaced, since every device needs the new one
_NOTICE = 90
#: what the kernel's clock says when nothing has set it: adjtimex(2), TIME_ERROR
_UNSYNCHRONIZED = 5


def examine_versions() -> Iterator[Diagnosis]:
    """Python, mitmproxy and Hushlist."""
    python = ".".join(map(str, sys.version_info[:3]))
    expected = "11" if sys.version_info < (3, 12) else "12"
    advice = f"install the mitmproxy {expected} into the environment of Hushlist: pip install 'mitmproxy=={expected}.*'"
    try:
        mitmproxy = version("mitmproxy")
    except PackageNotFoundError:
        yield Diagnosis(About.VERSIONS, WRONG, f"Python {python} has no mitmproxy", advice)
        return
    is_tested = mitmproxy.split(".")[0] == expected
    what = f"Hushlist {__version__}, mitmproxy {mitmproxy}, Python {python}"
    yield Diagnosis(
        About.VERSIONS,
        GOOD if is_tested else WARNING,
        what if is_tested else f"{what}: with this Python, mitmproxy {expected} is tested",
        "" if is_tested else advice,
    )


def open_policy(path: Path) -> tuple[Engine | None, list[Diagnosis]]:
    """The policy as the proxy would use it, and what is wrong with it."""
    try:
        engine = load_engine(path)
    except SourceError as error:
        return None, [
            Diagnosis(About.POLICY, WRONG, str(problem), _remedy(problem, path)) for problem in error.problems
        ]
    policy, index = engine.policy, engine.index
    files = number_of(policy.number_of_files, "file", "files")
    good = f"{path}: {number_of(len(index), 'rule', 'rules')} of {files}"
    warnings = (
        *policy_warnings(policy, index),
        *CompileReport.of(index).brief_warnings(f"hushlist compile --policy {path}"),
    )
    return engine, [
        Diagnosis(About.POLICY, GOOD, good),
        *(Diagnosis(About.POLICY, WARNING, str(warning), "correct it, or accept it") for warning in warnings),
    ]


def _remedy(problem: Problem, policy: Path) -> str:
    """What a person does about a problem of a policy that cannot be used."""
    if NO_COPY in problem.why:
        return f"fetch it: hushlist update --policy {policy}"
    return "correct it: a proxy that runs keeps its last good rules, and none starts"


def examine_files(policy: Policy, now: float) -> Iterator[Diagnosis]:
    """Who can change what the filter goes by, and whether it can write where it has to; ``now`` as above."""
    if os.name != "posix":
        yield Diagnosis(About.FILES, UNKNOWN, "permissions are looked at on POSIX systems only")
        return
    if is_root():
        advice = "ask as the user who runs the filter: sudo -u hushlist hushlist doctor"
        yield Diagnosis(About.FILES, WARNING, "root asks: caches and stores are root's, not the filter's", advice)
    open_ones, late = [], []
    for path in {file for source in policy.files for file in (source, source.absolute().parent)}:
        with suppress(OSError):
            status = path.stat()
            if status.st_mode & S_IWOTH and not status.st_mode & S_ISVTX:
                open_ones.append(path)
            if status.st_mtime > now + 60:
                late.append(path)
    for path in sorted(open_ones):
        why = f"{path}: every user of this machine can change it, and so what is blocked"
        yield Diagnosis(About.FILES, WRONG, why, f"chmod o-w {path}")
    for path in sorted(late):
        why = f"{path}: it is of a later time than it is now"
        yield Diagnosis(About.CLOCK, WARNING, why, "set the clock, or touch the file")
    yield _examine_folder("cache", cache_folder)
    yield _examine_folder("state", state_folder)
    if not open_ones:
        what = f"no other user can change {number_of(policy.number_of_files, 'file', 'files')} of the policy"
        yield Diagnosis(About.FILES, GOOD, what)


def _examine_folder(name: str, find: Callable[[], Path]) -> Diagnosis:
    try:
        folder = find()
        check_private(folder)
    except (OSError, RuntimeError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        advice = "make it the filter's own: chown and chmod go-w; or set HOME, XDG_CACHE_HOME and XDG_STATE_HOME"
        return Diagnosis(About.FILES, WRONG, f"the {name} folder: {where}{reason_of(error)}", advice)
    return examine_writing(f"the {name} folder", folder)


def examine_authority(folder: Path, now: datetime) -> Iterator[Diagnosis]:
    """The certificate authority in mitmproxy's folder, which devices trust."""
    from cryptography import x509

    path = folder / NAME
    damage = fault_of_authority(folder)
    if damage is not None and (not path.exists() or os.access(path, os.R_OK)):
        what, _, advice = damage.partition(". ")
        yield Diagnosis(About.AUTHORITY, WRONG, what, advice)
        return
    if not path.exists():
        advice = "start the proxy once; if it has run, name its folder: --confdir"
        yield Diagnosis(About.AUTHORITY, WARNING, f"{path}: there is none yet", advice)
        return
    try:
        octets = read_private(path, _LONGEST)
        authority = x509.load_pem_x509_certificate(octets)
    except (OSError, ValueError) as error:
        condition = UNKNOWN if isinstance(error, PermissionError) else WRONG
        yield Diagnosis(About.AUTHORITY, condition, f"{path}: {reason_of(error)}", f"chmod 600 {path}, for its owner")
        return
    end, days = authority.not_valid_after_utc, (authority.not_valid_after_utc - now).days
    renew = f"move {folder}/mitmproxy-ca* away, start the proxy, and install the new certificate on every device"
    if authority.not_valid_before_utc > now:
        yield Diagnosis(About.AUTHORITY, WRONG, f"{path}: it is not valid yet", "set the clock of this machine")
    elif end <= now:
        yield Diagnosis(About.AUTHORITY, WRONG, f"{path}: it has ended on {end:%Y-%m-%d}", renew)
    elif days < _NOTICE:
        yield Diagnosis(About.AUTHORITY, WARNING, f"{path}: it ends on {end:%Y-%m-%d}, in {days} days", renew)
    else:
        yield Diagnosis(About.AUTHORITY, GOOD, f"{path}: valid until {end:%Y-%m-%d}")
    if others_can_write(path.stat(), S_IWGRP):
        yield Diagnosis(About.AUTHORITY, WRONG, f"{path}: its group can change it", f"chmod 600 {path}")


def examine_clock(policy: Policy, now: datetime) -> Iterator[Diagnosis]:
    """Whether something keeps the clock right, and the time zone of the policy's schedules."""
    local, there = now.astimezone(), now.astimezone(policy.zone)
    what = f"it is {there:%H:%M} in the policy's time zone {policy.zone}"
    if policy.zone is UTC and local.utcoffset() != there.utcoffset():
        advice = "write the time zone into the policy, such as timezone: Europe/Berlin"
        yield Diagnosis(About.CLOCK, WARNING, f"{what}, and {local:%H:%M} on this machine", advice)
    else:
        yield Diagnosis(About.CLOCK, GOOD, what)
    state = clock_state()
    if state == _UNSYNCHRONIZED:
        advice = "have chrony or systemd-timesyncd run, if this machine's host does not keep it right"
        yield Diagnosis(About.CLOCK, UNKNOWN, "the kernel knows of nothing that keeps the clock right", advice)
    elif state is None:
        yield Diagnosis(About.CLOCK, UNKNOWN, "whether something keeps it right, only Linux says")
    else:
        yield Diagnosis(About.CLOCK, GOOD, "something keeps it right")


def examine_schedules(policy: Policy, now: datetime) -> Iterator[Diagnosis]:
    """Schedules whose dates have all passed, such as the holidays of last year."""
    today, used = now.astimezone(policy.zone).toordinal(), dict[str, Schedule]()
    for group in policy.all_groups:
        used |= group.schedules
    for name, schedule in sorted(used.items()):
        last = max((turn - 1 for entry in schedule.entries for turn in entry.turns()), default=today)
        if last < today:
            why = f"the schedule {name}: the last of its dates was {date.fromordinal(last)}"
            yield Diagnosis(About.POLICY, WARNING, why, "write the next ones into the policy, or take these out")


def clock_state() -> int | None:
    """What ``adjtimex`` says, which changes nothing if all it is given is 0; ``None`` where there is no such call."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError, TypeError):
        return None
    return int(adjtimex(ctypes.create_string_buffer(1024)))
