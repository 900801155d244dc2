"""Compiling in another process."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hushlist.core.compile import background_compiler as module
from hushlist.core.compile.background_compiler import BackgroundCompiler
from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.policy.policy_file import Policy, PolicyError
from hushlist.core.policy.policy_reader import read_policy
from hushlist.core.system.files import fingerprint
from hushlist.core.system.package_code import OTHER_CODE
from hushlist.core.url.parts import split_web
from hushlist.extensions.subscriptions.list_update import subscribed_lists
from support.https_origin import HttpsOrigin, Page
from support.policies import write_policy

pytestmark = pytest.mark.slow  # most start a Python

#: seconds within which a process that was stopped has to be gone
PROMPTLY = 30


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write_policy(tmp_path, files={"ads.hosts": "0.0.0.0 ads.example\n"})


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has other code run in the process's place."""

    def ask(code: str) -> None:
        popen = subprocess.Popen

        def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
            return popen([sys.executable, "-c", code, *command[4:]], **options)  # type: ignore[call-overload,no-any-return]

        monkeypatch.setattr(module.subprocess, "Popen", start)

    return ask


def error_of(policy: Path, background: BackgroundCompiler | None = None) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        (background or BackgroundCompiler()).compile(policy)
    return caught.value


def test_gives_the_policy_and_its_index(policy: Path) -> None:
    found, index = BackgroundCompiler().compile(policy)
    own = compile_policy(policy)
    assert found == own.policy
    assert index.source == own.index.source
    assert [match.text for match in index.find(split_web(b"http://x.ads.example/"))] == ["ads.example/"]


def test_problems_come_back_as_they_are(policy: Path) -> None:
    policy.write_text("layers:\n- {name: lists, lists: [none.yaml, bad.yaml]}\n")
    bad = policy.with_name("bad.yaml")
    bad.write_text("rules:\n- 'é\u2028x'\n- {sha256: x}\n")
    with pytest.raises(PolicyError) as caught:
        compile_policy(policy)
    error = error_of(policy)
    assert error.problems == caught.value.problems
    assert [(problem.source, problem.line, problem.what) for problem in error.problems] == [
        (str(policy), 2, "none.yaml"),
        (str(bad), 2, "é\u2028x"),
        (str(bad), 3, "x"),
    ]
    assert error.files == caught.value.files
    assert error.files == {policy: fingerprint(policy), bad: fingerprint(bad), policy.with_name("none.yaml"): None}


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("print('garbage')", 0),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", 0),
        ("print(5)", 0),
        ("print('null')", 0),
        ("print('[1]')", 0),
    ],
)
@pytest.mark.posix
def test_a_process_without_an_answer_is_an_error(
    policy: Path, asking: Callable[[str], None], code: str, end: int
) -> None:
    asking(code)
    error = error_of(policy)
    assert str(error) == f"{policy}: compile: the process that compiles ended with code {end}"
    assert error.files == {policy: fingerprint(policy)}


@pytest.mark.parametrize("missing", ["core.lists.plain_lists", "core.policy.policy_reader"])
@pytest.mark.parametrize("is_as_loaded", [True, False])
def test_a_module_that_is_not_there_is_no_mistake_of_the_policy(
    policy: Path, asking: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, missing: str, is_as_loaded: bool
) -> None:
    """As while ``pip install -U`` is half-way."""
    monkeypatch.setattr(module, "is_as_loaded", lambda: is_as_loaded)
    asking(
        "import sys, runpy; from hushlist.core.system import package_code as code\n"
        f"code.is_as_loaded = lambda: {is_as_loaded}; sys.modules['hushlist.{missing}'] = None\n"
        "runpy.run_module('hushlist.core.compile.background_compiler', run_name='__main__')"
    )
    error = error_of(policy)
    is_late = missing == "core.lists.plain_lists"  # it is loaded when it is needed
    why = OTHER_CODE if not is_as_loaded else "is not complete" if is_late else "ended with code 1"
    assert why in str(error)
    assert error.may_pass


def test_a_policy_that_changes_between_the_two_readings_is_read_again(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    def changing(path: Path, report: ProblemReport) -> Policy | None:
        readings.append(path)
        if len(readings) == 1:  # behind the process's own reading
            policy.write_text("layers: [{name: other, lists: [ads.hosts]}]")
        return read_policy(path, report)

    monkeypatch.setattr(module, "read_policy", changing)
    found, index = BackgroundCompiler().compile(policy)
    assert len(readings) == 2
    assert [layer.name for layer in found.layers] == ["other"]
    assert index.directory.rules == {"other": 1}


def test_a_policy_that_never_stands_still_is_an_error(policy: Path, asking: Callable[[str], None]) -> None:
    asking('import json; print(json.dumps({"index": "none", "files": [], "temporary": None}))')
    assert str(error_of(policy)) == f"{policy}: it changes again and again while it is read"


@pytest.mark.parametrize("name", ["json.py", "yaml.py", "hushlist.py"])
def test_what_lies_in_the_working_folder_is_no_code_of_ours(
    policy: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    policy.with_name(name).write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(policy.parent)
    assert len(BackgroundCompiler().compile(policy)[1]) == 1


# -- lists that are fetched --------------------------------------------------------------------------------------------


@pytest.fixture
def publisher(policy: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsOrigin]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(policy.parent / "cache"))
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HttpsOrigin(policy.parent / "publisher") as publisher:
        monkeypatch.setenv("SSL_CERT_FILE", str(publisher.authority))
        publisher.pages["/list"] = Page(b"a.example\nb.example\n")
        policy.write_text(f"layers: [{{name: lists, lists: [{{url: '{publisher.url}/list', format: domains}}]}}]")
        yield publisher


def test_what_has_no_copy_is_fetched_first(
    policy: Path, publisher: HttpsOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    found, index = BackgroundCompiler().compile(policy)
    assert len(index) == 2
    assert [file.url for layer in found.layers for file in layer.lists] == [f"{publisher.url}/list"]
    assert f"hushlist: {publisher.url}/list: updated +2 -0 lines\n" in capfd.readouterr().err
    BackgroundCompiler().compile(policy)
    assert len(publisher.requests) == 1


def test_what_cannot_be_fetched_is_an_error_that_may_pass_and_is_asked_for_again_when_due_or_at_the_start(
    policy: Path, publisher: HttpsOrigin
) -> None:
    publisher.pages.clear()
    for _ in range(2):
        error = error_of(policy)
        assert error.may_pass
        assert "and fetching it failed: the server says 404 Not Found" in str(error)
    assert len(publisher.requests) == 1
    with pytest.raises(PolicyError):
        BackgroundCompiler().compile(policy, is_start=True)
    assert len(publisher.requests) == 2


def test_an_update_says_what_became_of_each_list_that_is_due(policy: Path, publisher: HttpsOrigin) -> None:
    url = f"{publisher.url}/list"
    assert BackgroundCompiler().update(policy) == [(True, f"{url}: updated +2 -0 lines")]
    assert BackgroundCompiler().update(policy) == []
    (own,) = subscribed_lists(policy)
    with own.store.locked():
        own.store.note(next_try=0.0)
    publisher.pages.clear()
    assert BackgroundCompiler().update(policy) == [(False, f"{url}: failed: the server says 404 Not Found")]


# -- started before there is work -------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that was started."""
    processes, popen = list[subprocess.Popen[bytes]](), subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        processes.append(popen(command, **options))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr(module.subprocess, "Popen", start)
    return processes


def test_a_process_that_waits_reads_what_is_there_when_it_has_to_compile(
    policy: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    background = BackgroundCompiler()
    for _ in range(2):
        background.prepare(policy)
    time.sleep(0.5)  # it would be done by now
    policy.with_name("ads.hosts").write_text("0.0.0.0 other.example\n")
    index = background.compile(policy)[1]
    assert [len(index.find(split_web(b"http://%b.example/" % name))) for name in (b"ads", b"other")] == [0, 1]
    assert len(started) == 1


@pytest.mark.parametrize("way", ["it has ended", "another index is in use"])
def test_a_process_that_cannot_do_the_work_is_replaced(
    policy: Path, started: list[subprocess.Popen[bytes]], way: str
) -> None:
    background, before = BackgroundCompiler(), compile_policy(policy).index
    background.prepare(policy)
    if way == "it has ended":
        started[0].kill()
        started[0].wait()
    assert len(background.compile(policy, before=None if way == "it has ended" else before)[1]) == 1
    assert len(started) == 2
    assert started[0].poll() is not None


@pytest.mark.posix
def test_a_process_gives_way_to_others_before_it_loads_anything(
    policy: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    background = BackgroundCompiler()
    background.prepare(policy)
    assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == 19
    background.stop()


def test_a_process_that_waits_ends_with_who_has_started_it(
    policy: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    background = BackgroundCompiler()
    background.prepare(policy)
    assert started[0].communicate(timeout=PROMPTLY)[0] == b"{}\n"


def test_stop_ends_a_process_that_waits(policy: Path, started: list[subprocess.Popen[bytes]]) -> None:
    background = BackgroundCompiler()
    background.prepare(policy)
    background.stop()
    background.prepare(policy)  # as a thread may that does not know it yet
    assert [process.poll() is not None for process in started] == [True, True]


# -- stopping ----------------------------------------------------------------------------------------------------------


def stopped(policy: Path, until: Callable[[BackgroundCompiler], bool]) -> str:
    """The error of a compile that waits in a thread and is stopped as soon as a condition holds."""
    background = BackgroundCompiler()
    errors: list[PolicyError] = []

    def work() -> None:
        errors.append(error_of(policy, background))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not until(background) and time.monotonic() < deadline:
        time.sleep(0.01)
    background.stop()
    thread.join(PROMPTLY)
    assert not thread.is_alive()
    return str(errors[0])


@pytest.mark.posix
def test_stop_ends_a_compile_that_waits(policy: Path, asking: Callable[[str], None]) -> None:
    asking("import time; time.sleep(60)")
    message = stopped(policy, lambda background: background._process is not None)
    assert message == f"{policy}: compile: the process that compiles ended with code -9"
