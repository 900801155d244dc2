"""``hushlist init``: writes a policy to start with."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hushlist.cli.common import GOOD, Commands, add_command, complain, print_line, print_lines
from hushlist.core.errors import SourceError
from hushlist.core.policy import shipped_policy
from hushlist.core.system.files import source_errors
from hushlist.extensions.subscriptions.catalogue import read_catalogue, shipped_catalogue

#: subject -> its list in the catalogue
_SUBJECTS = {
    "malware": "hagezi-tif",
    "phishing": "phishing-database",
    "ads": "hagezi-light",
    "adult": "stevenblack-porn",
    "gambling": "stevenblack-gambling",
    "social": "stevenblack-social",
    "doh": "hagezi-doh",
    "bypass": "hagezi-bypass",
}
_OVERRIDES = """# Your own rules, which beat every list, such as:
#   - {expression: shop.example, action: allow}
rules: []
"""


_HOUSEHOLD = "Pass through what devices need without decryption (time, push, calls, messages, checks of the network)?"


class _Place(NamedTuple):
    """Where a filter runs: the subjects that are blocked there by default, whether searches are safe, and whether what
    households need is passed through."""

    subjects: tuple[str, ...]
    is_safe: bool
    is_household: bool = False


_PLACES = {
    "family": _Place(("malware", "phishing", "ads", "adult", "gambling", "bypass"), is_safe=True, is_household=True),
    "school": _Place(("malware", "phishing", "ads", "adult", "gambling", "social", "bypass"), is_safe=True),
    "company": _Place(("malware", "phishing", "doh"), is_safe=False),
}


def add_to(commands: Commands) -> None:
    text = "write a policy to start with, of public lists that fit a family, a school or a company"
    parser = add_command(commands, "init", init, text)
    help_ = f"where the filter runs: {', '.join(_PLACES)} (asked for at a terminal)"
    parser.add_argument("place", nargs="?", choices=_PLACES, metavar="PLACE", help=help_)
    parser.add_argument(
        "--block",
        nargs="+",
        action="extend",
        choices=_SUBJECTS,
        metavar="SUBJECT",
        help=f"what is blocked, of {', '.join(_SUBJECTS)} (default: what fits; asked for at a terminal)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("policy.yaml"),
        metavar="FILE",
        help="a new file (default: %(default)s)",
    )


def init(arguments: argparse.Namespace) -> int:
    """Write the policy, and a list of one's own beside it; neither in the place of another file."""
    policy: Path = arguments.output
    own = policy.with_name("overrides.yaml")
    if policy.resolve() == own.resolve():
        return complain(f"{own} is the list of your own rules: give the policy another name")
    if there := next((path for path in (policy, own) if path.is_symlink() or path.exists()), None):
        return complain(f"{there} is there already, and is not written over: name a file in another folder with -o")
    is_asked = is_terminal()
    if arguments.place is None and not is_asked:
        return complain(f"say where the filter runs: {', '.join(_PLACES)}")
    try:
        place = _PLACES[arguments.place or _ask_place()]
        subjects = arguments.block or ([*_ask_subjects(place)] if is_asked else place.subjects)
        if is_asked:
            place = place._replace(is_household=_is_wanted(_HOUSEHOLD, is_default=place.is_household))
    except EOFError:
        return complain("there was no answer: nothing is written")
    _write(policy, "".join(f"{line}\n" for line in _lines(place, [*dict.fromkeys(subjects)])))
    try:
        _write(own, _OVERRIDES)
    except SourceError:
        policy.unlink()
        raise
    print_line(f"{policy}: a policy, which you can change; {own}: your own rules")
    print_lines(_next_steps(policy))
    return GOOD


def _next_steps(policy: Path) -> Iterator[str]:
    """From the policy to a device that is filtered."""
    script = Path(__file__).parent.parent.parent / "filter.py"
    if not script.is_file():  # a package is installed without it
        script = Path("filter.py")
        yield f"next: write {script}, of one line: from hushlist.proxy.addon import Hushlist; addons = [Hushlist()]"
    yield f"next: {shlex.join(('hushlist', 'update', '--policy', str(policy)))}"
    yield f"then: {shlex.join(('mitmdump', '-s', str(script), '--set', f'hushlist_policy={policy}'))}"
    yield "then, on each device: open http://ADDRESS-OF-THIS-MACHINE:8080/setup, which says how to set it up"


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask_place() -> str:
    while (answer := input(f"Where does the filter run ({', '.join(_PLACES)})? ").strip().lower()) not in _PLACES:
        pass
    return answer


def _ask_subjects(place: _Place) -> Iterator[str]:
    catalogue = read_catalogue(shipped_catalogue())
    for subject, name in _SUBJECTS.items():
        if _is_wanted(f"Block {subject} ({catalogue[name].purpose})?", is_default=subject in place.subjects):
            yield subject


def _is_wanted(question: str, *, is_default: bool) -> bool:
    answer = input(f"{question} [{'Y/n' if is_default else 'y/N'}] ").strip().lower()
    return answer[:1] == "y" or (not answer and is_default)


def _lines(place: _Place, subjects: list[str]) -> Iterator[str]:
    catalogue = read_catalogue(shipped_catalogue())
    pages = shipped_policy().parent  # a package is installed with them, and without the examples
    example = pages.parent / "examples" / "README.md"
    more = f"; whole examples: {example}" if example.is_file() else ""
    yield f"# The first layer that has a rule decides. Every key: {pages / 'README.md'}{more}"
    yield from ("layers:", "  - name: overrides    # your own rules", "    lists: [overrides.yaml]")
    yield from ("  - name: checks", "    checks: {rare-ipv4: block, misleading-user: block}", "  - name: lists")
    yield "    lists:" if subjects else "    lists: []"
    for subject in subjects:
        entry = catalogue[_SUBJECTS[subject]]
        yield f"      - catalogue: {entry.name}    # {entry.purpose}"
    if place.is_safe:
        yield "safe-search: strict"
    mark = "" if place.is_household else "# "
    yield f"{mark}pass-through: household    # time, push, calls and such: see {pages / 'network.md'}"
    yield "unblock: {codes: on}    # a code from 'hushlist override code' opens one page or site for a time"


def _write(path: Path, text: str) -> None:
    with source_errors(path, "output"), path.open("x", encoding="utf-8") as file:
        file.write(text)
