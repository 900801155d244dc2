"""Formats of lists that other programs have: dnsmasq's, RPZ, CSV and squidGuard's expressions.

In: a list's octets. Out: rules that know their file and line. Open first: ``rpz``.
"""

from hushlist.core.extension import Extension, ListFormat

_SQUIDGUARD = "hushlist.extensions.formats.squidguard_lists"
_URLS = ListFormat(f"{_SQUIDGUARD}:read_squidguard_urls", is_by_line=True, names=("urls",))

EXTENSION = Extension(
    "formats",
    list_formats={
        "squidguard-urls": _URLS,
        "dnsmasq": ListFormat(
            "hushlist.extensions.formats.dnsmasq:read_dnsmasq",
            is_by_line=True,
            endings=(".dnsmasq",),
            names=("dnsmasq.conf",),
            entry=r"(?:address|server|local)=/.*",
        ),
        "rpz": ListFormat(
            "hushlist.extensions.formats.rpz:read_rpz",
            is_by_line=False,
            endings=(".rpz",),
            entry=r"(?i)\$(?:ORIGIN|TTL)\s.*|\S+\s+(?:[0-9]+[smhdw]?\s+)?(?:IN\s+)?(?:CNAME|SOA|NS|A|AAAA)\s.*",
        ),
        "csv": ListFormat(
            "hushlist.extensions.formats.csv_column:read_csv",
            is_by_line=False,
            endings=(".csv",),
            entry=r"\"[^\"]*\"(?:,.*)?|(?![A-Za-z][A-Za-z0-9+.-]*://)[^,/\s]*,.*",
        ),
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
