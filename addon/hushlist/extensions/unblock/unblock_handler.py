"""Temporary unblocks from the block page: what the page offers, and how its form is handled.

The form is sent to a path of the blocked origin, but never reaches the origin: it may hold a passphrase. The path has a
seal, so the form is recognized even if the path is not blocked, or no longer blocked. A token proves that the form is
not forged by another site: it is made for one client and one URL, and works once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread
from time import time
from urllib.parse import parse_qs, urlencode
from weakref import WeakKeyDictionary

from mitmproxy import http

from hushlist.core.decide.decision import STOPPING, Judgement
from hushlist.core.decide.engine import Engine
from hushlist.core.errors import Problem, UrlError, logger_of, printable
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import Policy
from hushlist.core.system.memory import LatestEntries
from hushlist.core.url.request import request_of
from hushlist.extensions.databases.kept_files import DatabaseKind
from hushlist.extensions.databases.postgres_address import PostgresAddress
from hushlist.extensions.databases.sql import StoreError
from hushlist.extensions.journal.journal import privacy_in
from hushlist.extensions.journal.masked_clients import shown_by
from hushlist.extensions.unblock import STORE_FAILS, default_path
from hushlist.extensions.unblock.access_requests import AskedTooOftenError
from hushlist.extensions.unblock.actions import asked_for
from hushlist.extensions.unblock.ask_handler import (
    ANSWER,
    ANSWER_TARGET,
    ASK,
    PAGE,
    access_offer,
    answer_waiting_page,
    choice_text,
    file_access_request,
)
from hushlist.extensions.unblock.credentials import CodeError, TokenError, Tokens
from hushlist.extensions.unblock.grants import WARNING
from hushlist.extensions.unblock.overrides import UNBLOCKS, Overrides
from hushlist.extensions.unblock.page_form import Unblock
from hushlist.extensions.unblock.tap_page import TapPage
from hushlist.extensions.unblock.unblock_forms import (
    PATH,
    client_name,
    first,
    is_form,
    is_of_file,
    page_url,
    query_of,
    reference_of,
    target_of_page,
    targets_of,
    text_of,
    unblock_by_form,
)
from hushlist.extensions.unblock.unblock_keys import UnblockSettings
from hushlist.extensions.unblock.wrong_tries import LockedError
from hushlist.proxy.bounds.body_looks import await_form
from hushlist.proxy.flow_outcome import hide, is_open, refuse
from hushlist.proxy.languages import Texts
from hushlist.proxy.page.block_response import led_to
from hushlist.proxy.page.pages import PageForm
from hushlist.proxy.parts import Part
from hushlist.proxy.request_handler import stopped_response
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

_TAPS = ANSWER.encode()
#: most octets of a form; the page's own form is shorter
_LONGEST_FORM = 1 << 14
#: most forms that are checked (one at a time) or wait for that, and of one client: one check may take 256 MiB and a
#: second, and nobody can take the turn of all others
MOST_FORMS, MOST_OF_CLIENT = 32, 4
#: most files whose pages have forms
_MOST_FILES = 256
#: the fields of the forms that unblock, or ask for it
_OWN_FIELDS = frozenset(("token", "passphrase", "code", "scope", "minutes", ASK, "reason"))
#: seconds for which a click on a warning opens the site
_AFTER_WARNING = 3600.0
#: seconds that the reading of a policy waits for what its database has: what administrators have blocked is there
_FIRST = 2.0


def offer(tokens: Tokens, judgement: Judgement, message: str | None, *, has_forms: bool = False) -> Unblock | None:
    """What a page offers for a stopped request, or nothing; ``has_forms``: it has those of other extensions."""
    decision, unblocking, goes_on = judgement.decision, _unblocking_of(judgement), _goes_on(judgement)
    if decision.winner is None or not (goes_on or unblocking or has_forms):
        return None
    token = tokens.make(client_name(judgement), text_of(decision.url), decision.action.value)
    reference = {} if judgement.reference is None else {"reference": judgement.reference}
    action = f"{PATH}?{urlencode({'url': _address(judgement), 'seal': token, **reference})}"
    if goes_on or unblocking is None:
        return Unblock(action, token, message=message, needs_code=not goes_on)
    if unblocking.passphrase is None:
        # The code itself says what it unblocks, and for how long.
        return Unblock(action, token, code=unblocking.codes, message=message)
    wanted = targets_of(judgement)
    scopes = tuple(scope for scope in unblocking.scopes if scope in wanted)
    return Unblock(action, token, True, unblocking.codes, scopes, unblocking.minutes, message)


def _is_framed(request: http.Request) -> bool:
    """Whether a page is for a frame of another page, which may hide what somebody clicks on.

    Spec: Fetch Metadata Request Headers, 2.1
    """
    return request.headers.get("sec-fetch-dest", "document").lower() not in ("document", "empty")


def _is_by_hand(form: http.Request) -> bool:
    """Whether a person has sent a form, as far as the browser says so, which it does over https.

    A site's own service worker can read the pages of its site, their tokens among it, and send what it likes. A page in
    a sandbox has no origin that a browser would name.
    Spec: Fetch Metadata Request Headers, 2.2 and 2.4; Fetch, 3.2
    """
    if form.headers.get("origin", "null") != "null":
        return False
    names = ("sec-fetch-mode", "sec-fetch-user", "user-agent")
    mode, user, agent = (str(form.headers.get(name, "")) for name in names)
    never_says = "AppleWebKit/" in agent and "Chrome/" not in agent  # whether there was a person: Safari
    return not mode or (mode == "navigate" and (user == "?1" or never_says))


def _goes_on(judgement: Judgement) -> bool:
    """Whether a click goes on past a warning.

    Over http, browsers do not say whether a person or a script of the same site, which passes, has clicked for a file.
    """
    if judgement.decision.action is not Action.WARN:
        return False
    is_past_sites = is_of_file(judgement) or judgement.decision.winner is None
    return not (is_past_sites and judgement.request.scheme == b"http")


def _unblocking_of(judgement: Judgement) -> UnblockSettings | None:
    """How what is stopped can be unblocked; of files, those that a warning is about, each by its address."""
    unblocking: UnblockSettings | None = judgement.settings.of("unblock")
    if unblocking is None or not is_of_file(judgement):
        return unblocking
    if judgement.decision.action is not Action.WARN:
        return None
    opens = "url" in unblocking.scopes
    return (unblocking if opens else replace(unblocking, passphrase=None)) if opens or unblocking.codes else None


def _address(judgement: Judgement) -> bytes:
    """The URL to return to: the URL as sent, unless another name or interpretation of it decided."""
    url, decision = judgement.request.url, judgement.decision
    # browsers would not send what follows "#"
    return url if (decision.request or decision.inside) and b"#" not in url else decision.url


def _place(judgement: Judgement) -> bytes | None:
    """The host whose page it is: of an address inside another, the outermost that carries it."""
    return next(iter(judgement.decision.inside), judgement.host)


class UnblockHandler(Part):
    """Has the store of grants and blocks, takes the forms of block pages, and answers pages that wait for somebody."""

    targets = (ANSWER_TARGET, _TAPS)

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: the store in use; ``None`` if it cannot be used
        self.overrides: Overrides | None = None
        #: one that was opened for a policy that is not used yet, and perhaps never will be
        self._opened: Overrides | None = None
        self._opening = Lock()
        self._no_overrides: str | None = None
        self._tokens: Tokens | None = None
        self._stopped: WeakKeyDictionary[http.HTTPFlow, Judgement | None] = WeakKeyDictionary()
        #: the judgements of files whose pages have forms, the latest last, by their references in the log
        self._files: LatestEntries[str, Judgement] = LatestEntries(_MOST_FILES)
        self._one_by_one = ThreadPoolExecutor(1, "hushlist: forms")
        self._forms = Counter[str]()
        self._taps = TapPage(runtime, ANSWER, self._tap)

    # -- the store -----------------------------------------------------------------------------------------------

    def prepare(self, policy: Policy) -> Overrides | None:
        """Open the policy's store: a database, or this machine's file; waits for it, and changes nothing in use.

        Without a store, blocked sites stay blocked, and all else works.
        """
        overrides = self._open(policy.of("store"))
        _note_shown(overrides, policy)
        return overrides

    def _open(self, database: PostgresAddress | None) -> Overrides | None:
        with self._opening:
            for opened in (self.overrides, self._opened):
                if opened is not None and database == _database_of(opened):
                    return opened
            try:
                with ExitStack() as undo:
                    is_shared = self._runtime.siblings is not None
                    overrides = undo.enter_context(Overrides(database or default_path(), time, is_shared=is_shared))
                    overrides.wait(_FIRST)
                    if database is None:  # whatever of it cannot be read is told at once
                        overrides.key(), overrides.blocks(), overrides.active(time())
                    undo.pop_all()
            except (StoreError, RuntimeError) as error:
                # a warning, since an error would end mitmdump at its start
                if str(error) != self._no_overrides:
                    more = "" if self.overrides else ", and no administrator's block holds"
                    logger.warning("hushlist: nothing can be unblocked for a while%s: %s", more, error)
                self._no_overrides = str(error)
                return self.overrides
            before, self._opened = self._opened, overrides
        if before is not None:
            before.close()
        return overrides

    def follow(self, policy: Policy) -> None:
        """Use the store that was opened for the policy, in the place of any other."""
        before, opened = self.overrides, self._opened
        if opened is None or _database_of(opened) != policy.of("store"):
            return
        self.overrides, self._opened, self._tokens, self._no_overrides = opened, None, None, None
        if before is not None:
            with suppress(RuntimeError):  # the machine has no thread left: it stays open
                Thread(target=before.close, name="hushlist: close a store", daemon=True).start()

    def can_more(self, policy: Policy) -> bool:
        """Whether a store can be used now that could not before; the engine has to know it."""
        if self.overrides is not None:
            return False
        before, opened = self._opened, self._open(policy.of("store"))
        return opened is not None and opened is not before

    def close(self) -> None:
        """Close the stores."""
        self._taps.close()
        for overrides in (self.overrides, self._opened):
            if overrides is not None:
                overrides.close()
        self.overrides = self._opened = None

    def problems(self, policy: Policy) -> Iterator[Problem]:
        """Which blocks of administrators hold for nobody, since the policy has no such group any more."""
        blocks = () if self.overrides is None else self.overrides.blocks_at(time()).blocks
        lost = {block.client or "" for block in blocks} - {f"group:{group.name}" for group in policy.all_groups}
        for name in sorted(name for name in lost if name.startswith("group:")):
            yield Problem(
                policy.source, 0, f"blocks of administrators for {name} hold for nobody", "there is no such group"
            )

    def watch(self, policy: Policy) -> None:
        """Note what commands may show, again if that failed."""
        _note_shown(self.overrides, policy)

    def kept_files(self) -> Iterator[tuple[Path, DatabaseKind]]:
        """The file of the store."""
        yield default_path(), UNBLOCKS

    def values(self) -> Iterator[Overrides | None]:
        """The store."""
        yield self.overrides

    @property
    def fault(self) -> str | None:
        """Why nothing can be unblocked, if so."""
        return self._no_overrides if self.overrides is None else self.overrides.fault

    def faults(self) -> Iterator[str]:
        """That nothing can be unblocked."""
        if fault := self.fault:
            yield f"nothing can be unblocked: {fault}"

    def warnings(self) -> Iterator[str]:
        """That nothing can be unblocked, without the names of files."""
        if self.fault:
            yield STORE_FAILS

    @property
    def tokens(self) -> Tokens | None:
        """Tokens for the forms; ``None`` while their key is not known, since no page waits for a store."""
        if self._tokens is None and self.overrides is not None:
            self._tokens = self.overrides.known_tokens()
        return self._tokens

    # -- requests ------------------------------------------------------------------------------------------------

    def claims(self, request: http.Request) -> bool:
        """Whether it is a form of a block page: the origin must not see what a person typed into it."""
        if request.data.method != b"POST" or not is_form(request):
            return False
        tokens, seal = self.tokens, first(query_of(request), "seal")
        return bool(seal) if tokens is None else tokens.is_ours(seal)

    def offer(self, request: http.Request, judgement: Judgement) -> Unblock | None:
        """What the page of a stopped request offers."""
        offered = self._offer(request, judgement)
        if offered is not None and judgement.reference is not None and is_of_file(judgement):
            self._files[judgement.reference] = judgement._replace(request=judgement.request._replace(fields=()))
        return offered

    def _file_of(self, judgement: Judgement, reference: str | None) -> Judgement:
        """The judgement of the file whose page a form is of; without what stops it, if that is not known any more."""
        file = self._files.get(reference or "")
        if file is not None and (client_name(file), file.decision.url) == (
            client_name(judgement),
            judgement.decision.url,
        ):
            return file
        return judgement._replace(decision=judgement.decision._replace(action=Action.WARN, winner=None))

    def _offer(
        self, request: http.Request, judgement: Judgement, message: str | None = None, purpose: str = ""
    ) -> Unblock | None:
        """``message``: key of a text about the last try to unblock it, or of the form that has a purpose."""
        tokens = None if _is_framed(request) else self.tokens
        if tokens is None:
            return None
        try_message, forms = None if purpose else message, self._forms_of(judgement) if self._runtime.parts.form else []
        unblock = offer(tokens, judgement, try_message, has_forms=bool(forms))
        if unblock is None:
            return None
        ask_message = message if purpose == ASK else None
        address, has_file = _address(judgement), is_of_file(judgement)
        access = (
            None if has_file else access_offer(self._runtime, self.overrides, tokens, judgement, address, ask_message)
        )
        name, url = client_name(judgement), text_of(judgement.decision.url)
        more = [
            (form, tokens.make(name, url, form.purpose), message if form.purpose == purpose else None) for form in forms
        ]
        return replace(unblock, access=access, forms=tuple(more))

    def _forms_of(self, judgement: Judgement) -> list[PageForm]:
        """The forms that other extensions add to the page of a stopped request."""
        return [form for make in self._runtime.parts.form if (form := make(judgement)) is not None]

    def refused(self, flow: http.HTTPFlow, judgement: Judgement | None) -> None:
        """Remember that a request was answered in place of its origin.

        The form of a page that blocks nothing any longer, since the filter was turned off meanwhile, is led back.
        """
        if judgement is None and not refuse(flow, lambda request: led_to(target_of_page(request))):
            return
        if flow.request.data.method == b"POST" and is_form(flow.request):  # the first is quick
            self._stopped[flow] = judgement
            await_form(flow)

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Answer a page that asks what became of a request for access, and a tap at a notice of one."""
        data = flow.request.data
        if data.path.startswith(_TAPS):
            return self._taps.answer(flow)
        is_waiting = data.path.startswith(ANSWER_TARGET) and data.method == b"GET" and is_open(flow)
        return self._answer_waiting(flow) if is_waiting else None

    def _tap(self, token: str, acts: bool, texts: Texts) -> tuple[str, str]:
        """Answer a request as a token chooses, or say what it would do; waits for the disk."""
        if self.overrides is None:
            raise StoreError(default_path(), self._no_overrides or "it is not open")
        choice, request = self.overrides.tapped(token, acts=acts)
        shown = asked_for(request, privacy_in(self._runtime))
        who, button = printable(shown.user or shown.client or texts["somebody"]), choice_text(choice, texts)
        asks = texts["asks_for"].format(who=who, what=shown.host)
        return (texts["pair"].format(name=button, value=asks), "") if acts else (asks, button)

    async def _answer_waiting(self, flow: http.HTTPFlow) -> None:
        if await answer_waiting_page(self._runtime, self.overrides, self.tokens, flow):
            hide(flow)

    def refused_body(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """Handle a form, and replace the block page that answers it by the result; ``None`` for other requests."""
        if flow not in self._stopped:
            return None
        stopped, content = self._stopped.pop(flow), flow.request.raw_content or b""
        flow.request.raw_content = b""  # what a person typed is in no flow that somebody looks at or saves
        return None if stopped is None or len(content) > _LONGEST_FORM else self._take(flow, stopped, content)

    async def _take(self, flow: http.HTTPFlow, stopped: Judgement, content: bytes) -> None:
        try:
            await self._take_form(flow, stopped, content)
        except Exception:
            logger.exception("hushlist: a form could not be taken; the request stays blocked")

    async def _take_form(self, flow: http.HTTPFlow, stopped: Judgement, content: bytes) -> None:
        overrides, engine = self.overrides, self._runtime.engine
        if engine is None or overrides is None:
            return
        try:
            request = request_of(page_url(flow.request), PAGE)
        except UrlError:
            return
        judgement = await self._runtime.confirmed(self._runtime.judge(request, stopped.client))
        if judgement is None or _place(judgement) is None or _place(judgement) != _place(stopped):
            return
        form = parse_qs(content.decode("utf-8", "replace"))
        passes = judgement.decision.action not in STOPPING
        if passes:
            judgement = self._file_of(judgement, reference_of(flow.request))
        judgement = judgement.recorded(reference_of(flow.request))
        message: str | None = "expired"
        sent = next((extra for extra in self._forms_of(judgement) if extra.purpose in form), None)
        if passes and sent is None and _is_open(engine, judgement):
            flow.response = led_to(request.target)  # the form was sent twice
            return
        if _is_by_hand(flow.request):
            message = await self._try_in_turn(overrides, judgement, form, sent)
        else:
            logger.warning("hushlist: %s: a form is refused: a script has sent it", client_name(judgement))
        is_lost = passes and judgement.decision.winner is None
        if is_lost and message is not None and not _OWN_FIELDS.issuperset(form):
            return  # what somebody has written is not lost without a word: the page of a failure stays
        if message is None or is_lost:
            flow.response = led_to(request.target)
        else:
            purpose = sent.purpose if sent is not None else ASK if ASK in form else ""
            unblock = self._offer(flow.request, judgement, message, purpose)
            flow.response = stopped_response(self._runtime, flow.request, judgement, unblock)

    async def _try_in_turn(
        self, overrides: Overrides, stopped: Judgement, form: Mapping[str, list[str]], sent: PageForm | None
    ) -> str | None:
        """Run ``_try`` in a thread, one at a time; refuse the form if too many wait."""
        name = client_name(stopped)
        if self._forms.total() >= MOST_FORMS or self._forms[name] >= MOST_OF_CLIENT:
            return "failed"
        self._forms[name] += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._one_by_one, self._try, overrides, stopped, form, sent)
        finally:
            self._forms -= Counter((name,))

    def _try(
        self, overrides: Overrides, stopped: Judgement, form: Mapping[str, list[str]], sent: PageForm | None
    ) -> str | None:
        """Grant what a form asks for, or return the key of the text that says why not; waits for the disk.

        What was ``sent`` of another extension's form is taken by that.
        """
        decision, name = stopped.decision, client_name(stopped)
        try:
            assert self.tokens is not None
            purpose = sent.purpose if sent is not None else ASK if ASK in form else decision.action.value
            self.tokens.check(first(form, "token"), name, text_of(decision.url), purpose)
            if sent is not None:
                return sent.take(form)
            if ASK in form:
                file_access_request(self._runtime, overrides, stopped, targets_of(stopped), first(form, "reason"))
                return None
            if _goes_on(stopped):
                scope = "url" if is_of_file(stopped) or decision.winner is None else "host"
                target = targets_of(stopped).get(scope, "")
                overrides.grant(scope, target, _AFTER_WARNING, client=name, how=WARNING, by=name)
                return None
            unblocking = _unblocking_of(stopped)
            return "wrong" if unblocking is None else unblock_by_form(overrides, stopped, unblocking, form)
        except TokenError as error:
            logger.warning("hushlist: %s: %s", name, error)
            return "expired"
        except LockedError:
            return "locked"
        except CodeError:
            return "wrong"
        except AskedTooOftenError as error:
            logger.info("hushlist: no request by %s: %s", name, error)
            return "ask_often"
        except (StoreError, ValueError) as error:
            logger.warning("hushlist: nothing can be unblocked: %s", error)
            return "failed"


def _is_open(engine: Engine, file: Judgement) -> bool:
    """Whether a file passes of which the filter has warned."""
    is_known = file.decision.action is Action.WARN and file.decision.winner is not None
    return is_known and engine.past_warning(file.decision, file.client).action not in STOPPING


def overrides_of(runtime: Runtime) -> Overrides | None:
    """The store of a proxy's grants and blocks, if it can be used."""
    handler = runtime.part(UnblockHandler)
    return None if handler is None else handler.overrides


def _database_of(store: Overrides) -> PostgresAddress | None:
    """Where a store is; ``None`` if it is this machine's file."""
    return store.place if isinstance(store.place, PostgresAddress) else None


def _note_shown(overrides: Overrides | None, policy: Policy) -> None:
    """Note in a store what its commands may show; waits for it, and raises nothing: it is noted again soon."""
    if overrides is not None:
        with suppress(StoreError):
            overrides.note_shown(*shown_by(policy))
