"""e2guardian: ``e2guardian.conf`` with its ``e2guardianfN.conf`` and lists, of version 5.

Spec: the comments in e2guardian's own configuration and lists, and the order of ``common.story``. Lists of sites and of
URLs are taken over, whatever looks into pages is not.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.system.files import LONGEST_DOCUMENT
from hushlist.tools.importing import imported_policy

_SETTING = re.compile(r"\s*(\w+)\s*=\s*(?:'([^']*)'|([^#\s]*))")
_INCLUDE = re.compile(r"\s*\.Include<([^>]*)>")
_DEFINE = re.compile(r"\s*\.Define\s+LISTDIR\s+<([^>]*)>")
_TIME = re.compile(r"#time:" + r"\s+([0-9]{1,2})" * 4 + r"\s+([0-6]*)\s*$")
_LISTDIR = "__LISTDIR__"
_MOST_GROUPS, _MOST_FILES, _DEEPEST, _MOST_ENTRIES = 99, 10_000, 16, 2_000_000
#: the lists in the order in which they are asked -> what their rules do
_ORDER = {
    **dict.fromkeys(("localexception", "localgrey"), "allow"),
    "localbanned": "block",
    **dict.fromkeys(("exception", "grey"), "allow"),
    "blanket": "block",
    "banned": "block",
}
#: kind of list -> its format here
_FORMATS = {"sitelist": "domains", "urllist": "squidguard-urls", "siteiplist": "addresses", "ipsitelist": "addresses"}
#: a list of expressions for URLs
_REGEXES = "regexpboollist"
_FORMATS[_REGEXES] = "squid-acl"
#: an expression that begins where a URL without its scheme does
_ANCHORED = re.compile(r"\^((?:\\.|\[\^?[^\]\[]+\]|[^|\\\[^])*)")
#: kind of list -> what of a file it names, and its entries; in version 4, the kind says what becomes of them
_FILE_LISTS = {"mimelist": "types", "fileextlist": "endings", "mimetypelist": "types", "extensionlist": "endings"}
_FILE_ENTRY = {
    "types": re.compile(r"[a-z0-9-]+/[!#$&^_.+a-z0-9-]+"),
    "endings": re.compile(r"\.?[^\s,;/\\.*?]+(?:\.[^\s,;/\\.*?]+)*"),
}
#: names of lists of searches -> what their rules do
_SEARCHES = {"banned": "block", "localbanned": "block", "override": "allow"}
#: list of clients -> what holds for them
_CLIENTS: dict[str, dict[str, object]] = {"exceptionclient": {"mode": "off"}, "bannedclient": {"default": "block"}}
#: what a group says where it says nothing itself, lest that of the first group holds
_FREE: dict[str, object] = {"default": "pass", "mode": "block"}
_MAPS = {"defaultusermap": "users", "ipmap": "clients", "portmap": "ports"}


@dataclass(slots=True)
class _ListText:
    """A file of a list: entries with their lines, in which times it holds, and the files that it includes."""

    path: Path
    during: str | None
    entries: list[tuple[int, str]] = field(default_factory=list)
    #: whether it is a long list of others, which is not read, but copied as it is
    is_long: bool = False


def read_e2guardian(path: Path) -> imported_policy.ImportedPolicy:
    """The policy of e2guardian; ``SourceError`` if its file, or that of its first group, cannot be read."""
    # what is named in a file is relative to that file, so that a name may be put together from several
    policy = imported_policy.ImportedPolicy(path.absolute())
    _Reader(policy).read()
    return policy


class _Reader:
    def __init__(self, policy: imported_policy.ImportedPolicy) -> None:
        self._policy = policy
        self._maps: dict[str, Path] = {}
        #: kind of list and file -> its layer
        self._layers: dict[tuple[str, Path], str] = {}
        self._files = self._entries = 0
        #: "The text between <> will replace occurrences of __LISTDIR__ in .conf and list files"
        self._listdir = str(policy.path.parent / "lists" / "common")

    def read(self) -> None:
        policy = self._policy
        main, folder = policy.path, policy.path.parent
        clients: dict[str, list[str]] = {}
        number = _MOST_GROUPS
        for line, key, value in self._settings(main):
            name, file = _list_named(value)
            if key == "filtergroups" and re.fullmatch("[1-9][0-9]?", value):
                number = int(value)
            elif name in _CLIENTS and key not in _FORMATS:
                addresses = [text for part in self._list(file, main, line) for text in self._networks(part)]
                clients.setdefault(name, []).extend(addresses)
            elif name in _MAPS:
                self._maps[_MAPS[name]] = file
            else:
                self._other(main, line, key, file)
        for who, networks in clients.items():
            if networks:
                policy.group(who, clients=networks).settings = {**_FREE, **_CLIENTS[who]}
        groups: dict[int, imported_policy.ImportedGroup] = {}
        for group_number in range(1, number + 1):
            file = folder / f"e2guardianf{group_number}.conf"
            if group_number > 1 and not file.is_file():
                break
            groups[group_number] = self._group(file, group_number)
        for group_number, key, values in self._members(groups):
            if group_number != 1 or key == "clients":
                made = policy.group(groups[group_number].name, **{key: values})
                made.layers, made.settings = groups[group_number].layers, {**_FREE, **groups[group_number].settings}
        if any("files" in group.settings for group in groups.values()):
            for group in (*policy.groups, *groups.values()):
                group.settings.setdefault("files", [])
        policy.everybody.layers, policy.everybody.settings = groups[1].layers, groups[1].settings

    # -- syntax --------------------------------------------------------------------------------------------------------

    def _report(self, path: Path) -> ProblemReport:
        return self._policy.report(path.name)

    def _settings(self, path: Path, deep: int = 0) -> Iterator[tuple[int, str, str]]:
        """Line, key and value of each setting; included files stand in their place."""
        self._files += 1
        for line, text in self._policy.lines(path):
            if define := _DEFINE.match(text):
                self._listdir = str(path.parent / define[1])
            elif include := _INCLUDE.match(text):
                if deep < _DEEPEST and self._files < _MOST_FILES:
                    yield from self._settings(path.parent / include[1], deep + 1)
            elif setting := _SETTING.match(text):
                value = setting[2] if setting[2] is not None else setting[3]
                yield line, setting[1], value.replace(_LISTDIR, self._listdir)

    def _list(self, path: Path, source: Path, line: int, deep: int = 0) -> list[_ListText]:
        """A list and all that it includes; ``source:line`` names it."""
        self._files += 1
        if deep > _DEEPEST or self._files > _MOST_FILES:
            self._report(source).leave_out(line, str(path), "too many files are included")
            return []
        part = _ListText(path, None)
        parts = [part]
        path = part.path = source.parent / path
        if path.is_file() and path.stat().st_size > LONGEST_DOCUMENT:
            part.is_long = True
            return parts
        try:
            lines = self._policy.lines(path)
        except SourceError as error:
            self._report(source).leave_out(line, str(path), error.problems[0].why)
            return []
        for number, text in lines:
            if include := _INCLUDE.match(text):
                parts += self._list(Path(include[1].replace(_LISTDIR, self._listdir)), path, number, deep + 1)
            elif time := _TIME.match(text):
                part.during = self._schedule(path, number, time)
            elif text.startswith("#time:"):
                self._report(path).leave_out(number, text, "it is no time of a day, so the list is always asked")
            elif (entry := text.partition("#")[0].strip()) and not text.startswith("#"):
                self._entries += 1
                if self._entries > _MOST_ENTRIES:
                    why = "too many entries, with all that is included"
                    raise SourceError([Problem(str(path), number, path.name, why)])
                part.entries.append((number, entry))
        return parts

    def _schedule(self, path: Path, line: int, time: re.Match[str]) -> str:
        """The schedule of a line such as ``#time: 9 0 17 0 01234``; its last minute is in it."""
        start, last = int(time[1]) * 60 + int(time[2]), int(time[3]) * 60 + int(time[4]) + 1
        days = [imported_policy.DAYS[int(day)] for day in time[5]]
        if not days or not start < last <= 24 * 60:
            self._report(path).leave_out(line, time[0], "it is no time of a day, so the list is never asked")
            return self._policy.never()
        span = f"{imported_policy.clock(start)}-{imported_policy.clock(last)}"
        return self._policy.schedule(
            f"{span} {' '.join(days)}", [{"days": days, "times": span}], self._report(path), line
        )

    def _networks(self, part: _ListText) -> Iterator[str]:
        for line, text in part.entries:
            yield from imported_policy.networks_of(text, line, self._report(part.path))

    def _members(self, groups: Container[int]) -> Iterator[tuple[int, str, list[str]]]:
        """Groups, "users", "clients" or "ports", and who of them is in it; narrow networks are before wide ones."""
        for key, path in self._maps.items():
            pairs: list[tuple[str, int]] = []
            for part in self._list(path, self._policy.path, 0):
                for line, entry in part.entries:
                    name, _, group = (text.strip() for text in entry.partition("="))
                    group = group.removeprefix("filter")
                    if not group.isdecimal() or len(group) > 2 or int(group) not in groups:
                        self._report(part.path).leave_out(line, entry, "there is no such group; it is as the first")
                        continue
                    names = (
                        imported_policy.networks_of(name, line, self._report(part.path)) if key == "clients" else [name]
                    )
                    pairs += [(member, int(group)) for member in names]
            if key == "clients":
                yield from ((number, key, networks) for number, networks in imported_policy.by_network(pairs))
            else:
                for number in dict.fromkeys(number for _, number in pairs):
                    yield number, key, [name for name, group_number in pairs if group_number == number]

    # -- groups --------------------------------------------------------------------------------------------------------

    def _group(self, path: Path, number: int) -> imported_policy.ImportedGroup:
        self._listdir = str(path.parent / "lists" / f"group{number}")
        group, layers = imported_policy.ImportedGroup(f"filter{number}"), {name: list[str]() for name in _ORDER}
        searches = dict[str, None]()
        for line, key, value in self._settings(path):
            name, file = _list_named(value)
            if key == "searchlist" and name in _SEARCHES:
                searches |= {
                    self._searches(name, number, part): None for part in self._list(file, path, line) if part.entries
                }
            elif key == "groupname" and value.strip():
                group.name = imported_policy.shown(value)
            elif key == "groupmode" and value in ("0", "2"):
                group.settings |= {"0": {"default": "block"}, "2": {"mode": "off"}}[value]
            elif key == "storyboard":
                self._storyboard(path.parent / value, group, layers)
            elif (what := _FILE_LISTS.get(key.removeprefix("banned").removeprefix("exception"))) is not None:
                self._use_files(group, what, name or key, self._list(file, path, line))
            elif name in layers and key in _FORMATS:
                for part in self._list(file, path, line):
                    if key == _REGEXES:
                        self._use_regexes(part)
                    else:
                        self._leave_out_blankets(part)
                    if part.entries or part.is_long:
                        layers[name].append(self._layer(name, key, part))
                if "grey" in name and layers[name]:
                    why = "what is grey passes here: nothing looks into pages"
                    self._report(path).tally(line, name, why)
            else:
                self._other(path, line, f"{key} {name}".strip(), file)
        group.layers = [*searches, *(layer for name in _ORDER for layer in layers[name])]
        return group

    def _use_files(
        self, group: imported_policy.ImportedGroup, what: str, name: str, parts: Iterable[_ListText]
    ) -> None:
        """Make lists of media types or endings rules for downloads; exceptions come first."""
        rules = [rule for rule in group.settings.get("files", ()) if isinstance(rule, dict)]  # type: ignore[attr-defined]
        for part in parts:
            values = []
            for line, text in part.entries:
                value = text.strip().lower()
                if _FILE_ENTRY[what].fullmatch(value):
                    values.append(value.removeprefix("."))
                else:
                    self._report(part.path).leave_out(line, text, "it is no media type, and no ending of a name")
            made: dict[str, object] = {what: values, "for": "download"}
            if part.during is not None:
                made["during"] = part.during
            if values and name.startswith("exception"):
                rules.insert(0, {**made, "action": "allow"})
            elif values:
                rules.append(made)
        if rules:
            group.settings["files"] = rules

    def _searches(self, name: str, number: int, part: _ListText) -> str:
        """The layer of a group's lists of searches, in which an override lifts what another list blocks."""
        label = f"searches of filter{number}" + (f" {part.during}" if part.during else "")
        self._add_list(label, part, "searches", _SEARCHES[name], dict(part.entries))
        return label

    def _layer(self, name: str, kind: str, part: _ListText) -> str:
        """The layer of one file of a list, with its time; groups share it."""
        if made := self._layers.get((name, part.path)):
            return made
        label = f"{name} {part.path.parent.name} {part.path.name}" + (f" {part.during}" if part.during else "")
        made = self._layers[name, part.path] = imported_policy.unique(label, self._policy.layers)
        lines = dict(part.entries)
        if kind != _REGEXES:  # a URL begins with its host
            lines = {at: re.sub(r"^(?:https?://)?(?:www\.)?|^\.", "", text) for at, text in lines.items()}
        self._add_list(made, part, _FORMATS[kind], _ORDER[name], lines)
        return made

    def _add_list(self, layer: str, part: _ListText, form: str, action: str, lines: dict[int, str]) -> None:
        """Give a layer a list of the lines of a file, which keep their numbers."""
        texts = (lines.get(at, "") for at in range(1, max(lines, default=0) + 1))
        content = part.path if part.is_long else "".join(f"{text}\n" for text in texts).encode()
        file = self._policy.file(f"{part.path.parent.name} {part.path.name}", content)
        entry = imported_policy.ImportedList(file, form, imported_policy.shown(part.path.name), action)
        self._policy.layer(layer, part.during).append(entry)

    def _use_regexes(self, part: _ListText) -> None:
        """Make expressions, which are compared with URLs without their scheme, lines of the format ``squid-acl``."""
        report, made = self._report(part.path), list[tuple[int, str]]()
        if part.is_long:
            report.leave_out(0, part.path.name, "a list of expressions that is too long")
            part.is_long = False
        for line, text in part.entries:
            anchored = _ANCHORED.fullmatch(text)
            if len(text.split()) > 1:
                report.leave_out(line, text, "an expression with white space")
            elif not anchored and re.search(r"(?<![\[\\])\^", text):
                report.leave_out(line, text, "an expression of which a part alone is for the beginning of a URL")
            else:
                regex = f"^[a-z]+://{anchored[1]}" if anchored else text
                made.append((line, f"acl e2guardian url_regex -i {regex}"))
        part.entries[:] = made

    def _leave_out_blankets(self, part: _ListText) -> None:
        """Take lines such as "**" out of a list: version 5 blocks what no list allows by a storyboard."""
        for line, text in part.entries:
            if text.startswith("*"):
                self._report(part.path).leave_out(line, text, "a blanket block, which version 5 has in a storyboard")
        part.entries[:] = [entry for entry in part.entries if not entry[1].startswith("*")]

    def _storyboard(self, path: Path, group: imported_policy.ImportedGroup, layers: dict[str, list[str]]) -> None:
        """Blanket blocks of version 5; other functions that a group has of its own are left out."""
        function = ""
        for part in self._list(path, path, 0)[:1]:
            for line, text in part.entries:
                if text.startswith("function("):
                    function = text[len("function(") :].rstrip(")")
                    if function != "checkblanketblock":
                        self._report(path).leave_out(line, text, "a function of its own is no part of a policy")
                elif function == "checkblanketblock" and text.endswith("setblock"):
                    if not text.startswith(("if(true", "if(siteisip")):
                        self._report(path).leave_out(line, text, "only blocks that always hold are taken over")
                    elif "siteisip" in text:
                        name = "addresses in place of names"
                        self._policy.layer(name)[:] = [self._policy.all_addresses()]
                        layers["blanket"].append(name)
                    else:
                        group.settings["default"] = "block"

    def _other(self, path: Path, line: int, key: str, file: Path) -> None:
        """Name a list that is no rule, if it has entries."""
        if "list" in key and (path.parent / file).is_file():
            number = sum(len(part.entries) for part in self._list(file, path, line))
            if number:
                why = f"a policy has no such list (entries: {number:,})"
                self._report(path).leave_out(line, f"{key}: {file.name}", why)


def _list_named(value: str) -> tuple[str, Path]:
    """The name and the file of a list; a setting that names none has a file alone.

    >>> _list_named("name=banned,messageno=500,path=/l/bannedsitelist")
    ('banned', PosixPath('/l/bannedsitelist'))
    """
    if not value.startswith("name="):
        return "", Path(value)
    parts = dict(part.strip().partition("=")[::2] for part in value.split(","))
    return parts["name"], Path(parts.get("path", ""))
