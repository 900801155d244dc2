"""Temporary unblocks from the block page: what the page offers, and how its form is handled.

The form is sent to a path of the blocked origin, but never reaches the origin: it may hold a passphrase. The path has a
seal, so the form is recognized even if the path is not blocked, or no longer blocked. A token proves that the form is
not forged by another site: it is made for one client and one URL, and works once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, quote, urlencode
from weakref import WeakKeyDictionary

from mitmproxy import http

from hushlist.decide.decision import STOPPING, Decision
from hushlist.errors import logger_of
from hushlist.match.rule import Action
from hushlist.policy.groups import Client, UnblockSettings
from hushlist.proxy.page.explanation import Unblock
from hushlist.proxy.runtime import Runtime
from hushlist.unblock.credentials import CodeError, TokenError, verify_passphrase
from hushlist.unblock.grants import WARNING, check_target
from hushlist.unblock.overrides import Overrides
from hushlist.unblock.rate_limit import LockedError
from hushlist.unblock.store import StoreError
from hushlist.url.parts import split_web
from hushlist.url.request import LONGEST_TARGET, Request, request_of

logger = logger_of(__name__)

PATH = "/.well-known/hushlist/unblock"
_PATH = PATH.encode()
#: most octets of the form's path, which contains an escaped URL
_LONGEST_ADDRESS = 4 * LONGEST_TARGET
#: most octets of a form; the page's own form is shorter
_LONGEST_FORM = 1 << 14
#: most forms that are checked (one at a time) or wait for that: one check may take 256 MiB and a second
_MOST_FORMS = 32
#: seconds for which a click on a warning opens the site
_AFTER_WARNING = 3600.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """A request that the filter answered in place of its origin."""

    decision: Decision
    client: Client
    unblocking: UnblockSettings | None
    #: reference in the log
    reference: str | None = None


class UnblockHandler:
    """Handles the forms."""

    def __init__(self, runtime: Runtime, answer: Callable[[http.HTTPFlow, Stopped, str | None], http.Response]) -> None:
        """``answer`` makes the page for a stopped request; its last argument is the key of a message."""
        self._runtime = runtime
        self._answer = answer
        self._stopped: WeakKeyDictionary[http.HTTPFlow, Stopped] = WeakKeyDictionary()
        self._one_by_one = ThreadPoolExecutor(1, "hushlist: forms")
        self._forms = 0

    def offer(self, stopped: Stopped, message: str | None = None) -> Unblock | None:
        """What a page offers for a stopped request, or nothing."""
        decision, unblocking, tokens = stopped.decision, stopped.unblocking, self._runtime.tokens
        if tokens is None or decision.winner is None:
            return None
        if decision.action is not Action.WARN and unblocking is None:
            return None
        token = tokens.make(_name(stopped.client), _text(decision.url), decision.action.value)
        action = f"{PATH}?{urlencode({'url': _asked(decision), 'seal': token})}"
        if decision.action is Action.WARN or unblocking is None:
            return Unblock(action, token, message=message)
        if unblocking.passphrase is None:
            # The code itself says what it unblocks, and for how long.
            return Unblock(action, token, code=unblocking.codes, message=message)
        scopes = tuple(scope for scope in unblocking.scopes if scope in _wanted(decision))
        return Unblock(action, token, True, unblocking.codes, scopes, unblocking.minutes, message)

    def is_sealed(self, request: http.Request) -> bool:
        """Whether it is a form of a block page: the origin must not see what a person typed into it."""
        tokens = self._runtime.tokens
        return _is_form(request) and tokens is not None and tokens.is_ours(_one(_query(request), "seal"))

    def remember(self, flow: http.HTTPFlow, stopped: Stopped) -> None:
        """Remember that a request was answered in place of its origin."""
        if _is_form(flow.request):
            self._stopped[flow] = stopped

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Handle a form, and replace the block page that answers it by the result; ``None`` for other requests."""
        if flow.response is None:
            return None
        stopped, content = self._stopped.pop(flow, None), flow.request.raw_content
        if stopped is None or content is None or len(content) > _LONGEST_FORM:
            return None
        return self._take(flow, stopped)

    async def _take(self, flow: http.HTTPFlow, stopped: Stopped) -> None:
        try:
            await self._take_form(flow, stopped)
        except Exception:
            logger.exception("hushlist: a form could not be taken; the request stays blocked")

    async def _take_form(self, flow: http.HTTPFlow, stopped: Stopped) -> None:
        engine, overrides = self._runtime.engine, self._runtime.overrides
        asked = _one(_query(flow.request), "url").encode("utf-8", "surrogateescape")
        if engine is None or overrides is None:
            return
        decision = engine.decide_url(asked, client=stopped.client)
        host = _host(decision)
        if host is None or host != _host(stopped.decision):
            return
        if decision.action not in STOPPING:
            flow.response = _go_on(asked)  # the form was sent twice, or the site is no longer blocked
            return
        form = parse_qs((flow.request.raw_content or b"").decode("utf-8", "replace"))
        of_asked = replace(stopped, decision=decision)
        message = await self._try_in_turn(overrides, of_asked, form)
        flow.response = _go_on(asked) if message is None else self._answer(flow, of_asked, message)

    async def _try_in_turn(self, overrides: Overrides, stopped: Stopped, form: Mapping[str, list[str]]) -> str | None:
        """Run ``_try`` in a thread, one at a time; refuse the form if too many wait."""
        if self._forms >= _MOST_FORMS:
            return "failed"
        self._forms += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._one_by_one, self._try, overrides, stopped, form)
        finally:
            self._forms -= 1

    def _try(self, overrides: Overrides, stopped: Stopped, form: Mapping[str, list[str]]) -> str | None:
        """Grant what a form asks for, or return the key of the message that says why not; waits for the disk."""
        decision, client, unblocking = stopped.decision, stopped.client, stopped.unblocking
        name, url = _name(client), _text(decision.url)
        try:
            assert self._runtime.tokens is not None
            self._runtime.tokens.check(_one(form, "token"), name, url, decision.action.value)
            if decision.action is Action.WARN:
                host = _wanted(decision)["host"]
                overrides.grant("host", host, _AFTER_WARNING, client=name, how=WARNING, by=name)
                return None
            return "wrong" if unblocking is None else _unblock(overrides, stopped, unblocking, form)
        except TokenError as error:
            logger.warning("hushlist: %s: %s", name, error)
            return "expired"
        except LockedError:
            return "locked"
        except CodeError:
            return "wrong"
        except StoreError as error:
            logger.warning("hushlist: nothing can be unblocked: %s", error)
            return "failed"


def _unblock(
    overrides: Overrides, stopped: Stopped, unblocking: UnblockSettings, form: Mapping[str, list[str]]
) -> str | None:
    wanted, name = _wanted(stopped.decision), _name(stopped.client)
    code, passphrase, stored = _one(form, "code"), _one(form, "passphrase"), unblocking.passphrase
    if code and unblocking.codes:
        overrides.redeem(code, name, wanted, stopped.client.names)
        return None
    scope, minutes = _one(form, "scope"), _one(form, "minutes")
    if scope not in unblocking.scopes or scope not in wanted or minutes not in map(str, unblocking.minutes):
        return "wrong"
    if stored is None or not overrides.attempt(
        name, "passphrase", lambda: verify_passphrase(passphrase, stored), wanted
    ):
        return "wrong"
    overrides.grant(scope, wanted[scope], 60.0 * int(minutes), client=name, how="passphrase", by=name)
    return None


def _wanted(decision: Decision) -> dict[str, str]:
    """The targets that a grant for a decision's URL can have, by scope."""
    category = None if decision.winner is None else decision.winner.rule.terms.category
    wanted = {"url": _text(decision.url), "host": _text(_host(decision) or b""), "category": category or ""}
    return {scope: target for scope, target in wanted.items() if _can_be_granted(scope, target)}


def _can_be_granted(scope: str, target: str) -> bool:
    try:
        check_target(scope, target)
    except ValueError:
        return False
    return True


#: characters that need no escape in a target. Spec: RFC 3986, 2.2 and 2.3
_PLAIN = "/?:@!$&'()*+,;=-._~%[]"


def _go_on(asked: bytes) -> http.Response:
    """Redirect to the page that was blocked, which passes now; always on the same origin."""
    target = quote(request_of(asked).target, safe=_PLAIN)
    # "//name" would be another origin; resolving the reference removes the dot segment.
    # Spec: RFC 3986, 4.2 and 5.2.4
    location = f"/.{target}" if target.startswith("//") else target
    headers = {"Location": location, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return http.Response.make(303, b"", headers)


def _asked(decision: Decision) -> bytes:
    """The URL to return to: the URL as sent, unless another name or interpretation of it decided."""
    asked = decision.asked.url if isinstance(decision.asked, Request) else decision.asked
    # browsers would not send what follows "#"
    return decision.url if not asked or b"#" in asked else asked


def _host(decision: Decision) -> bytes | None:
    """The canonical host; ``None`` if the request cannot be read."""
    return split_web(decision.url).host if decision.fault is None else None


def _is_form(request: http.Request) -> bool:
    target = request.data.path
    return request.data.method == b"POST" and len(target) <= _LONGEST_ADDRESS and target.partition(b"?")[0] == _PATH


def _query(request: http.Request) -> Mapping[str, list[str]]:
    return parse_qs(request.path.partition("?")[2], errors="surrogateescape")


def _name(client: Client) -> str:
    return client.names[-1]


def _one(values: Mapping[str, list[str]], key: str) -> str:
    return values.get(key, [""])[0]


def _text(octets: bytes) -> str:
    return octets.decode("ascii", "replace")
