"""What programs and the live page read of the services that a policy can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hushlist.core.routes import Action, Role
from hushlist.extensions.services.service_lists import groups
from hushlist.extensions.services.service_lists import services as shipped


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service by its name in a policy."""

    id: str
    title: str
    group: str
    #: the group's title, by language
    group_titles: Mapping[str, str]
    category: str
    #: its main address
    address: str


def services() -> list[ServiceStatus]:
    """The services that a policy can name, by group."""
    return [
        ServiceStatus(row.id, row.title, row.group, groups()[row.group].titles, row.category, str(row.rules[0][0]))
        for row in shipped().values()
    ]


ACTIONS = (Action("GET", "/services", Role.VIEW, services),)
