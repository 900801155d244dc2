"""What readers of other programs' formats share: rules of names, URLs, addresses and patterns, and lines read at once.

A reader of a line format is ``read_lines`` with what most of its lines look like, and a function for the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from hushlist.core.lists.list_source import WHOLE_COMMENT, ListDefaults, ProblemReport, block_entries, block_lines
from hushlist.core.lists.patterns import (
    PlainLines,
    is_sinkhole,
    may_except,
    read_expression,
    read_name,
    read_prefix,
    run_of,
    split_plain,
)
from hushlist.core.lists.plain_lists import SHORTENED, parse_networks
from hushlist.core.match.rule import Action, Expression, Rule, RuleBlock, Terms
from hushlist.extensions.adblock.filter_reader import parse_filter

#: reasons
NO_EXCEPTION = "an exception, in a list that does not block"
NO_BLOCK = "it blocks nothing"
EVERY_HOST = "no rule fits every host"
ANSWERED = "data that is answered instead"


#: parts of an expression in which anything may stand, and what no name has
_IN_REGEX = re.compile(r"\[[^\[\]]*+\]|\{[0-9,]*+\}|\(\?(?:[:!=]|<[!=])")
_NOT_IN_NAMES = re.compile(r"[\s=\"'<>#%&@!/:,;~]")


class RuleMaker:
    """Makes the rules of a list's entries; why an entry makes none is in the report."""

    def __init__(self, defaults: ListDefaults, report: ProblemReport) -> None:
        self.defaults, self.report = defaults, report
        self.terms, self._allowing = defaults.terms(report.source), defaults.terms(report.source, Action.ALLOW)
        self._may_except = may_except(defaults)

    def name(self, text: str, line: int, terms: Terms | None = None) -> Iterator[Rule]:
        """A rule for a host and those below it; a dot at either end changes nothing."""
        if text in ("", ".", "*", "#"):
            self.report.leave_out(line, text, EVERY_HOST)
        elif expression := read_name(text.rstrip("."), line, self.report):
            yield Rule(expression, terms or self.terms, line)

    def url(self, text: str, line: int, terms: Terms | None = None) -> Iterator[Rule]:
        """A rule for a URL."""
        if expression := read_expression(text, line, self.report, self.defaults.fragments):
            yield Rule(expression, terms or self.terms, line)

    def prefix(self, text: str, line: int) -> Iterator[Rule]:
        """Rules for a page, and for the folder of that name."""
        return (
            Rule(expression, self.terms, line)
            for expression in read_prefix(text, line, self.report, self.defaults.fragments)
        )

    def address(self, text: str, line: int, terms: Terms | None = None) -> Iterator[Rule]:
        """Rules for an address or a range."""
        try:
            networks = list(parse_networks(text))
        except ValueError as error:
            self.report.leave_out(line, text, str(error))
            return
        yield from (Rule(network, terms or self.terms, line) for network in networks)

    def host(self, text: str, line: int, terms: Terms | None = None) -> Iterator[Rule]:
        """Rules for what is an address, a range, or else a name."""
        is_address = re.fullmatch(r"[0-9./]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:./]*", text)
        return (self.address if is_address else self.name)(text, line, terms)

    def pattern(self, text: str, line: int, *, of_names: bool = True) -> Iterator[Rule]:
        """A rule for what fits a pattern as Adblock lists have it: of names of hosts, or of URLs."""
        try:
            yield Rule(parse_filter(text, of_names=of_names), self.terms, line)
        except ValueError as error:
            self.report.tally(line, text, str(error))

    def regex(self, regex: str, line: int, *, of_names: bool = True) -> Iterator[Rule]:
        """A rule for what fits a regular expression: names of hosts, or URLs."""
        if of_names and _NOT_IN_NAMES.search(_IN_REGEX.sub("", regex)):
            return self.left_out(regex, line, "an expression that no name of a host can fit")
        return self.pattern(f"/{regex}/", line, of_names=of_names)

    def glob(self, text: str, line: int) -> Iterator[Rule]:
        """A rule for the names that fit a pattern with ``*``, ``?`` and ``[...]``, as those of shells."""
        if not re.search(r"\w", text):
            return self.left_out(text, line, EVERY_HOST)
        if "?" not in text and "[" not in text:
            return self.pattern(f"|{text}|", line)
        parts = re.findall(r"\[[^\[\]]*+\]|.", text)
        signs = {"*": ".*", "?": "."}
        regex = "".join(signs.get(part) or (part if len(part) > 1 else re.escape(part)) for part in parts)
        return self.regex(f"^{regex}$", line)

    def exception(self, rules: Iterable[Rule], text: str, line: int) -> Iterator[Rule]:
        """Rules that allow in the place of those that block."""
        if self._may_except:
            return (Rule(rule.pattern, self._allowing, line) for rule in rules)
        self.report.tally(line, text, NO_EXCEPTION)
        return iter(())

    def lift(self, name: str, line: int) -> Iterator[Rule]:
        """An exception from all that the list blocks, for a host and those below it."""
        return self.exception(self.pattern(f"@@||{name}^", line), name, line)

    def nearest(self, name: str, line: int) -> Iterator[Rule]:
        """An exception from what less specific names of the list block."""
        for rule in self.exception(self.name(name, line), name, line):
            if isinstance(rule.pattern, Expression):
                host = rule.pattern.value[: rule.pattern.value.find(b"/")].decode()
                yield rule._replace(pattern=parse_filter(f"@@||{host}^", of_names=True, is_nearest=True))

    def kind(self, text: str, line: int, kind: str) -> Iterator[Rule]:
        """No rule, for an entry of a kind that none can say."""
        self.report.tally(line, text, kind)
        return iter(())

    def left_out(self, text: str, line: int, why: str) -> Iterator[Rule]:
        """No rule, for an entry that is none of the format's."""
        self.report.leave_out(line, text, why)
        return iter(())


def leads_nowhere(address: str) -> bool:
    """Whether an address is unspecified or of the machine itself."""
    return bool(is_sinkhole(SHORTENED.get(address, address)))


# -- lines -------------------------------------------------------------------------------------------------------------

#: a name that is canonical already, before a final dot that is not
_NAME = rb"(?:[a-z0-9_-]++\.)*[a-z][a-z0-9_-]*+"
#: the rules of one entry
ReadEntry = Callable[[RuleMaker, str, int], Iterable[Rule]]


def plain_lines(before: bytes = b"", behind: bytes = b"") -> tuple[re.Pattern[bytes], PlainLines]:
    """Lines that are a name between two other things, given by patterns without groups, for ``split_plain``."""
    name_in = re.compile(rb"^%b(%b)%b$" % (before, _NAME, behind), re.MULTILINE)

    def names(lines: bytes, first: int) -> tuple[Sequence[bytes], Sequence[int]]:
        hosts = [name + b"/" for name in name_in.findall(lines)]
        return hosts, range(first, first + len(hosts))

    return run_of(before + _NAME + behind), names


def read_lines(
    plain: tuple[re.Pattern[bytes], PlainLines], read: ReadEntry, *, has_trailing_comments: bool = True
) -> Callable[[bytes, ListDefaults, ProblemReport], Iterator[Rule | RuleBlock]]:
    """A reader of lines: of those that are plain many at once, of the others one by one.

    "#" begins a comment at the start of a line; also behind white space, if ``has_trailing_comments``.
    """

    def read_list(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule | RuleBlock]:
        maker = RuleMaker(defaults, report)

        def read_others(lines: bytes, first: int) -> Iterator[Rule]:
            if has_trailing_comments:
                pairs = block_entries(lines, first, report)
            else:
                texts = block_lines(lines, first, report, is_foreign=True, comments=WHOLE_COMMENT)
                pairs = ((line, entry) for line, text in texts if (entry := text.strip()) and entry[0] != "#")
            for line, entry in pairs:
                yield from read(maker, entry, line)

        return split_plain(octets, maker.terms, report, plain, read_others)

    return read_list
