"""``hushlist publish``: what is in the folder, what leaves it as it was, and that a subscriber takes it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hushlist.core.match.expressions import full_hash
from hushlist.core.match.seal import SealKey
from hushlist.extensions.subscriptions.minisign import SecretKey, signature_path, verify_file
from support.https_origin import HttpsOrigin, Page
from unit.cli.running import Run

KEY = SecretKey.generate()
PLAN = """key: lists.key
history: 2
lists:
  - {file: games.domains}
  - {file: adult.hosts, as: hide, to: adult.sha256}
  - {file: adult.hosts, as: seal, seal: seal.key, to: sealed.yaml}
"""
GROWN = ("a.example", "b.example", "c.example", "d.example")
LOST = ("0 [x", "0 http://x/y")
NAMES = {"games.domains", "adult.sha256", "sealed.yaml", "CHANGES.md", "SHA256SUMS"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "games.domains").write_text("a.example\nb.example\nc.example\n")
    (tmp_path / "adult.hosts").write_text("0 secret.example\n0 hidden.example\n")
    (tmp_path / "lists.key").write_text(KEY.text(None))
    (tmp_path / "seal.key").write_text(SealKey.generate().text)
    (tmp_path / "seal.key").chmod(0o600)
    (tmp_path / "plan.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def publish(run: Run, *more: str) -> tuple[int, str, str]:
    code, out, err = run("publish", "out", "--plan", "plan.yaml", *more)
    return code, out, err


def state() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}


def test_all_that_is_published_is_signed_and_nothing_hidden_is_in_the_clear(run: Run) -> None:
    assert publish(run)[0] == 0
    assert {path.name for path in Path("out").iterdir()} == NAMES | {f"{name}.minisig" for name in NAMES}
    for name in NAMES:
        assert f"file:{name}" in verify_file(Path("out", name), KEY.public)
    Path("adult.hosts").write_text("0 secret.example\n0 hidden.example\n0 covert.example\n")
    Path("games.domains").write_text("a.example\nb.example\nnew.example\n")
    code, out, _ = publish(run)
    assert code == 0
    assert "games.domains (plain): 3 rules, 1 added, 1 removed\n" in out
    changes = Path("out/CHANGES.md").read_text()
    assert "    + new.example/\n" in changes
    assert "- adult.sha256: 3 rules, 1 added, 0 removed\n" in changes
    assert all(word not in text for text in state().values() for word in (b"secret", b"hidden.", b"covert"))
    assert full_hash(b"covert.example/").hex() in Path("out/adult.sha256").read_text()
    (earlier,) = Path("out/history").iterdir()
    assert (earlier / "games.domains").read_text() == "a.example\nb.example\nc.example\n"


def test_so_many_versions_stay_as_the_plan_says_and_without_a_change_there_is_none(run: Run) -> None:
    for number in range(5):
        with Path("games.domains").open("a") as file:
            file.write(f"{number}.example\n")
        assert publish(run)[0] == 0
    before = state()
    assert "nothing has changed" in publish(run)[1]
    assert state() == before
    assert ["3.example" in (path / "games.domains").read_text() for path in sorted(Path("out/history").iterdir())] == [
        *(False, True),
    ]
    assert not list(Path().glob(".out.[nb]*"))


def test_what_is_no_more_what_was_signed_is_published_anew(run: Run) -> None:
    publish(run)
    signature_path(Path("out/adult.sha256")).write_text("x")
    assert "published" in publish(run)[1]
    verify_file(Path("out/adult.sha256"), KEY.public)


def lines(name: str, *texts: str) -> Callable[[], object]:
    return lambda: Path(name).write_text("".join(f"{text}\n" for text in texts))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lines("games.domains", "a.example"), "subscribers would hold it back: it loses 2 of 3 rules, more than 50 %"),
        (lines("games.domains", "a.example", "b.example", "c.example", "co.uk"), "a new rule covers too much"),
        (lines("games.domains"), "there is no rule in it"),
        (lines("adult.hosts", "0 secret.example", "0 hidden.example", *LOST), "2 entries make no rule"),
        (lines("adult.hosts", "0 secret.example", "0 hidden.example", "0 co.uk"), "is too broad to be hidden"),
        (
            lambda: (lines("plan.yaml", PLAN, "limits: {added: 20%}")(), lines("games.domains", *GROWN)()),
            "1 came to 3 rules, more than 20 %",
        ),
        (
            lambda: (lines("plan.yaml", PLAN, "limits: {findings: 0}")(), lines("games.domains", *GROWN, *GROWN)()),
            "4 findings of lint, more than 0",
        ),
        (
            lambda: (
                lines("plan.yaml", PLAN, "dictionary: words", "limits: {recovered: 10%}")(),
                lines("words", "secret.example")(),
            ),
            "words recovers 50.0%, more than 10 %",
        ),
    ],
)
def test_a_step_that_fails_leaves_all_as_it_was(run: Run, change: Callable[[], object], why: str) -> None:
    publish(run)
    before = state()
    change()
    code, _, err = publish(run)
    assert (code, why in err) == (1, True), err
    assert state() == before
    code, out, _ = publish(run, "--json")
    told = json.loads(out)
    assert (code, told["published"], why in told["failed"], len(told["lists"])) == (1, False, True, 3)


def test_a_folder_comes_back_whose_replacement_fails_or_is_killed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(run)
    before, rename = state(), Path.rename
    lines("games.domains", *GROWN)()

    def fail(self: Path, target: Path) -> Path:
        if self.name == ".out.new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        code, _, err = publish(run)
    assert (code, "No space left" in err) == (1, True)
    assert state() == before
    Path("out").rename(".out.before")
    Path(".out.new").mkdir()
    assert publish(run)[0] == 0
    assert len(list(Path("out/history").iterdir())) == 1


@pytest.mark.parametrize("name", ["out/index.html", "out/lists.key", "out/history"])
def test_a_folder_with_anything_else_is_not_replaced(run: Run, name: str) -> None:
    Path("out").mkdir()
    Path(name).write_text("own")
    code, _, err = publish(run)
    assert (code, f"{name}: folder: no release wrote it" in err or f"{name}: no release wrote it" in err) == (2, True)
    assert Path(name).read_text() == "own"


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("key: lists.key\n", "plan.yaml:1: plan: it has no lists"),
        ("lists: [{file: games.domains}]\n", "plan.yaml:1: plan: it has no key"),
        ("key: lists.key\nlists: []\n", "plan.yaml:2: lists: expected lists to publish, not an empty list"),
        (PLAN.replace("lists.key", "out/lists.key"), "which everybody reads"),
        (PLAN.replace("seal.key", "out/x/seal.key"), "plan.yaml:6: out/x/seal.key: it is in"),
        (PLAN.replace("games.domains", "lists.key"), "plan.yaml:4: lists.key: it is a key, which is never published"),
        (PLAN.replace("games.domains", "gone.domains"), "plan.yaml:4: gone.domains: there is no such file"),
        (PLAN.replace("games.domains}", "games.domains, to: games.hosts}"), "plan.yaml:4: games.hosts: it would be"),
        (PLAN.replace("adult.sha256", "../adult.sha256"), "plan.yaml:5: ../adult.sha256: it is no name"),
        (PLAN.replace("adult.sha256", "SHA256SUMS"), "plan.yaml:5: SHA256SUMS: it is no name"),
        (PLAN.replace("adult.sha256", "adult.hosts"), "plan.yaml:5: adult.hosts: a list of hashes ends in"),
        (PLAN.replace("adult.sha256", "Sealed.yaml"), "plan.yaml:6: sealed.yaml: another list has that name (line 5)"),
        (PLAN.replace("seal: seal.key, ", ""), "plan.yaml:6: seal: 'as: seal' and the file of its key go together"),
        (PLAN.replace("as: hide", "as: bake"), "plan.yaml:5: as: bake: expected one of plain, hide, seal"),
        (f"{PLAN}limits: {{loses: 101%}}\n", "plan.yaml:7: loses: 101%: expected a percentage such as 20%"),
        (f"{PLAN}history: 3\n", "plan.yaml:7: history: the key is given twice (first in line 2)"),
    ],
)
def test_a_plan_that_cannot_be_used_is_told_with_its_line(run: Run, plan: str, why: str) -> None:
    Path("plan.yaml").write_text(plan)
    code, out, err = publish(run)
    assert (code, out) == (2, "")
    assert why in err
    assert not Path("out").exists()


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HttpsOrigin(tmp_path / "origin") as origin:
        monkeypatch.setenv("SSL_CERT_FILE", str(origin.authority))
        yield origin


def test_a_policy_with_the_key_takes_what_is_published_and_the_next_version(run: Run, origin: HttpsOrigin) -> None:
    urls = {"games.domains": "", "adult.sha256": "", "sealed.yaml": ", seal: seal.key"}
    lists = ", ".join(f"{{url: '{origin.url}/{name}', key: '{KEY.public.line}'{more}}}" for name, more in urls.items())
    Path("policy.yaml").write_text(f"layers: [{{name: lists, lists: [{lists}]}}]\n")

    def served() -> None:
        assert publish(run)[0] == 0
        for path in Path("out").iterdir():
            if path.is_file():
                origin.pages[f"/{path.name}"] = Page(path.read_bytes())
        code, out, err = run("update", "--policy", "policy.yaml")
        assert code == 0, (out, err)

    served()
    for host in ("a.example", "www.secret.example"):
        assert run("check", "--policy", "policy.yaml", host)[0] == 1
    assert run("check", "--policy", "policy.yaml", "new.example")[0] == 0
    lines("games.domains", "a.example", "b.example", "c.example", "new.example")()
    served()
    assert run("check", "--policy", "policy.yaml", "new.example")[0] == 1
