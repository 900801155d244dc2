"""What became of rules: every kind of change, and what holds for any two lists."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushlist.core.errors import SourceError
from hushlist.core.lists.list_formats import FORMATS
from hushlist.core.lists.list_source import ListDefaults
from hushlist.core.match.expressions import full_hash
from hushlist.core.match.rule import Action
from hushlist.core.policy.policy_file import ListFile, Policy
from hushlist.core.policy.policy_reader import policy_at
from hushlist.extensions.subscriptions.rule_comparison import ChangeKind
from hushlist.tools.audit import diff_job
from hushlist.tools.audit.report_codec import encode
from unit.rows import each_row

ALL = diff_job.DiffOptions(moved=True)


def side(path: Path, form: str) -> diff_job.DiffSide:
    return diff_job.DiffSide((ListFile(path, FORMATS[form], ListDefaults()),), ("",), Policy(str(path), ()))


def compared(
    folder: Path, old: str, new: str, form: str = "urls", wanted: diff_job.DiffOptions = ALL, jobs: int = 1
) -> tuple[list[diff_job.RuleChange], diff_job.Diff]:
    (folder / "old").write_text(old)
    (folder / "new").write_text(new)
    changes: list[diff_job.RuleChange] = []
    found = diff_job.diff(side(folder / "old", form), side(folder / "new", form), changes.append, wanted, jobs=jobs)
    return changes, found


def lines(changes: Sequence[diff_job.RuleChange], folder: Path) -> list[str]:
    return [str(change).replace(f"{folder}/", "") for change in changes]


SHORT, SHORTER = full_hash(b"h.example/").hex()[:16], full_hash(b"h.example/").hex()[:8]


@each_row(
    ("form", "old", "new", "line"),
    [
        ("urls", "", "a.example", "+ new:1: a.example/"),
        ("urls", "a.example", "", "- old:1: a.example/"),
        ("urls", "a.example", "\na.example", "= old:1 -> new:2: a.example/"),
        ("urls", "a.example/x/", "a.example", "~ old:1 -> new:1: broadened: a.example/x/ -> a.example/"),
        ("urls", "x.a.example", "a.example", "~ old:1 -> new:1: broadened: x.a.example/ -> a.example/"),
        ("urls", "a.example/p?q=1", "a.example/p", "~ old:1 -> new:1: broadened: a.example/p?q=1 -> a.example/p"),
        ("urls", "a.example", "x.a.example/y", "~ old:1 -> new:1: narrowed: a.example/ -> x.a.example/y"),
        ("addresses", "192.0.2.0/28", "192.0.2.0/24", "~ old:1 -> new:1: broadened: 192.0.2.0/28 -> 192.0.2.0/24"),
        ("addresses", "192.0.2.0/24", "192.0.2.0/28", "~ old:1 -> new:1: narrowed: 192.0.2.0/24 -> 192.0.2.0/28"),
        ("addresses", "192.0.2.0/24", "198.51.100.0/20", None),
        ("sha256", SHORT, SHORTER, f"~ old:1 -> new:1: broadened: sha256:{SHORT} -> sha256:{SHORTER}"),
        ("sha256", SHORTER, SHORT, f"~ old:1 -> new:1: narrowed: sha256:{SHORTER} -> sha256:{SHORT}"),
        (
            "yaml",
            "rules: [{expression: a.example}]",
            "rules: [{expression: a.example, action: allow}]",
            "~ old:1 -> new:1: changed: a.example/ (action: block -> allow)",
        ),
        (
            "yaml",
            "{reason: ads, rules: [a.example]}",
            "rules:\n- {expression: a.example, category: 'hrn://c.example/ads', expires: 2027-01-01}",
            "~ old:1 -> new:2: changed: a.example/ (category: none -> hrn://c.example/ads; reason: ads -> none; "
            "expires: none -> 2027-01-01)",
        ),
        ("yaml", "rules: []", "{action: allow, rules: [a.example]}", "+ new:1: a.example/ (allow)"),
        ("hosts", "0.0.0.0 a.example", "0.0.0.0 b.example b.example", None),
    ],
)
def test_a_change_is_told_in_a_line(tmp_path: Path, form: str, old: str, new: str, line: str | None) -> None:
    changes, found = compared(tmp_path, old, new, form)
    if line is None:
        assert {change.kind for change in changes} <= {ChangeKind.ADDED, ChangeKind.REMOVED}
    else:
        assert lines(changes, tmp_path) == [line]
        assert sum(found.counts.values()) == 1


def test_a_rule_and_its_hash_are_one_pattern(tmp_path: Path) -> None:
    digest = full_hash(b"a.example/").hex()
    clear, hashed = "rules: [a.example]", f"rules: [{{sha256: '{digest}'}}]"
    changes, found = compared(tmp_path, clear, hashed, "yaml")
    assert lines(changes, tmp_path) == [f"~ old:1 -> new:1: changed: a.example/ -> sha256:{digest} (now hashed)"]
    assert (found.added, found.removed) == (0, 0)
    assert "(now in the clear)" in str(compared(tmp_path, hashed, clear, "yaml")[0][0])


def test_the_next_rule_that_covers_is_named_and_others_that_came_are_added(tmp_path: Path) -> None:
    changes, found = compared(tmp_path, "a.b.example/x\n", "b.example\na.b.example\nother.example\n")
    assert lines(changes, tmp_path) == [
        "~ old:1 -> new:2: broadened: a.b.example/x -> a.b.example/",
        "+ new:1: b.example/",
        "+ new:3: other.example/",
    ]
    assert (found.added, found.removed) == (3, 1)


def test_a_rule_of_another_action_covers_nothing(tmp_path: Path) -> None:
    changes, _ = compared(tmp_path, "rules: [a.example/x/]", "{action: allow, rules: [a.example]}", "yaml")
    assert [change.kind for change in changes] == [ChangeKind.REMOVED, ChangeKind.ADDED]


def test_what_is_broad_is_called_out_however_few_are_shown(tmp_path: Path) -> None:
    new = "".join(f"{letter}.example\n" for letter in "abcde") + "co.uk\nwww.popular.example\n"
    wanted = diff_job.DiffOptions(limit=1, popular=(b"www.popular.example",))
    changes, found = compared(tmp_path, "x.co.uk\n", new, wanted=wanted)
    assert [line.partition(": broad: ")[0] for line in lines(changes, tmp_path)] == [
        "~ old:1 -> new:6: broadened: x.co.uk/ -> co.uk/",
        "+ new:1: a.example/",
        "+ new:6: co.uk/",
        "+ new:7: www.popular.example/",
    ]
    assert found.broad == 2
    assert found.shown[ChangeKind.ADDED] == 3
    assert compared(tmp_path, new, new, wanted=wanted)[1].broad == 0


def test_a_broad_rule_that_blocks_now_is_called_out(tmp_path: Path) -> None:
    tag = "{action: tag, rules: [co.uk]}"
    assert compared(tmp_path, tag, tag.replace("tag", "block"), "yaml")[1].broad == 1
    assert compared(tmp_path, tag, tag.replace("rules", "reason: r, rules"), "yaml")[1].broad == 0


def test_what_no_rule_could_be_made_of_counts(tmp_path: Path) -> None:
    _, found = compared(tmp_path, "a.example\n", "a b\n<p class=x>\n")
    assert (found.old_refused, found.removed) == (0, 1)
    assert found.new_refused == 2
    _, found = compared(tmp_path, "a b\n", "a.example\n")
    assert (found.old_refused, found.new_refused) == (1, 0)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="gone: No such file"):
        diff_job.diff(side(tmp_path / "gone", "urls"), side(tmp_path / "gone", "urls"), print)
    with pytest.raises(SourceError, match="new:1"):
        compared(tmp_path, "rules: []", "rules: [a b]", "yaml")


@pytest.mark.slow
@pytest.mark.thorough
def test_pieces_and_processes_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "".join(f"h{number % 701}.example/{number}/\n" for number in range(5_000))
    # Some are gone, those of one host are covered by it, every eleventh is for a part of what it was for.
    ends = {number: "x" if number % 11 == 0 else "" for number in range(500, 6_000)}
    new = "h7.example\n" + "".join(f"h{number % 701}.example/{number}/{end}\n" for number, end in ends.items())
    expected = compared(tmp_path, old, new)
    monkeypatch.setattr("hushlist.core.compile.list_chunks.PIECE", 10_000)
    monkeypatch.setattr("hushlist.core.compile.list_chunks.FEW", 0)
    monkeypatch.setattr("hushlist.core.match.sorted_runs.FEW_ROWS", 100)
    monkeypatch.setattr("hushlist.extensions.subscriptions.rule_comparison.MOST_KEPT", 50)
    in_pieces = compared(tmp_path, old, new, jobs=2)
    assert in_pieces == expected
    kinds = {change.kind for change in expected[0]}
    assert kinds == {ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.BROADENED, ChangeKind.NARROWED, ChangeKind.MOVED}


def test_equal_meanings_of_other_parts_are_equal(tmp_path: Path) -> None:
    rules = "".join(f"- {{expression: {n}.example, reason: r{n}, expires: 2027-01-0{n}}}\n" for n in range(1, 9))
    changes, found = compared(tmp_path, f"rules:\n{rules}", f"rules:\n{rules[rules.index('- ', 3) :]}", "yaml")
    assert [change.kind for change in changes] == [ChangeKind.REMOVED] + [ChangeKind.MOVED] * 7
    assert changes[0].old is not None
    assert changes[0].old.expires == date(2027, 1, 1)
    assert found.counts[ChangeKind.CHANGED] == 0


ADS = diff_job.RuleMeaning(Action.BLOCK, "hrn://c.example/ads", None, None, "lists", is_clear=True)


def test_all_that_differs_is_told() -> None:
    other = diff_job.RuleMeaning(Action.WARN, None, "why", date(2027, 1, 31), "own", is_clear=False)
    ends = diff_job.RuleState("old", 1, "a.example/", *ADS[:-2]), diff_job.RuleState("new", 2, "sha256:00", *other[:-2])
    change = diff_job.RuleChange(ChangeKind.CHANGED, *ends, tuple(diff_job.differences(ADS, other)), None)
    assert str(change) == (
        "~ old:1 -> new:2: changed: a.example/ -> sha256:00 (action: block -> warn; category: hrn://c.example/ads -> "
        "none; reason: none -> why; expires: none -> 2027-01-31; layer: lists -> own; now hashed)"
    )


def test_json_has_both_ends() -> None:
    change = diff_job.RuleChange(
        ChangeKind.ADDED, None, diff_job.RuleState("new", 2, "co.uk/", *ADS[:-2]), (), "it is broad"
    )
    assert str(change) == "+ new:2: co.uk/: broad: it is broad"
    assert encode(change) == {
        "kind": "added",
        "old": None,
        "new": {
            "source": "new",
            "line": 2,
            "rule": "co.uk/",
            "action": "block",
            "category": "hrn://c.example/ads",
            "reason": None,
            "expires": None,
            "layer": "lists",
        },
        "how": [],
        "broad": "it is broad",
    }


# -- any two lists -----------------------------------------------------------------------------------------------------

_HOSTS = st.sampled_from(["a.example", "b.a.example", "c.b.a.example", "10.1.2.3", "co.uk", "x.co.uk"])
_PATHS = st.sampled_from(["/", "/x", "/x/", "/x/y", "/x?q=1"])
_PATTERNS = st.one_of(
    st.builds(str.__add__, _HOSTS, _PATHS).map(lambda text: f"expression: '{text}'"),
    st.sampled_from(["a.example/", "b.a.example/x"]).flatmap(
        lambda text: st.sampled_from([8, 16, 64]).map(
            lambda digits: f"sha256: '{full_hash(text.encode()).hex()[:digits]}'"
        )
    ),
    st.sampled_from(["10.0.0.0/8", "10.1.2.0/24", "10.1.2.3/32"]).map(lambda text: f"address: {text}"),
)
_RULES = st.lists(st.tuples(_PATTERNS, st.sampled_from(["block", "warn", "tag"])), max_size=12)


def _yaml(rules: list[tuple[str, str]]) -> str:
    return "rules: []\n" if not rules else "rules:\n" + "".join(f"- {{{p}, action: {a}}}\n" for p, a in rules)


def _shown(rules: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """Each rule as it is shown, and its action."""
    found = set()
    for pattern, action in rules:
        kind, _, text = pattern.partition(": ")
        found.add((f"sha256:{text.strip(_QUOTE)}" if kind == "sha256" else text.strip(_QUOTE), action))
    return found


_QUOTE = "'"


@settings(deadline=None)
@given(_RULES)
def test_a_list_does_not_differ_from_itself(rules: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as name:
        changes, found = compared(Path(name), _yaml(rules), _yaml(rules), "yaml")
    assert changes == []
    assert found.old == found.new == found.counts[ChangeKind.UNCHANGED] == len(_shown(rules))


@settings(deadline=None)
@given(_RULES, _RULES)
def test_the_changes_make_new_of_old(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as name:
        changes, found = compared(Path(name), _yaml(old), _yaml(new), "yaml")
    assert (found.old, found.new) == (len(_shown(old)), len(_shown(new)))
    assert found.new == found.old + found.added - found.removed
    told = [change for change in changes if change.kind is not ChangeKind.MOVED]
    gone = {(stand.rule, stand.action.value) for change in told if (stand := change.old)}
    came = {(stand.rule, stand.action.value) for change in told if (stand := change.new)}
    assert gone <= _shown(old)
    assert came.isdisjoint(_shown(old) - gone)
    assert (_shown(old) - gone) | came == _shown(new)


@settings(deadline=None)
@given(_RULES, _RULES)
def test_the_way_back_is_the_opposite(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as name:
        _, there = compared(Path(name), _yaml(old), _yaml(new), "yaml")
        _, back = compared(Path(name), _yaml(new), _yaml(old), "yaml")
    assert (there.added, there.removed) == (back.removed, back.added)
    for kind in (ChangeKind.CHANGED, ChangeKind.MOVED, ChangeKind.UNCHANGED):
        assert there.counts[kind] == back.counts[kind]


# -- the two sides -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("games", "new-games", "less"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "domains").write_text("a.example\n")
    (tmp_path / "games" / "urls").write_text("b.example/x\n")
    (tmp_path / "new-games" / "expressions").write_text("")
    (tmp_path / "ads.hosts").write_text("0.0.0.0 a.example\n")
    (tmp_path / "fetched").write_text("0.0.0.0 a.example\n")
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: own, lists: [own.yaml]}\n"
        "- {name: lists, lists: [games, {file: ads.hosts, category: 'hrn://c.example/ads'}]}\n"
    )
    (tmp_path / "own.yaml").write_text("reason: 'the layers'\nrules: []\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(path: str) -> list[str]:
    return [str(file.path) for file in diff_job.side_of_policy(policy_at(Path(path))).files]


def test_a_policy_has_layers() -> None:
    assert diff_job.is_policy(Path("policy.yaml"))
    assert not diff_job.is_policy(Path("own.yaml"))
    assert not diff_job.is_policy(Path("ads.hosts"))
    assert not diff_job.is_policy(Path("gone.yaml"))


def test_files_of_a_policy_are_called_by_where_they_are_from_it() -> None:
    side = diff_job.side_of_policy(policy_at(Path("policy.yaml").absolute()))
    assert side.names == ("own.yaml", "games/domains", "games/urls", "ads.hosts")


def test_a_list_is_a_policy_alone() -> None:
    side = diff_job.side_of_list(Path("games"), "squidguard", ListDefaults())
    policy = side.policy
    assert side.names == ("domains", "urls")
    assert [file.defaults.layer for layer in policy.layers for file in layer.lists] == ["lists", "lists"]
    assert set(policy.files) == {Path("games/domains"), Path("games/urls")}
    assert diff_job.side_of_list(Path("ads.hosts"), "hosts", ListDefaults()).names == ("",)
    with pytest.raises(SourceError, match="gone: list: there is no such file"):
        diff_job.side_of_list(Path("gone"), "hosts", ListDefaults())


def test_what_replaces_a_list_is_read_as_the_policy_says() -> None:
    old, new = diff_job.replaced(
        policy_at(Path("policy.yaml")), Path("../" + Path.cwd().name, "ads.hosts"), Path("fetched")
    )
    (was,), (is_,) = old.files, new.files
    assert (is_.path, is_.format) == (Path("fetched"), was.format)
    assert (is_.defaults.name, is_.defaults.category, is_.defaults.layer) == ("ads", "hrn://c.example/ads", "lists")
    assert diff_job.side_of_policy(new.policy).files[-1] == is_
    assert Path("fetched") in new.policy.files
    assert Path("ads.hosts") not in new.policy.files


def test_a_folder_is_replaced_as_a_whole() -> None:
    _, new = diff_job.replaced(policy_at(Path("policy.yaml")), Path("games"), Path("new-games"))
    assert new.names == ("domains", "expressions")
    assert {file.defaults.name for file in new.files} == {"games"}
    assert [str(file.path) for file in new.policy.layers[1].lists] == [
        "new-games/domains",
        "new-games/expressions",
        "ads.hosts",
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"), [("fetched", "ads.hosts", "it is none of"), ("games", "gone", "nothing")]
)
def test_what_cannot_replace_anything_is_named(old: str, new: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        diff_job.replaced(policy_at(Path("policy.yaml")), Path(old), Path(new))


def test_a_policy_that_cannot_be_used_is_named() -> None:
    Path("policy.yaml").write_text("layers: [{name: a, lists: [gone.hosts]}]")
    with pytest.raises(SourceError, match=r"policy.yaml:1: gone.hosts: there is no such file"):
        names("policy.yaml")
