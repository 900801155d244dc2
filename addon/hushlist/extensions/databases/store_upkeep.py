"""Files of a proxy that have to stay: damaged ones are set aside at the start, and good copies are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hushlist.core.errors import logger_of
from hushlist.core.policy.policy_file import Policy
from hushlist.extensions.databases.kept_files import SET_ASIDE, keep_copy, rescue, set_aside
from hushlist.proxy.parts import Part
from hushlist.proxy.runtime import Runtime

logger = logger_of(__name__)


class StoreUpkeep(Part):
    """Looks after the files of the extensions in use, where the policy names no database."""

    def __init__(self, runtime: Runtime, _: object = None) -> None:
        self._runtime = runtime
        #: damaged files that wait for a person
        self.set_aside: tuple[Path, ...] = ()
        self._is_checked = False
        self._fault = ""

    def prepare(self, policy: Policy) -> None:
        """Set damaged files aside before they are opened; what cannot be set aside is told by opening it."""
        if policy.of("store") is None and not self._is_checked:
            self._is_checked = self._rescue()
            self._look_aside()

    def keep_up(self, policy: Policy | None) -> None:
        """Keep good copies; see which damaged files wait."""
        if policy is not None and policy.of("store") is None:
            self._is_checked = self._is_checked or self._rescue()
            try:
                for path, kind in self._files():
                    if kind is not None and kind.copied_for:
                        keep_copy(path, kind)
                fault = ""
            except Exception as error:  # the store itself goes on
                fault = f"{error}"
            if fault and fault != self._fault:
                logger.warning("hushlist: the store cannot be copied, and is tried again: %s", fault)
            self._fault = fault
        self._look_aside()

    def states(self) -> Iterator[str]:
        """Damaged files that wait for a person."""
        return (f"{SET_ASIDE}: {path}" for path in self.set_aside)

    def warnings(self) -> Iterator[str]:
        """Damaged files that wait for a person, by the names that they had, and not their places."""
        if self.set_aside:
            names = ", ".join(sorted({path.name.partition(".damaged-")[0] for path in self.set_aside}))
            yield f"{SET_ASIDE}: {names}; check what holds, then remove the .damaged- files"

    def _files(self) -> list[tuple[Path, Any]]:
        return [file for kept_files in self._runtime.parts.kept_files for file in kept_files()]

    def _rescue(self) -> bool:
        """Put copies in the place of damaged files; whether all could be looked at."""
        try:
            for path, kind in self._files():
                message = None if kind is None else rescue(path, kind)
                if message is not None:
                    logger.warning("hushlist: %s", message)
        except (OSError, sqlite3.Error, RuntimeError):
            return False
        return True

    def _look_aside(self) -> None:
        with suppress(RuntimeError):  # the user has no home
            self.set_aside = tuple(set_aside({path.parent for path, _ in self._files()}))
