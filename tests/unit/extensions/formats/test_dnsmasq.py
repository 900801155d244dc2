"""dnsmasq's configuration."""

from pathlib import Path

from hushlist.core.compile.policy_compiler import compile_policy
from hushlist.core.decide.engine import Engine
from hushlist.extensions.formats.resolver_settings import read_dnsmasq
from support.readings import read_rules
from unit.rows import each_row


@each_row(
    ("text", "rules"),
    [
        ("address=/a.example/0.0.0.0", ["1:a.example/"]),
        ("address=/a.example/b.example/0.0.0.0", ["1:a.example/", "1:b.example/"]),
        ("address=/a.example/", ["1:a.example/"]),
        ("address=/a.example/#", ["1:a.example/"]),
        (
            "address=/a.example/::\naddress=/b.example/127.0.0.1\naddress=/c.example/::1",
            ["1:a.example/", "2:b.example/", "3:c.example/"],
        ),
        ("server=/a.example/\nlocal=/b.example/c.example/", ["1:a.example/", "2:b.example/", "2:c.example/"]),
        ("# x\n\n  address = /a.example/ # why\r\n", ["3:a.example/"]),
        ("address=/*.a.example/\naddress=/.b.example/", ["1:a.example/", "2:b.example/"]),
        ("address=/BÜCHER.example/", ["1:xn--bcher-kva.example/"]),
    ],
)
def test_names_that_are_answered_with_nothing_are_rules(text: str, rules: list[str]) -> None:
    assert read_rules(read_dnsmasq, text) == (rules, [])


@each_row(
    ("line", "warning"),
    [
        ("server=/#/192.0.2.1", "no rule fits every host"),
        ("server=192.0.2.1", "'server' without a name"),
        ("cache-size=1000", "a directive 'cache-size'"),
        ("no-resolv", "a directive 'no-resolv'"),
        ("a line of text", "expected a directive such as address=/NAME/"),
        ("address=/x.example", "expected a '/' behind the last name"),
        ("address=/#/0.0.0.0", "no rule fits every host"),
        ("address=//0.0.0.0", "no rule fits every name without a dot"),
        ("address=/x@y.example/", "a domain has neither user nor path"),
        ("address=/a b/", "there is white space in it"),
    ],
)
def test_what_blocks_no_name_is_left_out(line: str, warning: str) -> None:
    rules, warnings = read_rules(read_dnsmasq, f"local=/a.example/\n{line}\nlocal=/b.example/")
    assert rules == ["1:a.example/", "3:b.example/"]
    what = line[9:-1] if line in ("address=/a b/", "address=/x@y.example/") else line
    assert warnings == [f"2: {what}: left out: {warning}"]


def test_directives_are_counted_by_kind() -> None:
    text = "cache-size=1\nserver=1.1.1.1\ncache-size=2\ncache-size=3"
    assert read_rules(read_dnsmasq, text) == (
        [],
        [
            "1: cache-size=1: left out: a directive 'cache-size' (the first of 3)",
            "2: server=1.1.1.1: left out: 'server' without a name",
        ],
    )


def test_a_more_specific_line_that_does_not_block_is_an_exception(tmp_path: Path) -> None:
    (tmp_path / "list.dnsmasq").write_text(
        "address=/bad.example/\nserver=/good.bad.example/#\nserver=/ok.bad.example/x.bad.example/9.9.9.9#53\n"
        "address=/own.bad.example/192.0.2.1\nlocal=/ads.good.bad.example/\nserver=/z.ads.good.bad.example/\n"
        "server=/fine.ads.good.bad.example/#\nserver=/else.example/#\naddress=/both.example/\nserver=/both.example/#\n"
    )
    (tmp_path / "other.hosts").write_text("0.0.0.0 good.bad.example\n0.0.0.0 else.example\n")
    (tmp_path / "policy.yaml").write_text(
        "layers: [{name: a, lists: [list.dnsmasq]}, {name: b, lists: [{file: other.hosts, action: warn}]}]"
    )
    compiled = compile_policy(tmp_path / "policy.yaml")
    engine = Engine(compiled.policy, compiled.index)
    for host, action in {
        "bad.example": "block", "w.bad.example": "block", "good.bad.example": "warn", "www.good.bad.example": "warn",
        "ok.bad.example": "allow", "x.bad.example": "allow", "own.bad.example": "allow",
        "ads.good.bad.example": "block", "y.ads.good.bad.example": "block", "z.ads.good.bad.example": "block",
        "fine.ads.good.bad.example": "warn", "else.example": "warn", "both.example": "allow", "other.example": "pass",
    }.items():  # fmt: skip
        assert engine.decide_url(f"http://{host}/x".encode()).action == action, host
