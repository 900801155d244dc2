"""``hushlist backwards``: names as a list in this format has them."""

import argparse

from hushlist.cli.common import GOOD, Commands, add_command, print_line


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "backwards", backwards, "write names from their end")
    parser.add_argument("names", nargs="+", metavar="NAME", help="a name, such as ads.example")


def backwards(arguments: argparse.Namespace) -> int:
    for name in arguments.names:
        print_line(".".join(reversed(name.split("."))))
    return GOOD
