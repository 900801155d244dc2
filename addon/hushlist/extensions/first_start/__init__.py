"""The first start: a person answers five screens of questions, and the policy is written and in force.

In: answers, from a browser on the machine of the proxy or from a terminal. Out: ``policy.yaml`` and ``overrides.yaml``.
Open first: ``questionnaire``, then ``policy_writer``; ``first_start_page`` and ``init_command`` ask.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "first_start",
    commands=(Command(("init",), f"{__name__}.init_command", "ask a policy"),),
    part=f"{__name__}.first_start_page:FirstStart",
    part_if=f"{__name__}.own_policy:is_missing",
    uses=("dashboard", "devices", "subscriptions", "unblock"),
)
