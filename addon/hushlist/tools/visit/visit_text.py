"""The report of visits as text, as JSON, and as JUnit's XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any
from xml.sax.saxutils import quoteattr

from hushlist.core.errors import printable
from hushlist.tools.audit.report_codec import encode
from hushlist.tools.visit.page_verdict import ORDER, Verdict, limits, verdict_of
from hushlist.tools.visit.signals import Saved
from hushlist.tools.visit.visit_job import VisitReport
from hushlist.tools.visit.visitor import PageResult

#: what is saved, for people
LABELS = {
    "requests": "requests",
    "octets": "octets",
    "seconds": "seconds until loaded",
    "third_parties": "other sites",
    "cookies": "cookies",
    "trackers": "trackers",
}


def counts_of(report: VisitReport) -> Counter[Verdict]:
    """Pages by verdict; those that could not be visited are not among them."""
    return Counter(page.verdict for page in report.pages if not page.failed)


def saved_in_all(report: VisitReport) -> dict[str, tuple[float, float]]:
    """What all pages together take without the list, and with it."""
    pages = [page.saved for page in report.pages if page.saved is not None]
    return {
        name: (sum(getattr(page, name)[0] for page in pages), sum(getattr(page, name)[1] for page in pages))
        for name in Saved._fields
    }


def as_json(report: VisitReport) -> dict[str, Any]:
    """Plain types: verdicts in all, what was saved, and each page."""
    counts = counts_of(report)
    return {
        "pages": {
            **{each.value: counts[each] for each in ORDER},
            "failed": sum(bool(page.failed) for page in report.pages),
        },
        "saved": {name: {"without": was, "with": now} for name, (was, now) in saved_in_all(report).items()},
        "lists": list(report.lists),
        "browser": report.browser,
        "not_frozen": report.not_frozen,
        "seconds": report.seconds,
        "results": [{**encode(page), "harm": page.harm} for page in report.pages],
    }


# -- text --------------------------------------------------------------------------------------------------------------


def page_text(page: PageResult) -> Iterator[str]:
    """A page in a few lines."""
    if page.failed:
        yield f"failed   {page.address}: {page.failed}"
        return
    yield f"{page.verdict.value:<8} {page.address}"
    for signal in page.signals:
        if verdict_of(signal) is not Verdict.FINE:
            shown = f": {', '.join(signal.evidence[:3])}" if signal.evidence else ""
            yield f"    {signal.name} {signal.value:g} ({limits()[signal.name].says}){shown}"
    for rule, line in zip(page.culprits, page.exceptions, strict=True):
        yield f"    broken by {rule.place}: {rule.text}"
        yield f"        exception: {line}"
    if page.unmended:
        yield f"    {page.unmended}"
    for fault in page.faults:
        yield f"    {fault}"


def report_text(report: VisitReport) -> Iterator[str]:
    """The figures in all."""
    counts = counts_of(report)
    yield f"{len(report.pages)} pages in {report.seconds:.0f} s: " + ", ".join(
        f"{counts[each]} {each.value}" for each in ORDER
    )
    for name, (was, now) in saved_in_all(report).items():
        if was:
            which = "less" if now <= was else "more"
            yield f"{LABELS[name]}: {was:,.10g} -> {now:,.10g} ({abs(was - now) / was:.0%} {which})"
    missing = [sum(page.missing[side] for page in report.pages) for side in (0, 1)]
    if any(missing):
        yield f"not in the recordings: {missing[0]} requests without the list, {missing[1]} with it"
    if report.not_frozen:
        yield f"not frozen: {report.not_frozen}"


def junit(report: VisitReport, fails_at: Verdict) -> str:
    """A test case for each page; those from a verdict on have failed."""
    cases = []
    for page in report.pages:
        name = f'  <testcase classname="hushlist.visit" name={quoteattr(printable(page.address))}'
        text = escape(printable("\n".join(page_text(page))))
        if page.failed:
            cases.append(f"{name}><error message={quoteattr(printable(page.failed))}/></testcase>")
        elif ORDER.index(page.verdict) >= ORDER.index(fails_at):
            cases.append(f'{name}><failure message="{page.verdict.value}">{text}</failure></testcase>')
        else:
            cases.append(f"{name}/>")
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    head = f'<testsuite name="hushlist visit" tests="{len(cases)}" failures="{failures}" errors="{errors}">'
    return "\n".join(('<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>", ""))
