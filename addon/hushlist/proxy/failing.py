"""The one place where a failure of the filter becomes what happens to a flow: it is refused, or it passes.

mitmproxy itself would log the exception of a hook and let the flow pass. A request that is blocked already stays so,
whatever fails behind the decision: there is a choice (``on-failure`` of the policy) only for what is undecided.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime
from time import monotonic

from mitmproxy import dns, flow, http
from mitmproxy.net.dns import response_codes

from hushlist.errors import printable
from hushlist.match.index_file import IndexFileError
from hushlist.policy.failure import Cause, OnFailure
from hushlist.proxy import answer
from hushlist.proxy.refusing import refuse

logger = logging.getLogger(__name__)

#: seconds from one traceback to the next of the same kind: a failure at each request is not to fill a disk
_PAUSE = 60.0
_MOST_KINDS = 100


class Failing:
    """What is done where the filter fails, and how often that was."""

    def __init__(self) -> None:
        #: what the policy says, or the one that could not be used at the start
        self.on_failure = OnFailure()
        self._refused: Counter[Cause] = Counter()
        self._passed: Counter[Cause] = Counter()
        self._last = ""
        #: when a kind of exception was last logged with its traceback
        self._logged: dict[tuple[object, ...], float] = {}

    def act(self, failed: flow.Flow, error: Exception, *, is_blocked: bool = False) -> None:
        """Refuse a flow, or let it pass, as the policy says for what was raised; to be called where it is handled.

        ``is_blocked``: it was decided before, and only what comes behind has failed. A request gets an answer, and so
        does a question of DNS; any other flow is killed.
        """
        what = "request" if isinstance(failed, http.HTTPFlow) else f"{failed.type} flow"
        if self.lets_pass(error, what, is_blocked=is_blocked):
            return
        if isinstance(failed, http.HTTPFlow):
            refuse(failed, answer.failure)
        elif isinstance(failed, dns.DNSFlow):
            # an answer that nobody asked for has no request, and goes nowhere
            request = getattr(failed, "request", None) if failed.live else None
            failed.response = None if request is None else request.fail(response_codes.SERVFAIL)
        elif failed.killable:
            failed.kill()

    def lets_pass(self, error: Exception, what: str, *, is_blocked: bool = False) -> bool:
        """Whether what the filter has failed on passes, as ``act`` has it; where there is no flow."""
        cause = Cause.INDEX if isinstance(error, IndexFileError) else Cause.ERROR
        passes = self.passes(cause, error, is_blocked=is_blocked)
        done = "it passes undecided" if passes else "it is refused"
        self._log(error, f"hushlist: the filter failed on a {what}, {done} (on-failure: {cause})")
        return passes

    def passes(self, cause: Cause, error: Exception | None = None, *, is_blocked: bool = False) -> bool:
        """Whether what cannot be decided passes; each is counted."""
        passes = self.on_failure.passes(cause) and not is_blocked
        (self._passed if passes else self._refused)[cause] += 1
        if error is not None:
            text = printable(f"{type(error).__name__}: {error}")
            self._last = f", the last at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC: {text[:300]}"
        return passes

    @property
    def refused(self) -> int:
        """How often something was refused since the filter has failed."""
        return self._refused.total()

    @property
    def passed(self) -> int:
        """How often something has passed undecided."""
        return self._passed.total()

    def status(self) -> str:
        """How often it was, for people; nothing where it never was."""
        refused, passed = (
            ", ".join(f"{number:,} by {cause}" for cause, number in sorted(counts.items()))
            for counts in (self._refused, self._passed)
        )
        if not refused and not passed:
            return ""
        return f"failures: {refused or 'none'} refused, {passed or 'none'} passed undecided{self._last}"

    def _log(self, error: Exception, text: str) -> None:
        """Log an exception, with its traceback where it is the first of its kind for a while."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        kind = (type(error), place and place.tb_frame.f_code, place and place.tb_lineno)
        now = monotonic()
        if now - self._logged.get(kind, -_PAUSE) < _PAUSE:
            said = printable(f"{type(error).__name__}: {error}")
            logger.error("%s: %s", text, said[:300])  # its traceback was logged a moment ago
            return
        if len(self._logged) >= _MOST_KINDS:
            self._logged.clear()
        self._logged[kind] = now
        logger.error(text, exc_info=error)
