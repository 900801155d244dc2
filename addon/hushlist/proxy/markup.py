"""Markup that is made of data: the one place where text becomes HTML.

Text is ``str``; what is markup already is ``Html``. Whatever is put into an element or a page goes through ``html``.
"""

from __future__ import annotations

from html import escape

_VOID = frozenset({"input"})


class Html(str):
    """Markup: it is put into a page as it stands."""

    __slots__ = ()


def html(value: str) -> Html:
    """Markup that shows a text; what is markup already stays.

    >>> html('"<b>"'), html(Html("<b>"))
    ('&quot;&lt;b&gt;&quot;', '<b>')
    """
    return value if isinstance(value, Html) else Html(escape(value, quote=True))


def element(name: str, /, *content: str, **attributes: str | bool) -> Html:
    """An element. ``True`` is an attribute without a value, ``False`` is none; ``aria_label`` is ``aria-label``, and an
    underscore at the end keeps a name apart from a word of Python.

    >>> element("input", type="text", value='"', required=True, hidden=False)
    '<input type="text" value="&quot;" required>'
    >>> element("label", "a < b ", element("b", "c"), for_="x")
    '<label for="x">a &lt; b <b>c</b></label>'
    """
    written = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{html(str(value))}"'
        for key, value in attributes.items()
        if value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{together(*content)}</{name}>")


def together(*content: str) -> Html:
    """One after the other."""
    return Html("".join(map(html, content)))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
