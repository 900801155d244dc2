"""What the form of a block page says: which page it is on, and what it unblocks."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from mitmproxy import http

from hushlist.core.decide.decision import Judgement
from hushlist.core.errors import UrlError
from hushlist.core.url.request import LONGEST_TARGET, request_of
from hushlist.extensions.journal.log_identifiers import parse_reference
from hushlist.extensions.unblock import SITE
from hushlist.extensions.unblock.credentials import verify_passphrase
from hushlist.extensions.unblock.grants import is_target
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.extensions.unblock.unblock_keys import UnblockSettings

PATH = "/.well-known/hushlist/unblock"
_PATH = PATH.encode()
#: most octets of the form's path, which contains an escaped URL
_LONGEST_ADDRESS = 4 * LONGEST_TARGET


def is_of_file(judgement: Judgement) -> bool:
    """Whether it is a file that is stopped, on a site that passes; ``False`` if nobody has kept what stops it."""
    winner = judgement.decision.winner
    return winner is not None and winner.file is not None


def unblock_by_form(
    overrides: Overrides, stopped: Judgement, unblocking: UnblockSettings, form: Mapping[str, list[str]]
) -> str | None:
    """Unblock what a form asks for, by its code or passphrase; else what a page says of it."""
    wanted, name = targets_of(stopped), client_name(stopped)
    code, passphrase, stored = first(form, "code"), first(form, "passphrase"), unblocking.passphrase
    if code and unblocking.codes:
        overrides.redeem(code, name, wanted, (*stopped.client.names, f"group:{stopped.decision.group}"))
        return None
    scope, minutes = first(form, "scope"), first(form, "minutes")
    if scope not in unblocking.scopes or scope not in wanted or minutes not in map(str, unblocking.minutes):
        return "wrong"
    if stored is None or not overrides.attempt(
        name, "passphrase", lambda: verify_passphrase(passphrase, stored), wanted
    ):
        return "wrong"
    overrides.grant(scope, wanted[scope], 60.0 * int(minutes), client=name, how="passphrase", by=name)
    return None


def targets_of(stopped: Judgement) -> dict[str, str]:
    """The targets that a grant for a request can have, by scope."""
    winner = stopped.decision.winner
    if is_of_file(stopped):
        return {"url": url} if is_target(url := text_of(stopped.decision.url)) else {}
    category = None if winner is None else winner.rule.terms.category
    host = text_of(stopped.host or b"")
    wanted = {"url": text_of(stopped.decision.url), "host": host, SITE: host, "category": category or ""}
    return {scope: target for scope, target in wanted.items() if is_target(target)}


def page_url(form: http.Request) -> bytes:
    """The URL of the page that a form is on."""
    return first(query_of(form), "url").encode("utf-8", "surrogateescape")


def target_of_page(form: http.Request) -> bytes:
    """Where on its origin that page is."""
    try:
        return request_of(page_url(form)).target
    except UrlError:
        return b"/"


def is_form(request: http.Request) -> bool:
    """Whether a request sends the form of a block page."""
    target = request.data.path
    return request.data.method == b"POST" and len(target) <= _LONGEST_ADDRESS and target.partition(b"?")[0] == _PATH


def query_of(request: http.Request) -> Mapping[str, list[str]]:
    """What the address of a form says."""
    return parse_qs(request.path.partition("?")[2], errors="surrogateescape")


def reference_of(form: http.Request) -> str | None:
    """The reference number of the page that a form is of, in the log."""
    return parse_reference(first(query_of(form), "reference"))


def client_name(judgement: Judgement) -> str:
    """The name of the client, which a grant is for."""
    return judgement.client.names[-1]


def first(values: Mapping[str, list[str]], key: str) -> str:
    """The first value of a field; empty where it has none."""
    return values.get(key, [""])[0]


def text_of(octets: bytes) -> str:
    """A canonical URL or host as text."""
    return octets.decode("ascii", "replace")
