"""Changes of values in YAML: the new ones are there, and everything else is as a person wrote it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushlist.core.lists.list_source import ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.extensions.policy_edits.yaml_edits import EditError, Plain, flow, plain_of, with_value
from unit.rows import each_row

TEXT = """# the house
groups:  # who
# first
- name: kids     # Mia and Leo
  users: [mia, leo]
  categories:
    games: block
    # not on Sundays
    ads: {action: block, during: night}
- {name: 'guests', clients: [10.0.0.0/8]}  # the Wi-Fi

# last
log: on
mode:
notify:
  - http://a.example/x
  - b
"""
KIDS: dict[str, Any] = {
    "name": "kids",
    "users": ["mia", "leo"],
    "categories": {"games": "block", "ads": {"action": "block", "during": "night"}},
}
GUESTS: dict[str, Any] = {"name": "guests", "clients": ["10.0.0.0/8"]}
WHOLE: dict[str, Any] = {
    "groups": [KIDS, GUESTS],
    "log": "on",
    "mode": None,
    "notify": ["http://a.example/x", "b"],
}
KIDS_LINES = TEXT[TEXT.index("- name: kids") : TEXT.index("- {name")]
GUESTS_LINE = "- {name: 'guests', clients: [10.0.0.0/8]}  # the Wi-Fi\n"


def read(text: str) -> Plain:
    report = ProblemReport("text")
    document = read_document(text.encode(), report)
    assert document is not None, report.errors
    return plain_of(document)


def groups(*others: dict[str, Any]) -> dict[str, Any]:
    return {**WHOLE, "groups": list(others)}


@each_row(
    ("value", "before", "after"),
    [
        (WHOLE, "", ""),
        ({**WHOLE, "mode": "tag"}, "mode:\n", "mode: tag\n"),
        ({**WHOLE, "log": {"rows": "7"}}, "log: on", "log: {rows: 7}"),
        ({key: own for key, own in WHOLE.items() if key != "log"}, "log: on\n", ""),
        ({key: own for key, own in WHOLE.items() if key != "mode"}, "mode:\n", ""),
        ({**WHOLE, "x": {"z": "a: b"}}, "  - b\n", '  - b\nx: {z: "a: b"}\n'),
        (groups({**KIDS, "users": ["leo"]}, GUESTS), "[mia, leo]", "[leo]"),
        (groups({**KIDS, "users": ["mia", "x", "leo"]}, GUESTS), "[mia, leo]", "[mia, x, leo]"),
        (groups({**KIDS, "users": ["x", "leo"]}, GUESTS), "[mia, leo]", "[x, leo]"),
        (groups({**KIDS, "mode": "off"}, GUESTS), "during: night}\n", "during: night}\n  mode: off\n"),
        (groups(KIDS, {**GUESTS, "mode": "off"}), "8]}", "8], mode: off}"),
        (groups(KIDS, GUESTS, {"name": "new"}), "Wi-Fi\n", "Wi-Fi\n- {name: new}\n"),
        (groups({"name": "new"}, KIDS, GUESTS), "- name: kids", "- {name: new}\n- name: kids"),
        (groups(GUESTS), KIDS_LINES, ""),
        (groups(GUESTS, KIDS), KIDS_LINES + GUESTS_LINE, GUESTS_LINE + KIDS_LINES),
        (groups({**KIDS, "categories": {"games": "block"}}, GUESTS), "    ads: {action: block, during: night}\n", ""),
        (groups(), KIDS_LINES + GUESTS_LINE, None),
        ({**WHOLE, "notify": ["http://a.example/x", "c"]}, "  - b\n", "  - c\n"),
        ({**WHOLE, "notify": ["http://a.example/x", "c", {"url": "b" * 80}]}, "- b\n", f"- c\n  - url: {'b' * 80}\n"),
    ],
)
def test_only_what_changes_is_written_anew(value: Plain, before: str, after: str | None) -> None:
    found = with_value(TEXT, value)
    assert read(found) == value
    if after is not None:
        assert found == TEXT.replace(before, after, 1)
    for ends in ("\r\n",):
        assert with_value(TEXT.replace("\n", ends), value) == found.replace("\n", ends)


@pytest.mark.parametrize("text", ["{log: on}\n", "- log\n", "log\n"])
def test_what_is_no_mapping_in_lines_is_refused(text: str) -> None:
    with pytest.raises(EditError):
        with_value(text, {"log": "off"})


# -- every text and every value ----------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(
    ["a", "null", "~", "on", "a: b", "# x", "- q", "07:00-20:00", "hrn://a.example/b", "é", "", " x "]
)
_KEYS = st.sampled_from(["name", "a", "b", "c d", "x: y", "null"])
_VALUES = st.recursive(
    st.none() | _TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=10,
)
_DOCUMENTS = st.dictionaries(st.sampled_from(["groups", "log", "schedules", "layers"]), _VALUES, min_size=1)


def written(value: Any, random: Random, indent: str = "") -> list[str]:
    """Lines of a value as somebody may write it; one that begins with ``@`` stands behind its key."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.25:
        return [f"@{flow(value)}{'  # t' if not indent and random.random() < 0.5 else ''}"]
    lines = []
    for key, own in value.items() if isinstance(value, dict) else ((None, own) for own in value):
        lines += [f"{indent}# c"] if random.random() < 0.2 else []
        head = f"{indent}-" if key is None else f"{indent}{flow(key)}:"
        deeper = indent if key is not None and isinstance(own, list) and random.random() < 0.5 else f"{indent}  "
        first, *rest = written(own, random, deeper)
        if first.startswith("@"):
            lines += [f"{head} {first[1:]}" if first != "@null" or random.random() < 0.5 else head]
        elif key is None and not first.lstrip().startswith("#"):
            lines += [f"{head} {first.lstrip()}", *rest]
        else:
            lines += [f"{head}{'  # k' if random.random() < 0.3 else ''}", first, *rest]
    return lines


@pytest.mark.slow
@settings(max_examples=150)
@given(before=_DOCUMENTS, other=_DOCUMENTS, seed=st.integers(0, 1 << 30))
def test_any_value_is_written_into_any_text(before: dict[str, Any], other: dict[str, Any], seed: int) -> None:
    random = Random(seed)
    text = "".join(
        f"# head {key}\n{line}\n"
        for key, own in before.items()
        for line in [
            f"{key}: {lines[0][1:]}" if lines[0].startswith("@") else "\n".join((f"{key}:", *lines))
            for lines in [written(own, random, "  ")]
        ]
    )
    assume(read(text) == before)
    assert with_value(text, before) == text
    value = {key: own for key, own in before.items() if random.random() < 0.8} | {
        key: own for key, own in other.items() if random.random() < 0.6
    }
    assume(before.keys() & value.keys())
    found = with_value(text, value)
    assert read(found) == value
    assert all(f"# head {key}\n" in found for key in before)
