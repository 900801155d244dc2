"""The template of the pages: the one that is shipped, or an administrator's own.

A template is HTML with the placeholders of ``string.Template``. It is checked when it is loaded, so that no page can
fail later. Values are always escaped, and stand only where an escaped value cannot become markup.
"""

from __future__ import annotations

import re
import string
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

from markupsafe import escape

from hushlist.core.errors import Problem, SourceError
from hushlist.core.system.files import read_regular, reason_of

#: placeholders that stand for markup, and so only between elements
MARKUP = ("facts", "form")
#: placeholders that stand for text
TEXT = (
    *("lang", "dir", "kind", "title", "heading", "reason", "help"),
    *("url", "original", "fault", "category", "category_name", "list", "rule", "expression", "until", "reference"),
)
VARIABLES = (*TEXT, *MARKUP)
#: without these, some people cannot understand the page, or cannot use what it offers
NEEDED = ("lang", "dir", "heading", "reason", "form")

# A comment without an end goes on to the end of the text, as in a browser. If it did not, the end would be searched
# again from each "<!--" in it, in quadratic time.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTED = re.compile(r"""=\s*(?:"[^"]*"|'[^']*')""")
# The content security policy stops all of these. A template with one is refused, since its pages would have a gap.
_NOT_LOADED = frozenset({"base", "embed", "frame", "iframe", "link", "object", "script"})
_ADDRESSES = frozenset({"background", "data", "poster", "src", "srcdoc", "srcset"})
# In these attributes an escaped value is harmless; in one that holds an address, a style or a script it is not.
_MAY_HOLD_VALUES = frozenset({"alt", "class", "dir", "lang", "title", "value"})
_MOST_OCTETS = 1 << 20


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been checked; ``load_template`` makes it."""

    text: string.Template
    #: the sources of style and images that its content security policy has to name
    style_sources: tuple[str, ...]
    image_sources: tuple[str, ...]

    def fill(self, values: Mapping[str, str]) -> str:
        """The page; every value that is not ``Markup`` is escaped."""
        return self.text.substitute({name: escape(values[name]) for name in VARIABLES})


@lru_cache(16)
def security_policy(
    template: Template | None = None, *, has_form: bool = False, script: str | None = None, goes_on: bool = False
) -> str:
    """The content security policy of a page; without a template, that of any other answer.

    The sandbox has no ``allow-same-origin``, so nothing on a page could run as the blocked origin. Even so, "'self'" in
    ``form-action`` and ``connect-src`` is the origin that the page came from. ``script``: the only one that may run.
    ``goes_on``: the page leads to another by itself, or to a download; for browsers, that is a script's right.
    A page with a form is in no frame of another site, which could have somebody click on it unseen.

    Spec: Content Security Policy Level 3, 6
    """
    directives = ["default-src 'none'"]
    if template is not None and template.style_sources:
        directives.append(f"style-src {' '.join(template.style_sources)}")
    if script is not None:
        directives += [f"script-src {_source(script)}", "connect-src 'self'"]
    if template is not None and template.image_sources:
        directives.append(f"img-src {' '.join(template.image_sources)}")
    directives += ["base-uri 'none'", f"form-action '{'self' if has_form else 'none'}'"]
    if has_form or template is None:
        directives.append("frame-ancestors 'self'")
    allowed = " allow-forms" * has_form + " allow-scripts" * (script is not None or goes_on)
    allowed += " allow-downloads" * goes_on
    directives.append(f"sandbox{allowed}")
    return "; ".join(directives)


def _source(text: str) -> str:
    """A style or a script, as a content security policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def load_template(path: Path) -> Template:
    """Read a template and check it; ``SourceError`` if it cannot be used, with the file and line of every problem."""
    try:
        octets = read_regular(path, _MOST_OCTETS)
        return parse_template(octets.decode("utf-8-sig"), str(path))
    except OSError as error:
        raise SourceError([Problem(str(path), 0, path.name, reason_of(error))]) from error
    except UnicodeDecodeError as error:
        line = octets[: error.start].count(b"\n") + 1
        what = f"the octet 0x{octets[error.start]:02X}"
        raise SourceError([Problem(str(path), line, what, "it is not UTF-8")]) from error


def parse_template(text: str, source: str) -> Template:
    """Check a template's text; ``SourceError`` if it cannot be used."""
    # a browser reads every line end as LF, and hashes the style so
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Comments are for the administrator: they are neither checked nor sent. Lines keep their numbers for the check, and
    # what is sent is what was checked.
    blank = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    problems = [Problem(source, *problem) for problem in _placeholder_problems(blank)]
    elements = _Elements(blank)
    problems += [Problem(source, *problem) for problem in elements.problems]
    if problems:
        raise SourceError(sorted(problems, key=lambda problem: problem.line))
    styles = (style.replace("$$", "$") for style in elements.styles)
    return Template(
        text=string.Template(blank.lstrip()),
        style_sources=tuple(map(_source, styles)),
        image_sources=("data:",) if elements.has_images else (),
    )


def shipped_template() -> Template:
    file = files("hushlist.proxy.page").joinpath("block_page.html")
    return parse_template(file.read_text(encoding="utf-8"), file.name)


def _placeholder_problems(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, what and why of each problem with placeholders."""
    names = set()
    line, at = 1, 0
    for match in string.Template.pattern.finditer(text):
        if match["escaped"] is not None:
            continue
        line += text.count("\n", at, match.start())
        at = match.start()
        name = match["named"] or match["braced"]
        if name is None:
            yield line, "$", "a dollar sign that begins no placeholder is written $$"
        elif name not in VARIABLES:
            yield line, match[0], f"there is no such placeholder, only {', '.join(VARIABLES)}"
        names.add(name)
    for name in NEEDED:
        if name not in names:
            yield 0, f"${name}", "this placeholder is needed, and missing"


def _names(text: str) -> set[str]:
    """The placeholders of a text."""
    return {match["named"] or match["braced"] for match in string.Template.pattern.finditer(text)} - {None}


class _Elements(HTMLParser):
    """Reads a template's elements: its styles, whether it has images, and what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.problems: list[tuple[int, str, str]] = []
        self.styles: list[str] = []
        self.has_images = False
        self._in_style = False
        # If a tag is never closed, the parser reads from each "<" to the end, again and again.
        whole = text.rfind(">") + 1
        rest = text.find("<", whole)
        try:
            self.feed(text if rest < 0 else text[:rest])
            self.close()
        except AssertionError as error:  # of a declaration that the parser does not know
            self._problem("<!", f"it is no HTML: {error}")
        if rest >= 0:
            self.problems.append(
                (text.count("\n", 0, rest) + 1, text[rest:].split(maxsplit=1)[0][:40], "it is not closed")
            )

    def _problem(self, what: str, why: str) -> None:
        self.problems.append((self.getpos()[0], what, why))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _NOT_LOADED:
            self._problem(f"<{tag}>", "a page runs no script, and loads nothing from outside")
        outside_quotes = _names(_QUOTED.sub("", self.get_starttag_text() or ""))
        for name in sorted(outside_quotes):
            self._problem(
                f"${name}", 'inside a tag it stands only in an attribute\'s value, between quotes: title="$title"'
            )
        for name, value in attrs:
            self._check_attribute(name, value or "", outside_quotes)
        if tag == "style":
            self._in_style = True
            self.styles.append("")

    handle_startendtag = handle_starttag

    def _check_attribute(self, name: str, value: str, reported: set[str]) -> None:
        held = _names(value) - reported
        if name == "style" or name.startswith("on"):
            self._problem(name, "such an attribute has no effect here: write styles into a <style> element")
        elif name == "http-equiv":
            self._problem(name, "the page's headers are Hushlist's own")
        elif name in _ADDRESSES and not held:
            if value.lstrip().lower().startswith("data:image/"):
                self.has_images = True
            else:
                self._problem(name, "a page loads nothing from outside: write images as data:image/...")
        elif held & set(MARKUP):
            self._problem(f"${min(held & set(MARKUP))}", f"it is markup, and cannot be the value of {name!r}")
        elif held and not name.startswith(("aria-", "data-")) and name not in _MAY_HOLD_VALUES:
            self._problem(f"${min(held)}", f"it cannot be the value of {name!r}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.styles[-1] += data
            for name in sorted(_names(data)):
                self._problem(
                    f"${name}", 'a style has no placeholders: use class="$kind", and write a dollar sign as $$'
                )
