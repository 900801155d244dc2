"""The index finds the rules that fit a request's canonical forms, in a file (``index_file``) mapped into memory.

The table of expressions has the SHA-256 of rules in the clear, and full hashes. There is another table for each length
of hash prefixes, for each key of sealed hashes, for each kind of hashed URI, and for address ranges. A rule in the
clear for a path below a host also puts a *guide* at the host's expression. So a request costs one look-up for each host
suffix. Paths are hashed only below a guide, or if there are rules that are hashes.

Invariants: a look-up never changes the index; rules with the same pattern keep the order of the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_network
from itertools import pairwise
from mmap import mmap
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, NamedTuple

from hushlist.core.errors import without_user
from hushlist.core.match.checks import Check, CheckedRequest, Hint
from hushlist.core.match.expressions import (
    DEEPEST_HOST,
    DEEPEST_PATH,
    deepest_folder,
    folders_above,
    full_hash,
    host_suffixes,
    suffixes_with_top_level,
)
from hushlist.core.match.index_file import (
    EXPRESSION_TABLE,
    EXPRESSIONS,
    FILTER_TABLE,
    FILTERED,
    GUIDE,
    NUMBER,
    OFFSET,
    RANGES,
    URI_TABLE,
    URL_TABLE,
    FileSection,
    IndexFile,
    IndexFileError,
    Read,
    decode_terms,
    hash_key,
    key_length,
    seal_of,
    table_key,
)
from hushlist.core.match.index_table import MARKS, IndexTable, Shape, TableRow, filter_length, first_bits
from hushlist.core.match.matcher import Matcher, matcher_of
from hushlist.core.match.rule import RUNGS, Action, Expression, ExpressionHash, Rule, Terms, WholeUrl
from hushlist.core.match.rule_match import Match
from hushlist.core.url.hashed_uri import (
    ALGORITHMS,
    HashedUri,
    HashKey,
    StringMemo,
    Target,
    matching_strings,
    plan_strings,
    sent_string,
    web_origin,
    web_strings,
)
from hushlist.core.url.host import parse_address
from hushlist.core.url.parts import Parts, to_bytes

if TYPE_CHECKING:
    from hushlist.core.match.seal import SealKey

#: the ``via`` of a hashed URI that fits no canonical form, but the URL as it was sent
AS_SENT = "as sent"
MOST_TERMS = 4096
#: folders in the cache, and octets of one
MOST_FOLDERS = 4096
_LONGEST_FOLDER = 256


_WHOLE_REQUEST = 1 << 33
_WHOLE_URI = 1 << 32
_ADDRESS_RANGE = -1


class Host(NamedTuple):
    """What the index says about a canonical host, for any path."""

    #: rules that fit the whole host
    matches: tuple[Match, ...]
    #: suffixes of the host, itself included, below which paths must be looked up
    suffixes: Sequence[bytes]
    #: those of them with rules in the clear for paths, and those whose expressions may be hashes
    guided: Sequence[bytes] = ()
    hashed: Sequence[bytes] = ()
    #: the guides' bits for the rules in the clear for paths: ``ALLOWING``, ``CATEGORIZED``, ``FILTERED``
    bits: int = 0
    name: bytes = b""

    @property
    def has_rules_below(self) -> bool:
        """Whether there are rules in the clear for paths, queries or whole URLs on the host or a domain above it."""
        return self.bits & FILTERED != 0 or bool(self.guided)


_NOTHING = Host((), ())


def _standard(host: Host, paths: Iterable[bytes]) -> set[bytes]:
    """The expressions of a host and its paths that may be hashes."""
    paths = tuple(paths)
    return {suffix + path for suffix in host.hashed for path in paths}


def find_checks(checks: Iterable[Rule], request: CheckedRequest) -> Iterator[Match]:
    """The checks that a request fails, with evidence."""
    for rule in checks:
        assert isinstance(rule.pattern, Check)
        evidence = rule.pattern.find(request)
        if isinstance(evidence, Hint):
            rule = rule._replace(terms=rule.terms._replace(action=Action.TAG))
        if evidence is not None:
            yield Match(rule, evidence, (_WHOLE_REQUEST, 0))


class RowTerms:
    """Reads the terms of rows, and keeps some. It knows no index, so that an index is gone with its last user."""

    def __init__(self, read: Read, sections: Sequence[FileSection], source: str) -> None:
        """``sections``: "parts", "offsets" and "terms"; the others are as those of ``IndexFile``."""
        self._read, self._sections, self._source = read, sections, source
        self._decoded: dict[tuple[int, int], tuple[bool, Terms]] = {}

    def of(self, row: TableRow) -> tuple[bool, Terms]:
        """Whether the row's rule is in the clear, and its terms."""
        terms = self._decoded.get((row.part, row.terms))
        if terms is None:
            terms = self.read(row)
            if len(self._decoded) >= MOST_TERMS:
                self._decoded.clear()
            self._decoded[row.part, row.terms] = terms
        return terms

    def read(self, row: TableRow) -> tuple[bool, Terms]:
        """What ``of`` gives, read anew."""
        parts, offsets, terms = self._sections
        try:
            (first,) = NUMBER.unpack(self._within(parts, row.part * NUMBER.size, NUMBER.size))
            both = self._within(offsets, (first + row.terms) * OFFSET.size, 2 * OFFSET.size)
            (start,), (end,) = OFFSET.iter_unpack(both)
            return decode_terms(self._within(terms, start, end - start))
        except (StructError, ValueError, TypeError, RecursionError) as error:
            raise IndexFileError(self._source, "the terms of a rule cannot be read") from error

    def _within(self, section: FileSection, start: int, length: int) -> bytes:
        """Octets of a section, from an offset in it; ``ValueError`` if they are outside of it."""
        if not 0 <= start <= start + length <= section.length:
            raise ValueError(f"{length} octets at {start} of {section.length}")
        return self._read(section.offset + start, length)


class Index(IndexFile):
    """Finds the rules that fit a request."""

    def __init__(self, octets: mmap | bytes, read: Read | None = None, source: str = "index") -> None:
        """The parameters are those of ``IndexFile``."""
        super().__init__(octets, read, source)
        #: of each key of sealed hashes that ``unseal`` got: its function, its fingerprint, its tables
        self._seals: tuple[tuple[Callable[[bytes], bytes], str, list[IndexTable]], ...] = ()
        #: host and folder -> the matches of the folder and of those above it
        self._folders: dict[tuple[bytes, bytes], Sequence[Match]] = {}
        try:
            line_now = self._line_numbers()
            tables = {name: self._table(name, shape, line_now) for name, shape in self.directory.tables.items()}
            #: tables of expressions that are not empty, the longest keys first
            names = (name for name, table in tables.items() if name.startswith(EXPRESSION_TABLE) and len(table))
            #: fingerprint of the key of sealed hashes -> those of its tables
            self._sealed: dict[str, list[IndexTable]] = {"": []}
            for name in sorted(names, key=key_length, reverse=True):
                self._sealed.setdefault(seal_of(name), []).append(tables[name])
            self._tables = tuple(self._sealed.pop(""))
            self._clear = tables[EXPRESSIONS]
            uris = {hash_key(name): table for name, table in tables.items() if name.startswith(URI_TABLE)}
            rungs = (name.removeprefix(URL_TABLE).lstrip() for name in tables if name.startswith(URL_TABLE))
            self._urls = [(rung, RUNGS[rung], tables[f"{URL_TABLE} {rung}"]) for rung in rungs]
            sections = [self.directory.sections[name] for name in ("parts", "offsets", "terms")]
            self._filter = self.mapped("filter")
        except (LookupError, ValueError) as error:
            raise IndexFileError(source, f"its tables cannot be read: {error}") from error
        self._terms = RowTerms(self._read, sections, source)
        self._terms_of = self._terms.of
        self._uri_kinds = tuple(dict.fromkeys(key.kind for key in uris))
        self._uri_plans = plan_strings(self._uri_kinds)
        #: the places and kinds of the strings that are compared as they were sent, too
        self._sent_kinds = [(place, kind) for place, kind in enumerate(self._uri_kinds) if kind.variant == "n"]
        by_algorithm: dict[str, list[tuple[int, HashKey, IndexTable]]] = {}
        for key, table in uris.items():
            by_algorithm.setdefault(key.algorithm, []).append((self._uri_kinds.index(key.kind), key, table))
        #: for each algorithm, the places of its kinds, and its tables of hashed URIs
        self._uris = [
            (tuple(kind for kind, _, _ in entry), ALGORITHMS[algorithm], entry)
            for algorithm, entry in by_algorithm.items()
        ]
        #: whether any rule is a hashed URI; whether any is for a whole URL
        self.has_uris, self.has_urls = bool(self._uris), bool(self._urls)
        self._every_table = tuple(tables.values())
        keys = sum(map(len, self._every_table))
        length = len(self._filter)
        if length < filter_length(keys) or length.bit_count() != 1:
            raise IndexFileError(source, "its filter is not as long as it says")
        self._filter_shift = 33 - length.bit_length()
        self._ranges = tables.get(RANGES)
        #: extension -> its filters, if there are some that do not only take back others
        self.filters = {entry: self._open_filters(entry, tables) for entry in self.directory.filter_lists}
        #: whether there are filters that may fit on any host
        self.has_general_filters = self.directory.has_general_filters
        self._deepest_host, self._deepest_path = self.directory.deepest_host, self.directory.deepest_path
        has_top_level = self.directory.has_top_level
        #: "a top-level name is a rule in the clear": it is looked up only if there is one
        self._suffixes_of = suffixes_with_top_level if has_top_level else host_suffixes
        self._has_standard_hosts = self._deepest_host == DEEPEST_HOST and not has_top_level
        self._has_hashes = self.directory.has_hashes or len(self._tables) > 1
        #: whether more may fit a host than rules in the clear
        self._has_more_for_hosts = bool(self._has_hashes or self._ranges or self.filters)

    def _line_numbers(self) -> Callable[[int, int], int] | None:
        """From a part and the number of a line when it was read to its number now; ``None`` if none has changed."""
        of_parts, runs = self.line_runs()
        if not runs:
            return None

        def line_now(part: int, line: int) -> int:
            # a guide is of no part
            return runs[of_parts[part] - 1].now(line) if part < len(of_parts) and of_parts[part] else line

        return line_now

    def _table(self, name: str, shape: Shape, line_now: Callable[[int, int], int] | None) -> IndexTable:
        sections = [self.directory.sections[f"{name} {section}"] for section in ("fan", "tails", "rows")]
        if shape.key != key_length(name) or [section.length for section in sections] != list(shape.lengths):
            raise IndexFileError(self.source, f"table {name!r} is not as long as it says")
        table = IndexTable(self._octets, self._read, shape, [section.offset for section in sections], line_now)
        if not table.is_consistent:
            raise IndexFileError(self.source, f"the fan-out of table {name!r} does not count its keys")
        return table

    def _open_filters(self, extension: str, tables: Mapping[str, IndexTable]) -> Matcher:
        lists, terms_of = self.directory.filter_lists[extension], self._terms_of

        try:
            table = tables[f"{FILTER_TABLE} {extension}"]

            def places_of(key: bytes) -> list[tuple[Terms, int]]:
                return [(terms_of(row)[1], row.line) for row in table.find(key)]

            return matcher_of(extension)(lambda name: self.mapped(f"{extension} {name}"), places_of, lists, self.source)
        except (LookupError, ValueError, TypeError) as error:
            raise IndexFileError(self.source, f"its filters cannot be read: {error}") from error

    def unseal(self, keys: Mapping[str, SealKey]) -> None:
        """Find sealed hashes, too, with the keys that fingerprints name; ``IndexFileError`` if one is not there."""
        for seal in self._sealed.keys() - keys.keys():
            raise IndexFileError(self.source, f"it is sealed, and its key {seal} is not given (--seal)")
        self._seals = tuple((keys[seal].sealer(), seal, tables) for seal, tables in self._sealed.items())

    def places(self) -> Iterator[tuple[Terms, int, bytes]]:
        """Every rule's terms, line and key in the index, in no particular order."""
        for table in self._every_table:
            for row in table:
                if row.terms != GUIDE:
                    yield self._terms_of(row)[1], row.line, row.key

    def terms_of_part(self, part: int) -> Iterator[tuple[bool, Terms]]:
        """All terms of a part's rules, and whether these are in the clear."""
        first, behind = NUMBER.iter_unpack(self.section("parts")[part * NUMBER.size :][: 2 * NUMBER.size])
        return (self._terms.read(TableRow(b"", part, 0, number)) for number in range(behind[0] - first[0]))

    def titles(self) -> dict[str, str]:
        """Source -> title, for lists that have one."""
        parts = [part for part, number in self._terms_by_part() if number]
        terms_of_parts = (self._terms_of(TableRow(b"", part, 0, 0))[1] for part in parts)
        return {terms.source: terms.title for terms in terms_of_parts if terms.title is not None}

    # -- finding ---------------------------------------------------------------------------------------------------

    def find(self, parts: Parts) -> list[Match]:
        """Matches of expressions and address ranges for a canonical URL."""
        host = self.on_host(parts.host or b"")
        return [*host.matches, *self.find_paths(host, parts.path, parts.query)]

    def on_host(self, name: bytes) -> Host:
        """The rules for a whole canonical host, and where paths must be looked up."""
        whole = self._suffixes_of(name, self._deepest_host, b"/")
        rows = self._rows(whole)
        if not rows and not self._has_more_for_hosts:
            return _NOTHING
        if self._has_more_for_hosts or GUIDE in [row.terms for _, row in rows]:
            return self._on_guided_host(name, whole, rows)
        return Host(tuple(self._matches(rows, whole)), (), name=name)

    def _on_guided_host(self, name: bytes, whole: Sequence[bytes], rows: Sequence[tuple[bytes, TableRow]]) -> Host:
        """``on_host`` where paths may have to be looked up, or more than rules in the clear."""
        has_hashes = self._has_hashes
        address = None if self._ranges is None else parse_address(name)
        of_filters: list[Match] = []
        if self.filters and name:
            of_filters = [match for filters in self.filters.values() for match in filters.on_host(name)]
        if not (rows or has_hashes or address or of_filters):
            return _NOTHING
        standard = whole if self._has_standard_hosts else host_suffixes(name, path=b"/")
        matches = self._find_standard(rows, standard)
        if self._ranges is not None and address is not None:
            matches += self._find_ranges(name, address, self._ranges)
        matches += of_filters
        bits = 0
        below: set[bytes] = set()  # "set[bytes]()" takes five times as long
        for expression, row in rows:
            if row.terms == GUIDE:
                bits |= row.line
                if not row.line & FILTERED:
                    below.add(expression)
        guided = [expression[:-1] for expression in whole if expression in below] if below else []
        deeper = hashed = [expression[:-1] for expression in whole] if has_hashes else guided
        if standard is not whole:
            deeper = [each[:-1] for each in whole if each in below or (has_hashes and each in standard)]
            hashed = [suffix for suffix in deeper if suffix + b"/" in standard]
        return Host(tuple(matches), deeper, guided, hashed, bits, name)

    def find_paths(self, host: Host, path: bytes, query: bytes | None) -> list[Match]:
        """Matches for a canonical path and query, without those for the whole host."""
        suffixes = host.suffixes
        if not suffixes:
            return []
        paths = [path + b"?" + query, path] if query else [path]
        if path == b"/":
            paths.pop()  # it is the whole host
        folder = deepest_folder(path, self._deepest_path)
        above = self._folders.get((host.name, folder)) if len(folder) > 1 else ()
        if above is None:
            return self._find_new_folder(host, paths, folder)
        rows = self._rows([suffix + path for suffix in suffixes for path in paths])
        if not (rows or above or self._seals):  # as mostly
            return []
        return [*self._find_standard(rows, _standard(host, paths)), *above]

    def find_queries(self, host: Host, queries: Iterable[bytes]) -> list[Match]:
        """Matches for the root of a host with each of some canonical queries, of which there may be many."""
        paths = [b"/?" + query for query in queries]
        rows = self._rows([suffix + path for suffix in host.suffixes for path in paths])
        return self._find_standard(rows, _standard(host, paths)) if rows or self._seals else []

    def _find_standard(self, rows: Iterable[tuple[bytes, TableRow]], standard: Collection[bytes]) -> list[Match]:
        """The matches of rows, and of sealed hashes for standard expressions."""
        matches = self._matches(rows, standard)
        return [*matches, *self._find_sealed(standard)] if self._seals else matches

    def _find_new_folder(self, host: Host, paths: Sequence[bytes], folder: bytes) -> list[Match]:
        """Matches for a path, for its folder and for those above it; these are remembered."""
        every = folders_above(folder)
        rows = self._rows([suffix + path for suffix in host.suffixes for path in (*paths, *every)])
        matches: list[Match] = []
        above: Sequence[Match] = ()
        if rows or self._seals:
            of_path = {suffix + path for suffix in host.suffixes for path in paths}
            matches = self._find_standard([row for row in rows if row[0] in of_path], _standard(host, paths))
            standard = _standard(
                host, [folder_above for folder_above in every if folder_above.count(b"/") <= DEEPEST_PATH + 1]
            )
            above = self._find_standard([row for row in rows if row[0] not in of_path], standard)
        if len(folder) <= _LONGEST_FOLDER:
            if len(self._folders) >= MOST_FOLDERS:
                self._folders.clear()
            self._folders[host.name, folder] = above
        return [*matches, *above]

    def clear_rules(self, expressions: Sequence[bytes]) -> tuple[dict[bytes, list[Rule]], set[bytes]]:
        """The rules in the clear for exactly these expressions; and the hosts below which some have paths."""
        rules: dict[bytes, list[Rule]] = {}
        guided: set[bytes] = set()
        unmarked, shift, marks = self._filter, self._filter_shift, MARKS
        near: list[tuple[bytes, bytes]] = []
        for expression in expressions:
            digest = sha256(expression).digest()
            first = first_bits(digest)[0]
            if not unmarked[first >> shift] & marks[first & 255]:
                near.append((expression, digest))
        for expression, part, line, number in self._clear.mapped(near):
            if number == GUIDE:
                guided.add(expression)
                continue
            is_clear, terms = self._terms_of(TableRow(b"", part, line, number))
            if is_clear:
                rules.setdefault(expression, []).append(Rule(Expression(expression), terms, line))
        return rules, guided

    def _rows(self, expressions: Iterable[bytes]) -> list[tuple[bytes, TableRow]]:
        """The rows of some expressions, each with its expression.

        Decisions spend most of their time in this loop, so it calls few functions.
        """
        unmarked, shift, marks = self._filter, self._filter_shift, MARKS
        near: list[tuple[bytes, bytes]] = []
        for expression in expressions:
            digest = sha256(expression).digest()
            first = first_bits(digest)[0]
            if not unmarked[first >> shift] & marks[first & 255]:
                near.append((expression, digest))
        if not near:
            return []
        return [(expression, row) for table in self._tables for expression, key in near for row in table.find(key)]

    def _find_sealed(self, standard: Iterable[bytes]) -> list[Match]:
        """The matches of sealed hashes for standard expressions; the same filter is in front of them."""
        unmarked, shift = self._filter, self._filter_shift
        matches: list[Match] = []
        for seal, fingerprint, tables in self._seals:
            for expression in standard:
                digest = seal(expression)
                first = first_bits(digest)[0]
                if not unmarked[first >> shift] & MARKS[first & 255]:
                    rows = [(expression, row) for table in tables for row in table.find(digest)]
                    matches += self._matches(rows, (expression,), fingerprint)
        return matches

    def _matches(
        self, rows: Iterable[tuple[bytes, TableRow]], standard: Collection[bytes], seal: str = ""
    ) -> list[Match]:
        """The matches of rows; a hash fits only one of the standard thirty expressions."""
        matches: list[Match] = []
        for expression, row in rows:
            if row.terms == GUIDE:
                continue
            is_clear, terms = self._terms_of(row)
            if is_clear or expression in standard:
                pattern = Expression(expression) if is_clear else ExpressionHash(row.key, seal)
                host = expression.index(b"/")
                matches.append(Match(Rule(pattern, terms, row.line), expression, (host, len(expression) - host)))
        return matches

    def _find_ranges(self, host: bytes, address: IPv4Address | IPv6Address, ranges: IndexTable) -> Iterator[Match]:
        for version, length in self.directory.ranges:
            if version == address.version:
                network = ip_network((address, length), strict=False)
                for row in ranges.find(table_key(network)[1]):
                    yield Match(Rule(network, self._terms_of(row)[1], row.line), host, (_ADDRESS_RANGE, length))

    def find_uris(
        self, uris: Iterable[Parts], memo: StringMemo | None = None, sent: Iterable[Parts] = ()
    ) -> list[Match]:
        """Hashed URIs that fit one of several URIs for the same resource; ``memo`` is that of ``matching_strings``.

        The URIs ``sent`` are compared as they stand: what fits only so has ``AS_SENT`` for its ``via``.
        """
        strings = matching_strings(uris, self._uri_kinds, memo)
        matches = self._find_strings(strings)
        for uri in sent:
            for place, kind in self._sent_kinds:
                string = sent_string(uri, kind)
                if string is not None and string not in strings[place]:
                    self._add_as_sent(matches, place, string)
        return matches

    def find_web_uris(
        self, scheme: bytes, name: bytes, port: int, targets: Sequence[Target], sent: Target | None = None
    ) -> list[Match]:
        """``find_uris``, but faster, for targets of the web by one plain name, without user and fragment."""
        origin = web_origin(scheme, name, port)
        strings = web_strings(origin, scheme, targets, self._uri_plans, len(self._uri_kinds))
        matches = self._find_strings(strings)
        if sent is not None and self._sent_kinds:
            path, query = sent
            bare = origin + path
            for place, (_, has_query, has_fragment) in self._sent_kinds:
                if has_fragment or (has_query and query is None):
                    continue
                string = bare if query is None or not has_query else bare + b"?" + query
                if string not in strings[place]:
                    self._add_as_sent(matches, place, string)
        return matches

    def _add_as_sent(self, matches: list[Match], place: int, string: bytes) -> None:
        """Add the hashed URIs of one kind that a string fits as it was sent, if it fits them only so."""
        strings: list[Sequence[bytes]] = [()] * len(self._uri_kinds)
        strings[place] = (string,)
        rules = {match.rule for match in matches}
        matches += [match._replace(via=AS_SENT) for match in self._find_strings(strings) if match.rule not in rules]

    def _find_strings(self, strings: Sequence[Sequence[bytes]]) -> list[Match]:
        """Hashed URIs of which one of their kind's strings is hashed."""
        unmarked, shift, marks = self._filter, self._filter_shift, MARKS
        near: dict[bytes, bytes] = {}
        matches: list[Match] = []
        last: tuple[int, ...] = ()
        wanted: Collection[bytes] = ()
        for kinds, digest_of, tables in self._uris:
            if kinds != last:
                last = kinds
                wanted = strings[kinds[0]] if len(kinds) == 1 else {text for kind in kinds for text in strings[kind]}
            for string in wanted:
                digest = digest_of(string)
                first = first_bits(digest)[0]
                if not unmarked[first >> shift] & marks[first & 255]:
                    near[string] = digest
            if near:
                for kind, key, table in tables:
                    for string in strings[kind]:
                        for row in table.find(near[string]) if string in near else ():
                            rule = Rule(HashedUri(key, row.key), self._terms_of(row)[1], row.line)
                            matches.append(Match(rule, to_bytes(without_user(string)), (_WHOLE_URI, len(string))))
                near = {}
        return matches

    def find_urls(self, host: Host, url: bytes) -> Iterator[Match]:
        """Rules for whole URLs that a URL as sent fits; of two rungs the lower one is more specific."""
        if not host.has_rules_below:
            return
        for rung, profile, table in self._urls:
            normal = profile.canonicalize(url)
            for row in table.find(full_hash(normal)):
                steps = ", ".join(change.step for change in profile.changes(url))
                via = f"rung {rung}, after {steps}" if steps else f"rung {rung}"
                rule = Rule(WholeUrl(normal, rung), self._terms_of(row)[1], row.line)
                above = len(RUNGS) - tuple(RUNGS).index(rung)
                yield Match(rule, to_bytes(without_user(normal)), (_WHOLE_URI + above, len(normal)), via)

    def categories(self) -> dict[str, set[Action]]:
        """The categories of all rules, and what these do; takes longer, the more different terms there are."""
        rows = (
            TableRow(b"", part, 0, number_of_terms)
            for part, number in self._terms_by_part()
            for number_of_terms in range(number)
        )
        actions: dict[str, set[Action]] = {}
        for row in rows:
            terms = self._terms.read(row)[1]
            if terms.category is not None:
                actions.setdefault(terms.category, set()).add(terms.action)
        return actions

    def _terms_by_part(self) -> Iterator[tuple[int, int]]:
        """Parts, and how many terms each has."""
        firsts = [first for (first,) in NUMBER.iter_unpack(self.section("parts"))]
        return enumerate(end - first for first, end in pairwise(firsts))
