"""``hushlist init``: the questions of the first start at a terminal; it writes the same policy."""

from __future__ import annotations

import argparse
import getpass
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hushlist.cli.common import GOOD, Commands, add_command, complain, print_line, print_lines
from hushlist.core.policy import household_policy
from hushlist.extensions.first_start.network_devices import own_address, own_zone, seen_devices
from hushlist.extensions.first_start.policy_writer import OVERRIDES, make_folder, write_policy
from hushlist.extensions.first_start.questionnaire import (
    ANYBODY,
    EVERYBODY,
    NOBODY,
    PLACES,
    SCREENS,
    SUBJECTS,
    Kind,
    Question,
    Row,
    default_of,
    faults_of,
    first_start_texts,
    household_of,
    rows_of,
)
from hushlist.proxy.languages import DEFAULT_LANGUAGE, Texts


def add_to(commands: Commands) -> None:
    text = "write a policy to start with, of public lists that fit a family, a school or a company"
    parser = add_command(commands, "init", init, text)
    help_ = f"where the filter runs: {', '.join(PLACES)} (asked for at a terminal)"
    parser.add_argument("place", nargs="?", choices=PLACES, metavar="PLACE", help=help_)
    parser.add_argument(
        "--block",
        nargs="+",
        action="extend",
        choices=SUBJECTS,
        metavar="SUBJECT",
        help=f"what is blocked for everybody, of {', '.join(SUBJECTS)} (default: what fits; asked for at a terminal)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="a new file (default: hushlist/policy.yaml in your folder for settings, which the proxy takes by itself)",
    )


def init(arguments: argparse.Namespace) -> int:
    """Write the policy, and a list of one's own rules beside it; neither in the place of another file."""
    try:
        policy: Path = arguments.output or household_policy()
    except RuntimeError as error:
        return complain(f"name a file with -o: {error}")
    if policy.name == OVERRIDES:
        return complain(f"{policy} is the list of your own rules: give the policy another name")
    is_asked, zone = is_terminal(), own_zone()
    if arguments.place is None and not is_asked:
        return complain(f"say where the filter runs: {', '.join(PLACES)}")
    answers = {} if arguments.place is None else {"place": arguments.place}
    if arguments.block is not None:
        names = {subject: EVERYBODY if subject in arguments.block else NOBODY for subject in SUBJECTS}
        answers |= {f"block.{subject}": whom for subject, whom in names.items()}
    try:
        if is_asked:
            Terminal(answers, zone).ask()
    except EOFError:
        return complain("there was no answer: nothing is written")
    if arguments.output is None:
        make_folder(policy)
    write_policy(household_of(answers, zone), policy)
    print_line(f"{policy}: a policy, which you can change; {policy.with_name(OVERRIDES)}: your own rules")
    print_lines(_next_steps(arguments.output))
    return GOOD


def _next_steps(output: Path | None) -> Iterator[str]:
    """From the policy to a device that is filtered."""
    script = Path(__file__).parents[3] / "filter.py"
    if not script.is_file():  # a package is installed without it
        script = Path("filter.py")
        yield f"next: write {script}, of one line: from hushlist.proxy.addon import Hushlist; addons = [Hushlist()]"
    policy = () if output is None else ("--set", f"hushlist_policy={output}")
    yield f"next: {shlex.join(('mitmdump', '-s', str(script), *policy))} (one that runs without a policy takes it now)"
    yield f"then, on each device: open http://{own_address()}:8080/setup, which says how to set it up"


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Terminal:
    """Asks the questions one by one; ``answers`` has those that are known, and gets the others."""

    def __init__(self, answers: dict[str, str], zone: str) -> None:
        self.answers, self._zone, self._answered = answers, zone, frozenset(answers)
        self._texts: Texts = first_start_texts()[DEFAULT_LANGUAGE]

    def ask(self) -> None:
        """Ask all; ``EOFError`` if nobody answers."""
        for screen in SCREENS:
            leads = [self._texts[lead] for lead in [f"{screen}_lead"] if lead in self._texts]
            print_lines(["", self._texts[screen], *leads])
            seen = seen_devices() if screen == "people" else []
            at = 0
            while at < len(rows := rows_of(screen, self.answers, seen, self._zone)):
                self._ask_row(screen, rows[at])
                at += 1
                if screen == "people" and not self.answers.get(f"address.{at - 1}"):
                    break  # the row for one more device stayed empty

    def _ask_row(self, screen: str, row: Row) -> None:
        """Ask until the answers can be used."""
        questions = [question for question in row.questions if question.name not in self._answered]
        while questions:
            for question in questions:
                self.answers[question.name] = self._answer(row, question)
            faults = [fault for fault in faults_of(screen, self.answers, [row]) if fault.field in _names(row.questions)]
            print_lines(self._texts[fault.text] for fault in faults)
            questions = list(row.questions) if faults else []

    def _answer(self, row: Row, question: Question) -> str:
        kind, _, number = question.name.partition(".")
        address = self.answers.get(f"address.{number}", "")
        if (kind in ("whose", "name") and not address) or (kind == "name" and self._whose(number) == ANYBODY):
            return default_of(question, {})
        if kind == "address" and question.default:  # a device that was seen
            print_lines(["", f"{question.default}  {row.questions[-1].default}".rstrip()])
            return question.default
        title = ": ".join(filter(None, [row.title, self._texts[row.title_key] if row.title_key else ""]))
        label = f"{title + ': ' if title else ''}{self._texts[question.text]}"
        if question.kind is Kind.SECRET:
            return getpass.getpass(f"{label}: ")
        if question.kind is Kind.FLAG:
            return self._chosen(label, ("on", "off"), ("yes", "no"), question.default)
        if question.kind is Kind.CHOICE:
            texts = tuple(self._texts[f"{question.text}_{option}"] for option in question.options)
            return self._chosen(label, question.options, texts, question.default)
        default = default_of(question, self.answers)  # what was answered, where that could not be used
        answer = input(f"{label}{f' [{default}]' if default else ''}: ").strip()
        return "" if answer == "-" else answer or default

    def _whose(self, number: str) -> str:
        return self.answers.get(f"whose.{number}", ANYBODY)

    def _chosen(self, label: str, options: Sequence[str], texts: Iterable[str], default: str) -> str:
        """One of the options, by its number, its word or the beginning of that; nothing is the default."""
        words = list(texts)
        shown = "; ".join(f"{number} {text}" for number, text in enumerate(words, 1))
        while True:
            answer = input(f"{label} ({shown}) [{options.index(default) + 1}]: ").strip().lower()
            if not answer:
                return default
            if answer.isascii() and answer.isdecimal() and 0 < int(answer[:3]) <= len(options):
                return options[int(answer[:3]) - 1]
            pairs = zip(options, words, strict=True)
            fitting = [option for option, text in pairs if option.startswith(answer) or text.lower().startswith(answer)]
            if len(fitting) == 1:
                return fitting[0]


def _names(questions: Iterable[Question]) -> set[str]:
    return {question.name for question in questions}
