"""How much memory the process has."""

import platform
from collections.abc import Callable
from mmap import PAGESIZE, mmap

import pytest

from hushlist.core.system import memory


def test_it_grows_with_what_is_kept() -> None:
    with mmap(-1, 1 << 26) as kept:  # new memory: a large object may have what another one left
        before = memory.resident_octets()
        for place in range(0, len(kept), PAGESIZE):
            kept[place] = 1
        after = memory.resident_octets()
    assert before is not None
    assert after is not None
    assert after - before > 1 << 25


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the library of GNU gives it back")
@pytest.mark.posix
def test_what_is_free_between_what_is_kept_goes_back_to_the_system() -> None:
    each, every = 60_000, 50
    blocks = [bytes(each) for _ in range(2000)]  # too small for memory of their own, which goes back at once
    kept = blocks[::every]
    blocks.clear()
    before = memory.resident_octets()
    memory.give_back()
    after = memory.resident_octets()
    assert before is not None
    assert after is not None
    assert before - after > 1900 * each / 2
    assert len(kept) == 2000 / every


def test_a_cache_whose_half_another_thread_replaces_during_a_look_up_still_answers() -> None:
    cache = memory.BoundedCache[str, int](len, 4)
    steps = list[Callable[[], object]]()

    class Key(str):
        __slots__ = ()

        def __hash__(self) -> int:
            if steps:
                steps.pop()()
            return super().__hash__()

    for name in ("a", "b", "c"):
        assert cache[name] == 1  # "a" is in the older half then
    steps += [lambda: [cache[name] for name in ("d", "e")], lambda: None]
    assert cache[Key("a")] == 1
