"""What people search for, and words in addresses: lists of words that block, warn or tag.

In: a request, and lists of words. Out: names of the request under a host that nobody has, one for each combination of
its words, so that rules for them are rules as any others: in the clear, hashed or sealed. Open first:
``search_readings``, then ``words``; the table is ``engines.tsv``.
"""

from hushlist.core.extension import Extension, ListFormat
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "searches",
    readings=f"{__name__}.search_readings:SearchReadings",
    hides=f"{__name__}.hidden:HiddenSearches",
    list_formats={
        name: ListFormat(f"{__name__}.word_lists:read_{name}", is_by_line=True, endings=(f".{name}",))
        for name in ("searches", "words")
    },
    policy_keys=(
        Key("search-forms", f"{__name__}.engines:SEARCH_FORMS", default=()).says("""more places where people search:
            see [Places of your own](searches.md#places-of-your-own)"""),
        Key("words-in-addresses", f"{__name__}.engines:WORDS", default="lists").says("""whether the words of every
            address are checked: `lists` (the default), where a list of the format `words` is in use; `on`, in any
            case, for such lists that are hashed: see [Words in addresses](searches.md#words-in-addresses)"""),
    ),
)
