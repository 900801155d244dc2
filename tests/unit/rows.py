"""Tests of tables: all rows of a long one in one test, as pytest takes longer for a test than most rows do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each_row(
    names: str | Iterable[str], rows: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Callable[..., None]], Any]:
    """As ``pytest.mark.parametrize``, in one test: it fails with the failures of all rows, each with its row.

    For tests whose rows do not see each other; fixtures are made once for all. Rows that take long are made by a
    function, when the test runs: all processes collect it, and one runs it.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = rows if callable(rows) and not isinstance(rows, type) else [*rows]  # an enumeration can be called, too

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**others: object) -> None:
            made = [row if len(given) > 1 else (row,) for row in (table() if callable(table) else table)]
            if not made:
                pytest.skip("there are no rows")
            failures = []
            for row in made:
                own = dict(zip(given, row, strict=True))
                try:
                    test(**own, **others)
                except Exception as error:
                    error.add_note(f"row: {own!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(made)} rows", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in given]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return decorate
