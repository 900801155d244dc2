"""The page of a tap at a notice, with one button: only a POST acts, since scanners of mail follow links by GET."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import urlsplit

from mitmproxy import http

from hushlist.core.errors import logger_of
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.unblock.taps import TapError, TapFault
from hushlist.proxy.flow_outcome import HIDDEN, hide, is_open, refuse
from hushlist.proxy.flow_request import is_at_own_address
from hushlist.proxy.languages import Texts, live_texts, negotiate
from hushlist.proxy.page.elements import document, element
from hushlist.proxy.page.pages import HEADERS
from hushlist.proxy.page.template import security_policy
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
#: by which the proxy's pages are reached through it, whatever address it has
_OWN_NAME = "hushlist.internal"
#: taps that are looked up at one time, and that wait for that
_MOST_AT_ONCE, _MOST_WAITING = 4, 32

# -- the page ----------------------------------------------------------------------------------------------------------

#: from a token, whether it acts, and texts to what the page says, and the words of its button; waits for the disk
Do = Callable[[str, bool, Texts], tuple[str, str]]
_HEADERS = {**HEADERS, "X-Robots-Tag": "noindex", "Content-Type": "text/html; charset=utf-8"}


class TapPage:
    """The page behind a path of the proxy's own address: a POST acts, and any other request gets the button."""

    def __init__(self, runtime: Runtime, path: str, do: Do) -> None:
        self._runtime, self._path, self._do = runtime, path.encode(), do
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "hushlist: taps")
        self._waiting = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer a request for the page; ``None`` for others."""
        target = flow.request.data.path
        if not target.startswith(self._path) or not is_open(flow):
            return None
        token = target[len(self._path) :].decode("latin-1")
        return self._answer(flow, token) if _TOKEN.fullmatch(token) and self._is_own(flow) else None

    def _is_own(self, flow: http.HTTPFlow) -> bool:
        engine = self._runtime.engine
        said = None if engine is None else engine.policy.of("own-address")
        names = {_OWN_NAME, *([] if said is None else [urlsplit(said).hostname])}
        return is_at_own_address(flow) or {flow.request.host.lower(), flow.request.pretty_host.lower()} <= names

    async def _answer(self, flow: http.HTTPFlow, token: str) -> None:
        """
        Raises:
            AddonHalt: always, by ``hide``.
        """
        flow.metadata[HIDDEN] = True
        language = negotiate(flow.request.headers.get("accept-language", ""))
        status, said, button = await self._said(flow.request.method, token, live_texts()[language])
        form = element("form", element("button", button, type="submit"), method="post") if button else ""
        body = element("body", element("main", element("h1", "Hushlist"), element("p", said, dir="auto"), form))
        page = document("Hushlist", body, language, live_texts()[language]["dir"]).encode("utf-8", "backslashreplace")
        headers = {**_HEADERS, "Content-Security-Policy": security_policy(has_form=bool(form))}
        refuse(flow, lambda request: http.Response.make(status, b"" if request.method == "HEAD" else page, headers))
        hide(flow)

    async def _said(self, method: str, token: str, texts: Texts) -> tuple[int, str, str]:
        if method not in ("GET", "HEAD", "POST"):
            return HTTPStatus.METHOD_NOT_ALLOWED, texts[TapFault.UNKNOWN], ""
        if self._waiting >= _MOST_WAITING:
            return HTTPStatus.SERVICE_UNAVAILABLE, texts["tap_fails"], ""
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return HTTPStatus.OK, *await loop.run_in_executor(self._threads, self._do, token, method == "POST", texts)
        except TapError as error:
            status = HTTPStatus.NOT_FOUND if error.fault is TapFault.UNKNOWN else HTTPStatus.GONE
            return status, texts[error.fault], ""
        except StoreError as error:
            logger.warning("hushlist: a tap at a notice did nothing: %s", error)
        except Exception:
            logger.exception("hushlist: a tap at a notice did nothing")
        finally:
            self._waiting -= 1
        return HTTPStatus.SERVICE_UNAVAILABLE, texts["tap_fails"], ""
