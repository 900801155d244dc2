"""mitmproxy's commands, in its own test context."""

from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest
from mitmproxy import exceptions, http
from mitmproxy.test import taddons, tflow

from hushlist.proxy.addon import Hushlist
from support.flows import flow_of
from support.mitmproxied import add_proxy_options, mitmproxied


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def own_list(tmp_path: Path) -> Path:
    own_list = tmp_path / "own.yaml"
    own_list.write_bytes(b"# ours\r\nrules:\r\n    - a.example  # mine\r\n")
    return own_list


@pytest.fixture
def policy(tmp_path: Path, own_list: Path) -> Path:
    (tmp_path / "list.yaml").write_text("rules: [{expression: games.example, reason: Games}]")
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: overrides, lists: [own.yaml]}\n- {name: lists, lists: [list.yaml]}\n"
    )
    return tmp_path / "policy.yaml"


@pytest.fixture
def context(hushlist: Hushlist, policy: Path) -> Iterator[taddons.context]:
    with mitmproxied(hushlist, policy) as context:
        yield context


def test_explain_tells_of_every_flow_and_marks_what_decides(context: taddons.context) -> None:
    flows = [flow_of("http://www.games.example/\x1b[31m"), flow_of("http://fine.example/"), tflow.ttcpflow()]
    lines = context.master.commands.call("hushlist.explain", flows).splitlines()
    assert lines[0].startswith("block http://www.games.example/%1B[31m games.example/ by list (")
    assert lines[1].startswith("  layer lists: block games.example/")
    assert lines[1].endswith("  <- decides")
    assert lines[2:] == ["  as sent: http://www.games.example/\\x1b[31m", "pass http://fine.example/"]


@pytest.mark.parametrize("action", ["allow", "block"])
@pytest.mark.parametrize(
    ("flow", "expression"),
    [
        (flow_of("http://www.games.example:8080/a?b"), "www.games.example/"),
        (flow_of("http://GAMES.example./"), "games.example/"),
        (flow_of("http://[2001:DB8::0:1]:8080/"), "[2001:db8::1]/"),
        (flow_of("http://192.0.2.7/"), "192.0.2.7/"),
        (flow_of("http://192.0.2.7/", host="games.example:80"), "games.example/"),
        (flow_of("http://x.example/", host="bücher.example"), "x.example/"),
        (flow_of("http://192.0.2.7/", host="BÜCHER.example"), "xn--bcher-kva.example/"),
    ],
    ids=["port and path", "upper case", "IPv6", "IPv4", "transparent", "another name", "IDN"],
)
def test_a_rule_is_written_as_a_person_would_and_everything_else_stays(
    context: taddons.context, own_list: Path, action: str, flow: http.HTTPFlow, expression: str
) -> None:
    before = own_list.read_bytes()
    context.master.commands.call(f"hushlist.{action}", [flow, flow])
    after = own_list.read_bytes()
    assert after.startswith(before)
    added = after[len(before) :].decode()
    start = f'    - {{expression: "{expression}", action: "{action}", reason: "by the command hushlist.{action}, '
    assert added.startswith(start)
    assert added.endswith(' UTC"}\r\n')
    assert added.count("\n") == 1
    context.master.commands.call(f"hushlist.{action}", [flow])
    assert own_list.read_bytes() == after


@pytest.mark.posix
def test_the_file_keeps_its_mode_and_a_link_stays_one(context: taddons.context, own_list: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    own_list.rename(real / "rules.yaml")
    own_list.symlink_to(real / "rules.yaml")
    (real / "rules.yaml").chmod(0o664)
    context.master.commands.call("hushlist.allow", [flow_of("http://games.example/")])
    assert own_list.is_symlink()
    assert S_IMODE(own_list.stat().st_mode) == 0o664
    assert "games.example/" in own_list.read_text()
    assert [file.name for file in real.iterdir()] == ["rules.yaml"]


@pytest.mark.parametrize("text", ["rules: {}\n", "rules:\n- colour: red\n", None, "rules: []\n\udcff"])
def test_a_list_that_cannot_be_changed_is_an_error_that_says_why(
    context: taddons.context, own_list: Path, text: str | None
) -> None:
    own_list.unlink()
    if text is not None:
        own_list.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = sorted(own_list.parent.iterdir())
    with pytest.raises(exceptions.CommandError, match=r"own\.yaml cannot be changed: .+"):
        context.master.commands.call("hushlist.allow", [flow_of("http://games.example/")])
    assert sorted(own_list.parent.iterdir()) == before


@pytest.mark.parametrize("command", ["explain", "allow", "block"])
def test_without_a_policy_there_is_an_error(command: str) -> None:
    with taddons.context() as context:
        add_proxy_options(context)
        hushlist = Hushlist()
        context.master.addons.add(hushlist)
        hushlist.runtime.engine = None
        with pytest.raises(exceptions.CommandError, match="no policy that it can use"):
            context.master.commands.call(f"hushlist.{command}", [])
        assert context.master.commands.call("hushlist.status") == "no policy that can be used: every request is refused"
        hushlist.done()
        context.master.event_loop.close()


def test_reload_reads_all_again(context: taddons.context, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setattr(hushlist.policy_watch, "reload", lambda: called.append(True))
    context.master.commands.call("hushlist.reload")
    assert called == [True]
