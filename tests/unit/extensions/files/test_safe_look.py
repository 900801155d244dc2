"""A look at a download that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from mitmproxy import http

from hushlist.extensions.files.safe_look import SafeLook


def raises(*_: object) -> bool:
    raise KeyError


async def raises_later() -> http.Response | None:
    raise KeyError


@pytest.mark.parametrize("where", ["enough", "look", "later"])
@pytest.mark.parametrize("page", [http.Response.make(500), None])
def test_what_fails_is_the_page_in_place_of_a_file(where: str, page: http.Response | None) -> None:
    errors = list[Exception]()

    def look(*_: object) -> Awaitable[http.Response | None] | None:
        if where == "look":
            raise KeyError
        return raises_later() if where == "later" else None

    def fail(error: Exception) -> http.Response | None:
        errors.append(error)
        return page

    safe = SafeLook(raises if where == "enough" else lambda *_: True, look, fail)
    assert safe.is_enough(b"", 0)
    looked = safe.look(b"", False)

    async def said() -> http.Response | None:
        return await looked if isinstance(looked, Awaitable) else looked

    assert asyncio.run(said()) is page
    assert [type(error) for error in errors] == [KeyError]
