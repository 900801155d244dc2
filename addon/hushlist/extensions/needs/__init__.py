"""What an allowed page needs: its scripts, pictures and fonts from hosts that nobody has listed.

In: a request that only the default action blocks. Out: whether a page that was sent to the client needs it. Open first:
``page_needs``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "needs",
    part=f"{__name__}.page_needs:PageNeeds",
    uses=("unblock",),
    policy_keys=(
        *(
            Key("with", f"{__name__}.ways:WITH", place=place).says(f"""what passes besides with pages that the rules
                of this {place} allow: `needs`, what these pages load, or `needs-and-frames`, frames in them, too: see
                [What an allowed page needs](decisions.md#what-an-allowed-page-needs)""")
            for place in ("layer", "list")
        ),
        Key(
            "with", f"{__name__}.ways:OF_RULE", place="rule"
        ).says("""of a rule that allows: what passes besides with its
            pages, `needs` or `needs-and-frames`; without it, the list's or the layer's: see [What an allowed page
            needs](decisions.md#what-an-allowed-page-needs)"""),
    ),
)
