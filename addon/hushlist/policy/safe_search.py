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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hushlist.lists.list_source import ProblemReport
from hushlist.lists.yaml_nodes import MappingReader, YamlNode
from hushlist.url.normalization import percent_decode_repeatedly, unescape_percent_u
from hushlist.url.request import target_forms

STRICT, MODERATE, OFF = "strict", "moderate", "off"
LEVELS = (STRICT, MODERATE, OFF)

Pairs = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class SafeSearchSetting:
    """How a service is asked for one of its levels.

    >>> print(SERVICES["youtube"].levels["moderate"])
    the header YouTube-Restrict: Moderate is set
    """

    #: query parameters: name and value
    parameters: Pairs = ()
    #: request headers: name and value
    headers: Pairs = ()
    #: another host to connect to
    host: bytes | None = None

    def __str__(self) -> str:
        parts = [f"{_text(b'='.join(pair))} is set in the query" for pair in self.parameters]
        parts += [f"the header {_text(b': '.join(pair))} is set" for pair in self.headers]
        parts += [f"{_text(host)} is asked instead" for host in (self.host,) if host]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SafeSearchService:
    """A service, its hosts, and how it is asked."""

    #: its name in a policy
    name: str
    #: its name for people
    title: str
    #: the document that describes it
    source: str
    #: its levels; each service has at least "strict"
    levels: Mapping[str, SafeSearchSetting]
    hosts: frozenset[bytes]
    #: with a dot in front, subdomains are included
    suffixes: tuple[bytes, ...] = ()
    #: canonical paths of searches, without a slash at the end; ``None``: every path counts
    paths: frozenset[bytes] | None = None

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
    #: headers to set, replacing all of the same name
    headers: Pairs = ()
    #: the new target, path and query; ``None`` if unchanged
    target: bytes | None = None
    #: connect to this host; Host header and TLS server name stay, as if a CNAME record led there
    host: bytes | None = None

    def __str__(self) -> str:
        service = SERVICES[self.service]
        return f"{service.title}, {self.level}: {service.levels[self.level]} (source: {service.source})"


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


# -- the services ------------------------------------------------------------------------------------------------------

# Each service has the deciding sentence and its source beside it. Only documented ways are used: documented by the
# service itself, or else by those who enforce it for others.

# Spec: chromium, components/google/core/common/google_tld_list.h, GOOGLE_TLD_LIST, by which Chrome's own policy
# ForceGoogleSafeSearch knows Google; all of https://www.google.com/supported_domains is in it.
_GOOGLE_TLDS = b"""
ac ad ae af ag al am as at aw az ba be bf bg bi bj bm bn bo bs bt by ca cat cc cd cf cg ch ci cl cm cn co co.ao
co.bw co.ck co.cr co.gy co.hu co.id co.il co.im co.in co.je co.jp co.ke co.kr co.ls co.ma co.mz co.nz co.rs co.th
co.tz co.ug co.uk co.uz co.ve co.vi co.za co.zm co.zw com com.af com.ag com.ai com.ar com.au com.bd com.bh com.bi
com.bn com.bo com.br com.by com.bz com.cn com.co com.cu com.cy com.do com.dz com.ec com.eg com.er com.et com.fj
com.ge com.gh com.gi com.gp com.gr com.gt com.gy com.hk com.ht com.iq com.jm com.jo com.kh com.kw com.kz com.lb
com.lv com.ly com.mm com.mt com.mx com.my com.na com.nc com.nf com.ng com.ni com.np com.nr com.om com.pa com.pe
com.pg com.ph com.pk com.pl com.pr com.ps com.pt com.py com.qa com.ru com.sa com.sb com.sg com.sl com.sv com.tj
com.tm com.tn com.tr com.tw com.ua com.uy com.vc com.ve com.vn cv cz de dj dk dm do dz ec ee es eu fi fm fr ga gd ge
gf gg gl gm gp gr gw gy hk hn hr ht hu ie im in info io iq is it it.ao je jo jobs jp kg ki km kr kz la li lk lt lu
lv ma md me mg mh mk ml mn mr ms mu mv mw mx ne ne.jp net ng nl no nr nu off.ai org pf ph pk pl pn ps pt qa re ro rs
ru rw sc se sg sh si sk sl sm sn so sr st sz td tel tg tk tl tm tn to tt tw ua us uz vg vn vu ws yt
""".split()
_YANDEX_TLDS = b"""
az by co.il com com.am com.ge com.ru com.tr de ee eu fi fr kz lt lv md net org pl ru tj tm uz
""".split()


def _with_www(domains: Iterable[bytes]) -> frozenset[bytes]:
    """The domains, each with and without www in front."""
    return frozenset(host for domain in domains for host in (domain, b"www." + domain))


_SERVICES = (
    # Spec: https://www.chromium.org/developers/design-documents/safesearch: "make sure that the parameters safe=active
    # and ssui=on are present". Chrome does so (components/safe_search_api/safe_search_util.cc) on the home page and
    # where a search is (IsGoogleHomePageUrl, IsGoogleSearchUrl), on google.TLD, www.google.TLD and two more hosts.
    # Palo Alto's "Safe Search Settings for Search Providers": "Appending safe=active to a Google search query URL also
    # enables the strictest safe search settings." There is but one level: of the others, Google's Custom Search
    # reference (.../rest/v1/Safe) says "Deprecated, equivalent to active". By DNS: a CNAME to
    # forcesafesearch.google.com (https://support.google.com/websearch/answer/186669).
    SafeSearchService(
        "google",
        "Google",
        "chromium.org/developers/design-documents/safesearch",
        {STRICT: SafeSearchSetting(((b"safe", b"active"), (b"ssui", b"on")))},
        _with_www(b"google." + tld for tld in _GOOGLE_TLDS) | {b"ipv4.google.com", b"ipv6.google.com"},
        paths=frozenset((b"", b"/webhp", b"/search", b"/imgres")),
    ),
    # Spec: https://blogs.technet.microsoft.com/hied_west_blog/2009/06/05/bing-content-filtering/: "Most content
    # filtering software works by appending a query string parameter to the outbound request to enforce content control.
    # This method works with all major search engines, including Bing". Bing's general manager of adlt=strict, in
    # https://avn.com/business/articles/technology/microsoft-offers-temporary-bing-filtering-solution-341839.html: "no
    # matter what the settings are for that session, it will return results as if safe search was set to strict". It
    # goes to "all queries to the Bing.com domain"
    # (http://www.itedge.net/blog/2009/06/04/bing-search-results-and-internet-safety/). By DNS: www.bing.com to
    # strict.bing.com (support.microsoft.com, "Blocking adult content with SafeSearch or blocking chat").
    SafeSearchService(
        "bing",
        "Bing",
        "blogs.technet.microsoft.com/hied_west_blog/2009/06/05/bing-content-filtering",
        {STRICT: SafeSearchSetting(((b"adlt", b"strict"),))},
        frozenset((b"bing.com",)),
        (b".bing.com",),
    ),
    # Spec: https://duck.co/help/features/safe-search: "append &kp=1 (strict), &kp=-1 (moderate - don't show explicit
    # images), or &kp=-2 (off) to all pages"; an older edition says "to all duckduckgo.com pages". By DNS:
    # duckduckgo.com to safe.duckduckgo.com (https://duckduckgo.com/duckduckgo-help-pages/features/safe-search/).
    SafeSearchService(
        "duckduckgo",
        "DuckDuckGo",
        "duck.co/help/features/safe-search",
        {STRICT: SafeSearchSetting(((b"kp", b"1"),)), MODERATE: SafeSearchSetting(((b"kp", b"-1"),))},
        frozenset((b"duckduckgo.com",)),
        (b".duckduckgo.com",),
    ),
    # Spec: chromium, components/safe_search_api/safe_search_util.cc: kYouTubeRestrictHeaderName is "YouTube-Restrict",
    # its values "Moderate" and "Strict"; Chrome sets it on every host of youtube.com (ForceYouTubeRestrict).
    # https://support.google.com/a/answer/6214622 names the others: www.youtube.com, m.youtube.com,
    # youtubei.googleapis.com, youtube.googleapis.com and www.youtube-nocookie.com. By DNS: those hosts to
    # restrict.youtube.com or restrictmoderate.youtube.com.
    SafeSearchService(
        "youtube",
        "YouTube",
        "support.google.com/a/answer/6214622",
        {
            STRICT: SafeSearchSetting(headers=((b"YouTube-Restrict", b"Strict"),)),
            MODERATE: SafeSearchSetting(headers=((b"YouTube-Restrict", b"Moderate"),)),
        },
        _with_www((b"youtube.com", b"youtube-nocookie.com")) | {b"youtubei.googleapis.com", b"youtube.googleapis.com"},
        (b".youtube.com",),
    ),
    # Spec: https://campus.barracuda.com/product/cloudgenfirewall/doc/73698575/how-to-enforce-safesearch-in-the-firewall/
    # "SafeSearch for Yahoo includes the string vm=r in the URL." Yahoo itself documents but the setting.
    SafeSearchService(
        "yahoo",
        "Yahoo",
        "campus.barracuda.com/product/cloudgenfirewall/doc/73698575",
        {STRICT: SafeSearchSetting(((b"vm", b"r"),))},
        frozenset((b"search.yahoo.com",)),
        (b".search.yahoo.com",),
    ),
    # Spec: https://search.brave.com/help/safesearch, as https://github.com/brave/brave-browser/issues/56918 and
    # https://github.com/AdguardTeam/AdGuardDNS/issues/751 use it: a CNAME from search.brave.com to
    # safe.search.brave.com. A parameter "safesearch" is documented for the API alone, which needs a token
    # (https://api.search.brave.com/app/documentation/web-search/query).
    SafeSearchService(
        "brave",
        "Brave Search",
        "search.brave.com/help/safesearch",
        {STRICT: SafeSearchSetting(host=b"safe.search.brave.com")},
        frozenset((b"search.brave.com",)),
    ),
    # Spec: https://pixabay.com/blog/posts/block-adult-content-on-pixabay-at-your-school-or-w-140/, quoted in
    # https://github.com/opnsense/core/pull/7815: "Set the DNS entry for pixabay.com to be a CNAME for
    # safesearch.pixabay.com."
    SafeSearchService(
        "pixabay",
        "Pixabay",
        "pixabay.com/blog/posts/block-adult-content-on-pixabay-at-your-school-or-w-140",
        {STRICT: SafeSearchSetting(host=b"safesearch.pixabay.com")},
        frozenset((b"pixabay.com",)),
    ),
    # Spec: https://yandex.com/support/search/schoolsearch.html names the address of Yandex's school search, as
    # https://github.com/AdguardTeam/AdGuardHome/issues/2331 has it; the hosts are those of AdGuard's list of rewrites
    # (HostlistsRegistry, assets/engines_safe_search.txt). The last domain is "yandex" in Cyrillic letters.
    SafeSearchService(
        "yandex",
        "Yandex",
        "yandex.com/support/search/schoolsearch.html",
        {STRICT: SafeSearchSetting(host=b"213.180.193.56")},
        _with_www(b"yandex." + tld for tld in _YANDEX_TLDS) | _with_www((b"ya.ru", b"xn--d1acpjx3f.xn--p1ai")),
    ),
    # Spec: AdGuard's list again: a CNAME from www.ecosia.org. That Ecosia has it on purpose is said in
    # https://github.com/nextdns/metadata/pull/1021, with its help page.
    SafeSearchService(
        "ecosia",
        "Ecosia",
        "github.com/AdguardTeam/HostlistsRegistry, assets/engines_safe_search.txt",
        {STRICT: SafeSearchSetting(host=b"strict-safe-search.ecosia.org")},
        frozenset((b"www.ecosia.org",)),
    ),
)

#: by name in a policy
SERVICES: Mapping[str, SafeSearchService] = MappingProxyType({service.name: service for service in _SERVICES})
_BY_HOST = {host: service for service in SERVICES.values() for host in service.hosts}
_SUFFIXES = tuple(suffix for service in SERVICES.values() for suffix in service.suffixes)
