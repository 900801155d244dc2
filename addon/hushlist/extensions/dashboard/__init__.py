"""The live page, what administrators do by it, the metrics, and the page that sets up devices.

In: the runtime; who acts. Out: HTML, JSON, Prometheus' text; what was done, with its number in the record. Open first:
``dashboard_server``, then ``admin_api``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "dashboard",
    policy_keys=(
        Key("live", f"{__name__}.live_key:LIVE").says("""who may see the live page, and the metrics: `on` (the
            default): anyone on the machine of the proxy itself; `off`: nobody; or a mapping: see [The live
            page](log.md#the-live-page)"""),
        Key("admin", f"{__name__}.admin_keys:ADMIN", default=()).says("""who may sign in to the live page and act there:
            a list of people, each with a name, a passphrase and a role; without it, the page only shows: see [Signing
            in](admin.md#signing-in)"""),
    ),
    part=f"{__name__}.dashboard_server:DashboardServer",
    actions=f"{__name__}.actions",
    uses=("databases", "journal", "unblock", "quotas", "subscriptions", "fleet", "policy_edits"),
)
