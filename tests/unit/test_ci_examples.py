"""The workflows of ``examples/ci``: whole YAML, whose commands and options there are."""

import re
import shlex

import pytest
import yaml

from documentation import ROOT
from hushlist import cli


def commands(value: object) -> list[str]:
    """Every shell line of a workflow that calls ``hushlist``."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return [line for each in value for line in commands(each)]
    lines = str(value).replace("\\\n", " ").splitlines() if isinstance(value, str) else []
    return [re.split(r" (?:\|\||>) ", line)[0] for line in lines if line.startswith("hushlist ")]


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_every_command_of_a_workflow_is_one(name: str) -> None:
    lines = commands(yaml.safe_load((ROOT / "examples" / "ci" / name).read_text(encoding="utf-8")))
    for line in lines:
        _, command, *rest = shlex.split(line)
        cli.make_parser(command).parse_args([command, *rest])
    assert [line.split()[1] for line in lines] == [
        *("lint", "diff", "audit", "visit"),
        *("publish", "verify"),
    ]
