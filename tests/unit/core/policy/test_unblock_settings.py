"""What a policy says of temporary unblocks."""

from functools import partial

from hushlist.extensions.unblock.credentials import hash_passphrase
from hushlist.extensions.unblock.unblock_keys import UnblockSettings
from support.readings import read_key
from unit.rows import each_row

read = partial(read_key, "unblock")


@each_row(
    ("text", "expected"),
    [
        ("on", UnblockSettings()),
        ("off", None),
        ("{}", UnblockSettings()),
        ("{ask: on}", UnblockSettings(ask=True)),
        ("{ask: off}", UnblockSettings()),
        ("{codes: off, ask: {}}", UnblockSettings(codes=False, ask=True)),
        ("{ask: {name: logged}}", UnblockSettings(ask=True)),
        ("{ask: {name: shown}}", UnblockSettings(ask=True, names_asker=True)),
        ("{codes: on, scopes: [url], minutes: [5, 1440]}", UnblockSettings(scopes=("url",), minutes=(5, 1440))),
    ],
)
def test_what_block_pages_offer_is_read(text: str, expected: UnblockSettings | None) -> None:
    assert read(text) == (expected, [])


def test_a_passphrase_is_taken_as_it_is_printed() -> None:
    stored = hash_passphrase("correct horse")
    assert read(f"{{passphrase: '{stored}', codes: off}}") == (UnblockSettings(stored, codes=False), [])


EXPECTED = "expected on, off or a mapping with passphrase, codes, scopes, minutes, ask"


@each_row(
    ("text", "errors"),
    [
        ("maybe", [f"p:1: unblock: 'maybe': {EXPECTED}"]),
        ("", [f"p:1: unblock: nothing: {EXPECTED}"]),
        ("[]", [f"p:1: unblock: a list: {EXPECTED}"]),
        (
            "{code: on}",
            ["p:1: code: unknown key; did you mean 'codes'? (known: passphrase, codes, scopes, minutes, ask)"],
        ),
        ("{codes: yes}", ["p:1: codes: yes: expected one of on, off"]),
        ("{codes: off}", ["p:1: unblock: it takes neither a passphrase nor codes, and nobody can ask"]),
        ("{ask: yes}", ["p:1: ask: 'yes': expected on, off or a mapping with name"]),
        ("{ask: {name: hidden}}", ["p:1: name: hidden: expected one of logged, shown"]),
        ("{scopes: [hosts]}", ["p:1: scopes: 'hosts': expected some of host, url, category, site"]),
        ("{scopes: []}", ["p:1: scopes: expected some of host, url, category, site, not an empty list"]),
        ("{minutes: []}", ["p:1: minutes: expected numbers from 1 to 1440, not an empty list"]),
        *(
            (f"{{minutes:\n [{given}]}}", [f"p:2: minutes: '{given}': expected a number from 1 to 1440"])
            for given in ("0", "1441", "-1", "x", "٣")
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(text: str, errors: list[str]) -> None:
    assert read(text)[1] == errors


def test_a_passphrase_in_the_clear_is_refused_without_being_shown() -> None:
    found, (error,) = read("{passphrase: correct horse}")
    assert found == UnblockSettings()
    assert error.startswith("p:1: passphrase: ")
    assert "as 'hushlist override passphrase' prints it" in error
    assert "horse" not in error
