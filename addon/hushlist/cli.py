"""``hushlist``: what the proxy would do, from the command line.

Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, or the log has no such record; 2 wrong
usage or bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from hushlist.cli_log import add_log
from hushlist.cli_override import add_override
from hushlist.engine import Engine, load_engine
from hushlist.errors import Problem, SourceError, UrlError
from hushlist.helper import PLACEHOLDERS, AccessList, Helper, Redirector, serve
from hushlist.lists.patterns import parse_expression
from hushlist.match.expressions import expressions
from hushlist.match.hashing import full_hash
from hushlist.match.rule import Action
from hushlist.policy import shipped_policy
from hushlist.policy.compile import compile_policy
from hushlist.policy.decision import STOPPING, Decision
from hushlist.policy.groups import Client
from hushlist.policy.report import CompileReport
from hushlist.policy.store import StoreError
from hushlist.url.compare import LADDER, compare
from hushlist.url.extract import extract
from hushlist.url.hashed import ALGORITHMS, VARIANTS, HashKey, hash_uri
from hushlist.url.parts import Parts, to_bytes
from hushlist.url.profiles import PROFILES
from hushlist.url.protocol import redirected_profile
from hushlist.url.request import canonical_forms, request_of
from hushlist.url.safebrowsing import SAFEBROWSING

GOOD, FOUND, BAD = 0, 1, 2


def run() -> None:
    """The console script."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BAD
    except KeyboardInterrupt:
        code = BAD
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(arguments.command(arguments))
    except SourceError as error:
        print(error, file=sys.stderr)
        return BAD
    except StoreError as error:
        print(f"hushlist: {error}", file=sys.stderr)
        return BAD


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hushlist",
        description="Canonicalize URLs, hash their expressions, and ask a policy what it does with them and why.",
        epilog="Exit codes: 0 good; 1 a URL is blocked, two are different, a text has none, or the log has no "
        "such record; 2 wrong usage or bad input.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_canonicalize(commands)
    _add_command(
        commands, print_expressions, "print the expressions, the most specific first, one a line", "expressions"
    )
    _add_hash(commands)
    _add_compare(commands)
    _add_extract(commands)
    _add_compile(commands)
    for command, text in (
        (check, "decide by a policy: what is done, with which URL, by which rule"),
        (explain, "show every step from a URL to its decision"),
    ):
        with_policy = _add_command(commands, command, text)
        _add_policy(with_policy)
        who = with_policy.add_argument_group("another moment, another person")
        who.add_argument(
            "--at",
            type=datetime.fromisoformat,
            metavar="TIME",
            help="such as 2026-12-24T22:30, in the policy's time zone (default: now)",
        )
        who.add_argument("--client", metavar="ADDRESS", help="the client's address")
        who.add_argument("--user", metavar="NAME", help="the user of the proxy")
        who.add_argument("--port", type=int, metavar="N", help="the port on which the proxy is asked")
        if command is check:
            with_policy.add_argument("--json", action="store_true", help="print one JSON object a line")
    _add_helper(commands)
    add_log(commands)
    add_override(commands)
    return parser


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="the policy file (default: the one that is shipped)"
    )


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    command: Callable[[argparse.Namespace], int],
    text: str,
    name: str = "",
) -> argparse.ArgumentParser:
    parser = _add_parser(commands, command, text, name)
    parser.add_argument("urls", nargs="+", metavar="URL", help="a URL; '-' reads one a line from standard input")
    return parser


def _add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    command: Callable[[argparse.Namespace], int],
    text: str,
    name: str = "",
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name or command.__name__, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(command=command)
    return parser


def _add_canonicalize(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "print the canonical URL, one a line; an empty line where there is none"
    parser = _add_command(commands, canonicalize, text)
    parser.add_argument(
        "--profile", choices=PROFILES, default="safebrowsing", help="how to canonicalize (default: %(default)s)"
    )
    parser.add_argument(
        "--list-profiles", action=_ListProfiles, nargs=0, help="print each profile with its steps in order, and exit"
    )


class _ListProfiles(argparse.Action):
    """Prints all profiles and exits, as ``--help`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Called by argparse."""
        for name, profile in PROFILES.items():
            print(f"{name}: {', '.join(profile.step_names)}")
        parser.exit(GOOD)


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "print the lowest rung on which two URLs are equivalent: simple, syntax, scheme, protocol, or different"
    parser = _add_parser(commands, compare_urls, text, "compare")
    parser.add_argument("a", metavar="A", help="a URL or IRI")
    parser.add_argument("b", metavar="B", help="a URL or IRI")
    parser.add_argument("--base", metavar="URL", help="what relative references are resolved against")
    parser.add_argument(
        "--redirect",
        nargs=2,
        action="append",
        default=[],
        metavar=("FROM", "TO"),
        help="a permanent redirect that was seen, for the rung protocol; may be given again and again",
    )
    parser.add_argument("--explain", action="store_true", help="show what each step changed")


def _add_extract(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "print the URIs that stand in text, one a line; the exit code is 1 where there are none"
    parser = _add_parser(commands, extract_uris, text, "extract")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text; '-', the default: standard input"
    )
    parser.add_argument(
        "--expressions", action="store_true", help="print the expression of each instead, once, as a list has it"
    )


def _add_hash(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add_command(
        commands, print_hashes, "print each expression, a tab, and its SHA-256; or hashed URIs", "hash"
    )
    uri = parser.add_argument_group("hashed URIs")
    uri.add_argument("--uri", action="store_true", help="print the hashed URI of each URL instead")
    uri.add_argument(
        "--algorithm", choices=ALGORITHMS, default="sha1", help="the hash algorithm (default: %(default)s)"
    )
    uri.add_argument(
        "--variant",
        choices=VARIANTS,
        default="n",
        help="how to canonicalize: n tends to false negatives, p to false positives (default: %(default)s)",
    )
    uri.add_argument("--keep-query", action="store_true", help="hash the query too, where there is one")
    uri.add_argument("--keep-fragment", action="store_true", help="hash the fragment too, where there is one")


def _add_compile(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "compile the lists of a policy into the cache, where the proxy finds them, and report what became of them"
    parser = _add_parser(commands, compile_lists, text, "compile")
    _add_policy(parser)
    parser.add_argument(
        "--popular",
        type=Path,
        metavar="FILE",
        help="popular domains, one a line or as rank,domain: rules that cover one get a warning",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the report as a JSON object, with the file of the index"
    )


def _add_helper(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "answer Squid: a line on standard output for each on standard input, until that ends"
    parser = _add_parser(commands, help_squid, text, "helper")
    _add_policy(parser)
    protocol = parser.add_mutually_exclusive_group(required=True)
    protocol.add_argument(
        "--acl",
        action="store_true",
        help="as external_acl_type with the format %%>ru: OK is what has to be blocked",
    )
    placeholders = "; ".join(f"{name} is {meaning}" for name, meaning in PLACEHOLDERS.items())
    protocol.add_argument(
        "--redirect",
        type=_redirector,
        metavar="URL",
        help="as url_rewrite_program: where to send whoever asks for what is blocked; in its path, query and "
        f"fragment, percent-encoded: {placeholders}".replace("%", "%%"),
    )


def _redirector(url: str) -> Redirector:
    try:
        return Redirector(url)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _urls(arguments: argparse.Namespace) -> Iterator[bytes]:
    """The URLs as octets, as they were given; a line's end belongs to no URL."""
    for url in arguments.urls:
        if url == "-":
            yield from _lines(sys.stdin.buffer)
        else:
            yield os.fsencode(url)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in stream)


def _each(urls: Iterable[bytes], show: Callable[[bytes], object]) -> int:
    """Show each URL; one that cannot be read is named on standard error, and the rest goes on."""
    code = GOOD
    for url in urls:
        try:
            show(url)
        except UrlError as error:
            print(f"hushlist: {error}", file=sys.stderr)
            code = BAD
    return code


# -- canonicalize, expressions, hash ---------------------------------------------------------------------------------


def canonicalize(arguments: argparse.Namespace) -> int:
    """One canonical URL a line, in order; an empty line keeps the order where there is none."""
    code = GOOD
    for url in _urls(arguments):
        try:
            canonical = _readable(PROFILES[arguments.profile].canonicalize(url))
        except UrlError as error:
            print(f"hushlist: {error}", file=sys.stderr)
            canonical, code = "", BAD
        print(canonical)
    return code


def print_expressions(arguments: argparse.Namespace) -> int:
    """The expressions of each URL."""
    return _each(_urls(arguments), lambda url: _print_lines(_expressions(url)))


def print_hashes(arguments: argparse.Namespace) -> int:
    """The expressions of each URL with their full hashes, or its hashed URI."""
    if arguments.uri:
        key = HashKey(arguments.algorithm, arguments.variant, arguments.keep_query, arguments.keep_fragment)
        return _each(_urls(arguments), lambda url: print(hash_uri(url, key)))
    return _each(_urls(arguments), lambda url: _print_lines(map(_with_hash, _expressions(url))))


def _expressions(url: bytes) -> Iterator[str]:
    return (expression.decode("ascii") for expression in expressions(_canonical_parts(url)))


def _canonical_parts(url: bytes) -> Parts:
    return SAFEBROWSING.apply(SAFEBROWSING.parse(url))


def _with_hash(expression: str) -> str:
    return f"{expression}\t{full_hash(expression.encode('ascii')).hex()}"


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


# -- compare -----------------------------------------------------------------------------------------------------------


def compare_urls(arguments: argparse.Namespace) -> int:
    """The rung on which two URLs are equivalent; the exit code is 1 where they are different."""
    try:
        ladder = (*LADDER, redirected_profile(arguments.redirect)) if arguments.redirect else LADDER
        comparison = compare(os.fsencode(arguments.a), os.fsencode(arguments.b), base=arguments.base, ladder=ladder)
    except UrlError as error:
        print(f"hushlist: {error}", file=sys.stderr)
        return BAD
    print(comparison.rung or "different")
    if arguments.explain:
        for side in (comparison.a, comparison.b):
            print(_readable(side.original))
            _print_lines(f"  {change.step:<28} {_readable(change.after)}" for change in side.changes)
    return GOOD if comparison.rung else FOUND


# -- extract -----------------------------------------------------------------------------------------------------------


def extract_uris(arguments: argparse.Namespace) -> int:
    """The URIs in files, or a list of their expressions; the exit code is 1 where there are none."""
    code, listed = FOUND, set[str]()
    for name in arguments.files:
        try:
            octets = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            print(f"hushlist: {name}: {error.strerror}", file=sys.stderr)
            code = BAD
            continue
        for uri in _extracted(name, octets, as_expressions=arguments.expressions):
            code = BAD if code == BAD else GOOD
            if uri not in listed:
                print(uri)
            if arguments.expressions:
                listed.add(uri)
    return code


def _extracted(name: str, octets: bytes, *, as_expressions: bool) -> Iterator[str]:
    """What is printed of one file; where a hyphen at a line's end may be part of a URI or not, both candidates."""
    for found in extract(octets.decode("utf-8", "surrogateescape")):
        for uri in found.candidates:
            try:
                yield str(parse_expression(uri)) if as_expressions else _readable(to_bytes(uri))
            except UrlError as error:  # "mailto:", say: no list can name it, and nothing is wrong with the text
                problem = Problem(name, found.line, _readable(to_bytes(uri)), f"left out: {error.reason}")
                print(f"hushlist: {problem}", file=sys.stderr)


# -- compile -----------------------------------------------------------------------------------------------------------


def compile_lists(arguments: argparse.Namespace) -> int:
    """The report; warnings go to standard error, and so does progress where that is a terminal."""
    progress = _Progress() if sys.stderr.isatty() else None
    try:
        compiled = compile_policy(arguments.policy or shipped_policy(), popular=arguments.popular, progress=progress)
    finally:
        if progress is not None:
            progress.end()
    _print_warnings(compiled.report)
    if arguments.json:
        index = compiled.index
        about = {"index": index.source, "octets": index.octets, "hot_octets": index.hot_octets, "rules": len(index)}
        print(json.dumps({**about, **compiled.report.as_dict()}))
    else:
        _print_lines(compiled.report.table())
    return GOOD


class _Progress:
    """One line on a terminal, written again and again."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how much is done."""
        part = done / total if total else 1
        print(f"\r{what:<9} [{'#' * int(30 * part):<30}] {part:4.0%}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the line."""
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr, flush=True)


# -- check -------------------------------------------------------------------------------------------------------------


def check(arguments: argparse.Namespace) -> int:
    """Decide each URL; empty lines are none."""
    engine = _engine(arguments)
    asked = _who_and_when(arguments, engine)
    show = _print_json if arguments.json else _print_text
    code = GOOD
    for url in filter(None, _urls(arguments)):
        decision = engine.decide_url(url, *asked)
        show(_readable(url), decision)
        if decision.fault is not None:
            print(f"hushlist: {UrlError(url, decision.fault)}", file=sys.stderr)
            code = BAD
        elif decision.action in STOPPING:
            code = max(code, FOUND)
    return code


def _who_and_when(arguments: argparse.Namespace, engine: Engine) -> tuple[datetime, Client]:
    """The moment and the client that are asked for; a moment without an offset is in the policy's time zone."""
    moment = arguments.at or datetime.now(UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=engine.policy.zone)
    return moment, Client(arguments.client or "", arguments.user, arguments.port)


def _engine(arguments: argparse.Namespace) -> Engine:
    engine = load_engine(arguments.policy or shipped_policy())
    _print_warnings(CompileReport.of(engine.index))
    return engine


def _print_warnings(report: CompileReport) -> None:
    for problem in report.warnings:
        print(f"warning: {problem}", file=sys.stderr)


def _readable(url: bytes) -> str:
    return url.decode("utf-8", "backslashreplace")


def _print_json(url: str, decision: Decision) -> None:
    print(json.dumps({"url": url, **decision.as_dict()}))


def _print_text(url: str, decision: Decision) -> None:
    print(f"{decision.action.value:<5}  {url}  {decision}".rstrip())


# -- explain -----------------------------------------------------------------------------------------------------------


def explain(arguments: argparse.Namespace) -> int:
    """Every step, for a person to read."""
    engine = _engine(arguments)
    moment, client = _who_and_when(arguments, engine)
    return _each(_urls(arguments), lambda url: _print_lines(_explanation(engine, url, moment, client)))


def _explanation(engine: Engine, url: bytes, moment: datetime, client: Client) -> Iterator[str]:
    request = request_of(url)
    yield f"URL          {_readable(url)}"
    yield from _steps(url)
    decision = engine.decide(request, moment, client)
    if decision.fault is None:
        for form in canonical_forms(request, request.hosts[0]):
            yield f"\nCanonical    {form.join().decode('ascii')}"
            yield "Expressions and their SHA-256, the most specific first"
            yield from (f"  {full_hash(found).hex()}  {found.decode('ascii')}" for found in expressions(form))
    yield "\nMatches" if decision.matches else "\nMatches      none"
    for found in decision.matches:
        pattern, terms, _ = found.rule
        won = "  <- decides" if found == decision.winner else ""
        category = f" [{terms.category}]" if terms.category else ""
        yield f"  layer {terms.layer}: {terms.action.value} {found}{category}{won}"
        yield f"    rule as written: {pattern}"
    yield from _layers_asked(engine, decision, moment, client)
    yield f"Decision     {decision.action.value}" + (f" ({decision.fault})" if decision.fault else "")


def _layers_asked(engine: Engine, decision: Decision, moment: datetime, client: Client) -> Iterator[str]:
    """For whom and when, and the layers in their order, to the one that decided."""
    view = engine.view(client, moment)
    until = "" if view.until is None else f", until {view.until.astimezone(engine.policy.zone):%Y-%m-%d %H:%M %Z}"
    yield f"Group        {view.group.name}{until}"
    checks = {layer.name: len(layer.checks) for layer in engine.policy.layers}
    decided = decision.winner is not None and decision.action is not Action.TAG
    for name in view.layers:
        rules = checks.get(name, 0) + engine.index.directory.rules.get(name, 0)
        fit = sum(found.rule.terms.layer == name for found in decision.matches)
        stops = decided and decision.winner is not None and decision.winner.rule.terms.layer == name
        if name in checks:
            yield f"Layer        {name}: {rules} rules, {fit} fit{'  <- decides' if stops else ''}"
        elif stops:
            yield f"Layer        {name}: what no layer decides  <- decides"
        if stops:
            return


def _steps(url: bytes) -> Iterator[str]:
    """The profile's steps that changed something."""
    before = url
    for name, after in SAFEBROWSING.trace(url):
        if after != before:
            yield f"  {name:<22} {_readable(after)}"
        before = after


# -- helper ------------------------------------------------------------------------------------------------------------


def help_squid(arguments: argparse.Namespace) -> int:
    """Answer Squid's lines until there are no more."""
    engine = _engine(arguments)
    if arguments.redirect is not None:
        _warn_of_a_loop(engine.decide_url(arguments.redirect.base))
    helper = Helper(engine, arguments.redirect or AccessList(), _complain)
    serve(helper.answer, sys.stdin.fileno(), sys.stdout.fileno())
    return GOOD


def _warn_of_a_loop(decision: Decision) -> None:
    """Whoever is redirected asks Squid for the page, too."""
    if decision.action is Action.BLOCK:
        _complain(f"warning: the page to redirect to is blocked itself: {decision}")


def _complain(what: str) -> None:
    with suppress(OSError):  # nobody may read it
        print(f"hushlist: {what}", file=sys.stderr, flush=True)
