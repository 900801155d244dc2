"""``hushlist hide``: what is written where, what is refused, and what is said."""

from pathlib import Path

import pytest

from hushlist.core.match.expressions import full_hash
from hushlist.core.match.seal import SealKey
from unit.cli.running import Run

DIGEST = full_hash(b"ads.example/").hex()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ads.hosts").write_text("0.0.0.0 ads.example\n")
    (tmp_path / "ads.adblock").write_text("||ads.example^\n@@||fine.ads.example^\n")
    (tmp_path / "broad.hosts").write_text("0 ads.example\n0 co.uk\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_list_goes_to_standard_output_and_what_is_said_does_not(run: Run) -> None:
    assert run("hide", "ads.hosts", "--title", "Ads", "--category", "HRN://C.example/ads") == (
        0,
        f'title: "Ads"\ncovers: "hosts"\ncategory: "hrn://c.example/ads"\nrules:\n  - sha256: {DIGEST}\n',
        "",
    )


def test_a_hidden_list_blocks_and_explain_says_what_it_hides(run: Run) -> None:
    done = run("hide", "ads.hosts", "-o", "hidden.yaml", "--key-file", "keys")
    assert done == (0, "hidden.yaml: 1 hash\n", "")
    Path("policy.yaml").write_text("layers: [{name: lists, lists: [hidden.yaml]}]")
    code, out, _ = run("check", "--policy", "policy.yaml", "http://www.ads.example/x")
    assert code == 1
    assert "hidden.yaml:3" in out
    _, plain, _ = run("explain", "--policy", "policy.yaml", "http://www.ads.example/x")
    _, out, err = run("explain", "--policy", "policy.yaml", "--key-file", "keys", "http://www.ads.example/x")
    assert err == ""
    line = f"    rule as written: sha256:{DIGEST}"
    assert f"{line}\n" in plain
    assert f"{line} (ads.example/, ads.hosts:1)\n" in out


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "./ads.hosts"],
        ["--key-file", "ads.hosts"],
        ["-o", "hidden.yaml", "--key-file", "hidden.yaml"],
        ["-o", "own.key", "--seal", "own.key"],
        ["-o", "words", "--dictionary", "words"],
    ],
)
def test_no_file_that_is_needed_is_written_over(run: Run, options: list[str]) -> None:
    before = Path("ads.hosts").read_bytes()
    code, out, err = run("hide", "ads.hosts", *options)
    assert (code, out) == (2, "")
    assert err.endswith("would be written over: give each file a name of its own\n")
    assert Path("ads.hosts").read_bytes() == before
    assert not Path("hidden.yaml").exists()


def test_plain_lists_have_a_hash_a_line(run: Run) -> None:
    assert run("hide", "ads.adblock", "-o", "hidden.sha256", "--allow-losses") == (
        0,
        "hidden.sha256: 1 hash, 1 left out\n",
        "warning: ads.adblock:2: fine.ads.example/: left out: a list with a hash a line has one action, and this is to "
        "allow; YAML can have it (-o NAME.yaml)\n",
    )
    assert Path("hidden.sha256").read_text() == f"{DIGEST}\n"
    code, out, err = run("hide", "ads.hosts", "-o", "hidden.txt", "--kind", "prefix", "--prefix-length", "8")
    assert (code, err) == (0, "")
    number, chance, policy = out.splitlines()
    assert number == "hidden.txt: 1 hash"
    assert chance.startswith("hidden.txt: 1 of 8 octets: 4.1e-13 false positives a million requests")
    assert policy == "in a policy: {file: hidden.txt, format: sha256}"
    assert Path("hidden.txt").read_text() == f"{DIGEST[:16]}\n"


def test_the_name_of_another_format_is_refused(run: Run) -> None:
    why = "its name tells the format hosts, and hashes of this kind are written as yaml or sha256\n"
    assert run("hide", "ads.hosts", "-o", "x.hosts") == (2, "", f"x.hosts: output: {why}")
    assert not Path("x.hosts").exists()


def test_a_broad_rule_stops_it_unless_it_is_meant(run: Run) -> None:
    code, out, err = run("hide", "broad.hosts", "-o", "hidden.yaml", "--key-file", "keys")
    assert (code, out) == (1, "")
    assert err.startswith("broad.hosts:2: co.uk/: it is a public suffix (as com is)")
    assert err.endswith("hushlist: nothing is written: take these rules out, or hide them with --broad\n")
    assert not Path("hidden.yaml").exists()
    assert not Path("keys").exists()
    code, _, err = run("hide", "broad.hosts", "-o", "hidden.yaml", "--broad")
    assert code == 0
    assert err.startswith("warning: broad.hosts:2: co.uk/: ")
    Path("popular").write_text("1,ads.example\n")
    code, _, err = run("hide", "ads.hosts", "--popular", "popular")
    assert code == 1
    assert err.startswith("ads.hosts:1: ads.example/: it is number 1 of the popular domains\n")


def test_it_says_what_a_dictionary_recovers(run: Run) -> None:
    Path("names").write_text("ads.example\nother.example\n")
    _, _, err = run("hide", "ads.hosts", "--dictionary", "names")
    assert err.startswith("hushlist leak recovers 1 of 1 hash with names: Half of the list or more")


@pytest.mark.parametrize(
    ("lost", "options", "code"),
    [(1, [], 0), (2, [], 1), (2, ["--allow-losses"], 0), (1, ["--strict"], 1), (0, ["--strict"], 0)],
)
def test_no_more_than_one_entry_in_a_hundred_is_lost(run: Run, lost: int, options: list[str], code: int) -> None:
    Path("own.domains").write_text("".join(f"h{n}.example\n" for n in range(150)) + "http://a.example/b\n" * lost)
    assert run("hide", "own.domains", "--format", "domains", "-o", "hidden.yaml", *options)[0] == code
    assert Path("hidden.yaml").exists() is (code == 0)


def test_the_head_of_a_list_stays(run: Run) -> None:
    head = 'name: "hrn://a.example/ads"\ntitle: "Ads"\ndescription: "All of them"\n'
    Path("ads.yaml").write_text(f"{head}rules: [ads.example/]\n")
    assert run("hide", "ads.yaml")[1].startswith(head)
    assert 'title: "Other"' in run("hide", "ads.yaml", "--title", "Other")[1]
    Path("more.yaml").write_text("title: More\nrules: [more.example/]\n")
    assert "title" not in run("hide", "ads.yaml", "more.yaml")[1], "two lists have no head in common"


def test_a_list_that_cannot_be_hidden_is_bad_input(run: Run) -> None:
    code, out, err = run("hide", "ads.hosts", "--kind", "hashed-uri")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "hide: lists: there is no rule in them that these hashes can hide"


def test_yaml_that_would_be_too_long_is_not_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushlist.tools.publish.list_writer.LONGEST_DOCUMENT", 20)
    code, _, err = run("hide", "ads.hosts", "-o", "hidden.yaml")
    assert code == 2
    assert "longer than 20 octets: write a hash a line (-o NAME.sha256)" in err
    assert not Path("hidden.yaml").exists()


def test_lint_says_what_hashes_stand_for(run: Run) -> None:
    run("hide", "ads.hosts", "-o", "hidden.yaml", "--key-file", "keys")
    Path("twice.yaml").write_text(f"rules:\n- sha256: {DIGEST}\n- sha256: {DIGEST}\n")
    _, plain, _ = run("lint", "twice.yaml")
    _, out, _ = run("lint", "twice.yaml", "--key-file", "keys")
    assert f"- sha256: {DIGEST}: first" in plain
    assert f"- sha256: {DIGEST} (ads.example/, ads.hosts:1): first" in out


def test_only_a_list_of_whole_hosts_says_that_it_covers_hosts(run: Run) -> None:
    Path("paths.urls").write_text("http://ads.example/x\n")
    for lists, covers in ((["ads.hosts"], True), (["ads.hosts", "paths.urls"], False), (["ads.adblock"], True)):
        _, out, _ = run("hide", *lists)
        assert ('covers: "hosts"\n' in out) is covers
    run("hide", "ads.hosts", "-o", "hidden.yaml")
    assert 'covers: "hosts"\n' in run("hide", "hidden.yaml")[1]
    assert 'covers: "hosts"\n' not in run("hide", "ads.hosts", "hidden.yaml", "paths.urls")[1]


# -- sealed ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed(run: Run) -> SealKey:
    """A key, and a list that is sealed with it in two formats."""
    code, out, err = run("sealkey", "own.seal")
    key = SealKey.parse(Path("own.seal").read_text())
    assert (code, out, err) == (
        0,
        f"own.seal: the key {key.fingerprint}: give it to your proxies, and to nobody else\n",
        "",
    )
    assert Path("own.seal").stat().st_mode & 0o777 == 0o600
    Path("names").write_text("ads.example\nother.example\n")
    for name in ("sealed.yaml", "sealed.sha256"):
        options = ("-o", name, "--seal", "own.seal", "--key-file", f"{name}.keys", "--dictionary", "names")
        assert run("hide", "ads.hosts", *options) == (
            0,
            f"{name}: 1 hash\nhushlist leak recovers 0 of 1 hash with names: {NOTHING}\n"
            f"hushlist leak recovers 1 of 1 hash with its key and names: {EVERYTHING}\n",
            "",
        )
    return key


NOTHING = "The list is sealed: without its key no dictionary recovers anything, however large it is."
EVERYTHING = "Half of the list or more can be read by whoever has such a dictionary: its hashes keep no secret."


@pytest.mark.parametrize("name", ["sealed.yaml", "sealed.sha256"])
def test_a_sealed_list_blocks_with_its_key_and_tells_nothing_without(run: Run, sealed: SealKey, name: str) -> None:
    digest = sealed.sealer()(b"ads.example/").hex()
    assert f"seal: {sealed.fingerprint}\n" in Path(name).read_text().replace('"', "")
    assert digest in Path(name).read_text()
    Path("policy.yaml").write_text(f"layers: [{{name: lists, lists: [{{file: {name}, seal: own.seal}}]}}]")
    assert run("check", "--policy", "policy.yaml", "http://www.ads.example/x")[0] == 1
    _, out, _ = run("explain", "--policy", "policy.yaml", "--key-file", f"{name}.keys", "http://www.ads.example/x")
    assert f"    rule as written: sealed:{digest} (ads.example/, ads.hosts:1)\n" in out
    leak = ("leak", name, "--jobs", "1", "--dictionary", "names")
    code, out, _ = run(*leak)
    assert (code, out.splitlines()[1].split()[:3]) == (0, ["1", "0", "0.0%"])
    assert out.endswith(f"sealed with {sealed.fingerprint}, 32 octets\n" + out.partition("octets\n")[2])
    assert out.endswith(f"{NOTHING}\n")
    code, out, _ = run(*leak, "--seal", "own.seal")
    assert (code, out.splitlines()[1].split()[:3]) == (1, ["1", "1", "100.0%"])
    assert f"{EVERYTHING}\n{name}:" in out
    run("sealkey", "other.seal")
    other = SealKey.parse(Path("other.seal").read_text()).fingerprint
    code, _, err = run(*leak, "--seal", "other.seal")
    assert (code, err.split(": ", 1)[1]) == (
        2,
        f"seal: the list is sealed with the key {sealed.fingerprint}, and the key {other} is given\n",
    )


def test_lint_finds_broad_hashes_in_a_sealed_list_by_its_key(run: Run, sealed: SealKey) -> None:
    run("hide", "broad.hosts", "--broad", "-o", "broad.yaml", "--seal", "own.seal", "--kind", "prefix")
    assert run("lint", "broad.yaml")[0] == 0
    code, out, _ = run("lint", "broad.yaml", "--seal", "own.seal")
    digest = sealed.sealer()(b"co.uk/").hex()[:8]
    assert code == 1
    assert f"broad: sealed:{digest}: it begins the hash of co.uk/: it is a public suffix" in out


@pytest.mark.usefixtures("sealed")
def test_what_is_a_hash_already_is_kept_only_under_the_same_seal(run: Run) -> None:
    run("hide", "ads.hosts", "-o", "plain.yaml")
    assert run("hide", "sealed.sha256", "--seal", "own.seal")[1] == Path("sealed.yaml").read_text().replace(
        'covers: "hosts"\n', ""
    )
    for options in (["plain.yaml", "--seal", "own.seal"], ["sealed.yaml"]):
        code, _, err = run("hide", *options)
        assert code == 2
        assert "left out: it is a hash already, and not sealed as this list is\n" in err


@pytest.mark.usefixtures("sealed")
def test_requests_are_decided_by_both_states_of_a_sealed_list(run: Run) -> None:
    run("hide", "ads.hosts", "broad.hosts", "--broad", "-o", "new.yaml", "--seal", "own.seal")
    Path("asked.txt").write_text("http://ads.example/\nhttp://a.co.uk/\n")
    diff = ("diff", "sealed.yaml", "new.yaml", "--against", "asked.txt")
    code, out, _ = run(*diff, "--seal", "own.seal")
    assert (code, "newly blocked: 1 (50.00%)" in out) == (0, True)
    code, _, err = run(*diff)
    assert (code, "it is sealed, and its key" in err) == (2, True)


@pytest.mark.usefixtures("sealed")
@pytest.mark.posix
def test_a_seal_is_not_for_whole_uris_and_no_key_is_written_over(run: Run) -> None:
    done = run("hide", "ads.hosts", "--seal", "own.seal", "--kind", "hashed-uri")
    assert done == (2, "", "hushlist: --seal makes hashes of expressions: leave out --kind hashed-uri\n")
    assert run("sealkey", "own.seal") == (2, "", "own.seal: key: File exists\n")
    assert "would be written over" in run("hide", "ads.hosts", "--seal", "own.seal", "-o", "own.seal")[2]
    Path("own.seal").chmod(0o644)
    code, _, err = run("hide", "ads.hosts", "--seal", "own.seal")
    assert (code, err) == (2, "own.seal: seal: it is secret, and others can use it: take that away (chmod o=,g-w)\n")
