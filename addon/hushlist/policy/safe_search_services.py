"""The services that have a safe search or a restricted mode: their hosts, and how each is asked for it.

>>> print(SERVICES["youtube"].levels["moderate"])
the header YouTube-Restrict: Moderate is set

Each rule has the deciding sentence and its source beside it. Only documented ways are used: documented by the service
itself, or else by those who enforce it for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

STRICT, MODERATE, OFF = "strict", "moderate", "off"
LEVELS = (STRICT, MODERATE, OFF)

Pairs = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class SafeSearchSetting:
    """How a service is asked for one of its levels."""

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
