"""The interface of the live page: who asks, whether they may, and the answer as JSON.

People sign in with their passphrase, and a cookie then names their session; programs send a token. Only over https, or
on the machine itself: what is sent over a network in the clear, others read. Whatever changes something by a cookie
needs a second token, which only a script of the page itself can know; and JSON, which no form sends.

Spec: RFC 6265bis, 4.1.3.2 (``__Host-``); RFC 6750, 2.1 (bearer tokens)
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil
from threading import Lock
from time import time
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from mitmproxy import http

from hushlist.core.decide.engine import Engine
from hushlist.core.errors import logger_of, printable
from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.extensions.dashboard.admin_keys import AdminPerson, Role
from hushlist.extensions.dashboard.admin_store import (
    BEARER,
    BY_ADDRESS,
    DEVICE,
    SESSION,
    Account,
    ActionError,
    AdminStore,
    default_path,
)
from hushlist.extensions.dashboard.administration import Administration, Done, MissingError, usable
from hushlist.extensions.dashboard.api_description import (
    BASE,
    ApiCall,
    InputError,
    call_of,
    checked,
    openapi,
    whole_numbers,
)
from hushlist.extensions.dashboard.dashboard_data import privacy_of
from hushlist.extensions.dashboard.masked_clients import masked, named_by
from hushlist.extensions.dashboard.what_holds import preview, previewed, what_holds
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.journal.log_identifiers import is_pseudonym
from hushlist.extensions.unblock.access_requests import UnansweredError
from hushlist.extensions.unblock.ask_handler import requests_of
from hushlist.extensions.unblock.credentials import verify_passphrase
from hushlist.extensions.unblock.store import StoreError
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

_T = TypeVar("_T")

#: most octets of a body
LONGEST_BODY = 1 << 15
#: questions of pages to disk and databases at one time; a database that hangs holds each for 20 seconds
_THREADS = 4
#: the session's cookie over https, and on the machine itself
_COOKIES = {True: "__Host-hushlist", False: "hushlist"}
#: the same for the browser's, which only says that somebody has signed in there
_DEVICE_COOKIES = {True: "__Host-hushlist-device", False: "hushlist-device"}
#: the header with the session's second token
TOKEN_HEADER = "x-hushlist-token"  # noqa: S105
#: of nobody: an unknown name takes as long as a wrong passphrase
_NOBODY = f"scrypt$n=32768,r=8,p=1${'A' * 43}${'A' * 43}"


class RefusedError(Exception):
    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        self.status, self.why, self.headers = status, why, headers
        super().__init__(why)


class AdminApi:
    """Answers what is asked below ``/api/v1``, and says who may see the page."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._does: Administration | None = None
        self._opening = Lock()
        self._one_by_one = ThreadPoolExecutor(1, "hushlist: sign in")
        self._threads = ThreadPoolExecutor(_THREADS, "hushlist: pages")
        self._turns = SignInTurns()

    def close(self) -> None:
        for threads in (self._one_by_one, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)
        if self._does is not None:
            self._does.store.close()

    async def aside(self, function: Callable[..., _T], *values: object) -> _T:
        """What a function gives that waits for a disk or a database: not in the threads in which all else waits."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *values)

    @property
    def _people(self) -> tuple[AdminPerson, ...]:
        engine = self._runtime.engine
        return () if engine is None else engine.policy.admin

    async def answer(self, request: http.Request, client: Client) -> http.Response:
        """The answer, always as JSON."""
        try:
            plain, cookies = await self._answer(request, client)
        except (RefusedError, StoreError) as error:
            return _refusal(error)
        response = _json(HTTPStatus.OK, plain)
        for line in cookies:
            response.headers.add("Set-Cookie", line)
        return response

    async def refusal(self, request: http.Request, client: Client) -> http.Response | None:
        """What is answered to somebody who may not see what the page shows."""
        try:
            if self._people:
                await self._account(request, client, Role.VIEW)
        except (RefusedError, StoreError) as error:
            return _refusal(error)
        return None

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _answer(self, request: http.Request, client: Client) -> tuple[Mapping[str, object], tuple[str, ...]]:
        path, _, query = request.path.partition("?")
        path = path.removeprefix(BASE)
        if path == "/openapi.json" and request.method == "GET":
            return openapi(f"{request.scheme}://{request.pretty_host}"), ()
        found = call_of(request.method, path)
        if not found:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is no such call")
        if not isinstance(found[0], ApiCall):
            allowed = ", ".join(str(method) for method in found)
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "it cannot be called so", Allow=allowed)
        call, named = found
        assert isinstance(named, dict)
        account = None if call.role is None else await self._account(request, client, call.role)
        values = _values(call, request, query, named)
        if call.does == "session":
            return await self._session(request, client), ()
        if call.does == "sign_in":
            return await self._sign_in(request, client, values)
        assert account is not None
        if call.does == "sign_out":
            return await self._sign_out(request, client)
        try:
            given = await self.aside(self._do, call, account, values)
        except (MissingError, UnansweredError) as error:
            raise RefusedError(HTTPStatus.NOT_FOUND, str(error)) from error
        except ActionError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        except PermissionError as error:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"that is for the role {error}") from error
        return given, ()

    def _do(self, call: ApiCall, account: Account, values: dict[str, Any]) -> Mapping[str, object]:
        does, engine = self._administration(), self._runtime.engine
        if engine is None:
            raise ActionError("the filter has no policy that it can use")
        policy = engine.policy
        if call.does == "requests":
            return {"requests": requests_of(self._runtime, privacy_of(self._runtime))}
        privacy = privacy_of(self._runtime)
        if is_pseudonym(values.get("client", "")):
            self._runtime.statistics.count()
            askers = [(asker.address, asker.user) for asker, _ in self._runtime.statistics.clients.top()]
            values = values | {"client": named_by(values["client"], askers, privacy)}
        if call.does in ("preview", "what_holds"):
            return masked(self._look(call.does, engine, values), privacy)
        function = getattr(does, call.does)
        if call.method == "GET":
            found: Mapping[str, object] = function(
                **({"policy": policy} if _takes(function, "policy") else {}), **values
            )
            return masked(found, privacy)
        known = {"policy": policy, "use_minutes": self._runtime.use_minutes}
        more = {name: one for name, one in known.items() if _takes(function, name)}
        begun = does.store.begin(account, call.does.replace("_", " "), values)
        try:
            done: Done = function(begun, **more, **values)
        except (ActionError, UnansweredError, PermissionError):
            does.store.strike(begun)
            raise
        logger.info("hushlist: %s at %s: %s (record %d)", account.name, account.client, call.does, done.recorded)
        return masked(done._asdict(), privacy)

    def _look(self, what: str, engine: Engine, values: dict[str, Any]) -> dict[str, object]:
        now = datetime.now(UTC)
        if what == "what_holds":
            who = Client(values["client"].strip(), values["user"].strip() or None)
            quotas = [use.as_dict() for use in self._runtime.quota_uses(who)]
            found = what_holds(engine, who, values["url"].strip(), now)
            names = {None, *who.names, f"group:{found['group']}"}
            does = self._administration()
            own = {
                kind: [one for one in plain if one["client"] in names]
                for kind, plain in (does.grants() | does.blocks()).items()
            }
            return {**found, "quotas": quotas, **own}
        if self._runtime.journal is None:
            raise ActionError("the policy keeps no log, so nothing tells what was asked for")
        with usable():
            privacy = privacy_of(self._runtime)
            covered = previewed(values["scope"], values["target"], values["client"], privacy)
        return preview(self._runtime.journal.place, covered, values["action"], privacy, now)

    def _administration(self) -> Administration:
        """All that can be done; ``StoreError`` if a file cannot be used, which is opened when it is first needed."""
        with self._opening:
            overrides = self._runtime.overrides
            if overrides is None:
                raise StoreError(default_path(), "temporary unblocks cannot be used")
            if self._does is None or self._does.overrides is not overrides:
                place = overrides.place if isinstance(overrides.place, PostgresAddress) else default_path()
                before, self._does = self._does, Administration(AdminStore(place, time), overrides)
                if before is not None:
                    before.store.close()
            return self._does

    # -- who asks ----------------------------------------------------------------------------------------------------

    def _check_way(self, request: http.Request, client: Client) -> None:
        """Whether somebody can sign in at all, and on this way."""
        if not self._people:
            raise RefusedError(HTTPStatus.FORBIDDEN, "the policy names nobody who may sign in (admin)")
        if not _is_private(request, client):
            raise RefusedError(HTTPStatus.FORBIDDEN, "sign in over https, or on the machine of the proxy itself")

    async def _account(self, request: http.Request, client: Client, needed: Role) -> Account:
        self._check_way(request, client)
        account = await self.aside(self._known, request, client)
        if account is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "nobody is signed in", WWW_Authenticate="Bearer")
        if _bearer(request) is None and request.method != "GET":
            given = request.headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), _second_token(_cookie(request)).encode()):
                raise RefusedError(HTTPStatus.FORBIDDEN, f"the header {TOKEN_HEADER} is missing or wrong")
        if not account.role.may(needed):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"that is for the role {needed.value}")
        return account

    def _known(self, request: http.Request, client: Client) -> Account | None:
        bearer, cookie = _bearer(request), _cookie(request)
        if bearer is not None:
            return self._administration().store.bearer(bearer, client.address)
        if not cookie:
            return None
        is_secure = request.scheme == "https"
        return self._administration().store.account(cookie, self._people, client.address, is_secure=is_secure)

    async def _session(self, request: http.Request, client: Client) -> dict[str, object]:
        is_private = _is_private(request, client)
        account = await self.aside(self._known, request, client) if self._people and is_private else None
        return self._told(request, client, account, _cookie(request))

    def _told(self, request: http.Request, client: Client, account: Account | None, token: str) -> dict[str, object]:
        return {
            "needed": bool(self._people),
            "possible": bool(self._people) and _is_private(request, client),
            "name": None if account is None else account.name,
            "role": None if account is None else account.role.value,
            "token": None if account is None or not token else _second_token(token),
        }

    async def _sign_in(
        self, request: http.Request, client: Client, values: dict[str, Any]
    ) -> tuple[dict[str, object], tuple[str, ...]]:
        self._check_way(request, client)
        is_secure, had = request.scheme == "https", (_cookie(request), _cookie(request, _DEVICE_COOKIES))
        try:
            whose = await self.aside(self._whose, values["name"], client, had[1])
            async with self._turns.taken(*whose):
                person, token, device = await asyncio.get_running_loop().run_in_executor(
                    self._one_by_one, self._check, values["name"], values["passphrase"], client, is_secure, *had
                )
        except NoTurnError as error:
            why = "too many are signing in: try again"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why, Retry_After="5") from error
        except LockedError as error:
            seconds = max(1, ceil(error.until - time()))
            why = "too many wrong tries: try again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, why, Retry_After=str(seconds)) from error
        account = Account(person.name, person.role, client.address)
        cookies = (
            _cookie_line(_COOKIES, is_secure, token, SESSION),
            _cookie_line(_DEVICE_COOKIES, is_secure, device, DEVICE),
        )
        return self._told(request, client, account, token), cookies

    def _whose(self, name: str, client: Client, device: str) -> tuple[int, str]:
        """How well it is known who tries to sign in, and by what."""
        known, own = self._administration().store.acquaintance(name, _place_of(client), device)
        return min(known, BY_ADDRESS) if LOOPBACK.fits(client) else known, own

    def _check(
        self, name: str, passphrase: str, client: Client, is_secure: bool, before: str, device: str
    ) -> tuple[AdminPerson, str, str]:
        """The person, a new session's token, and the browser's; the session that it had before ends."""
        does, address = self._administration(), _place_of(client)
        person = next((one for one in self._people if one.name == name), None)
        stored = _NOBODY if person is None else person.passphrase
        is_right = does.store.try_sign_in(
            name, address, device, lambda: verify_passphrase(passphrase, stored), is_near=LOOPBACK.fits(client)
        )
        if person is None or not is_right:
            logger.warning("hushlist: a wrong try to sign in as %s at %s", printable(name), address)
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED, "the name or the passphrase is wrong", WWW_Authenticate="Bearer"
            )
        if before:
            does.store.sign_out(before)
        token = does.store.sign_in(person, client.address, is_secure=is_secure)
        does.store.record(Account(person.name, person.role, client.address), "signed in", {})
        return person, token, does.store.know_device(person.name, address, device)

    async def _sign_out(self, request: http.Request, client: Client) -> tuple[dict[str, object], tuple[str, ...]]:
        await self.aside(lambda: self._administration().store.sign_out(_cookie(request)))
        is_secure = request.scheme == "https"
        return self._told(request, client, None, ""), (_cookie_line(_COOKIES, is_secure, "", 0),)


def _takes(function: Any, name: str) -> bool:
    return name in function.__code__.co_varnames[: function.__code__.co_argcount]


def _place_of(client: Client) -> str:
    """The address by which tries are counted: the machine itself has millions, which are one."""
    return "127.0.0.1" if LOOPBACK.fits(client) else address_text(client.address)


def _is_private(request: http.Request, client: Client) -> bool:
    """Whether nobody on the way can read it: it is encrypted, or does not leave the machine."""
    return request.scheme == "https" or LOOPBACK.fits(client)


def _cookie(request: http.Request, names: Mapping[bool, str] = _COOKIES) -> str:
    """A token, the session's; empty if there is none, or more than one: somebody else may have set the other."""
    given = request.cookies.get_all(names[request.scheme == "https"])
    return given[0] if len(given) == 1 and len(given[0]) < 200 else ""


def _cookie_line(names: Mapping[bool, str], is_secure: bool, token: str, seconds: float) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{names[is_secure]}={token}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Strict{secure}"


def _bearer(request: http.Request) -> str | None:
    """The token that a program has sent."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.startswith(BEARER) and len(token) < 200 else None


def _second_token(cookie: str) -> str:
    """What a request that changes something has in its header: made of the cookie, which no script can read."""
    return hashlib.sha256(b"hushlist form:" + cookie.encode("utf-8", "replace")).hexdigest()


def _values(call: ApiCall, request: http.Request, query: str, named: dict[str, str]) -> dict[str, Any]:
    """What a call is given in path, query or body; ``RefusedError`` if it is not what the call takes."""
    in_path = {name: schema for name, schema in call.takes.items() if name in call.named}
    others = {name: schema for name, schema in call.takes.items() if name not in call.named}
    try:
        if call.method == "GET":
            pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape", max_num_fields=20)
            given = whole_numbers(others, dict(pairs))
        else:
            given = _body(request) if call.method == "POST" else {}
        return {**checked(others, given), **checked(in_path, whole_numbers(in_path, named))}
    except (InputError, ValueError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _body(request: http.Request) -> dict[str, object]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json")
    content = request.raw_content or b""
    if len(content) > LONGEST_BODY:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {LONGEST_BODY:,} octets")
    try:
        plain = json.loads(content)
        json.dumps(plain, ensure_ascii=False).encode()  # half a character can be written, and is in no text
    except (ValueError, RecursionError) as error:
        raise InputError("the body is no JSON") from error
    if not isinstance(plain, dict):
        raise InputError("the body is no JSON object")
    return plain


def _refusal(error: RefusedError | StoreError) -> http.Response:
    if isinstance(error, StoreError):
        logger.warning("hushlist: the live page: %s", error)
        error = RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "its file cannot be used: see the messages of the proxy")
    response = _json(error.status, {"error": error.why})
    response.headers.update({name.replace("_", "-"): text for name, text in error.headers.items()})
    return response


def _json(status: int, plain: Mapping[str, object]) -> http.Response:
    return http.Response.make(status, json.dumps(plain).encode(), {"Content-Type": "application/json"})


# -- turns -------------------------------------------------------------------------------------------------------------

#: who may wait, of those who are known equally well; each of them once
MOST_SIGN_INS = 16


class NoTurnError(Exception):
    """Too many wait."""


class SignInTurns:
    """Turns for what is slow on purpose: one passphrase is checked at a time, that of who is known best first.

    So a flood of strangers, from however many addresses, keeps nobody waiting who has signed in before. Only the event
    loop uses them.
    """

    def __init__(self) -> None:
        #: rank and name of each that is there, in the order in which they came -> done when it is its turn
        self._there: dict[tuple[int, str], asyncio.Future[None]] = {}
        self._now: tuple[int, str] | None = None

    @asynccontextmanager
    async def taken(self, rank: int, name: str) -> AsyncIterator[None]:
        """A turn, before all that have a higher rank.

        Raises:
            NoTurnError: too many of this rank are there, or one of this name.
        """
        own = rank, name
        if own in self._there or sum(other == rank for other, _ in self._there) >= MOST_SIGN_INS:
            raise NoTurnError
        self._there[own] = asyncio.get_running_loop().create_future()
        self._begin_next()
        try:
            await self._there[own]
            yield
        finally:
            del self._there[own]
            self._now = None if self._now == own else self._now
            self._begin_next()

    def _begin_next(self) -> None:
        waiting = [own for own, turn in self._there.items() if not turn.done()]  # done: it was cancelled
        if self._now is None and waiting:
            self._now = min(waiting, key=lambda own: own[0])
            self._there[self._now].set_result(None)
