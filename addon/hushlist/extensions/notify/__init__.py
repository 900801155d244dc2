"""Notices to people who are away from the proxy: by a webhook, by mail, by a command.

In: a ``Notice``. Out: a message by each channel of the policy's ``notify``, in threads of its own. Nobody who sends one
waits, and a fault is in the log once. Open first: ``notifier``.
"""

from hushlist.core.extension import Command, Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "notify",
    policy_keys=(
        Key("notify", f"{__name__}.notify_channels:NOTIFY", default=()).says("""where notices go when somebody asks
            for access, or the certificate on all devices ends: a list of webhooks, mail and commands: see
            [Notices](unblocking.md#notices)"""),
        Key("language", f"{__name__}.notify_channels:LANGUAGE", default="en").says("""the language of notices and
            summaries, which no browser asks for: `en` (the default), or that of another
            [page](unblocking.md#the-block-page): `ar`, `de`, `es`, `fr`, `hi`, `it`, `ja`, `nl`, `pl`, `pt`, `tr`, `uk`
            or `zh-hans`"""),
    ),
    commands=(Command(("notify", "summary"), f"{__name__}.notify_command", "while the filter runs"),),
    part=f"{__name__}.notices:Notices",
    part_keys=("notify",),
    uses=("databases", "journal", "unblock", "subscriptions"),
)
