"""Services by name: which addresses TikTok has, and what a policy calls it.

In: a list of services. Out: rules with the category of each, and its short name. Open first: ``service_lists``.
"""

from hushlist.core.extension import Command, Extension, ListFormat

EXTENSION = Extension(
    "services",
    list_formats={
        "services": ListFormat(
            f"{__name__}.service_lists:read_services",
            is_by_line=False,
            head=r'\s*\{\s*"blocked_services"\s*:',
            is_document=True,
            members=f"{__name__}.service_lists:members",
        ),
    },
    category_names=f"{__name__}.service_lists:category_names",
    actions=f"{__name__}.actions",
    commands=(Command(("services",), f"{__name__}.services_command", "ask a policy"),),
)
