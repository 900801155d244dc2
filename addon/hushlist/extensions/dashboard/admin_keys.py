"""The key ``admin`` of the policy: the people who may sign in to the live page, and what each may do there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.groups import read_stored_passphrase
from hushlist.core.policy.schedule import seconds_of
from hushlist.core.routes import Role

#: seconds
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class AdminPerson:
    """Somebody who may sign in."""

    name: str
    #: as ``hushlist override passphrase`` prints it
    passphrase: str
    role: Role
    #: seconds for which somebody with the role ``approve`` may let through at most
    longest: float = DAY


#: most people, and most characters of a name
_MOST, _LONGEST = 1000, 100
_LONGEST_GRANT = 366 * 86400


def read_admin(fields: MappingReader) -> tuple[AdminPerson, ...]:
    """The value of ``admin``: a list of people. Whoever is written wrongly is in the report, and may not sign in."""
    node = fields.node("admin")
    if node is None:
        return ()
    people = tuple(_people(fields))
    for name, number in Counter(person.name for person in people).items():
        if number > 1:
            fields.report.error(node.line, f"admin: {name}", "more than one person has this name")
    if node.value == [] or len(people) > _MOST:
        fields.report.error(node.line, "admin", f"expected 1 to {_MOST} people; without the key, nobody can sign in")
    return people


def _people(fields: MappingReader) -> Iterator[AdminPerson]:
    for node in fields.items("admin"):
        own = MappingReader(node, ("name", "passphrase", "role", "longest"), fields.report)
        name, stored, role = own.text("name"), read_stored_passphrase(own), own.choice("role", Role)
        for key in ("name", "passphrase", "role"):
            own.require(key, "admin", f"a person has no {key}")
        if name is not None and not (name.isprintable() and name.strip() == name and 0 < len(name) <= _LONGEST):
            own.error("name", f"expected 1 to {_LONGEST} characters that can be shown")
            name = None
        if name is not None and stored is not None and role is not None:
            yield AdminPerson(name, stored, role, _longest(own, role))


def _longest(own: MappingReader, role: Role) -> float:
    text = own.text("longest")
    if text is None:
        return DAY
    seconds = seconds_of(text)
    if seconds is None or not 60 <= seconds <= _LONGEST_GRANT:
        own.error("longest", "expected a time such as 7d or 12h, of a minute to 366 days")
    elif role is not Role.APPROVE:
        own.error("longest", "it is for the role approve: view lets nothing through, and manage for good")
    return float(seconds or DAY)
