"""Network filters, as Adblock lists have them: read, put in tables by their words, and found again.

In: a filter's text; a request's URL. Out: a ``NetworkFilter``, and the filters that fit. Open first:
``network_filter``, then ``filter_index``.
"""

from hushlist.core.extension import Extension, ListFormat

_LISTS = "hushlist.extensions.adblock.filter_lists"
_DIALECT = "hushlist.extensions.adblock.adblock_language:language_of"
_CONDITIONS = "hushlist.extensions.adblock.conditions:Conditions"

EXTENSION = Extension(
    "adblock",
    list_formats={
        "adblock": ListFormat(
            f"{_LISTS}:read_adblock",
            is_by_line=True,
            endings=(".adblock",),
            entry=r"(?i)\|\|.*|@@.*|\|https?:.*|!.*|[^#]*#@?[$%?]{0,2}#.*",
            head=r"(?i)\s*(?:\[Adblock|!\s)",
            dialect=_DIALECT,
            conditions=_CONDITIONS,
        ),
        "adblock-hosts": ListFormat(
            f"{_LISTS}:read_adblock_hosts", is_by_line=True, dialect=_DIALECT, conditions=_CONDITIONS
        ),
        "adblock-dns": ListFormat(f"{_LISTS}:read_adblock_dns", is_by_line=True, conditions=_CONDITIONS),
        "chromium": ListFormat(f"{_LISTS}:read_chromium", is_by_line=True),
    },
    matcher="hushlist.extensions.adblock.filter_index:FilterIndex",
)
