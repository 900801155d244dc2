"""The report of visits as one HTML page in the audit's style, with its style, script and pictures in itself.

It loads nothing; whatever a site or a list says goes in escaped.
"""

from __future__ import annotations

import string
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

from hushlist.core.errors import printable
from hushlist.core.system.files import read_regular
from hushlist.tools.audit.replay.audit_page import content_policy
from hushlist.tools.visit.page_verdict import ORDER, Verdict, limits, verdict_of
from hushlist.tools.visit.signals import Saved
from hushlist.tools.visit.visit_job import VisitReport
from hushlist.tools.visit.visit_text import LABELS, counts_of, saved_in_all
from hushlist.tools.visit.visitor import PageResult

#: octets of a picture, and of all pictures that the page has: those of the most harmed pages
_LONGEST_PICTURE, _MOST_OCTETS = 1 << 22, 40 << 20
#: requests of a rule, and pieces of evidence, that are shown
_MOST_REQUESTS, _MOST_EVIDENCE = 8, 5
_COMPARED = """<figure class="compare"><div class="shots"><img src="{0}" alt="without the list">
<img class="with" src="{1}" alt="with the list"></div><figcaption>
<label>without the list <input type="range" min="0" max="100" value="50" aria-label="share of the page with the list">
with the list</label> <label><input type="checkbox"> only what differs</label></figcaption></figure>"""
_SAVED_HEAD = "<tr><th></th><th>Without</th><th>With</th><th>What remains</th></tr>"


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _code(value: object) -> str:
    return f"<code>{_text(value)}</code>"


def _row(*cells: str, kind: str = "") -> str:
    """A row of a table; the cells are markup."""
    return f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _table(head: str, rows: Iterable[str]) -> str:
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def _bulleted(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def html_page(report: VisitReport, folder: Path) -> str:
    """The report as one page; ``folder`` has the pictures."""
    package = files("hushlist.tools.visit")
    style = files("hushlist.tools.audit.replay").joinpath("web", "page.css").read_text(encoding="utf-8")
    style += package.joinpath("report.css").read_text(encoding="utf-8")
    script = package.joinpath("report.js").read_text(encoding="utf-8")
    scope = f"{len(report.pages)} pages with {report.browser}, each without the list and with it"
    counts = counts_of(report)
    page = string.Template(package.joinpath("report.html").read_text(encoding="utf-8"))
    return page.substitute(
        content_policy=escape(content_policy(style, script)),
        title=f"{counts[Verdict.BROKEN]} of {len(report.pages)} pages broken",
        lists=_text(", ".join(report.lists)),
        asked=_text(f"{scope}; not frozen: {report.not_frozen}" if report.not_frozen else scope),
        figures="".join(_figures(report)),
        chart=_chart(counts, len(report.pages)),
        saved="".join(_saved_rows(saved_in_all(report))),
        contents="".join(_content_row(page, number) for number, page in enumerate(report.pages)),
        pages="".join(_sections(report, folder)),
        style=style,
        script=script,
    )


def _word(page: PageResult) -> str:
    return "not visited" if page.failed else page.verdict.value


def _figure(name: str, value: str, more: str, kind: str) -> str:
    return f'<div class="{kind}"><dt>{name}</dt><dd><strong>{value}</strong><span>{more}</span></dd></div>'


def _figures(report: VisitReport) -> Iterator[str]:
    counts = counts_of(report)
    for each in reversed(ORDER):
        kind = "bad" if each is Verdict.BROKEN and counts[each] else ""
        yield _figure(each.value.capitalize(), str(counts[each]), "pages", kind)
    was, now = saved_in_all(report)["requests"]
    yield _figure("Requests saved", f"{(was - now) / was if was else 0:.0%}", f"{was - now:,.0f} of {was:,.0f}", "main")


def _chart(counts: Counter[Verdict], total: int) -> str:
    parts, left = [], 0.0
    for each, kind in ((Verdict.BROKEN, "block"), (Verdict.SUSPECT, "warn"), (Verdict.FINE, "allow")):
        width = 100 * counts[each] / max(1, total)
        parts.append(f'<rect class="{kind}" x="{left:.3f}%" width="{width:.3f}%" height="100%"/>')
        left += width
    label = ", ".join(f"{counts[each]} {each.value}" for each in ORDER)
    return f'<svg class="bar actions" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _saved_rows(saved: dict[str, tuple[float, float]]) -> Iterator[str]:
    for name, (was, now) in saved.items():
        share = now / was if was else float(bool(now))
        bar = f'<rect class="alone" width="{min(1, share):.1%}" height="100%"/>'
        drawn = f'<svg class="bar" role="img" aria-label="{share:.0%} of it remains">{bar}</svg>'
        yield _row(LABELS[name], f"{was:,.10g}", f"{now:,.10g}", drawn)


def _content_row(page: PageResult, number: int) -> str:
    why = ", ".join(signal.name for signal in page.signals if verdict_of(signal) is not Verdict.FINE)
    link = f'<a href="#page-{number}">{_text(page.address)}</a>'
    return _row(link, _word(page), f"{page.harm:g}", why, kind=page.verdict.value)


def _sections(report: VisitReport, folder: Path) -> Iterator[str]:
    budget = _MOST_OCTETS
    for number, page in enumerate(report.pages):
        pictures = _pictures(page, folder)
        budget -= sum(map(len, pictures))
        parts = _parts(page, pictures if budget > 0 else [])
        title = f'<span class="verdict {page.verdict.value}">{_word(page)}</span> {_text(page.address)}'
        yield f'<section><h2 id="page-{number}">{title}</h2>{"".join(parts)}</section>'


def _pictures(page: PageResult, folder: Path) -> list[str]:
    """Both pictures as addresses of data; none where one is gone."""
    made = []
    for name in filter(None, page.pictures):
        try:
            content = read_regular(folder / name, _LONGEST_PICTURE)
        except OSError:
            return []
        made.append(f"data:image/{name.rpartition('.')[2]};base64,{b64encode(content).decode()}")
    return made


def _parts(page: PageResult, pictures: list[str]) -> Iterator[str]:
    if page.failed:
        yield f"<p>{_text(page.failed)}</p>"
    if len(pictures) == 2:
        yield _COMPARED.format(*pictures)
    if page.exceptions:
        yield f"<h3>Broken by</h3>{_bulleted(f'{_code(rule.place)}: {_code(rule.text)}' for rule in page.culprits)}"
        lines = "\n".join(map(_text, page.exceptions))
        yield f"<p>Exceptions to paste, found in {page.tries} visits:</p><pre>{lines}</pre>"
    elif page.unmended:
        yield f"<p>{_text(page.unmended)}</p>"
    if page.signals:
        head = "<tr><th>What differs</th><th>How much</th><th>Alone</th><th>What shows it</th></tr>"
        rows = (
            _row(
                *(limits()[signal.name].says, f"{signal.value:g}", verdict_of(signal).value),
                "<br>".join(map(_code, signal.evidence[:_MOST_EVIDENCE])),
                kind=verdict_of(signal).value,
            )
            for signal in page.signals
        )
        yield _table(head, rows)
    if page.rules:
        items = []
        for rule in page.rules:
            more = len(rule.requests) - _MOST_REQUESTS
            requests = [*map(_code, rule.requests[:_MOST_REQUESTS]), *([f"and {more} more"] if more > 0 else [])]
            items.append(f"{_code(rule.place)}: {_code(rule.text)}{_bulleted(requests)}")
        yield _folded("Rules that stopped something, and what", _bulleted(items))
    if page.saved is not None:
        saved = {name: getattr(page.saved, name) for name in Saved._fields}
        yield _folded("What the list saves here", _table(_SAVED_HEAD, _saved_rows(saved)))
    if any(page.missing):
        yield f"<p>Not in the recording: {page.missing[0]} requests without the list, {page.missing[1]} with it.</p>"
    for fault in page.faults:
        yield f"<p>{_text(fault)}</p>"
