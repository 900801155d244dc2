"""e2guardian: lists of version 5, their includes and times, groups and clients, decided as it would."""

from pathlib import Path

import pytest

from hushlist.core.errors import SourceError
from hushlist.tools.importing import imported_policy
from hushlist.tools.importing.e2guardian import read_e2guardian
from unit.rows import each_row
from unit.tools.importing.deciding import Written

#: version 5: lists have names, and kinds
FILES = {
    "e2guardian.conf": """\
# e2guardian config file
language = 'ukenglish'
filtergroups = 3
maplist = 'name=defaultusermap, path=__LISTDIR__/../authplugins/filtergroupslist'
ipmaplist = 'name=ipmap, path=__LISTDIR__/../authplugins/ipgroups'
iplist = 'name=bannedclient,messageno=100,path=__LISTDIR__/bannediplist'
iplist = 'name=exceptionclient,messageno=600,path=__LISTDIR__/exceptioniplist'
regexpboollist = 'name=browser,path=__LISTDIR__/none'
""",
    "lists/common/bannediplist": "10.0.9.9\n",
    "lists/common/exceptioniplist": "# servers\n10.0.9.1-10.0.9.3\n",
    "lists/authplugins/filtergroupslist": "anna=2\ntom=filter3\nnobody=x\n",
    "lists/authplugins/ipgroups": "10.2.0.0/255.255.0.0 = filter2\n10.4.0.0/16 = filter4\n10.2.5.5 = filter1\n",
    "e2guardianf1.conf": """\
storyboard = 'FOLDER/one.story'
.Define LISTDIR <FOLDER/lists/one>  # comment out for production
sitelist = 'name=localexception,path=__LISTDIR__/localexceptionsitelist'
sitelist = 'name=exception,messageno=602,path=__LISTDIR__/exceptionsitelist'
urllist = 'name=grey,path=__LISTDIR__/greyurllist'
sitelist = 'name=banned,messageno=500,path=__LISTDIR__/bannedsitelist'
ipsitelist = 'name=banned,messageno=510,path=__LISTDIR__/bannedsiteiplist'
urllist = 'name=banned,messageno=501,path=__LISTDIR__/bannedurllist'
regexpboollist = 'name=banned,messageno=503,path=__LISTDIR__/bannedregexpurllist'
weightedphraselist = '__LISTDIR__/weightedphraselist'
searchlist = 'name=banned,path=__LISTDIR__/bannedsearchlist'
searchlist = 'name=override,path=__LISTDIR__/bannedsearchoveridelist'
mimelist = 'name=bannedmime,path=__LISTDIR__/empty'
sitelist = 'name=nolog,path=__LISTDIR__/exceptionsitelist'
sitelist = 'name=localbanned,path=__LISTDIR__/localbannedsitelist'
searchlist = 'name=localbanned,path=__LISTDIR__/localbannedsearchlist'
urllist = 'name=localgrey,path=__LISTDIR__/localgreyurllist'
""",
    "one.story": ".Include<FOLDER/common.story>\nfunction(checkblanketblock)\nif(siteisip,,505) return setblock\n",
    "common.story": "function(checkrequest)\nif(true) returnif hook\n",
    "lists/one/localexceptionsitelist": "ours.bad.example\n",
    "lists/one/exceptionsitelist": "good.bad.example\ntheirs.example\n",
    "lists/one/localbannedsitelist": "theirs.example\n",
    "lists/one/greyurllist": "www.site.example/bad/grey\n",
    "lists/one/bannedsitelist": "# one\nbad.example # y\n**\n.Include<__LISTDIR__/games>\n.Include</gone>\n",
    "lists/one/games": "#time: 9 0 16 59 01234\ngames.example\n",
    "lists/one/bannedsiteiplist": "192.0.2.0/24\n",
    "lists/one/bannedurllist": "http://www.site.example/bad\n",
    "lists/one/bannedregexpurllist": "(big|cyber)cash\n# none\n^start[.]|^x\n^host[0-9]+[.]\ntwo words\n",
    "lists/one/weightedphraselist": "<x><50>\n",
    "lists/one/bannedsearchlist": "# words\ngirl+naughty\n",
    "lists/one/bannedsearchoveridelist": "girl+naughty+nurse\n",
    "lists/one/localbannedsearchlist": "rude+word\n",
    "lists/one/localgreyurllist": "bad.example/fine\n",
    "lists/one/empty": "# nothing\n",
    "e2guardianf2.conf": """\
groupname = 'Staff'
storyboard = 'FOLDER/two.story'
sitelist = 'name=exception,path=FOLDER/lists/two/exceptionsitelist'
bannedphraselist = 'FOLDER/lists/one/weightedphraselist'
sitelist = 'name=exception,path=FOLDER/lists/one/exceptionsitelist'
""",
    "lists/two/exceptionsitelist": "work.example\n",
    "two.story": "function(checkblanketblock)\nif(true,,502) return setblock\n",
    "e2guardianf3.conf": "groupname = 'Teachers'\ngroupmode = 2\n",
    "e2guardianf4.conf": "groupname = 'too many'\n",
}


def configured(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("FOLDER", str(folder)))
    return folder / "e2guardian.conf"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("e2guardian")
    return Written(read_e2guardian(configured(folder, FILES)), folder / "out")


@each_row(
    ("url", "client", "user", "at", "action"),
    [
        ("bad.example", "", None, "2026-11-23T12:00", "block"),
        ("x.bad.example", "", None, "2026-11-23T12:00", "block"),
        ("good.bad.example", "", None, "2026-11-23T12:00", "allow"),
        ("ours.bad.example", "", None, "2026-11-23T12:00", "allow"),
        ("theirs.example", "", None, "2026-11-23T12:00", "block"),
        ("bing.com/search?q=Naughty+x+girl", "", None, "2026-11-23T12:00", "block"),
        ("bing.com/search?q=naughty+girl+nurse", "", None, "2026-11-23T12:00", "pass"),
        ("bing.com/search?q=rude+word", "", None, "2026-11-23T12:00", "block"),
        ("bad.example/fine", "", None, "2026-11-23T12:00", "allow"),
        ("site.example/bad", "", None, "2026-11-23T12:00", "block"),
        ("site.example/bad/grey", "", None, "2026-11-23T12:00", "allow"),
        ("192.0.2.7", "", None, "2026-11-23T12:00", "block"),
        ("198.51.100.7", "", None, "2026-11-23T12:00", "block"),
        # expressions, compared with a URL without its scheme
        ("other.example/BigCash/", "", None, "2026-11-23T12:00", "block"),
        ("cash.example", "", None, "2026-11-23T12:00", "pass"),
        ("host7.example", "", None, "2026-11-23T12:00", "block"),
        ("my.host7.example", "", None, "2026-11-23T12:00", "pass"),
        ("other.example", "", None, "2026-11-23T12:00", "pass"),
        # Monday to Friday, to the end of the last minute
        ("games.example", "", None, "2026-11-23T09:00", "block"),
        ("games.example", "", None, "2026-11-23T16:59", "block"),
        ("games.example", "", None, "2026-11-23T17:00", "pass"),
        ("games.example", "", None, "2026-11-22T12:00", "pass"),
        # groups: by address, by user
        ("work.example", "10.2.3.4", None, "2026-11-23T12:00", "allow"),
        ("good.bad.example", "10.2.3.4", None, "2026-11-23T12:00", "allow"),
        ("other.example", "10.2.3.4", None, "2026-11-23T12:00", "block"),
        ("other.example", "10.2.5.5", None, "2026-11-23T12:00", "pass"),
        ("bad.example", "10.2.5.5", None, "2026-11-23T12:00", "block"),
        ("other.example", "10.3.3.4", "anna", "2026-11-23T12:00", "block"),
        ("bad.example", "10.3.3.4", "other", "2026-11-23T12:00", "block"),
        # one that does not exist is the first
        ("bad.example", "10.4.3.4", None, "2026-11-23T12:00", "block"),
        ("other.example", "10.0.9.9", None, "2026-11-23T12:00", "block"),
    ],
)
def test_decisions_are_those_of_e2guardian(
    written: Written, url: str, client: str, user: str | None, at: str, action: str
) -> None:
    assert written(url, client, at, user) == action


@pytest.mark.parametrize("place", ["FOLDER/", ""])
def test_a_relative_name_is_that_of_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    files = {name: text.replace("FOLDER/", place) for name, text in FILES.items()}
    path = configured(tmp_path / "some" / "folder", files)
    expected = read_e2guardian(path)
    monkeypatch.chdir(tmp_path)
    found = read_e2guardian(path.relative_to(tmp_path))
    assert found.text() == expected.text()
    assert found.files == expected.files
    assert len(found.files) > 5
    assert [*map(str, found.warnings)] == [*map(str, expected.warnings)]


def test_who_is_not_filtered_is_not(written: Written) -> None:
    modes = {group.name: group.settings.mode for group in written.engine.policy.groups}
    assert (modes["exceptionclient"], modes["Teachers"], modes["Staff"]) == ("off", "off", "block")


@each_row(
    "words",
    [
        ("filtergroupslist:3:", "nobody=x"),
        ("e2guardianf1.conf:5:", "nothing looks into pages"),
        ("bannedregexpurllist:3:", "a part alone"),
        ("bannedregexpurllist:5:", "white space"),
        ("e2guardianf1.conf:10:", "weightedphraselist", "entries: 1"),
        ("e2guardianf2.conf:4:", "bannedphraselist"),
        ("bannedsitelist:3:", "**", "left out"),
        ("bannedsitelist:5:", "/gone", "No such file"),
        ("ipgroups:2:", "filter4"),
        ("games:1:", "timezone"),
    ],
)
def test_what_is_left_out_is_named_with_its_line(written: Written, words: tuple[str, ...]) -> None:
    assert written.messages_with(*words)


def test_lists_that_are_empty_or_say_nothing_about_rules_are_not_named(written: Written) -> None:
    assert not written.messages_with("bannedmime")
    assert not written.messages_with("none")


def test_rules_keep_the_lines_that_they_had(written: Written) -> None:
    (file,) = (written.folder / "lists").glob("one-bannedsitelist*")
    assert file.read_text().splitlines()[1] == "bad.example"


def test_a_first_group_that_is_not_filtered_does_not_free_others(tmp_path: Path) -> None:
    files = {**FILES, "e2guardianf1.conf": "groupmode = 2\n"}
    written = Written(read_e2guardian(configured(tmp_path, files)), tmp_path / "out")
    assert written.engine.policy.settings.mode == "off"
    modes = {group.name: group.settings.mode for group in written.engine.policy.groups}
    assert (modes["Staff"], modes["bannedclient"]) == ("block", "block")


def test_a_list_that_includes_itself_ends(tmp_path: Path) -> None:
    files = {
        "e2guardian.conf": "",
        "e2guardianf1.conf": "sitelist = 'name=banned,path=FOLDER/a'\n",
        "a": ".Include<FOLDER/a>\nx.example\n",
    }
    policy = read_e2guardian(configured(tmp_path, files))
    assert any("too many files are included" in str(problem) for problem in policy.warnings)
    assert Written(policy, tmp_path / "out")("x.example") == "block"


def test_settings_that_include_themselves_end(tmp_path: Path) -> None:
    files = {"e2guardian.conf": ".Include<FOLDER/e2guardian.conf>\n", "e2guardianf1.conf": "groupmode = 0\n"}
    assert Written(read_e2guardian(configured(tmp_path, files)), tmp_path / "out")("x.example") == "block"


@pytest.mark.parametrize(("deep", "action"), [(16, "block"), (17, "pass")])
def test_settings_are_included_sixteen_deep(tmp_path: Path, deep: int, action: str) -> None:
    files = {f"f{number}": f".Include<FOLDER/f{number + 1}>\n" for number in range(1, deep)}
    files |= {f"f{deep}": "sitelist = 'name=banned,path=FOLDER/a'\n", "a": "x.example\n", "e2guardian.conf": ""}
    path = configured(tmp_path, {**files, "e2guardianf1.conf": ".Include<FOLDER/f1>\n"})
    assert Written(read_e2guardian(path), tmp_path / "out")("x.example") == action


def test_what_is_included_again_and_again_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_policy, "MOST_OCTETS", 10_000)
    include = ".Include<FOLDER/e2guardian.conf>\n"
    files = {"e2guardian.conf": 9 * include, "e2guardianf1.conf": "groupmode = 0\n"}
    with pytest.raises(SourceError, match="too much was read"):
        read_e2guardian(configured(tmp_path, files))


def test_a_list_that_is_long_is_copied_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.tools.importing.e2guardian.LONGEST_DOCUMENT", 100)
    files = {
        "e2guardian.conf": "",
        "e2guardianf1.conf": "sitelist = 'name=banned,path=FOLDER/a'\n",
        "a": ".Include<FOLDER/b>\n",
    }
    path = configured(tmp_path, {**files, "b": "".join(f"host{number}.example\n" for number in range(99))})
    assert Written(read_e2guardian(path), tmp_path / "out")("host98.example") == "block"


@pytest.mark.parametrize("number", ["9" * 5000, "0", "-1", "x", "٣"])
def test_a_number_of_groups_that_is_none_is_not_used(tmp_path: Path, number: str) -> None:
    files = {
        **FILES,
        "e2guardian.conf": f"filtergroups = {number}\n",
        "lists/one/games": f"#time: {number} 0 1 0 1\nx.example\n",
    }
    written = Written(read_e2guardian(configured(tmp_path, files)), tmp_path / "out")
    assert (written("bad.example"), written("x.example")) == ("block", "pass" if number == "0" else "block")
    assert written.messages_with("games:1:", "it is no time of a day") or number == "0"


@pytest.mark.parametrize("files", [{}, {"e2guardian.conf": ""}])
def test_a_file_that_is_missing_is_an_error(tmp_path: Path, files: dict[str, str]) -> None:
    configured(tmp_path, files)
    with pytest.raises(SourceError, match="No such file"):
        read_e2guardian(tmp_path / "e2guardian.conf")


def test_lists_of_types_and_endings_are_rules_for_files(tmp_path: Path) -> None:
    files = {
        **FILES,
        "e2guardianf1.conf": "mimelist = 'name=banned,messageno=800,path=FOLDER/mime'\n"
        "fileextlist = 'name=banned,path=FOLDER/ext'\nexceptionextensionlist = 'FOLDER/fine'\n",
        "mime": "# films\nvideo/mpeg\nApplication/X-Test # y\nno type\n",
        "ext": ".exe\n.tar.gz\n",
        "fine": ".pdf\n",
    }
    written = Written(read_e2guardian(configured(tmp_path, files)), tmp_path / "out")
    rules = written.engine.policy.settings.of("files")
    assert [(rule.action, sorted(rule.types | rule.endings), rule.way) for rule in rules] == [
        ("allow", ["pdf"], "download"),
        ("block", ["application/x-test", "video/mpeg"], "download"),
        ("block", ["exe", "tar.gz"], "download"),
    ]
    assert written.messages_with("mime:4:", "no type", "it is no media type")
    of_group = {group.name: len(group.settings.of("files")) for group in written.engine.policy.groups}
    assert (of_group["Staff"], of_group["exceptionclient"]) == (0, 0)
