"""The pages that people see when the filter blocks, warns or fails: in the reader's language, with their headers.

A page loads nothing and is never cached. It runs no script, but for the one of a page that waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from markupsafe import Markup

from hushlist.core.errors import UrlError
from hushlist.core.match.rule import TimeLimit
from hushlist.core.url.hrn import parse_hrn
from hushlist.proxy.languages import TEXTS, local_time, negotiate
from hushlist.proxy.page.elements import element
from hushlist.proxy.page.template import Template, security_policy, shipped_template


class Verdict(StrEnum):
    """What the filter did."""

    BLOCKED = "blocked"
    #: the person may click to go on
    WARNED = "warned"
    #: the filter itself failed
    FAILED = "failed"
    #: the site cannot be reached securely
    UNREACHED = "unreached"
    #: it looks at a file, for which the person waits
    CHECKING = "checking"
    #: nothing is at one of its addresses, or no more
    GONE = "gone"


#: nothing is blocked by these, and nobody has to be told
_ABOUT_FILES = (Verdict.CHECKING, Verdict.GONE)


@dataclass(frozen=True, slots=True)
class Explanation:
    #: the canonical address, without user information
    url: str
    #: the rule's own text, shown unchanged; ``None``: the page explains in the reader's language
    reason: str | None = None
    #: why the address could not be read, or its site not be reached, in English
    fault: str | None = None
    #: an ``hrn:`` name
    category: str | None = None
    list: str | None = None
    #: the rule's place: the file's name without its folder, and the line
    rule: str | None = None
    expression: str | None = None
    #: when the block ends: aware, shown in its own time zone
    until: datetime | None = None
    #: the number that ``hushlist log show`` looks up
    reference: str | None = None
    kind: Verdict = Verdict.BLOCKED
    #: the address as sent, with its port, without user information; ``None`` if it is ``url``
    original: str | None = None
    #: key of the text that says ``reason`` in the reader's language, if the words are the filter's own
    text: str | None = None
    #: the quota that decided
    limit: TimeLimit | None = None
    #: what to write so that the site can be reached
    remedy: str | None = None
    #: whether Google has advised it, whose terms want that to be told, with doubt
    is_by_google: bool = False
    #: the file that was blocked in the answer or the request, with what was seen of it
    file: str | None = None

    def as_dict(self) -> dict[str, object]:
        """For programs; ``reason`` is in English if the rule has no text of its own."""
        return {
            "blocked": self.kind not in (Verdict.UNREACHED, *_ABOUT_FILES),
            "kind": self.kind.value,
            "url": self.url,
            "original": self.original,
            "reason": self.in_english(),
            **{name: getattr(self, name) for name in ("category", "list", "rule", "expression")},
            **({} if self.file is None else {"file": self.file}),
            "until": None if self.until is None else self.until.isoformat(timespec="seconds"),
            "reference": self.reference,
            **({} if self.kind is not Verdict.UNREACHED else {"fault": self.fault, "remedy": self.remedy}),
        }

    def in_english(self) -> str:
        """The reason, in a sentence for programs and logs."""
        if self.kind is Verdict.UNREACHED:
            help_ = f" What helps: {self.remedy}" if self.remedy else ""
            return f"The site cannot be reached: {self.reason} ({self.fault}).{help_}"
        if self.reason is not None:
            return self.reason
        if self.kind is Verdict.FAILED:
            return "The filter failed." if self.fault is None else f"The filter failed: {self.fault}."
        if self.kind is Verdict.GONE:
            return "There is nothing at this address of the filter."
        if self.fault is not None:
            return f"The address cannot be read: {self.fault}."
        verb = "warns of" if self.kind is Verdict.WARNED else "blocks"
        return f"A rule of the filter {verb} it."


class Offer(Protocol):
    """What a page offers to a person, below its explanation: a form, on the page's own origin."""

    def alert(self, texts: Mapping[str, str]) -> str | None:
        """What to say first: what went wrong, or what became of the last try."""

    def section(self, kind: Verdict, texts: Mapping[str, str]) -> Markup:
        """The form."""

    @property
    def script(self) -> str | None:
        """What the page runs, if anything."""


class PageForm(NamedTuple):
    """A form of a block page that an extension brings, and another one carries to the filter."""

    #: the field that tells it from other forms; also what its token is for
    purpose: str
    #: the form, from its target, its fields that are hidden, the key of a text about the last try, and texts
    section: Callable[[str, Markup, str | None, Mapping[str, str]], Markup]
    #: take what was sent of it, and return the key of a text that says what came of it; waits for the disk
    take: Callable[[Mapping[str, list[str]]], str]


#: characters; of a longer value the beginning and the end are shown
_LONGEST = 1000
_SHOWN_END = 200
#: for every answer, whatever its kind
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_SHIPPED = shipped_template()


def page(
    explanation: Explanation,
    languages_header: str = "",
    offer: Offer | None = None,
    template: Template | None = None,
) -> tuple[bytes, dict[str, str]]:
    """A page and its headers, in the language that an Accept-Language header asks for."""
    template = template or _SHIPPED
    language = negotiate(languages_header)
    text = template.fill(_values(explanation, language, offer))
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Language": language,
        "Vary": "Accept-Language",
        **HEADERS,
        "Content-Security-Policy": security_policy(
            template,
            has_form=offer is not None,
            script=None if offer is None else offer.script,
            goes_on=explanation.kind is Verdict.CHECKING,
        ),
    }
    return text.encode("utf-8", "backslashreplace"), headers


_SHOWN_AS_IT_IS = ("url", "original", "fault", "category", "list", "rule", "expression", "reference")


def _values(explanation: Explanation, language: str, offer: Offer | None) -> dict[str, str]:
    """What the placeholders of a template stand for."""
    texts = TEXTS[language]
    kind = explanation.kind
    title = texts[f"{kind}_title"]
    message = None if offer is None else offer.alert(texts)
    return {
        "lang": language,
        "dir": texts["dir"],
        "kind": kind.value,
        # A screen reader reads the title first, so what went wrong is in it.
        "title": title if message is None else f"{message} – {title}",
        "heading": texts[f"{kind}_heading"],
        "reason": _reason(explanation, texts),
        "help": _help(explanation, texts),
        **{name: getattr(explanation, name) or "" for name in _SHOWN_AS_IT_IS},
        "category_name": category_name(explanation.category) or "",
        "until": "" if explanation.until is None else local_time(explanation.until, texts),
        "facts": _facts(explanation, texts),
        "form": _advisory(explanation, texts) + (Markup() if offer is None else offer.section(kind, texts)),
    }


def _reason(explanation: Explanation, texts: Mapping[str, str]) -> str:
    limit = explanation.limit
    if limit is not None and explanation.kind is Verdict.WARNED:
        return texts["ending_reason"].replace("{}", duration(limit.left, texts))
    if limit is not None:
        return texts["used_up_reason"].replace("{}", duration(limit.limit, texts))
    if explanation.text is not None and explanation.text in texts:  # somebody else's extension has none
        return texts[explanation.text]
    if explanation.reason is not None:
        return explanation.reason
    if explanation.fault is not None and explanation.kind is not Verdict.FAILED:
        return texts["unread_reason"]
    return texts[f"{explanation.kind}_reason"]


#: Spec: Safe Browsing, Appropriate Usage, User Warnings: "Advisory provided by Google", with a link to this
_ADVISORY = "https://developers.google.com/safe-browsing/v4/advisory"


def _advisory(explanation: Explanation, texts: Mapping[str, str]) -> Markup:
    """Who advised it; it stands with the form, which every template has."""
    if not explanation.is_by_google:
        return Markup()
    link = element("a", texts["advisory"], href=_ADVISORY, rel="noreferrer")
    return element("section", element("p", link), element("p", texts["advisory_doubt"], class_="note"))


def _help(explanation: Explanation, texts: Mapping[str, str]) -> str:
    if explanation.kind in _ABOUT_FILES:
        return ""
    help_ = texts["help" if explanation.reference is None else "help_reference"]
    return help_ if explanation.kind in (Verdict.FAILED, Verdict.UNREACHED) else f"{texts['mistake']} {help_}"


def category_name(category: str | None) -> str | None:
    """The part of an ``hrn:`` name that people read: its last.

    >>> category_name("hrn://example.org/web/social-media"), category_name("hrn://example.org"), category_name("x")
    ('social media', 'example.org', None)
    """
    if category is None:
        return None
    try:
        hrn = parse_hrn(category)
    except UrlError:
        return None
    if not hrn.names:
        return hrn.host or hrn.uuid
    return unquote(hrn.names[-1]).replace("-", " ").replace("_", " ")


# -- the facts -------------------------------------------------------------------------------------------------------


_FACT = Markup('<div class="%s"><dt>%s</dt><dd>%s</dd></div>')
_FOLDED = Markup("<details><summary>%s</summary><dl>%s</dl></details>")
_CODE = Markup('<code dir="ltr">%s</code>')
#: facts that are not folded
_AT_ONCE = ("fault", "remedy", "category", "until", "reference")


def _facts(explanation: Explanation, texts: Mapping[str, str]) -> Markup:
    """All that is known: what says what it is about, until when, and what to do about it, at once; the rest is folded.

    Addresses and places run from left to right in every language, and the words of a list in its own direction.
    """
    is_by_rule = explanation.limit is None  # what a quota counts is in the reason, in the reader's language
    facts: list[tuple[str, Any, Callable[[Any], Markup]]] = [
        ("address", explanation.url or None, _code),
        ("original", explanation.original, _code),
        ("file", explanation.file, _code),
        ("fault", explanation.fault, lambda fault: element("span", _shortened(fault), lang="en", dir="ltr")),
        ("remedy", explanation.remedy, _code),
        ("category", explanation.category, _category),
        ("list", explanation.list if is_by_rule else None, lambda name: element("span", _shortened(name), dir="auto")),
        ("rule", explanation.rule, _code),
        ("expression", explanation.expression if is_by_rule else None, _code),
        ("until", explanation.until, lambda moment: _moment(moment, texts)),
        ("reference", explanation.reference, _code),
    ]
    shown, folded = list[Markup](), list[Markup]()
    for key, value, show in facts:
        if value is not None:
            (shown if key in _AT_ONCE else folded).append(_FACT % (key, texts[key], show(value)))
    parts = [element("dl", *shown)] if shown else []
    if folded:
        parts.append(_FOLDED % (texts["details"], Markup().join(folded)))
    return element("section", *parts, class_="facts") if parts else Markup()


def _moment(moment: datetime, texts: Mapping[str, str]) -> Markup:
    return element("time", local_time(moment, texts), datetime=moment.isoformat(timespec="minutes"), dir=texts["dir"])


def _category(category: str) -> Markup:
    name = category_name(category)
    if name is None:
        return _code(category)
    return element("strong", _shortened(name), dir="auto") + " " + _code(category)


def _code(value: str) -> Markup:
    return _CODE % _shortened(value)


def _shortened(value: str) -> str:
    """The value, or beginning and end of a long one: a browser sends addresses of 64 KiB."""
    if len(value) <= _LONGEST:
        return value
    return f"{value[: _LONGEST - _SHOWN_END]} … {value[-_SHOWN_END:]}"


def duration(minutes: int, texts: Mapping[str, str]) -> str:
    """Hours and minutes, abbreviated: abbreviations have no plural in any of the languages."""
    hours, rest = divmod(minutes, 60)
    parts = [("hours", hours), ("minutes", rest)]
    shown = [texts[unit].replace("{}", str(number)) for unit, number in parts if number]
    return " ".join(shown) or texts["minutes"].replace("{}", "0")
