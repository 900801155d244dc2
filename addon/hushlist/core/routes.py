"""What an extension adds to the live page: rows, each with a path, who may, a sentence, and the function that does it.

Routing, the checks of what a request says, the record of what administrators did, and the OpenAPI document all come
from the rows. The signature of an action's function says what it takes: a parameter with ``Text`` or ``Whole`` comes
from the request, and each other one is a part of the proxy of that type. What it returns is a frozen dataclass; an
action that changes something returns that in ``Done``.

>>> def pause(policy: str, group: Annotated[str, Text("whose")], minutes: Minutes = 5) -> Done[str]: ...
>>> action = Action("POST", "/pauses", Role.MANAGE, pause, "paused")
>>> [(one.name, one.default) for one in action.takes], action.gives
([('group', None), ('minutes', 5)], <class 'str'>)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache, cached_property
from http import HTTPStatus
from types import NoneType
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from hushlist.core.errors import HushlistError
from hushlist.core.policy.groups import Group, address_text
from hushlist.core.policy.reach import Reach
from hushlist.core.url.host import is_address
from hushlist.core.url.request import readable_host

_T = TypeVar("_T")


class Role(StrEnum):
    """What somebody may do; each role may do what those before it may."""

    VIEW = "view"
    APPROVE = "approve"
    MANAGE = "manage"

    def may(self, needed: Role) -> bool:
        """Whether this role is enough.

        >>> Role.APPROVE.may(Role.VIEW), Role.APPROVE.may(Role.MANAGE)
        (True, False)
        """
        roles = list(Role)
        return roles.index(self) >= roles.index(needed)


class Account(NamedTuple):
    """Who acts."""

    #: a person's name, or ``token:`` and that of a program's token
    name: str
    role: Role
    #: the address
    client: str
    #: seconds for which they may let something through; ``None``: for good
    longest: float | None = 86400.0
    #: the groups whose clients alone they see and act on; ``None``: everybody's
    groups: tuple[str, ...] | None = None

    def check_length(self, seconds: float) -> None:
        """Raise ``ActionError`` if they may not let something through for so long."""
        if self.longest is not None and seconds > self.longest:
            raise ActionError(
                f"{self.name} may let something through for at most {self.longest // 60:g} minutes: "
                "for longer, ask somebody with the role manage"
            )


class ActionError(HushlistError):
    """Something cannot be done; says why."""

    status = HTTPStatus.BAD_REQUEST
    #: what a program can use of that, in plain types
    detail: Mapping[str, object] | None = None


class MissingError(ActionError):
    """What is to be changed is not there."""

    status = HTTPStatus.NOT_FOUND


class RoleError(ActionError):
    """Somebody may not do something."""

    status = HTTPStatus.FORBIDDEN

    def __init__(self, needed: Role) -> None:
        super().__init__(f"that is for the role {needed}")


class ReachError(ActionError):
    """Somebody may not do something, or not for those whom it is for. It does not say whose they are."""

    status = HTTPStatus.FORBIDDEN

    def __init__(self) -> None:
        super().__init__("that is not for administrators of some groups, or not for clients of other groups")


@contextmanager
def usable() -> Iterator[None]:
    """What somebody wrote, and cannot be used, is an ``ActionError``."""
    try:
        yield
    except ValueError as error:
        raise ActionError(str(error)) from error


# -- what an action takes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A text in a request; ``about`` is for people."""

    about: str
    most: int = 300
    least: int = 0
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    #: the header that has it, instead of the path, the query or the body
    header: str = ""
    #: whether the record says it
    is_recorded: bool = True

    def fits(self, value: object) -> bool:
        if not isinstance(value, str) or "\0" in value or not self.least <= len(value) <= self.most:
            return False
        is_written_so = self.pattern is None or re.fullmatch(self.pattern, value) is not None
        return is_written_so and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return f"text of {self.least} to {self.most} characters: {self.about}"

    def schema(self) -> dict[str, Any]:
        if self.choices:
            return {"type": "string", "enum": list(self.choices), "description": self.about}
        shape = {"type": "string", "maxLength": self.most, "description": self.about}
        more = {"minLength": self.least or None, "pattern": self.pattern}
        return shape | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a request."""

    about: str
    most: int
    least: int = 1
    header: ClassVar[str] = ""
    is_recorded: ClassVar[bool] = True

    def fits(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most, "description": self.about}


@dataclass(frozen=True, slots=True)
class AnyPlain:
    """A value of JSON in a request, without ``true`` and ``false``; numbers are taken as text."""

    about: str
    header: ClassVar[str] = ""
    is_recorded: ClassVar[bool] = False

    def fits(self, value: object) -> bool:
        return self._is_plain(value, _DEEPEST)

    def _is_plain(self, value: object, deepest: int) -> bool:
        if isinstance(value, list | dict) and deepest:
            keys = value if isinstance(value, dict) else ()
            items = value.values() if isinstance(value, dict) else value
            return all("\0" not in key for key in keys) and all(self._is_plain(item, deepest - 1) for item in items)
        if isinstance(value, str):
            return "\0" not in value
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

    def __str__(self) -> str:
        return f"text, numbers, null, lists and mappings of these, of {_DEEPEST} levels at most: {self.about}"

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "null", "array", "object"], "description": self.about}


#: levels of ``AnyPlain``
_DEEPEST = 16
Number = Annotated[int, Whole("its number", (1 << 53) - 1)]
Minutes = Annotated[int, Whole("for how many minutes", 366 * 24 * 60)]
LastingMinutes = Annotated[
    int, Whole("for how many minutes; 0: for good, which is for the role manage", 366 * 24 * 60, 0)
]
Why = Annotated[str, Text("why", 200)]
#: the word for everybody: an order without a name is refused, since nobody may mean it
EVERYBODY = "everybody"
ForWhom = Annotated[str, Text(f"for whom: an address, user:NAME, group:NAME, a pseudonym of the log, or {EVERYBODY}")]
Scope = Annotated[str, Text("what the target is", choices=("host", "url", "category"))]
Target = Annotated[str, Text("a host, a URL, or a category's hrn: name", 8192, 1)]
Order = Annotated[str, Text("what to do", choices=("allow", "block"))]


def whom_of(client: str, groups: Iterable[Group]) -> str | None:
    """Whom a value of ``ForWhom`` names: an address, a user, or one of a policy's groups; ``None`` for everybody."""
    if client == EVERYBODY:
        return None
    kind, _, name = client.partition(":")
    if kind == "group":
        if name not in {group.name for group in groups}:
            raise ActionError(f"the policy has no group {name!r}")
        return client
    if kind == "user" and name:
        return client
    if is_address(readable_host(client.encode("utf-8", "replace"))):
        return address_text(client)
    raise ActionError(f"{client!r}: expected an address, user:NAME, group:NAME or {EVERYBODY}")


class Parameter(NamedTuple):
    """What an action takes of a request; without a default, a request has to say it."""

    name: str
    kind: Text | Whole | AnyPlain
    default: str | int | None


# -- what it gives -----------------------------------------------------------------------------------------------------

#: the methods whose requests have a body
WITH_BODY = ("POST", "PUT")
#: the metadata of a field whose keys stand beside the others of its dataclass
BESIDE: Mapping[str, bool] = {"beside": True}


def plain(value: Any) -> Any:
    """A result in the types of JSON. What is ``None`` by default is left out where it is ``None``.

    >>> @dataclass
    ... class Added:
    ...     rule: str
    ...     days: int | None
    ...     warning: str | None = None
    >>> plain([Added("a.example/", None)])
    [{'rule': 'a.example/', 'days': None}]
    """
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if not is_dataclass(value):
        return value
    result: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if field.metadata == BESIDE:
            result = {**plain(item), **result}
        elif item is not None or field.default is not None:
            result[field.name] = plain(item)
    return result


@dataclass(frozen=True, slots=True)
class Done(Generic[_T]):
    """Something that was done."""

    result: _T
    #: how it can be undone: ``kind`` names a function in ``Undoings``; and who may
    undo: Mapping[str, object] | None = None
    role: Role | None = None
    #: what the record has of it, where that is not the result
    detail: Mapping[str, object] | None = None


class Instead(NamedTuple):
    """What an action returns that leaves its order to another one, which its row names: the values for that."""

    values: Mapping[str, object]


# -- rows --------------------------------------------------------------------------------------------------------------


class Limit(StrEnum):
    """How a row is open to administrators of some groups; a row without a limit is closed to them."""

    #: it is about nobody but whoever asks
    SELF = "about whoever asks"
    #: its function takes a ``Reach``, and gives nothing of others
    NARROWED = "about their clients alone"
    #: it says for whom it is, in ``client`` or ``whom``
    WHOM = "for their clients alone"
    #: its path names an item of the list at the beginning of the path, which is ``NARROWED``
    ITEM = "for what the list gives them alone"


@dataclass(frozen=True)
class Action:
    """A path of the interface."""

    method: str
    #: a path without values stands behind one with values that it fits, too
    path: str
    #: who may; ``None``: whoever may see the page
    role: Role | None
    #: the first line of its docstring says what it is for
    does: Callable[..., Any]
    #: what the record says was done, if it changes something
    did: str = ""
    #: the path of the action that may do it instead
    instead: str | None = None
    #: how administrators of some groups may; ``None``: they may not
    limit: Limit | None = None

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: the row says that it is limited, and cannot be.
        """
        is_so = {
            Limit.NARROWED: lambda: Reach in {kind for kind, _ in parts_of(self.does).values()},
            Limit.WHOM: lambda: len({item.name for item in self.takes} & {"client", "whom"}) == 1,
            Limit.ITEM: lambda: len(self.in_path) == 1,
        }
        if self.limit in is_so and not is_so[self.limit]():
            raise ValueError(f"{self.method} {self.path}: its function does not limit it so")

    @property
    def says_whom(self) -> str:
        """What it takes that says for whom it is."""
        return "whom" if any(item.name == "whom" for item in self.takes) else "client"

    @property
    def list_path(self) -> str:
        """The path of the list of which its path names an item."""
        return self.path.partition("/{")[0]

    @property
    def name(self) -> str:
        return self.does.__name__

    @property
    def sentence(self) -> str:
        return (self.does.__doc__ or "").partition("\n")[0].strip().removesuffix(".")

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names of what it takes that stand in its path."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    def match(self, path: str) -> dict[str, str] | None:
        """What a path says, if it is the action's."""
        match = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]{1,100})", self.path), path)
        return None if match is None else match.groupdict()

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        return get_type_hints(self.does, include_extras=True)

    @cached_property
    def takes(self) -> tuple[Parameter, ...]:
        code, defaults = self.does.__code__, self.does.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        return tuple(
            Parameter(name, hint.__metadata__[0], by_name.get(name))
            for name, hint in self._hints.items()
            if get_origin(hint) is Annotated and name != "return"
        )

    @property
    def listed_as(self) -> str | None:
        """The one key of its answer, if it gives a list: the end of its path."""
        return self.path.rpartition("/")[2] if get_origin(self.gives) is list else None

    @cached_property
    def gives(self) -> Any:
        """The dataclass of its result, or a list of them."""
        hint = self._hints["return"]
        kinds = get_args(hint) if get_origin(hint) is Union else (hint,)
        kind = next(kind for kind in kinds if kind is not Instead)
        return get_args(kind)[0] if get_origin(kind) is Done else kind


class Page(NamedTuple):
    """A path of the live page that is read."""

    path: str
    #: who may, where people sign in; ``None``: whoever may see the page
    role: Role | None
    #: from a request to its answer, at once or later
    answer: Callable[..., Any]
    #: whether it tells of each group
    names_groups: bool = False


@cache
def parts_of(function: Callable[..., Any]) -> Mapping[str, tuple[Any, bool]]:
    """The parameters of a function that are parts of the proxy: their types, and whether it cannot do without."""
    parts = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        if name != "return" and get_origin(hint) is not Annotated:
            kinds = [kind for kind in get_args(hint) if kind is not NoneType]
            parts[name] = (kinds[0], False) if NoneType in get_args(hint) else (hint, True)
    return parts


class Parts:
    """The parts of the proxy for the functions of rows, by their types."""

    def __init__(self, *parts: object) -> None:
        self._by_type: dict[type, object] = {type(part): part for part in (*parts, self) if part is not None}

    def call(self, function: Callable[..., Any], **values: Any) -> Any:
        """Call a function with some values, and with its parts; ``ActionError`` if the proxy lacks one of them."""
        for name, (kind, is_needed) in parts_of(function).items():
            if name not in values:
                values[name] = self._by_type.get(kind)
                if values[name] is None and is_needed:
                    raise ActionError(f"the proxy has no {kind.__name__} that it can use")
        return function(**values)


class Undoings(dict[str, Callable[..., None]]):
    """What undoes something, by its kind; a parameter ``how`` is what was stored of it, and others are parts."""
