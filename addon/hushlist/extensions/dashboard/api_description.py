"""The interface of the live page, described: what each call takes and gives, as OpenAPI and for checking alike.

Spec: OpenAPI Specification 3.1.1; JSON Schema, draft 2020-12
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hushlist import __version__
from hushlist.core.errors import HushlistError
from hushlist.extensions.dashboard.admin_keys import Role
from hushlist.extensions.quotas.use_minutes import LONGEST_EXTENSION
from hushlist.extensions.unblock import SCOPES

BASE = "/api/v1"
Schema = dict[str, Any]


class InputError(HushlistError):
    """What a call was given is not what it takes."""


class ApiCall(NamedTuple):
    method: str
    path: str
    #: who may; ``None``: whoever may see the page
    role: Role | None
    summary: str
    does: str
    #: what it gives: the name of a schema
    gives: str
    #: what it takes: in the path, in the query of a GET, in the body of the others
    takes: Mapping[str, Schema] = {}

    @property
    def named(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(re.findall(r"{(\w+)}", self.path))


def _text(description: str, most: int = 300, **more: object) -> Schema:
    return {"type": "string", "maxLength": most, "description": description, **more}


def _whole(description: str, most: int, **more: object) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description, **more}


_NUMBER = _whole("its number", (1 << 53) - 1)
_MINUTES = _whole("for how many minutes", 366 * 24 * 60)
_LASTING = {**_MINUTES, "minimum": 0, "description": "for how many minutes; 0: for good, which is for the role manage"}
_REASON = _text("why", 200, default="")
_CLIENT = _text("for whom: an address, user:NAME, group:NAME, a pseudonym of the log, or everybody")
_SCOPE = {"type": "string", "enum": list(SCOPES), "description": "what the target is"}
_ACTION = {"type": "string", "enum": ["allow", "block"], "description": "what to do"}
_RULE_SCOPE = {"type": "string", "enum": ["host", "url"], "description": "a host with all below it, or a page"}
_TARGET = _text("a host, a URL, or a category's hrn: name", 8192, minLength=1)
_URL = _text("the list's url", 8192, minLength=1)

CALLS = (
    ApiCall("GET", "/session", None, "Who is signed in", "session", "Session"),
    ApiCall(
        *("POST", "/session", None, "Sign in", "sign_in", "Session"),
        {"name": _text("the person", minLength=1), "passphrase": _text("their passphrase", 1024, minLength=1)},
    ),
    ApiCall("DELETE", "/session", Role.VIEW, "Sign out", "sign_out", "Session"),
    ApiCall("GET", "/sessions", Role.MANAGE, "Who else is signed in", "sessions", "Sessions"),
    ApiCall("DELETE", "/sessions/{number}", Role.MANAGE, "End a session", "end_session", "Ended", {"number": _NUMBER}),
    ApiCall("GET", "/grants", Role.VIEW, "What is unblocked now", "grants", "Grants"),
    ApiCall(
        *("POST", "/grants", Role.APPROVE, "Allow something for a while, or for good", "grant", "GrantedOrRule"),
        {"scope": _SCOPE, "target": _TARGET, "minutes": _LASTING, "client": _CLIENT, "reason": _REASON},
    ),
    ApiCall("DELETE", "/grants/{number}", Role.APPROVE, "End a grant", "revoke", "Granted", {"number": _NUMBER}),
    ApiCall("GET", "/blocks", Role.VIEW, "What is blocked beside the rules", "blocks", "Blocks"),
    ApiCall(
        *("POST", "/blocks", Role.MANAGE, "Block something for a while, or for good", "block", "BlockedOrRule"),
        {
            "scope": _SCOPE,
            "target": _TARGET,
            "minutes": _LASTING,
            "client": _CLIENT,
            "reason": {**_REASON, "description": "why; a block page shows it"},
        },
    ),
    ApiCall("DELETE", "/blocks/{number}", Role.MANAGE, "End a block", "end_block", "Blocked", {"number": _NUMBER}),
    ApiCall(
        *("POST", "/extensions", Role.APPROVE, "Give more minutes of a quota in this period", "extend", "Extended"),
        {
            "category": _text("the hrn: name of the quota's category, or of one above it", 8192, minLength=1),
            "minutes": _whole("how many minutes more", LONGEST_EXTENSION),
            "client": _CLIENT,
        },
    ),
    ApiCall(
        *("POST", "/pauses", Role.MANAGE, "Let pass what rules stop for a group, for a while", "pause", "Granted"),
        {"group": _text("the group's name", minLength=1), "minutes": _whole("for how many minutes", 24 * 60)},
    ),
    ApiCall("GET", "/requests", Role.VIEW, "What people ask for, who wait for an answer", "requests", "Requests"),
    ApiCall(
        *("POST", "/requests/{number}/approve", Role.APPROVE, "Grant what somebody asks for", "approve", "Granted"),
        {"number": _NUMBER, "scope": {**_SCOPE, "default": "host"}, "minutes": _MINUTES},
    ),
    ApiCall(
        *("POST", "/requests/{number}/decline", Role.APPROVE, "Decline what somebody asks for", "decline", "Declined"),
        {"number": _NUMBER, "word": _text("for whom asks, as their page shows it", default="")},
    ),
    ApiCall("GET", "/codes", Role.APPROVE, "The codes that can be used", "codes", "Codes"),
    ApiCall(
        *("POST", "/codes", Role.APPROVE, "Make a single-use code, which is shown this once", "make_code", "MadeCode"),
        {
            "scope": _SCOPE,
            "target": _text("what it unblocks; nothing: what its user finds blocked", 8192, default=""),
            "minutes": _MINUTES,
            "client": _text("whose it is: an address, user:NAME, or nothing for whoever uses it first", default=""),
            "hours": _whole("for how many hours it can be used", 366 * 24, default=24),
        },
    ),
    ApiCall(
        *("DELETE", "/codes/{identity}", Role.APPROVE, "Make a code worthless", "withdraw_code", "WithdrawnCode"),
        {"identity": _text("its id", 64, pattern="^[0-9a-f]{64}$")},
    ),
    ApiCall("GET", "/rules", Role.VIEW, "The administrator's own rules", "rules", "Rules"),
    ApiCall(
        *("POST", "/rules", Role.MANAGE, "Allow or block something for everybody", "add_rule", "AddedRule"),
        {
            "action": _ACTION,
            "scope": _RULE_SCOPE,
            "target": _TARGET,
            "days": _whole("to the end of which day of UTC, 1 being today; 0: for good", 366, minimum=0, default=0),
            "reason": _text("why; a block page shows it", 200, default=""),
        },
    ),
    ApiCall(
        *("DELETE", "/rules/{identity}", Role.MANAGE, "Remove one of the own rules", "remove_rule", "RemovedRule"),
        {"identity": _text("its id, which changes with its text", 64, pattern="^[0-9a-f]{64}$")},
    ),
    ApiCall(
        *("GET", "/preview", Role.VIEW, "What it would have changed in the last week", "preview", "Preview"),
        {
            "action": {**_ACTION, "default": "block"},
            "scope": _SCOPE,
            "target": _TARGET,
            "client": {**_CLIENT, "default": "everybody"},
        },
    ),
    ApiCall(
        *("GET", "/client", Role.VIEW, "What holds for a client now", "what_holds", "Holds"),
        {
            "client": _text("its address", default=""),
            "user": _text("its user in the proxy", 256, default=""),
            "url": _text("an address that is decided for it", 8192, default=""),
        },
    ),
    ApiCall("GET", "/lists", Role.VIEW, "The lists that are fetched", "lists", "Lists"),
    ApiCall("POST", "/lists/update", Role.MANAGE, "Fetch a list now", "update_list", "ChangedList", {"url": _URL}),
    ApiCall("GET", "/lists/held", Role.VIEW, "What a held back version changes", "held_back", "Held", {"url": _URL}),
    ApiCall(
        *("POST", "/lists/accept", Role.MANAGE, "Put the held back version into force", "accept_list", "ChangedList"),
        {"url": _URL, "digest": _text("the version that was looked at", 64, pattern="^[0-9a-f]{64}$")},
    ),
    ApiCall(
        *("POST", "/lists/rollback", Role.MANAGE, "Go back to the version before", "roll_back_list", "ChangedList"),
        {"url": _URL},
    ),
    ApiCall("GET", "/record", Role.VIEW, "What was done, and by whom", "record", "Record"),
    ApiCall(
        *("POST", "/record/{number}/undo", Role.APPROVE, "Undo something that was done", "undo", "Undone"),
        {"number": _NUMBER},
    ),
)


def checked(takes: Mapping[str, Schema], given: Mapping[str, object]) -> dict[str, Any]:
    """The values that a call takes, with those that are left out.

    >>> checked({"minutes": {"type": "integer", "minimum": 1, "maximum": 60, "default": 5}}, {})
    {'minutes': 5}

    Raises:
        InputError: one is missing, unknown, or not as it has to be.
    """
    unknown = [name for name in given if name not in takes]
    if unknown:
        raise InputError(f"{unknown[0][:80]!r} is unknown (known: {', '.join(takes) or 'nothing'})")
    found = {}
    for name, schema in takes.items():
        if name not in given and "default" not in schema:
            raise InputError(f"{name!r} is missing: {schema['description']}")
        value = given.get(name, schema.get("default"))
        if schema["type"] == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)  # "1.0" is an integer, says JSON Schema
        if not _is_valid(schema, value):
            raise InputError(f"{name!r} has to be {_told(schema)}")
        found[name] = value
    return found


def _is_valid(schema: Schema, value: object) -> bool:
    if schema["type"] == "integer":
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and schema["minimum"] <= value <= schema["maximum"]
    if not isinstance(value, str) or "\0" in value:
        return False
    is_long = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    fits = re.fullmatch(schema.get("pattern", ".*"), value, re.DOTALL) is not None
    return is_long and fits and value in schema.get("enum", (value,))


def _told(schema: Schema) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if schema["type"] == "integer":
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters: {schema['description']}"


# -- the document ------------------------------------------------------------------------------------------------------

_STRING, _INTEGER, _OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _all(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(plain: str = "", /, **others: Schema) -> Schema:
    """An object with properties of plain types, such as ``id:integer client:string?`` where the client may be null."""
    named = dict(one.split(":") for one in plain.split())
    types = {name: {"type": kind.removesuffix("?")} for name, kind in named.items()}
    properties = {name: _or_null(own) if named[name].endswith("?") else own for name, own in types.items()} | others
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _done(*results: Schema, **optional: Schema) -> Schema:
    """What a call gives that changes something: one of some results, each with properties that may be missing."""
    found = [{**result, "properties": optional | result["properties"]} for result in results]
    return _object("recorded:integer", result=found[0] if len(found) == 1 else {"anyOf": found})


_GRANT = _object(
    "id:integer scope:string target:string client:string? until:number? how:string by:string made:number",
)
_BLOCK = _object(
    "id:integer scope:string target:string client:string? until:number? reason:string? by:string made:number"
)
_REQUEST = _object(
    "id:integer client:string? user:string? group:string? host:string url:string category:string? "
    "reason:string asked:number until:number times:integer state:string"
)
_SESSION = _object("id:integer name:string client:string made:number until:number")
_MADE_CODE = _object("scope:string target:string? client:string? minutes:integer id:string code:string")
_ADDED_RULE = _object("expression:string action:string file:string")
_LIST = _object(
    "url:string title:string? layer:string? checked:number? next_try:number? fault:string? held:string?",
    versions=_all(_object("digest:string since:number")),
    reasons=_all(_STRING),
)
_GIVEN = {
    "Error": _object("error:string"),
    "Session": _object("needed:boolean possible:boolean name:string? role:string? token:string?"),
    "Sessions": _object(sessions=_all(_SESSION)),
    "Ended": _done(_SESSION),
    "Granted": _done(_GRANT, reason=_STRING, request=_INTEGER, warning=_STRING),
    "GrantedOrRule": _done(_GRANT, _ADDED_RULE, reason=_STRING, expires=_STRING, warning=_STRING),
    "Blocked": _done(_BLOCK, warning=_STRING),
    "BlockedOrRule": _done(_BLOCK, _ADDED_RULE, reason=_STRING, expires=_STRING, warning=_STRING),
    "Extended": _done(_object("client:string? category:string minutes:integer minute:integer")),
    "Declined": _done(_object("request:integer host:string word:string?")),
    "MadeCode": _done(_MADE_CODE),
    "WithdrawnCode": _done(_object("id:string")),
    "AddedRule": _done(_ADDED_RULE, reason=_STRING, expires=_STRING, warning=_STRING),
    # its own keys, as they are written
    "RemovedRule": _done({**_object("file:string comment:string?"), "additionalProperties": _STRING}),
    "ChangedList": _done(_LIST),
    # what the record says of what was undone
    "Undone": _done({**_object("undone:integer what:string"), "additionalProperties": True}),
    "Grants": _object(grants=_all(_GRANT)),
    "Blocks": _object(blocks=_all(_BLOCK)),
    "Requests": _object(requests=_all(_REQUEST)),
    "Codes": _object(
        codes=_all(
            _object("id:string scope:string target:string? client:string? minutes:integer until:number by:string")
        )
    ),
    "Rules": _object(
        "file:string",
        rules=_all(
            _object(
                "id:string? line:integer expression:string action:string? reason:string? expires:string? "
                "comment:string?"
            )
        ),
    ),
    "Preview": _object(
        "requests:integer changed:integer is_all:boolean clients:integer",
        actions={"type": "object", "additionalProperties": _INTEGER},
        addresses=_all(_object("url:string action:string count:integer")),
    ),
    "Holds": _object(
        "group:string mode:string default:string?",
        layers=_all(_object("name:string is_on:boolean")),
        schedules=_all(_object("name:string is_on:boolean until:number?")),
        categories=_all(_object("category:string action:string?")),
        quotas=_all(_OBJECT),
        grants=_all(_GRANT),
        blocks=_all(_BLOCK),
        decision=_or_null(_OBJECT),
    ),
    "Lists": _object(lists=_all(_LIST)),
    "Held": _object(
        "url:string digest:string added:integer removed:integer",
        reasons=_all(_STRING),
        added_lines=_all(_STRING),
        removed_lines=_all(_STRING),
    ),
    "Record": _object(
        record=_all(
            _object(
                "id:integer at:number who:string client:string what:string can_undo:boolean undone:number? "
                "undone_by:string?",
                detail=_OBJECT,
            )
        )
    ),
}
_STATUSES = {
    "400": "It was not understood, or cannot be done: the error says why.",
    "401": "Nobody is signed in, or name, passphrase or token is wrong.",
    "403": "Whoever asks may not do that, or not in this way.",
    "404": "It is not there.",
    "413": "It is too long.",
    "415": "The body has to be application/json.",
    "429": "There were too many wrong tries.",
    "503": "It cannot be answered now.",
}


def openapi(server: str) -> Schema:
    """The document; ``server`` is where the page is."""
    paths: dict[str, Schema] = {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Hushlist", "version": __version__},
        "servers": [{"url": server + BASE}],
        "paths": paths,
        "components": {
            "schemas": _GIVEN,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: ApiCall) -> Schema:
    operation: Schema = {
        "operationId": call.does,
        "summary": call.summary,
        "description": f"For the role: {call.role}" if call.role else "For whoever may see the page",
        "security": [{"token": []}] if call.role else [],
        "parameters": list(_parameters(call)),
        "responses": {
            "200": _answer("It is done.", call.gives),
            **{status: _answer(words, "Error") for status, words in _STATUSES.items()},
        },
    }
    body = {name: schema for name, schema in call.takes.items() if name not in call.named}
    if call.method == "POST":
        schema = {**_object("", **body), "required": [name for name in body if "default" not in body[name]]}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _parameters(call: ApiCall) -> Iterable[Schema]:
    for name, schema in call.takes.items():
        if name in call.named:
            yield {"name": name, "in": "path", "required": True, "schema": schema}
        elif call.method == "GET":
            yield {"name": name, "in": "query", "required": "default" not in schema, "schema": schema}


def _answer(words: str, name: str) -> Schema:
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}},
    }


def call_of(method: str, path: str) -> tuple[ApiCall, dict[str, str]] | tuple[str, ...]:
    """The call for a path below ``BASE``, with what the path says; or the methods that the path has."""
    methods = []
    for call in CALLS:
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]{1,100})", call.path)
        match = re.fullmatch(pattern, path)
        if match is not None and call.method == method:
            return call, match.groupdict()
        if match is not None:
            methods.append(call.method)
    return tuple(dict.fromkeys(methods))


def whole_numbers(takes: Mapping[str, Schema], given: Mapping[str, str]) -> dict[str, object]:
    """What a path or a query says, with whole numbers as such where they are asked for."""
    is_number: Callable[[str], bool] = re.compile("[0-9]{1,16}").fullmatch  # type: ignore[assignment]
    return {
        name: int(text) if takes.get(name, {}).get("type") == "integer" and is_number(text) else text
        for name, text in given.items()
    }
