"""Squid: the ``acl`` and ``http_access`` lines of ``squid.conf``, and of the files that it includes.

Lists become files in the format ``squid-acl``, addresses of clients become groups, and times become schedules.

Spec: http://www.squid-cache.org/Doc/config/acl/, .../http_access/ and .../include/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.system.files import LONGEST_DOCUMENT
from hushlist.tools.importing.imported_policy import (
    DAYS,
    ImportedGroup,
    ImportedList,
    ImportedPolicy,
    by_network,
    clock,
    network_of,
    networks_of,
    shown,
)

#: type of an access list -> the format of a file of it that is too long to be read here, and is copied as it is
_LISTS = {"dstdomain": "domains", "dst": "addresses", "dstdom_regex": "", "url_regex": "", "urlpath_regex": ""}
_TIME = re.compile(r"([0-2]?[0-9]):([0-5][0-9])-([0-2]?[0-9]):([0-5][0-9])")
#: a media type as an expression says it, and a size for everybody
_MIME = re.compile(r"\^?(application|audio|font|image|message|model|text|video|x-[a-z0-9-]+)/?([!#&_.+a-z0-9-]*)\$?")
_BODY_SIZE = re.compile(r"([0-9]{1,12})(?: (bytes|KB|MB|GB))?(?: allow)?(?: all)?", re.IGNORECASE)
_UNITS = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
#: Monday to Sunday
_DAYS = dict(zip("MTWHFAS", DAYS, strict=True))
_MOST_FILES, _DEEPEST, _MOST_NETWORKS = 1000, 16, 100_000
_EVERYBODY = ("0.0.0.0/0", "::/0")


@dataclass(slots=True)
class _Acl:
    """An access list: its type, and its lines in the format ``squid-acl``, networks, or times."""

    kind: str
    lines: list[str] = field(default_factory=list)
    #: files that are copied
    long: list[Path] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    times: list[dict[str, object]] = field(default_factory=list)
    #: whether a value could not be taken over, so that what is not in the list cannot be said
    lacks: bool = False
    schedule: str = ""


@dataclass(slots=True)
class _Access:
    """A line ``http_access``: for whom, when, and for which list it holds, but for other lists."""

    action: str
    clients: list[tuple[str, bool]] = field(default_factory=list)
    during: str | None = None
    entries: str = ""
    but: list[str] = field(default_factory=list)

    def holds(self, sources: frozenset[str]) -> bool:
        return all((name in sources) is is_in for name, is_in in self.clients)


def read_squid(path: Path) -> ImportedPolicy:
    """The policy of Squid's configuration; files are relative to its folder. ``SourceError`` if it cannot be read."""
    policy = ImportedPolicy(path)
    _Reader(policy).read()
    return policy


class _Reader:
    def __init__(self, policy: ImportedPolicy) -> None:
        self._policy = policy
        addresses = ("127.0.0.0/8", "0.0.0.0/32", "::1", "::")
        #: those that every configuration has
        self._acls = {
            "localhost": _Acl("src", networks=["127.0.0.0/8", "::1"]),
            "to_localhost": _Acl("dst", [f"acl to_localhost dst {address}" for address in addresses]),
            "manager": _Acl("proto"),
            "CONNECT": _Acl("method"),
        }
        self._access: list[_Access] = []
        self._last = "allow"
        self._files = 0

    def read(self) -> None:
        self._read(self._policy.path)
        used = {name for access in self._access for name, _ in access.clients}
        holders: dict[str, set[str]] = {}
        for name in used:
            for network in self._acls[name].networks:
                holders.setdefault(network, set()).add(name)
        if not self._policy.everybody.settings.get("files", True):
            del self._policy.everybody.settings["files"]
        self._rules(self._policy.everybody, frozenset())
        lengths = sorted({ip_network(network).prefixlen for network in holders})
        sources = ((network, _sources(network, holders, lengths)) for network in holders)
        for names, networks in by_network(sources):
            self._rules(self._policy.group(" + ".join(sorted(names)), clients=networks), names)

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _statements(self, path: Path) -> Iterator[tuple[int, str]]:
        """The lines without comments; a "\\" at the end of one continues it."""
        before, first = "", 0
        for line, text in self._policy.lines(path):
            first = first if before else line
            before += text
            if before.endswith("\\"):
                before = before[:-1] + " "
                continue
            if entry := re.sub(r"(^|\s)#.*", "", before).strip():
                yield first, entry
            before = ""

    def _read(self, path: Path, deep: int = 0) -> None:
        self._files += 1
        report = self._policy.report(path.name)
        for line, entry in self._statements(path):
            directive, *words = entry.split()
            if directive == "acl" and len(words) > 1:
                self._read_acl(words, path, line, report)
            elif directive == "http_access" and words:
                self._read_access(words, entry, line, report)
            elif directive == "include":
                self._include(words, path, line, deep)
            elif directive in ("url_rewrite_program", "redirect_program"):
                report.leave_out(line, entry, "import the configuration of that program, too")
            elif directive in ("http_reply_access", "reply_body_max_size") and words:
                self._read_reply(directive, words, entry, line, report)
            elif directive.endswith("_access"):
                report.tally(line, entry, f"{shown(directive)}, where only http_access says what may be fetched")

    def _include(self, names: list[str], path: Path, line: int, deep: int) -> None:
        report = self._policy.report(path.name)
        for name in (word.strip('"') for word in names):
            folder = Path(path.parent.absolute().anchor) if name.startswith("/") else path.parent
            for file in sorted(folder.glob(name.lstrip("/"))) if name.strip("/") else ():
                if deep >= _DEEPEST or self._files >= _MOST_FILES:
                    report.leave_out(line, str(file), "too many files are included")
                    return
                try:
                    self._read(file, deep + 1)
                except SourceError as error:
                    report.leave_out(line, str(file), error.problems[0].why)

    def _read_reply(self, directive: str, words: list[str], entry: str, line: int, report: ProblemReport) -> None:
        """Make rules for files of what is said of replies to everybody: one type that is denied, or a size."""
        files: list[dict[str, object]] = self._policy.everybody.settings.setdefault("files", [])  # type: ignore[assignment]
        if directive == "reply_body_max_size":
            match = _BODY_SIZE.fullmatch(" ".join(words))
            if match and (number := int(match[1]) * _UNITS[(match[2] or "bytes").lower()]):
                files.append({"larger-than": str(number), "for": "download"})
            elif words[0] != "none":
                report.leave_out(line, entry, "a size for some clients or sites, and not for all")
            return
        action, *names = words
        acl = self._acls.get(names[0]) if len(names) == 1 else None
        if action == "deny" and acl is not None and acl.kind == "rep_mime_type" and not acl.lacks:
            files.append({"types": [text.split()[-1] for text in acl.lines], "for": "download"})
        elif (action, names) != ("allow", ["all"]):
            report.leave_out(line, entry, "only one list of the type rep_mime_type can be denied")

    def _values(self, words: list[str], path: Path, line: int, acl: _Acl, report: ProblemReport) -> Iterator[str]:
        """The values behind the type, with those of files; what cannot be a value is left out."""
        for word in words:
            named = re.fullmatch(r'(?:parameters\()?"([^"]+)"\)?', word)
            if named is None:
                yield word
                continue
            file = path.parent / named[1]
            if file.is_file() and file.stat().st_size > LONGEST_DOCUMENT and _LISTS.get(acl.kind):
                acl.long.append(file)
                continue
            try:
                lines = list(self._policy.lines(file))
            except SourceError as error:
                report.leave_out(line, word, error.problems[0].why)
                acl.lacks = True
                continue
            for number, text in lines:
                value = re.sub(r"(^|\s)#.*", "", text).strip()
                if len(value.split()) > 1:
                    self._policy.report(file.name).leave_out(number, value, "a value with white space")
                    acl.lacks = True
                elif value:
                    yield value

    def _read_acl(self, words: list[str], path: Path, line: int, report: ProblemReport) -> None:
        name, kind, *rest = words
        acl = self._acls.setdefault(name, _Acl(kind))
        if acl.kind != kind:
            report.leave_out(line, name, f"it is of the type {acl.kind}")
            return
        if kind == "time":
            acl.times += self._times(rest, line, acl, report)
            return
        if kind == "rep_mime_type":
            for value in self._values([word for word in rest if word not in ("-i", "+i")], path, line, acl, report):
                mime = _MIME.fullmatch(value.lower().replace("\\", ""))
                if mime is None:
                    report.leave_out(
                        line, value, "an expression that is no media type, and no beginning such as ^video/"
                    )
                    acl.lacks = True
                else:
                    acl.lines.append(f"{mime[1]}/{mime[2] or '*'}")
            return
        if kind not in (*_LISTS, "src"):
            return  # what it is for is left out where it is used
        case = ""
        is_exact = False
        for value in self._values(rest, path, line, acl, report):
            if value in ("-i", "+i"):
                case = f"{value} "
            elif value in ("-n", "--"):
                continue
            elif kind == "src":
                networks = list(_EVERYBODY) if value in ("all", "any") else networks_of(value, line, report)
                acl.lacks |= not networks
                acl.networks += [network_of(network) or network for network in networks]
            else:
                acl.lines.append(f"acl {name} {kind} {case}{value}")
                is_exact |= kind == "dstdomain" and value[0] != "."
        if len(acl.networks) > _MOST_NETWORKS:
            report.leave_out(line, name, f"more than {_MOST_NETWORKS:,} networks of clients")
            acl.networks, acl.lacks = [], True
        if is_exact:
            report.warn(line, name, "a name without a dot in front stands for hosts below it, too")

    def _times(self, words: list[str], line: int, acl: _Acl, report: ProblemReport) -> Iterator[dict[str, object]]:
        days, spans = list[str](), list[str]()
        for word in words:
            if time := _TIME.fullmatch(word):
                start, last = int(time[1]) * 60 + int(time[2]), int(time[3]) * 60 + int(time[4]) + 1
                if start < last <= 24 * 60:
                    spans.append(f"{clock(start)}-{clock(last)}")
                    continue
            elif re.fullmatch("[SMTWHFAD]+", word):
                days += DAYS[:5] if "D" in word else ()
                days += [_DAYS[letter] for letter in word if letter != "D"]
                continue
            report.leave_out(line, word, "it is no time of a day")
            acl.lacks = True
            return
        if days or spans:
            yield {
                "days": list(dict.fromkeys(days)) or ["mon-sun"],
                "times": spans or ["00:00-24:00"],
            }

    # -- access --------------------------------------------------------------------------------------------------------

    def _read_access(self, words: list[str], entry: str, line: int, report: ProblemReport) -> None:
        if words[0] not in ("allow", "deny"):
            report.leave_out(line, entry, "it is neither allow nor deny")
            return
        self._last = words[0]
        access = _Access("block" if words[0] == "deny" else "allow")
        for word in words[1:]:
            name, is_in = word.removeprefix("!"), word[0] != "!"
            if name == "all" and is_in:
                continue
            acl = self._acls.get(name)
            if why := self._why_not(acl, access, is_in=is_in):
                report.leave_out(line, entry, f"{shown(word)}: {why}")
                return
            assert acl is not None
            if acl.kind == "src":
                access.clients.append((name, is_in))
            elif acl.kind == "time":
                acl.schedule = acl.schedule or self._policy.schedule(name, [*acl.times], report, line)
                when = acl.schedule if is_in else self._policy.outside(acl.schedule)
                access.during = self._policy.both(access.during, when)
            elif is_in:
                access.entries = name
            else:
                access.but.append(name)
        if access.but and (not access.entries or access.action == "allow"):
            report.leave_out(line, entry, "everything but a list: say first what is allowed, and then 'deny all'")
            return
        if access.but and self._acls[access.entries].long:
            report.leave_out(line, entry, "exceptions from a list that is too long to be read")
            return
        if access.but:
            why = "what it excepts is allowed, whatever later lines say; it is not excepted for whom the rest is denied"
            report.warn(line, entry, why)
        self._access.append(access)

    def _why_not(self, acl: _Acl | None, access: _Access, *, is_in: bool) -> str:
        """Why a line with such a list cannot be taken over."""
        if acl is None:
            return "there is no such access list"
        if acl.kind not in (*_LISTS, "src", "time"):
            return f"a policy knows nothing of the type {shown(acl.kind)}"
        if acl.lacks and not is_in:
            return "not all of what it excepts could be read"
        if acl.kind in _LISTS and is_in and access.entries:
            return "no rule fits where two lists do"
        if acl.kind in _LISTS and not is_in and (acl.kind != "dstdomain" or acl.long):
            return "only domains can be exceptions"
        if acl.kind == "time" and not acl.times:
            return "it names no time"
        return ""

    def _rules(self, group: ImportedGroup, sources: frozenset[str]) -> None:
        """The layers of a group, and what becomes of the rest: the first line that fits decides."""
        rest: str | None = None
        blocked: list[str | None] = []
        lists: list[tuple[_Access, str | None]] = []
        for access in self._access:
            if not access.holds(sources):
                continue
            when = self._policy.both(rest, access.during)
            if access.entries:
                lists.append((access, when))
                continue
            if access.action == "block":
                blocked.append(when)
            if access.during is None:
                break
            rest = self._policy.both(rest, self._policy.outside(access.during))
        else:
            # "If none of the access lines cause a match, the default is the opposite of the last line in the list"
            if self._last == "allow":
                blocked.append(rest)
        group.settings["default"] = "block" if blocked else "pass"
        if len(blocked) > 1 and None not in blocked:
            why = "the rest is blocked at several times, of which a policy has one; it is blocked always"
            self._policy.report().warn(0, group.name, why)
        elif blocked and None not in blocked:
            group.settings["default"] = {"action": "block", "during": blocked[0], "otherwise": "pass"}
        # before nothing but a block of all, no list needs to block
        while group.settings["default"] == "block" and lists and lists[-1][0].action == "block":
            lists.pop()
        # an exception is allowed, which it is not where the rest is blocked
        group.layers = [self._layer(access, when, () if blocked else access.but) for access, when in lists]

    def _layer(self, access: _Access, when: str | None, but: Sequence[str]) -> str:
        name = " but ".join([access.entries, *but])
        layer = f"{access.action} {shown(name)}" + (f" ({when})" if when else "")
        acl = self._acls[access.entries]
        if layer in self._policy.layers:
            return layer
        lines = [line for acl_name in (access.entries, *but) for line in self._acls[acl_name].lines]
        if but:
            lines.append(f"http_access deny {access.entries} {' '.join(f'!{acl_name}' for acl_name in but)}")
        parts: list[tuple[bytes | Path, str]] = [(content, _LISTS[acl.kind]) for content in acl.long]
        parts += [("".join(f"{line}\n" for line in lines).encode(), "squid-acl")] if acl.lines else []
        for content, form in parts:
            file = self._policy.file(name, content)
            self._policy.layer(layer, when).append(ImportedList(file, form, shown(name), access.action))
        return layer


def _sources(network: str, holders: dict[str, set[str]], lengths: Sequence[int]) -> frozenset[str]:
    """The lists of clients that a network is in, by itself or with a wider one.

    >>> holders = {"10.0.0.0/8": {"all"}, "10.9.0.0/28": {"kids"}, "10.9.0.1": {"me"}}
    >>> sorted(_sources("10.9.0.0/28", holders, [8, 28, 32]))
    ['all', 'kids']
    """
    narrow, sources = ip_network(network), set[str]()
    for length in lengths:
        if length <= narrow.prefixlen:
            wider = narrow.supernet(new_prefix=length)
            sources |= holders.get(str(wider) if wider.num_addresses > 1 else str(wider.network_address), set())
    return frozenset(sources)
