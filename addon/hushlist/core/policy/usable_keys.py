"""Which keys a policy may have besides core's: those of the extensions that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from hushlist.core.extension import ALL_BUILT_IN, Extension, ListFormat, built_in, extensions_named
from hushlist.core.policy.keys import Key


class KeyTable(NamedTuple):
    extensions: tuple[Extension, ...]

    def rows(self, place: str) -> tuple[Key, ...]:
        """The keys of a place."""
        return tuple(row for extension in self.extensions for row in extension.policy_keys if row.place == place)

    def foreign_defaults(self, place: str) -> dict[str, Any]:
        """The values of keys that a policy does not have, of extensions that do not come with Hushlist."""
        return {row.name: row.default for row in KeyTable(self.foreign()).rows(place)}

    def without(self, form: ListFormat) -> str | None:
        """Why a list in a format cannot be read: the extension that reads it is left out."""
        used = {extension.name for extension in self.extensions}
        for extension in built_in():
            if extension.name not in used:
                forms = (extension.list_formats, *extension.folder_formats.values())
                for name, candidate in (pair for formats in forms for pair in formats.items()):
                    if candidate == form:
                        return f"the extension {extension.name} reads the format {name}, and 'extensions' leaves it out"
        return None

    def foreign(self) -> tuple[Extension, ...]:
        """Those that do not come with Hushlist."""
        names = {extension.name for extension in built_in()}
        return tuple(extension for extension in self.extensions if extension.name not in names)

    def left_out(self, *places: str) -> Mapping[str, str]:
        """The keys of extensions that are left out, each with what is said of it."""
        used = {extension.name for extension in self.extensions}
        return {
            row.name: f"the extension {extension.name} has this key, and 'extensions' leaves it out"
            for extension in built_in()
            if extension.name not in used
            for row in extension.policy_keys
            if row.place in places
        }


@cache
def table_of(names: tuple[str, ...] = (ALL_BUILT_IN,)) -> KeyTable:
    """The table for a policy's ``extensions``, by whose names there are some."""
    return KeyTable(extensions_named(names))


@cache
def default_of(name: str) -> Any:
    """The value of a key that a policy does not have, of an extension that comes with Hushlist."""
    return next((row.default for extension in built_in() for row in extension.policy_keys if row.name == name), None)
