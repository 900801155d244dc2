"""What programs rely on: each call, what it takes and gives, and how its values are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hushlist import __version__
from hushlist.core.routes import Parameter, Text, Whole
from hushlist.extensions.dashboard.api_description import openapi
from hushlist.extensions.dashboard.api_requests import InputError, values_of, whole_numbers
from support.administrators import ACTIONS
from unit.rows import each_row

#: the document, with a path or a schema a line, and with no answer but the good one
PUBLISHED = Path(__file__).with_name("openapi.json")
ERRORS = {"400", "401", "403", "404", "412", "413", "415", "429", "503"}
ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(openapi(ACTIONS, "https://h.example")))
    for operations in found["paths"].values():
        for operation in operations.values():
            answers = {status: operation["responses"].pop(status) for status in ERRORS}
            assert all(one["content"] == ERROR and one["description"] for one in answers.values())
    return found


def test_the_document_is_as_it_was_published() -> None:
    """Who changes the interface on purpose changes the file, too: programs have to be told."""
    published = json.loads(PUBLISHED.read_text("utf-8"))
    assert document() == {**published, "info": {"title": "Hushlist", "version": __version__}}


TAKES = (
    Parameter("name", Text("whose it is", 3, 1), None),
    Parameter("minutes", Whole("how long", 60, 2), 5),
    Parameter("what", Text("what it is", choices=("host", "url")), "url"),
    Parameter("id", Text("its id", 9, pattern="[0-9]*"), ""),
)
VALUES = {"name": "a", "minutes": 5, "what": "url", "id": ""}


@each_row(
    "given",
    [
        {"name": "abc"},
        {"name": ".\n."},
        {"minutes": 2},
        {"minutes": 60},
        {"what": "host"},
        {"id": "123456789"},
    ],
)
def test_what_is_as_it_has_to_be_is_taken(given: dict[str, object]) -> None:
    assert values_of(TAKES, {"name": "a", **given}) == {**VALUES, **given}


@each_row(
    ("given", "why"),
    [
        ({"other": 1}, "'other' is unknown (known: name, minutes, what, id)"),
        ({"x" * 81: 1}, f"{'x' * 80!r} is unknown (known: name, minutes, what, id)"),
        ({"name": ""}, "'name' has to be text of 1 to 3 characters: whose it is"),
        ({"name": "abcd"}, "'name' has to be text of 1 to 3 characters: whose it is"),
        ({"name": "\0"}, "'name' has to be text of 1 to 3 characters: whose it is"),
        ({"name": 1}, "'name' has to be text of 1 to 3 characters: whose it is"),
        ({"name": None}, "'name' has to be text of 1 to 3 characters: whose it is"),
        ({"minutes": 1}, "'minutes' has to be a whole number from 2 to 60"),
        ({"minutes": 61}, "'minutes' has to be a whole number from 2 to 60"),
        ({"minutes": "5"}, "'minutes' has to be a whole number from 2 to 60"),
        ({"minutes": True}, "'minutes' has to be a whole number from 2 to 60"),
        ({"minutes": 5.5}, "'minutes' has to be a whole number from 2 to 60"),
        ({"what": ""}, "'what' has to be one of host, url"),
        ({"id": "12x"}, "'id' has to be text of 0 to 9 characters: its id"),
    ],
)
def test_what_is_not_is_an_error_that_says_what_it_has_to_be(given: dict[str, object], why: str) -> None:
    with pytest.raises(InputError) as caught:
        values_of(TAKES, {"name": "a", **given})
    assert str(caught.value) == why


def test_what_is_missing_is_an_error_and_a_whole_float_is_a_whole_number() -> None:
    with pytest.raises(InputError, match=r"^'name' is missing: whose it is$"):
        values_of(TAKES, {})
    with pytest.raises(InputError, match=r"^'x' is unknown \(known: nothing\)$"):
        values_of((), {"x": 1})
    minutes = values_of(TAKES, {"name": "a", "minutes": 7.0})["minutes"]
    assert (minutes, type(minutes)) == (7, int)


def test_numbers_in_a_path_are_such_where_they_are_asked_for() -> None:
    given = {"minutes": "7", "name": "8", "other": "9"}
    assert whole_numbers(TAKES, given) == {"minutes": 7, "name": "8", "other": "9"}
    for text in ("", "-1", "1" * 17, "1.0"):
        assert whole_numbers(TAKES, {"minutes": text}) == {"minutes": text}
    assert whole_numbers(TAKES, {"minutes": "1" * 16}) == {"minutes": int("1" * 16)}


def test_no_two_extensions_have_the_same_call() -> None:
    calls = [(action.method, action.path) for action in ACTIONS]
    assert sorted(calls) == sorted({*calls})
