"""The one place that decides, after a failure of the filter, whether a flow is refused or passes.

mitmproxy itself would log a hook's exception and let the flow pass. A request that is already blocked stays blocked.
The policy's ``on-failure`` applies only to undecided requests.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from time import monotonic

from mitmproxy import dns, flow, http
from mitmproxy.net.dns import response_codes

from hushlist.core.errors import logger_of, printable
from hushlist.core.match.index_file import IndexFileError
from hushlist.core.policy.proxy_settings import FailureCause, OnFailure
from hushlist.proxy.flow_outcome import refuse
from hushlist.proxy.page import block_response

logger = logger_of(__name__)

#: seconds between two tracebacks of the same kind: a failure at each request must not fill a disk
_PAUSE = 60.0
_MOST_KINDS = 100


class FailurePolicy:
    """Handles failures of the filter, and counts them."""

    def __init__(self) -> None:
        #: the setting of the policy, or of the one that could not be used at the start
        self.on_failure = OnFailure()
        self._refused: Counter[FailureCause] = Counter()
        self._passed: Counter[FailureCause] = Counter()
        self._last = ""
        #: when a kind of exception was last logged with its traceback
        self._logged: dict[tuple[object, ...], float] = {}

    def act(self, failed: flow.Flow, error: Exception, *, is_blocked: bool = False) -> None:
        """Refuse a flow, or let it pass, as the policy says for an exception; call it where the exception is caught.

        ``is_blocked``: the request is already blocked, and a later step failed. A request gets an answer, and so does a
        DNS question; any other flow is killed.
        """
        if is_blocked or not self.on_failure.passes(_cause_of(error)):
            _refuse(failed)  # first, since the rest may fail, too
        what = "request" if isinstance(failed, http.HTTPFlow) else f"{failed.type} flow"
        self.lets_pass(error, what, is_blocked=is_blocked)

    def lets_pass(self, error: Exception, what: str, *, is_blocked: bool = False) -> bool:
        """Whether something passes after a failure, which is counted and logged; like ``act``, but without a flow."""
        cause = _cause_of(error)
        passes = self.passes(cause, error, is_blocked=is_blocked)
        done = "it passes undecided" if passes else "it is refused"
        self._log(error, f"hushlist: the filter failed on a {what}, {done} (on-failure: {cause})")
        return passes

    def passes(self, cause: FailureCause, error: Exception | None = None, *, is_blocked: bool = False) -> bool:
        """Whether something undecided passes; counts it."""
        passes = self.on_failure.passes(cause) and not is_blocked
        (self._passed if passes else self._refused)[cause] += 1
        if error is not None:
            text = printable(f"{type(error).__name__}: {error}")
            self._last = f", the last at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC: {text[:300]}"
        return passes

    @property
    def refused(self) -> int:
        """How often a failure of the filter refused something."""
        return self._refused.total()

    @property
    def passed(self) -> int:
        """How often something passed undecided."""
        return self._passed.total()

    def status(self) -> str:
        """The numbers, for people; empty if there was no failure."""
        refused, passed = (
            ", ".join(f"{number:,} by {cause}" for cause, number in sorted(counts.items()))
            for counts in (self._refused, self._passed)
        )
        if not refused and not passed:
            return ""
        return f"failures: {refused or 'none'} refused, {passed or 'none'} passed undecided{self._last}"

    def _log(self, error: Exception, text: str) -> None:
        """Log an exception, with its traceback if it is the first of its kind for a while."""
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


def _cause_of(error: Exception) -> FailureCause:
    return FailureCause.INDEX if isinstance(error, IndexFileError) else FailureCause.ERROR


def _refuse(failed: flow.Flow) -> None:
    if isinstance(failed, http.HTTPFlow):
        refuse(failed, block_response.failure)
    elif isinstance(failed, dns.DNSFlow):
        # an unsolicited answer has no request, and goes nowhere
        request = getattr(failed, "request", None) if failed.live else None
        failed.response = None if request is None else request.fail(response_codes.SERVFAIL)
    elif failed.killable:
        failed.kill()
