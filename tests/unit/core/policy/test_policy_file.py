"""The policy file."""

import os
from pathlib import Path

import pytest

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.compile.stat_cache import load_engine
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_keys import DEFAULTS_KEYS
from hushlist.core.match.rule import Action
from hushlist.core.match.seal import SealKey
from hushlist.core.policy.key_types import names_of
from hushlist.core.policy.list_reader import lists_type
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import policy_rows
from hushlist.core.policy.usable_keys import table_of
from hushlist.core.system.files import fingerprint, write_private
from support.engines import rules_in
from unit.rows import each_row

KEYS = ", ".join(names_of(policy_rows(table_of())))
LAYER_KEYS = "name, for, during, checks, lists, inside, with"
LIST_KEYS = ", ".join(names_of((*lists_type(table_of()).rows, *DEFAULTS_KEYS)))
NAMES = ", ".join(FORMATS)
KEY = SealKey(bytes(range(32)))
NO_KEY = "it is no key of sealed lists, 64 hexadecimal digits, as 'hushlist sealkey' makes them"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text("rules: [good.example]\n")
    (tmp_path / "good.hashed").write_text(f"hashed:sha1={'0' * 40}\n")
    (tmp_path / "domains").write_text("d.example\n")
    (tmp_path / "list.txt").write_text("t.example\n")
    for name, text in (("own", KEY.text), ("broken", "0" * 63)):
        write_private(tmp_path / f"{name}.key", text.encode())
    (tmp_path / "no-list").write_text("what is this?\n")
    return tmp_path


def load(folder: Path, text: str) -> Policy:
    (folder / "policy.yaml").write_text(text)
    return compile_policy(folder / "policy.yaml").policy


def errors_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(folder, text)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem).replace(f"{folder}{os.sep}", "") for problem in caught.value.problems]


def one_list(entry: str) -> str:
    return f"layers:\n- name: lists\n  lists:\n  - {entry}\n"


def test_layers_and_lists_keep_their_order(folder: Path) -> None:
    policy = load(
        folder,
        "layers:\n- name: overrides\n  lists: []\n"
        "- name: lists\n  lists: [good.yaml, good.hashed, domains]\n- name: empty\n",
    )
    assert [layer.name for layer in policy.layers] == ["overrides", "lists", "empty"]
    assert [rule.terms.list for rule in rules_in(policy.layers[1])] == ["good", "good", "domains"]
    assert {rule.terms.source for rule in rules_in(policy.layers[1])} == {
        str(folder / name) for name in ("good.yaml", "good.hashed", "domains")
    }
    assert policy.unparsable is Action.BLOCK
    assert policy.source == str(folder / "policy.yaml")


def test_a_policy_s_terms_hold_for_a_list(folder: Path) -> None:
    terms = "name: 'hrn://l.example/a', action: tag, category: 'hrn://c.example/x', reason: why"
    entry = f"{{file: list.txt, format: domains, {terms}}}"
    (rule,) = rules_in(load(folder, one_list(entry)).layers[0])
    assert (rule.terms.list, rule.terms.action, rule.terms.category, rule.terms.reason) == (
        "hrn://l.example/a",
        Action.TAG,
        "hrn://c.example/x",
        "why",
    )


def test_a_list_s_file_is_found_beside_the_policy_wherever_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    load(folder, one_list("good.yaml"))
    assert len(compile_policy(Path(folder.name) / "policy.yaml").index) == 1


GAMES = (
    "policy.yaml:2: homework: it is no hrn: name, and no category has this short name; for example "
    "'hrn://policy.example/homework'"
)


@each_row(
    ("text", "errors"),
    [
        ("", [f"policy.yaml:1: nothing: expected a mapping with {KEYS}"]),
        ("[]", [f"policy.yaml:1: a list: expected a mapping with {KEYS}"]),
        ("unparsable: block", ["policy.yaml:1: layers: the policy has none"]),
        ("layers: x", ["policy.yaml:1: layers: expected a list, not text"]),
        ("layers: []\ncolour: red", [f"policy.yaml:2: colour: unknown key (known: {KEYS})"]),
        ("layers: []\nunparsable: allow", ["policy.yaml:2: unparsable: allow: expected one of block, pass"]),
        ("layers: []\nunknown-context: allow", ["policy.yaml:2: unknown-context: allow: expected one of block, pass"]),
        ("layers: []\nunparsable: tag", ["policy.yaml:2: unparsable: tag: expected one of block, pass"]),
        ("layers: []\nlayers: []", ["policy.yaml:2: layers: the key is given twice (first in line 1)"]),
        ("layers: [a: &x b]", ["policy.yaml:1: &x: anchors are not supported"]),
        # layers
        ("layers: [x]", [f"policy.yaml:1: 'x': expected a mapping with {LAYER_KEYS}"]),
        ("layers:\n- lists: []", ["policy.yaml:2: layer: it has no name"]),
        (
            "layers:\n- lists: []\n- lists: []",
            ["policy.yaml:2: layer: it has no name", "policy.yaml:3: layer: it has no name"],
        ),
        ("layers:\n- {name: a, rules: []}", [f"policy.yaml:2: rules: unknown key (known: {LAYER_KEYS})"]),
        ("layers:\n- {name: a, lists: good.yaml}", ["policy.yaml:2: lists: expected a list, not text"]),
        ("layers:\n- name: a\n- name: b\n- name: a", ["policy.yaml:2: a: more than one layer has this name"]),
        # what holds for everybody, and for groups
        ("layers: []\ncategories: {homework: block}", [GAMES]),
        ("layers: []\nblock-page: none.html", ["policy.yaml:2: none.html: there is no such file"]),
        (
            "layers: [{name: a, during: night}]",
            ["policy.yaml:1: night: there is no such schedule (the policy has none)"],
        ),
        (
            "schedules: {day: {times: 08:00-20:00}}\nlayers:\n- {name: a, during: night}",
            ["policy.yaml:3: night: there is no such schedule (known: day)"],
        ),
        ("layers: [{name: default}]", ["policy.yaml:1: default: this name stands for what no layer decides"]),
        ("layers: []\ngroups: {}", ["policy.yaml:2: groups: expected a list, not a mapping"]),
        (
            "layers: []\ngroups:\n- {name: default, ports: [1]}",
            ["policy.yaml:3: default: this is the name of the group of everybody who is in none"],
        ),
        (
            "layers: []\ngroups:\n- {name: g, ports: [1]}\n- {name: g, ports: [2]}",
            ["policy.yaml:3: g: more than one group has this name"],
        ),
        (
            "layers: []\ngroups:\n- {name: g,\n   clients: []}",
            ["policy.yaml:4: clients: expected some clients, not an empty list"],
        ),
        # lists
        (one_list("[]"), [f"policy.yaml:4: a list: expected a mapping with {LIST_KEYS}"]),
        (one_list("{}"), ["policy.yaml:4: list: it names no file and no url"]),
        (one_list("{reason: x}"), ["policy.yaml:4: list: it names no file and no url"]),
        (one_list("{file: []}"), ["policy.yaml:4: file: expected text, not a list"]),
        (
            one_list("{file: good.yaml, category: Web Games}"),
            [
                "policy.yaml:4: category: Web Games: it is no hrn: name, and no category has this short name"
                "; for example 'hrn://good.example/web-games'"
            ],
        ),
        (one_list("{file: good.yaml, colour: red}"), [f"policy.yaml:4: colour: unknown key (known: {LIST_KEYS})"]),
        (
            one_list("{file: good.yaml, action: skip}"),
            ["policy.yaml:4: action: skip: expected one of allow, block, warn, tag, pass"],
        ),
        (one_list("{file: good.yaml, variant: q}"), ["policy.yaml:4: variant: q: expected one of n, p"]),
        (
            one_list("{file: good.yaml, format: abp}"),
            [f"policy.yaml:4: format: abp: expected one of {NAMES}, squidguard"],
        ),
        (
            one_list("no-list"),
            [f"no-list: list: neither its name nor its content tells its format: give one of {NAMES}"],
        ),
        (
            one_list("{file: list.txt, format: safebrowsing-raw, prefix-length: 33}"),
            [
                "policy.yaml:4: prefix-length: 33: expected a number from 4 to 32",
                "list.txt: prefix-length: a binary list needs the length of its prefixes, 4 to 32 octets",
            ],
        ),
        (
            one_list("{file: list.txt, format: domains, prefix-length: 4}"),
            ["policy.yaml:4: prefix-length: only the format safebrowsing-raw has one"],
        ),
        (one_list("{file: good.yaml, seal: none}"), ["policy.yaml:4: none: there is no such file"]),
        (
            one_list("{file: domains, seal: own.key}"),
            ["policy.yaml:4: seal: only lists of the formats yaml and sha256 can be sealed"],
        ),
        (
            one_list("{file: good.yaml, seal: broken.key}"),
            [f"policy.yaml:4: broken.key: {NO_KEY}"],
        ),
        (
            one_list("{file: good.yaml, seal: own.key}"),
            ["good.yaml:1: seal: a key is given for the list, and it is not sealed"],
        ),
        (one_list("{file: good.yaml, seal: }"), ["policy.yaml:4: seal: expected text, not nothing"]),
        (one_list("none.yaml"), ["policy.yaml:4: none.yaml: there is no such file"]),
        (one_list("{file: none.txt, format: hosts}"), ["policy.yaml:4: none.txt: there is no such file"]),
        (one_list("good.yaml/x.yaml"), ["policy.yaml:4: good.yaml/x.yaml: there is no such file"]),
    ],
)
def test_every_error_names_file_line_what_and_why(folder: Path, text: str, errors: list[str]) -> None:
    assert errors_of(folder, text) == errors


@pytest.mark.posix
def test_a_secret_that_others_can_use_is_an_error(folder: Path) -> None:
    why = "it is secret, and others can use it: take that away (chmod o=,g-w)"
    assert errors_of(folder, one_list("{file: good.yaml, seal: domains}")) == [f"policy.yaml:4: domains: {why}"]


def test_a_list_that_is_a_folder_is_an_error(folder: Path) -> None:
    (folder / "folder.yaml").mkdir()
    why = "it is a folder, which only the format squidguard reads"
    assert errors_of(folder, one_list("folder.yaml")) == [f"policy.yaml:4: folder.yaml: {why}"]


def test_the_errors_of_all_files_are_reported_together(folder: Path) -> None:
    (folder / "bad.yaml").write_text("rules:\n- ok.example\n- '..'\n- {sha256: x}\n")
    (folder / "bad.hashed").write_text("ads.example\n")
    text = (
        "colour: red\nlayers:\n- name: a\n  lists: [bad.yaml, none.yaml]\n- name: b\n  lists: [good.yaml, bad.hashed]\n"
    )
    assert errors_of(folder, text) == [
        f"policy.yaml:1: colour: unknown key (known: {KEYS})",
        "policy.yaml:4: none.yaml: there is no such file",
        "bad.yaml:3: ..: it names no host",
        "bad.yaml:4: x: expected pairs of hexadecimal digits",
        "bad.hashed:1: ads.example: a hashed URI begins with 'hashed:' (at character 1)",
    ]


def test_warnings_of_all_files_are_kept(folder: Path) -> None:
    (folder / "domains").write_text("a b\nd.example\n")
    (folder / "good.hashed").write_text("hashed:sha9=0\n")
    load(folder, "layers: [{name: a, lists: [domains, good.hashed]}]")
    assert [str(problem) for problem in compile_policy(folder / "policy.yaml").report.warnings] == [
        f"{folder / 'domains'}:1: a b: left out: there is white space in it",
        f"{folder / 'good.hashed'}:1: hashed:sha9=0: skipped: unknown algorithm 'sha9' (known: md5, sha1, x-sha256)",
    ]


def test_every_file_is_remembered_as_it_was(folder: Path) -> None:
    policy = load(folder, "layers: [{name: a, lists: [good.yaml]}, {name: b, lists: [domains]}]")
    files = [folder / name for name in ("policy.yaml", "good.yaml", "domains")]
    assert policy.files == {path: fingerprint(path) for path in files}
    assert None not in policy.files.values()


def test_each_list_has_its_own_key_which_is_one_of_the_policy_s_files(folder: Path) -> None:
    other = SealKey(bytes(32))
    write_private(folder / "other.key", other.text.encode())
    for name, key in (("one", KEY), ("two", other)):
        digest = key.sealer()(f"{name}.example/".encode()).hex()
        (folder / f"{name}.sha256").write_text(f"seal: {key.fingerprint}\n{digest}\n")
    text = "layers: [{name: lists, lists: [{file: one.sha256, seal: own.key}, {file: two.sha256, seal: other.key}]}]"
    policy = load(folder, text)
    assert policy.seals == {key.fingerprint: key for key in (KEY, other)}
    assert {folder / "own.key", folder / "other.key"} <= policy.files.keys()
    engine = load_engine(folder / "policy.yaml")
    for url, action in ((b"http://one.example/", Action.BLOCK), (b"http://a.two.example/", Action.BLOCK)):
        assert engine.decide_url(url).action is action
    assert engine.decide_url(b"http://three.example/").action is Action.PASS
    assert KEY.octets not in Path(engine.index.source).read_bytes()
    (folder / "own.key").unlink()
    write_private(folder / "own.key", other.text.encode())
    (error,) = errors_of(folder, text)
    assert error.startswith(f"one.sha256:1: seal: the list is sealed with the key {KEY.fingerprint}, and the key ")
