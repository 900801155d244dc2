"""Rules for hosts that nobody looks at: they are told, wherever a policy is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushlist.cli import main
from hushlist.core.policy.hidden_hosts import hidden_hosts
from support.policies import read_whole
from unit.rows import each_row

TENANTS = "tenants: [{service: slack, allow: [T1], directory: T1}]"
HEADS = "heads: [{sites: [a.example/live, b.example], remove: [Cookie]}, {sites: c.example, block: true}]"
NEVER, PASSED = "decrypt: never", "pass-through in policy.yaml:2"
OTHERS = "pass-through: [www.a.example, example.org, c.example]"
MANY = f"pass-through: [{', '.join(f'{name}.c.example' for name in 'abcdefg')}]"


@each_row(
    ("rules", "keys", "told"),
    [
        (TENANTS, "", []),
        (TENANTS, NEVER, [f"tenants of default: over https, nothing is told to slack.com: {NEVER}"]),
        (
            TENANTS,
            "pass-through: [slack.com, slack.example]",
            [f"tenants of default: over https, nothing is told to slack.com: {PASSED}"],
        ),
        (
            TENANTS,
            "pass-through: [files.slack.com]",
            [f"tenants of default: over https, nothing is told to files.slack.com: {PASSED}"],
        ),
        (TENANTS, "pass-through: ['slack.com:5222']", []),
        (
            HEADS,
            OTHERS,
            [
                f"heads of default: over https, no header field is changed of www.a.example: {PASSED}",
                f"heads of default: over https, no answer is blocked by its head of c.example: {PASSED}",
            ],
        ),
        (
            HEADS.replace("example/live", "example.net"),
            MANY,
            [
                "heads of default: over https, no answer is blocked by its head of a.c.example, b.c.example, "
                f"c.c.example, d.c.example, e.c.example and 2 more: {PASSED}"
            ],
        ),
        ("heads: [{remove: [Cookie]}]", OTHERS, []),
        (
            "heads: [{remove: [Cookie]}]",
            NEVER,
            [f"heads of default: over https, no header field is changed of any host: {NEVER}"],
        ),
        (
            "files: [{sites: a.example, content: program}]",
            OTHERS,
            [f"files of default: over https, nobody looks at files of www.a.example: {PASSED}"],
        ),
        (
            "files: [{content: program}]",
            f"{NEVER}\ngroups: [{{name: g, users: [jo]}}, {{name: h, users: [mia], decrypt: all}}]",
            [f"files of g, default: over https, nobody looks at files of any host: {NEVER}"],
        ),
    ],
)
def test_each_rule_is_told_with_its_hosts_and_groups(tmp_path: Path, rules: str, keys: str, told: list[str]) -> None:
    policy, errors = read_whole(tmp_path, f"{rules}\n{keys}\nlayers: []\n")
    assert errors == []
    found = [f"{problem.what}: {problem.why}".replace(f"{tmp_path}/", "") for problem in hidden_hosts(policy)]
    assert found == told
    assert {problem.line for problem in hidden_hosts(policy)} <= {1}


@pytest.mark.parametrize("command", [["check", "http://a.example/"], ["explain", "http://a.example/"], ["compile"]])
def test_commands_tell_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{TENANTS}\n{NEVER}\nlayers: []\n")
    assert main([command[0], "--policy", str(policy), *command[1:]]) == 0
    assert f"{policy}:1: tenants of default: over https, nothing is told to slack.com: {NEVER}" in (
        capsys.readouterr().err
    )
