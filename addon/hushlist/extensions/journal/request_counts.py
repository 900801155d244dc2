"""How many requests there were in each quarter of an hour, by whom, and what was done with them: all of them.

The log's ``what`` says which decisions it keeps; these counts are of every decision, and so the figures of the page.
They are in the log's SQLite file, and have of clients what the log may have.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from hushlist.core.decide.decision import LogRecord
from hushlist.core.policy.groups import address_text
from hushlist.extensions.journal.log_record import Privacy, who

#: seconds; no time zone divides it
QUARTER = 900
#: what is counted in the place of the action of what only a dry run let pass
WOULD = "would"
#: decisions, and what is counted of them, that may wait to be written
_MOST_NOTED, _MOST_KINDS = 1 << 16, 1 << 12
#: quarter, client, user, group, action
_Kind = tuple[int, str, str, str, str]

INSERT = (
    'INSERT INTO counts (quarter, client, "user", of_group, action, number) VALUES (?, ?, ?, ?, ?, ?) '
    "ON CONFLICT DO UPDATE SET number = number + excluded.number"
)
TOO_OLD = "DELETE FROM counts WHERE quarter < ?"
TOO_MANY = "DELETE FROM counts WHERE rowid <= (SELECT max(rowid) FROM counts) - ?"


class RequestCounts:
    """What was counted and is not written yet; one thread notes, and another gathers."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, str | None, str | None, str | None, str]] = deque(maxlen=_MOST_NOTED)
        self._waiting: Counter[_Kind] = Counter()

    def note(self, record: LogRecord) -> None:
        """Count a decision; never waits, never raises."""
        action = WOULD if record.would_block else record.decision.action._value_
        self._noted.append((record.moment, record.client, record.user, record.group, action))

    def gather(self, privacy: Privacy) -> Mapping[_Kind, int]:
        """What waits, with what may be told of clients; of too many, they are left out."""
        noted = Counter[tuple[int, str | None, str | None, str | None, str]]()
        for _ in range(len(self._noted)):
            moment, client, user, group, action = self._noted.popleft()
            try:
                noted[int(moment) // QUARTER, client, user, group, action] += 1
            except (ValueError, OverflowError):  # of no clock
                continue
        for (quarter, client, user, group, action), number in noted.items():
            shown = who("client", None if client is None else address_text(client), privacy), who("user", user, privacy)
            names = (shown[0] or "", shown[1] or "") if len(self._waiting) < _MOST_KINDS else ("", "")
            self._waiting[quarter, *names, group or "", action] += number
        return self._waiting

    def written(self) -> None:
        """Forget what ``gather`` gave."""
        self._waiting = Counter()

    @property
    def is_done(self) -> bool:
        return not self._noted and not self._waiting


def rows_of(counts: Mapping[_Kind, int]) -> Iterable[tuple[int | str, ...]]:
    """For ``INSERT``; SQLite takes no half characters."""
    for (quarter, *texts), number in counts.items():
        yield (quarter, *(text.encode("utf-8", "backslashreplace").decode() for text in texts), number)
