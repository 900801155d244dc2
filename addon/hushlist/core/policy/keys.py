"""The table of keys: a row for each key of a policy, of which its reader, the schemas and the reference are made.

Core's rows stand beside what reads them, an extension's in its ``EXTENSION``. ``key_types`` has the types of values.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

#: a JSON schema. In it, ``$name`` names a definition, which may stand in several places; ``$of`` is a schema to add to
Schema = dict[str, Any]
#: what a reader gives where the value is ``None``, and not the default
NONE = object()


#: reads the value under a key, of a mapping's fields, the key and the ``Reading``; ``None`` if it is absent, or wrong,
#: which is in the report then
Reader = Callable[..., Any]


class Type(NamedTuple):
    """What a key may have: how it is read, and what an editor is told."""

    read: Reader
    schema: Schema | Callable[[], Schema]
    #: the keys of the mapping that it is, or may be
    rows: tuple[Key, ...] = ()


class Key(NamedTuple):
    """A row of the table."""

    name: str
    #: a type; or a reference to one, ``package.module:NAME``, which is imported where the key is used
    type: Type | str
    #: where an extension's key may stand: in the ``policy``; there and in each ``group``; in a
    #: ``layer``; in the entry of a ``list``; or, if it is a text of one that comes
    #: with Hushlist, in a ``rule`` of a list in YAML
    place: str = "policy"
    #: of an extension's key: the value where it is absent or wrong
    default: Any = None
    #: the field that gets the value, if it has another name
    into: str = ""
    is_required: bool = False
    #: of a list's key that says where the list is: a reference to a function from the entry, the layer's name and the
    #: ``Reading`` to its files
    files: str = ""
    #: of a list's key: which others it needs, for each some names of which one is enough
    needs: tuple[str, ...] = ()
    #: what it says, in Markdown, as the reference has it
    sentence: str = ""

    def says(self, sentence: str) -> Key:
        """The row with its sentence."""
        return self._replace(sentence=" ".join(sentence.split()))

    @property
    def kind(self) -> Type:
        """Its type."""
        if isinstance(self.type, Type):
            return self.type
        module, _, name = self.type.partition(":")
        kind: Type = getattr(import_module(module), name)
        return kind

    @property
    def field(self) -> str:
        """What its value is called in Python."""
        return self.into or self.name.replace("-", "_")
