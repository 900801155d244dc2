"""The live page: current decisions, numbers, search with explanation, and what administrators do.

The addon answers at its own host name; no such request goes on to an origin. For clients that the policy does not
allow, the page does not exist.

``.internal`` is reserved for private use and never delegated in the root of the DNS, so no stranger can own the name.
Spec: ICANN Board resolution 2024.07.29.06
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from weakref import WeakSet

from markupsafe import escape
from mitmproxy import ctx, http

from hushlist.core.errors import logger_of, number_of
from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.core.routes import WITH_BODY, Page, Role
from hushlist.core.url.host import is_address
from hushlist.core.url.http_head import tells_body
from hushlist.core.url.request import readable_host
from hushlist.extensions.dashboard import admin_store
from hushlist.extensions.dashboard.answers import answer, error, html, words
from hushlist.extensions.dashboard.api_description import BASE
from hushlist.extensions.dashboard.api_requests import LONGEST_BODY
from hushlist.extensions.dashboard.rule_commands import RuleCommands
from hushlist.extensions.dashboard.setup_page import STYLE, WPAD_TARGET, SetupPage, is_direct, is_setup_path
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.proxy.bounds.body_looks import await_form
from hushlist.proxy.connections.client_connections import is_of_this_machine
from hushlist.proxy.flow_outcome import HIDDEN, hide, is_open, refuse
from hushlist.proxy.flow_request import SelfConnections, client_of_flow, is_at_own_address, request_of_flow
from hushlist.proxy.languages import live_texts, negotiate
from hushlist.proxy.page import block_response
from hushlist.proxy.page.elements import document, element
from hushlist.proxy.page.pages import Explanation
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.service.health import HEALTH_PATHS, health_of

if TYPE_CHECKING:
    from hushlist.extensions.dashboard.admin_api import AdminApi

logger = logger_of(__name__)

HOST = "hushlist.internal"
_PORTS = {b"http": 80, b"https": 443}
#: A page's script can send this header to its own origin alone; for any other, a browser asks first, and is refused.
#: Over http, where browsers do not send Sec-Fetch-Site, it shows that a request is not from another site.
_PAGE_HEADER = "x-hushlist"

#: the kinds of the page's files that are served as they are, by the ends of their names
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def requested_name(flow: http.HTTPFlow) -> str:
    """The host that is asked for, in lower case: the Host header's where the destination is an address."""
    name = flow.request.data.host
    if name and (name[-1].isdigit() or ":" in name):
        name = flow.request.pretty_host
    return name.lower()


def is_onboarding(flow: http.HTTPFlow, name: str) -> bool:
    """Whether a request for the host of mitmproxy's own page, which offers the certificate, can be for that page."""
    request = flow.request
    return (
        request.method in ("GET", "HEAD")
        and is_open(flow)
        and not request.stream
        and not tells_body(request.headers.fields)
        and is_exact(flow, name)
    )


async def answer_onboarding(flow: http.HTTPFlow) -> None:
    """Have mitmproxy's own page answer, under every policy; the request goes on to no origin of that name.

    Raises:
        AddonHalt: always, by ``hide``.
    """
    flow.metadata[HIDDEN] = True
    flow.request.raw_content = b""  # mitmproxy would ask for it when the body is there
    try:
        if (serving := ctx.master.addons.get("onboarding").request(flow)) is not None:
            await serving
    except Exception:
        logger.exception("hushlist: mitmproxy's own page failed")
    refuse(flow, lambda request: block_response.block_response(request, Explanation(request.url)))
    hide(flow)


class DashboardServer(Part):
    """Answers for the live page, the set-up page, and mitmproxy's own page with its certificate."""

    hosts = frozenset({HOST})

    def __init__(self, runtime: Runtime, connections: SelfConnections) -> None:
        #: the host of mitmproxy's own page
        self._onboarding: str | None = None
        #: one question to the log at a time
        self._asks_log = asyncio.Lock()
        self._runtime, self._connections, self._setup = runtime, connections, SetupPage(HOST)
        folder = files("hushlist.extensions.dashboard").joinpath("live_page")
        self._files = {
            f"/{file.name}": (file.read_bytes(), kind)
            for file in folder.iterdir()
            if (kind := _KINDS.get(Path(file.name).suffix)) is not None
        }
        self._page = Template(folder.joinpath("index.html").read_text(encoding="utf-8"))
        pages = (
            Page("/", None, self._live),
            Page("/metrics", None, self._metrics, names_groups=True),
            Page("/history.csv", Role.VIEW, self._history),
            *(Page(path, None, self._health) for path in HEALTH_PATHS),
        )
        self._pages = {page.path: page for page in pages}
        #: answers calls; opened for the first of them, so that where nobody looks at the page its code is not loaded
        self._api: AdminApi | None = None
        self._opening = asyncio.Lock()
        #: flows whose body has still to arrive
        self._waiting: WeakSet[http.HTTPFlow] = WeakSet()

    def load(self) -> None:
        """Add the commands that edit rules."""
        ctx.master.commands.collect_commands(RuleCommands(self._runtime))

    def running(self) -> None:
        """Let the other workers ask for what this one has counted."""
        if self._runtime.siblings is not None:
            self._api = self._opened()
            self._api.feed.running()

    def _opened(self) -> AdminApi:
        from hushlist.extensions.dashboard.admin_api import AdminApi

        api = AdminApi(self._runtime)
        api.load_rows()
        return api

    async def _answering(self) -> AdminApi:
        """What answers calls."""
        async with self._opening:
            if self._api is None:
                self._api = await asyncio.to_thread(self._opened)
            return self._api

    def kept_files(self) -> Iterator[tuple[Path, DatabaseKind]]:
        """The file of the administrators' store."""
        yield admin_store.default_path(), admin_store.ADMINISTRATION

    def close(self) -> None:
        if self._api is not None:
            self._api.feed.close()
            self._api.close()

    def configured(self) -> None:
        """Read the name of mitmproxy's page once: mitmproxy copies a value each time it is read."""
        is_there = "onboarding" in ctx.options and ctx.options.onboarding
        self._onboarding = ctx.options.onboarding_host if is_there else None

    def states(self) -> Iterator[str]:
        from hushlist.extensions.dashboard.dashboard_data import actions_of

        statistics = self._runtime.statistics
        statistics.count()
        would_block = actions_of(statistics)[1]
        if would_block:
            yield f"the dry run would block {number_of(would_block, 'request', 'requests')} of {statistics.total:,}"

    def summary(self) -> str:
        """The numbers of all decisions, as lines."""
        from hushlist.extensions.dashboard.metrics import summary

        return summary(self._runtime)

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer for the names of the pages."""
        name = requested_name(flow)
        # hosts below its own are nobody else's: over http, a page of one could set cookies for it
        is_ours = HOST in name and f".{name}".rstrip(".").endswith(f".{HOST}")
        may_be_direct = flow.request.data.path == WPAD_TARGET or is_at_own_address(flow)
        if (is_ours or (may_be_direct and is_direct(flow))) and is_open(flow):
            return self._answer_page(flow)
        return answer_onboarding(flow) if name == self._onboarding and is_onboarding(flow, name) else None

    async def _answer_page(self, flow: http.HTTPFlow) -> None:
        """Answer a client; a call with a body is answered by ``take``, and meanwhile has an answer that says no.

        A body that is longer than any call, or of untold length, is not waited for.

        Raises:
            AddonHalt: always, by ``hide``.
        """
        flow.metadata[HIDDEN] = True
        is_call = flow.request.method in (*WITH_BODY, "DELETE") and _path(flow.request).startswith(f"{BASE}/")
        if _is_long(flow.request) and self._may_see(_client(flow)):
            response = words(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "its body is too long, or does not say how long it is"
            )
        elif is_call and not _is_long(flow.request) and not self._connections.has(flow.client_conn, flow.server_conn):
            response = words(HTTPStatus.BAD_REQUEST, "its body has not arrived")
            self._waiting.add(flow)
            await_form(flow)
        else:
            response = await self._answer(flow)
        refuse(flow, lambda _: response)
        hide(flow)

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer a call whose body has arrived; ``None`` for other requests."""
        if flow not in self._waiting:
            return None
        self._waiting.discard(flow)
        return self._take(flow)

    async def _take(self, flow: http.HTTPFlow) -> None:
        flow.response = await self._answer(flow)
        hide(flow)

    async def _answer(self, flow: http.HTTPFlow) -> http.Response:
        try:
            response = await self._respond(flow)
        except Exception:
            logger.exception("hushlist: the live page failed")
            response = words(HTTPStatus.INTERNAL_SERVER_ERROR, "it failed: see the messages of the proxy")
        if flow.request.scheme == "https":  # browsers ignore it over http, with a warning
            response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response

    async def _respond(self, flow: http.HTTPFlow) -> http.Response:
        request, is_loop = flow.request, self._connections.has(flow.client_conn, flow.server_conn)
        if not is_loop and (is_direct(flow) or (is_setup_path(request) and is_exact(flow, HOST))):
            return self._setup.respond(flow)
        may_see = self._may_see(_client(flow))
        if is_loop or not may_see or not is_exact(flow, HOST) or _is_foreign(request):
            if not is_loop and may_see is False and request.path == "/" and is_exact(flow, HOST):
                return _not_for(_client(flow), _language(request))
            return block_response.block_response(request, Explanation(request.url))
        path = _path(request)
        if path.startswith(f"{BASE}/"):
            return await self._call(flow)
        if path not in self._files and path not in self._pages:
            return _missing(_language(request))
        if request.method != "GET":
            return words(HTTPStatus.METHOD_NOT_ALLOWED, "it can only be read", Allow="GET")
        if path in self._files:
            return answer(*self._files[path])
        page, client = self._pages[path], _client(flow)
        if page.role is None and not page.names_groups:
            return await _content(page, request)
        api = await self._answering()
        needed = api.needed(page, client)
        refusal = await api.refusal(request, client, needed)
        if refusal is None:
            response = await _content(page, request)
            refusal = await api.refusal(request, client, needed)  # a session may have ended meanwhile
        return response if refusal is None else refusal

    async def _call(self, flow: http.HTTPFlow) -> http.Response:
        request = flow.request
        is_public = _path(request) == f"{BASE}/openapi.json"
        if not is_public and _PAGE_HEADER not in request.headers and "authorization" not in request.headers:
            return error(HTTPStatus.FORBIDDEN, f"the header {_PAGE_HEADER} is missing")
        api = await self._answering()
        return await api.answer(request, _client(flow))

    def _may_see(self, client: Client) -> bool | None:
        """Whether a client may see the page; ``None``: nobody may."""
        engine = self._runtime.engine
        live = LOOPBACK if engine is None else engine.policy.values.get("live", LOOPBACK)
        return None if live is None else bool(live.fits(client))

    # -- what there is to see ------------------------------------------------------------------------------------

    def _live(self, request: http.Request) -> http.Response:
        """The page itself; its scripts find their texts in an attribute."""
        language = _language(request)
        texts = live_texts()[language]
        page = self._page.substitute(
            {
                key: escape(text)
                for key, text in {**texts, "lang": language, "texts": json.dumps(texts, ensure_ascii=False)}.items()
            }
        )
        return html(page.encode(), language)

    async def _metrics(self, request: http.Request) -> http.Response:
        from hushlist.extensions.dashboard.metrics import CONTENT_TYPE

        api = await self._answering()
        return answer(await api.feed.metrics(), CONTENT_TYPE)

    async def _health(self, request: http.Request) -> http.Response:
        health = await health_of(self._runtime, _path(request))
        return answer(health.body, "application/json", health.status)

    async def _history(self, request: http.Request) -> http.Response:
        """What the log has of a day, a week or a month, as CSV."""
        from hushlist.extensions.journal.history import WHY_NONE, History, history, history_csv

        api = await self._answering()
        async with self._asks_log:
            content = await api.aside(history, self._runtime, _query(request, "of"), datetime.now(UTC))
        if not isinstance(content, History):
            return words(HTTPStatus.NOT_FOUND, WHY_NONE[content])
        saved = f"attachment; filename=hushlist-{content.span}.csv"
        return answer(history_csv(content), "text/csv; charset=utf-8", Content_Disposition=saved)


# -- who asks ----------------------------------------------------------------------------------------------------------


def _client(flow: http.HTTPFlow) -> Client:
    """Who asks; the proxy's machine by its loopback, whichever of its addresses it uses."""
    client = client_of_flow(flow)
    return client._replace(address="127.0.0.1") if is_of_this_machine(flow.client_conn) else client


def is_exact(flow: http.HTTPFlow, host: str) -> bool:
    """Whether the request has a page's name and port, and no other name but addresses."""
    request = request_of_flow(flow)
    names = [host for host in request.hosts if not is_address(readable_host(host))]
    is_ours = bool(names) and all(name.lower() == host.encode() for name in names)
    return is_ours and request.port == _PORTS.get(request.scheme) and request.userinfo is None and request.fault is None


def _is_long(request: http.Request) -> bool:
    """Whether a body is announced that is longer than any call, or that does not say how long it is."""
    is_framed = request.is_http2 or request.is_http3
    if not tells_body(request.headers.fields):
        return is_framed and request.method == "POST"
    length = request.headers.get("content-length", "")
    is_number = length.isascii() and length.isdigit() and len(length) < 10
    return not is_number or int(length) > LONGEST_BODY or "transfer-encoding" in request.headers


def _is_foreign(request: http.Request) -> bool:
    """Whether a browser says that another site caused the request; a link to the page itself is allowed.

    Spec: Fetch Metadata Request Headers, 2.4; Fetch, 3.2 (Origin)
    """
    headers = request.headers
    if headers.get("origin", "") not in ("", f"{request.scheme}://{HOST}"):
        return True
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not is_link or request.path != "/"


# -- answers -----------------------------------------------------------------------------------------------------------


async def _content(page: Page, request: http.Request) -> http.Response:
    content: http.Response | Awaitable[http.Response] = page.answer(request)
    return content if isinstance(content, http.Response) else await content


def _path(request: http.Request) -> str:
    return request.path.partition("?")[0]


def _language(request: http.Request) -> str:
    return negotiate(request.headers.get("accept-language", ""))


def _query(request: http.Request, key: str) -> str:
    values = parse_qs(request.path.partition("?")[2], errors="surrogateescape")
    return values.get(key, [""])[0]


def _not_for(client: Client, language: str) -> http.Response:
    """What is said to people whose address is not among ``live``: they may be those who run the filter."""
    sentence = live_texts()[language]["not_for_you_said"].format(address=address_text(client.address))
    return _message("not_for_you", sentence, language, HTTPStatus.FORBIDDEN)


def _missing(language: str) -> http.Response:
    return _message("no_such_page", live_texts()[language]["no_such_page_said"], language, HTTPStatus.NOT_FOUND)


def _message(key: str, words: str, language: str, status: HTTPStatus) -> http.Response:
    """A page of a heading and a sentence."""
    texts = live_texts()[language]
    body = element("body", element("main", element("h1", texts[key]), element("p", words)))
    page = document(f"Hushlist: {texts[key]}", body, language, texts["dir"], STYLE)
    return html(page.encode("utf-8", "backslashreplace"), language, status)
