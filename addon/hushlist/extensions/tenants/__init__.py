"""Tenants: with which organizations' accounts people may use a service that many share.

In: a request that passes. Out: the header fields that tell the service whose accounts it may let in. Open first:
``tenants``.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "tenants",
    policy_keys=(
        Key("tenants", f"{__name__}.tenants:TENANTS", place="group", default=()).says("""with whose accounts people may
            use Google Workspace, Microsoft 365 and others: see [Tenants](network.md#tenants)"""),
    ),
    why_decrypt=f"{__name__}.tenants:why_decrypt",
    needs_decrypted=f"{__name__}.tenants:needs_decrypted",
    part=f"{__name__}.tenant_headers:TenantHeaders",
    part_keys=("tenants",),
)
