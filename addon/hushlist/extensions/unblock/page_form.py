"""What a person can do on a block page: unblock the site, go on after a warning, or ask for access and wait.

Asking works without a script. The script of a page that waits asks the proxy for the answer, and opens the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.unblock.access_requests import LONGEST_REASON, RequestState
from hushlist.proxy.page.elements import element
from hushlist.proxy.page.pages import PageForm, Verdict, duration

#: it has no "</", so that it ends where its element does
_SCRIPT = files(__package__).joinpath("waiting_page.js").read_text(encoding="utf-8")


#: what the page says of what those who answer see
SEEN = {
    LoggedClients.KEEP: "ask_seen",
    LoggedClients.PSEUDONYM: "ask_seen_pseudonym",
    LoggedClients.DROP: "ask_seen_nobody",
}


@dataclass(frozen=True, slots=True)
class AccessOffer:
    """What a page offers to somebody who asks; the form sends ``token``, ``ask`` and ``reason``."""

    token: str
    #: where a page that waits hears of the answer: a path on the page's own origin
    answer: str
    #: how those who answer see who asks
    seen: LoggedClients
    #: what became of the last request, if there is one to tell of
    state: RequestState | None = None
    #: what the person who declined it said
    word: str | None = None
    #: the last try's error: the key of a text
    message: str | None = None

    def alert(self, texts: Mapping[str, str]) -> str | None:
        """What to say first: what went wrong, or what became of the last request."""
        key = self.message or {
            RequestState.WAITING: "ask_waiting",
            RequestState.DECLINED: "ask_declined",
            RequestState.EXPIRED: "ask_expired",
        }.get(self.state or RequestState.GRANTED)
        return None if key is None else texts[key]


_MESSAGES = frozenset({"wrong", "locked", "expired", "failed"})


@dataclass(frozen=True, slots=True)
class Unblock:
    """What a page offers: to unblock the site, or to go on after a warning.

    The form sends ``token`` and, if offered, ``passphrase``, ``code``, ``scope`` and ``minutes``. It comes from a
    sandboxed page, so its ``Origin`` is ``null``: only the token proves that it is not forged.
    """

    #: the form's target: a path on the page's own origin
    action: str
    token: str
    passphrase: bool = False
    code: bool = False
    #: of "url", "host" and "category"; the first is the default
    scopes: tuple[str, ...] = ()
    #: durations; the first is the default
    minutes: tuple[int, ...] = ()
    #: the last try's error: "wrong", "locked" or "expired"; for any other, the page has a general message
    message: str | None = None
    #: whether a click alone does not go on past a warning
    needs_code: bool = False
    #: what it offers to somebody who asks for access
    access: AccessOffer | None = None
    #: forms of other extensions, each with its token, and the key of a text about the last try
    forms: tuple[tuple[PageForm, str, str | None], ...] = ()

    def alert(self, texts: Mapping[str, str]) -> str | None:
        """What went wrong with the last try, or what became of a request for access."""
        alert = _message(self, texts) or (None if self.access is None else self.access.alert(texts))
        return alert or next((texts[message] for _, _, message in self.forms if message is not None), None)

    def section(self, kind: Verdict, texts: Mapping[str, str]) -> Markup:
        """What a person can do: ask somebody, and unblock it themselves."""
        access = Markup() if self.access is None else access_section(self.access, self.action, texts)
        is_for_all = self.passphrase or self.code or (kind is Verdict.WARNED and not self.needs_code)
        more = (
            form.section(self.action, hidden_fields(token, form.purpose), message, texts)
            for form, token, message in self.forms
        )
        return access + (_form(self, kind, texts) if is_for_all else Markup()) + Markup().join(more)

    @property
    def script(self) -> str | None:
        """What a page runs that waits for an answer."""
        return _SCRIPT if self.access is not None and self.access.state is RequestState.WAITING else None


# -- to ask ------------------------------------------------------------------------------------------------------------


def access_section(offered: AccessOffer, action: str, texts: Mapping[str, str]) -> Markup:
    """The form, or what became of the request."""
    if offered.state is RequestState.WAITING:
        return _waiting(offered, texts)
    alert = offered.alert(texts)
    if offered.state is RequestState.DECLINED:
        word = [] if offered.word is None else [element("p", offered.word, class_="word", dir="auto")]
        return element("section", element("p", texts["ask_declined"], class_="alert"), *word, class_="ask")
    hidden = hidden_fields(offered.token, "ask")
    form = words_form("ask", "reason", "ask", SEEN[offered.seen], action, hidden, alert, texts)
    return element("section", form, class_="ask")


def words_form(
    about: str,
    name: str,
    send: str,
    seen: str,
    action: str,
    hidden: Markup,
    alert: str | None,
    texts: Mapping[str, str],
) -> Markup:
    """A form of a few words; ``send`` and ``seen`` are the keys of its texts."""
    long = str(LONGEST_REASON)
    words = element("input", type="text", id=name, name=name, dir="auto", maxlength=long, autocomplete="off")
    return element(
        "form",
        *([] if alert is None else [element("p", alert, class_="alert", role="alert")]),
        hidden,
        element("div", element("label", texts[f"{about}_{name}"], for_=name), words, class_="field"),
        element("p", texts[seen], class_="note", id=f"{about}-seen"),
        element("button", texts[send], type="submit", aria_describedby=f"{about}-seen"),
        method="post",
        action=action,
        autocomplete="off",
    )


def hidden_fields(token: str, purpose: str) -> Markup:
    """What proves that a form is no forgery, and which one it is."""
    fields = (("token", token), (purpose, "on"))
    return Markup().join(element("input", type="hidden", name=name, value=value) for name, value in fields)


def _waiting(offered: AccessOffer, texts: Mapping[str, str]) -> Markup:
    alert = element(
        "p",
        texts["ask_waiting"],
        class_="alert",
        id="asked",
        data_answer=offered.answer,
        data_granted=texts["ask_granted"],
        data_declined=texts["ask_declined"],
    )
    note = element("p", texts["ask_reload"], class_="word", id="asked-note", dir="auto", data_opens=texts["ask_opens"])
    script = element("script", Markup(_SCRIPT))  # noqa: S704 - it is ours
    return element("section", alert, note, class_="ask", role="status") + script


# -- to unblock it -----------------------------------------------------------------------------------------------------


def _message(unblock: Unblock, texts: Mapping[str, str]) -> str | None:
    if unblock.message is None:
        return None
    if unblock.message == "wrong" and unblock.code != unblock.passphrase:
        return texts["wrong_code" if unblock.code else "wrong_passphrase"]
    return texts[unblock.message if unblock.message in _MESSAGES else "failed"]


def _form(unblock: Unblock, kind: Verdict, texts: Mapping[str, str]) -> Markup:
    """The form: open on a warning; on a block page, a click opens it."""
    message = _message(unblock, texts)
    is_warning = kind is Verdict.WARNED
    form = element(
        "form",
        *([] if message is None else [element("p", message, class_="alert", role="alert", id="alert")]),
        element("input", type="hidden", name="token", value=unblock.token),
        *_secrets(unblock, texts),
        *_choices("scope", texts["scope"], [(scope, texts.get(f"scope_{scope}", scope)) for scope in unblock.scopes]),
        *_choices("minutes", texts["duration"], [(str(each), duration(each, texts)) for each in unblock.minutes]),
        element("p", texts["recorded"], class_="note", id="recorded"),
        element("button", texts["go_on" if is_warning else "submit"], type="submit", aria_describedby="recorded"),
        method="post",
        action=unblock.action,
        autocomplete="off",
    )
    if is_warning:
        return element("section", form, element("p", texts["go_back"], class_="note"))
    opened = message is not None
    return element("section", element("details", element("summary", texts["unblock"]), form, open=opened))


def _secrets(unblock: Unblock, texts: Mapping[str, str]) -> Iterator[Markup]:
    is_choice = unblock.passphrase and unblock.code
    if is_choice:
        yield element("p", texts["either"], class_="note", id="either")
    described = " ".join(("alert",) * (unblock.message is not None) + ("either",) * is_choice)
    for name, kind, offered in (("passphrase", "password", unblock.passphrase), ("code", "text", unblock.code)):
        if offered:
            field = element(
                "input",
                type=kind,
                id=name,
                name=name,
                dir="ltr",
                autocomplete="off",
                autocapitalize="none",
                spellcheck="false",
                required=not is_choice,
                aria_invalid="true" if unblock.message == "wrong" else False,
                aria_describedby=described or False,
            )
            yield element("div", element("label", texts[name], for_=name), field, class_="field")


def _choices(name: str, legend: str, choices: list[tuple[str, str]]) -> Iterator[Markup]:
    if not choices:
        return
    radios = (
        element(
            "label", element("input", type="radio", name=name, value=value, checked=number == 0), element("span", text)
        )
        for number, (value, text) in enumerate(choices)
    )
    yield element("fieldset", element("legend", legend), element("div", *radios, class_="choices"))
