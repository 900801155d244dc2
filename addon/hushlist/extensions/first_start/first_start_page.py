"""The first start in a browser: who may open it, its screens, and the policy in force at the end.

It is there while the proxy has no policy of the user's own. Each screen is a form, which has all answers so far; it
needs no script. When there is a policy, the part is over, and nothing leads back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from os.path import lexists
from pathlib import Path
from time import monotonic
from urllib.parse import parse_qs, parse_qsl
from weakref import WeakSet

from markupsafe import Markup
from mitmproxy import ctx, exceptions, http

from hushlist.core.errors import Lines, SourceError, logger_of, one_line
from hushlist.core.policy import household_policy
from hushlist.core.policy.groups import address_text
from hushlist.core.system.files import Fingerprint, fingerprint
from hushlist.extensions.dashboard.answers import answer, html, words
from hushlist.extensions.dashboard.dashboard_server import HOST, is_exact
from hushlist.extensions.dashboard.setup_page import qr_code
from hushlist.extensions.first_start.network_devices import own_address, own_zone, seen_devices
from hushlist.extensions.first_start.own_policy import is_missing
from hushlist.extensions.first_start.policy_writer import make_folder, write_policy
from hushlist.extensions.first_start.questionnaire import (
    LONGEST,
    SCREENS,
    Fault,
    Household,
    Kind,
    Question,
    Row,
    default_of,
    faults_of,
    first_start_texts,
    household_of,
    rows_of,
)
from hushlist.extensions.first_start.set_up_access import COOKIE, SetUpAccess, is_here
from hushlist.extensions.unblock.credentials import new_code
from hushlist.proxy.bounds.body_looks import LONGEST_FORM, await_form
from hushlist.proxy.flow_outcome import HIDDEN, hide, is_open, refuse
from hushlist.proxy.flow_request import SelfConnections, client_of_flow, is_at_own_address
from hushlist.proxy.languages import TEXTS, Texts, negotiate
from hushlist.proxy.page.elements import document, element
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

PATH, _STYLE_PATH = "/start", "/start.css"
#: that of the set-up page is there when this part is over, too
_STYLES = Markup('<link rel="stylesheet" href="/setup.css">'), Markup('<link rel="stylesheet" href="/start.css">')
#: rows for devices that were not seen
_BLANKS = 3
#: fields of a form; seconds until the policy is in use, which a long list may take longer
_MOST_FIELDS, _PATIENCE = 600, 20.0
_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


class FirstStart(Part):
    """Asks whoever is on the machine what the filter is to do, and takes the policy when it is there."""

    def __init__(self, runtime: Runtime, loops: SelfConnections) -> None:
        self._runtime, self._loops = runtime, loops
        self._access = SetUpAccess()
        self._texts = first_start_texts()
        self._css = files("hushlist.extensions.first_start").joinpath("first_start.css").read_bytes()
        self._waiting: WeakSet[http.HTTPFlow] = WeakSet()
        self._one_by_one = asyncio.Lock()
        self._is_announced = False
        #: a policy of the first start that could not be used, as it was then
        self._broken: Fingerprint = None

    async def look(self) -> None:
        """Say where the first start is; take a policy that ``hushlist init`` has written meanwhile."""
        if ctx.options.hushlist_policy:
            return
        path = household_policy()
        if not lexists(path):
            if not self._is_announced:
                self._is_announced = True
                logger.info("hushlist: %s", Lines("\n".join(self._announcement())))
        elif (seen := fingerprint(path)) != self._broken:
            self._use(path, seen)

    def _use(self, path: Path, seen: Fingerprint) -> str:
        """Have the proxy read the policy; why it cannot, if so."""
        try:
            ctx.options.update(hushlist_policy=str(path))
        except exceptions.OptionsError as error:
            self._broken = seen
            logger.error("hushlist: %s", Lines(error))  # noqa: TRY400 - the problems have file and line
            return str(error)
        return ""

    def _announcement(self) -> Iterator[str]:
        here, elsewhere = _addresses()
        yield f"no policy of your own is there yet: to set the filter up, open {here} on this machine"
        yield f"from another device, once: {elsewhere}?token={self._access.token}"

    # -- requests ------------------------------------------------------------------------------------------------

    def answer(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        path = flow.request.path.partition("?")[0]
        if path not in (PATH, _STYLE_PATH) or not is_open(flow):
            return None
        if not (is_at_own_address(flow) or is_exact(flow, HOST)):
            return None
        return self._answer(flow, path)

    async def _answer(self, flow: http.HTTPFlow, path: str) -> None:
        """Answer; a form is answered by ``take``, when its body is there.

        Raises:
            AddonHalt: always, by ``hide``.
        """
        flow.metadata[HIDDEN] = True
        request = flow.request
        if path == _STYLE_PATH and request.method == "GET":
            response = answer(self._css, "text/css; charset=utf-8")
        elif request.method not in ("GET", "POST"):
            response = words(HTTPStatus.METHOD_NOT_ALLOWED, "it is read, or its form is sent", Allow="GET, POST")
        elif (refused := self._refused(flow)) is not None:
            response = refused
        elif request.method == "POST":
            response = words(HTTPStatus.BAD_REQUEST, "its body has not arrived")
            self._waiting.add(flow)
            await_form(flow)
        else:
            response = self._screen(flow, SCREENS[0], {}, [])
        refuse(flow, lambda _: response)
        hide(flow)

    def _refused(self, flow: http.HTTPFlow) -> http.Response | None:
        """What is answered to somebody who may not; a token is exchanged for a cookie."""
        request, client = flow.request, client_of_flow(flow)
        if self._loops.has(flow.client_conn, flow.server_conn) or not is_missing():
            return self._note(request, "refused", HTTPStatus.FORBIDDEN)
        tokens = parse_qs(request.path.partition("?")[2]).get("token", [])
        if request.method == "GET" and tokens:
            session = self._access.redeem(tokens[0])
            if session is None:
                return self._note(request, "refused", HTTPStatus.FORBIDDEN)
            _, elsewhere = _addresses()
            message = "hushlist: the first start was opened from %s; if it has to be opened again, once: %s?token=%s"
            logger.info(message, client.address, elsewhere, self._access.token)
            cookie = f"{COOKIE}={session}; HttpOnly; SameSite=Lax; Path={PATH}"
            return words(HTTPStatus.SEE_OTHER, "it is open", Location=PATH, Set_Cookie=cookie)
        if not self._access.may(request, client) or _is_foreign(flow):
            return self._note(request, "refused", HTTPStatus.FORBIDDEN)
        return None

    def take(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        if flow not in self._waiting:
            return None
        self._waiting.discard(flow)
        return self._take(flow)

    async def _take(self, flow: http.HTTPFlow) -> None:
        try:
            flow.response = await self._form(flow)
        except Exception:
            logger.exception("hushlist: the first start failed")
            flow.response = words(HTTPStatus.INTERNAL_SERVER_ERROR, "it failed: see the messages of the proxy")
        hide(flow)

    async def _form(self, flow: http.HTTPFlow) -> http.Response:
        request, client = flow.request, client_of_flow(flow)
        answers = _answers(request)
        token, screen, to = (answers.pop(name, "") for name in ("token", "screen", "to"))
        if self._refused(flow) is not None or not self._access.is_form(request, client, token):
            return self._note(request, "refused", HTTPStatus.FORBIDDEN)
        if screen not in SCREENS:
            return words(HTTPStatus.BAD_REQUEST, "there is no such screen")
        at = SCREENS.index(screen)
        if to == "back":
            return self._screen(flow, SCREENS[max(0, at - 1)], answers, [])
        for filled in SCREENS[: at + 1]:
            rows = self._rows(filled, answers)
            faults = faults_of(filled, answers, rows, has_passphrase=self._is_private(flow))
            if faults:
                return self._screen(flow, filled, answers, faults)
        if screen != SCREENS[-1]:
            return self._screen(flow, SCREENS[at + 1], answers, [])
        async with self._one_by_one:
            return await self._finish(flow, answers)

    async def _finish(self, flow: http.HTTPFlow, answers: dict[str, str]) -> http.Response:
        """Write the policy, and wait until it is in force."""
        if not is_missing():
            return self._note(flow.request, "refused", HTTPStatus.FORBIDDEN)
        if not self._is_private(flow):
            answers["passphrase"] = new_code()
        household, path = household_of(answers, own_zone()), household_policy()
        try:
            await asyncio.to_thread(_write, household, path)
            problem = self._use(path, fingerprint(path)) or await self._until_used(path)
        except SourceError as error:
            problem = str(error)
        if not problem and not self._is_private(flow):
            message = "hushlist: the passphrase of %s for the filter's page is %s: keep it, and change it in %s"
            logger.warning(message, household.admin, answers["passphrase"], path)
        return self._done(flow.request, household, path, problem)

    async def _until_used(self, path: Path) -> str:
        """Wait until the policy is in use; why it is not, if so."""
        end, runtime = monotonic() + _PATIENCE, self._runtime
        while monotonic() < end:
            if runtime.engine is not None and runtime.engine.policy.source == str(path):
                return ""
            if runtime.reading is not None and runtime.reading.problem is not None:
                return runtime.reading.problem
            await asyncio.sleep(0.1)
        return "it is still being read: see the messages of the proxy"

    def _is_private(self, flow: http.HTTPFlow) -> bool:
        """Whether nobody else can read what is typed; otherwise no passphrase is asked for."""
        return flow.request.scheme == "https" or is_here(flow.request, client_of_flow(flow))

    # -- the pages -----------------------------------------------------------------------------------------------

    def _rows(self, screen: str, answers: Mapping[str, str]) -> list[Row]:
        statistics = self._runtime.statistics
        statistics.count()
        clients = [address_text(asker.address) for asker, _ in statistics.clients.top(64)]
        seen = seen_devices(clients) if screen == "people" else []
        return rows_of(screen, answers, seen, own_zone(), blanks=_BLANKS)

    def _screen(
        self, flow: http.HTTPFlow, screen: str, answers: Mapping[str, str], faults: list[Fault]
    ) -> http.Response:
        request, client = flow.request, client_of_flow(flow)
        texts = self._texts_for(request)
        rows, at = self._rows(screen, answers), SCREENS.index(screen)
        has_passphrase = self._is_private(flow)
        if not has_passphrase:
            rows = [
                Row(tuple(question for question in row.questions if question.kind is not Kind.SECRET), *row[1:])
                for row in rows
            ]
        here = {question.name for row in rows for question in row.questions}
        kept = {name: value for name, value in answers.items() if name not in here and name not in _SECRETS}
        kept |= {"token": self._access.form_token(request, client), "screen": screen}
        lead = [element("p", texts[f"{screen}_lead"])] if f"{screen}_lead" in texts else []
        lead += [] if has_passphrase or screen != "admin" else [element("p", texts["made"])]
        wrong = {fault.field: texts[fault.text] for fault in faults}
        first = next((name for name in wrong if name in here), rows[0].questions[0].name)
        last = "finish" if screen == SCREENS[-1] else "next"
        buttons = [element("button", texts[last], name="to", value="next")]
        buttons += [element("button", texts["back"], name="to", value="back", formnovalidate=True)] if at else []
        form = element(
            "form",
            *(element("input", type="hidden", name=name, value=value) for name, value in kept.items()),
            *(_row(row, answers, texts, wrong, first) for row in rows),
            element("div", *buttons, class_="buttons"),
            method="post",
            action=PATH,
            autocomplete="off",
        )
        step = element("p", texts["step"].format(number=at + 1, of=len(SCREENS)), class_="soft")
        return self._page(request, step, element("h1", texts[screen]), *lead, form)

    def _done(self, request: http.Request, household: Household, path: Path, problem: str) -> http.Response:
        texts, (_, elsewhere) = self._texts_for(request), _addresses()
        if problem:
            failure = element("p", texts["failed"], role="alert", class_="bad"), element("pre", problem)
            return self._page(request, element("h1", texts["title"]), *failure)
        setup = f"{elsewhere.removesuffix(PATH)}/setup"
        devices = [
            element("li", element("b", person.name), " ", element("span", ", ".join(person.addresses), dir="ltr"))
            for person in household.people
        ]
        link = element("p", element("a", setup, href=setup, dir="ltr"))
        page = element("a", f"https://{HOST}/", href=f"https://{HOST}/", dir="ltr")
        return self._page(
            request,
            element("h1", texts["done"]),
            element("p", texts["done_lists"]),
            element(
                "section",
                element("h2", texts["done_devices"]),
                link,
                qr_code(setup, texts["done_devices"]),
                *([element("ul", *devices)] if devices else []),
            ),
            element("section", element("h2", texts["done_page"]), element("p", page)),
            element("section", element("h2", texts["done_files"]), element("p", element("code", str(path), dir="ltr"))),
        )

    def _note(self, request: http.Request, text: str, status: int) -> http.Response:
        texts = self._texts_for(request)
        return self._page(request, element("h1", texts["title"]), element("p", texts[text]), status=status)

    def _texts_for(self, request: http.Request) -> Texts:
        return self._texts[negotiate(request.headers.get("accept-language", ""))]

    def _page(self, request: http.Request, *content: Markup, status: int = HTTPStatus.OK) -> http.Response:
        styles = _STYLES[: 1 if ctx.options.hushlist_policy else 2]
        language = negotiate(request.headers.get("accept-language", ""))
        title = self._texts[language]["title"]
        body = element("body", element("main", *content))
        page = document(title, body, language, TEXTS[language]["dir"], *styles)
        # with no-referrer, a browser would not say from which site its form is
        more = {"Content_Security_Policy": _POLICY, "Referrer_Policy": "same-origin"}
        return html(page.encode("utf-8", "replace"), language, status, **more)


_SECRETS = ("passphrase", "again")


def _write(household: Household, path: Path) -> None:
    make_folder(path)
    write_policy(household, path)


def _answers(request: http.Request) -> dict[str, str]:
    """The fields of a form, the last of a name; each in one line of limited length."""
    content = request.raw_content or b""
    if len(content) > LONGEST_FORM:
        return {}
    with suppress(ValueError):  # too many fields
        pairs = parse_qsl(content.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        return {name: value[:LONGEST] if name in _SECRETS else one_line(value, LONGEST) for name, value in pairs}
    return {}


def _is_foreign(flow: http.HTTPFlow) -> bool:
    """Whether a browser says that another site sent the form.

    Spec: Fetch Metadata Request Headers, 2.4; Fetch, 3.2 (Origin)
    """
    request, headers = flow.request, flow.request.headers
    host = f"[{request.host}]" if ":" in request.host else request.host
    site = f"{request.scheme}://{HOST if request.host == HOST else f'{host}:{request.port}'}"
    is_ours = headers.get("origin", site) == site
    return request.method == "POST" and not (
        is_ours and headers.get("sec-fetch-site", "same-origin") in ("none", "same-origin")
    )


def _addresses() -> tuple[str, str]:
    """The address of the page on this machine, and on other devices."""
    server = ctx.master.addons.get("proxyserver")
    for instance in () if server is None else server.servers:
        if instance.mode.type_name in ("regular", "upstream") and instance.listen_addrs:
            host, port, *_ = instance.listen_addrs[0]
            elsewhere = own_address() if ip_address(host).is_unspecified else host
            name = f"[{elsewhere}]" if ":" in elsewhere else elsewhere
            return f"http://127.0.0.1:{port}{PATH}", f"http://{name}:{port}{PATH}"
    return f"http://{HOST}{PATH}", f"http://{HOST}{PATH}"


def _row(row: Row, answers: Mapping[str, str], texts: Texts, wrong: Mapping[str, str], first: str) -> Markup:
    titles = [row.title, texts[row.title_key] if row.title_key else ""]
    title = ": ".join(filter(None, titles))
    if len(row.questions) == 1:  # the title is its label
        (question,) = row.questions
        return _field(question, title or texts[question.text], answers, texts, wrong.get(question.name), first)
    fields = (
        _field(question, texts[question.text], answers, texts, wrong.get(question.name), first)
        for question in row.questions
    )
    content = element("div", *fields, class_="row")
    return element("fieldset", element("legend", title), content) if title else content


def _field(
    question: Question, label: str, answers: Mapping[str, str], texts: Texts, wrong: str | None, first: str
) -> Markup:
    name, value = question.name, default_of(question, answers)
    fault = [] if wrong is None else [element("p", wrong, class_="bad", id=f"fault-{name}")]
    common: dict[str, str | bool] = {"name": name, "autofocus": name == first}
    if wrong is not None:
        common |= {"aria_invalid": "true", "aria_describedby": f"fault-{name}"}
    if question.kind is Kind.FLAG:
        off = element("input", type="hidden", name=name, value="off")
        box = element("input", type="checkbox", value="on", checked=value == "on", **common)
        return element("label", off, box, " ", label, class_="flag")
    if question.kind is Kind.CHOICE and question.name == question.text:
        return element("fieldset", *_radios(question, value, texts, common), *fault, class_="cards", aria_label=label)
    if question.kind is Kind.CHOICE:
        entered = element("select", *_options(question, value, texts), **common)
    else:
        kind = {Kind.TIME: "time", Kind.SECRET: "password"}.get(question.kind, "text")
        shown = "" if question.kind is Kind.SECRET else value
        ways = {"autocomplete": "new-password" if question.kind is Kind.SECRET else "off", "maxlength": str(LONGEST)}
        if question.kind is Kind.TIME:
            ways.pop("maxlength")
        entered = element("input", type=kind, value=shown, dir="auto", **ways, **common)
    return element("label", element("span", label), entered, *fault)


def _options(question: Question, value: str, texts: Texts) -> Iterable[Markup]:
    for option in question.options:
        yield element("option", texts[f"{question.text}_{option}"], value=option, selected=option == value)


def _radios(question: Question, value: str, texts: Texts, common: Mapping[str, str | bool]) -> Iterable[Markup]:
    for option in question.options:
        ways = {**common, "autofocus": option == value and common["autofocus"]}
        box = element("input", type="radio", value=option, checked=option == value, **ways)
        yield element("label", box, " ", texts[f"{question.text}_{option}"])
