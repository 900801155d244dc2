"""Safe search and restricted modes: how a request is changed so that the service itself filters what it answers.

Each service says how it wants to be asked: by parameters of the query, by a header, or at another host. Whatever the
client asks for itself is taken out, in every spelling.

>>> change = rewrite(b"duckduckgo.com", b"/?%6bp=-2&q=x", {"duckduckgo": "strict"})
>>> change.target
b'/?q=x&kp=1'
>>> print(change)
DuckDuckGo, strict: kp=1 is set in the query (source: duck.co/help/features/safe-search)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hushlist.lists.document import Fields, Node
from hushlist.lists.source import Report
from hushlist.policy.services import LEVELS, OFF, SERVICES, STRICT, Pairs, Service
from hushlist.url.path import unescape_percent_u
from hushlist.url.percent import unescape_repeatedly
from hushlist.url.request import target_forms

__all__ = ["SERVICES", "Rewrite", "Service", "read_safe_search", "rewrite", "set_parameters"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is changed in a request; prints as that, for people, without anything of what was asked."""

    service: str
    #: "strict" or "moderate"
    level: str
    #: to set, in place of every one of that name
    headers: Pairs = ()
    #: the new target, path and query; ``None`` where it stays
    target: bytes | None = None
    #: connect to this host; Host header and TLS server name stay, as where a CNAME record leads there
    host: bytes | None = None

    def __str__(self) -> str:
        service = SERVICES[self.service]
        return f"{service.title}, {self.level}: {service.levels[self.level]} (source: {service.source})"


_BY_HOST = {host: service for service in SERVICES.values() for host in service.hosts}
_SUFFIXES = tuple(suffix for service in SERVICES.values() for suffix in service.suffixes)


def rewrite(host: bytes, target: bytes, services: Mapping[str, str]) -> Rewrite | None:
    """What has to be changed in a request, or ``None``.

    The host is canonical; the target stands as it does on the wire. A service that is not among ``services`` is off.
    Whether a header is there already cannot be seen here, so that it is always to be set.

    >>> rewrite(b"www.google.com", b"/search?q=x&safe=active&ssui=on", {"google": "strict"}) is None
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
    return Rewrite(service.name, level, setting.headers, None if asked == target else asked, setting.host)


def _is_search(service: Service, target: bytes) -> bool:
    """Whether the path counts, in any reading that the service may give to it."""
    if service.paths is None:
        return True
    return any(form.path.rstrip(b"/") in service.paths for form in target_forms(b"https", target))


# A server may take either for the end of a parameter: "&" is the form's, ";" was recommended beside it.
# Spec: URL Standard, 5.1; HTML 4.01, B.2.2
_SEPARATOR = re.compile(rb"([&;])")


def set_parameters(target: bytes, parameters: Pairs) -> bytes:
    """The target with these parameters, each once and with its value; every other parameter stays octet for octet.

    >>> set_parameters(b"/?SAFE=off;q=a+b&%73afe", ((b"safe", b"active"),))
    b'/?q=a+b&safe=active'

    What follows "#" is cut off: it is in no request's target, and what stands behind it a server may not see.

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
    # What stands between "&" is a parameter to every server, and there is no other that they could disagree on.
    if len(given) == len(wanted) and set(wanted) <= set(query.split(b"&")):
        return target
    rest = _without(pieces, given)
    return path + b"?" + b"&".join([rest, *wanted] if rest else wanted)


def _without(pieces: list[bytes], places: set[int]) -> bytes:
    """The query without the parameters at some places; where one was, a separator stays, "&" if there was one."""
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
    """The name as a service may read it: unescaped, without white space around it, in lower case.

    Of the services, only Chrome's code for Google says that case does not matter; where it does, a parameter is taken
    out that would have said nothing.
    """
    name = parameter.partition(b"=")[0]
    if b"%" in name:
        name = unescape_percent_u(unescape_repeatedly(name))
    return name.replace(b"+", b" ").strip().lower()


def read_safe_search(node: Node, report: Report) -> Mapping[str, str]:
    """The level of each service, as a policy gives them; what is wrong is in the report.

    One level is for all services, a list names those that are strict, a mapping gives each its own. Where all are to be
    moderate, one that has no such level is strict; where that is said of this one, it is an error.
    """
    if isinstance(node.value, dict):
        fields = Fields(node, SERVICES, report)
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


def _service_name(node: Node, report: Report) -> str | None:
    if isinstance(node.value, str) and node.value in SERVICES:
        return node.value
    report.error(node.line, f"safe-search: {node}", f"unknown service (known: {', '.join(SERVICES)})")
    return None
