"""The door: what an extension of Hushlist may be, and which extensions there are.

An extension is a capability in one folder. Its ``__init__`` has an ``EXTENSION`` that says what it brings, by the roles
below; all of them are optional. Code is named by a reference, ``package.module:name``, and is imported when it is first
needed, so that an extension which nothing uses costs nothing:

    EXTENSION = Extension(
        "gambling",
        list_formats={"bets": ListFormat("gambling.lists:read_bets", is_by_line=True, endings=(".bets",))},
        commands=(Command(("odds",), "gambling.odds_command", "test lists"),),
        policy_keys=(Key("odds", "gambling.odds:ODDS").says("how long the odds may be: `10`"),),
        actions="gambling.actions",
        part="gambling.part:GamblingPart",
        checks="gambling.checks:examine_odds",
    )

Those that come with Hushlist are in ``BUILT_IN``. Others are Python packages that anybody can publish: with the entry
point ``gambling = "gambling:EXTENSION"`` in the group ``hushlist.extensions``. They are in use where a policy names
them. An extension imports ``hushlist.core``, itself, and the extensions that it ``uses``; in a part also
``hushlist.proxy.parts``, and of the proxy what ``tests/unit/test_imports.py`` lists; in its commands
``hushlist.cli.common``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hushlist.core.errors import did_you_mean
from hushlist.core.system.files import LONGEST_DOCUMENT, LONGEST_LIST, LONGEST_WHOLE

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from hushlist.core.lists.list_source import ListDefaults, ProblemReport
    from hushlist.core.match.rule import Rule, RuleBlock
    from hushlist.core.match.rule_match import Match
    from hushlist.core.policy.keys import Key
    from hushlist.core.policy.pass_through import HostSet

#: the packages of the extensions that come with Hushlist, in the order in which their roles are used
BUILT_IN = tuple(
    f"hushlist.extensions.{name}"
    for name in (
        *("databases", "unblock", "quotas", "adblock", "formats", "subscriptions", "services"),
        *(
            "safe_browsing",
            "safe_search",
            "inside",
            "lookalikes",
            "resolution",
            "geo",
            "needs",
            "searches",
            "heads",
            "files",
            "tenants",
            "journal",
            "notify",
            "alerts",
            "fleet",
            "boot",
        ),
        *("reports", "devices", "first_start", "dashboard", "policy_edits", "workers"),
    )
)
#: the group of entry points by which other packages bring extensions
ENTRY_POINTS = "hushlist.extensions"
#: what stands for all of ``BUILT_IN`` in a policy's ``extensions``
ALL_BUILT_IN = "built-in"


def load(reference: str) -> Any:
    """What a reference names; a reference without a colon names a module.

    >>> load("os.path:basename")("a/b")
    'b'

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such name.
    """
    module, _, name = reference.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded


# -- list formats ------------------------------------------------------------------------------------------------------

#: octets of a source -> its rules in the order of their lines, one by one or many at once, with errors and warnings in
#: the report; the report is complete after the last rule
ListReader: TypeAlias = "Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]"


class ListFormat(NamedTuple):
    """How a list is read, and by what its format is recognized."""

    #: a reference to a ``ListReader``
    reader: str
    #: whether lines do not depend on each other, so that a source can be cut into chunks of lines; each chunk has its
    #: own report, which knows its first line
    is_by_line: bool
    #: how names of files in this format end, and whole names without an ending
    endings: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    #: regular expressions for each entry of a list, and for the beginning of its text; empty: content never tells it
    entry: str = ""
    head: str = ""
    #: formats whose entries it takes, too: what they read as well is theirs
    also: tuple[str, ...] = ()
    #: a reference to a function from a ``Sample`` and the format to its ``Count`` (``core/lists/format_detection.py``),
    #: where the format is not told by lines; what ``entry`` says is for it
    counter: str = ""
    #: a reference to a function from a list's first lines and a format to the format that they are in, which may be a
    #: dialect of it, and why that is not sure
    dialect: str = ""
    #: a reference to a class that follows conditions above entries, such as ``!#if``; the rules of a list that can have
    #: some are network filters
    conditions: str = ""
    #: whether a list may be sealed
    can_be_sealed: bool = False
    #: whether a list may have entries and no rule
    may_be_empty: bool = False
    #: whether a source is a document, which is read as a whole before its first rule
    is_document: bool = False
    #: a reference to a function from a source's octets to the names of what it has, such as services: a list that is
    #: fetched, and has lost one of them, is held back
    members: str = ""

    def read_blocks(self, octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
        """The rules of a source, many at once where that is possible."""
        reader: ListReader = load(self.reader)
        return reader(octets, defaults, report)

    def read(self, octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
        """The rules of a source, one by one."""
        each_rule: Callable[..., Iterator[Rule]] = load("hushlist.core.match.rule:each_rule")
        return each_rule(self.read_blocks(octets, defaults, report))

    @property
    def longest(self) -> int:
        """The most octets that a source may have."""
        if self.is_by_line:
            return LONGEST_LIST
        return LONGEST_DOCUMENT if self.is_document else LONGEST_WHOLE


# -- commands ----------------------------------------------------------------------------------------------------------

#: the groups of commands in the help of ``hushlist``, in their order
COMMAND_GROUPS = (
    "ask a policy",
    "while the filter runs",
    "test lists",
    "publish lists",
    "look at URLs",
    "set up a shell",
)


class Command(NamedTuple):
    """Commands of ``hushlist`` that share a module, whose function ``add_to`` adds their parsers."""

    names: tuple[str, ...]
    #: a reference to the module
    module: str
    #: one of ``COMMAND_GROUPS``
    group: str


class Fact(NamedTuple):
    """An option of ``hushlist check`` and ``explain``: what is true of a request or its answer beyond the URL."""

    #: without its hyphens
    name: str
    metavar: str
    says: str
    #: a regular expression for its value; empty: any
    form: str = ""


class Explained(NamedTuple):
    """What an extension does with a request that is let through, or with its answer, by facts."""

    #: for people
    lines: tuple[str, ...]
    #: of the rule that decides; ``None``: none does
    match: Match | None = None
    #: what it depends on besides, of which no fact says anything
    doubts: tuple[str, ...] = ()
    #: what is changed, by which rule, though nothing is stopped
    changes: tuple[str, ...] = ()


class DecryptedNeed(NamedTuple):
    """Hosts that a rule of a policy is about, which does nothing where their connections are not decrypted."""

    #: the rule's key in the policy, and its place
    key: str
    source: str
    line: int
    #: names; without any, it is about every host
    hosts: HostSet
    #: what is so where nothing is decrypted, in words that go before hosts: "nothing is told to"
    otherwise: str


#: what ``Part.happened`` hears of (``proxy/parts.py``): a client does not accept the proxy's certificate
REFUSED_CERTIFICATE = "refused-certificate"
HAPPENINGS = (REFUSED_CERTIFICATE,)

# -- notices -----------------------------------------------------------------------------------------------------------


class Button(NamedTuple):
    """What somebody can do by one tap at a notice: a POST to its address does it, and a GET shows a page with it."""

    label: str
    url: str


class Notice(NamedTuple):
    """What people are told who are away."""

    #: one line
    title: str
    message: str
    #: the same for programs, in plain types
    details: Mapping[str, object] = MappingProxyType({})
    #: who caused it
    client: str = ""
    #: the message as a page: it is the summary of a week, and goes to those who take that
    html: str | None = None
    #: from the name of who gets it to what one tap does there; may wait for the disk
    buttons: Callable[[str], Sequence[Button]] | None = None
    #: the channels that it is for, by their names in the policy; empty: all
    to: tuple[str, ...] = ()
    #: the group of whoever it is about; ``None``: of all, or of nobody who is known
    group: str | None = None
    #: whose notices are counted together, so that no others can keep them back; empty: what clients ask for
    budget: str = ""

    def as_dict(self) -> dict[str, object]:
        """For JSON; a service such as ntfy knows the first two."""
        return {"title": self.title, "message": self.message, **self.details}


# -- checks ------------------------------------------------------------------------------------------------------------


class CheckRow(NamedTuple):
    """A check of requests (``core/match/checks.py``): how a policy may have it made."""

    #: the fault, for people; where it has a key in the pages' texts, ``check_CODE``, they read that
    sentence: str
    #: a reference to a function from a ``CheckedRequest`` to evidence of the fault; ``None`` if there is none
    find: str
    #: what the reference of policies says of it, in Markdown
    says: str
    #: whether it looks at more than the names, the address and the port of a connection
    needs_request: bool = False
    #: whether it looks at where the names lead
    needs_leads: bool = False
    #: whether its action may be ``warn``: people may go on then
    may_warn: bool = False
    #: what a policy may say of it besides the action; ``find`` gets the values, by the fields of these keys
    keys: tuple[Key, ...] = ()


# -- extensions --------------------------------------------------------------------------------------------------------


class Extension(NamedTuple):
    """What one extension brings."""

    name: str
    #: formats of lists, by name
    list_formats: Mapping[str, ListFormat] = MappingProxyType({})
    #: formats of folders, by name: the names of the files in such a folder and their formats; any file may be missing
    folder_formats: Mapping[str, Mapping[str, ListFormat]] = MappingProxyType({})
    commands: tuple[Command, ...] = ()
    #: what its explainer looks at, of an extension that comes with Hushlist; two may share one
    facts: tuple[Fact, ...] = ()
    #: a reference to a function from an engine, a ``Judgement``, a moment, and values by the names of facts, to what it
    #: does by its own rules, ``Explained``; raises ``HushlistError``
    explainer: str = ""
    #: a reference to the ``Matcher`` of its patterns (``core/match/matcher.py``)
    matcher: str = ""
    #: a reference to a function from a canonical host and a group's ``GroupSettings`` to why a connection to the host
    #: has to be decrypted, in words that go before the host; ``None`` if it need not
    why_decrypt: str = ""
    #: a reference to a function from a group's ``GroupSettings`` to what its rules need decrypted, each a
    #: ``DecryptedNeed``, so that administrators are warned where the policy has it not decrypted
    needs_decrypted: str = ""
    #: a reference to a function from a policy to what it reads in requests besides (``core/decide/readings.py``)
    readings: str = ""
    #: a reference to a function from a policy, or ``None``, to what takes out of a URL, as text, what no log may have
    #: unless its policy says so
    hides: str = ""
    #: the key by which a policy says whether it counts where names lead: ``on``, ``off``, or ``auto``, as checks need
    asks_leads: str = ""
    #: rows of the table of keys: what a policy may say of it
    policy_keys: tuple[Key, ...] = ()
    #: checks of requests, by their codes
    request_checks: Mapping[str, CheckRow] = MappingProxyType({})
    #: a reference to a subclass of ``hushlist.proxy.parts.Part``: what the extension does in a proxy, which is made for
    #: the first policy that needs it; where the next two say nothing, every policy does
    part: str = ""
    #: its keys of which one has a value, for everybody or in a group, where the part is needed; and ``why_decrypt`` and
    #: ``device_names``
    part_keys: tuple[str, ...] = ()
    #: a reference to a function from a policy, or ``None``, to whether the part is needed in any case
    part_if: str = ""
    #: a reference to a module that brings lists to this machine (``core/compile/background_compiler.py``)
    lists: str = ""
    #: a reference to what ``hushlist doctor`` asks of it (``core/diagnosis.py``)
    checks: str = ""
    #: a reference to the class that holds back lists which have changed (``core/compile/policy_compiler.py``)
    gate: str = ""
    #: a reference to a function from a policy and the folder of the cache to the fingerprints of all that changes when
    #: another version of one of its lists comes into force
    pointers: str = ""
    #: a reference to a function from an index and its lists to warnings of these
    list_warnings: str = ""
    #: a reference to a module with rows of the live page's interface, ``ACTIONS``, and perhaps ``UNDOINGS``, functions
    #: that undo them (``core/routes.py``)
    actions: str = ""
    #: a reference to a function from a policy to what tells the name of a client's device, by address and user
    #: (``core/policy/group_table.py``)
    device_names: str = ""
    #: a reference to a function to short names of categories, each with its `hrn:` name
    category_names: str = ""
    #: the extensions whose code it imports; each of them can still be left out of use
    uses: tuple[str, ...] = ()


class ExtensionError(ValueError):
    """No extension has a name that a policy or a person gives; or the package that brings it cannot be imported."""


@cache
def built_in() -> tuple[Extension, ...]:
    """The extensions that come with Hushlist."""
    return tuple(import_module(package).EXTENSION for package in BUILT_IN)


@cache
def extension_named(name: str) -> Extension:
    """An extension by its name: one that comes with Hushlist, or that an installed package brings.

    Raises:
        ExtensionError: there is none, or it cannot be used.
    """
    if (extension := next((each for each in built_in() if each.name == name), None)) is not None:
        return extension
    entries = _foreign_entries()
    if name not in entries:
        names = [each.name for each in built_in()] + sorted(entries)
        raise ExtensionError(f"no extension has this name{did_you_mean(name, names)} (there are: {', '.join(names)})")
    try:
        extension = entries[name].load()
    except Exception as error:  # whatever the package of somebody else does when it is imported
        raise ExtensionError(f"{entries[name].value} cannot be imported: {error}") from error
    if not isinstance(extension, Extension):
        raise ExtensionError(f"{entries[name].value} is no hushlist.core.extension.Extension")
    if extension.name != name:
        raise ExtensionError(f"{entries[name].value} has another name: {extension.name}")
    return extension


def foreign_names() -> tuple[str, ...]:
    """The names of the extensions that installed packages bring."""
    return tuple(sorted(_foreign_entries()))


def usable_extensions(
    complain: Callable[[str, ExtensionError], object] = lambda name, error: None,
) -> tuple[Extension, ...]:
    """The extensions that installed packages bring; of those that cannot be used, ``complain`` hears why."""
    usable = []
    for name in foreign_names():
        try:
            usable.append(extension_named(name))
        except ExtensionError as error:
            complain(name, error)
    return tuple(usable)


def foreign_code(names: Iterable[str]) -> list[Path]:
    """Where the code is of those of a policy's ``extensions`` that other packages bring: folders, or single files."""
    foreign = {*names} - {ALL_BUILT_IN, *(each.name for each in built_in())}
    if not foreign:
        return []
    entries = _foreign_entries()
    packages = {entries[name].module.partition(".")[0] for name in foreign if name in entries}
    specs = [spec for package in sorted(packages) if (spec := find_spec(package)) is not None]
    places = [place for spec in specs for place in spec.submodule_search_locations or filter(None, [spec.origin])]
    return [Path(place) for place in places]


def _foreign_entries() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # costs more than a decision by a compiled policy

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def extensions_named(names: Iterable[str]) -> tuple[Extension, ...]:
    """The extensions of a policy's ``extensions``, each once, in the order in which they are used.

    Raises:
        ExtensionError: a name is of none.
    """
    chosen: dict[str, Extension] = {}
    for name in names:
        named = built_in() if name == ALL_BUILT_IN else (extension_named(name),)
        chosen |= {each.name: each for each in named}
    first = [each for extension in built_in() if (each := chosen.pop(extension.name, None))]
    return (*first, *chosen.values())
