"""Lists of what people search for, and of words in addresses: a line each, words with ``+`` or spaces between them.

>>> report = ProblemReport("f")
>>> lines = b"# flagged\\nmyself + Kill\\n'suicide'\\n"
>>> for rule in read_searches(lines, ListDefaults(), report): print(rule.line, rule.pattern)
2 search.invalid/?kill+myself
3 search.invalid/?suicide
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, entries
from hushlist.core.match.rule import Expression, Rule
from hushlist.extensions.searches.words import MOST_OF_RULE, combination, words_of

#: the hosts under which searches, and words in addresses, have their names: nobody can have them
# Spec: RFC 6761, 6.4
SEARCH_HOST, WORD_HOST = b"search.invalid", b"words.invalid"


def read_searches(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Rules for searches that have all words of a line, as in e2guardian's search lists."""
    return _read(SEARCH_HOST, octets, defaults, report)


def read_words(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """Rules for addresses that have all words of a line."""
    return _read(WORD_HOST, octets, defaults, report)


def _read(host: bytes, octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    terms = defaults.terms(report.source)
    for line, entry in entries(octets, report, is_foreign=True):
        words = words_of(entry.replace("+", " "))
        if entry.startswith("."):
            report.leave_out(line, entry, "a file that is included: name it as a list of its own")
        elif not words:
            report.leave_out(line, entry, "there is no word in it")
        elif len(words) > MOST_OF_RULE:
            report.leave_out(line, entry, f"it has more than {MOST_OF_RULE} words")
        else:
            yield Rule(Expression(host + b"/?" + combination(words)), terms, line)
