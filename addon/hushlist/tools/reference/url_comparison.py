"""Finds the lowest rung of the ladder on which two IRIs are equivalent, and shows what each step changed.

>>> comparison = compare("http://example.com", "HTTP://example.com:80/")
>>> comparison.rung
'scheme'
>>> [change.step for change in comparison.b.changes]
['lowercase_scheme', 'remove_port']

Permanent redirects show that two URLs, with and without a trailing slash, are one resource: the rung *protocol*.

>>> known = redirected_profile([("http://h.example/data", "http://h.example/data/")])
>>> known.canonicalize("http://h.example/data") == known.canonicalize("http://H.example:80/data/")
True

Spec: RFC 3986, 6; draft-ietf-iri-comparison-00
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hushlist.core.errors import UrlError
from hushlist.core.url.comparison import LADDER, is_slash_redirect
from hushlist.core.url.hashed_uri import HASHED_N, HASHED_P, VARIANTS, is_hash_of, parse_hashed_uri
from hushlist.core.url.iri import SCHEME
from hushlist.core.url.parts import Parts, Profile, StepChange, split_generic, to_bytes
from hushlist.core.url.rfc3986 import resolve
from hushlist.core.url.safebrowsing import SAFEBROWSING, remove_fragment

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (SAFEBROWSING, *LADDER, HASHED_N, HASHED_P)}


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
        base: the base of relative references: "applications should not directly compare relative references".
        network_action: whether the purpose is "to select (or avoid) a network action"; then "fragment components (if
            any) MUST be excluded from the comparison".
        ladder: the rungs, the lowest first. A caller who knows more than the texts, such as redirects that were seen,
            adds a profile after ``LADDER``. It must begin with the steps of the rung below; otherwise IRIs that are
            equivalent there may differ on it.

    Raises ``UrlError`` if one is a relative reference and there is no base, or the base has no scheme; or a further
    profile refuses one of the two.
    """
    sides = [_prepare(to_bytes(url), base, network_action=network_action) for url in (a, b)]
    if hashed := _compare_with_hash(*sides) or _compare_with_hash(*reversed(sides), is_reversed=True):
        return hashed
    targets = [side.normal for side in sides]
    rung = next((profile for profile in ladder if len(set(map(profile.canonicalize, targets))) == 1), None)
    shown = rung or ladder[-1]
    changed = (replace(side, changes=(*side.changes, *shown.changes(side.normal))) for side in sides)
    return Comparison(None if rung is None else rung.name, *changed)


def _compare_with_hash(url: ComparedUrl, hashed: ComparedUrl, *, is_reversed: bool = False) -> Comparison | None:
    """The rung ``hashed-n`` or ``hashed-p``, if the one is a URL and the other a hashed URI that is made of it."""
    for variant, profile in VARIANTS.items():
        try:
            wanted = parse_hashed_uri(hashed.normal.decode("ascii", "replace"), variant)
        except UrlError:
            continue
        if split_generic(url.normal).scheme != b"hashed" and is_hash_of(wanted, url.normal):
            change = StepChange("hash_uri", url.normal, str(wanted).encode())
            sides = replace(url, changes=(*url.changes, change)), hashed
            return Comparison(profile.name, *(reversed(sides) if is_reversed else sides))
    return None


def _prepare(original: bytes, base: bytes | str | None, *, network_action: bool) -> ComparedUrl:
    target = original
    changes = []
    if split_generic(original).scheme is None:
        if base is None:
            raise UrlError(original, "a relative reference has no target to compare without a base (--base)", 0)
        target = resolve(original, base)
        changes.append(StepChange("resolve", original, target))
    if network_action and b"#" in target:
        changes.append(StepChange("remove_fragment", target, remove_fragment(target)))
    return ComparedUrl(original, tuple(change for change in changes if change.before != change.after))


def redirected_profile(redirects: Iterable[tuple[bytes | str, bytes | str]]) -> Profile:
    """The rung above ``scheme``, for redirects ``(source, location)`` that were seen; only slash redirects count."""
    redirected = frozenset(
        _resource(SCHEME.apply(SCHEME.parse(source)))
        for source, location in redirects
        if is_slash_redirect(source, location)
    )

    def follow_permanent_redirects(parts: Parts) -> Parts:
        resource = _resource(parts)
        return parts._replace(path=resource.path) if resource in redirected else parts

    return Profile("protocol", (*SCHEME.steps, follow_permanent_redirects))


def _resource(parts: Parts) -> Parts:
    """The resource that a redirect is about: its origin, and its path without a trailing slash."""
    path = parts.path[:-1] if parts.path.endswith(b"/") else parts.path
    return parts._replace(path=path, query=None, fragment=None)
