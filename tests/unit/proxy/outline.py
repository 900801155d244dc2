"""A page as one text a person can compare: an element a line, with its attributes and its own text."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser

#: elements without an end
_VOID = {"meta", "link", "input", "wbr"}


def outline(page: str | bytes, texts: Mapping[str, str]) -> str:
    """Each element of a page below that it is in; for a text, its key. Of a drawing, only rectangles are told.

    Raises:
        AssertionError: an element does not end where it should.

    >>> print(outline('<p class="soft">one <a href="/">two</a></p>', {"second": "two"}))
    p class=soft | one
      a href=/ | $second
    """
    reader = _Outline({text: f"${key}" for key, text in reversed(texts.items())})
    reader.feed(page if isinstance(page, str) else page.decode())
    reader.close()
    assert reader.open == [], f"not closed: {reader.open}"
    told = ((own, reader.words.get(text.strip(), text.strip())) for own, text in reader.lines)
    return "\n".join(f"{own} | {text}" if text else own for own, text in told)


class _Outline(HTMLParser):
    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__()
        self.words = words
        self.lines: list[tuple[str, str]] = []
        self.open: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if any(name == "svg" for name, _ in self.open) and tag != "rect":
            self.open += [] if tag in _VOID else [(tag, -1)]
            return
        written = (name if value is None else f"{name}={self.words.get(value, value)}" for name, value in attrs)
        self.lines.append(("  " * len(self.open) + " ".join((tag, *written)), ""))
        if tag not in _VOID:
            self.open.append((tag, len(self.lines) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> ends nothing"
        name, _ = self.open.pop()
        assert name == tag, f"</{tag}> ends <{name}>"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][1] >= 0:
            at = self.open[-1][1]
            own, text = self.lines[at]
            self.lines[at] = own, text + data
