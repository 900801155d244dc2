"""The JSON that a webhook gets in the place of the notice's own: mappings, lists and texts with placeholders.

Only whole texts are filled, and JSON is written afterwards: nothing that a stranger wrote can add a key or end a text.
A template has nothing of a secret file: the token stands in the address alone.

>>> report = ProblemReport("policy.yaml")
>>> from hushlist.core.lists.yaml_documents import read_document
>>> text = b"{text: '$title!', keyboard: [{text: $label1, url: $link1}, {text: $label2, url: $link2}]}"
>>> template = read_template(read_document(text, report), report)
>>> filled(template, {"title": 'a "b"', "label1": "Allow", "link1": "http://192.168.1.2:8080/x"})
{'text': 'a "b"!', 'keyboard': [{'text': 'Allow', 'url': 'http://192.168.1.2:8080/x'}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hushlist.core.errors import did_you_mean
from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_nodes import YamlNode

#: texts, and lists and mappings of them; hashable, as a channel is compared with that of the next policy
Template: TypeAlias = "str | tuple[str, tuple[Any, ...]]"
#: buttons that a template can name
MOST_BUTTONS = 3
_BUTTONS = tuple(f"{name}{number}" for number in range(1, MOST_BUTTONS + 1) for name in ("label", "link"))
#: what a template may have; those with ``_html`` are for servers that take a text for HTML
WORDS = ("title", "message", "title_html", "message_html", *_BUTTONS)
#: what an address may have: an id that is another one for each notice, and the file's token
ADDRESS_WORDS = ("id", "token")
_PLACEHOLDER = re.compile(r"\$(\w+)", re.ASCII)
#: keys by which a server would read markup in the text of somebody else
_MARKUP = frozenset({"parse_mode", "formatted_body"})


class _NoButtonError(LookupError):
    """A notice has no such button."""


def check_address(url: str) -> None:
    """Raise ``ValueError`` if an address has a placeholder that there is not."""
    for word in _PLACEHOLDER.findall(url):
        if word not in ADDRESS_WORDS:
            raise ValueError(f"an address may have {' and '.join(f'${each}' for each in ADDRESS_WORDS)} alone")


def filled_address(url: str, values: Mapping[str, str]) -> str:
    """An address with what stands for its placeholders, which are escaped by whoever gives them."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), url)


def read_template(node: YamlNode, report: ProblemReport) -> Template | None:
    """A template; what is wrong is in the report."""
    if not isinstance(node.value, dict | list):
        report.error(node.line, "json", f"expected a mapping or a list, not {node.kind}")
        return None
    return _read(node, report)


def _read(node: YamlNode, report: ProblemReport) -> Template:
    if isinstance(node.value, dict):
        for key in _MARKUP & node.value.keys():
            report.error(node.value[key].line, key, "what people wrote is sent as text, and not as markup")
        return "mapping", tuple((key, _read(value, report)) for key, value in node.value.items())
    if isinstance(node.value, list):
        return "list", tuple(_read(item, report) for item in node.value)
    text = node.value or ""
    for word in _PLACEHOLDER.findall(text):
        if word not in WORDS:
            why = f"there is no such placeholder{did_you_mean(word, WORDS)} (known: {', '.join(WORDS)})"
            report.error(node.line, f"${word}", why)
    return text


def filled(template: Template, values: Mapping[str, str]) -> Any:
    """A template as JSON; where the notice lacks a button, the item of a list that names it is left out, or the key."""
    if isinstance(template, str):
        return _PLACEHOLDER.sub(lambda match: _value(match[1], values), template)
    kind, parts = template
    if kind == "mapping":
        return dict(_there([(key, part) for key, part in parts], values))
    items = [item for _, item in _there([("", part) for part in parts], values)]
    return [item for item in items if item or not isinstance(item, list)]


def _there(parts: Sequence[tuple[str, Template]], values: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, part in parts:
        of_button = part[1] if not isinstance(part, str) and part[0] == "mapping" and not key else ()
        try:
            for _, text in of_button:  # of an item, a text decides about the whole
                if isinstance(text, str):
                    filled(text, values)
            yield key, filled(part, values)
        except _NoButtonError:
            continue


def _value(word: str, values: Mapping[str, str]) -> str:
    if word in _BUTTONS and word not in values:
        raise _NoButtonError(word)
    return values[word]
