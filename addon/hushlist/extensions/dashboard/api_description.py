"""The interface of the live page as an OpenAPI document, which is made of its rows and of their results' dataclasses.

Spec: OpenAPI Specification 3.1.1; JSON Schema, draft 2020-12
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hushlist import __version__
from hushlist.core.routes import BESIDE, WITH_BODY, Action

BASE = "/api/v1"
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Error:
    """Why something was not done."""

    error: str
    #: what a program can use of that
    detail: Mapping[str, object] | None = None


_STATUSES = {
    "400": "It was not understood, or cannot be done: the error says why.",
    "401": "Nobody is signed in, or name, passphrase or token is wrong.",
    "403": "Whoever asks may not do that, or not in this way.",
    "404": "It is not there.",
    "412": "It is another one by now than the header If-Match names: the detail has both.",
    "413": "It is too long.",
    "415": "The body has to be application/json.",
    "429": "There were too many wrong tries.",
    "503": "It cannot be answered now.",
}


def openapi(actions: Sequence[Action], server: str) -> Schema:
    """The document; ``server`` is where the page is."""
    paths: dict[str, Schema] = {}
    schemas: dict[str, Schema] = {}
    for action in actions:
        paths.setdefault(action.path, {})[action.method.lower()] = _operation(action, actions, schemas)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Hushlist", "version": __version__},
        "servers": [{"url": server + BASE}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(action: Action, actions: Iterable[Action], schemas: dict[str, Schema]) -> Schema:
    """An operation; adds the schemas that it refers to."""
    parameters, body, needed = [], {}, []
    for name, kind, default in action.takes:
        schema = kind.schema() | ({} if default is None else {"default": default})
        if kind.header:
            parameters.append({"name": kind.header, "in": "header", "required": default is None, "schema": schema})
        elif name in action.in_path:
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
        elif action.method == "GET":
            parameters.append({"name": name, "in": "query", "required": default is None, "schema": schema})
        else:
            body[name] = schema
            needed += [name] if default is None else []
    answers = {"200": _answer("It is done.", _result(action, actions, schemas))}
    answers |= {status: _answer(words, schema_of(Error, schemas)) for status, words in _STATUSES.items()}
    taken = {"required": True, "content": {"application/json": {"schema": _object(body, needed)}}}
    return {
        "operationId": action.name,
        "summary": action.sentence,
        "description": _for_whom(action),
        "security": [{"token": []}] if action.role else [],
        "parameters": parameters,
        "responses": answers,
        **({"requestBody": taken} if action.method in WITH_BODY else {}),
    }


def _for_whom(action: Action) -> str:
    if action.role is None:
        return "For whoever may see the page"
    limit = "no" if action.limit is None else action.limit
    return f"For the role: {action.role}; for administrators of some groups: {limit}"


def _answer(words: str, schema: Schema) -> Schema:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _result(action: Action, actions: Iterable[Action], schemas: dict[str, Schema]) -> Schema:
    result = schema_of(action.gives, schemas)
    if action.listed_as is not None:
        return _object({action.listed_as: result})
    if not action.did:
        return result
    others = [schema_of(row.gives, schemas) for row in actions if (row.method, row.path) == ("POST", action.instead)]
    return _object({"recorded": {"type": "integer"}, "result": {"anyOf": [result, *others]} if others else result})


def _object(properties: Mapping[str, Schema], needed: Sequence[str] | None = None) -> Schema:
    required = list(properties if needed is None else needed)
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(hint: Any, schemas: dict[str, Schema]) -> Schema:
    """The schema of a type; of a dataclass, a reference to the one that is added to ``schemas``.

    >>> schema_of(list[str | None], {})
    {'type': 'array', 'items': {'type': ['string', 'null']}}
    """
    kinds = get_args(hint)
    if hint is Any:
        return {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if get_origin(hint) in (Union, UnionType):  # of the types of JSON or an object, and null
        (kind,) = (schema_of(member, schemas) for member in kinds if member is not NoneType)
        return {**kind, "type": [kind["type"], "null"]}
    if get_origin(hint) is list:
        return {"type": "array", "items": schema_of(kinds[0], schemas)}
    if get_origin(hint) is Mapping:
        return {"type": "object"} | ({} if kinds[1] is object else {"additionalProperties": schema_of(kinds[1], {})})
    if hint.__name__ not in schemas:
        schemas[hint.__name__] = _record(hint, schemas)
    return {"$ref": f"#/components/schemas/{hint.__name__}"}


def _record(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """The schema of a dataclass."""
    hints, beside = get_type_hints(kind), [item.name for item in fields(kind) if item.metadata == BESIDE]
    optional = [item.name for item in fields(kind) if item.default is None]
    properties = {name: schema_of(hint, schemas) for name, hint in hints.items() if name not in beside}
    for name in optional:  # it is left out, never null
        properties[name] = {**properties[name], "type": properties[name]["type"][0]}
    schema = _object(properties, [name for name in properties if name not in optional])
    more = get_args(hints[beside[0]])[1] if beside else None
    return (
        schema if more is None else schema | {"additionalProperties": True if more is object else schema_of(more, {})}
    )
