"""Reader of the list of public suffixes: names whose owners let anybody have a site below them, such as ``github.io``.

    // ===BEGIN PRIVATE DOMAINS===
    github.io
    *.compute.example

Spec: https://publicsuffix.org/list/, Format
"""

from __future__ import annotations

from collections.abc import Iterator

from hushlist.core.lists.list_source import ListDefaults, ProblemReport, numbered_lines
from hushlist.core.match.public_suffixes import SuffixSection, section_after
from hushlist.core.match.rule import Rule
from hushlist.extensions.formats.rule_maker import RuleMaker


def read_private_suffixes(octets: bytes, defaults: ListDefaults, report: ProblemReport) -> Iterator[Rule]:
    """A rule for each name of the private section, and for that above each wildcard.

    >>> text = b"// ===BEGIN ICANN DOMAINS===\\nuk\\n// ===BEGIN PRIVATE DOMAINS===\\ngithub.io\\n*.b.example x\\n"
    >>> [str(rule.pattern) for rule in read_private_suffixes(text, ListDefaults(), ProblemReport("f"))]
    ['github.io/', 'b.example/']
    """
    maker, section, is_marked = RuleMaker(defaults, report), SuffixSection.UNMARKED, False
    for line, text in numbered_lines(octets, report, is_foreign=True):
        section = section_after(text, section)
        is_marked |= section is SuffixSection.PRIVATE
        name = (text.split(maxsplit=1) or [""])[0]
        if section is not SuffixSection.PRIVATE or not name or name.startswith("//"):
            continue
        if name.startswith("!"):
            report.leave_out(line, name, "nobody else has a site below this name")
        else:
            yield from maker.name(name.removeprefix("*."), line)
    if not is_marked and not report.errors:
        report.error(0, "list", "it has no section of private domains, as the list of publicsuffix.org has")
