"""``hushlist import``: makes a policy out of another filter's configuration."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from hushlist.cli.common import FINDINGS, GOOD, Commands, add_command, complain, print_line, print_lines
from hushlist.core.errors import HushlistError, number_of
from hushlist.core.system.files import LONGEST_LIST, open_regular
from hushlist.tools.importing.adguard_home import read_adguard_home
from hushlist.tools.importing.e2guardian import read_e2guardian
from hushlist.tools.importing.pihole import read_pihole
from hushlist.tools.importing.squid import read_squid
from hushlist.tools.importing.squidguard import read_squidguard

_READERS = {
    "pihole": read_pihole,
    "adguardhome": read_adguard_home,
    "squidguard": read_squidguard,
    "e2guardian": read_e2guardian,
    "squid": read_squid,
}
#: filter -> what its file is called, and what no other's has in a line
_SIGNS = {
    "pihole": (r"gravity\.db|pi-?hole.*\.zip", rb"(?!)"),
    "adguardhome": (r"adguardhome\.ya?ml", rb"(?:user_rules|schema_version):"),
    "squidguard": (r"(?:squid|ufdb)guard\.conf", rb"(?:dbhome|dest(?:ination)?|category)\s"),
    "e2guardian": (r"e2guardian\.conf", rb"(?:filtergroups|maplist|ipmaplist)\s*="),
    "squid": (r"squid\.conf", rb"acl[ \t]+[^\s{]+[ \t]+\S|http_access[ \t]+(?:allow|deny)[ \t]"),
}
#: octets in which the content is looked for
_MOST_SEEN = 1 << 20


def add_to(commands: Commands) -> None:
    text = "make a policy out of another filter's configuration, and say what it could not take over"
    epilog = "Exit codes: 0 everything was taken over; 1 something was not, or not exactly; 2 wrong usage or bad input."
    parser = add_command(commands, "import", import_policy, text, epilog)
    parser.add_argument(
        "filter",
        nargs="?",
        choices=tuple(_READERS),
        metavar="FILTER",
        help=f"one of {', '.join(_READERS)} (default: by the file's name, or its content)",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a Teleporter archive or gravity.db, AdGuardHome.yaml, squidGuard.conf or ufdbGuard.conf, "
        "e2guardian.conf, squid.conf",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("imported"), metavar="FOLDER", help="where it goes (default: imported)"
    )
    parser.add_argument("--force", action="store_true", help="replace files of a folder that is not empty")


def import_policy(arguments: argparse.Namespace) -> int:
    """Write the folder; print what is different, and what there is."""
    policy = _READERS[arguments.filter or _filter_of(arguments.file)](arguments.file)
    folder = arguments.output
    try:
        problems = policy.write(folder, may_replace=arguments.force)
    except OSError as error:
        return complain(error)
    print_lines([*policy.warnings, *problems])
    layers = number_of(len(policy.layers), "layer", "layers")
    files = number_of(len(policy.files), "list", "lists")
    groups = number_of(len(policy.groups), "group", "groups")
    print_line(f"{folder / 'policy.yaml'}: {layers}, {files}, {groups}")
    if any(imported.is_url for layer in policy.layers.values() for imported in layer.lists):
        print_line(
            f"next, to fetch its lists: {shlex.join(('hushlist', 'update', '--policy', str(folder / 'policy.yaml')))}"
        )
    return FINDINGS if policy.warnings or problems else GOOD


def _filter_of(path: Path) -> str:
    """The filter that a file is of, by its name, or else its content; ``HushlistError`` if that cannot be said."""
    filters = [name for name, (named, _) in _SIGNS.items() if re.fullmatch(named, path.name, re.IGNORECASE)]
    if not filters:
        with open_regular(path, LONGEST_LIST) as file:
            octets = file.read(_MOST_SEEN)
        filters = [
            name for name, (_, line) in _SIGNS.items() if re.search(rb"^[ \t]*(?:%b)" % line, octets, re.MULTILINE)
        ]
    if len(filters) != 1:
        raise HushlistError(f"{path}: which filter it is of cannot be seen: name it, of {', '.join(_READERS)}")
    return filters[0]
