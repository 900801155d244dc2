"""The interface of the live page: who asks, whether they may, and the answer as JSON.

People sign in with their passphrase, and a cookie then names their session; programs send a token. Only over https, or
on the machine itself: what is sent over a network in the clear, others read. Whatever changes something by a cookie
needs a second token, which only a script of the page itself can know; and JSON, which no form sends.

Spec: RFC 6265bis, 4.1.3.2 (``__Host-``); RFC 6750, 2.1 (bearer tokens)
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from inspect import iscoroutinefunction
from math import ceil
from threading import Lock
from time import time
from typing import Annotated, Any, NamedTuple, TypeVar

from mitmproxy import http

from hushlist.core.errors import logger_of, printable
from hushlist.core.extension import ALL_BUILT_IN, extensions_named, load
from hushlist.core.policy.group_table import device_names
from hushlist.core.policy.groups import Client
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.core.policy.reach import Reach
from hushlist.core.routes import (
    BESIDE,
    Account,
    Action,
    ActionError,
    Done,
    Instead,
    Limit,
    MissingError,
    Page,
    Parts,
    ReachError,
    Role,
    RoleError,
    Text,
    Undoings,
    Whole,
    plain,
    whom_of,
)
from hushlist.extensions.dashboard.admin_keys import AdminPerson
from hushlist.extensions.dashboard.admin_store import (
    BY_ADDRESS,
    DEVICE,
    SESSION,
    AdminStore,
    account_of,
    default_path,
)
from hushlist.extensions.dashboard.answers import as_json, error
from hushlist.extensions.dashboard.api_description import BASE, openapi
from hushlist.extensions.dashboard.api_requests import (
    COOKIES,
    DEVICE_COOKIES,
    RefusedError,
    bearer_of,
    cookie_line,
    cookie_of,
    is_private,
    place_of,
    second_token,
    values_in,
)
from hushlist.extensions.dashboard.live_feed import LiveFeed
from hushlist.extensions.dashboard.sign_in_turns import NoTurnError, SignInTurns
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.journal import privacy_in
from hushlist.extensions.journal.log_identifiers import is_pseudonym
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import masked, named_by
from hushlist.extensions.unblock.credentials import verify_passphrase
from hushlist.extensions.unblock.unblock_handler import overrides_of
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.runtime import Runtime
from hushlist.proxy.statistics import MOST_RECENT

logger = logger_of(__name__)

_T = TypeVar("_T")

#: questions of pages to disk and databases at one time; a database that hangs holds each for 20 seconds
_THREADS = 4
#: the header with the session's second token
TOKEN_HEADER = "x-hushlist-token"  # noqa: S105
#: of nobody: an unknown name takes as long as a wrong passphrase
_NOBODY = f"scrypt$n=32768,r=8,p=1${'A' * 43}${'A' * 43}"


@dataclass(frozen=True, slots=True)
class Visit:
    """A call of the interface by somebody."""

    request: http.Request
    client: Client
    #: lines that set cookies
    cookies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Live:
    """What is newer than the last that somebody has, and the figures of the proxy beside it."""

    #: what distinguishes the numbers of decisions from those of another session, and the last of them
    of: str
    last: int
    decisions: list[Mapping[str, object]]
    figures: Mapping[str, object] = field(metadata=BESIDE)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Who is signed in, and whether anybody can be."""

    needed: bool
    possible: bool
    name: str | None
    role: str | None
    #: for the header of what changes something
    token: str | None
    #: the groups whose clients alone they see and act on
    groups: list[str] | None = None


class AdminApi:
    """Answers what is asked below ``/api/v1``, and says who may see the page."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        #: the store, and the one of unblocks that was in use when it was opened
        self._opened: tuple[object, AdminStore] | None = None
        self._opening = Lock()
        self._sign_in_thread = ThreadPoolExecutor(1, "hushlist: sign in")
        self._threads = ThreadPoolExecutor(_THREADS, "hushlist: pages")
        self._turns = SignInTurns()
        self.feed = LiveFeed(runtime, self.aside)

    def close(self) -> None:
        for threads in (self._sign_in_thread, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)
        if self._opened is not None:
            self._opened[1].close()

    async def aside(self, function: Callable[..., _T], *values: object) -> _T:
        """What a function gives that waits for a disk or a database: not in the threads in which all else waits."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *values)

    def privacy(self) -> Privacy:
        """What may be shown of clients; may read the disk."""
        return privacy_in(self._runtime)

    def load_rows(self) -> None:
        """Import what calls do, so that no call waits for it."""
        self._rows  # noqa: B018

    @property
    def _rows(self) -> Rows:
        engine = self._runtime.engine
        return rows_of((ALL_BUILT_IN,) if engine is None else engine.policy.extensions)

    @property
    def _people(self) -> tuple[AdminPerson, ...]:
        engine = self._runtime.engine
        return () if engine is None else engine.policy.of("admin")

    async def answer(self, request: http.Request, client: Client) -> http.Response:
        """The answer, always as JSON."""
        try:
            result, cookies = await self._answer(request, client)
        except (ActionError, StoreError) as error:
            return _refusal(error)
        response = as_json(HTTPStatus.OK, result)
        etag = result.get("etag") or (inner.get("etag") if isinstance(inner := result.get("result"), Mapping) else None)
        if etag:
            response.headers["ETag"] = f'"{etag}"'
        for line in cookies:
            response.headers.add("Set-Cookie", line)
        return response

    def needed(self, page: Page, client: Client) -> Role | None:
        """Who may see a page: where somebody may see some groups alone, so what names all groups is not for everybody.

        Programs on the machine of the proxy itself go on, and others send a token.
        """
        is_limited = page.names_groups and any(person.groups is not None for person in self._people)
        return Role.VIEW if is_limited and not LOOPBACK.fits(client) else page.role

    async def refusal(self, request: http.Request, client: Client, needed: Role | None) -> http.Response | None:
        """What is answered to somebody who may not see a page, such as an administrator of some groups."""
        try:
            if needed is not None:
                await self._account(request, client, needed, None)
        except (ActionError, StoreError) as error:
            return _refusal(error)
        return None

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _answer(self, request: http.Request, client: Client) -> tuple[Mapping[str, object], list[str]]:
        path, _, query = request.path.partition("?")
        path = path.removeprefix(BASE)
        if path == "/openapi.json" and request.method == "GET":
            return openapi(self._rows.actions, f"{request.scheme}://{request.pretty_host}"), []
        methods = {}
        for action in self._rows.actions:
            if (match := action.match(path)) is not None:
                methods[action.method] = action, match
        if not methods:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is no such call")
        if request.method not in methods:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "it cannot be called so", Allow=", ".join(methods))
        action, named = methods[request.method]
        account = None if action.role is None else await self._account(request, client, action.role, action.limit)
        visit, values = Visit(request, client), values_in(action, request, query, named)
        if iscoroutinefunction(action.does):
            content = plain(await action.does(self, visit, **values))
            if action.role is not None and action.method == "GET":
                await self._account(request, client, action.role, action.limit)  # a session may have ended meanwhile
            return content, visit.cookies
        assert account is not None
        return await self.aside(self._do, action, account, client, values), []

    def _do(self, action: Action, account: Account, client: Client, values: dict[str, Any]) -> Mapping[str, object]:
        runtime, store = self._runtime, self._store() if action.did or self._people else None
        if runtime.engine is None:
            raise ActionError("the filter has no policy that it can use")
        privacy = self.privacy()
        whom = action.says_whom if account.groups is not None else "client"  # the log has pseudonyms themselves
        if is_pseudonym(values.get(whom, "")):
            runtime.statistics.count()
            askers = [(asker.address, asker.user) for asker, _ in runtime.statistics.clients.top()]
            values = values | {whom: _named_by(values[whom], askers, privacy, account)}
        rows, shared = self._rows, (value for values in runtime.parts.values for value in values())
        engine = runtime.engine
        policy = engine.policy
        device_of = None if account.groups is None else device_names(policy)
        reach = Reach(policy.all_groups, account.groups, device_of)
        parts = Parts(account, client, privacy, store, rows.undoings, runtime, engine, policy, reach, *shared)
        if not reach.is_all:
            values = _within(reach, action, values, rows, parts, policy)
        if not action.did:
            content = plain(parts.call(action.does, **values))
            return masked(content if action.listed_as is None else {action.listed_as: content}, privacy)
        assert store is not None
        recorded_values = {item.name: values[item.name] for item in action.takes if item.kind.is_recorded}
        begun = store.begin(account, action.name.replace("_", " "), recorded_values)
        try:
            done: Done[Any] | Instead = parts.call(action.does, **values)
            if isinstance(done, Instead):
                (other,) = (row for row in rows.actions if (row.method, row.path) == ("POST", action.instead))
                if other.role is None or not account.role.may(other.role):
                    raise RoleError(other.role or Role.MANAGE)
                if not reach.is_all:
                    raise ReachError  # a rule is for everybody
                action, done = other, parts.call(other.does, **done.values)
                assert isinstance(done, Done)
        except ActionError:
            store.strike(begun)
            raise
        result = plain(done.result)
        detail = result if done.detail is None else done.detail
        number = store.record(account, action.did, detail, done.role, plain(done.undo), begun)
        logger.info("hushlist: %s at %s: %s (record %d)", account.name, account.client, action.name, number)
        return masked({"recorded": number, "result": result}, privacy)

    def _store(self) -> AdminStore:
        """The store of administrators, which is opened when it is first needed; ``StoreError`` if it cannot be used."""
        with self._opening:
            overrides = overrides_of(self._runtime)
            if overrides is None:
                raise StoreError(default_path(), "temporary unblocks cannot be used")
            if self._opened is None or self._opened[0] is not overrides:
                place = overrides.place if isinstance(overrides.place, PostgresAddress) else default_path()
                before, self._opened = self._opened, (overrides, AdminStore(place, time))
                if before is not None:
                    before[1].close()
            return self._opened[1]

    # -- who asks ----------------------------------------------------------------------------------------------------

    def _check_way(self, request: http.Request, client: Client) -> None:
        """Whether somebody can sign in at all, and on this way."""
        if not self._people:
            raise RefusedError(HTTPStatus.FORBIDDEN, "the policy names nobody who may sign in (admin)")
        if not is_private(request, client):
            raise RefusedError(HTTPStatus.FORBIDDEN, "sign in over https, or on the machine of the proxy itself")

    async def _account(self, request: http.Request, client: Client, needed: Role, limit: Limit | None) -> Account:
        """Who asks; without a limit, what they ask for is closed to administrators of some groups."""
        if not self._people and request.method == "GET" and needed is Role.VIEW:
            return Account("", Role.VIEW, client.address)  # whoever may see the page
        self._check_way(request, client)
        account = await self.aside(self._signed_in, request, client)
        if account is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "nobody is signed in", WWW_Authenticate="Bearer")
        if bearer_of(request) is None and request.method != "GET":
            token = request.headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(token.encode("utf-8", "replace"), second_token(cookie_of(request)).encode()):
                raise RefusedError(HTTPStatus.FORBIDDEN, f"the header {TOKEN_HEADER} is missing or wrong")
        if not account.role.may(needed):
            raise RoleError(needed)
        if account.groups is not None and limit is None:
            raise ReachError
        return account

    def _signed_in(self, request: http.Request, client: Client) -> Account | None:
        bearer, cookie = bearer_of(request), cookie_of(request)
        if bearer is not None:
            return self._store().bearer(bearer, client.address)
        if not cookie:
            return None
        is_secure = request.scheme == "https"
        return self._store().account(cookie, self._people, client.address, is_secure=is_secure)

    async def live(
        self,
        visit: Visit,
        of: Annotated[str, Text("what the last answer was of")] = "",
        since: Annotated[int, Whole("the last decision that is known", (1 << 53) - 1, 0)] = 0,
        most: Annotated[int, Whole("how many decisions at most", MOST_RECENT, 0)] = MOST_RECENT,
    ) -> Live:
        """What is decided, as it happens.

        Waits some seconds for what is new.
        """
        live_data = await self.feed.data(of, since, most)
        return Live(live_data.pop("of"), live_data.pop("last"), live_data.pop("decisions"), live_data)

    async def session(self, visit: Visit) -> SessionStatus:
        """Who is signed in."""
        request, client = visit.request, visit.client
        is_confidential = is_private(request, client)
        account = await self.aside(self._signed_in, request, client) if self._people and is_confidential else None
        return self._status(visit, account, cookie_of(request))

    def _status(self, visit: Visit, account: Account | None, token: str) -> SessionStatus:
        return SessionStatus(
            bool(self._people),
            bool(self._people) and is_private(visit.request, visit.client),
            None if account is None else account.name,
            None if account is None else account.role.value,
            None if account is None or not token else second_token(token),
            self._groups_of(account),
        )

    def _groups_of(self, account: Account | None) -> list[str] | None:
        """Those of somebody's groups that the policy has; ``None``: all."""
        engine = self._runtime.engine
        if account is None or account.groups is None or engine is None:
            return None
        return Reach(engine.policy.all_groups, account.groups).groups

    async def sign_in(
        self,
        visit: Visit,
        name: Annotated[str, Text("the person", least=1)],
        passphrase: Annotated[str, Text("their passphrase", 1024, 1)],
    ) -> SessionStatus:
        """Sign in."""
        request, client = visit.request, visit.client
        self._check_way(request, client)
        is_secure, had = request.scheme == "https", (cookie_of(request), cookie_of(request, DEVICE_COOKIES))
        try:
            whose = await self.aside(self._whose, name, client, had[1])
            async with self._turns.taken(*whose):
                person, token, device = await asyncio.get_running_loop().run_in_executor(
                    self._sign_in_thread, self._check, name, passphrase, client, is_secure, *had
                )
        except NoTurnError as error:
            why = "too many are signing in: try again"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why, Retry_After="5") from error
        except LockedError as error:
            seconds = max(1, ceil(error.until - time()))
            why = "too many wrong tries: try again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, why, Retry_After=str(seconds)) from error
        account = account_of(person, client.address)
        visit.cookies[:] = [
            cookie_line(COOKIES, is_secure, token, SESSION),
            cookie_line(DEVICE_COOKIES, is_secure, device, DEVICE),
        ]
        return self._status(visit, account, token)

    def _whose(self, name: str, client: Client, device: str) -> tuple[int, str]:
        """How well it is known who tries to sign in, and by what."""
        acquaintance, key = self._store().acquaintance(name, place_of(client), device)
        return min(acquaintance, BY_ADDRESS) if LOOPBACK.fits(client) else acquaintance, key

    def _check(
        self, name: str, passphrase: str, client: Client, is_secure: bool, before: str, device: str
    ) -> tuple[AdminPerson, str, str]:
        """The person, a new session's token, and the browser's; the session that it had before ends."""
        store, address = self._store(), place_of(client)
        person = next((candidate for candidate in self._people if candidate.name == name), None)
        stored = _NOBODY if person is None else person.passphrase
        is_right = store.try_sign_in(
            name, address, device, lambda: verify_passphrase(passphrase, stored), is_near=LOOPBACK.fits(client)
        )
        if person is None or not is_right:
            logger.warning("hushlist: a wrong try to sign in as %s at %s", printable(name), address)
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED, "the name or the passphrase is wrong", WWW_Authenticate="Bearer"
            )
        if before:
            store.sign_out(before)
        token = store.sign_in(person, client.address, is_secure=is_secure)
        store.record(account_of(person, client.address), "signed in", {})
        return person, token, store.know_device(person.name, address, device)

    async def sign_out(self, visit: Visit) -> SessionStatus:
        """Sign out."""
        await self.aside(lambda: self._store().sign_out(cookie_of(visit.request)))
        visit.cookies.append(cookie_line(COOKIES, visit.request.scheme == "https", "", 0))
        return self._status(visit, None, "")


class Rows(NamedTuple):
    """The interface, and what undoes what was done by it."""

    actions: tuple[Action, ...]
    undoings: Undoings


@cache
def rows_of(names: tuple[str, ...]) -> Rows:
    """The rows of a policy's extensions."""
    modules = [load(extension.actions) for extension in extensions_named(names) if extension.actions]
    actions = (
        Action("GET", "/session", None, AdminApi.session, limit=Limit.SELF),
        Action("POST", "/session", None, AdminApi.sign_in, limit=Limit.SELF),
        Action("DELETE", "/session", Role.VIEW, AdminApi.sign_out, limit=Limit.SELF),
        Action("GET", "/live", Role.VIEW, AdminApi.live),
        *(action for rows in modules for action in rows.ACTIONS),
    )
    undoings = (getattr(rows, "UNDOINGS", {}) for rows in modules)
    return Rows(actions, Undoings({kind: does for rows in undoings for kind, does in rows.items()}))


def _within(
    reach: Reach, action: Action, values: dict[str, Any], rows: Rows, parts: Parts, policy: Policy
) -> dict[str, Any]:
    """What an action takes, as an administrator of some groups may say it.

    Raises:
        ReachError: it is not for their clients alone.
        MissingError: the list does not give them what the path names.
    """
    if action.limit is Limit.WHOM:
        try:
            whom = whom_of(values[action.says_whom], policy.all_groups)
        except ActionError as error:
            raise ReachError from error  # which groups there are is not for them
        if not reach.has(whom):
            raise ReachError
        return values | {action.says_whom: whom}
    if action.limit is Limit.ITEM:
        (listed,) = (row for row in rows.actions if (row.method, row.path) == ("GET", action.list_path))
        if listed.limit is not Limit.NARROWED:
            raise ReachError
        if values[action.in_path[0]] not in [item.id for item in parts.call(listed.does)]:
            raise MissingError("it is not there, or not for clients of your groups")
    return values


def _named_by(pseudonym: str, askers: Iterable[tuple[str, str | None]], privacy: Privacy, account: Account) -> str:
    """Whom a pseudonym stands for; whether anybody's it is, an administrator of some groups does not learn."""
    try:
        return named_by(pseudonym, askers, privacy)
    except ActionError as error:
        raise error if account.groups is None else ReachError from error


def _refusal(fault: ActionError | StoreError) -> http.Response:
    if isinstance(fault, StoreError):
        logger.warning("hushlist: the live page: %s", fault)
        why = "its file cannot be used: see the messages of the proxy"
        return error(HTTPStatus.SERVICE_UNAVAILABLE, why)
    headers = fault.headers if isinstance(fault, RefusedError) else {}
    return error(fault.status, str(fault), fault.detail, **headers)
