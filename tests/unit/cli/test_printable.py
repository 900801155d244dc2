"""Nothing that others wrote steers a terminal or begins a line of what a command prints, whichever command it is."""

import argparse
import ast
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from hushlist import cli
from hushlist.core.routes import Role
from hushlist.extensions.alerts.alert_book import AlertBook, Hit
from hushlist.extensions.alerts.alert_keys import Alert, Conditions
from hushlist.extensions.dashboard.admin_store import AdminStore
from hushlist.extensions.fleet.proxy_records import ProxyRecord, ProxyRecords
from hushlist.extensions.journal.log_database import COUNTED
from hushlist.extensions.journal.log_keys import LoggedRequests, LogSettings
from hushlist.extensions.journal.log_writer import LogWriter
from hushlist.extensions.reports.report_book import Report, ReportBook
from hushlist.extensions.subscriptions.list_store import ListStore
from hushlist.extensions.subscriptions.minisign import SecretKey, signature_path
from hushlist.extensions.subscriptions.subscription import Subscription
from hushlist.extensions.unblock.access_requests import AccessRequest
from hushlist.extensions.unblock.overrides import Overrides
from hushlist.tools.reference.url_comparison import PROFILES
from support.engines import engine_of
from unit.cli.running import PACKAGE_ROOT, Run, process
from unit.extensions.journal.samples import fill, record
from unit.rows import each_row

#: C0, DEL, C1, marks, overrides and isolates of direction, ends of lines and of paragraphs
FORGED = "x\nFORGED\r\tFORGED\x1b[2J\x07\x7f\x85FORGED\x9b31m\u200f\u202e\u2066\u2028FORGED\u2029FORGED"
#: the same as it may stand in the name of a file, and in an argument: octets that are no text are lone surrogates
ARGUMENT = FORGED + os.fsdecode(b"\xff")
URL = f"http://blocked.example/{ARGUMENT}"
BAD_URL = f"http://{ARGUMENT}:x/"
LIST = f"{ARGUMENT}.domains"
POLICY, BAD, ABSENT = ["--policy", "policy.yaml"], ["--policy", "bad.yaml"], ["--policy", ARGUMENT]
STORE = ["--store", ARGUMENT]
URLS = [[URL], [BAD_URL], [ARGUMENT]]
#: command -> how it is called; with "--json" too, where there is that
CALLS: dict[str, list[list[str]]] = {
    "proxy": [["--workers", ARGUMENT]],
    "fleet status": [[], STORE],
    "canonicalize": [["--profile", name, url] for name in PROFILES for (url,) in URLS],
    "expressions": URLS,
    "hash": [[*more, *url] for url in URLS for more in ([], ["--uri"])],
    "compare": [["--explain", a, b] for (a,) in URLS for (b,) in URLS],
    "prefixes": URLS,
    "parse": [[ARGUMENT], ["--rule", ARGUMENT, "x"], ["http://h/\u0628\u202e"]],
    "hrn": [[ARGUMENT], [f"hrn://{ARGUMENT}"]],
    "conformance": [["--command", "cat"], ["--command", f"{sys.executable} -c 0 '{FORGED}'"], ["--command", ARGUMENT]],
    "extract": [[LIST], ["--expressions", LIST], [ARGUMENT]],
    "check": [[*POLICY, *url] for url in URLS],
    "explain": [
        *([*POLICY, *url] for url in URLS),
        [*POLICY, "--key-file", "keys", URL],
        ["--key-file", ARGUMENT, URL],
    ],
    "compile": [POLICY, BAD, ABSENT],
    "doctor": [
        [*POLICY, "--confdir", ARGUMENT, "--proxy", "127.0.0.1:9"],
        [*BAD, "--proxy", "127.0.0.1:9"],
        ABSENT,
        [*POLICY, "--proxy", ARGUMENT],
    ],
    "services": [[], [ARGUMENT], ["tiktok"]],
    "update": [[*POLICY], [*POLICY, ARGUMENT], BAD, ABSENT, ["--policy", "urls.yaml"]],
    "lists": [POLICY, BAD, ABSENT, ["--policy", "urls.yaml"]],
    "init": [["family", "-o", ARGUMENT], ["company", "-o", f"{ARGUMENT}/x"], [], [ARGUMENT]],
    "import": [["squidguard", LIST], ["adguardhome", "bad.yaml"], ["e2guardian", LIST], ["pihole", ARGUMENT], [LIST]],
    "lint": [
        ["hashes.yaml", "hashes.yaml", "bad.domains", "--key-file", "keys"],
        [LIST, "rules.yaml"],
        ["bad.domains"],
        [ARGUMENT],
        [LIST, "--popular", LIST],
        *([LIST, "--alive", "--resolver", it, "--state", f"{ARGUMENT}/x"] for it in ("127.0.0.1:9", ARGUMENT)),
        [LIST, "--alive", "--resolver", "127.0.0.1:9", "--state", LIST],
    ],
    "convert": [
        *(["rules.yaml", "-", "--format", form] for form in ("yaml", "adblock", "hosts", "squid-acl")),
        [LIST, "-", "--format", "domains"],
        [LIST, ARGUMENT, "--format", "domains"],
        [ARGUMENT, ARGUMENT],
    ],
    "hide": [
        ["--title", FORGED, "rules.yaml", LIST, "--popular", LIST],
        ["--broad", "hashes.yaml", "--dictionary", LIST, "--key-file", "keys"],
        ["-o", ARGUMENT, "rules.yaml", "--key-file", f"{ARGUMENT}.keys"],
        ["--seal", ARGUMENT, "rules.yaml"],
        ["bad.yaml"],
        [ARGUMENT],
    ],
    "publish": [
        *(["out", "--plan", name] for name in ("bad.yaml", "publish.yaml", ARGUMENT)),
        [f"{ARGUMENT}.out", "--plan", "publish.yaml"],
        ["gone", "--plan", "forged.yaml"],
    ],
    "serve-lists": [
        *(["--policy", name] for name in ("bad.yaml", f"{ARGUMENT}.yaml")),
        [*POLICY, "--list", f"{FORGED}x=MALWARE"],
        [*POLICY, "--client-keys", ARGUMENT],
        [*POLICY, "--certificate", ARGUMENT, "--key", ARGUMENT],
    ],
    "keypair": [
        *(["--no-password", *own] for own in ([ARGUMENT], [f"{ARGUMENT}/x"], ["--public", ARGUMENT, "new"])),
        ["bad.yaml"],
    ],
    "sealkey": [[ARGUMENT], ["bad.yaml"]],
    "sign": [["--key", "secret.key", LIST, ARGUMENT], ["--key", ARGUMENT, LIST], ["--key", "bad.yaml", LIST]],
    "verify": [[LIST, "--key", "secret.key.pub"], [LIST, "--key", ARGUMENT], [ARGUMENT, "--key", "secret.key.pub"]],
    "completion": [["bash"], ["zsh"], ["fish"]],
    "man": [["man1"]],
    "leak": [["--dictionary", LIST, "rules.yaml", "--", name] for name in (LIST, "hashes.yaml", ARGUMENT)],
    "diff": [
        [LIST, "bad.domains"],
        ["rules.yaml", "other.yaml", "--against", LIST, "--max-removed", "0", "--moved"],
        [LIST, LIST, "--against", ARGUMENT],
        [LIST, ARGUMENT],
    ],
    "audit": [
        *([*POLICY, *own] for own in ([LIST], [ARGUMENT], ["--popular", LIST, LIST], ["--merge", LIST])),
        [*POLICY, "--key-file", "keys", LIST],
    ],
    "visit": [
        ["--list", ARGUMENT, URL],
        ["--list", LIST, *BAD, URL],
        ["--list", LIST, "--actions", "bad.yaml", URL],
        ["--list", LIST, "--actions", ARGUMENT, URL],
    ],
    "helper": [
        [*POLICY, "--acl"],
        [*POLICY, "--redirect", "http://page.example/?%u%r%l%t"],
        ["--acl", *ABSENT],
    ],
    "log tail": [[], ["--user", FORGED], ["--folder", ARGUMENT]],
    "log top": [*(["--by", name] for name in COUNTED), ["--folder", ARGUMENT]],
    "log show": [["0000000000"], [ARGUMENT]],
    "override grant": [
        ["--for", "1h", "--client", f"user:{FORGED}", "a.example"],
        ["--for", "1h", ARGUMENT],
        ["--for", ARGUMENT],
    ],
    "override code": [["--for", "1h"], ["--for", "1h", "--scope", "url", URL], [*STORE, "--for", "1h"]],
    "alerts list": [[], ["--unseen"], ["--json"], STORE],
    "alerts seen": [["1"], ["1"], [ARGUMENT], [*STORE, "1"]],
    "reports list": [[], ["--all"], ["--json"], STORE],
    "reports show": [["1"], ["1", "--url", "whole"], [ARGUMENT], [*STORE, "1"]],
    "reports settle": [["1"], ["1"], [ARGUMENT]],
    "notify test": [POLICY, ABSENT],
    "summary": [POLICY, ABSENT],
    "override internet-off": [["--for", "1h", "--client", f"user:{FORGED}"], ["--for", ARGUMENT]],
    "override filter-off": [["--for", "1h", "--client", f"group:{FORGED}"], ["--for", ARGUMENT]],
    "override extend": [["--by", "30m", "--client", f"user:{ARGUMENT}", "hrn://x.example"], ["--by", "1m", ARGUMENT]],
    "override list": [[], STORE],
    "override revoke": [[ARGUMENT]],
    "learn": [["--from", ARGUMENT, "a.example"], ["--from", "a.har", ARGUMENT]],
    "override history": [[], STORE],
    "override passphrase": [[]],
    "admin token make": [["--role", "view", "a"], ["--role", "view", ARGUMENT], [*STORE, "--role", "view", "a"]],
    "service install": [[*POLICY, "--dry-run", "--confdir", ARGUMENT], BAD, ABSENT],
    "service remove": [["--dry-run"]],
    "service status": [[]],
    "backup": [[*POLICY, "--confdir", ARGUMENT, ARGUMENT], [*BAD, ARGUMENT], [*ABSENT, "x"]],
    "restore": [["bad.yaml"], [ARGUMENT]],
    "store migrate": [POLICY, BAD, ABSENT],
    "admin token list": [[], STORE],
    "admin token revoke": [["a"], [ARGUMENT]],
    "override requests": [[], ["--all"], ["--json"], STORE],
    "override approve": [["1"], ["1"], ["7"], [ARGUMENT], ["--for", ARGUMENT, "1"]],
    "policy get": [POLICY, [*POLICY, ARGUMENT], ABSENT],
    "policy set": [[*POLICY, ARGUMENT], [*ABSENT, "log"]],
    "policy undo": [POLICY, [*POLICY, ARGUMENT], ABSENT],
    "override decline": [["2", "--reason", FORGED], ["2"], [ARGUMENT]],
}


def commands_of(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands that have no commands of their own."""
    own = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not own:
        yield name, parser
    for action in own:
        for word, each in action.choices.items():
            yield from commands_of(each, f"{name} {word}".strip())


COMMANDS = dict(commands_of(cli.make_parser()))


def calls() -> Iterator[list[str]]:
    for name, ways in CALLS.items():
        has_json = any("--json" in action.option_strings for action in COMMANDS[name]._actions)
        for way in ways:
            yield [*name.split(), *way]
            if has_json:
                yield [*name.split(), "--json", *way]


def test_every_command_is_called() -> None:
    assert CALLS.keys() == COMMANDS.keys()


def _kept(cache: Path) -> dict[str, str]:
    """A list with a url whose server said something forged, and nothing today."""
    url = "https://127.0.0.1:9/list.domains"
    store = ListStore(Path("urls.yaml"), Subscription(url).identity, cache / "hushlist")
    with store.locked():
        store.use(store.keep(FORGED.encode()))
        store.hold_back(store.keep(FORGED.encode() * 2), [FORGED])
        store.note(fault=FORGED, faults=1)
    return {"url": url, "title": FORGED}


@pytest.fixture
def folder(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with all that is forged; the store of a list goes by the folder's path."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    Path("urls.yaml").write_text(json.dumps({"layers": [{"name": FORGED, "lists": [_kept(tmp_path)]}]}))
    return tmp_path


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("forged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fill_folder(folder)
        yield folder


def fill_folder(folder: Path) -> None:
    octets = os.fsencode(ARGUMENT)
    lines = b"blocked.example/" + octets + b"\nblocked.example # " + octets + b"\nhttp://blocked.example/" + octets
    Path(LIST).write_bytes(lines + b"\nblocked.example\n")
    Path("bad.domains").write_bytes(lines)
    rules = [
        {"expression": "blocked.example", "reason": FORGED},
        {"expression": "blocked.example/\u202e\x7f\u2066", "reason": FORGED, "action": "tag"},
    ]
    for name, number in (("rules", 2), ("other", 1)):
        Path(f"{name}.yaml").write_text(json.dumps({"title": FORGED, "description": FORGED, "rules": rules[:number]}))
    Path("bad.yaml").write_text(json.dumps({FORGED: FORGED, "title": [FORGED], "rules": [FORGED, {FORGED: FORGED}]}))
    digest = "3ac225168df54212a25c1c01fd35bebfea408fdac2e31ddd6f80a4bbf9a5f1cb"
    Path("hashes.yaml").write_text(json.dumps({"title": FORGED, "rules": [{"sha256": digest, "reason": FORGED}]}))
    Path(f"{FORGED}.yaml").write_bytes(Path("rules.yaml").read_bytes())
    Path("keys").write_text(f"sha256:{digest}\t\x1b[2J\u202e\tx\x85FORGED\n")
    lists = [{"file": "bad.domains"}, {"file": "rules.yaml", "as": "hide", "to": "hidden.yaml"}]
    Path("publish.yaml").write_text(json.dumps({"key": "secret.key", "lists": lists}))
    lists = [{"file": FORGED, "to": FORGED}, {"file": "rules.yaml", "as": FORGED}]
    Path("forged.yaml").write_text(json.dumps({"key": "secret.key", "lists": lists, FORGED: FORGED}))
    secret = SecretKey.generate()
    Path("secret.key").write_text(secret.text(None))
    Path("secret.key.pub").write_text(secret.public.text)
    signature_path(Path(LIST)).write_text(secret.sign(BytesIO(lines + b"\nblocked.example\n"), "\u202ea\tb"))
    layer = {"name": FORGED, "lists": [f"{FORGED}.yaml", {"file": "bad.domains", "format": "domains", "title": FORGED}]}
    Path("policy.yaml").write_text(json.dumps({"layers": [layer]}))
    journal = LogWriter(LogSettings(LoggedRequests.ALL), state=folder / "hushlist")
    rules[0] |= {"category": "hrn://c.example/a"}
    engine = engine_of(json.dumps({"title": FORGED, "rules": rules}))
    decision = engine.decide_url(URL.encode("utf-8", "surrogateescape"))._replace(group=FORGED)
    fill(journal, record()._replace(decision=decision, client=FORGED, user=FORGED))
    journal.close()
    with Overrides(folder / "hushlist" / "overrides.sqlite", time.time) as overrides:
        overrides.grant("host", "a.example", 3600.0, client=f"user:{FORGED}", how=FORGED, by=FORGED)
        for host in ("a.example", "b.example"):
            asked = AccessRequest(0, f"user:{FORGED}", FORGED, FORGED, host, f"http://{host}/", None, FORGED, 0.0, 0.0)
            overrides.ask(asked)
    book, alert = AlertBook(folder / "hushlist" / "overrides.sqlite", time.time), Alert("a", Conditions(search=True))
    for whom in (FORGED, "user:jo"):
        book.note({("a", whom): Hit(1, {"url": FORGED, "event": FORGED})}, [alert])
    book.close()
    with AdminStore(folder / "hushlist" / "admin.sqlite", time.time) as store:
        store.make_bearer(FORGED, Role.VIEW, 3600.0, by=FORGED)
    reported = ReportBook(folder / "hushlist" / "overrides.sqlite", time.time)
    told = {"publisher": FORGED, "version": FORGED, "words": FORGED}
    reported.file(Report(FORGED, FORGED, FORGED, FORGED, f"http://{FORGED}/", FORGED, 1, FORGED, FORGED, **told))
    reported.close()
    fleet = ProxyRecords(folder / "hushlist" / "fleet.sqlite", time.time)
    fleet.beat(ProxyRecord(FORGED, time.time(), version=FORGED, mode=FORGED, unready=FORGED, fault=FORGED))
    fleet.close()


STDIN = f"{URL}\n0 {URL} {ARGUMENT} -\n{ARGUMENT}".encode("utf-8", "surrogateescape")


@pytest.mark.thorough
@pytest.mark.usefixtures("folder")
@each_row("call", calls())
def test_what_a_command_prints_is_printable(run: Run, capsys: pytest.CaptureFixture[str], call: list[str]) -> None:
    if call[0] == "helper":  # it writes to the descriptor itself
        done = process(*call, stdin=STDIN)
        out, err = done.stdout.decode(), done.stderr.decode()
    else:
        try:
            _, out, err = run(*call, stdin=STDIN)
        except SystemExit:
            out, err = capsys.readouterr()
    assert out + err
    assert [line for line in (out + err).split("\n") if not line.replace("\t", " ").isprintable()] == []
    assert "\nFORGED" not in "\n" + out + err
    if call[0] not in ("hash", "prefixes"):
        assert "\t" not in out + err
    if "--json" in call:
        assert all(map(json.loads, out.splitlines()))


@pytest.mark.usefixtures("folder")
def test_the_policy_of_these_tests_decides(run: Run) -> None:
    code, out, _ = run("check", *POLICY, URL)
    assert code == 1
    assert out.startswith("block  http://blocked.example/x")


@each_row("command", [*COMMANDS, ""])
def test_wrong_usage_quotes_nothing_as_it_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([ARGUMENT], [f"--{ARGUMENT}"], [f"--j={ARGUMENT}"], [f"--for={ARGUMENT}", f"--at={ARGUMENT}"]):
        with pytest.raises(SystemExit):
            cli.main([*command.split(), "--no-such-option", *words])
        err = capsys.readouterr().err
        assert [line for line in err.split("\n") if not line.isprintable()] == []
        assert "\nFORGED" not in err


@pytest.mark.slow
def test_only_one_module_prints_and_only_one_makes_loggers() -> None:
    found: dict[str, set[str]] = {"print": set(), "getLogger": set(), "write": set()}
    package = PACKAGE_ROOT / "hushlist"
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    maybe = re.compile(r"\b(print|getLogger|sys\s*\.[\w\s.]*write)\b")
    for path in (path for path, text in texts.items() if maybe.search(text)):  # to parse all takes seconds
        for node in ast.walk(ast.parse(texts[path])):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                if name in ("print", "getLogger") or (name == "write" and ast.unparse(node.func).startswith("sys.")):
                    found[name].add(path.relative_to(package).as_posix())
    assert found == {
        "print": {
            *(f"extensions/subscriptions/{name}.py" for name in ("held_changes", "list_update")),
            *("cli/common.py", "core/compile/background_compiler.py"),
        },
        "getLogger": {"core/errors.py"},
        "write": set(),
    }
