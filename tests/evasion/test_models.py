"""No target leads a model of a server to what is blocked."""

import pytest

from evasion.models import SERVERS, misses, targets


def test_no_random_target_reaches_a_blocked_page() -> None:
    missed = {target: found for target in targets(1_000, seed=1) if (found := list(misses(target)))}
    assert not missed


@pytest.mark.parametrize("name", SERVERS)
def test_a_model_is_led_to_the_blocked_page(name: str) -> None:
    """Each has to be reached by other spellings than the canonical one, or it would prove nothing."""
    served = {SERVERS[name](target) for target in targets(3000, seed=1)}
    assert len([path for path in served if path is not None and path.startswith(b"/secret/")]) > 1
