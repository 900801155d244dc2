"""Files that people wait for while they are scanned: a page says so, and asks again until the file is there.

Each has an address of its own at its origin, which never sees that: a token in it is for one client and one origin,
once. What is handed out is a download, whatever it is: it runs nothing at its origin.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from mitmproxy import http

from hushlist.core.decide.decision import Judgement
from hushlist.core.policy.groups import Client
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.normalization import percent_decode_repeatedly
from hushlist.core.url.request import is_plain_target, target_forms
from hushlist.extensions.files.file_names import UNREAD, name_of_target, names_of_disposition
from hushlist.extensions.files.held_upload import MOST_OF_CLIENT, Account
from hushlist.proxy.page.block_response import AnswerKind, answer_kind_of, failure, gone_response, led_to
from hushlist.proxy.page.pages import Explanation, Verdict, page
from hushlist.proxy.page.template import Template

PATH = "/.well-known/hushlist/file"
_PATH = PATH.encode()
#: seconds that a file is kept after its page has asked for the last time, and after which that asks again
KEPT, _AGAIN = 60.0, 3
#: files of all clients, and of one, that are scanned or wait; and that were given out or dropped, and are still known
MOST, MOST_FILES_OF_CLIENT = 200, 20
#: octets of all files that wait to be fetched; the oldest give way
MOST_WAITING = 1 << 27
#: octets that each takes besides its heads and body, at most about, and each of their fields
_OF_EACH, _OF_FIELD = 1 << 14, 128
#: octets of an address that is kept so that its client can be led back there
_LONGEST_TARGET = 1 << 13
#: parts of the names of media types that a browser may run, or show as a page
_PAGES = ("text/", "html", "xml", "svg", "script", "multipart/")


def may_wait(request: http.Request, answer: http.Response, media_types: tuple[str, ...]) -> bool:
    """Whether a page can stand in place of a download until it is scanned: a person waits, for a file and no page."""
    return (
        request.method == "GET"
        and answer.status_code == 200
        and _is_navigation(request)
        and bool(media_types)
        and not any(mark in media_type for media_type in media_types for mark in _PAGES)
    )


def _is_navigation(request: http.Request) -> bool:
    """Whether a tab of a browser asks, as far as it says so; over plain http it does not, and a script may lie.

    Spec: Fetch Metadata Request Headers, 2.1 and 2.2
    """
    headers = request.headers
    if any(name.lower().startswith("sec-fetch-") for name in headers):
        return headers.get("sec-fetch-dest") == "document" and headers.get("sec-fetch-mode") == "navigate"
    return headers.get("accept", "").startswith("text/html") and answer_kind_of(request) is AnswerKind.PAGE


def is_for_file(target: bytes) -> bool:
    """Whether a request's target is where files are fetched, or begins so, in whatever spelling.

    >>> [is_for_file(target) for target in (b"/.well-known/hushlist/file?x", b"/.well-known/./hushlist/%2566ile", b"/")]
    [True, True, False]
    """
    if target.startswith(_PATH) or is_plain_target(target):
        return target.startswith(_PATH)
    if b"hushlist" not in percent_decode_repeatedly(target):
        return False
    return any(form.path.startswith(_PATH) for form in target_forms(b"http", target).forms)


class Place(NamedTuple):
    """To whom a file is given, and at which origin, as the browser names it."""

    client: tuple[str, ...]
    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, client: Client, request: http.Request) -> Place:
        return cls(client.names, request.scheme, (request.host_header or request.host).lower(), request.port)


@dataclass(slots=True, eq=False)
class _File:
    place: Place
    #: by which it was let through
    judgement: Judgement
    #: what the origin has answered, and what it was asked
    answer: http.Response
    request: http.Request
    #: says what stands in place of it, or nothing, at last
    scan: asyncio.Task[http.Response | None]
    octets: int
    #: ends it, unless its page asks again
    end: asyncio.TimerHandle | None


class CheckedFiles:
    """The files that are scanned while their clients have a page, or wait to be fetched."""

    def __init__(self, template: Callable[[], Template | None]) -> None:
        self._template = template
        #: by their tokens, the oldest first
        self._files: dict[str, _File] = {}
        #: of those that are here no more, where they came from
        self._ended: LatestEntries[str, tuple[Place, bytes]] = LatestEntries(MOST)
        #: whether anybody may know an address of a file
        self.was_used = False

    def keep(
        self,
        judgement: Judgement,
        request: http.Request,
        answer: http.Response,
        scan: asyncio.Task[http.Response | None],
    ) -> http.Response | None:
        """The page for whoever waits for a whole answer; ``None``: there is no room."""
        place, account = Place.of(judgement.client, request), Account(judgement.client.address)
        octets = _OF_EACH + _octets_of(request) + _octets_of(answer)
        account.set(octets)
        if account.is_full or not self._has_place(place.client):
            return None
        token = secrets.token_urlsafe(16)
        self._files[token], self.was_used = _File(place, judgement, answer, request, scan, octets, None), True
        scan.add_done_callback(lambda _: self._scanned(token, account))
        return self._page(token)

    def _has_place(self, client: tuple[str, ...]) -> bool:
        """Whether there may be one more file of a client, after which its oldest that waits gives way."""
        for most, clients in ((MOST_FILES_OF_CLIENT, (client,)), (MOST, None)):
            tokens = self._tokens_of(clients)
            if len(tokens) >= most:
                waiting = next((token for token in tokens if self._files[token].scan.done()), None)
                if waiting is None:
                    return False
                self.drop(waiting)
        return True

    def _tokens_of(self, clients: Iterable[tuple[str, ...]] | None) -> list[str]:
        return [token for token, file in self._files.items() if clients is None or file.place.client in clients]

    def _scanned(self, token: str, account: Account) -> None:
        """The room of the scan is free; what waits has room of its own, in which the oldest give way."""
        account.set(0)
        file = self._files.get(token)
        if file is None:
            return
        for most, clients in ((MOST_OF_CLIENT, (file.place.client,)), (MOST_WAITING, None)):
            waiting = [waiter for waiter in self._tokens_of(clients) if self._files[waiter].scan.done()]
            octets = sum(self._files[waiter].octets for waiter in waiting)
            for waiter in waiting:
                if octets <= most:
                    break
                octets -= self._files[waiter].octets
                self.drop(waiter)

    def judgement(self, token: str, place: Place) -> Judgement | None:
        """By which the request for a file was let through; ``None`` if there is no such file at a place."""
        file = self._files.get(token)
        return None if file is None or file.place != place else file.judgement

    def take(self, token: str, place: Place, request: http.Request) -> http.Response:
        """What a client gets that asks for a file: the page again, what has come of the scan, once, or the way back."""
        ended = self._ended.get(token)
        if ended is not None and ended[0] == place:
            return led_to(ended[1])
        file = self._files.get(token)
        if file is None or file.place != place:
            return gone_response(request, self._template())
        if not file.scan.done():
            return self._page(token)
        self.drop(token)
        if file.scan.cancelled() or file.scan.exception() is not None:
            return failure(request)
        return file.scan.result() or _as_download(file.answer, file.request)

    def _page(self, token: str) -> http.Response:
        file = self._files[token]
        if file.end is not None:
            file.end.cancel()
        file.end = asyncio.get_running_loop().call_later(KEPT, self.drop, token)
        explanation = Explanation(file.request.pretty_url.partition("?")[0], kind=Verdict.CHECKING)
        languages = file.request.headers.get("accept-language", "")
        body, headers = page(explanation, languages, template=self._template())
        return http.Response.make(200, body, headers | {"Refresh": f"{_AGAIN}; url={PATH}?{token}"})

    def drop(self, token: str) -> None:
        """Keep of a file only where it came from; nobody waits for its scan any more."""
        file = self._files.pop(token, None)
        if file is None:
            return
        file.scan.cancel()
        if file.end is not None:
            file.end.cancel()
        if len(file.request.data.path) <= _LONGEST_TARGET:
            self._ended[token] = file.place, file.request.data.path
        of_client = [ended for ended, (place, _) in self._ended.items() if place.client == file.place.client]
        if len(of_client) > MOST_FILES_OF_CLIENT:
            del self._ended[of_client[0]]

    def forget(self) -> None:
        """Another policy is in use, which may say something else of the files: their clients are led back."""
        for token in list(self._files):
            self.drop(token)


def _octets_of(message: http.Message) -> int:
    fields = message.headers.fields
    head = sum(len(name) + len(value) + _OF_FIELD for name, value in fields)
    target = len(message.data.path) if isinstance(message, http.Request) else 0
    return head + target + len(message.raw_content or b"")


def _as_download(answer: http.Response, request: http.Request) -> http.Response:
    """A file as it came, by its name, which is no longer in its address, and with which nothing is shown or run."""
    headers = answer.headers
    dispositions = headers.get_all("content-disposition")
    names = [name for name in names_of_disposition(dispositions) if name]
    if not (len(dispositions) == 1 and dispositions[0].lower().startswith("attachment") and names):
        name = next((name for name in names if name != UNREAD), "") or name_of_target(request.data.path) or "file"
        # what is left out of a name might make another one of it
        plain = "".join(character if " " <= character <= "~" and character not in '"\\%' else "_" for character in name)
        more = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
        headers["Content-Disposition"] = f'attachment; filename="{plain}"{more}'
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Content-Security-Policy"] = "sandbox"
    headers["Cache-Control"] = "no-store"
    return answer
