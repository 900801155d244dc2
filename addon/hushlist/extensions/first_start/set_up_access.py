"""Who may open the first start: whoever is on the machine itself, and whoever has the token from its terminal.

A token works once: it is exchanged for a cookie, and the terminal has the next one. A page's form has a second token,
which other sites cannot read; so none of them can answer in a person's place.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from time import monotonic

from mitmproxy import http

from hushlist.core.policy.groups import Client
from hushlist.core.policy.proxy_settings import LOOPBACK

COOKIE = "hushlist-start"
#: seconds for which a redeemed token opens the page
_LONGEST = 3600.0
#: of a request that another proxy hands on: it may be from anywhere, although its connection is from this machine
_HANDED_ON = ("via", "forwarded", "x-forwarded-for", "x-real-ip")
_NOBODY = ""


class SetUpAccess:
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._key = clock, secrets.token_bytes(32)
        self._session, self._until = _NOBODY, 0.0
        #: what the terminal shows
        self.token = secrets.token_urlsafe(24)

    def redeem(self, token: str) -> str | None:
        """The cookie for a token, which is then worthless, as is the cookie before; ``None`` if it is wrong."""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return None
        self.token, self._session = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self._until = self._clock() + _LONGEST
        return self._session

    def may(self, request: http.Request, client: Client) -> bool:
        return is_here(request, client) or self._has_session(request)

    def form_token(self, request: http.Request, client: Client) -> str:
        """What the form has to send, another for each who may."""
        whose = "here" if is_here(request, client) else self._session
        return hmac.digest(self._key, whose.encode(), "sha256").hex()

    def is_form(self, request: http.Request, client: Client, token: str) -> bool:
        """Whether a form is that of the page itself."""
        wanted = self.form_token(request, client)
        return hmac.compare_digest(token.encode("utf-8", "replace"), wanted.encode())

    def _has_session(self, request: http.Request) -> bool:
        if self._session == _NOBODY or self._clock() > self._until:
            return False
        cookies = request.cookies.get_all(COOKIE)
        return any(hmac.compare_digest(cookie.encode("utf-8", "replace"), self._session.encode()) for cookie in cookies)


def is_here(request: http.Request, client: Client) -> bool:
    """Whether whoever asks is on the machine of the proxy itself."""
    return LOOPBACK.fits(client) and not any(name in request.headers for name in _HANDED_ON)
