"""``hushlist policy``: reads and changes a section of the policy file, as the page and the interface do."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hushlist.cli import common
from hushlist.core.policy import default_policy, shipped_policy
from hushlist.core.system.files import LONGEST_DOCUMENT
from hushlist.extensions.policy_edits.policy_change import PolicyFile
from hushlist.extensions.policy_edits.policy_text import policy_text
from hushlist.extensions.policy_edits.yaml_edits import EditError

_CODES = "Exit codes: 0 good; 2 wrong usage, or a policy that cannot be changed so: it stays as it was."
_TEXT = "Changes are compiled before they hold, leave the rest of the file as it is, and can be undone."


def add_to(commands: common.Commands) -> None:
    text = "read and change sections of the policy file"
    group = common.add_group(commands, "policy", text, _TEXT)
    codes = "Exit codes: 0 good; 1 the policy does not have it; 2 wrong usage, or a policy that cannot be read."
    read = common.add_command(group, "get", get, "print a section as it is written, or the names of all", codes)
    read.add_argument("section", nargs="?", metavar="SECTION", help="a key of the policy, as 'groups'")
    write = common.add_command(group, "set", change, "write a section as standard input has it", _CODES)
    write.add_argument("section", metavar="SECTION", help="a key of the policy, with which standard input begins")
    back = common.add_command(group, "undo", undo, "go back to the policy before a change that was made here", _CODES)
    back.add_argument("number", nargs="?", type=common.parse_number, default=0, help="of the change, if not the last")
    for command in (read, write, back):
        common.add_policy(command, "the policy file (default: that of the first start)")


def _file(arguments: argparse.Namespace) -> PolicyFile:
    """The file; raises ``EditError`` where there is none but the shipped one, which belongs to the package."""
    path: Path = arguments.policy or default_policy()
    if arguments.policy is None and path == shipped_policy():
        raise EditError("there is no policy of the first start: name one with --policy")
    return PolicyFile(path, common.acting_user())


def get(arguments: argparse.Namespace) -> int:
    text = policy_text(_file(arguments).path)
    if arguments.section is None:
        for name in text.whole:
            common.print_line(name)
        return common.GOOD
    section = text.section(arguments.section)
    if not section.line:
        common.remark(f"the policy does not have {arguments.section!r}")
        return common.FINDINGS
    for line in section.text.splitlines():
        common.print_line(line)
    return common.GOOD


def change(arguments: argparse.Namespace) -> int:
    name = arguments.section
    try:
        text = sys.stdin.buffer.read(LONGEST_DOCUMENT + 1).decode("utf-8")
    except UnicodeDecodeError:
        return common.complain("the section is not in UTF-8")
    if not text.strip():  # as of a program before it that failed
        return common.complain("standard input has no section: nothing was changed")
    made = _file(arguments).change({name: ["*"]}, lambda before: before.with_text(name, text))
    common.print_warnings(made.warnings)
    if not made.version:
        common.remark(f"{name} was so before: nothing was changed")
        return common.GOOD
    common.print_line(f"changed {name}; 'hushlist policy undo {made.version}' goes back")
    return common.GOOD


def undo(arguments: argparse.Namespace) -> int:
    version, made = _file(arguments).undo(arguments.number)
    common.print_warnings(made.warnings)
    common.print_line(f"went back to what {version.section} was before change {version.id}")
    return common.GOOD
