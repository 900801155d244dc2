"""A profile is an ordered tuple of named canonicalization steps, so two profiles differ only as data.

A step is a pure function with the step's name. The steps in ``prepare`` work on the octets before they are split; those
in ``steps`` work on the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hushlist.url.parts import Parts, to_bytes

Preparation = Callable[[bytes], bytes]
Step = Callable[[Parts], Parts]


@dataclass(frozen=True, slots=True)
class Profile:
    """A split function, and the steps before and after it."""

    name: str
    prepare: tuple[Preparation, ...]
    split: Callable[[bytes], Parts]
    steps: tuple[Step, ...]

    @property
    def step_names(self) -> tuple[str, ...]:
        """The names of all steps, in the order in which they run."""
        return tuple(step.__name__ for step in (*self.prepare, self.split, *self.steps))

    def parse(self, url: bytes | str) -> Parts:
        """Prepare and split only.

        Raises:
            UrlError: ``split`` refuses the URL.
        """
        octets = to_bytes(url)
        for prepare in self.prepare:
            octets = prepare(octets)
        return self.split(octets)

    def apply(self, parts: Parts) -> Parts:
        """Run the steps.

        Raises:
            UrlError: a step left nothing of the host.
        """
        for step in self.steps:
            parts = step(parts)
        return parts

    def canonicalize(self, url: bytes | str) -> bytes:
        """The canonical URL.

        Raises:
            UrlError: it cannot be split.
        """
        return self.apply(self.parse(url)).join()

    def trace(self, url: bytes | str) -> Iterator[tuple[str, bytes]]:
        """Every step's name with the whole URL after it; compare neighbours to see changes.

        Raises:
            UrlError: it cannot be split.
        """
        octets = to_bytes(url)
        for prepare in self.prepare:
            octets = prepare(octets)
            yield prepare.__name__, octets
        parts = self.split(octets)
        yield self.split.__name__, parts.join()
        for step in self.steps:
            parts = step(parts)
            yield step.__name__, parts.join()
