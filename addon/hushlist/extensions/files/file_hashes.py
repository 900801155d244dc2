"""Hashes of whole files: lists of them, and what lists say of one.

A hash is looked up as an address that no file has (RFC 6761, 6.4), so that the same index, layers, categories and
explanations hold for it, and a list of hashes can be sealed or published by prefixes as any other:

>>> address_of("sha256", "ab" * 32)[:41]
'https://sha256.files.invalid/abababababab'
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import md5, sha1, sha256
from typing import Any

from hushlist.core.decide.decision import STOPPING
from hushlist.core.decide.engine import Engine
from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.core.match.rule import Expression, ExpressionHash, Rule
from hushlist.core.match.rule_match import Match
from hushlist.core.policy.groups import Client
from hushlist.core.url.request import request_of
from hushlist.extensions.files.content_coding import CodingError, Decoder, UnseenError
from hushlist.extensions.files.file_rules import FileRule, endings_wanted
from hushlist.extensions.files.member_scanner import NO_MEMBERS, Members, MemberScanner

#: digits of a hash -> its algorithm; that of lists that have several comes first
ALGORITHMS = {64: "sha256", 40: "sha1", 32: "md5"}
_MADE: dict[str, Any] = {"sha256": sha256, "sha1": sha1, "md5": md5}
_HOST = "files.invalid"
#: a hash, as ClamAV has it with a size and a name behind it (``.hdb``, ``.hsb``)
_ENTRY = re.compile(r"([0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})(?::(?:[0-9]+|\*):[^:]*(?::[0-9:]*)?)?")
_HASH = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}")


def host_of(algorithm: str) -> str:
    """The host below which the hashes of an algorithm are."""
    return f"{algorithm}.{_HOST}"


def address_of(algorithm: str, digest: str) -> str:
    return f"https://{host_of(algorithm)}/{digest}"


def expression_of(digest: str) -> Expression:
    """The expression of a rule for the file with a hash in hexadecimal."""
    return Expression(f"{host_of(ALGORITHMS[len(digest)])}/{digest.lower()}".encode())


def read_file_hashes(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Hashes of files, one a line, as ClamAV has them, or a table such as MalwareBazaar's: the longest of each record.

    Spec: https://bazaar.abuse.ch/export/; https://docs.clamav.net/manual/Signatures/HashSignatures.html

    >>> rules = read_file_hashes(b"44D88612FEA8A8F36DE82E1278ABB02F:68:Eicar", ListDefaults(), ProblemReport("f"))
    >>> [str(rule.pattern) for rule in rules]
    ['md5.files.invalid/44d88612fea8a8f36de82e1278abb02f']
    """
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        match = _ENTRY.fullmatch(entry)
        digest = match[1] if match else _longest(entry)
        if digest is None:
            report.leave_out(line, entry, "expected a hash of a file")
        else:
            yield Rule(expression_of(digest), terms, line)


def _longest(record: str) -> str | None:
    """The longest hash among the fields of a record, in the first of its columns; names of columns are none."""
    try:
        fields = next(csv.reader([record], skipinitialspace=True), [])
    except csv.Error:
        return None
    return max(filter(_HASH.fullmatch, map(str.strip, fields)), key=len, default=None)


class FileHasher:
    """The hashes of a body as it comes, and of what it is before its content coding: clients keep either.

    The members of an archive in either are seen, too.
    """

    def __init__(
        self,
        codings: str,
        algorithms: Iterable[str],
        endings: frozenset[str] | None = None,
        *,
        sees_members: bool = False,
    ) -> None:
        """``endings``: as a ``MemberScanner`` has them."""
        algorithms = tuple(algorithms)
        self._scanners = [MemberScanner(endings) for _ in range(1 + bool(codings))] if sees_members else []
        self._raw = [(name, _MADE[name](usedforsecurity=False)) for name in algorithms]
        self._decoded: list[tuple[str, Any]] = []
        self._decoder: Decoder | None = None
        #: why what it is without its coding is not known
        self.why_unseen = ""
        try:
            self._decoder = Decoder(codings) if codings else None
            self._decoded = [(name, _MADE[name](usedforsecurity=False)) for name in algorithms if codings]
        except CodingError as error:
            self.why_unseen = str(error)

    def take(self, octets: bytes) -> None:
        for _, made in self._raw:
            made.update(octets)
        for scanner in self._scanners[:1]:
            scanner.take(octets)
        if self._decoder is None:
            return
        try:
            for decoded in self._decoder.decode(octets):
                for _, made in self._decoded:
                    made.update(decoded)
                for scanner in self._scanners[1:]:
                    scanner.take(decoded)
        except CodingError as error:
            # behind an end, clients ignore what is no more of it: what was decoded is the file
            self._decoder = None
            self.why_unseen = str(error) if isinstance(error, UnseenError) else ""

    def has_news(self) -> bool:
        """Whether another member was seen since somebody has asked."""
        has_news = any(scanner.has_news for scanner in self._scanners)
        for scanner in self._scanners:
            scanner.has_news = False
        return has_news

    def members(self, *, is_end: bool = True) -> Members:
        """Those of the body in either way; ``is_end``: there is no more of it."""
        members = NO_MEMBERS
        for scanner in self._scanners:
            seen = scanner.end() if is_end else scanner.members
            why_unseen = members.why_unseen or seen.why_unseen
            members = Members((*members.names, *seen.names), members.kinds | seen.kinds, why_unseen)
        return members

    def digests(self) -> Iterator[tuple[str, str]]:
        """Algorithm and hash, in hexadecimal."""
        return ((name, made.hexdigest()) for name, made in (*self._raw, *self._decoded))


def algorithms_for(engine: Engine | None, client: Client) -> tuple[str, ...]:
    """SHA-256, and others that a list has, or may have where it is hidden."""
    if engine is None:
        return ("sha256",)
    others = (name for name in ("sha1", "md5") if engine.hosts.may_have_paths(host_of(name).encode(), client))
    return ("sha256", *others)


def listed_match(engine: Engine | None, client: Client, digests: Iterable[tuple[str, str]]) -> tuple[Match, ...]:
    """The match of a list that has one of a file's hashes, each with its algorithm, and would stop it; or none."""
    for name, digest in () if engine is None else digests:
        assert engine is not None
        said = engine.decide(request_of(address_of(name, digest).encode()), client=client)
        is_hash = said.winner is not None and isinstance(said.winner.rule.pattern, Expression | ExpressionHash)
        if said.action in STOPPING and said.winner is not None and is_hash:
            return (said.winner,)
    return ()


def hasher_for(engine: Engine | None, client: Client, rules: Sequence[FileRule], codings: str = "") -> FileHasher:
    """What sees all of a file that rules need to see."""
    algorithms = algorithms_for(engine, client) if any(rule.listed for rule in rules) else ()
    endings = endings_wanted(rules)
    return FileHasher(codings, algorithms, endings, sees_members=endings is not None)
