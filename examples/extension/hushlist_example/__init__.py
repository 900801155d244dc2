"""An extension to copy from: list formats, a matcher, a key of the policy, a check of answers, and a command.

The key ``refuse-types`` has media types, such as ``[application/zip]``: an answer that has one ends before its body.

Copy the whole folder with its ``pyproject.toml``. Four names have to be alike: there, ``NAME = "PACKAGE:EXTENSION"``
and ``packages = ["PACKAGE"]``; the folder ``PACKAGE``; and ``Extension("NAME", ...)``.
"""

from hushlist.core.extension import Command, Extension, ListFormat
from hushlist.core.policy.key_types import TEXT, list_of
from hushlist.core.policy.keys import Key, Type

TYPES = Type(lambda fields, key, _: frozenset(str(item.value) for item in fields.items(key)), list_of(TEXT))

EXTENSION = Extension(
    "example",
    policy_keys=(
        Key("refuse-types", f"{__name__}:TYPES", default=frozenset()).says("media types of answers that end"),
    ),
    list_formats={
        "backwards": ListFormat(f"{__name__}.lists:read_backwards", is_by_line=True, endings=(".bw",)),
        "path-words": ListFormat(f"{__name__}.words:read_words", is_by_line=True, endings=(".pw",)),
    },
    matcher=f"{__name__}.words:WordMatcher",
    part=f"{__name__}.answers:RefusedTypes",
    commands=(Command(("backwards",), f"{__name__}.backwards_command", "test lists"),),
)
