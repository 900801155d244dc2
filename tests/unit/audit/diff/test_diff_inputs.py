"""The two sides of a diff."""

from pathlib import Path

import pytest

from hushlist.audit.diff.diff_inputs import is_policy, policy_at, policy_of, replaced, side_of_list, side_of_policy
from hushlist.errors import SourceError
from hushlist.lists.list_source import ListDefaults


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
    return [str(file.path) for file in side_of_policy(policy_at(Path(path))).files]


def test_a_policy_has_layers() -> None:
    assert is_policy(Path("policy.yaml"))
    assert not is_policy(Path("own.yaml"))
    assert not is_policy(Path("ads.hosts"))
    assert not is_policy(Path("gone.yaml"))


def test_files_of_a_policy_are_called_by_where_they_are_from_it() -> None:
    side = side_of_policy(policy_at(Path("policy.yaml").absolute()))
    assert side.names == ("own.yaml", "games/domains", "games/urls", "ads.hosts")


def test_a_list_is_a_policy_alone() -> None:
    side = side_of_list(Path("games"), "squidguard", ListDefaults())
    policy = policy_of(Path("games"), side)
    assert side.names == ("domains", "urls")
    assert [file.defaults.layer for layer in policy.layers for file in layer.lists] == ["lists", "lists"]
    assert set(policy.files) == {Path("games/domains"), Path("games/urls")}
    assert side_of_list(Path("ads.hosts"), "hosts", ListDefaults()).names == ("",)
    with pytest.raises(SourceError, match="gone: list: there is no such file"):
        side_of_list(Path("gone"), "hosts", ListDefaults())


def test_what_replaces_a_list_is_read_as_the_policy_says() -> None:
    old, new, policy = replaced(
        policy_at(Path("policy.yaml")), Path("../" + Path.cwd().name, "ads.hosts"), Path("fetched")
    )
    (was,), (is_,) = old.files, new.files
    assert (is_.path, is_.format) == (Path("fetched"), was.format)
    assert (is_.defaults.name, is_.defaults.category, is_.defaults.layer) == ("ads", "hrn://c.example/ads", "lists")
    assert side_of_policy(policy).files[-1] == is_
    assert Path("fetched") in policy.files
    assert Path("ads.hosts") not in policy.files


def test_a_folder_is_replaced_as_a_whole() -> None:
    _, new, policy = replaced(policy_at(Path("policy.yaml")), Path("games"), Path("new-games"))
    assert new.names == ("domains", "expressions")
    assert {file.defaults.name for file in new.files} == {"games"}
    assert [str(file.path) for file in policy.layers[1].lists] == [
        "new-games/domains",
        "new-games/expressions",
        "ads.hosts",
    ]


@pytest.mark.parametrize(
    ("old", "new", "why"), [("fetched", "ads.hosts", "it is none of"), ("games", "gone", "nothing")]
)
def test_what_cannot_replace_anything_is_named(old: str, new: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        replaced(policy_at(Path("policy.yaml")), Path(old), Path(new))


def test_a_policy_that_cannot_be_used_is_named() -> None:
    Path("policy.yaml").write_text("layers: [{name: a, lists: [gone.hosts]}]")
    with pytest.raises(SourceError, match=r"policy.yaml:1: gone.hosts: there is no such file"):
        names("policy.yaml")
