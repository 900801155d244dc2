"""The key ``admin`` of the policy."""

from __future__ import annotations

from pathlib import Path

from hushlist.core.routes import Role
from hushlist.extensions.dashboard.admin_keys import DAY, AdminPerson
from support.policies import read_whole
from unit.rows import each_row

STORED = f"scrypt$n=32768,r=8,p=1${'A' * 43}${'A' * 43}"
PERSON = f"{{name: a, passphrase: '{STORED}', role: view}}"


def read(folder: Path, admin: str) -> tuple[tuple[AdminPerson, ...], list[str]]:
    policy, errors = read_whole(folder, f"layers: []\nadmin: {admin}\n")
    return policy.of("admin"), [f"policy.yaml:{error}" for error in errors]


def test_people_have_a_name_a_passphrase_and_a_role(tmp_path: Path) -> None:
    people, errors = read(tmp_path, f"[{{name: Anna Ö, passphrase: '{STORED}', role: approve}}]")
    assert people == (AdminPerson("Anna Ö", STORED, Role.APPROVE),)
    assert errors == []


def test_a_person_who_approves_may_have_longer_than_a_day(tmp_path: Path) -> None:
    text = f"[{{name: a, passphrase: '{STORED}', role: approve, longest: 7d}}, {PERSON.replace('a,', 'b,', 1)}]"
    people, errors = read(tmp_path, text)
    assert ([person.longest for person in people], errors) == ([7 * DAY, DAY], [])
    assert [person.longest for person in people] == [7 * DAY, DAY]


@each_row(
    ("groups", "read"),
    [
        ("7b", ("7b",)),
        ("[7b, 7a]", ("7b", "7a")),
        ("[]", ()),
        ("[7c]", ()),
        ("default", ()),
        ("{}", ()),
        ("", ()),
        ("[[7b]]", ()),
    ],
)
def test_groups_that_cannot_be_read_leave_nobody(tmp_path: Path, groups: str, read: tuple[str, ...]) -> None:
    more = "groups: [{name: 7a, clients: [10.0.0.1]}, {name: 7b, clients: [10.0.0.2]}]"
    person = f"[{{name: a, passphrase: '{STORED}', role: manage, groups: {groups}}}]"
    policy, errors = read_whole(tmp_path, f"layers: []\nadmin: {person}\n{more}\n")
    assert ([one.groups for one in policy.of("admin")], bool(errors)) == ([read], not read)


@each_row(
    ("admin", "why"),
    [
        (f"[{{name: a, passphrase: '{STORED}', role: approve, longest: often}}]", "expected a time such as 7d"),
        (f"[{{name: a, passphrase: '{STORED}', role: approve, longest: 367d}}]", "expected a time such as 7d"),
        (f"[{{name: a, passphrase: '{STORED}', role: approve, longest: 1s}}]", "expected a time such as 7d"),
        (f"[{{name: a, passphrase: '{STORED}', role: view, longest: 1d}}]", "it is for the role approve"),
        ("[]", "expected 1 to 1000 people"),
        ("[{name: a, role: view}]", "a person has no passphrase"),
        (f"[{{passphrase: '{STORED}', role: view}}]", "a person has no name"),
        (f"[{{name: a, passphrase: '{STORED}'}}]", "a person has no role"),
        (f"[{{name: a, passphrase: '{STORED}', role: root}}]", "expected one of view, approve, manage"),
        ("[{name: a, passphrase: secret, role: view}]", "hushlist override passphrase"),
        (f"[{{name: ' a', passphrase: '{STORED}', role: view}}]", "characters that can be shown"),
        (f"[{{name: 'a{'b' * 100}', passphrase: '{STORED}', role: view}}]", "characters that can be shown"),
        (f'[{{name: "a\\u202e", passphrase: "{STORED}", role: view}}]', "characters that can be shown"),
        (f"[{PERSON}, {PERSON}]", "more than one person"),
        ("on", "admin"),
        ("[anna]", "expected a mapping with name, passphrase, role, longest, groups"),
    ],
)
def test_what_is_written_wrongly_is_reported_with_its_line(tmp_path: Path, admin: str, why: str) -> None:
    people, errors = read(tmp_path, admin)
    assert [error for error in errors if why in error and "policy.yaml:2" in error], errors
    assert people == () or "more than one" in why or "longest" in admin
    assert "secret" not in "".join(errors)
