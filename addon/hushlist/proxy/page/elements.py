"""Pages and their elements, whose content and values cannot become markup."""

from __future__ import annotations

from markupsafe import Markup, escape

_VOID = frozenset({"input"})


def element(name: str, /, *content: str, **attributes: str | bool) -> Markup:
    """An element; content and values that are not ``Markup`` are escaped.

    ``True`` is an attribute without a value, ``False`` is none. ``aria_label`` is ``aria-label``, and an underscore at
    the end keeps a name apart from a word of Python.

    >>> print(element("input", type="text", value='"', required=True, hidden=False))
    <input type="text" value="&#34;" required>
    >>> print(element("label", "a < b ", element("b", "c"), for_="x"))
    <label for="x">a &lt; b <b>c</b></label>
    """
    written = ""
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is not False:
            written += f" {attribute}" if value is True else f' {attribute}="{escape(value)}"'
    rest = "" if name in _VOID else f"{''.join(map(escape, content))}</{name}>"
    return Markup(f"<{name}{written}>{rest}")  # noqa: S704 - whatever is data has been escaped


_METAS = Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">')


def document(title: str, body: Markup, lang: str, dir: str, *head: Markup) -> str:  # noqa: A002 - the attribute
    """A page with some more elements in its head."""
    whole = element("html", element("head", _METAS, element("title", title), *head), body, lang=lang, dir=dir)
    return f"<!doctype html>{whole}"
