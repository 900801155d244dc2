"""mitmproxy's commands, in its own test context."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest
from mitmproxy import exceptions, http
from mitmproxy.test import taddons, tflow

from hushlist.proxy.addon import Hushlist
from hushlist.proxy.commands import EditError, add_rule
from hushlist.proxy.flow_outcome import SAFE_SEARCH
from unit.mitmproxied import mitmproxied


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def hushlist() -> Hushlist:
    return Hushlist()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    own = tmp_path / "own.yaml"
    own.write_bytes(b"# ours\r\nrules:\r\n    - a.example  # mine\r\n")
    return own


@pytest.fixture
def policy(tmp_path: Path, own: Path) -> Path:
    (tmp_path / "list.yaml").write_text("rules: [{expression: games.example, reason: Games}]")
    (tmp_path / "policy.yaml").write_text(
        "layers:\n- {name: overrides, lists: [own.yaml]}\n- {name: lists, lists: [list.yaml]}\n"
    )
    return tmp_path / "policy.yaml"


@pytest.fixture
def context(hushlist: Hushlist, policy: Path) -> Iterator[taddons.context]:
    with mitmproxied(hushlist, policy) as context:
        yield context


def flow_of(url: str, **headers: str) -> http.HTTPFlow:
    flow = tflow.tflow(req=http.Request.make("GET", url))
    flow.request.headers.update(headers)
    flow.client_conn.sni = None
    return flow


def test_status_says_what_is_in_force(context: taddons.context, hushlist: Hushlist, policy: Path) -> None:
    status = context.master.commands.call("hushlist.status")
    assert status.startswith(f"policy {policy}: 2 rules of 3 files; groups: default; mode block; index ")


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
    context: taddons.context, own: Path, action: str, flow: http.HTTPFlow, expression: str
) -> None:
    before = own.read_bytes()
    context.master.commands.call(f"hushlist.{action}", [flow, flow])
    after = own.read_bytes()
    assert after.startswith(before)
    added = after[len(before) :].decode()
    start = f'    - {{expression: "{expression}", action: "{action}", reason: "by the command hushlist.{action}, '
    assert added.startswith(start)
    assert added.endswith(' UTC"}\r\n')
    assert added.count("\n") == 1
    context.master.commands.call(f"hushlist.{action}", [flow])
    assert own.read_bytes() == after


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_file_keeps_its_mode_and_a_link_stays_one(context: taddons.context, own: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    own.rename(real / "rules.yaml")
    own.symlink_to(real / "rules.yaml")
    (real / "rules.yaml").chmod(0o664)
    context.master.commands.call("hushlist.allow", [flow_of("http://games.example/")])
    assert own.is_symlink()
    assert S_IMODE(own.stat().st_mode) == 0o664
    assert "games.example/" in own.read_text()
    assert [file.name for file in real.iterdir()] == ["rules.yaml"]


@pytest.mark.parametrize("text", ["rules: {}\n", "rules:\n- colour: red\n", None, "rules: []\n\udcff"])
def test_a_list_that_cannot_be_changed_is_an_error_that_says_why(
    context: taddons.context, own: Path, text: str | None
) -> None:
    own.unlink()
    if text is not None:
        own.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = sorted(own.parent.iterdir())
    with pytest.raises(exceptions.CommandError, match=r"own\.yaml cannot be changed: .+"):
        context.master.commands.call("hushlist.allow", [flow_of("http://games.example/")])
    assert sorted(own.parent.iterdir()) == before


def test_a_host_that_is_none_is_an_error(context: taddons.context, own: Path) -> None:
    before = own.read_bytes()
    flow = flow_of("http://games.example/")
    flow.request.data.host = "a/b"
    with pytest.raises(exceptions.CommandError, match="no host that a rule can name"):
        context.master.commands.call("hushlist.block", [flow])
    assert own.read_bytes() == before


def test_a_policy_without_a_list_of_one_s_own_is_an_error(
    context: taddons.context, hushlist: Hushlist, policy: Path
) -> None:
    policy.write_text("layers:\n- {name: lists, lists: [list.yaml]}\n")
    context.configure(hushlist, hushlist_policy=str(policy.with_name("policy.yaml")), hushlist_mode="tag")
    hushlist.policy_watch.load(policy)
    with pytest.raises(exceptions.CommandError, match="no YAML list in a layer 'overrides'"):
        context.master.commands.call("hushlist.allow", [flow_of("http://games.example/")])


def test_the_format_of_a_list_counts_and_not_its_name(
    context: taddons.context, hushlist: Hushlist, policy: Path, own: Path
) -> None:
    own.write_text("a.example\n")
    (own.parent / "mine").write_text("rules: []\n")
    lists = "[{file: own.yaml, format: domains}, {file: mine, format: yaml}]"
    policy.write_text(f"layers:\n- {{name: overrides, lists: {lists}}}\n")
    hushlist.policy_watch.load(policy)
    context.master.commands.call("hushlist.block", [flow_of("http://games.example/")])
    assert own.read_text() == "a.example\n"
    assert "games.example/" in (own.parent / "mine").read_text()


@pytest.mark.parametrize("command", ["explain", "allow", "block"])
def test_without_a_policy_there_is_an_error(command: str) -> None:
    with taddons.context() as context:
        context.options.add_option("connection_strategy", str, "eager", "")
        context.options.add_option("rawtcp", bool, True, "")
        hushlist = Hushlist()
        context.master.addons.add(hushlist)
        hushlist.runtime.engine = None
        with pytest.raises(exceptions.CommandError, match="no policy that it can use"):
            context.master.commands.call(f"hushlist.{command}", [])
        assert context.master.commands.call("hushlist.status") == "no policy that can be used: every request is refused"
        hushlist.done()
        context.master.event_loop.close()


# -- adding a rule -----------------------------------------------------------------------------------------------------

RULE = {"expression": "new.example/", "action": "allow"}
ITEM = '{expression: "new.example/", action: "allow"}'
LINE = f"- {ITEM}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rules:\n- a.example\n", f"rules:\n- a.example\n{LINE}\n"),
        ("rules:\n- a.example", f"rules:\n- a.example\n{LINE}\n"),
        ("rules:\n    - a.example  # mine\n", f"rules:\n    - a.example  # mine\n    {LINE}\n"),
        (
            "# all\nrules:  # mine\n\n  # first\n  - a.example\n",
            f"# all\nrules:  # mine\n\n  # first\n  - a.example\n  {LINE}\n",
        ),
        ("rules: []\n", f"rules:\n  {LINE}\n"),
        ("rules: []", f"rules:\n  {LINE}\n"),
        ("rules: [ ]   # none yet\n", f"rules:   # none yet\n  {LINE}\n"),
        ("rules: []\ntitle: own\n", f"rules:\n  {LINE}\ntitle: own\n"),
        ("rules:\n- a.example\n\n\ntitle: own\n", f"rules:\n- a.example\n{LINE}\n\n\ntitle: own\n"),
        ("rules:\r\n  - a.example\r\n\r\ntitle: own\r\n", f"rules:\r\n  - a.example\r\n  {LINE}\r\n\r\ntitle: own\r\n"),
        ("rules: []\r\n", f"rules:\r\n  {LINE}\r\n"),
        (
            "rules:\n  - expression: a.example\n    reason: |\n      - one\n      rules:\n  - b.example\n",
            f"rules:\n  - expression: a.example\n    reason: |\n      - one\n      rules:\n  - b.example\n  {LINE}\n",
        ),
        ("rules:\n- é.example\n", f"rules:\n- é.example\n{LINE}\n"),
        # comments behind the last rule belong to what follows, or to nobody
        (
            "rules:\n- a.example  # 1\n# 2\n\n# 3\ntitle: own\n",
            f"rules:\n- a.example  # 1\n{LINE}\n# 2\n\n# 3\ntitle: own\n",
        ),
        ("rules:  # 1\n  # 2\n  []  # 3\n", f"rules:  # 1\n  # 2  # 3\n  {LINE}\n"),
        # rules of several lines
        (
            "rules:\n- {expression: a.example,\n   action: allow}  # 1\n",
            f"rules:\n- {{expression: a.example,\n   action: allow}}  # 1\n{LINE}\n",
        ),
        (
            "rules:\n- expression: a.example\n  reason: long\n    and longer\n",
            f"rules:\n- expression: a.example\n  reason: long\n    and longer\n{LINE}\n",
        ),
        (
            "rules:\n- expression: a.example\n  reason: |\n    # none\n\ntitle: own",
            f"rules:\n- expression: a.example\n  reason: |\n    # none\n{LINE}\n\ntitle: own",
        ),
        ("rules:\n-   expression:  a.example\n", f"rules:\n-   expression:  a.example\n{LINE}\n"),
        # in brackets
        ("rules: [a.example]\n", f"rules: [a.example, {ITEM}]\n"),
        (
            "rules:\n  [ a.example ,\n    b.example,  # mine\n  ]\ntitle:  own\n",
            f"rules:\n  [ a.example ,\n    b.example, {ITEM},  # mine\n  ]\ntitle:  own\n",
        ),
        ("rules: [\n  # none yet\n]\n", f"rules: [{ITEM}\n  # none yet\n]\n"),
        ("{rules: []}\n", f"{{rules: [{ITEM}]}}\n"),
        ("rules: [{expression: a.example}]\n", f"rules: [{{expression: a.example}}, {ITEM}]\n"),
        # however the key is written
        ('"rules":\n- a.example\n', f'"rules":\n- a.example\n{LINE}\n'),
        ("? rules\n: - a.example\n", f"? rules\n: - a.example\n  {LINE}\n"),
        ("---\n  title: own\n  rules: []\n...\n", f"---\n  title: own\n  rules:\n    {LINE}\n...\n"),
        ("title: own\nrules:    []\nreason: a\n", f"title: own\nrules:\n  {LINE}\nreason: a\n"),
        ("\ufeffrules:\n- é.example\n", f"\ufeffrules:\n- é.example\n{LINE}\n"),
        ("rules:\t# mine\n- a.example\t# x\n", f"rules:\t# mine\n- a.example\t# x\n{LINE}\n"),
    ],
)
def test_a_rule_is_added_and_everything_else_stays_as_a_person_wrote_it(before: str, after: str) -> None:
    assert add_rule(before, RULE) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        # lines that the last reason keeps, and that would be behind the new rule
        ("rules:\n- expression: a.example\n  reason: |+\n    x\n\n\n", "none can be added to"),
        ("rules:\n", "line 1: rules"),
        ("rules:\n- a.example\n- colour: red\n", "line 3: colour"),
        ("- a.example\n", "line 1"),
        ("", "line 1"),
        ("rules: [\n", "line 2"),
    ],
)
def test_what_cannot_be_changed_with_care_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(EditError, match=why.replace("[", r"\[")):
        add_rule(text, RULE)


@pytest.mark.parametrize("expression", ["a b.example/", "", "http://"])
def test_what_is_no_rule_is_refused(expression: str) -> None:
    with pytest.raises(EditError):
        add_rule("rules: []\n", {"expression": expression, "action": "allow"})


@pytest.mark.parametrize("reason", ['by "me"', "a: b # c", "- x\ny", "'", "\\", "é \u202e", "{}", "%", "[", "*a"])
def test_no_value_becomes_anything_else(reason: str) -> None:
    text = add_rule("rules: []\n", {**RULE, "reason": reason})
    assert text.count("\n") == 2
    assert add_rule(text, {**RULE, "expression": "b.example/"}).startswith(text)


def test_a_rule_that_is_there_is_not_added_again() -> None:
    text = add_rule("rules: []\n", RULE)
    assert add_rule(text, {**RULE, "reason": "again"}) == text


def test_a_block_that_an_allowance_would_beat_is_refused_with_its_line() -> None:
    with pytest.raises(EditError, match=r"line 2 allows new\.example/; remove that first"):
        add_rule(add_rule("rules: []\n", RULE), {**RULE, "action": "block"})
    both = add_rule(add_rule("rules: []\n", {**RULE, "action": "block"}), RULE)
    assert both.count("new.example") == 2


def test_explain_tells_of_safe_search(context: taddons.context) -> None:
    flow = flow_of("http://fine.example/")
    flow.metadata[SAFE_SEARCH] = "Google, strict"
    lines = context.master.commands.call("hushlist.explain", [flow]).splitlines()
    assert lines == ["pass http://fine.example/", "  safe search: Google, strict"]


def test_reload_reads_all_again(context: taddons.context, hushlist: Hushlist, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setattr(hushlist.policy_watch, "reload", lambda: called.append(True))
    context.master.commands.call("hushlist.reload")
    assert called == [True]
