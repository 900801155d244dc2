"""The keys of extensions: one in a folder of its own, and those of extensions that are left out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushlist.core.extension import built_in, extension_named
from hushlist.core.policy.usable_keys import KeyTable, default_of, table_of
from hushlist.tools.reference.written_keys import page_with_tables, schema_of_file
from support.policies import read_whole
from unit.rows import each_row

TINY = """
from hushlist.core.extension import Extension
from hushlist.core.policy.keys import Key

EXTENSION = Extension("tiny", policy_keys=(
    Key("odds", f"{__name__}.odds:ODDS", default=10).says("how long the odds may be: see [Odds](odds.md)"),
    Key("bets", f"{__name__}.odds:BETS", place="group", default=False).says("whether bets are off"),
    Key("tip", f"{__name__}.odds:ODDS", place="list").says("how good the list is"),
))
"""
ODDS = """
from hushlist.core.policy.key_types import number, switch

ODDS, BETS = number(1, 100), switch
"""
PAGE = "<!-- keys: policy -->\n\n| key | what it says |\n| --- | --- |\n| `odds` | |\n\nText.\n"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyTable]:
    """The table with the keys of an extension that is installed."""
    places = {
        "tiny/__init__.py": TINY,
        "tiny/odds.py": ODDS,
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/entry_points.txt": "[hushlist.extensions]\ntiny = tiny:EXTENSION\n",
    }
    for name, text in places.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    extension_named.cache_clear()
    table_of.cache_clear()
    yield table_of(("built-in", "tiny"))
    extension_named.cache_clear()
    table_of.cache_clear()


@pytest.mark.usefixtures("tiny")
@each_row(
    ("text", "odds", "bets"),
    [
        ("odds: 3", 3, [False]),
        ("bets: on\ngroups: [{name: a, users: [jo]}, {name: b, users: [al], bets: off}]", 10, [True, True, False]),
        ("groups: [{name: b, users: [al], bets: on}]", 10, [False, True]),
    ],
)
def test_a_key_of_an_installed_extension_is_read(tmp_path: Path, text: str, odds: int, bets: list[bool]) -> None:
    policy, errors = read_whole(tmp_path, f"extensions: [built-in, tiny]\n{text}\nlayers: []\n")
    assert errors == []
    assert policy.of("odds") == odds
    assert [group.settings.of("bets") for group in policy.all_groups[-1:] + policy.groups] == bets


@pytest.mark.usefixtures("tiny")
def test_a_key_of_a_list_is_in_its_values(tmp_path: Path) -> None:
    (tmp_path / "l.domains").write_text("a.example\n")
    lists = "[{file: l.domains, tip: 7, gate: off}, l.domains]"
    policy, errors = read_whole(tmp_path, f"extensions: [built-in, tiny]\nlayers: [{{name: a, lists: {lists}}}]\n")
    assert errors == []
    tipped, plain = policy.layers[0].lists
    assert (tipped.values["tip"], tipped.gate.is_off) == (7, True)
    assert ("tip" in plain.values, plain.gate.is_off) == (False, False)


def test_it_is_in_the_schema_and_in_the_reference(tiny: KeyTable) -> None:
    schema = schema_of_file("policy", tiny)
    says = {"description": "how long the odds may be: see Odds", "type": ["integer", "string"]}
    assert says.items() <= schema["properties"]["odds"].items()
    assert "bets" in schema["$defs"]["group"]["properties"]
    assert "tip" in schema["$defs"]["list"]["properties"]
    page = page_with_tables("policy.md", PAGE, tiny)
    assert "\n| `odds` | how long the odds may be: see [Odds](odds.md) |\n" in page
    assert page.endswith("\n\nText.\n")


@each_row(
    ("text", "errors"),
    [
        (
            "extensions: [adblock]\nquotas: {hrn://a.example: 5}",
            ["2: quotas: the extension quotas has this key, and 'extensions' leaves it out"],
        ),
        (
            "extensions: [quotas]\ngroups:\n- name: a\n  users: [jo]\n  unblock: on",
            ["5: unblock: the extension unblock has this key, and 'extensions' leaves it out"],
        ),
        ("extensions: [quotas]\nquotas: {hrn://a.example: 5}", []),
        (
            "extensions: [adblock]\nlayers: [{name: a, lists: [{file: policy.yaml, gate: off}]}]",
            ["2: gate: the extension subscriptions has this key, and 'extensions' leaves it out"],
        ),
        ("extensions: built-in", ["1: extensions: expected a list, not text"]),
    ],
)
def test_a_key_of_an_extension_that_is_left_out_is_an_error_that_names_it(
    tmp_path: Path, text: str, errors: list[str]
) -> None:
    whole = text if "layers" in text else f"{text}\nlayers: []"
    assert read_whole(tmp_path, f"{whole}\n")[1] == errors


def test_an_extension_that_is_not_there_is_an_error_in_its_line(tmp_path: Path) -> None:
    _, (error,) = read_whole(tmp_path, "layers: []\nextensions:\n- quotas\n- qotas\n")
    assert error.startswith("4: extensions: 'qotas': no extension has this name; did you mean 'quotas'?")


def test_what_no_policy_says_is_the_default_of_the_row() -> None:
    assert (default_of("quotas"), default_of("language"), default_of("unblock")) == ((), "en", None)


def test_no_key_is_of_two_extensions() -> None:
    names = [(row.place, row.name) for each in built_in() for row in each.policy_keys]
    assert len(names) == len(set(names))


def test_each_row_names_a_type_that_is_there() -> None:
    assert all(callable(row.kind.read) for each in built_in() for row in each.policy_keys)
