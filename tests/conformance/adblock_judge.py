"""What adblock-rust and we say of the same requests by the same filters, and into which classes the differences fall.

The requests are those of ``../shared``, as a browser sends them. Where the recording does not tell the page, it is a
page of another site; where it does not tell the type, the path's ending does, or it is ``other``. README.md beside this
has a table of the classes, and the sentence that decides on each; ``test_adblock`` holds the two against each other.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.decide.decision import Decision
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import UrlError
from hushlist.core.match.context import context_of, host_of_page
from hushlist.core.match.rule import Action
from hushlist.core.url.request import WEB, StatedContext, canonical_host, request_of
from hushlist.tools.audit.sources.browser_files import read_har
from hushlist.tools.audit.sources.line_sources import read_lines, read_request
from hushlist.tools.audit.sources.recorded_request import RecordedRequest
from shared import SHARED

LISTS = {
    "EasyList": ("easylist.txt.gz",),
    "EasyPrivacy": ("easyprivacy.txt.gz",),
    "EasyList and EasyPrivacy": ("easylist.txt.gz", "easyprivacy.txt.gz"),
}
FOLDER = SHARED / "data" / "adblock"
_ANOTHER_SITE = b"https://page.example/"


class BrowserRequest(NamedTuple):
    """A request as a browser sends it."""

    url: str
    page: str
    kind: str

    @property
    def context(self) -> StatedContext:
        return StatedContext(self.page.encode(), self.kind, b"GET")


@cache
def recorded() -> tuple[list[BrowserRequest], int]:
    """Every request once; those first, and as many as said, whose page and type were recorded."""
    found: dict[BrowserRequest, bool] = {}
    for record in _records():
        try:
            request = request_of(record.request)  # type: ignore[arg-type]
            host = canonical_host(request.hosts[0])
        except UrlError:
            continue
        if request.scheme not in WEB:
            continue
        url = request.url_by(host)
        kind, page = record.context.kind, record.page if record.page and host_of_page(record.page) else None
        is_known = bool(kind) and (page is not None or kind == "document")
        kind = kind or context_of(request, host).kind or "other"
        page = url if kind == "document" else page or _ANOTHER_SITE
        browser_request = BrowserRequest(url.decode("ascii", "replace"), page.decode("utf-8", "replace"), kind)
        found[browser_request] = found.get(browser_request, False) or is_known
    known = [browser_request for browser_request, is_known in found.items() if is_known]
    return known + [browser_request for browser_request, is_known in found.items() if not is_known], len(known)


def _records() -> Iterator[RecordedRequest]:
    data = SHARED / "data"
    with gzip.open(data / "requests" / "requests.tsv.gz") as lines:
        yield from (ours for ours in read_lines(lines, "tsv", read_request) if isinstance(ours, RecordedRequest))  # type: ignore[arg-type]
    for path in sorted((data / "har").glob("*.har")):
        with path.open("rb") as stream:
            yield from (ours for ours in read_har(stream, path.name) if isinstance(ours, RecordedRequest))


# -- the two --------------------------------------------------------------------------------------------------------


def ours(folder: Path, *texts: str) -> Engine:
    """Our engine of Adblock lists."""
    names = [f"{number}.adblock" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    policy = folder / "policy.yaml"
    policy.write_text(f"layers: [{{name: lists, lists: [{', '.join(names)}]}}]")
    return load_engine(policy)


class Judge:
    """adblock-rust, by the package adblock."""

    def __init__(self, *texts: str) -> None:
        import adblock

        filters = adblock.FilterSet(debug=True)  # so that it names the filter
        for text in texts:
            filters.add_filter_list(text)
        self._check = adblock.Engine(filters, False).check_network_urls

    def __call__(self, browser_request: BrowserRequest) -> tuple[bool, str]:
        """Whether it blocks a request, and the filter that does, or else the exception that keeps it from that."""
        said = self._check(
            browser_request.url.replace("http", "ws", browser_request.kind == "websocket"),
            browser_request.page,
            browser_request.kind,
        )
        return said.matched, said.filter or said.exception or ""


class Difference(NamedTuple):
    """A request that only one of the two blocks."""

    browser_request: BrowserRequest
    decision: Decision
    is_blocked: bool
    #: the filter by which we decide; and that of adblock-rust
    ours: str
    theirs: str
    #: whether adblock-rust would block the same without escapes
    is_blocked_unescaped: bool


def compare(engine: Engine, judge: Judge, browser_request: BrowserRequest) -> tuple[bool, bool, Difference | None]:
    """Whether adblock-rust blocks it, and whether we do."""
    decision = engine.decide_url(browser_request.url.encode(), context=browser_request.context)
    is_blocked, (is_blocked_there, theirs) = decision.action is Action.BLOCK, judge(browser_request)
    if is_blocked == is_blocked_there:
        return is_blocked_there, is_blocked, None
    ours = "" if decision.winner is None else str(decision.winner.rule.pattern)
    unescaped, _ = judge(browser_request._replace(url=unquote(browser_request.url)))
    return is_blocked_there, is_blocked, Difference(browser_request, decision, is_blocked, ours, theirs, unescaped)


# -- classes --------------------------------------------------------------------------------------------------------

_TOKENS = re.compile(r"[%\w]+")
#: words of a URL that adblock-rust looks filters up by
_MOST_TOKENS = 127


def _begins_with_an_escape(one: Difference) -> bool:
    return one.is_blocked and re.match(r"(?i)[*]*%[0-9a-f]{2}\w", one.ours) is not None


#: classes by their names in README.md
CLASSES: dict[str, Callable[[Difference], bool]] = {
    "the pattern begins with an escape": _begins_with_an_escape,
    "a part that the URL has in escapes": lambda one: one.is_blocked and one.is_blocked_unescaped,
    "the URL has more words than adblock-rust looks at": lambda one: (
        one.is_blocked and len(_TOKENS.findall(one.browser_request.url)) > _MOST_TOKENS
    ),
}


def class_of(one: Difference) -> str | None:
    """The class of a difference; ``None`` where it has none."""
    return next((name for name, fits in CLASSES.items() if fits(one)), None)
