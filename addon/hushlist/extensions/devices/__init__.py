"""Devices by name: which address is whose now, by the kernel's neighbours and the leases of DHCP servers.

In: the policy's ``devices``. Out: the name of a client's device, for groups, the log and the page. Open first:
``known_devices``, then ``network_tables``; ``device_watch`` looks at the network, off every request's way.
"""

from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension(
    "devices",
    policy_keys=(
        Key("devices", f"{__name__}.known_devices:DEVICES", default=()).says("""devices by name, which groups and pages
            can use instead of addresses: see [Devices](groups.md#devices)"""),
    ),
    device_names=f"{__name__}.known_devices:device_names",
    checks=f"{__name__}.device_checks:examine_devices",
    part=f"{__name__}.device_watch:DeviceWatch",
    part_keys=("devices",),
    actions=f"{__name__}.actions",
    uses=("journal",),
)
