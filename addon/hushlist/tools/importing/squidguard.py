"""squidGuard: ``squidGuard.conf``, and what of ``ufdbGuard.conf`` is alike.

Spec: squidGuard, Configuring squidGuard; ufdbGuard's reference manual, where it says ``category`` for ``dest``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hushlist.core.errors import Problem, SourceError
from hushlist.tools.importing.imported_policy import ImportedGroup, ImportedList, ImportedPolicy, networks_of, shown

#: where the lists are, if the file does not say
_DBHOME = "/var/lib/squidguard/db"
#: what begins a statement whose rest of the line is no words of ours
_WHOLE_LINE = re.compile(r"\s*(redirect|errorredirect|log|logfile|execuserlist|ldap\w+|s@.*)(?=\s|$)")
_WORD = re.compile(r'([{}])|(?:(!)\s*+)?(?:"([^"]*)"|([^\s,{}"#!][^\s,{}"#]*+))|#.*')
_BLOCKS = {"dest": "dest", "destination": "dest", "category": "dest", "src": "src", "source": "src"}
_BLOCKS |= {"rew": "rew", "rewrite": "rew", "time": "time", "acl": "acl"}
_LISTS = {"domainlist": "domains", "urllist": "urls", "expressionlist": "expressions"}
_DAYS = {"s": "sun", "m": "mon", "t": "tue", "w": "wed", "h": "thu", "f": "fri", "a": "sat"}
#: what ends a line of names -> whether the rest is blocked
_REST = {"all": False, "any": False, "!none": False, "none": True, "!all": True, "!any": True}
_SPAN = re.compile(r"([0-2][0-9]:[0-5][0-9])\s*-\s*([0-2][0-9]:[0-5][0-9])")
_DATE = re.compile(r"([0-9]{4})[.-]([0-9]{2})[.-]([0-9]{2})(?:\s*-\s*([0-9]{4})[.-]([0-9]{2})[.-]([0-9]{2}))?(?!\S)")


class _Statement(NamedTuple):
    line: int
    words: list[str]


@dataclass(slots=True)
class _Block:
    """A declaration: its name, the schedule in which it holds, and its statements."""

    line: int
    kind: str
    name: str
    during: str | None
    statements: list[_Statement] = field(default_factory=list)


def read_squidguard(path: Path) -> ImportedPolicy:
    """The policy of squidGuard's configuration; relative names of lists are below its ``dbhome``.

    Raises:
        SourceError: the file cannot be read, or its braces do not match.
    """
    policy = ImportedPolicy(path)
    _Reader(policy).read()
    return policy


class _Reader:
    def __init__(self, policy: ImportedPolicy) -> None:
        self._policy, self._report = policy, policy.report()
        self._home = Path(_DBHOME)
        #: name of a time -> its schedule
        self._times: dict[str, str] = {}
        self._sources: dict[str, tuple[str | None, dict[str, list[str]] | None]] = {}
        self._destinations: dict[str, tuple[str | None, list[ImportedList]]] = {}
        self._access: list[_Block] = []

    def read(self) -> None:
        for block in self._blocks():
            getattr(self, f"_read_{block.kind}")(block)
        self._use_access()

    # -- syntax --------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[_Block]:
        """The declarations, in their order; those within ``acl`` one by one, of the kind "access"."""
        is_in_acl, block, last = False, None, None
        words: list[str] = []
        for line, word in self._words():
            if word == "{" and words == ["acl"] and block is None:
                is_in_acl = True
            elif word == "{" and block is None:
                block = self._begin(line, words, last, is_access=is_in_acl)
            elif word == "{":
                raise self._broken(line, "'{' within a block")
            elif word in ("}", "") and block is not None:
                block.statements += [_Statement(line, words)] if words else []
            elif word == "" and words and not is_in_acl and words[0] not in (*_BLOCKS, "else"):
                self._setting(line, words)
            elif word != "}":
                words += [word] if word else []  # a brace may be in the next line
                continue
            words = []
            if word == "}" and block is not None:
                yield block
                block, last = None, block
            elif word == "}" and not is_in_acl:
                raise self._broken(line, "'}' without '{'")
            elif word == "}":
                is_in_acl = False
        if block is not None or is_in_acl:
            raise self._broken(0, "a '}' is missing at the end")

    def _words(self) -> Iterator[tuple[int, str]]:
        """Words and braces with their lines; an empty word ends each line."""
        for line, text in self._policy.lines(self._policy.path):
            yield from ((line, word) for word in _words(text))
            yield line, ""

    def _broken(self, line: int, why: str) -> SourceError:
        return SourceError([Problem(str(self._policy.path), line, "block", why)])

    def _begin(self, line: int, head: list[str], last: _Block | None, *, is_access: bool) -> _Block:
        """A block by the words in front of its brace."""
        if head[:1] == ["else"] and last is not None:
            during = None if last.during is None else self._policy.outside(last.during)
            return _Block(line, last.kind, last.name, during)
        kind = "access" if is_access else _BLOCKS.get(head[0] if head else "", "rew")
        rest = head if is_access else head[1:]
        return _Block(line, kind, shown(rest[0]) if rest else "", self._during(line, rest[1:]))

    def _during(self, line: int, words: list[str]) -> str | None:
        """The schedule of ``within T`` or ``outside T``."""
        if len(words) < 2 or words[0] not in ("within", "outside"):
            return None
        if words[1] not in self._times:
            self._report.leave_out(line, " ".join(words), "there is no such time; what it says is taken to hold always")
            return None
        name = self._times[words[1]]
        return name if words[0] == "within" else self._policy.outside(name)

    def _setting(self, line: int, words: list[str]) -> None:
        if words[0] == "dbhome" and len(words) > 1:
            self._home = self._policy.path.parent / words[1]
        elif words == ["safe-search", "on"]:
            self._policy.everybody.settings["safe-search"] = "strict"
        elif words[0] not in ("logdir", "else"):
            self._report.tally(line, " ".join(words), f"a setting {shown(words[0])!r}")

    # -- declarations --------------------------------------------------------------------------------------------------

    def _read_rew(self, block: _Block) -> None:
        self._report.leave_out(block.line, block.name, "rewriting: see safe-search for what is often meant by it")

    def _read_time(self, block: _Block) -> None:
        """Days and times, or dates and times."""
        entries: list[dict[str, object]] = []
        for line, words in block.statements:
            text = " ".join(words[1:])
            spans = [f"{start}-{end}" for start, end in _SPAN.findall(text)]
            times: dict[str, object] = {"times": spans} if spans else {}
            days = _SPAN.sub("", text).split()
            dates = [_date(*parts) for parts in _DATE.findall(text)]
            if words[0] == "weekly" and (named := _days(days)) is not None:
                entries.append({**({"days": named} if named else {}), **(times or ({} if named else _WHOLE))})
            elif words[0] == "date" and dates and not _DATE.sub("", _SPAN.sub("", text)).strip():
                entries.append({"dates": dates, **times})
            else:
                self._report.leave_out(line, " ".join(words), "a schedule has no such days or dates")
        if entries:
            self._times[block.name] = self._policy.schedule(block.name, list(entries), self._report, block.line)

    def _read_src(self, block: _Block) -> None:
        """Addresses and users, both of which have to fit."""
        who: dict[str, list[str]] = {}
        for line, words in block.statements:
            word, rest = words[0], words[1:]
            if word in ("iplist", "userlist") and rest:
                file = self._home / rest[0]
                lines = self._entries(file, line)
                rest = [text.partition(":")[0] for text in lines] if word == "userlist" else lines
            if word in ("ip", "ipv4", "ipv6", "iplist"):
                clients = who.setdefault("clients", [])
                clients += [network for text in rest for network in networks_of(text, line, self._report)]
            elif word in ("user", "userlist"):
                who.setdefault("users", []).extend(rest)
            elif word in ("within", "outside"):
                block.during = self._policy.both(block.during, self._during(line, words))
            elif word not in ("log", "logfile"):
                why = "whom this means is not known here; so the whole source is left out, and 'default' holds for it"
                self._report.leave_out(line, " ".join(words), why)
                self._sources[block.name] = (None, None)
                return
        if not who or not all(who.values()):
            self._report.leave_out(block.line, block.name, "it names nobody that is known here")
        members = who if who and all(who.values()) else None
        self._sources.setdefault(block.name, (block.during, members))

    def _entries(self, file: Path, line: int) -> list[str]:
        try:
            lines = [text.partition("#")[0].strip() for _, text in self._policy.lines(file)]
        except SourceError as error:
            self._report.leave_out(line, str(file), error.problems[0].why)
            return []
        return [text for text in lines if text]

    def _read_dest(self, block: _Block) -> None:
        """The lists of a destination, copied into a folder of its own."""
        folder = self._policy.folder(block.name)
        files: dict[str, bytes | Path] = {}
        for line, words in block.statements:
            name = _LISTS.get(words[0])
            if words[0] in ("within", "outside"):
                block.during = self._policy.both(block.during, self._during(line, words))
            elif name is None or len(words) < 2 or words[-1] == "-":
                if words[0] not in ("log", "logfile"):
                    self._report.tally(line, " ".join(words), _KINDS.get(words[0], f"'{shown(words[0])}'"))
            elif not (self._home / words[-1]).is_file():
                self._report.leave_out(line, words[-1], f"there is no such file in {self._home}")
            elif name == "expressions":
                number = len(self._entries(self._home / words[-1], line))
                if number:
                    why = f"no rule is a regular expression (there are {number:,} in it)"
                    self._report.leave_out(line, words[-1], why)
            else:
                files[f"{folder}/{name}"] = self._home / words[-1]
        if any(name.endswith("/urls") for name in files):
            why = "of a path, the page and the folder are rules, not all that begins like it, and on all hosts below"
            self._report.warn(block.line, block.name, why)
        self._policy.files.update(files)
        lists = [ImportedList(folder, "squidguard", block.name, "block")] if files else []
        self._destinations.setdefault(block.name, (block.during, lists))

    def _read_access(self, block: _Block) -> None:
        self._access.append(block)

    # -- access --------------------------------------------------------------------------------------------------------

    def _use_access(self) -> None:
        policy = self._policy
        defaults = [block for block in self._access if block.name == "default"]
        everybody = policy.everybody
        self._pass(everybody, defaults, None)
        for name, (during, who) in self._sources.items():
            blocks = [block for block in self._access if block.name == name]
            if who and blocks:
                group = policy.group(name, **who)
                self._pass(group, blocks, during)
                # at other times it is unknown, for which "default" holds
                times = [during] if _is_whole(blocks) else [policy.both(during, block.during) for block in blocks]
                if None not in times:
                    self._pass(group, defaults, self._outside_all(times))
                if "default" in everybody.settings:
                    group.settings.setdefault("default", "pass")
        sources = {*self._sources, "default"}
        for block in self._access:
            if block.name not in sources:
                self._report.leave_out(block.line, block.name, "there is no such source")

    def _outside_all(self, times: list[str | None]) -> str | None:
        schedule = None
        for during in times:
            schedule = self._policy.both(schedule, self._policy.outside(during)) if during else schedule
        return schedule

    def _pass(self, group: ImportedGroup, blocks: list[_Block], during: str | None) -> None:
        """Layers for what is passed and what is not, in the order of their names: the first that fits decides."""
        for block in blocks:
            when = self._policy.both(during, block.during)
            for line, words in block.statements:
                if words[0] != "pass":
                    why = "what is blocked gets the page of Hushlist" if words[0] == "redirect" else "it says no rule"
                    self._report.tally(line, " ".join(words), why)
                    continue
                for word in words[1:]:
                    if word in _REST:
                        if _REST[word]:
                            self._block_rest(group, when, line)
                        break
                    group.layers += self._layer(line, word, when)

    def _block_rest(self, group: ImportedGroup, when: str | None, line: int) -> None:
        before = group.settings.get("default")
        if when is None:
            group.settings["default"] = "block"
        elif before is None:
            group.settings["default"] = {"action": "block", "during": when, "otherwise": "pass"}
        elif before != "block":
            why = "the rest is blocked at two times, of which a policy has one; it is blocked always"
            self._report.warn(line, "none", why)
            group.settings["default"] = "block"

    def _layer(self, line: int, word: str, when: str | None) -> list[str]:
        """The layer of a destination; ``!`` in front of it means that it is blocked."""
        name, action = word.removeprefix("!"), "block" if word.startswith("!") else "allow"
        if name == "in-addr":
            originals = [self._policy.all_addresses()]
            during: str | None = None
        elif name in self._destinations:
            during, originals = self._destinations[name]
        else:
            self._report.leave_out(line, word, "there is no such destination")
            return []
        if not originals:
            return []
        during = self._policy.both(when, during)
        layer = f"{action} {name}" + (f" ({during})" if during else "")
        if layer not in self._policy.layers:
            lists = self._policy.layer(layer, during)
            lists += [ImportedList(original.file, original.format, original.title, action) for original in originals]
        return [layer]


_KINDS = {
    "redirect": "what is blocked gets the page of Hushlist",
    "rewrite": "rewriting",
    "dnsbl": "a blocklist that DNS is asked for",
}
_WHOLE: dict[str, object] = {"times": "00:00-24:00"}


def _is_whole(blocks: list[_Block]) -> bool:
    """Whether one block holds while the others do not: it is their ``else``."""
    during = {block.during for block in blocks}
    return any(f"outside {schedule}" in during for schedule in during)


def _words(text: str) -> Iterator[str]:
    """The words of a line; of some statements, the first alone."""
    if whole := _WHOLE_LINE.match(text):
        yield whole[1]
        if text.rstrip().endswith(" }"):
            yield "}"
        return
    for brace, no, quoted, word in _WORD.findall(text):
        if brace or quoted or word:
            yield brace or no + (quoted or word)


def _days(words: list[str]) -> list[str] | None:
    """Days as schedules have them: none for all, ``None`` where there is something else."""
    if words in (["*"], []):
        return []
    if len(words) == 1 and re.fullmatch("[smtwhfa]+", words[0]) and words[0] not in ("mon", "sat", "fri"):
        return [_DAYS[letter] for letter in words[0]]
    names = [word.lower()[:3] for word in words]
    return names if all(name in _DAYS.values() for name in names) else None


def _date(*parts: str) -> str:
    first, last = "-".join(parts[:3]), "-".join(parts[3:])
    return f"{first}..{last}" if parts[3] else first
