"""Which addresses a rule for files or heads is about: by expressions, and by category."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from hushlist.core.decide.decision import Judgement, own_categories
from hushlist.core.errors import UrlError
from hushlist.core.lists.patterns import read_expression
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import TEXT, Reading, list_of
from hushlist.core.policy.keys import Type
from hushlist.core.policy.pass_through import HostSet
from hushlist.core.url.hrn import category_levels
from hushlist.core.url.request import MOST_HOSTS, canonical_host, target_forms


def is_about(judgement: Judgement, sites: tuple[bytes, ...], category: str | None, *, lets_pass: bool = False) -> bool:
    """Whether an expression covers a request's address, and a rule that fits it has the category; where they count.

    An address counts as every server may read it, and of what lets it pass every reading has to fit.
    """
    if category is not None:
        wanted, categories = category.encode(), own_categories(judgement.decision)
        if not any(wanted in category_levels(name) for name in categories):
            return False
    if not sites:
        return True
    fits = (any(_covers(site, target) for site in sites) for target in _targets(judgement, is_named=lets_pass))
    return all(fits) if lets_pass else any(fits)


def _targets(judgement: Judgement, *, is_named: bool) -> Iterator[bytes]:
    """Each canonical host and path that a request may be about; ``is_named``: by names that its client chose."""
    yield judgement.decision.url.partition(b"://")[2]
    for request in (judgement.request, *judgement.request.others):
        hosts = [host for host in request.hosts[:MOST_HOSTS] if not (is_named and host == request.destination)]
        for host in dict.fromkeys(hosts or request.hosts[:1]):
            yield from _readings(request.scheme, host, request.target)


@lru_cache(maxsize=1 << 2)
def _readings(scheme: bytes, host: bytes, target: bytes) -> tuple[bytes, ...]:
    """The readings of a target by a host; where they are too many, the request is blocked whatever they are.

    >>> _readings(b"http", b"a.example", b"/x/up;a")
    (b'a.example/x/up;a', b'a.example/x/up')
    """
    try:
        name = canonical_host(host)
    except UrlError:
        return (host + target,)
    forms = target_forms(scheme, target).forms
    return tuple(name + form.path + (b"" if form.query is None else b"?" + form.query) for form in forms)


def hosts_of(sites: tuple[bytes, ...]) -> HostSet:
    """The hosts that expressions are about, each with all below it."""
    return HostSet(frozenset((site.partition(b"/")[0], True) for site in sites))


def are_on(sites: tuple[bytes, ...], host: bytes) -> bool:
    """Whether one of the expressions is about a canonical host."""
    return any(_covers(site.partition(b"/")[0] + b"/", host + b"/") for site in sites)


def _covers(site: bytes, target: bytes) -> bool:
    """Whether an expression fits a canonical host and path: these, or what is below.

    >>> [_covers(b"a.example/b", target) for target in (b"w.a.example/b/c", b"a.example/bc", b"ba.example/b")]
    [True, False, False]
    >>> [_covers(b"[::1]/", target) for target in (b"[::1]/a", b"[::1]:9701/a", b"[::2]/a")]
    [True, True, False]
    """
    host, _, path = site.partition(b"/")
    authority, _, rest = target.partition(b"/")
    authority = authority[: authority.find(b"]") + 1] if authority.startswith(b"[") else authority.partition(b":")[0]
    if authority != host and not authority.endswith(b"." + host):
        return False
    return rest.startswith(path) and (not path or path.endswith(b"/") or rest[len(path) :][:1] in (b"", b"/", b"?"))


def _read(fields: MappingReader, key: str, reading: Reading) -> tuple[bytes, ...]:
    read = (read_expression(str(item.value), item.line, reading.report) for item in fields.some(key))
    sites = tuple(expression.value for expression in read if expression is not None)
    if not sites:
        fields.error(key, "expected expressions, such as video.example or video.example/live")
    return sites


SITES = Type(_read, {"anyOf": [TEXT, list_of(TEXT, minItems=1)]})
