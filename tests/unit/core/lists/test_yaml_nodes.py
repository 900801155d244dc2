"""YAML into nodes, and typed access to them."""

import json
from collections.abc import Callable
from datetime import date

import pytest
import yaml

from hushlist.core.lists import yaml_documents
from hushlist.core.lists.list_source import LONGEST_LINE, ProblemReport
from hushlist.core.lists.yaml_documents import read_document
from hushlist.core.lists.yaml_nodes import MappingReader, YamlNode
from unit.hostile import LONG, seconds
from unit.rows import each_row


def read(text: str | bytes) -> tuple[YamlNode | None, list[str]]:
    report = ProblemReport("f")
    node = read_document(text if isinstance(text, bytes) else text.encode(), report)
    return node, [str(problem) for problem in report.errors]


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _with_and_without_libyaml(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(yaml, request.param):
        pytest.skip(f"PyYAML was built without {request.param}")
    monkeypatch.setattr(yaml_documents, "LOADER", getattr(yaml, request.param))


def plain(node: YamlNode | None) -> object:
    """A node as Python's own types, without lines."""
    match node and node.value:
        case dict() as mapping:
            return {key: plain(value) for key, value in mapping.items()}
        case list() as items:
            return [plain(item) for item in items]
        case value:
            return value


@pytest.mark.usefixtures("_with_and_without_libyaml")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [yes, 2026-01-01, 0x1F, ~, '', '~']", {"a": "1", "b": ["yes", "2026-01-01", "0x1F", None, "", "~"]}),
        ("", None),
        ("# nothing", None),
        ("---", None),
        ("null", None),
        ("a:", {"a": None}),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
        ("%YAML 1.1\n---\na: b\n...\n", {"a": "b"}),
        ("\ufeffa: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
        ("a: 'ü\U0001f600'", {"a": "ü\U0001f600"}),
        ("<<: x", {"<<": "x"}),
    ],
)
def test_every_scalar_but_null_is_its_text(text: str, value: object) -> None:
    node, errors = read(text)
    assert errors == []
    assert plain(node) == value


@pytest.mark.usefixtures("_with_and_without_libyaml")
def test_every_node_knows_its_line() -> None:
    node, _ = read("# first\na: 1\nb:\n  - x\n  -\n    y: z\nc:\n")
    assert isinstance(node, YamlNode)
    assert isinstance(node.value, dict)
    items = node.value["b"].value
    assert isinstance(items, list)
    lines = [node.line, *(value.line for value in node.value.values()), *(item.line for item in items)]
    # A value that is nothing stands where its key does.
    assert lines == [2, 2, 4, 7, 4, 6]


@pytest.mark.usefixtures("_with_and_without_libyaml")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: b\na: c", "f:2: a: the key is given twice (first in line 1)"),
        ("x:\n- {a: b, c: d,\n   a: e}", "f:3: a: the key is given twice (first in line 2)"),
        ("a: b\n1: c\n'1': d", "f:3: 1: the key is given twice (first in line 2)"),
        ("[a]: b", "f:1: a list: a key has to be text"),
        ("{a: b}: c", "f:1: a mapping: a key has to be text"),
        ("~: c", "f:1: nothing: a key has to be text"),
        ("a: &x b", "f:1: &x: anchors are not supported"),
        ("a: &x [b]", "f:1: &x: anchors are not supported"),
        ("a:\n  *x", "f:2: *x: aliases are not supported"),
        ("<<: *x", "f:1: *x: aliases are not supported"),
        (
            "a: !!python/object/apply:os.system [id]",
            "f:1: tag:yaml.org,2002:python/object/apply:os.system: tags are not supported",
        ),
        ("a: !x b", "f:1: !x: tags are not supported"),
        # of which libyaml compares each with all others
        ("# x\n%TAG !a! b\n%TAG !b! b\n---\na: b", "f:2: %TAG: tags are not supported"),
        ("!!str a", "f:1: tag:yaml.org,2002:str: tags are not supported"),
        ("a: b\n---\nc: d", "f:2: ---: there is more than one document in the file"),
        ("---\n---\n", "f:2: ---: there is more than one document in the file"),
        ("a:\n " + "[" * 16 + "]" * 16, "f:2: YAML: nested deeper than 16 levels"),
    ],
)
def test_what_no_rule_file_needs_is_refused_where_it_stands(text: str, error: str) -> None:
    assert read(text) == (None, [error])


@pytest.mark.usefixtures("_with_and_without_libyaml")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b\n c: d", 2),
        ("a: [b\nc: d", 2),
        ("a: 'b\n", 2),
        ("a: b\n\tc: d", 2),
        ("a: b\nc: @d", 2),
        ("a:\n- b\nc", 4),
        ('a: b\nb: "\\ud800"', 2),
        ("a: b\nc: \x01", 2),
        ("a: b\nc: \x00", 2),
        ("%YAML 9.9\n---\n", 1),
    ],
)
def test_what_is_no_yaml_is_reported_with_its_line(text: str, line: int) -> None:
    node, errors = read(text)
    assert node is None
    assert len(errors) == 1
    assert errors[0].startswith((f"f:{line}: YAML: ", f"f:{line - 1}: YAML: "))


INDENTED = "; the keys of a mapping, and the items of a list, have to begin below each other"


@pytest.mark.usefixtures("_with_and_without_libyaml")
@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("a:\n\t- b", 2, ": indent with spaces, not with tabs"),
        ("a:\n  - @@b", 2, ": a text that begins with '@' has to stand in quotes"),
        ("a:\n  - ||b^", 2, ": a text that begins with '|' has to stand in quotes"),
        ("a: [::1]", 1, ": a text that begins with ':' has to stand in quotes"),
        ("a: [*.b.example]", 1, ": a text that begins with '*' has to stand in quotes"),
        (
            "layers:\n- name: a\n   lists: [b]",
            3,
            ": it begins in column 4, and the line above it in column 3" + INDENTED,
        ),
        (
            "layers:\n  - name: a\n\n  # why\n lists: [b]",
            5,
            ": it begins in column 2, and the line above it in column 5" + INDENTED,
        ),
        ("log: on\n  live: on", 2, ": it begins in column 3, and the line above it in column 1" + INDENTED),
        ("a:\n- b\n - c: d\n- e", 3, ": it begins in column 4, and the line above it in column 3" + INDENTED),
        (
            "log:\n  folder: a: b",
            2,
            ": a text with ': ' in it has to stand in quotes, and the keys of a mapping below each other",
        ),
        (
            "a: b\nc: d: e",
            2,
            ": a text with ': ' in it has to stand in quotes, and the keys of a mapping below each other",
        ),
    ],
)
def test_usual_mistakes_are_told_with_what_to_do(text: str, line: int, hint: str) -> None:
    report = ProblemReport("f")
    assert read_document(text.encode(), report) is None
    (error,) = report.errors
    assert error.line == line
    assert error.why.endswith(hint)


@pytest.mark.parametrize(
    ("octets", "errors"),
    [
        ("a: b".encode("utf-16"), ["f:1: byte order mark: the file is in UTF-16; lists are in UTF-8"]),
        (b"a: b\nc: \xff\nd: \xfe", ["f:2: b'\\xff': not UTF-8 (at octet 3)", "f:3: b'\\xfe': not UTF-8 (at octet 3)"]),
        (
            b"a: " + b"b" * LONGEST_LINE,
            [f"f:1: line: it is longer than {LONGEST_LINE} octets"],
        ),
    ],
)
def test_nothing_is_read_of_a_file_that_is_not_wholly_text(octets: bytes, errors: list[str]) -> None:
    assert read(octets) == (None, errors)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("k" * (LONG - 3) + ": v", id="a key"),
        pytest.param("{" + "k" * (LONG - 9) + ": v}", id="a key in a flow mapping"),
        pytest.param("'" + "k" * (LONG - 9) + "': v", id="a quoted key"),
        pytest.param("? " + "k" * (LONG - 9) + "\n: v", id="an explicit key"),
        pytest.param("\n".join(f"k{number}: v" for number in range(LONG // 8)), id="keys"),
        pytest.param("[" * LONG, id="flow lists"),
        pytest.param("{" * LONG, id="flow mappings"),
        pytest.param("{a: " * (LONG // 4), id="flow mappings of mappings"),
        pytest.param("- " * (LONG // 2), id="lists on a line"),
        pytest.param("? " * (LONG // 2), id="keys of keys"),
        pytest.param("\n".join(" " * depth + "-" for depth in range(350)), id="indented lists"),
        pytest.param("a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", id="a bomb of aliases"),
        pytest.param("\n" * LONG, id="lines"),
        pytest.param("#" * LONG, id="a comment"),
        pytest.param("[" + "a," * (LONG // 2 - 1) + "]", id="items"),
        pytest.param("a: " + '"' + "\\x41" * (LONG // 4 - 2) + '"', id="escapes"),
        pytest.param("a: '" + "''" * (LONG // 2 - 3) + "'", id="quotes"),
        pytest.param("a: |\n" + " x\n" * (LONG // 3), id="a block"),
        pytest.param("%TAG ! x\n" * (LONG // 9), id="directives"),
    ],
)
def test_an_attack_costs_little_time(text: str) -> None:
    assert seconds(lambda: read(text)) < 2


# -- Fields ----------------------------------------------------------------------------------------------------------


def of(text: str, read_field: Callable[[MappingReader], object]) -> tuple[object, list[str]]:
    report = ProblemReport("f")
    node = read_document(text.encode(), report)
    assert node is not None
    value = read_field(MappingReader(node, ("a", "b"), report))
    return value, [str(problem) for problem in report.errors]


@each_row(
    ("text", "value", "errors"),
    [
        ("a: 2026-12-31", date(2026, 12, 31), []),
        ("a: '2026-12-31'", date(2026, 12, 31), []),
        ("b: x", None, []),
        ("a: 31.12.2026", None, ["f:1: a: 31.12.2026: expected a day such as 2026-12-31"]),
        ("a: 2026-02-30", None, ["f:1: a: 2026-02-30: expected a day such as 2026-12-31"]),
        ("a: 2026-12-31T00:00:00", None, ["f:1: a: 2026-12-31T00:00:00: expected a day such as 2026-12-31"]),
        ("a: [2026]", None, ["f:1: a: expected text, not a list"]),
    ],
)
def test_a_day_is_written_as_in_iso_8601(text: str, value: object, errors: list[str]) -> None:
    assert of(text, lambda fields: fields.day("a")) == (value, errors)


@each_row(("text", "number"), [("4", 4), ("032", None), ("32", 32), ("3", None), ("33", None), ("-4", None)])
def test_a_number_lies_between_two_others(text: str, number: int | None) -> None:
    report = ProblemReport("f")
    node = read_document(f"length: {text}".encode(), report)
    assert node is not None
    assert MappingReader(node, ["length"], report).number("length", 4, 32) == number
    expected = [] if number else [f"f:1: length: {text}: expected a number from 4 to 32"]
    assert list(map(str, report.errors)) == expected


def test_nodes_are_kept_as_plain_types() -> None:
    node = read_document(b"a: [x, ~, {}, []]\nb:\n  c: 'null'\n", ProblemReport("p"))
    assert node is not None
    assert YamlNode.of_plain(json.loads(json.dumps(node.as_plain()))) == node
