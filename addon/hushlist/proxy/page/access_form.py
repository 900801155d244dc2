"""The part of a block page where a person asks for access, waits for the answer, and reads it.

It works without a script. The script of a page that waits asks the proxy for the answer, and opens the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from hushlist.core.policy.proxy_settings import LoggedClients
from hushlist.extensions.unblock.access_requests import LONGEST_REASON, RequestState
from hushlist.proxy.page.elements import element

#: it has no "</", so that it ends where its element does
_SCRIPT = files("hushlist.proxy.page").joinpath("waiting_page.js").read_text(encoding="utf-8")


#: what the page says of what those who answer see
_SEEN = {
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

    def told(self, texts: Mapping[str, str]) -> str | None:
        """What to say first: what went wrong, or what became of the last request."""
        key = self.message or {
            RequestState.WAITING: "ask_waiting",
            RequestState.DECLINED: "ask_declined",
            RequestState.EXPIRED: "ask_expired",
        }.get(self.state or RequestState.GRANTED)
        return None if key is None else texts[key]


def script_of(offered: AccessOffer | None) -> str | None:
    """The script of a page, if it waits."""
    return _SCRIPT if offered is not None and offered.state is RequestState.WAITING else None


def access_section(offered: AccessOffer, action: str, texts: Mapping[str, str]) -> Markup:
    """The form, or what became of the request."""
    if offered.state is RequestState.WAITING:
        return _waiting(offered, texts)
    told = offered.told(texts)
    if offered.state is RequestState.DECLINED:
        word = [] if offered.word is None else [element("p", offered.word, class_="word", dir="auto")]
        return element("section", element("p", texts["ask_declined"], class_="alert"), *word, class_="ask")
    form = element(
        "form",
        *([] if told is None else [element("p", told, class_="alert", role="alert")]),
        element("input", type="hidden", name="token", value=offered.token),
        element("input", type="hidden", name="ask", value="on"),
        element("div", element("label", texts["ask_reason"], for_="reason"), _reason(), class_="field"),
        element("p", texts[_SEEN[offered.seen]], class_="note", id="ask-seen"),
        element("button", texts["ask"], type="submit", aria_describedby="ask-seen"),
        method="post",
        action=action,
        autocomplete="off",
    )
    return element("section", form, class_="ask")


def _reason() -> Markup:
    return element(
        "input", type="text", id="reason", name="reason", dir="auto", maxlength=str(LONGEST_REASON), autocomplete="off"
    )


def _waiting(offered: AccessOffer, texts: Mapping[str, str]) -> Markup:
    told = element(
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
    return element("section", told, note, class_="ask", role="status") + script
