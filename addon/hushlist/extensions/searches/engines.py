"""Where people search: the table of engines and sites, ``engines.tsv``, and a policy's own rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import Reading, any_text, choice, list_of, names_of, of_node, schema_of_rows
from hushlist.core.policy.keys import Key
from hushlist.core.system.late_pattern import late_pattern

#: a country's ending
_ENDING = r"(?:com?\.|org\.|net\.)?[a-z]{2,3}"
#: what stands for what is typed, at the end of a path
TYPED = "{}"


class Place(NamedTuple):
    """Where a site says what was typed."""

    #: a canonical path, without a slash at the end; ``*`` at its end: and all that begin so
    path: str
    #: parameters of the query or of a form; empty: what follows the path
    keys: frozenset[bytes]


class Engine:
    """A site that can be searched, with all below its hosts; of one with ``=`` in front, with www alone."""

    def __init__(self, hosts: Sequence[str], places: Sequence[Place]) -> None:
        self._hosts, self._places = hosts, places
        #: the parameters with what is typed, at any of its places
        self.keys = frozenset(chain.from_iterable(place.keys for place in places))
        #: how paths begin that have what is typed at their end
        self.begins = tuple(place.path.encode() for place in places if not place.keys)
        #: labels of which each of its hosts has one, by which it is found without more
        self.labels = frozenset(map(_telling_label, hosts))

    @cached_property
    def _host(self) -> re.Pattern[bytes]:
        names = (
            (r"(?:www\.)?" if host.startswith("=") else r"(?:.+\.)?")
            + re.escape(host.lstrip("=").removesuffix(".*"))
            + rf"\.{_ENDING}" * host.endswith(".*")
            for host in self._hosts
        )
        return re.compile("|".join(names).encode())

    def has(self, host: bytes) -> bool:
        """Whether a canonical host is one of its hosts."""
        return self._host.fullmatch(host) is not None

    def has_place(self, path: bytes) -> bool:
        """Whether people search at a path."""
        return any(_fits(place, path) if place.keys else path.startswith(place.path.encode()) for place in self._places)

    def form_keys(self, path: bytes) -> Iterator[bytes]:
        """The fields of a form that is sent to a path, with what is typed."""
        return (key for place in self._places if place.keys and _fits(place, path) for key in place.keys)

    def typed(self, path: bytes, parameters: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """What was typed, as it stands in a path, or in the values of a query or a form; a page's name is not typed."""
        is_page = any(place.keys and not place.path.endswith("*") and _fits(place, path) for place in self._places)
        for place in self._places:
            if not place.keys:
                if not is_page and path.startswith(begin := place.path.encode()):
                    yield path[len(begin) :]
            elif _fits(place, path):
                yield from (value for name, value in parameters if name in place.keys)


def _telling_label(host: str) -> bytes:
    """The last label of a row's host that few other hosts have, as one of a country's registry, such as `co`, does not.

    >>> [_telling_label(host) for host in ("search.yahoo.co.jp", "google.*", "=www.ask.com", "ya.ru", "wiki")]
    [b'yahoo', b'google', b'ask', b'ya', b'wiki']
    """
    labels = host.lstrip("=").removesuffix(".*").encode().split(b".")
    labels = labels if host.endswith(".*") else labels[:-1] or labels
    return next((label for label in reversed(labels) if len(label) > 2), labels[-1])


def _fits(place: Place, path: bytes) -> bool:
    begin = place.path.removesuffix("*").encode()
    return (path.rstrip(b"/") or b"/") == begin or (place.path.endswith("*") and path.startswith(begin))


def engine_of(hosts: str, paths: str, keys: str) -> Engine:
    """An engine by the columns of its row, with commas between several.

    >>> engine = engine_of("a.example,b.*", "/find,/tag/{}", "q,text")
    >>> [engine.has(host) for host in (b"a.example", b"www.b.co.uk", b"xb.de")]
    [True, True, False]
    >>> list(engine.typed(b"/tag/x", [])), list(engine.typed(b"/find/", [(b"q", b"y"), (b"lang", b"de")]))
    ([b'x'], [b'y'])
    """
    key_names = frozenset(key.strip().lower().encode() for key in keys.split(",") if key.strip())
    places = (
        Place(path.removesuffix(TYPED), frozenset() if path.endswith(TYPED) else key_names) for path in paths.split(",")
    )
    return Engine(hosts.split(","), tuple(places))


@cache
def shipped_engines() -> tuple[Engine, ...]:
    """The rows of the table."""
    text = Path(__file__).with_name("engines.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(engine_of(hosts, paths, keys) for hosts, paths, keys, _ in rows)


class Engines:
    """The rows of a policy, and those of the table."""

    def __init__(self, rows: Iterable[Engine] = ()) -> None:
        #: label -> the engines of which each host has one, with their places in the table
        self._by_label = defaultdict[bytes, list[tuple[int, Engine]]](list)
        for place, engine in enumerate((*rows, *shipped_engines())):
            for label in engine.labels:
                self._by_label[label].append((place, engine))
        #: labels of which each host of an engine has one
        self.labels = frozenset(self._by_label)

    def of_host(self, host: bytes) -> list[Engine]:
        """Those with a canonical host, in the order of the table."""
        labels = host.split(b".")
        if self.labels.isdisjoint(labels):  # nearly every host
            return []
        near = dict(chain.from_iterable(self._by_label[label] for label in self.labels.intersection(labels)))
        return [engine for _, engine in sorted(near.items()) if engine.has(host)]


# -- rows of the policy ------------------------------------------------------------------------------------------------

_ROW_KEYS = (
    Key("host", any_text, is_required=True).says("its host, which stands for all below it, such as `wiki.example`"),
    Key("path", any_text, is_required=True).says("""the path of a search, such as `/find`; `*` at the end stands for any
        rest, and `{}` for what is typed"""),
    Key("keys", any_text).says("the parameters with what is typed, with commas between several: `q,text`"),
)
_HOST = late_pattern(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*(?:\.\*)?")
_PATH = late_pattern(r"/[!-)+-~]*(?:\*|\{\})?")


def _row(node: YamlNode, report: ProblemReport) -> Engine | None:
    fields = MappingReader(node, names_of(_ROW_KEYS), report)
    for key in ("host", "path"):
        fields.require(key, "search-forms")
    host = fields.converted("host", lambda text: text if _HOST.fullmatch(text) else None, "expected a host's name")
    path = fields.converted(
        "path", lambda text: text if _PATH.fullmatch(text) else None, "expected a path such as /find"
    )
    keys = fields.text("keys") or ""
    if path and bool(keys) == path.endswith(TYPED):
        fields.error("path", "what is typed stands in keys, or is the end of the path, as in /tag/{}", path)
        return None
    return engine_of(host, path, keys) if host and path else None


def _read_forms(node: YamlNode, reading: Reading) -> tuple[Engine, ...]:
    fields = MappingReader(YamlNode(node.line, {"search-forms": node}), ("search-forms",), reading.report)
    return tuple(engine for item in fields.items("search-forms") if (engine := _row(item, reading.report)) is not None)


SEARCH_FORMS = of_node(_read_forms, lambda: list_of(schema_of_rows(_ROW_KEYS, name="search-form")), _ROW_KEYS)
WORDS = choice(("lists", "on"))
