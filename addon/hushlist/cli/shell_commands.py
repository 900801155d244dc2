"""``hushlist completion`` and ``man``: what a shell completes, and manual pages; both are made from the parsers.

Spec: bash, "Programmable Completion"; fish, "complete"; man(7), "macro reference"
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from hushlist import __version__
from hushlist.cli.common import GOOD, Commands, add_command, print_lines
from hushlist.core.system.files import source_errors


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "completion", print_completion, "print what makes a shell complete commands")
    parser.add_argument("shell", choices=_SHELLS, help="for bash and zsh, as in: source <(hushlist completion bash)")
    parser = add_command(commands, "man", write_pages, "write the manual pages, one for each command")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="such as ~/.local/share/man/man1")


class _Shown(NamedTuple):
    """A command, and what can stand behind it."""

    #: the words behind ``hushlist``
    path: tuple[str, ...]
    parser: argparse.ArgumentParser
    arguments: list[argparse.Action]
    commands: dict[str, argparse.ArgumentParser]


def _walk(parser: argparse.ArgumentParser, *path: str) -> Iterator[_Shown]:
    """A command, and then all that belong to it."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    commands = {name: command for group in groups for name, command in group.choices.items()}
    yield _Shown(path, parser, [action for action in parser._actions if action not in groups], commands)
    for name, command in commands.items():
        yield from _walk(command, *path, name)


def _all() -> list[_Shown]:
    from hushlist.cli import make_parser  # it imports this module, too

    return list(_walk(make_parser()))


def _about(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


# -- completion --------------------------------------------------------------------------------------------------------


def print_completion(arguments: argparse.Namespace) -> int:
    print_lines(_SHELLS[arguments.shell]())
    return GOOD


def _bash() -> Iterator[str]:
    """A function that finds the command among the words before, and what may follow it; if nothing, files may."""
    shown = _all()
    yield "_hushlist() {"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path="" words="" word i'
    yield "  for ((i = 1; i < COMP_CWORD; i++)); do"
    yield '    word="${COMP_WORDS[i]}"'
    every = "|".join(quote(" ".join(command.path)) for command in shown[1:])
    yield f'    case "${{path:+$path }}$word" in {every}) path="${{path:+$path }}$word" ;; esac'
    yield "  done"
    yield '  case "$path $prev" in'
    for command in shown:
        for action in command.arguments:
            if action.option_strings and action.nargs != 0:
                names = "|".join(quote(f"{' '.join(command.path)} {name}") for name in action.option_strings)
                yield f"    {names}) words={quote(' '.join(map(str, action.choices or ())))} ;;"
    yield '    *) case "$path" in'
    for command in shown:
        words = [
            word for action in command.arguments for word in action.option_strings or map(str, action.choices or ())
        ]
        yield f"      {quote(' '.join(command.path))}) words={quote(' '.join((*command.commands, *words)))} ;;"
    yield "    esac ;;"
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield "complete -o default -F _hushlist hushlist"


def _zsh() -> Iterator[str]:
    yield "autoload -U +X compinit bashcompinit && { (( $+functions[compdef] )) || compinit; } && bashcompinit"
    yield from _bash()


def _fish() -> Iterator[str]:
    for command in _all():
        tests = [f"__fish_seen_subcommand_from {name}" for name in command.path] or ["true"]
        none = [f"not __fish_seen_subcommand_from {' '.join(command.commands)}"] * bool(command.commands)
        here = quote("; and ".join(tests + none))
        for name, subcommand in command.commands.items():
            yield f"complete -c hushlist -f -n {here} -a {name} -d {quote(subcommand.description or '')}"
        for action in command.arguments:
            names = [f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in action.option_strings]
            value = f"-x -a {quote(' '.join(map(str, action.choices)))}" if action.choices else "-r"
            more = [] if action.nargs == 0 else [value]
            if names or action.choices:
                yield " ".join(("complete -c hushlist -n", here, *names, *more, "-d", quote(_about(action))))


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}

# -- manual pages ------------------------------------------------------------------------------------------------------


def write_pages(arguments: argparse.Namespace) -> int:
    """Write the pages, and print their names; ``SourceError`` if the folder cannot be written."""
    date = time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    written = []
    for command in _all():
        path = arguments.folder / f"{'-'.join(('hushlist', *command.path))}.1"
        with source_errors(path, "man"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(_page(command, date)) + "\n", encoding="utf-8")
        written.append(path)
    print_lines(written)  # behind the last page: who reads this may stop
    return GOOD


def _page(command: _Shown, date: str) -> Iterator[str]:
    name = "-".join(("hushlist", *command.path))
    about = command.parser.description or ""
    yield f'.TH {_roff(name.upper())} 1 {date} "Hushlist {__version__}" "Hushlist"'
    yield from (".ad l", ".SH NAME", f"{_roff(name)} \\- {_roff(about[:1].lower() + about[1:].removesuffix('.'))}")
    usage = " ".join(command.parser.format_usage().removeprefix("usage: ").split())
    yield from (".SH SYNOPSIS", _roff(usage))
    yield from (".SH DESCRIPTION", _roff(about))
    entries = [
        (f"\\fB{_roff(word)}\\fR", subcommand.description or "") for word, subcommand in command.commands.items()
    ]
    yield from _section("COMMANDS", entries)
    yield from _section("OPTIONS", [(_term(action), _about(action)) for action in command.arguments])
    if command.parser.epilog:
        yield from (".SH NOTES", _roff(command.parser.epilog))
    if command.path or command.commands:
        others = [f"hushlist-{'-'.join((*command.path, word))}" for word in command.commands] or ["hushlist"]
        yield from (".SH SEE ALSO", ", ".join(f"\\fB{_roff(other)}\\fR(1)" for other in others))


def _section(title: str, entries: list[tuple[str, str]]) -> Iterator[str]:
    if entries:
        yield f".SH {title}"
    for term, about in entries:
        yield from (".TP", term, _roff(about))


def _term(action: argparse.Action) -> str:
    named = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest)
    value = "" if action.nargs == 0 else f"\\fI{_roff(named if isinstance(named, str) else ' '.join(named))}\\fR"
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in action.option_strings)
    return f"{names} {value}".strip()


def _roff(text: str) -> str:
    r"""Text that roff prints as it stands; it does not begin a line with a request.

    >>> print(_roff(r"--at \n"), _roff(".SH"))
    \-\-at \en \&.SH
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
