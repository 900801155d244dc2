"""``hushlist canonicalize``, ``expressions``, ``hash``, ``compare`` and ``extract``: URLs without a policy."""

from __future__ import annotations

import argparse
import quopri
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hushlist.cli import common
from hushlist.core.errors import Problem, UrlError
from hushlist.core.lists.patterns import parse_expression
from hushlist.core.match.expressions import expressions, full_hash
from hushlist.core.system.files import LONGEST_WHOLE, read_regular, read_whole, reason_of
from hushlist.core.url.comparison import LADDER
from hushlist.core.url.hashed_uri import ALGORITHMS, VARIANTS, HashKey, hash_uri
from hushlist.core.url.parts import as_typed, to_bytes
from hushlist.core.url.rfc3986 import resolve
from hushlist.core.url.safebrowsing import SAFEBROWSING
from hushlist.tools.reference.iri_text import (
    convert_to_ucs,
    undo_base64,
    undo_chunked,
    undo_html_escapes,
    undo_xml_escapes,
)
from hushlist.tools.reference.uri_extraction import extract
from hushlist.tools.reference.url_comparison import PROFILES, compare, redirected_profile


def add_to(commands: common.Commands) -> None:
    _add_canonicalize(commands)
    text = "print the expressions, the most specific first, one a line"
    common.add_urls_command(commands, "expressions", print_expressions, text)
    _add_hash(commands)
    _add_prefixes(commands)
    _add_compare(commands)
    _add_extract(commands)


def _add_canonicalize(commands: common.Commands) -> None:
    text = "print the canonical URL, one a line; an empty line where there is none"
    parser = common.add_urls_command(commands, "canonicalize", print_canonical, text)
    parser.add_argument(
        "--profile", choices=PROFILES, default="safebrowsing", help="how to canonicalize (default: %(default)s)"
    )
    _add_base(parser)
    _add_preparation(parser)
    profiles = (f"{name}: {', '.join(profile.step_names)}" for name, profile in PROFILES.items())
    common.add_list(parser, "--list-profiles", profiles, "print each profile with its steps in order, and exit")


def _add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options for text in which URLs are written otherwise (draft-ietf-iri-comparison-00, 3)."""
    group = parser.add_argument_group("how the text is written", "undone in this order before anything is read")
    transfer = group.add_mutually_exclusive_group()
    transfer.add_argument("--mime", action="store_true", help="quoted-printable, also with soft line breaks")
    transfer.add_argument("--base64", action="store_true", help="base64, as a MIME part is written")
    group.add_argument("--encoding", metavar="NAME", help="another character encoding than UTF-8")
    markup = group.add_mutually_exclusive_group()
    markup.add_argument(
        "--html", dest="unescape", action="store_const", const=undo_html_escapes, help="character references of HTML"
    )
    markup.add_argument(
        "--xml", dest="unescape", action="store_const", const=undo_xml_escapes, help="character references of XML"
    )


def _prepared(octets: bytes, arguments: argparse.Namespace) -> bytes:
    """Octets in UTF-8, of which all is undone that the options name."""
    if arguments.base64:
        octets = undo_base64(octets)
    if arguments.mime:
        octets = quopri.decodestring(octets)
    if arguments.encoding:
        octets = convert_to_ucs(octets, arguments.encoding).encode()
    if arguments.unescape:
        octets = to_bytes(arguments.unescape(octets.decode("utf-8", "surrogateescape")))
    return octets


def _add_base(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", metavar="URL", help="what relative references are resolved against")


def _resolved(url: bytes, base: str | None) -> bytes:
    return url if base is None else resolve(url, as_typed(base))


def _add_compare(commands: common.Commands) -> None:
    text = "print the lowest rung on which two URLs are equivalent: simple, syntax, scheme, protocol, or different"
    parser = common.add_command(commands, "compare", compare_urls, text)
    parser.add_argument("a", metavar="A", help="a URL or IRI")
    parser.add_argument("b", metavar="B", help="a URL or IRI")
    _add_base(parser)
    parser.add_argument(
        "--redirect",
        nargs=2,
        action="append",
        default=[],
        metavar=("FROM", "TO"),
        help="a permanent redirect that was seen, for the rung protocol; may be given again and again",
    )
    parser.add_argument(
        "--network-action", action="store_true", help="they choose what is fetched, so that fragments do not count"
    )
    parser.add_argument("--explain", action="store_true", help="show what each step changed")


def _add_extract(commands: common.Commands) -> None:
    text = "print the URIs that stand in text, one a line; the exit code is 1 where there are none"
    parser = common.add_command(commands, "extract", extract_uris, text)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text; '-', the default: standard input"
    )
    parser.add_argument(
        "--expressions", action="store_true", help="print the expression of each instead, once, as a list has it"
    )
    parser.add_argument(
        "--chunked", action="store_true", help="undo the chunks of an HTTP message before anything else"
    )
    _add_preparation(parser)


def _add_hash(commands: common.Commands) -> None:
    text = "print each expression, a tab, and its SHA-256; or hashed URIs"
    parser = common.add_urls_command(commands, "hash", print_hashes, text)
    uri = parser.add_argument_group("hashed URIs")
    _add_base(parser)
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


def _add_prefixes(commands: common.Commands) -> None:
    text = "print each expression, a tab, and the beginning of its SHA-256, as Safe Browsing compares it"
    parser = common.add_urls_command(commands, "prefixes", print_prefixes, text)
    parser.add_argument(
        "--length",
        type=common.checked(_length, "is no length from 4 to 32"),
        default=4,
        metavar="N",
        help="octets of a prefix, 4 to 32 (default: %(default)s)",
    )


def _length(text: str) -> int:
    length = int(text)
    if not 4 <= length <= 32:
        raise ValueError(text)
    return length


# -- canonicalize, expressions, hash ---------------------------------------------------------------------------------


def print_canonical(arguments: argparse.Namespace) -> int:
    """Print one canonical URL a line, in order; an empty line if there is none."""
    code = common.GOOD
    for url in common.urls_of(arguments):
        try:
            prepared = _resolved(_prepared(url, arguments), arguments.base)
            canonical = common.readable(PROFILES[arguments.profile].canonicalize(prepared))
        except UrlError as error:
            canonical, code = "", common.complain(error)
        common.print_line(canonical)
    return code


def print_expressions(arguments: argparse.Namespace) -> int:
    return common.each(common.urls_of(arguments), lambda url: common.print_lines(_expressions(url)))


def print_hashes(arguments: argparse.Namespace) -> int:
    """Print the expressions of each URL with their full hashes, or its hashed URI."""
    if arguments.uri:
        key = HashKey(arguments.algorithm, arguments.variant, arguments.keep_query, arguments.keep_fragment)
        return common.each(
            common.urls_of(arguments), lambda url: common.print_line(hash_uri(_resolved(url, arguments.base), key))
        )
    return common.each(common.urls_of(arguments), lambda url: _print_with_hashes(_resolved(url, arguments.base)))


def print_prefixes(arguments: argparse.Namespace) -> int:
    return common.each(common.urls_of(arguments), partial(_print_with_hashes, length=arguments.length))


def _expressions(url: bytes) -> list[str]:
    canonical = SAFEBROWSING.apply(SAFEBROWSING.parse(url))
    return [expression.decode("ascii") for expression in expressions(canonical)]


def _print_with_hashes(url: bytes, length: int | None = None) -> None:
    for expression in _expressions(url):
        common.print_line(expression, full_hash(expression.encode("ascii"))[:length].hex())


# -- compare -----------------------------------------------------------------------------------------------------------


def compare_urls(arguments: argparse.Namespace) -> int:
    """Print the rung on which two URLs are equivalent; the exit code is 1 if they are different."""
    redirects = [(as_typed(source), as_typed(location)) for source, location in arguments.redirect]
    ladder = (*LADDER, redirected_profile(redirects)) if redirects else LADDER
    base = None if arguments.base is None else as_typed(arguments.base)
    a, b = as_typed(arguments.a), as_typed(arguments.b)
    comparison = compare(a, b, base=base, network_action=arguments.network_action, ladder=ladder)
    common.print_line(comparison.rung or "different")
    if arguments.explain:
        for side in (comparison.a, comparison.b):
            common.print_line(common.readable(side.original))
            common.print_lines(f"  {change.step:<28} {common.readable(change.after)}" for change in side.changes)
    return common.GOOD if comparison.rung else common.FINDINGS


# -- extract -----------------------------------------------------------------------------------------------------------


def extract_uris(arguments: argparse.Namespace) -> int:
    """Print the URIs in files, or a list of their expressions; the exit code is 1 if there are none."""
    code, listed = common.FINDINGS, set[str]()
    for name in arguments.files:
        try:
            octets = _read(name)
            octets = _prepared(undo_chunked(octets) if arguments.chunked else octets, arguments)
        except UrlError as error:
            code = common.complain(f"{name}: {error.reason}")
            continue
        except (OSError, ValueError) as error:  # ValueError: the name is not valid for a file
            code = common.complain(f"{name}: {reason_of(error)}")
            continue
        for uri in _extracted(name, octets, as_expressions=arguments.expressions):
            code = common.BAD if code == common.BAD else common.GOOD
            if uri not in listed:
                common.print_line(uri)
            if arguments.expressions:
                listed.add(uri)
    return code


def _read(name: str) -> bytes:
    path = Path(name)
    return read_whole(sys.stdin.buffer, LONGEST_WHOLE, path) if name == "-" else read_regular(path, LONGEST_WHOLE)


def _extracted(name: str, octets: bytes, *, as_expressions: bool) -> Iterator[str]:
    """The lines for one file; if a hyphen at a line's end may or may not be part of a URI, both candidates."""
    for extracted in extract(octets.decode("utf-8", "surrogateescape")):
        for uri in extracted.candidates:
            try:
                yield str(parse_expression(uri)) if as_expressions else common.readable(to_bytes(uri))
            except UrlError as error:  # no list can name a URI such as "mailto:", but the text is fine
                common.complain(
                    Problem(name, extracted.line, common.readable(to_bytes(uri)), f"left out: {error.reason}")
                )
