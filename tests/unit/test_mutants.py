"""The single changes that ``tests/mutation/run.py`` makes."""

from __future__ import annotations

import ast

from documentation import ROOT
from mutation.mutants import mutants_of
from unit.rows import each_row


def changes(source: str) -> list[str]:
    octets = source.encode()
    changed = [mutant.apply(octets).decode() for mutant in mutants_of("some.py", octets)]
    return [text.removeprefix("def f() -> None:\n    ") for text in changed]


@each_row(
    ("source", "expected"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a < b <= c", ["x = (a < b < c)", "x = (a <= b <= c)"]),
        ("x = a and not b", ["x = (a or not b)", "x = a and b"]),
        ("x = a + 7", ["x = (a - 7)", "x = a + 8"]),
        ("x = 'ä' in y", ["x = ('ä' not in y)", "x = 'äXX' in y"]),
        ("if a:\n    b()", ["if (not a):\n    b()", "if a:\n    pass"]),
        ("x = [a for a in b if c]", ["x = [a for a in b if (not c)]"]),
        ("a.b = c", ["pass"]),
        ("a += b", ["pass"]),
        ("raise ValueError('words')", ["pass"]),
        ("def f() -> None:\n    return g(1)", ["return None", "return g(2)"]),
        ("def f() -> bool:\n    return g()", ["def f() -> bool:\n    return not (g())"]),
        ("x = g(a, help='words', most=True)", ["x = g(a, help='words', most=False)"]),
    ],
)
def test_a_change_is_a_slip_in_one_place(source: str, expected: list[str]) -> None:
    assert sorted(changes(source)) == sorted(expected)


@each_row(
    "source",
    [
        '"""Words."""',
        "def f(a: Literal['b']) -> Literal['c']:\n    'Words.'",
        "assert a == 1",
        "x = zip(a, b, strict=True)",
        "logger.info('words', 1)",
        "x = f'words {1}'",
        "@d(1)\nclass C:\n    def __repr__(self):\n        return 'words'",
        "__all__ = ['a']",
        "x = 'words of a sentence'",
        "if TYPE_CHECKING:\n    a(1)",
        "if sys.platform == 'another':\n    a(1)",
    ],
)
def test_what_nobody_decides_by_is_left_alone(source: str) -> None:
    assert changes(source) == []


def test_every_change_of_a_module_is_another_program() -> None:
    source = (ROOT / "addon" / "hushlist" / "core" / "match" / "expressions.py").read_bytes()
    changed = [ast.dump(ast.parse(mutant.apply(source))) for mutant in mutants_of("expressions.py", source)]
    assert len(changed) > 20
    assert len({ast.dump(ast.parse(source)), *changed}) == 1 + len(changed)
