"""Time zones and durations, as a policy says them."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.keys import Type
from hushlist.core.system.late_pattern import late_pattern

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: most characters of a time zone's name, twice the longest; for a long one with dots, Python would import nested
#: packages until it gives up
_LONGEST_ZONE = 64
#: seconds of the units in ``_DURATION``
_UNITS = (86400, 3600, 60, 1)
_DURATION = late_pattern(r"(?=[0-9])(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def seconds_of(text: str) -> int | None:
    """Seconds, from a text such as ``30m``, ``2h``, ``1d`` or ``1h30m``; ``None`` if it is no such text.

    >>> seconds_of("1h30m"), seconds_of("often")
    (5400, None)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    return sum(int(number) * unit for number, unit in zip(match.groups(default="0"), _UNITS, strict=True))


def read_timezone(fields: MappingReader) -> tzinfo:
    """The time zone that a policy names, in upper or lower case; UTC if it names none, or an unknown one."""
    name = fields.text("timezone")
    if name is None or name.upper() == "UTC":
        return UTC  # UTC needs no database
    from difflib import get_close_matches
    from zoneinfo import ZoneInfo, available_timezones

    try:
        if len(name) <= _LONGEST_ZONE:
            return _by_newest_rules(ZoneInfo(name))
    except (OSError, ValueError, LookupError):  # OSError: a folder of zones; ValueError: a path, or not a zone's file
        pass
    zones = {zone.casefold(): zone for zone in available_timezones()}
    written = name[:_LONGEST_ZONE].strip().replace(" ", "_").casefold()
    if written in zones and len(name) <= _LONGEST_ZONE:
        return _by_newest_rules(ZoneInfo(zones[written]))
    if zones:
        near = [zones[zone] for zone in get_close_matches(written, zones, n=3, cutoff=0.7)]
        why = f"unknown time zone (expected a name such as {', '.join(near or ('UTC', 'Europe/Berlin'))})"
    else:
        why = "this machine has no time zone database: install the package tzdata, or use UTC"
    fields.error("timezone", why, f"timezone: {name}")
    return UTC


_ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]
TIMEZONE = Type(lambda fields, _, __: read_timezone(fields), {"type": "string", "pattern": "\\S", "examples": _ZONES})


def rules_of_zone(zone: tzinfo) -> Path | None:
    """The system's file with the rules of a time zone, which changes when a state changes them."""
    if zone is UTC:
        return None
    from zoneinfo import TZPATH

    return next((file for folder in TZPATH if (file := Path(folder, str(zone))).is_file()), None)


#: zone -> its rules when they were last read
_read_rules: dict[str, tuple[float, int] | None] = {}


def _by_newest_rules(zone: ZoneInfo) -> ZoneInfo:
    """A time zone by the rules of today: Python itself reads them once, and a proxy may run for years."""
    file = rules_of_zone(zone)
    status = None if file is None else file.stat()
    seen = None if status is None else (status.st_mtime, status.st_ino)
    if _read_rules.setdefault(zone.key, seen) != seen:
        zone.clear_cache(only_keys=[zone.key])
        _read_rules[zone.key] = seen
    return type(zone)(zone.key)
