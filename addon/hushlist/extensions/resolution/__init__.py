"""Where a name leads: its addresses and aliases by DNS are decided, and connected to, before anything is sent.

In: the names of a request or a connection. Out: names and addresses that rules decide, too, and the addresses to
connect to. Open first: ``leads``, then ``resolver``; the checks are in ``private_answer``.
"""

from hushlist.core.extension import CheckRow, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "resolution",
    part=f"{__name__}.leads:Leads",
    part_if="hushlist.core.policy.part_needs:asks_leads",
    asks_leads="resolve",
    policy_keys=(
        Key(
            "resolve", f"{__name__}.private_answer:RESOLVE", default="auto"
        ).says("""whether the proxy looks a name up before
            it connects, and its rules decide the addresses and aliases, too: `auto` (the default), if a check
            needs it, such as `private-answer`; `on`; `off`: see [Where a name
            leads](network.md#where-a-name-leads)"""),
    ),
    request_checks={
        "private-answer": CheckRow(
            "The name leads into a private network, as an attack on devices there would.",
            f"{__name__}.private_answer:find_private_answer",
            """a public name that leads to a private, loopback, link-local or other special address (DNS rebinding), but
            those in `names`, with all names below them: see [Where a name leads](network.md#where-a-name-leads)""",
            needs_leads=True,
            keys=(
                Key("names", f"{__name__}.private_answer:NAMES").says("""names of your network, which may lead there,
                    with all names below them"""),
            ),
        ),
    },
)
