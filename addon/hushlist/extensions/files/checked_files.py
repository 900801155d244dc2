"""Files that people wait for while they are scanned: a page says so, and asks again until the file is there.

Each has an address of its own at its origin, which never sees that: a token in it is for one client, once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from mitmproxy import http

from hushlist.extensions.files.file_names import name_of_target
from hushlist.extensions.files.held_upload import Account
from hushlist.proxy.page.block_response import AnswerKind, answer_kind_of
from hushlist.proxy.page.pages import Explanation, Verdict, page
from hushlist.proxy.page.template import Template

PATH = "/.well-known/hushlist/file?"
TARGET = PATH.encode()
#: seconds that a file is kept, and after which its page asks again
_KEPT, _AGAIN = 900.0, 3
#: octets that each takes besides its body, at most about
_OF_EACH = 1 << 16
#: media types that a browser shows by their own address
_PAGES = ("text/html", "application/xhtml+xml")


def may_wait(request: http.Request, answer: http.Response, media_types: tuple[str, ...]) -> bool:
    """Whether a page can stand in place of a download until it is scanned: a person waits, for a file and no page."""
    return (
        request.method == "GET"
        and answer.status_code == 200
        and "text/html" in request.headers.get("accept", "")
        and answer_kind_of(request) is AnswerKind.PAGE
        and not any(media_type in _PAGES for media_type in media_types)
    )


@dataclass(frozen=True, slots=True)
class _File:
    client: str
    #: what the origin has answered, and what it was asked
    answer: http.Response
    request: http.Request
    #: says what stands in place of it, or nothing, at last
    scan: asyncio.Task[http.Response | None]
    account: Account


class CheckedFiles:
    """The files that are scanned while their clients have a page, or wait to be fetched."""

    def __init__(self, template: Callable[[], Template | None]) -> None:
        self._template = template
        self._files: dict[str, _File] = {}

    def keep(
        self, client: str, request: http.Request, answer: http.Response, scan: asyncio.Task[http.Response | None]
    ) -> http.Response | None:
        """The page for whoever waits for a whole answer; ``None``: there is no room."""
        account = Account(client)
        account.set(len(answer.raw_content or b"") + _OF_EACH)
        if account.is_full:
            return None
        token = secrets.token_urlsafe(16)
        self._files[token] = _File(client, answer, request, scan, account)
        asyncio.get_running_loop().call_later(_KEPT, self._files.pop, token, None)
        return self._page(request, token)

    def take(self, token: str, client: str, failure: Callable[[], http.Response]) -> http.Response:
        """What a client gets that asks for a file: the page again, or what has come of the scan, once."""
        file = self._files.get(token)
        if file is None or file.client != client:
            return failure()
        if not file.scan.done():
            return self._page(file.request, token)
        del self._files[token]
        if file.scan.cancelled() or file.scan.exception() is not None:
            return failure()
        return file.scan.result() or _named(file.answer, file.request)

    def _page(self, request: http.Request, token: str) -> http.Response:
        explanation = Explanation(request.pretty_url.partition("?")[0], kind=Verdict.CHECKING)
        languages = request.headers.get("accept-language", "")
        body, headers = page(explanation, languages, template=self._template())
        return http.Response.make(200, body, headers | {"Refresh": f"{_AGAIN}; url={PATH}{token}"})

    def forget(self) -> None:
        """Another policy is in use, which may say something else of them."""
        self._files.clear()


def _named(answer: http.Response, request: http.Request) -> http.Response:
    """A file as it came, with its name, which is no longer in its address."""
    name = name_of_target(request.data.path)
    if name and "content-disposition" not in answer.headers:
        plain = "".join(character for character in name if " " <= character <= "~" and character not in '"\\%')
        answer.headers["Content-Disposition"] = f'inline; filename="{plain or "file"}"'
    answer.headers["Cache-Control"] = "no-store"
    return answer
