"""A look at a download whose failure is an answer, too: mitmproxy would leave the client waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mitmproxy import http

#: what a look says, perhaps later: the page in place of the file, or ``None``
Looked = http.Response | Awaitable[http.Response | None] | None


class SafeLook:
    """Asks a look, and ``fail`` for the page once that has raised an exception."""

    def __init__(
        self,
        is_enough: Callable[[bytes, int], bool],
        look: Callable[[bytes, bool], Looked],
        fail: Callable[[Exception], http.Response | None],
    ) -> None:
        self._is_enough, self._look, self._fail = is_enough, look, fail
        self._error: Exception | None = None

    def is_enough(self, octets: bytes, came: int) -> bool:
        """Whether the look can be asked: also where it will say that it has failed."""
        try:
            return self._is_enough(octets, came)
        except Exception as error:
            self._error = error
            return True

    def look(self, octets: bytes, is_whole: bool) -> Looked:
        """What the look says, or its failure."""
        if self._error is not None:
            return self._fail(self._error)
        try:
            looked = self._look(octets, is_whole)
        except Exception as error:
            return self._fail(error)
        return self._awaited(looked) if isinstance(looked, Awaitable) else looked

    async def _awaited(self, looked: Awaitable[http.Response | None]) -> http.Response | None:
        try:
            return await looked
        except Exception as error:
            return self._fail(error)
