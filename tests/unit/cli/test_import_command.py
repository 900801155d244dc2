"""``hushlist import``: what it writes, says and refuses."""

from pathlib import Path

import pytest

from unit.cli.running import Run

CONF = "dns: {port: 53}\nuser_rules:\n- '||ads.example^'\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AdGuardHome.yaml").write_text(CONF)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_is_taken_over_as_a_whole_is_good(run: Run, folder: Path) -> None:
    assert run("import", "adguardhome", "AdGuardHome.yaml") == (
        0,
        "imported/policy.yaml: 1 layer, 2 lists, 0 groups\n",
        "",
    )
    assert names(folder) == [
        "AdGuardHome.yaml",
        "imported/lists/lists-user-rules.txt",
        "imported/overrides.yaml",
        "imported/policy.yaml",
    ]
    code, out, _ = run("check", "--policy", "imported/policy.yaml", "http://x.ads.example/")
    assert (code, out[:5]) == (1, "block")
    assert run("compile", "--policy", "imported/policy.yaml")[0] == 0


def test_where_lists_are_to_be_fetched_the_command_is_named(run: Run) -> None:
    fetched = "filters: [{enabled: true, url: 'https://lists.example/ads.txt', name: Ads, id: 1}]\n"
    Path("AdGuardHome.yaml").write_text(CONF + fetched)
    _, out, _ = run("import", "adguardhome", "AdGuardHome.yaml", "--output", "my own")
    assert out.endswith("next, to fetch its lists: hushlist update --policy 'my own/policy.yaml'\n")


def test_what_is_left_out_is_printed_with_file_and_line(run: Run) -> None:
    Path("AdGuardHome.yaml").write_text(CONF + "- /a\x7fb/\n".replace("\x7f", "") + "- '||x.example^$client=a'\n")
    assert run("import", "adguardhome", "AdGuardHome.yaml", "--output", "out") == (
        1,
        "AdGuardHome.yaml:5: ||x.example^$client=a: left out: "
        "$client: which clients it is for is what the groups of a policy say\n"
        "out/policy.yaml: 1 layer, 3 lists, 0 groups\n",
        "",
    )


def test_a_folder_with_files_is_left_alone(run: Run, folder: Path) -> None:
    (folder / "imported").mkdir()
    (folder / "imported/mine.yaml").write_text("rules: []\n")
    code, out, err = run("import", "adguardhome", "AdGuardHome.yaml")
    assert (code, out) == (2, "")
    assert err == "hushlist: imported: it is not empty: name another folder, or replace files with --force\n"
    assert names(folder / "imported") == ["mine.yaml"]


def test_with_force_files_are_replaced_and_named(run: Run, folder: Path) -> None:
    (folder / "imported").mkdir()
    for name in ("mine.yaml", "policy.yaml"):
        (folder / "imported" / name).write_text("rules: []\n")
    code, out, _ = run("import", "adguardhome", "AdGuardHome.yaml", "--force")
    assert (code, out.splitlines()[0]) == (1, "imported/policy.yaml: replaced")
    assert (folder / "imported/mine.yaml").read_text() == "rules: []\n"
    assert "ads" in (folder / "imported/lists/lists-user-rules.txt").read_text()


def test_bad_input_writes_nothing(run: Run, folder: Path) -> None:
    code, out, err = run("import", "squidguard", "none.conf")
    assert (code, out, err) == (2, "", "none.conf: No such file or directory\n")
    assert run("import", "pihole", "AdGuardHome.yaml")[0] == 2
    assert names(folder) == ["AdGuardHome.yaml"]


def test_a_place_that_cannot_be_written_is_said(run: Run, folder: Path) -> None:
    code, out, err = run("import", "adguardhome", "AdGuardHome.yaml", "--output", "AdGuardHome.yaml/out")
    assert (code, out) == (2, "")
    assert "AdGuardHome.yaml" in err
    assert names(folder) == ["AdGuardHome.yaml"]


SQUID = "acl ads dstdomain .ads.example\nhttp_access deny ads\nhttp_access allow all\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("squid.conf", SQUID),
        ("proxy.conf", SQUID),
        ("AdGuardHome.yaml", CONF),
        ("other.yaml", CONF),
        ("sg.conf", "dbhome FOLDER\ndest ads { domainlist ads }\nacl { default { pass !ads all } }\n"),
    ],
)
def test_the_filter_is_seen_by_name_or_content(run: Run, folder: Path, name: str, text: str) -> None:
    (folder / "ads").write_text("ads.example\n")
    Path(name).write_text(text.replace("FOLDER", str(folder)))
    assert run("import", name, "--output", "out") == (0, "out/policy.yaml: 1 layer, 2 lists, 0 groups\n", "")
    code, out, _ = run("check", "--policy", "out/policy.yaml", "http://x.ads.example/")
    assert (code, out[:5]) == (1, "block")


@pytest.mark.parametrize("text", ["nothing\n", SQUID + "dbhome x\n"])
def test_a_file_that_could_be_of_none_or_two_needs_a_name(run: Run, text: str) -> None:
    Path("x.conf").write_text(text)
    code, out, error = run("import", "x.conf")
    assert (code, out) == (2, "")
    assert "x.conf: which filter it is of cannot be seen: name it, of pihole, " in error
