"""What a request of the live page's interface says: from where it comes, its cookies, its tokens, and its values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from mitmproxy import http

from hushlist.core.policy.groups import Client, address_text
from hushlist.core.policy.proxy_settings import LOOPBACK
from hushlist.core.routes import WITH_BODY, Action, ActionError, Parameter, Whole
from hushlist.extensions.dashboard.admin_store import BEARER
from hushlist.proxy.bounds.body_looks import LONGEST_FORM

#: most octets of a body
LONGEST_BODY = LONGEST_FORM
#: the session's cookie over https, and on the machine itself
COOKIES = {True: "__Host-hushlist", False: "hushlist"}
#: the same for the browser's, which only says that somebody has signed in there
DEVICE_COOKIES = {True: "__Host-hushlist-device", False: "hushlist-device"}


class InputError(ActionError):
    """What a request says is not what its action takes."""


class RefusedError(ActionError):
    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        self.status, self.headers = status, headers
        super().__init__(why)


def place_of(client: Client) -> str:
    """The address by which tries are counted: the machine itself has millions, which are one."""
    return "127.0.0.1" if LOOPBACK.fits(client) else address_text(client.address)


def is_private(request: http.Request, client: Client) -> bool:
    """Whether nobody on the way can read it: it is encrypted, or does not leave the machine."""
    return request.scheme == "https" or LOOPBACK.fits(client)


def cookie_of(request: http.Request, names: Mapping[bool, str] = COOKIES) -> str:
    """A token, the session's; empty if there is none, or more than one: somebody else may have set the other."""
    cookies = request.cookies.get_all(names[request.scheme == "https"])
    return cookies[0] if len(cookies) == 1 and len(cookies[0]) < 200 else ""


def cookie_line(names: Mapping[bool, str], is_secure: bool, token: str, seconds: float) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{names[is_secure]}={token}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Strict{secure}"


def bearer_of(request: http.Request) -> str | None:
    """The token that a program has sent."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.startswith(BEARER) and len(token) < 200 else None


def second_token(cookie: str) -> str:
    """What a request that changes something has in its header: made of the cookie, which no script can read."""
    return hashlib.sha256(b"hushlist form:" + cookie.encode("utf-8", "replace")).hexdigest()


def values_in(action: Action, request: http.Request, query: str, named: Mapping[str, str]) -> dict[str, Any]:
    """What an action takes of path, query or body; ``InputError`` if a request says it wrongly."""
    in_path = [parameter for parameter in action.takes if parameter.name in named]
    in_headers = [parameter for parameter in action.takes if parameter.kind.header]
    others = [parameter for parameter in action.takes if parameter.name not in named and not parameter.kind.header]
    sent: Mapping[str, object] = {}
    if action.method == "GET":
        try:
            pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape", max_num_fields=20)
        except ValueError as error:
            raise InputError(str(error)) from error
        sent = whole_numbers(others, dict(pairs))
    elif action.method in WITH_BODY:
        sent = _body(request)
    headers = {
        parameter.name: request.headers[parameter.kind.header]
        for parameter in in_headers
        if parameter.kind.header in request.headers
    }
    in_head = values_of(in_headers, headers)
    return {**values_of(others, sent), **values_of(in_path, whole_numbers(in_path, named)), **in_head}


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


def values_of(takes: Iterable[Parameter], arguments: Mapping[str, object]) -> dict[str, Any]:
    """The values that an action takes, with those that are left out.

    Raises:
        InputError: a value is missing, unknown, or not as it has to be.
    """
    takes = tuple(takes)
    names = [parameter.name for parameter in takes]
    unknown = [name for name in arguments if name not in names]
    if unknown:
        raise InputError(f"{unknown[0][:80]!r} is unknown (known: {', '.join(names) or 'nothing'})")
    values = {}
    for name, kind, default in takes:
        if name not in arguments and default is None:
            raise InputError(f"{name!r} is missing: {kind.about}")
        value = arguments.get(name, default)
        if isinstance(kind, Whole) and isinstance(value, float) and value.is_integer():
            value = int(value)  # "1.0" is an integer, says JSON Schema
        if not kind.fits(value):
            raise InputError(f"{name!r} has to be {kind}")
        values[name] = value
    return values


def whole_numbers(takes: Iterable[Parameter], texts: Mapping[str, str]) -> dict[str, object]:
    """What a path or a query says, with whole numbers as such where an action takes them."""
    wanted = {parameter.name for parameter in takes if isinstance(parameter.kind, Whole)}
    is_whole = re.compile("[0-9]{1,16}").fullmatch
    return {name: int(text) if name in wanted and is_whole(text) else text for name, text in texts.items()}
