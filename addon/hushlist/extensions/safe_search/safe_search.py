"""Safe search and restricted modes: how a request is changed so that the service itself filters its results.

Each service has its own ways: another host, query parameters, a header or a cookie. A connection to a host that forces
safe search holds whatever is asked over it; the others are what the service reads. The client's own settings are
removed in every spelling.

>>> change = rewrite_for_safe_search(b"html.duckduckgo.com", b"/?%6bp=-2&q=x", {"duckduckgo": "strict"})
>>> change.target
b'/?q=x&kp=1'
>>> print(change)
DuckDuckGo, strict: kp=1 is set in the query (source: duck.co/help/features/safe-search)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import LOADER
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.core.policy.key_types import choice, list_of, of_node, schema_of_rows, schema_of_words
from hushlist.core.policy.keys import Key, Schema
from hushlist.core.url.normalization import parameter_name
from hushlist.core.url.request import target_forms

if TYPE_CHECKING:
    from hushlist.core.policy.groups import GroupSettings

STRICT, MODERATE, OFF = "strict", "moderate", "off"
LEVELS = (STRICT, MODERATE, OFF)

Pairs = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class SafeSearchSetting:
    """How a service is asked for one of its levels.

    >>> print(services()["youtube"].levels["moderate"])
    restrictmoderate.youtube.com is asked instead, the header YouTube-Restrict: Moderate is set
    """

    #: query parameters: name and value
    parameters: Pairs
    #: request headers: name and value
    headers: Pairs
    #: cookies: name and value
    cookies: Pairs
    #: another host to connect to; Host header and TLS server name stay, as if a CNAME record led there
    host: bytes | None

    def __str__(self) -> str:
        parts = [f"{_text(host)} is asked instead" for host in (self.host,) if host]
        parts += [f"{_text(b'='.join(pair))} is set in the query" for pair in self.parameters]
        parts += [f"the header {_text(b': '.join(pair))} is set" for pair in self.headers]
        parts += [f"the cookie {_text(b'='.join(pair))} is set" for pair in self.cookies]
        return ", ".join(parts)

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.host or self.parameters or self.headers or self.cookies)


@dataclass(frozen=True, slots=True)
class SafeSearchService:
    name: str
    #: its name for people
    title: str
    #: the document that describes it
    source: str
    #: its levels; each service has at least "strict"
    levels: Mapping[str, SafeSearchSetting]
    hosts: frozenset[bytes]
    #: those of them whose connections are led to another host
    led: frozenset[bytes]
    #: with a dot in front, subdomains are included
    suffixes: tuple[bytes, ...]
    #: canonical paths of searches, without a slash at the end; ``None``: every path counts; a host is led for all
    paths: frozenset[bytes] | None

    def nearest(self, level: str) -> str:
        """The level itself, or strict if the service does not have it: never less than the policy wants."""
        return level if level == OFF or level in self.levels else STRICT


def _text(octets: bytes) -> str:
    return octets.decode("ascii")


@dataclass(frozen=True, slots=True)
class RequestRewrite:
    """The changes to a request; as text for people, it quotes nothing of the request."""

    service: str
    #: "strict" or "moderate"
    level: str
    #: what is changed: parameters that the request has already are not among it
    way: SafeSearchSetting
    #: the new target, path and query; ``None`` if unchanged
    target: bytes | None

    def __str__(self) -> str:
        service = services()[self.service]
        return f"{service.title}, {self.level}: {self.way} (source: {service.source})"


def rewrite_for_safe_search(host: bytes, target: bytes, levels: Mapping[str, str]) -> RequestRewrite | None:
    """The changes that a request needs, or ``None``.

    The host is canonical; the target is as sent. A service that is not in ``levels`` is off. The request's headers
    are not known here, so headers and cookies are always set.

    >>> rewrite_for_safe_search(b"www.bing.com", b"/search?q=x&adlt=strict", {"bing": "strict"}).way.host
    b'strict.bing.com'
    >>> rewrite_for_safe_search(b"bing.com", b"/search?q=x&adlt=strict", {"bing": "strict"}) is None
    True
    """
    service = _service_of(host)
    level = OFF if service is None else service.nearest(levels.get(service.name, OFF))
    if service is None or level == OFF:
        return None
    way, rewritten = replace(service.levels[level], host=safe_host(host, levels)), target
    if not _is_search(service, target):
        way = replace(way, parameters=(), headers=(), cookies=())
    if way.parameters:
        rewritten = set_parameters(target, way.parameters)
    if rewritten == target:
        way = replace(way, parameters=())
    return RequestRewrite(service.name, level, way, None if rewritten == target else rewritten) if way else None


def safe_host(host: bytes, levels: Mapping[str, str]) -> bytes | None:
    """The host to connect to in place of a canonical one, whatever is asked; ``None`` if there is none.

    >>> safe_host(b"www.youtube.com", {"youtube": "moderate"})
    b'restrictmoderate.youtube.com'
    """
    service = _service_of(host)
    level = OFF if service is None or host not in service.led else service.nearest(levels.get(service.name, OFF))
    return None if service is None or level == OFF else service.levels[level].host


def why_decrypt(host: bytes, settings: GroupSettings) -> str | None:
    """Why connections to a canonical host have to be decrypted, for people: requests to it may need changes."""
    service = _service_of(host)
    changes = service is not None and settings.of("safe-search").get(service.name, OFF) != OFF
    return "safe search changes requests to" if changes else None


def _service_of(host: bytes) -> SafeSearchService | None:
    hosts, suffixes = _by_host()
    service = hosts.get(host)
    if service is None and host.endswith(suffixes):
        service = next(service for service in services().values() if host.endswith(service.suffixes))
    return service


def _is_search(service: SafeSearchService, target: bytes) -> bool:
    """Whether the path is one of a search, in any interpretation that the service may use."""
    if service.paths is None:
        return True
    return any(form.path.rstrip(b"/") in service.paths for form in target_forms(b"https", target).forms)


# A server may end a parameter at either: "&" is the form's separator, and ";" was once recommended, too.
# Spec: URL Standard, 5.1; HTML 4.01, B.2.2
_SEPARATOR = re.compile(rb"([&;])")


def set_parameters(target: bytes, parameters: Pairs) -> bytes:
    """The target with these parameters, each once with its value; the octets of all other parameters are unchanged.

    >>> set_parameters(b"/?SAFE=off;q=a+b&%73afe", ((b"safe", b"active"),))
    b'/?q=a+b&safe=active'

    What follows "#" is cut off: a request's target has no fragment, and a server may ignore parameters in it.

    Spec: RFC 9112, 3.2.1
    """
    if target[:1] != b"/":
        return target
    target, _, _ = target.partition(b"#")
    path, _, query = target.partition(b"?")
    wanted = [name + b"=" + value for name, value in parameters]
    names = {name for name, _ in parameters}
    pieces = _SEPARATOR.split(query)  # a parameter, a separator, a parameter, ...
    places = {place for place in range(0, len(pieces), 2) if parameter_name(pieces[place]) in names}
    # Every server ends parameters at "&"; without ";", servers cannot disagree.
    if len(places) == len(wanted) and set(wanted) <= set(query.split(b"&")):
        return target
    rest = _without(pieces, places)
    return path + b"?" + b"&".join([rest, *wanted] if rest else wanted)


def _without(pieces: list[bytes], places: set[int]) -> bytes:
    """The query without the parameters at some places; a separator remains at each, "&" if there was one."""
    kept: list[bytes] = []
    between = b""
    for place in range(0, len(pieces), 2):
        before = pieces[place - 1] if place else b""
        between = b"&" if b"&" in (between, before) else before
        if place not in places:
            kept += [between, pieces[place]] if kept else [pieces[place]]
            between = b""
    return b"".join(kept)


def set_cookies(lines: Iterable[bytes], cookies: Pairs) -> bytes:
    """The one Cookie header in place of a request's, with these cookies and all of the client's that have other names.

    >>> set_cookies([b"a=1; content_rating=255", b"Content%5frating=255;b=2"], ((b"content_rating", b"7"),))
    b'a=1; b=2; content_rating=7'

    A server may end a cookie at a comma, too.

    Spec: RFC 6265, 4.2.1; RFC 2965, 3.3.4
    """
    names = {name for name, _ in cookies}
    sent = (pair.strip() for line in lines for pair in line.split(b";"))
    kept = [pair for pair in sent if pair and names.isdisjoint(map(parameter_name, pair.split(b",")))]
    return b"; ".join([*kept, *map(b"=".join, cookies)])


def read_safe_search(node: YamlNode, report: ProblemReport) -> Mapping[str, str]:
    """The level of each service in a policy; errors are in the report.

    One level is for all services; a list names strict ones; a mapping gives each its own. If all are to be moderate, a
    service without that level is strict; if a mapping gives it that level, it is an error.
    """
    if isinstance(node.value, dict):
        fields = MappingReader(node, services(), report)
        chosen = {name: fields.choice(name, (*service.levels, OFF)) for name, service in services().items()}
        return {name: level for name, level in chosen.items() if level is not None}
    if isinstance(node.value, list):
        return {name: STRICT for item in node.value if (name := _service_name(item, report))}
    if node.value in LEVELS:
        return {name: service.nearest(str(node.value)) for name, service in services().items()}
    report.error(
        node.line,
        f"safe-search: {node.value}" if node.value else "safe-search",
        f"expected one of {', '.join(LEVELS)}, a list of services, or a mapping of services to levels",
    )
    return {}


def _service_name(node: YamlNode, report: ProblemReport) -> str | None:
    if isinstance(node.value, str) and node.value in services():
        return node.value
    report.error(node.line, f"safe-search: {node}", f"unknown service (known: {', '.join(services())})")
    return None


def _schema() -> Schema:
    """The services, each with its levels; the description of one is its strictest."""
    rows = (
        Key(name, choice((*service.levels, OFF))).says(f"{service.title}: {service.levels[STRICT]}")
        for name, service in services().items()
    )
    every = {"$name": "level", **schema_of_words(LEVELS)}
    of_all = {"anyOf": [every, list_of({"enum": list(services())}), schema_of_rows(rows)]}
    return {"$name": "safe-search", **of_all}


SAFE_SEARCH = of_node(lambda node, reading: read_safe_search(node, reading.report), _schema)


# -- the services ------------------------------------------------------------------------------------------------------


def _service(name: str, said: Mapping[str, Any]) -> SafeSearchService:
    """A service of ``safe_search_services.yaml``, which explains the keys."""
    domains = [*said.get("domains", ()), *(f"{name}.{top}" for top in said.get("top-levels", "").split())]
    domains += [f"www.{domain}" for domain in domains]
    hosts = (*said.get("hosts", ()), *domains)
    led = said.get("led", domains or hosts)
    return SafeSearchService(
        name,
        said["title"],
        said["source"],
        {level: _setting(said[level]) for level in (STRICT, MODERATE) if level in said},
        frozenset(map(str.encode, hosts)),
        frozenset(map(str.encode, led)),
        tuple(map(str.encode, said.get("suffixes", ()))),
        frozenset(map(str.encode, said["paths"])) if "paths" in said else None,
    )


def _setting(said: Mapping[str, Any]) -> SafeSearchSetting:
    parameters, headers, cookies = (
        tuple((name.encode(), value.encode()) for name, value in said.get(key, {}).items())
        for key in ("parameters", "headers", "cookies")
    )
    return SafeSearchSetting(parameters, headers, cookies, said["host"].encode() if "host" in said else None)


@cache
def services() -> Mapping[str, SafeSearchService]:
    """All services, by their names in a policy."""
    from importlib.resources import files

    text = files("hushlist.extensions.safe_search").joinpath("safe_search_services.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=LOADER)  # noqa: S506 - it is a safe loader
    return MappingProxyType({name: _service(name, said) for name, said in document.items()})


@cache
def _by_host() -> tuple[Mapping[bytes, SafeSearchService], tuple[bytes, ...]]:
    """The service of each host, and all suffixes."""
    listed = services().values()
    hosts = {host: service for service in listed for host in service.hosts}
    return hosts, tuple(suffix for service in listed for suffix in service.suffixes)
