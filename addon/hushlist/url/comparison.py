"""Finds the lowest rung of the ladder on which two IRIs are equivalent, and shows what each step changed.

>>> comparison = compare("http://example.com", "HTTP://example.com:80/")
>>> comparison.rung
'scheme'
>>> [change.step for change in comparison.b.changes]
['lowercase_scheme', 'remove_port']

Spec: RFC 3986, 6; draft-ietf-iri-comparison-00
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hushlist.url.hashed_uri import HASHED_N, HASHED_P
from hushlist.url.iri import SCHEME, SIMPLE, SYNTAX
from hushlist.url.parts import Profile, split_generic, to_bytes
from hushlist.url.rfc3986 import resolve
from hushlist.url.safebrowsing import SAFEBROWSING, remove_fragment

#: The rungs that need nothing but the two texts, the lowest first.
LADDER: tuple[Profile, ...] = (SIMPLE, SYNTAX, SCHEME)


@dataclass(frozen=True, slots=True)
class StepChange:
    """One step that changed something, with the whole text before and after it."""

    #: the step's name: a function of ``rfc3986`` or ``iri``, or of another profile of the ladder
    step: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class ComparedUrl:
    """One IRI of a comparison; "its original form MUST be preserved" beside the normal form."""

    original: bytes
    #: in the order of the steps; empty if the original is in normal form
    changes: tuple[StepChange, ...]

    @property
    def normal(self) -> bytes:
        """The normal form on the rung that decided, or on the highest."""
        return self.changes[-1].after if self.changes else self.original


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome: "different" or "equivalent", and on which rung."""

    #: name of the lowest rung on which the two are equivalent; ``None`` if they are different on all
    rung: str | None
    a: ComparedUrl
    b: ComparedUrl


def compare(
    a: bytes | str,
    b: bytes | str,
    *,
    base: bytes | str | None = None,
    network_action: bool = False,
    ladder: Sequence[Profile] = LADDER,
) -> Comparison:
    """Climb the ladder until the two are equivalent.

    >>> compare("http://example.org/~user", "http://example.org/%7euser").rung
    'syntax'
    >>> compare("http://example.com/data", "http://example.com/data/").rung is None
    True

    Text is encoded as UTF-8, so that it is compared character by character, and no character is normalized.

    Args:
        a: the one.
        b: the other.
        base: the base of relative references: "applications should not directly compare relative references". Without
            it they are compared as they are.
        network_action: whether the purpose is "to select (or avoid) a network action"; then "fragment components (if
            any) MUST be excluded from the comparison".
        ladder: the rungs, the lowest first. A caller who knows more than the texts, such as redirects that were seen,
            adds a profile after ``LADDER``. It must begin with the steps of the rung below; otherwise IRIs that are
            equivalent there may differ on it.

    Raises ``UrlError`` if the base has no scheme; or a further profile refuses one of the two.
    """
    sides = [_prepare(to_bytes(url), base, network_action=network_action) for url in (a, b)]
    targets = [side.normal for side in sides]
    rung, profile = None, ladder[-1]
    for candidate in ladder:
        first, second = map(candidate.canonicalize, targets)
        if first == second:
            rung, profile = candidate.name, candidate
            break
    return Comparison(rung, *(_explain(side, profile) for side in sides))


def _prepare(original: bytes, base: bytes | str | None, *, network_action: bool) -> ComparedUrl:
    target = original
    changes = []
    if base is not None and split_generic(original).scheme is None:
        target = resolve(original, base)
        changes.append(StepChange("resolve", original, target))
    if network_action and b"#" in target:
        changes.append(StepChange("remove_fragment", target, remove_fragment(target)))
    return ComparedUrl(original, tuple(change for change in changes if change.before != change.after))


def _explain(side: ComparedUrl, profile: Profile) -> ComparedUrl:
    return ComparedUrl(side.original, (*side.changes, *_changes(profile, side.normal)))


def _changes(profile: Profile, url: bytes) -> Iterator[StepChange]:
    before = url
    for step, after in profile.trace(url):
        if after != before:
            yield StepChange(step, before, after)
        before = after


PROFILES: dict[str, Profile] = {profile.name: profile for profile in (SAFEBROWSING, *LADDER, HASHED_N, HASHED_P)}
