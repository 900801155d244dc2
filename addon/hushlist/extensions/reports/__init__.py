"""Reports of mistakes: who is stopped says so on the block page, and who looks after the filter may tell the publisher.

In: a form of the block page. Out: a stored report with the rule, its list, and the list's version and digest; and a
text for the list's publisher, which nobody sends but a person. Open first: ``report_part``, then ``publisher_report``.
"""

from hushlist.core.extension import Command, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "reports",
    policy_keys=(
        Key(
            "reports", "hushlist.core.policy.key_types:switch", place="group", default=False
        ).says("""whether block pages have a button by which somebody
            says that it is a mistake: `on`, or `off` (the default): see [A mistake](unblocking.md#a-mistake)"""),
    ),
    commands=(Command(("reports",), f"{__name__}.reports_command", "while the filter runs"),),
    part=f"{__name__}.report_part:ReportPart",
    part_keys=("reports",),
    actions=f"{__name__}.actions",
    uses=("databases", "journal", "unblock"),
)
