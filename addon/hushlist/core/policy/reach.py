"""Whom an administrator sees and acts on: everybody, or only clients of some of a policy's groups.

What is unsure is not theirs. An order names a group, an address or a user; an address may also be that of a user who is
in another group, and a user may have any address. So they reach a name only if it can lead to no other group.
Which device has an address, is as the network says now.

>>> from ipaddress import ip_network
>>> from hushlist.core.policy.groups import GroupSettings
>>> staff = Group("staff", (), GroupSettings(), users=frozenset({"anna"}), ports=frozenset({8081}))
>>> lesson = Group("7b", (), GroupSettings(), users=frozenset({"jo"}))
>>> room = Group("room", (), GroupSettings(), networks=(ip_network("10.7.0.0/24"),))
>>> rest = Group("default", (), GroupSettings())
>>> reach = Reach((staff, lesson, room, rest), frozenset({"7b", "room", "gone"}))
>>> [reach.has(whom) for whom in ("group:7b", "group:gone", "group:default", "user:jo", "user:anna", None)]
[True, False, False, True, False, False]
>>> reach.has("10.7.0.5"), Reach((lesson, room, rest), frozenset({"7b", "room"})).has("10.7.0.5")
(False, True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from hushlist.core.policy.groups import DEFAULT, UNNAMED, Group, is_in

if TYPE_CHECKING:
    from hushlist.core.policy.group_table import DeviceNames


class Reach:
    """The clients of all groups, or of some; the last of ``groups`` has to fit everybody."""

    def __init__(
        self, groups: Sequence[Group], names: Collection[str] | None, device_of: DeviceNames | None = None
    ) -> None:
        """``names`` are those of the groups; ``None``: everybody. A group that the policy has not gives nothing."""
        self._groups, self._device_of = groups, device_of
        self.is_all = names is None
        #: the groups, in the order of the policy
        self.groups = [group.name for group in groups if names is not None and group.name in names]

    def has_group(self, name: object) -> bool:
        """Whether a group, by its name, is among them."""
        return self.is_all or (name != DEFAULT and name in self.groups)

    def has(self, whom: str | None) -> bool:
        """Whether whatever is for a name, as orders have it, is for their clients alone; ``None`` is everybody."""
        if self.is_all or whom is None:
            return self.is_all
        kind, _, name = whom.partition(":")
        if kind == "group":
            return self.has_group(name)
        return all(self.has_group(group.name) for group in self._possible(whom))

    def _possible(self, whom: str) -> Iterator[Group]:
        """The groups in which a user, or whoever has an address, can be."""
        user = whom.removeprefix("user:") if whom.startswith("user:") else None
        device = None if self._device_of is None else self._device_of("" if user is not None else whom, user)
        if user is not None and device == UNNAMED:
            device = None
        for group in self._groups:
            unsure = bool(group.ports)
            if group.networks:
                unsure = unsure or user is not None
                if user is None and not is_in(whom, group.networks):
                    continue
            if group.users:
                unsure = unsure or user is None
                if user is not None and user not in group.users:
                    continue
            if group.devices:
                unsure = unsure or device is None
                if device is not None and device not in group.devices:
                    continue
            yield group
            if not unsure:
                return


#: of whoever may see everything
ALL_CLIENTS = Reach((), None)
