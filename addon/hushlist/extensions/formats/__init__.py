"""Formats of lists that other programs have, by what ``rule_maker`` and ``json_shape`` have for all.

In: a list's octets. Out: rules that know their file and line. Open first: ``rule_maker``, then ``resolver_settings`` or
``threat_feeds``.
"""

from hushlist.core.extension import Extension, ListFormat

_HERE = "hushlist.extensions.formats"
_SQUIDGUARD = f"{_HERE}.squidguard_lists"
_URLS = ListFormat(f"{_SQUIDGUARD}:read_squidguard_urls", is_by_line=True, names=("urls",))
_ADDRESS = r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]{2,45})"
_PROXY_KINDS = "DOMAIN(?:-[A-Z]+)?|IP-[A-Z0-9]+|URL-REGEX|(?:PROCESS|SRC)-[A-Z-]+|USER-AGENT|GEO(?:IP|SITE)|DST-PORT"
_SING_BOX_KINDS = ("domain", "domain_suffix", "domain_keyword", "domain_regex", "ip_cidr")


def _by_line(
    reader: str, entry: str, *also: str, endings: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> ListFormat:
    return ListFormat(f"{_HERE}.{reader}", is_by_line=True, entry=entry, also=also, endings=endings, names=names)


def _json(reader: str, *paths: str, endings: tuple[str, ...] = ()) -> ListFormat:
    """A format in JSON; something at one of the paths tells it."""
    counter = f"{_HERE}.json_shape:count_values"
    return ListFormat(
        f"{_HERE}.{reader}", is_by_line=False, is_document=True, entry=" ".join(paths), counter=counter, endings=endings
    )


EXTENSION = Extension(
    "formats",
    list_formats={
        "squidguard-urls": _URLS,
        "dnsmasq": _by_line(
            "resolver_settings:read_dnsmasq",
            r"(?:address|server|local)=/.*",
            endings=(".dnsmasq",),
            names=("dnsmasq.conf",),
        ),
        "rpz": ListFormat(
            f"{_HERE}.rpz:read_rpz",
            is_by_line=False,
            endings=(".rpz",),
            entry=r"(?i)\$(?:ORIGIN|TTL)\s.*|\S+\s+(?:[0-9]+[smhdw]?\s+)?(?:IN\s+)?(?:CNAME|SOA|NS|A|AAAA)\s.*",
        ),
        "csv": ListFormat(
            f"{_HERE}.csv_column:read_csv",
            is_by_line=False,
            endings=(".csv",),
            entry=r"\"[^\"]*\"(?:,.*)?|(?![A-Za-z][A-Za-z0-9+.-]*://)[^,/\s]*,.*",
            also=("ranked-domains", "surge", "quantumult", "address-counts", "file-hashes"),
        ),
        "tsv": ListFormat(
            f"{_HERE}.csv_column:read_tsv",
            is_by_line=False,
            endings=(".tsv",),
            entry=r"[^\t]*(?:\t[^\t]*)+",
            also=("hosts", "rpz", "address-counts", "csv"),
        ),
        "unbound": _by_line(
            "resolver_settings:read_unbound",
            r"local-(?:zone|data):\s.*|server:",
            endings=(".unbound",),
            names=("unbound.conf",),
        ),
        "bind-zones": ListFormat(
            f"{_HERE}.bind_zones:read_bind_zones",
            is_by_line=False,
            names=("named.conf", "named.conf.local"),
            entry=r"zone\s+[\"\w].*|(?:type|file|notify|allow-query|check-names)\s.*;|\}\s*;?",
        ),
        "smartdns": _by_line(
            "resolver_settings:read_smartdns", r"(?:address|domain-rules?|nameserver)\s+/.*", names=("smartdns.conf",)
        ),
        "dnscrypt": _by_line(
            "resolver_settings:read_dnscrypt",
            r"=[\w.-]+|(?=[^*?\[]*[*?\[])(?=.*\w)[\w.*?\[\]-]+(?:\s+@\S+)?|[\w.*-]+\s+@\S+",
            "domains",
            names=("blocked-names.txt",),
        ),
        "pihole-regex": _by_line(
            "name_regexes:read_pihole_regex",
            r"(?![|@!/{])(?=[^\\*\[(^$]*(?:\\\.|\.\*|\[[^\]]|\(|\^|\$(?:$|;)))[^\s#]+",
            names=("regex.list",),
        ),
        "blocky": _by_line("name_regexes:read_blocky", r"/.+/", "domains", "hosts"),
        "mikrotik": _by_line(
            "resolver_settings:read_mikrotik",
            r"(?::do\s*\{\s*)?(?:/?ip(?:v6)?[ /].*|add\s+[a-z-]+=.*)",
            endings=(".rsc",),
        ),
        "squid-acl": ListFormat(
            f"{_HERE}.squid_acl:read_squid_acl",
            is_by_line=False,
            names=("squid.conf",),
            entry=r"acl\s+\S+\s+\S+.*|http_access\s.*",
        ),
        "privoxy": ListFormat(
            f"{_HERE}.privoxy:read_privoxy",
            is_by_line=False,
            endings=(".action",),
            head=r"(?:(?>[ \t]*(?:#.*)?\n))*+[ \t]*\{(?:\{\w|[ \t]*[+-][a-z])",
        ),
        "pac": ListFormat(
            f"{_HERE}.pac:read_pac",
            is_by_line=False,
            endings=(".pac",),
            names=("wpad.dat",),
            head=r"(?=[^\0]*\bfunction\s+FindProxyForURL\b)",
        ),
        "clash": ListFormat(
            f"{_HERE}.proxy_rules:read_clash",
            is_by_line=False,
            is_document=True,
            endings=(".yaml", ".yml"),
            head=r"(?:(?>[ \t]*(?:#.*)?\n))*+payload:[ \t]*(?:\[|\n|$)",
        ),
        "clash-text": _by_line("proxy_rules:read_clash_text", r"\+\.[\w.*-]+", "domains", "addresses"),
        "surge": _by_line("proxy_rules:read_proxy_rules", rf"(?:{_PROXY_KINDS}|RULE-SET|AND|OR|NOT|FINAL|MATCH)\s*,.*"),
        "quantumult": _by_line(
            "proxy_rules:read_proxy_rules", r"(?i:host(?:-[a-z]+)?|ip6?-cidr|user-agent|geoip|final)\s*,.*"
        ),
        "public-suffixes": ListFormat(
            f"{_HERE}.private_suffixes:read_private_suffixes",
            is_by_line=False,
            names=("public_suffix_list.dat",),
            head=r"(?=[^\0]*\n//[ \t]*===BEGIN (?:ICANN|PRIVATE) DOMAINS===)",
        ),
        "v2fly": _by_line("proxy_rules:read_v2fly", r"(?:domain|full|keyword|regexp|include):\S+.*", "domains"),
        "ranked-domains": _by_line("numbered_lists:read_ranked_domains", r"[0-9]+,[\w-]+(?:(?>\.[\w-]+))++"),
        "address-counts": _by_line(
            "numbered_lists:read_address_counts", rf"{_ADDRESS}(?:/[0-9]+)?[\t ,;]+[0-9]+", "addresses"
        ),
        "address-ports": _by_line(
            "numbered_lists:read_address_ports", rf"(?:{_ADDRESS}|\[[0-9A-Fa-f:.]+\]):[0-9]{{1,5}}", "addresses"
        ),
        "little-snitch": _json(
            "json_rules:read_little_snitch",
            *(f"denied-remote-{what}/*" for what in ("domains", "hosts", "addresses")),
            *("rules/*/process", "rules/*/remote-domains", "rules/*/remote-hosts"),
            endings=(".lsrules",),
        ),
        "sing-box": _json(
            "proxy_rules:read_sing_box", *(f"rules/*/{kind}{item}" for kind in _SING_BOX_KINDS for item in ("", "/*"))
        ),
        "control-d": _json("json_rules:read_control_d", "rules/*/PK", "group/group"),
        "chromium-policy": _json("json_rules:read_chromium_policy", "URLBlocklist/*", "URLAllowlist/*"),
        "phishtank": _json("threat_feeds:read_phishtank", "*/phish_id"),
        "urlhaus": _json("threat_feeds:read_urlhaus", "*/*/url_status"),
        "threatfox": _json("threat_feeds:read_threatfox", "*/*/ioc_type"),
        "feodo": _json("threat_feeds:read_feodo", "*/ip_address"),
        "spamhaus": _json("threat_feeds:read_spamhaus", "cidr", "asn"),
        "misp": _json(
            "threat_feeds:read_misp",
            *(f"{event}Attribute/*/type" for event in ("Event/", "*/Event/", "response/*/Event/", "response/")),
        ),
        "stix": _json("threat_feeds:read_stix", "objects/*/pattern", "objects/*/spec_version"),
    },
    folder_formats={
        "squidguard": {
            "domains": ListFormat(f"{_SQUIDGUARD}:read_squidguard_domains", is_by_line=True),
            "urls": _URLS,
            "expressions": ListFormat(f"{_SQUIDGUARD}:read_squidguard_expressions", is_by_line=True, may_be_empty=True),
        },
    },
    uses=("adblock",),
)
