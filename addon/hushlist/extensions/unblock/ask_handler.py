"""Asking for access from a block page: what the page offers, how its form is taken, and how it hears of the answer.

The page asks for the answer at a path of the blocked origin, which never sees that. A token in the path proves that it
is for this client and URL. The answer comes from memory and at once: no open page keeps a connection waiting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from urllib.parse import parse_qs, urlencode

from mitmproxy import http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import UrlError, logger_of, printable
from hushlist.core.extension import Button, Notice
from hushlist.core.match.rule import Action
from hushlist.core.policy.group_table import DeviceNames, device_names
from hushlist.core.policy.groups import address_text
from hushlist.core.policy.policy_file import Policy
from hushlist.core.policy.reach import Reach
from hushlist.core.url.request import LONGEST_TARGET, StatedContext, request_of
from hushlist.extensions.journal.journal import privacy_in
from hushlist.extensions.journal.log_keys import LoggedClients
from hushlist.extensions.journal.log_record import Privacy
from hushlist.extensions.journal.masked_clients import asker_name, clients_shown, device_names_shown
from hushlist.extensions.unblock.access_requests import NAMED, AccessRequest
from hushlist.extensions.unblock.actions import asked_for
from hushlist.extensions.unblock.credentials import Tokens
from hushlist.extensions.unblock.overrides import DECLINE, Overrides
from hushlist.extensions.unblock.page_form import AccessOffer
from hushlist.proxy.flow_outcome import HIDDEN, refuse
from hushlist.proxy.flow_request import client_of_flow
from hushlist.proxy.languages import DEFAULT_LANGUAGE, Texts, live_texts
from hushlist.proxy.page.pages import HEADERS, duration
from hushlist.proxy.page.template import security_policy
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)

#: the path of a tap at a notice, which ends with its token
ANSWER = "/answer/"
ANSWER_PATH = "/.well-known/hushlist/answer"
#: how the target of a page begins that asks what became of its request
ANSWER_TARGET = f"{ANSWER_PATH}?".encode()
#: what a block page was asked for as, which its own forms and questions do not tell
PAGE = StatedContext(kind="document", method=b"GET")
#: most octets of the path, which contains an escaped URL
_LONGEST_ADDRESS = 4 * LONGEST_TARGET
#: the field that tells this form from that of a passphrase or code; also what its tokens are for
ASK = "ask"
_ANSWER = "answer"
#: what a page hears when the site passes, and when there is nothing to tell
_OPEN, _NOTHING = "open", "none"
#: Any origin may read it: that of a page in a sandbox has no name. Only who has the token gets it.
_HEADERS = {
    **HEADERS,
    "Content-Type": "application/json",
    "Content-Security-Policy": security_policy(),
    "Access-Control-Allow-Origin": "*",
}


def access_offer(
    runtime: Runtime,
    overrides: Overrides | None,
    tokens: Tokens,
    judgement: Judgement,
    address: bytes,
    message: str | None,
) -> AccessOffer | None:
    """What the page of a stopped request offers to somebody who asks; ``address`` is the URL to return to."""
    unblocking, decision = judgement.settings.of("unblock"), judgement.decision
    if unblocking is None or not unblocking.ask or decision.action is Action.WARN:
        return None
    name, url = judgement.client.names[-1], address.decode("ascii", "replace")
    token = tokens.make(name, decision.url.decode("ascii", "replace"), ASK)
    query = urlencode({"url": url, "token": tokens.make(name, url, _ANSWER)})
    request = _last_request(overrides, judgement)
    state, word = (None, None) if request is None else (request.state, request.word)
    seen = LoggedClients.KEEP if unblocking.names_asker else clients_shown(runtime.engine)
    return AccessOffer(token, f"{ANSWER_PATH}?{query}", seen, state, word, message)


def _last_request(overrides: Overrides | None, judgement: Judgement) -> AccessRequest | None:
    host = (judgement.host or b"").decode("ascii", "replace")
    return None if overrides is None else overrides.last_request(judgement.client.names[-1], host)


def file_access_request(
    runtime: Runtime, overrides: Overrides, stopped: Judgement, targets: Mapping[str, str], reason: str
) -> None:
    """Store a request for access, and tell those who may answer; waits for the disk.

    Raises:
        ValueError: no grant can have such a host or URL.
        AskedTooOftenError: the client, or all clients, have asked too often.
        StoreError: it cannot be stored.
    """
    client = stopped.client
    if stopped.settings.of("unblock") is None or not stopped.settings.of("unblock").ask:
        raise ValueError("nobody can ask for it")
    wanted = AccessRequest(
        0,
        client.names[-1],
        address_text(client.address),
        stopped.decision.group,
        targets.get("host", ""),
        targets.get("url", ""),
        targets.get("category"),
        reason,
        asked=0.0,
        until=0.0,
        seen=NAMED if stopped.settings.of("unblock").names_asker else clients_shown(runtime.engine).value,
    )
    filed = overrides.ask(wanted)
    if filed.times == 1:
        policy, privacy = None if runtime.engine is None else runtime.engine.policy, privacy_in(runtime)
        language = DEFAULT_LANGUAGE if policy is None else policy.of("language")
        notice = notice_of(filed, privacy, language, device_names_shown(policy, privacy))
        if policy is not None and is_of_group_alone(policy, filed):
            notice = notice._replace(group=filed.group)
        base = None if policy is None else policy.of("own-address")
        if base is not None:
            texts = live_texts()[language]

            def buttons(recipient: str) -> list[Button]:
                taps = overrides.taps_of(filed.id, recipient)
                return [Button(choice_text(choice, texts), f"{base}{ANSWER}{token}") for choice, token in taps.items()]

            notice = notice._replace(buttons=buttons)
        runtime.notify(notice)


def is_of_group_alone(policy: Policy, request: AccessRequest) -> bool:
    """Whether a grant for whoever has made a request opens something for clients of their group alone.

    Who shares an address may be in another group: those who answer for a group must not open it for them.
    """
    groups = () if request.group is None else (request.group,)
    return Reach(policy.all_groups, groups, device_names(policy)).has(request.client)


def choice_text(choice: str, texts: Texts) -> str:
    """What one tap answers, for people."""
    if choice == DECLINE:
        return texts["decline"]
    return texts["pair"].format(name=texts["allow"], value=duration(int(choice), texts))


async def answer_waiting_page(
    runtime: Runtime, overrides: Overrides | None, tokens: Tokens | None, flow: http.HTTPFlow
) -> bool:
    """Answer a page that asks what became of its request; whether the flow was that of such a page.

    The flow is then hidden from later addons, since a page asks again and again.
    """
    try:
        is_long = len(flow.request.data.path) > _LONGEST_ADDRESS
        plain = None if is_long or tokens is None else await _answer(runtime, overrides, tokens, flow)
    except Exception:
        logger.exception("hushlist: a page that waits got no answer")
        return False
    if plain is None:
        return False
    flow.metadata[HIDDEN] = True
    refuse(flow, lambda _: http.Response.make(HTTPStatus.OK, json.dumps(plain).encode(), _HEADERS))
    return True


async def _answer(
    runtime: Runtime, overrides: Overrides | None, tokens: Tokens, flow: http.HTTPFlow
) -> dict[str, str] | None:
    query = parse_qs(flow.request.path.partition("?")[2])
    url, token = (query.get(key, [""])[0] for key in ("url", "token"))
    client = client_of_flow(flow)
    if not tokens.is_for(token, client.names[-1], url, _ANSWER):
        return None
    try:
        judgement = await runtime.confirmed(runtime.judge(request_of(url.encode("ascii", "replace"), PAGE), client))
    except UrlError:
        return None
    if judgement is None or not judgement.stops:
        return {"state": _OPEN, "word": ""}
    request = _last_request(overrides, judgement)
    return {"state": _NOTHING, "word": ""} if request is None else {"state": request.state, "word": request.word or ""}


def notice_of(request: AccessRequest, privacy: Privacy, language: str, device_of: DeviceNames | None = None) -> Notice:
    shown, texts = asked_for(request, privacy), live_texts()[language]
    asker = printable(asker_name(shown.client, shown.user, device_of) or texts["somebody"])
    asks = texts["asks_for"]
    lines = [
        asks.format(who=asker, what=shown.url),
        *([f"{texts['reason']}: {request.reason}"] if request.reason else []),
        *([f"{texts['category']}: {request.category}"] if request.category else []),
        f"{texts['to_answer']}: hushlist override approve {request.id}; hushlist override decline {request.id}",
    ]
    title = asks.format(who=asker, what=request.host)
    return Notice(title, "\n".join(lines), {"request": asdict(shown)}, request.client)
