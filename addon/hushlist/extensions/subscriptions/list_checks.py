"""What ``hushlist doctor`` says of lists that are fetched, or held back."""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.diagnosis import GOOD, WARNING, WRONG, About, Diagnosis
from hushlist.core.errors import number_of
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.subscriptions.subscription import NO_COPY

_DAY = 86400.0


def examine_lists(policy: Policy, now: float) -> Iterator[Diagnosis]:
    """Lists that are held back, failing, too old or not there; ``now`` in seconds of Unix time."""
    command = f"hushlist update --policy {policy.source}"
    for problem in policy.held_back:
        yield Diagnosis(About.LISTS, WARNING, str(problem), "mend the file; until then, its last good copy is used")
    for subscribed in policy.subscribed:
        subscription, state, current = subscribed.subscription, subscribed.store.state(), subscribed.store.current()
        url = subscription.url
        if current is None:
            condition = WARNING if subscription.is_optional else WRONG
            yield Diagnosis(About.LISTS, condition, f"{url}: {NO_COPY}", f"fetch it: {command}")
            continue
        for trouble in state.troubles(url):
            yield Diagnosis(About.LISTS, WARNING, trouble, f"see {command} --help: --accept, --rollback")
        age, most = now - state.checked, subscription.max_age
        text = f"{url}: asked with success {_days(age)} ago" if state.checked else f"{url}: never asked with success"
        if most is not None and age > most:
            yield Diagnosis(About.LISTS, WRONG, f"{text}, more than its max-age of {_days(most)}", command)
        elif state.next_try and now > state.next_try + _DAY:
            advice = "have the proxy run as this user, or the timer of examples/service"
            yield Diagnosis(About.LISTS, WARNING, f"{text}; nobody has fetched it since it was due", advice)
        else:
            yield Diagnosis(About.LISTS, GOOD, text)


def _days(seconds: float) -> str:
    """A time for people.

    >>> _days(90.0), _days(7200.0), _days(86400.0 * 3)
    ('1 minute', '2 hours', '3 days')
    """
    for unit, name in ((_DAY, "day"), (3600.0, "hour")):
        if seconds >= unit:
            return number_of(int(seconds // unit), name, f"{name}s")
    return number_of(max(int(seconds // 60), 0), "minute", "minutes")
