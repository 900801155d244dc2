"""Temporary unblocks from the block page: what the page offers, and what becomes of its form.

The form is sent to a path of the blocked origin itself, which never sees it: what is typed there is not for that. The
address has a seal, by which the form is known though the path is not blocked, or not any more. A token, made for one
client and one URL and good once, tells it from what another site makes a browser send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, quote, urlencode
from weakref import WeakKeyDictionary

from mitmproxy import http

from hushlist.match.rule import Action
from hushlist.policy.attempts import LockedError
from hushlist.policy.codes import CodeError
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.grants import WARNING, check_target
from hushlist.policy.groups import Client
from hushlist.policy.overrides import Overrides
from hushlist.policy.passphrase import verify_passphrase
from hushlist.policy.store import StoreError
from hushlist.policy.tokens import TokenError
from hushlist.policy.unblocking import Unblocking
from hushlist.proxy.explanation import Unblock
from hushlist.proxy.in_force import InForce
from hushlist.url.parts import split_web
from hushlist.url.request import Request, request_of

logger = logging.getLogger(__name__)

PATH = "/.well-known/hushlist/unblock"
#: octets of a form; none of ours is as long
_LONGEST_FORM = 1 << 14
#: seconds for which a click on a warning lets a client go on
_AFTER_WARNING = 3600.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """A request that was answered in its origin's place."""

    decision: Decision
    client: Client
    unblocking: Unblocking | None
    #: in the log
    reference: str | None = None


class Unblocker:
    """Takes the forms."""

    def __init__(
        self, in_force: InForce, answer: Callable[[http.HTTPFlow, Stopped, str | None], http.Response]
    ) -> None:
        """``answer`` makes the page for what is stopped, with the key of a message."""
        self._in_force = in_force
        self._answer = answer
        self._stopped: WeakKeyDictionary[http.HTTPFlow, Stopped] = WeakKeyDictionary()

    def offer(self, stopped: Stopped, message: str | None = None) -> Unblock | None:
        """What a page offers for a request that was stopped, or nothing."""
        decision, unblocking, tokens = stopped.decision, stopped.unblocking, self._in_force.tokens
        if tokens is None or decision.winner is None:
            return None
        if decision.action is not Action.WARN and unblocking is None:
            return None
        token = tokens.make(_name(stopped.client), _text(decision.url), decision.action.value)
        action = f"{PATH}?{urlencode({'url': _asked(decision), 'seal': token})}"
        if decision.action is Action.WARN or unblocking is None:
            return Unblock(action, token, message=message)
        if unblocking.passphrase is None:
            # A code says itself what it unblocks, and for how long.
            return Unblock(action, token, code=unblocking.codes, message=message)
        scopes = tuple(scope for scope in unblocking.scopes if scope in _wanted(decision))
        return Unblock(action, token, True, unblocking.codes, scopes, unblocking.minutes, message)

    def is_sealed(self, request: http.Request) -> bool:
        """Whether it is a form of ours: no origin is to see what a person typed into it."""
        tokens = self._in_force.tokens
        return _is_form(request) and tokens is not None and tokens.is_ours(_one(_query(request), "seal"))

    def remember(self, flow: http.HTTPFlow, stopped: Stopped) -> None:
        """Take note that a request was answered in its origin's place."""
        if _is_form(flow.request):
            self._stopped[flow] = stopped

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Take a form, and answer it in place of the block page that it has as its answer; ``None`` for all else."""
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
        engine, overrides = self._in_force.engine, self._in_force.overrides
        asked = _one(_query(flow.request), "url").encode("utf-8", "surrogateescape")
        if engine is None or overrides is None:
            return
        decision = engine.decide_url(asked, client=stopped.client)
        host = _host(decision)
        if host is None or host != _host(stopped.decision):
            return
        if decision.action not in STOPPING:
            flow.response = _go_on(asked)  # the form was sent twice, or what was blocked is blocked no more
            return
        form = parse_qs((flow.request.raw_content or b"").decode("utf-8", "replace"))
        of_asked = replace(stopped, decision=decision)
        message = await asyncio.to_thread(self._try, overrides, of_asked, form)
        flow.response = _go_on(asked) if message is None else self._answer(flow, of_asked, message)

    def _try(self, overrides: Overrides, stopped: Stopped, form: Mapping[str, list[str]]) -> str | None:
        """Grant what a form asks for, or the key of the words that say why not; waits for the disk."""
        decision, client, unblocking = stopped.decision, stopped.client, stopped.unblocking
        name, url = _name(client), _text(decision.url)
        try:
            assert self._in_force.tokens is not None
            self._in_force.tokens.check(_one(form, "token"), name, url, decision.action.value)
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
    overrides: Overrides, stopped: Stopped, unblocking: Unblocking, form: Mapping[str, list[str]]
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
    """The targets of a decision's URL that a grant can have, by scope."""
    category = None if decision.winner is None else decision.winner.rule.terms.category
    wanted = {"url": _text(decision.url), "host": _text(_host(decision) or b""), "category": category or ""}
    return {scope: target for scope, target in wanted.items() if _can_be_granted(scope, target)}


def _can_be_granted(scope: str, target: str) -> bool:
    try:
        check_target(scope, target)
    except ValueError:
        return False
    return True


#: what stands for itself in a target. Spec: RFC 3986, 2.2 and 2.3
_PLAIN = "/?:@!$&'()*+,;=-._~%[]"


def _go_on(asked: bytes) -> http.Response:
    """Back to the page that was asked for, which passes now; on the same origin, whatever that is called."""
    target = quote(request_of(asked).target, safe=_PLAIN)
    # "//name" would be another origin; the dot segment goes away where the reference is resolved.
    # Spec: RFC 3986, 4.2 and 5.2.4
    location = f"/.{target}" if target.startswith("//") else target
    headers = {"Location": location, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return http.Response.make(303, b"", headers)


def _asked(decision: Decision) -> bytes:
    """The URL to come back to: as it was asked for, unless what decided was another name or reading of it."""
    asked = decision.asked.url if isinstance(decision.asked, Request) else decision.asked
    # what stands behind "#" would be none of the URL that is sent back
    return decision.url if not asked or b"#" in asked else asked


def _host(decision: Decision) -> bytes | None:
    """The canonical host; ``None`` where what was asked for cannot be read."""
    return split_web(decision.url).host if decision.fault is None else None


def _is_form(request: http.Request) -> bool:
    return request.data.method == b"POST" and request.data.path.partition(b"?")[0] == PATH.encode()


def _query(request: http.Request) -> Mapping[str, list[str]]:
    return parse_qs(request.path.partition("?")[2], errors="surrogateescape")


def _name(client: Client) -> str:
    return client.names[-1]


def _one(values: Mapping[str, list[str]], key: str) -> str:
    return values.get(key, [""])[0]


def _text(octets: bytes) -> str:
    return octets.decode("ascii", "replace")
