"""The key ``admin`` of the policy: the people who may sign in to the live page, and what each may do there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hushlist.core.lists.list_keys import NAMED_GROUPS
from hushlist.core.lists.yaml_nodes import MappingReader
from hushlist.core.policy.key_types import (
    TEXT,
    Reading,
    choice,
    converted,
    list_of,
    names_of,
    read_rows,
    schema_of_rows,
)
from hushlist.core.policy.keys import Key, Type
from hushlist.core.policy.times import seconds_of
from hushlist.core.routes import Role
from hushlist.extensions.unblock.unblock_keys import STORED

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
    #: the groups whose clients alone they see and act on; ``None``: everybody's
    groups: tuple[str, ...] | None = None


#: most people, and most characters of a name
_MOST, _LONGEST = 1000, 100
_LONGEST_GRANT = 366 * 86400


def _name(text: str) -> str:
    if text.isprintable() and text.strip() == text and 0 < len(text) <= _LONGEST:
        return text
    raise ValueError(f"expected 1 to {_LONGEST} characters that can be shown")


def _longest(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is None or not 60 <= seconds <= _LONGEST_GRANT:
        raise ValueError("expected a time such as 7d or 12h, of a minute to 366 days")
    return float(seconds)


_SPAN = "^(?=[0-9])(?:[0-9]{1,9}d)?(?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?(?:[0-9]{1,9}s)?$"
_KEYS = (
    Key("name", converted(_name, schema={"$of": TEXT, "maxLength": _LONGEST}), is_required=True).says("""who it is, as
        they sign in and as the record has it: at most 100 characters, and everybody's is another one"""),
    Key("passphrase", STORED, is_required=True).says("what `hushlist override passphrase` prints for their passphrase"),
    Key("role", choice(Role), is_required=True).says("""`view`: they see the page; `approve`: also grants, codes and
        requests; `manage`: also rules, lists, pauses, and who is signed in"""),
    Key("longest", converted(_longest, schema={"type": "string", "pattern": _SPAN})).says("""for how long somebody with
        the role `approve` may let something through at once, such as `7d`, up to 366 days; without it, a day"""),
    Key("groups", NAMED_GROUPS).says("""names of groups, or one: the person sees and does what the role allows only for
        clients of these, as in [A teacher and a class](admin.md#a-teacher-and-a-class); without it, for everybody"""),
)


def _read(fields: MappingReader, key: str, reading: Reading) -> tuple[AdminPerson, ...]:
    """A list of people. Whoever is written wrongly is in the report, and may not sign in."""
    people = tuple(_people(fields, key, reading))
    for name, number in Counter(person.name for person in people).items():
        if number > 1:
            fields.error(key, "more than one person has this name", f"{key}: {name}")
    node = fields.node(key)
    if (node is not None and node.value == []) or len(people) > _MOST:
        fields.error(key, f"expected 1 to {_MOST} people; without the key, nobody can sign in")
    return people


def _people(fields: MappingReader, key: str, reading: Reading) -> Iterator[AdminPerson]:
    for node in fields.items(key):
        person_fields = MappingReader(node, names_of(_KEYS), fields.report)
        for row in _KEYS:
            if row.is_required:
                person_fields.require(row.name, key, f"a person has no {row.name}")
        values = read_rows(_KEYS, person_fields, reading)
        if "longest" in values and values.get("role", Role.APPROVE) is not Role.APPROVE:
            person_fields.error("longest", "it is for the role approve: view lets nothing through, and manage for good")
        if {row.name for row in _KEYS if row.is_required} <= values.keys():
            yield AdminPerson(**values)


ADMIN = Type(_read, lambda: {"$name": "admin", **list_of(schema_of_rows(_KEYS), minItems=1, maxItems=_MOST)}, _KEYS)
