"""Safe search and restricted modes: how a request is changed so that the service itself filters its results.

Each service has its own way: query parameters, a header, or another host. The client's own settings are removed in
every spelling.

>>> change = rewrite_for_safe_search(b"duckduckgo.com", b"/?%6bp=-2&q=x", {"duckduckgo": "strict"})
>>> change.target
b'/?q=x&kp=1'
>>> print(change)
DuckDuckGo, strict: kp=1 is set in the query (source: duck.co/help/features/safe-search)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.policy.safe_search_services import LEVELS, OFF, SERVICES, STRICT, Pairs, SafeSearchService
from hushlist.url.normalization import percent_decode_repeatedly, unescape_percent_u
from hushlist.url.request import target_forms


@dataclass(frozen=True, slots=True)
class RequestRewrite:
    """The changes to a request; as text for people, it quotes nothing of the request."""

    service: str
    #: "strict" or "moderate"
    level: str
    #: headers to set, replacing all of the same name
    headers: Pairs = ()
    #: the new target, path and query; ``None`` if unchanged
    target: bytes | None = None
    #: connect to this host; Host header and TLS server name stay, as if a CNAME record led there
    host: bytes | None = None

    def __str__(self) -> str:
        service = SERVICES[self.service]
        return f"{service.title}, {self.level}: {service.levels[self.level]} (source: {service.source})"


_BY_HOST = {host: service for service in SERVICES.values() for host in service.hosts}
_SUFFIXES = tuple(suffix for service in SERVICES.values() for suffix in service.suffixes)


def rewrite_for_safe_search(host: bytes, target: bytes, services: Mapping[str, str]) -> RequestRewrite | None:
    """The changes that a request needs, or ``None``.

    The host is canonical; the target is as sent. A service that is not in ``services`` is off. The request's headers
    are not known here, so a header is always set.

    >>> rewrite_for_safe_search(b"www.google.com", b"/search?q=x&safe=active&ssui=on", {"google": "strict"}) is None
    True
    """
    service = _BY_HOST.get(host)
    if service is None:
        if not host.endswith(_SUFFIXES):
            return None
        service = next(service for service in SERVICES.values() if host.endswith(service.suffixes))
    level = service.nearest(services.get(service.name, OFF))
    if level == OFF or not _is_search(service, target):
        return None
    setting = service.levels[level]
    asked = set_parameters(target, setting.parameters) if setting.parameters else target
    if asked == target and not setting.headers and setting.host is None:
        return None
    return RequestRewrite(service.name, level, setting.headers, None if asked == target else asked, setting.host)


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
    given = {place for place in range(0, len(pieces), 2) if _parameter_name(pieces[place]) in names}
    # Every server ends parameters at "&"; without ";", servers cannot disagree.
    if len(given) == len(wanted) and set(wanted) <= set(query.split(b"&")):
        return target
    rest = _without(pieces, given)
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


def _parameter_name(parameter: bytes) -> bytes:
    """The name as a service may read it: unescaped, without surrounding white space, in lower case.

    Only Chrome's code for Google says that case does not matter. For other services, this may remove a parameter that
    had no effect.
    """
    name = parameter.partition(b"=")[0]
    if b"%" in name:
        name = unescape_percent_u(percent_decode_repeatedly(name))
    return name.replace(b"+", b" ").strip().lower()


def read_safe_search(node: YamlNode, report: ProblemReport) -> Mapping[str, str]:
    """The level of each service in a policy; errors are in the report.

    One level is for all services; a list names strict ones; a mapping gives each its own. If all are to be moderate, a
    service without that level is strict; if a mapping gives it that level, it is an error.
    """
    if isinstance(node.value, dict):
        fields = MappingReader(node, SERVICES, report)
        chosen = {name: fields.choice(name, (*service.levels, OFF)) for name, service in SERVICES.items()}
        return {name: level for name, level in chosen.items() if level is not None}
    if isinstance(node.value, list):
        return {name: STRICT for item in node.value if (name := _service_name(item, report))}
    if node.value in LEVELS:
        return {name: service.nearest(str(node.value)) for name, service in SERVICES.items()}
    report.error(
        node.line,
        f"safe-search: {node.value}" if node.value else "safe-search",
        f"expected one of {', '.join(LEVELS)}, a list of services, or a mapping of services to levels",
    )
    return {}


def _service_name(node: YamlNode, report: ProblemReport) -> str | None:
    if isinstance(node.value, str) and node.value in SERVICES:
        return node.value
    report.error(node.line, f"safe-search: {node}", f"unknown service (known: {', '.join(SERVICES)})")
    return None
