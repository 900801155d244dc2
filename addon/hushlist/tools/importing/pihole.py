"""Pi-hole: ``gravity.db``, or a Teleporter archive of version 6, which has it.

Spec: docs.pi-hole.net, Domain database; Group management; Regular expressions. A record's id stands for its line.
"""

from __future__ import annotations

import lzma
import sqlite3
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from hushlist.core.errors import Problem, SourceError
from hushlist.core.lists.list_source import ListDefaults, ProblemReport
from hushlist.core.lists.patterns import read_name
from hushlist.core.system.files import LONGEST_WHOLE, check_length, open_regular, read_whole
from hushlist.extensions.formats.name_regexes import domains_of_regex, read_regex
from hushlist.extensions.formats.rule_maker import RuleMaker
from hushlist.tools.importing.imported_policy import (
    NO_ADDRESSES,
    ImportedList,
    ImportedPolicy,
    by_network,
    network_of,
    shown,
)

_Row = Mapping[str, object]
_Tables = dict[str, list[_Row]]
_TABLES = ("group", "adlist", "domainlist", "client", "adlist_by_group", "domainlist_by_group", "client_by_group")
#: steps of SQLite's machine, in thousands, and octets that a row takes besides its text: a broken file may have views
#: without an end
MOST_STEPS, _ROW = 500_000, 256
_MAY = dict.fromkeys((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ), sqlite3.SQLITE_OK)
_ALLOW_EXACT, _DENY_EXACT, _ALLOW_REGEX, _DENY_REGEX = range(4)
_DEFAULT_GROUP = 0

# -- files -------------------------------------------------------------------------------------------------------------


def read_pihole(path: Path) -> ImportedPolicy:
    """The policy of a Pi-hole; ``SourceError`` if the file is none of these, or broken."""
    policy, tables = ImportedPolicy(path), _Tables((table, []) for table in _TABLES)
    try:
        with open_regular(path) as file:
            head = file.peek(16)
            if head.startswith(b"SQLite format 3\0"):
                _read_database(path, tables)
            elif head.startswith(b"PK"):
                _read_members(policy, tables, zipfile.ZipFile(file))
            else:
                raise _bad(path, "expected gravity.db, or a Teleporter archive of version 6 (.zip)")
    except _BROKEN as error:
        raise _bad(path, f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not any(tables.values()):
        raise _bad(path, "there are no lists, domains or groups of Pi-hole in it")
    return _Reader(policy, tables).read()


_BROKEN = (
    *(OSError, EOFError, ValueError, RecursionError, RuntimeError, zlib.error),
    *(sqlite3.Error, lzma.LZMAError, zipfile.BadZipFile),
)


def _bad(path: Path, why: str) -> SourceError:
    return SourceError([Problem(str(path), 0, path.name, why)])


def _read_members(policy: ImportedPolicy, tables: _Tables, archive: zipfile.ZipFile) -> None:
    """Files that are known, by their names; nothing is unpacked to a place that the archive names."""
    for name in {"etc/pihole/gravity.db", "etc/pihole/pihole.toml"}.intersection(archive.namelist()):
        with archive.open(name) as member:
            octets = read_whole(member, LONGEST_WHOLE, policy.path)
        if name.endswith(".db"):
            with TemporaryDirectory() as folder:
                (Path(folder) / "gravity.db").write_bytes(octets)
                _read_database(Path(folder) / "gravity.db", tables)
            continue
        dns = tomllib.loads(octets.decode()).get("dns", {})
        if not isinstance(dns, dict) or not isinstance(dns.get("blocking", {}), dict):
            raise _bad(policy.path, "in pihole.toml, dns and dns.blocking are tables")
        for key in ("hosts", "cnameRecords"):
            if dns.get(key):
                policy.report(f"{policy.path.name}/pihole.toml").leave_out(0, f"dns.{key}", NO_ADDRESSES)
        if dns.get("blocking", {}).get("active") is False:
            policy.everybody.settings["mode"] = "off"


def _read_database(path: Path, tables: _Tables) -> None:
    """Every row of the tables. The file may be anybody's: it is not changed, and what it can cost is bounded."""
    steps, size = count(), 0
    database = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        database.row_factory = sqlite3.Row
        database.text_factory = lambda octets: octets.decode(errors="replace")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
        database.execute("PRAGMA trusted_schema = OFF")
        database.set_progress_handler(lambda: next(steps) > MOST_STEPS, 1000)
        database.set_authorizer(lambda action, *_: _MAY.get(action, sqlite3.SQLITE_DENY))
        for table in _TABLES:
            for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608  one of seven words
                tables[table].append(dict(row))
                size += _ROW + sum(len(value) for value in row if isinstance(value, str | bytes))
                check_length(size, LONGEST_WHOLE, path)
    finally:
        database.close()


# -- what is in them ---------------------------------------------------------------------------------------------------


def _number(row: _Row, key: str, without: int = -1) -> int:
    value = row.get(key, without)
    return value if isinstance(value, int) else without


def _text(row: _Row, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


class _Reader:
    """Makes layers of tables. Each set of Pi-hole's groups that some client is in becomes one group."""

    def __init__(self, policy: ImportedPolicy, tables: _Tables) -> None:
        self._policy, self._tables = policy, tables
        names = {_number(row, "id"): _text(row, "name") for row in tables["group"] if row.get("enabled", 1)}
        self._names = names if tables["group"] else {_DEFAULT_GROUP: "Default"}
        #: expressions that are more than domains, by their records
        self._regexes = dict[int, str]()
        #: the subscribed lists that were taken over, or left out
        self._seen = set[int]()

    def read(self) -> ImportedPolicy:
        policy = self._policy
        self._domains = {row_id: self._expressions(row) for row_id, row in self._enabled("domainlist")}
        groups = self._groups_of("client")
        clients = [
            (network, groups.get(_number(row, "id"), frozenset()))
            for row in self._tables["client"]
            if (network := self._network(row))
        ]
        policy.everybody.layers = self._layers(frozenset([_DEFAULT_GROUP]) & self._names.keys())
        for group_ids, networks in by_network(clients):
            name = " + ".join(self._names[group] for group in sorted(group_ids)) or "not filtered"
            policy.group(name, clients=networks).layers = self._layers(group_ids)
        if any(_number(row, "type") == 1 for _, row in self._enabled("adlist")):
            why = "where a subscribed allowlist and a denied domain are the same, the allowlist decides here"
            policy.report().warn(0, "adlist", why)
        return policy

    def _report(self, table: str) -> ProblemReport:
        return self._policy.report(f"{self._policy.path.name}/{table}")

    def _enabled(self, table: str) -> Iterator[tuple[int, _Row]]:
        return ((_number(row, "id"), row) for row in self._tables[table] if row.get("enabled", 1))

    def _network(self, row: _Row) -> str | None:
        text = _text(row, "ip")
        network = network_of(text)
        if network is None:
            why = "a client is known by its address here, not by a MAC address, a name or an interface"
            self._report("client").leave_out(_number(row, "id"), text, why)
        return network

    def _groups_of(self, table: str) -> dict[int, frozenset[int]]:
        """Record -> its groups that are enabled."""
        by_record: dict[int, set[int]] = {}
        for row in self._tables[f"{table}_by_group"]:
            if (group := _number(row, "group_id")) in self._names:
                by_record.setdefault(_number(row, f"{table}_id"), set()).add(group)
        return {key: frozenset(groups) for key, groups in by_record.items()}

    def _layers(self, groups: frozenset[int]) -> list[str]:
        """The layers of a set of groups.

        A regular expression that allows comes first. An exact domain that is allowed stands beside what is blocked,
        where the longest host decides: so hosts below it that a list names stay blocked.
        """
        if not groups:
            return []
        name = " + ".join(self._names[group] for group in sorted(groups))
        behind = "" if groups == {_DEFAULT_GROUP} else f" of {shown(name)}"
        policy, layers = self._policy, [f"allowed{behind}", f"lists{behind}"]
        if layers[1] in policy.layers:
            return layers
        by_group, by_kind = self._groups_of("domainlist"), [dict[str, str]() for _ in range(4)]
        for row_id, row in self._enabled("domainlist"):
            if self._domains[row_id] and by_group.get(row_id, frozenset()) & groups:
                by_kind[_number(row, "type", 9)].update(dict.fromkeys(self._domains[row_id], _text(row, "comment")))
        regexes = {
            text: None
            for row_id, row in self._enabled("domainlist")
            if (text := self._regexes.get(row_id, "")) and by_group.get(row_id, frozenset()) & groups
        }
        kinds = (
            *((_ALLOW_REGEX, 0, "allowed with subdomains", "allow"), (_ALLOW_EXACT, 1, "allowed", "allow")),
            *((_DENY_EXACT, 1, "denied", "block"), (_DENY_REGEX, 1, "denied with subdomains", "block")),
        )
        policy.layer(layers[1])
        for kind, at, title, action in kinds:
            policy.add_domains(layers[at], f"{title} (Pi-hole)", by_kind[kind], action, title + behind)
        if regexes:
            file = policy.file(f"denied by expressions{behind}", "".join(f"{text}\n" for text in regexes).encode())
            policy.layer(layers[1]).append(ImportedList(file, "pihole-regex", "denied by expressions (Pi-hole)"))
        by_group = self._groups_of("adlist")
        for row_id, row in self._enabled("adlist"):
            if by_group.get(row_id, frozenset()) & groups:
                address, is_first = _text(row, "address"), row_id not in self._seen
                self._seen.add(row_id)
                title = shown(_text(row, "comment")) or shown(address) or "list"
                action = "allow" if _number(row, "type") == 1 else "block"
                report = self._report("adlist") if is_first else ProblemReport("adlist")
                policy.subscribe(layers[1], address, title, action, report, row_id)
        return layers

    def _expressions(self, row: _Row) -> list[str]:
        report, line, text = self._report("domainlist"), _number(row, "id"), _text(row, "domain").strip()
        kind = _number(row, "type", 9)
        if kind not in range(4):
            report.leave_out(line, text, "its type is none of 0 to 3")
            return []
        domains, is_exact = [text], True
        if kind in (_ALLOW_REGEX, _DENY_REGEX):
            domains, is_exact = domains_of_regex(text)
        maker = RuleMaker(ListDefaults(), ProblemReport(""))
        if not domains and kind == _DENY_REGEX and any(True for _ in read_regex(maker, text, line)):
            self._regexes[line] = text
        elif not domains:
            report.leave_out(line, text, "no rule means exactly what this regular expression does")
        elif is_exact:
            does = "allows hosts below it, too, that no list names" if kind in (0, 2) else "blocks hosts below it, too"
            report.warn(line, text, f"taken over, and {does}")
        expressions = (read_name(domain.lower(), line, report) for domain in domains)
        return [str(expression).removesuffix("/") for expression in expressions if expression]
