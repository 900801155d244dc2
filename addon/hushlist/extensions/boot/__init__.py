"""The filter as a service that starts with the machine, and its backup.

In: a policy that was tried. Out: the same filter under systemd, with certificate, store, log and lists; or one file
that has them all. Open first: ``belongings``, what an installation has; then ``service_command``.
"""

from hushlist.core.extension import Command, Extension

EXTENSION = Extension(
    "boot",
    commands=(
        Command(("service",), f"{__name__}.service_command", "while the filter runs"),
        Command(("backup", "restore"), f"{__name__}.backup_command", "while the filter runs"),
    ),
    uses=("subscriptions",),
)
