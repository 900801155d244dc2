"""``hushlist helper``: the command that answers Squid, in a process of its own."""

from pathlib import Path

import pytest

from unit.cli.running import into_a_closed_pipe, process
from unit.test_squid import ADS, EXTRAS, RULES


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "first.yaml").write_text(RULES)
    (tmp_path / "policy.yaml").write_text("layers:\n- {name: lists, lists: [first.yaml]}\n")
    return tmp_path / "policy.yaml"


def ask(*argv: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> tuple[int, bytes, str]:
    """Run ``hushlist helper``; gives (exit code, output, errors)."""
    done = process("helper", *argv, stdin=stdin, cwd=cwd)
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_command_answers_until_its_input_ends(policy: Path) -> None:
    stdin = b"0 http://blocked.example/ -\n1 http://other.example/ -\nother.example:443 -"
    assert ask("--acl", "--policy", policy.name, stdin=stdin, cwd=policy.parent) == (
        0,
        b"0 " + ADS + b"\n1 ERR\nERR\n",
        "",
    )


def test_the_command_redirects(policy: Path) -> None:
    stdin = b"0 http://blocked.example/" + EXTRAS + b"\n"
    argv = ("--redirect", "http://page.example/?%r", "--policy", policy.name)
    assert ask(*argv, stdin=stdin, cwd=policy.parent) == (
        0,
        b'0 OK status=302 url="http://page.example/?Ads" tag="hrn://c.example/ads" '
        b'log="blocked.example/ by first (first.yaml:3): Ads"\n',
        "",
    )


def test_nothing_to_answer_is_no_fault() -> None:
    assert ask("--acl") == (0, b"", "")


def test_a_policy_that_cannot_be_used_is_reported_before_anything_is_answered(policy: Path) -> None:
    (policy.parent / "first.yaml").write_text("rules: ['..']")
    assert ask("--acl", "--policy", policy.name, stdin=b"x\n", cwd=policy.parent) == (
        2,
        b"",
        "first.yaml:1: ..: it names no host\n",
    )


def test_a_page_that_is_blocked_itself_is_warned_of(policy: Path) -> None:
    code, out, err = ask("--redirect", "http://blocked.example/?%u", "--policy", policy.name, cwd=policy.parent)
    assert (code, out) == (0, b"")
    assert err == (
        "hushlist: warning: the page to redirect to is blocked itself: blocked.example/ by first (first.yaml:3): Ads\n"
    )


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        ([], "one of the arguments --acl --redirect is required"),
        (["--acl", "--redirect", "http://h/"], "argument --redirect: not allowed with argument --acl"),
        (["--redirect", "http://h/%n"], "argument --redirect: 'http://h/%n': %n is none of %u, %a, %i, %t, %r, %l, %%"),
        (["--redirect", "/page"], "argument --redirect: '/page': expected http:// or https://, a host, and what"),
    ],
)
def test_wrong_usage_exits_with_2(argv: list[str], error: str) -> None:
    code, out, err = ask(*argv)
    assert (code, out) == (2, b"")
    assert error in err


def test_a_closed_pipe_ends_it_quietly(policy: Path) -> None:
    done = into_a_closed_pipe("helper", "--acl", "--policy", policy)
    assert (done.returncode, done.stderr) == (0, b"")
