"""Some hundred ordinary requests to made-up sites, and what a list does with them: what fits one, fits much of the web.

No list has a reason to name these sites, nor anything in their addresses: whatever fits is broad. The sites are under
many top-level domains, and ask for documents, scripts, styles, images, fonts, media and data, of themselves and of
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.decide.decision import STOPPING
from hushlist.core.errors import Problem, number_of
from hushlist.core.match.context import Context, is_third_party
from hushlist.core.match.index import Index
from hushlist.core.match.index_file import FILTERED
from hushlist.core.match.rule import Action
from hushlist.core.match.rule_collector import CollectedPart
from hushlist.core.match.sorted_runs import unspill
from hushlist.core.url.parts import split_web
from hushlist.extensions.adblock.filter_index import FilterIndex
from hushlist.extensions.adblock.filter_table import FilterTable, find_keys, table_sections
from hushlist.extensions.adblock.network_filter import NetworkFilter, UrlInContext

if TYPE_CHECKING:
    from hushlist.core.compile.list_chunks import ChunkedList

_SITES = (
    *(b"www.quillmeadow.com", b"quillmeadow.com", b"shop.fernvault.com", b"www.oakharbourlibrary.org"),
    *(b"maps.tidewhistle.org", b"api.brightkettle.net", b"static.brightkettle.net", b"www.lindenwerk.de"),
    *(b"hilfe.lindenwerk.de", b"www.copperfinchbank.co.uk", b"mail.copperfinchbank.co.uk", b"www.pommeraie-verte.fr"),
    *(b"www.zaffirotorrente.it", b"www.robleantiguo.es", b"cdn.snowlarkstudio.io", b"app.snowlarkstudio.io"),
    *(b"www.heronlakecollege.edu", b"portal.heronlakecity.gov", b"www.mossgatemuseum.ca", b"www.wattlecreek.com.au"),
)  # fmt: skip
#: path and type, as the options of filters name it
_TARGETS = (
    (b"/", "document"),
    (b"/index.html", "document"),
    (b"/search?q=weather+tomorrow&page=2", "document"),
    (b"/login?next=%2Faccount", "document"),
    (b"/articles/2024/05/17/how-to-mend-a-bicycle.html", "document"),
    (b"/assets/main.4f2c91.js", "script"),
    (b"/js/vendor/framework.min.js?v=3.2.1", "script"),
    (b"/assets/main.8d17ab.css", "stylesheet"),
    (b"/styles/print.css?v=7", "stylesheet"),
    (b"/images/logo.png", "image"),
    (b"/media/photos/garden-1200x800.jpg?w=640", "image"),
    (b"/icons/sprite.svg", "image"),
    (b"/fonts/text-regular.woff2", "font"),
    (b"/video/lesson-3/part_0007.ts", "media"),
    (b"/api/v1/items?limit=20&offset=40", "xmlhttprequest"),
    (b"/graphql", "xmlhttprequest"),
    (b"/suggest?q=weather", "xmlhttprequest"),
    (b"/embed/player?id=58213", "subdocument"),
)  # fmt: skip


class OrdinaryRequest(NamedTuple):
    """A request, and who asks for it."""

    url: bytes
    page: str
    kind: str

    def in_context(self) -> UrlInContext:
        host = split_web(self.url).host or b""
        return UrlInContext(
            self.url, host, Context(self.page, self.kind, is_third_party(self.page.encode(), host), "GET")
        )


@cache
def ordinary_requests() -> tuple[OrdinaryRequest, ...]:
    """Each site with each kind of request; every third is asked for by a page of another site."""
    return tuple(_requests())


def _requests() -> Iterator[OrdinaryRequest]:
    for (at, site), (number, (path, kind)) in product(enumerate(_SITES), enumerate(_TARGETS)):
        is_of_another = (at + number) % 3 == 2 and kind != "document"
        page = _SITES[(at + 7) % len(_SITES)] if is_of_another else site
        yield OrdinaryRequest(b"https://" + site + path, page.decode(), kind)


class Effect(NamedTuple):
    """What rules do with the ordinary requests, by their places."""

    stopped: frozenset[int] = frozenset()
    #: those that they would let through though another rule of their layer stops them
    opened: frozenset[int] = frozenset()
    #: filters that are left out since each costs time on every request
    costly: int = 0

    def reasons(self, before: Effect, most: int) -> Iterator[str]:
        """Why that is too much, for people, if it is more than ``most`` of a hundred of what was not so before."""
        every = ordinary_requests()
        for verb, places in (("stops", self.stopped - before.stopped), ("opens", self.opened - before.opened)):
            if len(places) * 100 > most * len(every):
                example = every[min(places)].url.decode()
                what = f"of {len(every)} ordinary requests to made-up sites, more than {most} %"
                yield f"it {verb} {len(places)} {what}, such as {example}"
        if self.costly > before.costly:
            filters = number_of(self.costly - before.costly, "of its filters costs", "of its filters cost")
            yield f"{filters} too much on every request, and would be left out"


def effect_of_parts(parts: Iterable[CollectedPart], action: Action) -> Effect:
    """The effect of a list's network filters, which do this if they are no exceptions; what else covers much is found
    by itself (``core/match/overbroad.py``)."""
    stored = (part.filters["adblock"] for part in parts if "adblock" in part.filters)
    (keyed,) = find_keys([[worded for filters in stored for worded in unspill(filters)]])
    if not keyed.by:
        return Effect(costly=len(keyed.left_out))
    sections = table_sections([keyed])
    table = FilterTable(lambda name: memoryview(sections[name]), "the list")
    stopped, opened = set[int](), set[int]()
    for place, request in enumerate(ordinary_requests()):
        subject = request.in_context()
        fit = [entry.read() for entry in (*table.of_host(subject.host), *table.find(subject, is_named=True))]
        fit = [entry for entry in fit if entry.decides]
        is_stopped = any(not entry.is_exception for entry in fit)
        if is_stopped and action in STOPPING:
            stopped.add(place)
        is_excepted = any(entry.is_exception for entry in fit) or table.find(subject, is_named=True, exceptions=True)
        if is_excepted or (is_stopped and action is Action.ALLOW):
            opened.add(place)
    return Effect(frozenset(stopped), frozenset(opened), len(keyed.left_out))


def effects(index: Index) -> dict[str, Effect]:
    """The effect of each source's network filters."""
    stopped: dict[str, set[int]] = {}
    opened: dict[str, set[int]] = {}
    filters = index.filters.get("adblock")
    if not isinstance(filters, FilterIndex):
        return {}
    for place, request in enumerate(ordinary_requests()):
        for source, action in _of_request(index, filters, request.in_context()):
            if action is Action.ALLOW:
                opened.setdefault(source, set()).add(place)
            elif action in STOPPING:
                stopped.setdefault(source, set()).add(place)
    sources: Iterable[str] = stopped.keys() | opened.keys()
    return {source: Effect(frozenset(stopped.get(source, ())), frozenset(opened.get(source, ()))) for source in sources}


def _of_request(index: Index, filters: FilterIndex, subject: UrlInContext) -> Iterator[tuple[str, Action]]:
    """Source and action of the network filters that fit."""
    host = index.on_host(subject.host)
    matches = filters.find(subject, is_named=host.bits & FILTERED != 0, is_stopped=True)
    for match in (*host.matches, *matches):
        if isinstance(match.rule.pattern, NetworkFilter) and match.rule.pattern.decides:
            is_exception = match.rule.pattern.is_exception
            yield match.rule.terms.source, Action.ALLOW if is_exception else match.rule.terms.action


def too_much(index: Index, lists: Iterable[ChunkedList]) -> Iterator[Problem]:
    """Warnings of lists whose filters fit ordinary requests: a first version has none before it to be compared with."""
    by_source = effects(index)
    for chunked in lists:
        most = None if chunked.file.gate is None else chunked.file.gate.requests
        if chunked.file.source in by_source and most is not None:
            for why in by_source[chunked.file.source].reasons(Effect(), most):
                yield Problem(chunked.file.source, 0, "list", why)
