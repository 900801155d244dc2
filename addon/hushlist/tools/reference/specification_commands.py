"""``hushlist parse``, ``hrn`` and ``conformance``: texts and programs by the words of the specifications."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hushlist.cli import common
from hushlist.core.errors import UrlError
from hushlist.core.url.hrn import parse_hrn
from hushlist.tools.reference.abnf import GrammarError, Parsed, find_rule, grammars
from hushlist.tools.reference.iri_text import direction_faults
from hushlist.tools.reference.url_comparison import PROFILES


def add_to(commands: common.Commands) -> None:
    text = "read a text by a rule of the grammars of URIs, IRIs, hashed URIs and hrn names: its parts, or its fault"
    parser = common.add_command(commands, "parse", parse_text, text)
    parser.add_argument("text", metavar="TEXT", help="what is read, as it stands")
    parser.add_argument(
        "--rule",
        metavar="NAME",
        help="the rule, also GRAMMAR:NAME (default: hashed-uri or hrn-URI by the scheme, else URI-reference or "
        "IRI-reference)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    common.add_list(parser, "--list-rules", _rule_names(), "print the rules of each grammar, and exit")
    parser = common.add_command(
        commands, "hrn", show_hrn, "show the parts of an hrn: name, its normal form, and what it implies"
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="a name, as policies and lists have them")
    parser.add_argument("--json", action="store_true", help="print JSON, one line for each name")
    text = "let another program canonicalize the URLs of the specifications, and print what it does otherwise"
    epilog = (
        "The program reads one URL a line and prints one canonical form a line; URLs with line ends are then left out. "
        "With {} in its arguments it is run for each URL, which takes the place of {}. Exit codes: 0 no difference, 1 "
        "some, 2 the program failed."
    )
    parser = common.add_command(commands, "conformance", compare_program, text, epilog)
    parser.add_argument(
        "--command",
        dest="program",
        metavar="CMD",
        required=True,
        type=common.checked(shlex.split, "is no command: a quote is open"),
        help="the program with its arguments; no shell runs it",
    )
    parser.add_argument(
        "--profile",
        choices=[name for name in PROFILES if name != "simple"],
        default="safebrowsing",
        help="how it canonicalizes (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one line for each difference")


# -- parse -------------------------------------------------------------------------------------------------------------


def parse_text(arguments: argparse.Namespace) -> int:
    """Print how a rule reads the text, one rule a line; or where it cannot, and what was expected there."""
    text = arguments.text
    rule = find_rule(arguments.rule or _rule_for(text))
    try:
        parsed = rule.parse(text)
    except GrammarError as error:
        if arguments.json:
            expected = [element._asdict() for element in error.expected]
            fault = {"position": error.position, "reason": error.reason, "expected": expected}
            common.print_json({"text": text, "rule": rule.name, "valid": False, **fault, "may-end": error.may_end})
        else:
            common.print_line(f"position {error.position}: {error.reason}")
        return common.FINDINGS
    faults = sorted(direction_faults(text, parsed))
    if arguments.json:
        fault_objects = [{"position": place, "reason": why} for place, why in faults]
        common.print_json(
            {"text": text, "rule": rule.name, "valid": True, "parse": _as_json(text, parsed), "faults": fault_objects}
        )
    else:
        common.print_lines(_table(text, parsed))
        common.print_lines(f"position {place}: {why}" for place, why in faults)
    return common.FINDINGS if any("MUST" in why for _, why in faults) else common.GOOD


def _rule_names() -> Iterator[str]:
    for grammar in grammars():
        yield f"{grammar.name}: {', '.join(sorted(grammar.nodes, key=str.lower))}"


def _rule_for(text: str) -> str:
    scheme = text.partition(":")[0].lower()
    return {"hashed": "hashed-uri", "hrn": "hrn-URI"}.get(
        scheme, "URI-reference" if text.isascii() else "IRI-reference"
    )


def _table(text: str, parsed: Parsed) -> Iterator[str]:
    rows = [("  " * depth + part.rule, f"{part.start}-{part.end}", part) for depth, part in parsed.walk()]
    width, places = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, place, part in rows:
        yield f"{name:<{width}}  {place:<{places}}  {text[part.start : part.end]}".rstrip()


def _as_json(text: str, parsed: Parsed) -> dict[str, object]:
    place = {"rule": parsed.rule, "start": parsed.start, "end": parsed.end, "text": text[parsed.start : parsed.end]}
    return {**place, "parts": [_as_json(text, part) for part in parsed.parts]}


# -- hrn ---------------------------------------------------------------------------------------------------------------


def show_hrn(arguments: argparse.Namespace) -> int:
    """Show each name: normal form, parts, and the names that it implies."""
    code = common.GOOD
    for name in arguments.names:
        try:
            hrn = parse_hrn(name)
        except UrlError as error:
            code = common.complain(error)
            continue
        normal, *implied = hrn.levels()
        shown = {"given": name, "normal": normal, "user": hrn.user, "host": hrn.host, "uuid": hrn.uuid}
        shown |= {"names": list(hrn.names), "implies": implied}
        if arguments.json:
            common.print_json(shown)
        else:
            for key, value in shown.items():
                for each in value if isinstance(value, list) else [] if value is None else [value]:
                    common.print_line(f"{key:<8} {each}")
    return code


# -- conformance -------------------------------------------------------------------------------------------------------

#: seconds that the other program has for all URLs, or for one
PATIENCE = 60


class Vector(NamedTuple):
    """A URL and its canonical form, both as octets."""

    profile: str
    #: the document and section that demand it, or the settled reading
    source: str
    url: bytes
    canonical: bytes


_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|([tnr\\]))")
_CONTROLS = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}


def vectors(profile: str, source: str = "") -> list[Vector]:
    """Those of ``vectors.tsv``: what the specifications print, and what this project has settled.

    ``source`` is how the demands' sources begin.
    """
    lines = Path(__file__).with_name("vectors.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    every = [Vector(of, demanded_by, _octets(url), _octets(canonical)) for of, demanded_by, url, canonical in rows]
    return [vector for vector in every if vector.profile == profile and vector.source.startswith(source)]


def _octets(text: str) -> bytes:
    return _ESCAPED.sub(
        lambda match: bytes.fromhex(match[1].decode()) if match[1] else _CONTROLS[match[2]], text.encode()
    )


def compare_program(arguments: argparse.Namespace) -> int:
    """Print each difference, with the source of the demand, and how many forms are as demanded."""
    words = arguments.program
    # what neither a line nor an argument can have
    unfit = re.compile(rb"\0" if "{}" in words else rb"[\r\n]")
    fit = [vector for vector in vectors(arguments.profile) if not unfit.search(vector.url)]
    try:
        answers = _answers(words, [vector.url for vector in fit])
    except (OSError, subprocess.SubprocessError) as error:
        return common.complain(f"{shlex.join(words)}: {error}")
    if len(answers) != len(fit):
        return common.complain(f"{shlex.join(words)}: it printed {len(answers)} lines for {len(fit)} URLs, one a line")
    different = [(vector, answer) for vector, answer in zip(fit, answers, strict=True) if answer != vector.canonical]
    for vector, answer in different:
        difference = {"url": vector.url, "expected": vector.canonical, "printed": answer}
        shown = {"source": vector.source, **{name: common.readable(value) for name, value in difference.items()}}
        if arguments.json:
            common.print_json(shown)
        else:
            common.print_line(vector.source)
            for name in difference:
                common.print_line(f"  {name:<8} {shown[name]}")
    if not arguments.json:
        common.print_line(f"{len(fit) - len(different)} of {len(fit)} as demanded")
    return common.FINDINGS if different else common.GOOD


def _answers(words: list[str], urls: list[bytes]) -> list[bytes]:
    """What the program prints for each URL."""
    if "{}" not in words:
        return _run(words, b"".join(url + b"\n" for url in urls)).splitlines()
    place = words.index("{}")
    printed = [_run([*words[:place], url, *words[place + 1 :]], b"") for url in urls]
    return [output.removesuffix(b"\n").removesuffix(b"\r") for output in printed]


def _run(words: Sequence[str | bytes], stdin: bytes) -> bytes:
    # what it says aside, the user sees; its exit code may mean that it refuses a URL
    done = subprocess.run(words, input=stdin, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)  # noqa: S603
    return done.stdout
