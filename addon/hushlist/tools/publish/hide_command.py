"""``hushlist hide``: makes a list of hashes out of any list."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from hushlist.cli import command_options, common
from hushlist.core.errors import Problem, SourceError, number_of
from hushlist.core.lists.category_names import category_named
from hushlist.core.lists.list_formats import list_format_of
from hushlist.core.match.rule import Action
from hushlist.core.match.seal import SealKey
from hushlist.core.system.files import replace_file, source_errors
from hushlist.tools.audit.guesses import Targets
from hushlist.tools.audit.leak_job import search_dictionary, verdict
from hushlist.tools.publish.false_positives import Prefixes
from hushlist.tools.publish.hidden_list import HashKind, HiddenList, hide
from hushlist.tools.publish.key_table import write_key_table
from hushlist.tools.publish.list_writer import PLAIN_FORMATS, common_head, text_of


def add_to(commands: common.Commands) -> None:
    text = "make a list of hashes out of lists, to publish it without what it blocks"
    epilog = (
        "Exit codes: 0 the list is written; 1 it is not, since a rule covers a public suffix or a popular domain, "
        "or too many entries would be lost; "
        "2 wrong usage or bad input."
    )
    parser = common.add_command(commands, "hide", hide_lists, text, epilog)
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST", help="a list: a file, or a squidGuard folder")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write the list: YAML if the name ends in .yaml, else a hash a line (default: YAML on standard "
        "output)",
    )
    parser.add_argument(
        "--kind",
        type=HashKind,
        choices=list(HashKind),
        default=HashKind.SHA256,
        help="what becomes of a rule: its SHA-256, a prefix of that, or the hashed URIs of a page, which fit no "
        "host below the rule's (default: sha256)",
    )
    length = (
        "how long the prefixes are (default: as short as less than one false positive in a million requests allows), "
        "and the hashes of a list of the format safebrowsing-raw"
    )
    command_options.add_list_options(parser, length)
    parser.add_argument("--title", metavar="TEXT", help="what people call the list")
    parser.add_argument(
        "--category",
        type=common.checked(category_named),
        metavar="NAME",
        help="what all rules are about, in place of what the lists say",
    )
    command_options.add_popular(parser, ": rules that cover one are refused")
    parser.add_argument(
        "--broad", action="store_true", help="hide rules for public suffixes and popular domains, too, with a warning"
    )
    parser.add_argument(
        "--dictionary",
        type=Path,
        metavar="FILE",
        help="say how much 'hushlist leak' recovers with this dictionary (default: the file of popular domains)",
    )
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="write what each hash stands for into a file that is private"
    )
    command_options.add_losses(parser)
    command_options.add_seal(
        parser, "seal the hashes with this key, as 'hushlist sealkey' wrote it: nobody else can try names on them"
    )


def hide_lists(arguments: argparse.Namespace) -> int:
    """Write the list, and say what became of the rules; on standard error, where the list goes to standard output."""
    output: Path | None = arguments.output
    if arguments.seal is not None and arguments.kind is HashKind.HASHED_URI:
        return common.complain("--seal makes hashes of expressions: leave out --kind hashed-uri")
    if twice := _written_over(arguments):
        return common.complain(f"{twice} would be written over: give each file a name of its own")
    form = _format_of(output, arguments.kind)
    files = command_options.files_of(arguments.lists, arguments)
    popular = command_options.popular_domains(arguments.popular)
    key, length = command_options.seal_key(arguments), arguments.prefix_length
    with common.shown_progress() as progress:
        hidden = hide(files, arguments.kind, key=key, prefix_length=length, popular=popular, progress=progress)
    common.print_warnings(hidden.warnings)
    if hidden.broad and not arguments.broad:
        common.complain_of(hidden.broad)
        common.complain("nothing is written: take these rules out, or hide them with --broad")
        return common.FINDINGS
    common.print_warnings(hidden.broad)
    head = common_head(files)
    head = head._replace(title=arguments.title or head.title, category=arguments.category)
    text, problems = text_of(hidden, form, head)
    common.print_warnings(problems)
    if why := command_options.too_many_lost(arguments, hidden.left_out, len(hidden.rules)):
        common.complain(f"nothing is written: {why}")
        return common.FINDINGS
    if arguments.key_file is not None:
        write_key_table(arguments.key_file, hidden.rules)
    if output is None:
        common.print_lines(text.splitlines())
    else:
        with source_errors(output, "output"):
            replace_file(output, text.encode())
        common.print_lines(_summary(hidden, output, form))
    dictionary = arguments.dictionary or arguments.popular
    if dictionary is not None:
        for tried_key in (None,) if key is None else (None, key):
            (common.remark if output is None else common.print_line)(_leak(hidden, dictionary, tried_key))
    return common.GOOD


def _written_over(arguments: argparse.Namespace) -> Path | None:
    """A file to write that is also read, or written as another one."""
    read = *arguments.lists, arguments.seal, arguments.dictionary
    taken = {path.resolve() for path in read if path is not None}
    for path in (arguments.output, arguments.key_file):
        if path is not None and path.resolve() in taken:
            return Path(path)
        taken |= set() if path is None else {path.resolve()}
    return None


def _format_of(output: Path | None, kind: HashKind) -> str:
    """The format in which the list is written; ``SourceError`` if the file's name tells another one."""
    plain = PLAIN_FORMATS[kind]
    if output is None:
        return "yaml"
    form = list_format_of(output) or plain
    if form not in ("yaml", plain):
        why = f"its name tells the format {form}, and hashes of this kind are written as yaml or {plain}"
        raise SourceError([Problem(str(output), 0, "output", why)])
    return form


def _summary(hidden: HiddenList, output: Path, form: str) -> Iterator[str]:
    left_out = f", {hidden.left_out:,} left out" if hidden.left_out else ""
    yield f"{output}: {number_of(len(hidden.rules), 'hash', 'hashes')}{left_out}"
    if hidden.prefix_length is not None:
        number = sum(rule.terms.action is not Action.ALLOW for rule in hidden.rules)
        yield f"{output}: {Prefixes('', hidden.prefix_length, number, 0)}"
    if list_format_of(output) is None:
        yield f"in a policy: {{file: {output}, format: {form}}}"


def _leak(hidden: HiddenList, dictionary: Path, key: SealKey | None) -> str:
    """What a dictionary recovers, without the key of a sealed list or with it."""
    targets = Targets()
    targets.add(hidden.as_rules)
    with common.shown_progress() as progress:
        result = search_dictionary("", targets, [dictionary], key=key, progress=progress)
    recovered = f"{len(result.recovered):,} of {number_of(result.hashes, 'hash', 'hashes')}"
    return f"hushlist leak recovers {recovered} with {'its key and ' * bool(key)}{dictionary}: {verdict(result)}"
