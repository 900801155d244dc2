"""A policy made out of another filter's configuration: its parts, its text, and how its folder is written.

The text goes through the policy's own reader and compiler before anything stands in the folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hushlist.core.compile.index_cache import IndexCache
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.errors import HushlistError, Problem, SourceError, printable, without_user
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, read_octets
from hushlist.core.lists.plain_lists import read_addresses
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode, flow_text
from hushlist.core.policy.groups import DEFAULT
from hushlist.core.policy.key_types import Reading, names_of
from hushlist.core.policy.schedule import read_schedules
from hushlist.core.policy.times import read_timezone
from hushlist.core.system.files import LONGEST_DOCUMENT, LONGEST_LIST, check_length, open_regular
from hushlist.extensions.subscriptions import SUBSCRIPTION_KEYS
from hushlist.extensions.subscriptions.subscription import read_subscription

#: what a key of a policy says: text, or a list or mapping of such
Setting = object

#: the layer for the administrator's own rules; mitmproxy's commands write to its list
_OVERRIDES = "overrides"
#: a list of every address: a site that is asked for by its address, in place of a name
ADDRESSES = "lists/addresses.netset"
#: the schedules by which a layer is asked for some groups alone
_ALWAYS, _NEVER = "always", "never"
_WHOLE_DAY = "00:00-24:00"
_ONCE: list[Mapping[str, Setting]] = [{"dates": "2000-01-01"}]
#: days of the week, as schedules have them
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: octets of all that is read, but for long lists, which are copied
MOST_OCTETS = 1 << 28
_Who = TypeVar("_Who")
#: why something is left out
NO_ADDRESSES = "Hushlist gives names no addresses: leave them to the name server that the proxy asks"
BY_COMMAND = "a list that is made elsewhere: policy.yaml has the command that fetches it"


@dataclass(frozen=True, slots=True)
class ImportedList:
    """An entry of a layer, a file or a URL. With a command, its file is not there yet, and the entry is a comment."""

    file: str
    format: str
    title: str
    action: str = "block"
    #: what fetches the file, in a shell in the policy's folder
    command: str = ""
    #: whether ``file`` is the address that the proxy fetches it from
    is_url: bool = False

    def lines(self, *, may_lack: bool = False) -> Iterator[str]:
        """The entry in YAML; ``may_lack``: what is to be fetched need not be there."""
        optional = {"optional": "true"} if may_lack and self.is_url else {}
        place = {"url" if self.is_url else "file": self.file, **optional}
        entry = f"- {flow_text({**place, 'format': self.format, 'title': self.title, 'action': self.action})}"
        if self.command:
            yield "# Not here yet. Fetch it, see which format it has, and take the '#' from the line behind:"
            yield f"#   {printable(self.command)}"
        yield f"# {entry}" if self.command else entry


@dataclass(frozen=True, slots=True)
class ImportedLayer:
    """A layer that is asked while a schedule is on, or always."""

    during: str | None
    lists: list[ImportedList] = field(default_factory=list)


@dataclass(slots=True)
class ImportedGroup:
    """Who is in it, the layers that are asked for them, in their order, and what else holds."""

    name: str
    #: ``clients``, ``users`` or ``ports`` -> values
    who: dict[str, list[str]] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)


class ImportedPolicy:
    """What was taken over, and reports of what was not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layers: dict[str, ImportedLayer] = {}
        #: schedule -> its entries
        self.schedules: dict[str, list[Mapping[str, Setting]]] = {}
        self.timezone: str | None = None
        #: for everybody who is in no group
        self.everybody = ImportedGroup(DEFAULT)
        self.groups: list[ImportedGroup] = []
        #: name in the policy's folder -> octets, or the file to copy
        self.files: dict[str, bytes | Path] = {f"{_OVERRIDES}.yaml": b"# Your own rules: they come first.\nrules: []\n"}
        self._reports: dict[str, ProblemReport] = {}
        self._names: set[str] = set()
        #: that were read
        self._octets = 0

    def report(self, source: str | None = None) -> ProblemReport:
        """The report of a file; without a name, of the one that is imported."""
        return self._reports.setdefault(source or self.path.name, ProblemReport(source or self.path.name))

    @property
    def warnings(self) -> list[Problem]:
        """What could not be taken over, file by file."""
        return [problem for report in self._reports.values() for problem in (*report.errors, *report.warnings)]

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """The lines of a file of whatever encoding, with their numbers; raises as ``read`` does."""
        return enumerate(self.read(path).decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n"), 1)

    def read(self, path: Path) -> bytes:
        """A file's octets; ``SourceError`` if it cannot be read, or is longer than a YAML file may be, or others were.

        A file may be named very often.
        """
        if self._octets > MOST_OCTETS:
            raise SourceError([Problem(str(path), 0, path.name, "too much was read before, with all that is named")])
        report = ProblemReport(str(path))
        octets = read_octets(path, report, LONGEST_DOCUMENT)
        if octets is None:
            raise SourceError(report.errors)
        self._octets += len(octets)
        return octets

    def layer(self, name: str, during: str | None = None) -> list[ImportedList]:
        """The lists of a layer, which is made if it is not there."""
        return self.layers.setdefault(name, ImportedLayer(during)).lists

    def group(self, name: str, **who: list[str]) -> ImportedGroup:
        """A new group at the end, with a name that no other has."""
        taken = {DEFAULT, *(group.name for group in self.groups)}
        made = ImportedGroup(unique(shown(name) or "group", taken), {key: value for key, value in who.items() if value})
        self.groups.append(made)
        return made

    def add_domains(self, layer: str, title: str, domains: Mapping[str, str], action: str, name: str = "") -> None:
        r"""Give a layer a list of domains with comments about them, if there are any, in a file of a name or the title.

        >>> policy = ImportedPolicy(Path("gravity.db"))
        >>> policy.add_domains("lists", "denied", {"ads.example": "by hand", "b.example": ""}, "block")
        >>> policy.files["lists/denied.txt"]
        b'ads.example  # by hand\nb.example\n'
        """
        if domains:
            lines = (
                f"{domain}  # {shown(comment)}" if comment.strip() else domain for domain, comment in domains.items()
            )
            file = self.file(name or title, "".join(f"{line}\n" for line in lines).encode())
            self.layer(layer).append(ImportedList(file, "domains", title, action))

    def subscribe(self, layer: str, address: str, title: str, action: str, report: ProblemReport, line: int) -> None:
        """Give a layer a list that the proxy is to fetch; it is left out where the proxy would not."""
        trial = ProblemReport(report.source)
        node = YamlNode(line, {"url": YamlNode(line, address)})
        read_subscription(MappingReader(node, ("url", *names_of(SUBSCRIPTION_KEYS)), trial), Reading(Path(), trial))
        for problem in trial.errors:
            report.leave_out(line, shown(address), problem.why)
        if not trial.errors:
            self.layer(layer).append(ImportedList(address, "adblock-dns", title, action, is_url=True))

    def file(self, name: str, content: bytes | Path) -> str:
        """Give the folder a text, and return its name there."""
        name = f"{self.folder(name)}.txt"
        self.files[name] = content
        return name

    def folder(self, name: str) -> str:
        """A name in the folder that nothing else has; a file or a folder can be made of it."""
        name = unique(f"lists/{_slug(name)}", self._names)
        self._names.add(name)
        return name

    def schedule(
        self,
        name: str,
        entries: list[Mapping[str, Setting]],
        report: ProblemReport,
        line: int,
        zone: str | None = None,
    ) -> str:
        """Make a schedule by the clock of a zone, or of the machine that the file is from; returns its name.

        Entries that are wrong are left out; without any, it is never on.
        """
        name = shown(name).replace(",", " ")
        name = name if re.search("[A-Za-z]", name) else f"time {name}"
        good = [entry for entry in entries if self._may_say({"schedules": {name: [entry]}}, report, line)]
        self.schedules[name] = good or _ONCE
        zone = zone if zone and self._may_say({"timezone": zone}, report, line) else None
        if zone is None and self.timezone is None:
            why = "times are those of its machine's clock: write your own zone, such as Europe/Berlin, for UTC"
            report.warn(line, "timezone", why)
        elif zone is not None and self.timezone not in (None, zone):
            report.warn(line, zone, f"a policy has one time zone, which is {self.timezone}")
        self.timezone = self.timezone or zone or "UTC"
        return name

    def _may_say(self, setting: Mapping[str, Setting], report: ProblemReport, line: int) -> bool:
        """Whether a policy can have a time zone or schedules; if not, they are left out."""
        trial = ProblemReport(report.source)
        fields = MappingReader(read_document(flow_text(setting).encode(), trial) or YamlNode(1, {}), setting, trial)
        zone, schedules = read_timezone(fields), fields.node("schedules")
        if schedules is not None:
            read_schedules(schedules, zone, trial)
        for problem in trial.errors:
            report.leave_out(line, problem.what, problem.why)
        return not trial.errors

    def never(self) -> str:
        """The name of a schedule that is never on."""
        self.schedules[_NEVER] = _ONCE
        return _NEVER

    def outside(self, schedule: str) -> str:
        """The name of the schedule that is on while another is off."""
        name = f"outside {schedule}"
        if (inner := schedule.removeprefix("outside ")) in self.schedules and inner != schedule:
            return inner
        self.schedules.setdefault(name, [{"times": _WHOLE_DAY, "except": schedule}])
        return name

    def both(self, first: str | None, second: str | None) -> str | None:
        """The name of the schedule that is on while two are."""
        if first is None or second is None or first == second:
            return first or second
        if first == self.outside(second):
            return self.never()
        name = f"{first} and {second}"
        but = [self.outside(first), self.outside(second)]
        self.schedules.setdefault(name, [{"times": _WHOLE_DAY, "except": but}])
        return name

    def all_addresses(self) -> ImportedList:
        self.files[ADDRESSES] = b"0.0.0.0/0\n::/0\n"
        return ImportedList(ADDRESSES, "addresses", "Addresses in place of names")

    # -- its text ------------------------------------------------------------------------------------------------------

    def text(self, *, may_lack: bool = False) -> str:
        """The policy file; ``may_lack``: it can be used without the lists that are to be fetched."""
        return "\n".join(self._lines(may_lack=may_lack)) + "\n"

    def _lines(self, *, may_lack: bool) -> Iterator[str]:
        yield f"# Made by 'hushlist import' of {printable(self.path.name)}."
        full = [name for name, layer in self.layers.items() if layer.lists]
        for_all = [name for name in dict.fromkeys(self.everybody.layers) if name in full]
        schedules, others = dict(self.schedules), [name for name in full if name not in for_all]
        if others:
            schedules |= {_ALWAYS: [{"days": "mon-sun"}], _NEVER: _ONCE}
        if self.timezone:
            yield f"timezone: {flow_text(self.timezone)}"
        if schedules:
            yield "schedules:"
            yield from (f"  {flow_text(name)}: {flow_text(entries)}" for name, entries in schedules.items())
        yield from ("", "layers:", f"  - name: {_OVERRIDES}", f"    lists: [{_OVERRIDES}.yaml]")
        if others:
            # a comment for whoever reads "never"
            yield f"  # Of these, the ones that are asked '{_NEVER}' are for groups below, which say when."
        for name in (*for_all, *others):
            layer = self.layers[name]
            during = layer.during if name in for_all else _NEVER
            yield f"  - name: {flow_text(name)}"
            yield from ([f"    during: {flow_text(during)}"] if during else [])
            yield "    lists:" if any(not imported.command for imported in layer.lists) else "    # lists:"
            yield from (f"      {line}" for imported in layer.lists for line in imported.lines(may_lack=may_lack))
        yield ""
        yield from (f"{key}: {flow_text(value)}" for key, value in self.everybody.settings.items())
        if self.groups:
            yield from ("", "# The first group that fits is used.", "groups:")
        for group in self.groups:
            layers = [_OVERRIDES, *(self._use(name, for_all) for name in dict.fromkeys(group.layers) if name in full)]
            about = {"name": group.name, **group.who, "layers": layers, **group.settings}
            yield from (f"  {' ' if at else '-'} {key}: {flow_text(about[key])}" for at, key in enumerate(about))

    def _use(self, name: str, for_all: Iterable[str]) -> Setting:
        return name if name in for_all else {"name": name, "during": self.layers[name].during or _ALWAYS}

    # -- its folder ----------------------------------------------------------------------------------------------------

    def write(self, folder: Path, *, may_replace: bool = False) -> list[Problem]:
        """Write the folder, once the policy compiles; returns what compiling warns of, and the files that it replaces.

        Raises:
            HushlistError: the folder has something in it, and nothing may be replaced.
            SourceError: the policy cannot be used; nothing is written.
            OSError: it cannot be written.
        """
        if not may_replace and folder.is_dir() and any(folder.iterdir()):
            raise HushlistError(f"{folder}: it is not empty: name another folder, or replace files with --force")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
            made = Path(scratch) / "policy"
            for name, content in {**self.files, "policy.yaml": self.text(may_lack=True).encode()}.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                _put(content, made / name)
            try:
                compiled = compile_policy(made / "policy.yaml", cache=IndexCache(Path(scratch) / "cache"))
            except SourceError as error:
                raise SourceError(_renamed(error.problems, made, folder)) from error
            warnings = (warning for warning in compiled.report.warnings if not warning.source.endswith(ADDRESSES))
            problems = _renamed(dict.fromkeys(warnings), made, folder)
            compiled.let_go()
            (made / "policy.yaml").write_text(self.text(), encoding="utf-8")
            for file in sorted(file for file in made.rglob("*") if file.is_file()):
                target = folder / file.relative_to(made)
                if target.exists():
                    problems.append(Problem(str(target), 0, target.name, "replaced"))
                target.parent.mkdir(parents=True, exist_ok=True)
                file.replace(target)
        return problems


def _put(content: bytes | Path, target: Path) -> None:
    if isinstance(content, bytes):
        target.write_bytes(content)
        return
    with open_regular(content, LONGEST_LIST) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)
        check_length(copy.tell(), LONGEST_LIST, content)
    shutil.copymode(content, target)  # it may be private


def _renamed(problems: Iterable[Problem], made: Path, folder: Path) -> list[Problem]:
    """Problems with the names that the files get."""
    return [problem._replace(source=problem.source.replace(str(made), str(folder))) for problem in problems]


def by_network(clients: Iterable[tuple[str, _Who]]) -> Iterator[tuple[_Who, list[str]]]:
    """Who a network's clients are, and the networks, in an order in which the narrowest that fits is the first.

    >>> list(by_network([("10.0.0.0/8", "all"), ("10.0.0.7", "kids"), ("10.0.0.8", "kids")]))
    [('kids', ['10.0.0.7', '10.0.0.8']), ('all', ['10.0.0.0/8'])]
    """
    narrowest = sorted(clients, key=lambda pair: -ip_network(pair[0]).prefixlen)
    for who, pairs in groupby(narrowest, key=lambda pair: pair[1]):
        yield who, [network for network, _ in pairs]


def network_of(text: str) -> str | None:
    """An address or a network as policies have it, or ``None``; bits behind the prefix do not count.

    >>> network_of("10.0.0.7/8"), network_of("10.0.0.7/255.0.0.0"), network_of("aa:bb:cc:dd:ee:ff")
    ('10.0.0.0/8', '10.0.0.0/8', None)
    """
    try:
        network: IPv4Network | IPv6Network = ip_network(text.strip(), strict=False)
    except ValueError:
        return None
    return str(network) if network.num_addresses > 1 else str(network.network_address)


def networks_of(text: str, line: int, report: ProblemReport) -> list[str]:
    """An address, a network, or the networks of ``FIRST-LAST``; what is none of these is left out.

    >>> networks_of("10.0.0.4-10.0.0.9", 1, ProblemReport("f"))
    ['10.0.0.4/30', '10.0.0.8/31']
    """
    if network := network_of(text):
        return [network]
    trial = ProblemReport(report.source)
    networks = [str(rule.pattern) for rule in read_addresses(text.encode(), ListDefaults(), trial)]
    if not networks:
        report.leave_out(line, text, "it is no address, and no range of them")
    return networks


def clock(minutes: int) -> str:
    """Minutes since midnight as schedules have them."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def shown(text: str) -> str:
    """A name or a comment for people: printable, in one line, not too long."""
    return " ".join(printable(str(without_user(text))).split())[:80].strip()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "list"


def unique(name: str, taken: Iterable[str]) -> str:
    """A name that is not taken: with a number behind it, if need be."""
    taken, number, made = set(taken), 1, name
    while made in taken:
        number += 1
        made = f"{name}-{number}"
    return made
