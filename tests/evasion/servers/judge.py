"""Compares what a server served with what the filter says of the same target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evasion.corpus import write_corpus_policy
from evasion.servers.asking import ServerReading, is_secret
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import STOPPING
from hushlist.core.url.request import Request

#: sites of the corpus's policy with a rule for /secret/: in the clear, by its SHA-256, in a layer before an allowance
SECRET_HOSTS = (b"path.test", b"hash.test", b"open.test")
#: the one of which nothing but /live/ is allowed
LIVE_HOST = b"video.test"
#: what there is beside /live/, in the root of every server
_OUTSIDE = (b"a", b"b", b"secret", b"x", b"hidden", b"index.html")


@dataclass(frozen=True, slots=True)
class Miss:
    """A target that the filter lets pass, and by which a server served what is blocked."""

    target: bytes
    #: hosts for which it passes
    hosts: tuple[bytes, ...]
    #: which of the server's applications it was, and what it took the target for
    reading: str
    served: bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a server's answers."""

    #: host and target of what is blocked and was served: in /secret/, or outside of /live/ by a target that names it
    harmful: tuple[tuple[bytes, bytes], ...]
    #: one for each target, the shortest first
    misses: tuple[Miss, ...]


class Judge:
    """Asks the filter, with the policy of the corpus."""

    def __init__(self, folder: Path) -> None:
        engine = load_engine(write_corpus_policy(folder))

        def passes(host: bytes, target: bytes) -> bool:
            return engine.decide(Request(b"http", (host,), 80, target)).action not in STOPPING

        self._passes = cache(passes)  # one target is asked of many servers

    def judge(self, targets: Sequence[bytes], told: Sequence[ServerReading]) -> Judged:
        """``told`` is what a server told of each of the targets."""
        harmful, misses = dict[tuple[bytes, bytes], None](), dict[bytes, Miss]()
        for target, readings in zip(targets, told, strict=True):
            for reading, served in readings.items():
                hosts = blocking(target, served)
                harmful |= dict.fromkeys((host, target) for host in hosts if host not in SECRET_HOSTS[1:])
                passing = tuple(host for host in hosts if self._passes(host, target))
                if passing:
                    misses.setdefault(target, Miss(target, passing, reading, served))
        return Judged(tuple(harmful), tuple(sorted(misses.values(), key=lambda miss: len(miss.target))))


def blocking(target: bytes, served: bytes) -> tuple[bytes, ...]:
    """The hosts that may not serve it."""
    secret = SECRET_HOSTS if is_secret(served) else ()
    return (*secret, LIVE_HOST) if b"live" in target and is_outside(served) else secret


def is_outside(served: bytes) -> bool:
    """Whether it is a place that there is, in none of the folders that are allowed.

    A name that nothing has, such as ``/live%2fx``, leads nowhere.
    """
    return served == b"/" or served[1:].split(b"/")[0] in _OUTSIDE
