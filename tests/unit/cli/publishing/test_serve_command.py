"""``hushlist serve-lists``: what is served to whom; a version that cannot be kept is not published in part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from hushlist.extensions.safe_browsing.v4_messages import ThreatType
from hushlist.tools.publish import list_history, list_publisher, list_server
from hushlist.tools.publish.list_publisher import Publication, read_publication
from hushlist.tools.publish.list_server import RequestLog, ServerLimits
from hushlist.tools.publish.published_list import PublishedList
from hushlist.tools.publish.safebrowsing_service import LIST_NAMES
from unit.cli.running import Run


class Served:
    """What a server was made with."""

    service: Any = None
    limits = ServerLimits()
    log: Callable[[RequestLog], object]
    listened: tuple[object, ...] = ()
    thread = None
    use_tls = None
    keys: Collection[str] = ()
    #: the policy that was read, and which of its lists as what
    read: tuple[Path, dict[str, ThreatType]]

    def __call__(self, service: Any, limits: ServerLimits, log: Callable[[RequestLog], object]) -> Served:
        self.service, self.limits, self.log = service, limits, log
        return self

    def use_keys(self, keys: Collection[str]) -> None:
        self.keys = keys

    def listen(self, *where: object) -> int:
        self.listened = where
        return 8088


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server that ends when it has begun, and lists that nobody compiles."""
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text("layers: [{name: lists, lists: [games.domains]}]")
    (tmp_path / "games.domains").write_text("games.example\n")
    (tmp_path / "keys").write_text("# of the school\n  first \n\nsecond\n")
    (tmp_path / "none").write_text("# nobody\n\n")
    for name in ("keys", "none"):
        (tmp_path / name).chmod(0o600)
    (tmp_path / "open").write_text("first\n")
    (tmp_path / "open").chmod(0o644)

    async def once(*_: object) -> None:
        pass

    def read(policy: Path, chosen: dict[str, ThreatType]) -> Publication:
        own.read = policy, chosen
        return Publication({int(threat): PublishedList() for threat in LIST_NAMES}, (), date(2026, 12, 31))

    own = Served()
    monkeypatch.setattr(list_publisher, "read_publication", read)
    monkeypatch.setattr(list_server, "ListServer", own)
    monkeypatch.setattr(list_publisher, "keep_publishing", once)
    monkeypatch.setattr(list_server, "keep_fresh", once)
    return own


@pytest.mark.slow
def test_what_a_full_disk_does_not_take_is_not_published(
    run: Run, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_publisher, "read_publication", read_publication)

    async def once(
        _: Publication,
        read: Callable[[], Publication],
        use: Callable[[Publication], None],
        thread: Executor,
        complain: Callable[[Exception], object],
    ) -> None:
        with (tmp_path / "games.domains").open("a") as file:
            file.write("more.example\n")
        monkeypatch.setattr(list_history, "replace_file", lambda *_, **__: _full())
        with pytest.raises(OSError, match="No space left"):
            use(read())
        complain(OSError(28, "No space left on device"))

    monkeypatch.setattr(list_publisher, "keep_publishing", once)
    code, out, err = run("serve-lists", "--policy", "policy.yaml", "--list", "games.domains=MALWARE")
    assert code == 0
    assert "mw-4b: version 1, 1 full hash" in out
    assert err.splitlines() == [
        "hushlist: No space left on device",
        "hushlist: the change is not published, the last good lists stay",
    ]
    assert [len(own) for own in served.service.lists.values()] == [1, 0, 0, 0]


def _full() -> None:
    raise OSError(28, "No space left on device")


def test_a_list_is_served_as_the_threat_that_is_named(run: Run, served: Served) -> None:
    threats = ("MALWARE", "SOCIAL_ENGINEERING", "UNWANTED_SOFTWARE", "POTENTIALLY_HARMFUL_APPLICATION")
    lists = [word for threat in threats for word in ("--list", f"a=b {threat}={threat}")]
    code, out, _ = run("serve-lists", "--policy", "policy.yaml", *lists)
    assert (code, out.splitlines()[-1]) == (0, "listening on http://127.0.0.1:8088/")
    assert served.read == (Path("policy.yaml"), {f"a=b {threat}": ThreatType[threat] for threat in threats})
    assert served.listened == ("127.0.0.1", 8088, None)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ([], ServerLimits((), 600)),
        (["--rate", "0"], ServerLimits((), 0)),
        (["--rate", "-5"], ServerLimits((), 0)),
        (["--client-keys", "keys", "--rate", "1"], ServerLimits(("first", "second"), 1)),
    ],
)
def test_it_is_said_who_may_ask_and_how_often(
    run: Run, served: Served, options: list[str], limits: ServerLimits
) -> None:
    assert run("serve-lists", "--policy", "policy.yaml", *options)[0] == 0
    assert served.limits == limits


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--client-keys", "none"], "none: it has no key"),
        pytest.param(["--client-keys", "open"], "open: ", marks=pytest.mark.posix),
        (["--client-keys", "away"], "away: No such file"),
        (["--certificate", "keys"], "--certificate and --key go together"),
        (["--key", "keys"], "--certificate and --key go together"),
        (["--certificate", "keys", "--key", "keys"], "no certificate with its key"),
        pytest.param(["--certificate", "keys", "--key", "open"], "open: ", marks=pytest.mark.posix),
    ],
)
def test_without_its_keys_nothing_is_served(run: Run, served: Served, options: list[str], why: str) -> None:
    code, out, err = run("serve-lists", "--policy", "policy.yaml", *options)
    assert (code, out, served.service) == (2, "", None)
    assert why in err


def test_with_a_certificate_it_is_https(run: Run, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[object]()

    async def keep(*own: object) -> None:
        given.append(own[0])

    monkeypatch.setattr(list_server, "read_certificate", lambda *files: files)
    monkeypatch.setattr(list_server, "keep_fresh", keep)
    options = ["--certificate", "chain.pem", "--key", "key.pem", "--listen", "[::1]:8443"]
    code, out, _ = run("serve-lists", "--policy", "policy.yaml", *options)
    assert code == 0
    assert out.endswith("listening on https://[::1]:8088/\n")
    assert [served.listened, *given] == [
        ("::1", 8443, (Path("chain.pem"), Path("key.pem"))),
        (Path("chain.pem"), Path("key.pem")),
    ]


def test_keys_that_change_in_their_file_are_used_and_none_are_not(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep(files: Sequence[Path], use: Callable[[], object], complain: Callable[[OSError], object]) -> None:
        assert files == (Path("keys"),)
        files[0].write_text("second\nthird\n")
        use()
        files[0].write_text("# nobody\n")
        with pytest.raises(OSError, match="it has no key") as raised:
            use()
        complain(raised.value)

    monkeypatch.setattr(list_server, "keep_fresh", keep)
    code, _, err = run("serve-lists", "--policy", "policy.yaml", "--client-keys", "keys")
    assert (code, served.keys) == (0, ("second", "third"))
    assert err.splitlines()[-1] == "hushlist: the change is not used, what was before stays"


@pytest.mark.parametrize(("options", "end"), [([], ""), (["--log-prefixes"], "\t01020304,05060708")])
def test_the_log_has_prefixes_only_where_somebody_wants_them(
    run: Run, served: Served, capsys: pytest.CaptureFixture[str], options: list[str], end: str
) -> None:
    assert run("serve-lists", "--policy", "policy.yaml", *options)[0] == 0
    moment = datetime(2026, 12, 31, 23, 59, 58, 5, UTC)
    served.log(RequestLog(moment, "192.0.2.7", "GET", "/v5/hashes:search", 200, 12, ("01020304", "05060708")))
    line = f"2026-12-31T23:59:58Z\t192.0.2.7\tGET\t/v5/hashes:search\t200\t12{end}\n"
    assert capsys.readouterr().out == line
