"""Addresses inside addresses, and names of one thing: translators, archives, caches, image proxies, short forms.

In: a request. Out: the addresses that it carries, and other names of what it asks for. Open first: ``inside``, then
``forms``; the table is ``addresses.tsv``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "inside",
    readings=f"{__name__}.inside:InnerAddresses",
    policy_keys=(
        Key(
            "inside", f"{__name__}.inside:MODE", default="table"
        ).says("""which addresses inside a request are decided as if they
            were asked for: `table` (the default), those that translators, archives, caches, image proxies and
            redirects carry; `any`, also every whole URL in a query; `off`, none: see [Addresses inside
            addresses](inside.md)"""),
        Key("carriers", f"{__name__}.inside:CARRIERS", default=()).says("""more services that carry addresses, or that
            name one thing in several ways: see [Rows of your own](inside.md#rows-of-your-own)"""),
        *(
            Key(
                "inside", f"{__name__}.inside:MODE_OF_RULES", place=place
            ).says(f"""which addresses inside a request the rules of this {place} are compared with, instead of the
                policy's `inside`; `allow`: what they allow is allowed with the addresses inside it: see [What
                counts](inside.md#what-counts)""")
            for place in ("layer", "list")
        ),
    ),
)
