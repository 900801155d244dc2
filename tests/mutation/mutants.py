"""Single changes to a source: each a slip that somebody could make, and that a test should see.

What nobody decides by is left alone: docstrings, annotations, decorators, assertions (``strict`` of ``zip`` is one),
``__repr__``, what is logged, sentences, the words of errors and of a command's help, and what is only for another
platform.
"""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: words for people
_HELP = {"help", "description", "epilog", "metavar"}
_SHOWN = 100
#: so many words are for people
_SENTENCE = 4


@dataclass(frozen=True)
class Mutant:
    """A change of one place in a file; ``start`` and ``end`` are offsets in octets."""

    path: str
    line: int
    start: int
    end: int
    new: str
    #: class and function that it is in; empty at a module's level
    place: str
    #: first and last line of the outermost function that it is in; of the whole module if it is in none
    lines: tuple[int, int]
    #: "before -> after", in one line
    change: str

    @property
    def key(self) -> str:
        """How ``equivalent.txt`` names it: without a line number, which other changes would move."""
        return f"{self.path}:{self.place}: {self.change}"

    def apply(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every change to a source, in the order of its places."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.mutants, key=lambda mutant: (mutant.start, mutant.end, mutant.new))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.mutants: list[Mutant] = []
        self._path, self._source = path, source
        lines = source.splitlines(keepends=True)
        self._starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
        self._names: list[str] = []
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    def _add(self, node: ast.expr | ast.stmt, new: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        lines = (1, len(self._starts))
        if self._functions:
            outermost = self._functions[0]
            first = min([outermost.lineno, *(decorator.lineno for decorator in outermost.decorator_list)])
            lines = (first, outermost.end_lineno or first)
        old = _in_one_line(self._source[start:end].decode())
        change = f"{old} -> {_in_one_line(new)}"
        place = ".".join(self._names)
        self.mutants.append(Mutant(self._path, node.lineno, start, end, new, place, lines, change))

    def _replace(self, node: ast.expr, new: ast.expr) -> None:
        text = ast.unparse(new)
        self._add(node, text if isinstance(new, ast.Constant | ast.Name) else f"({text})")

    # what is left alone

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for people; besides, Python 3.11 does not know the places in it."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """States what is so in any case."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._drop(node)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) == "zip":
            self._visit_all([*node.args])
        else:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _HELP:
            self.generic_visit(node)

    # names

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        self._visit_all(node.body)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        self._names.append(node.name)
        self._functions.append(node)
        self._visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body])
        self._functions.pop()
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _visit_all(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # statements

    def _drop(self, node: ast.stmt) -> None:
        self._add(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _is_logging(node.value):
            return
        if not isinstance(node.value, ast.Yield | ast.YieldFrom):  # without its last one, it is no generator any more
            self._drop(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._drop(node)
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._drop(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._drop(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._drop(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._drop(node)
            return
        returns = self._functions[-1].returns
        if isinstance(returns, ast.Name) and returns.id == "bool" and not isinstance(node.value, ast.Constant):
            self._add(node, f"return not ({ast.unparse(node.value)})")
        elif not isinstance(node.value, ast.Constant):
            self._add(node, "return None")
        self.visit(node.value)

    # conditions

    def _test(self, test: ast.expr) -> None:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.NamedExpr):
            self._replace(test, ast.UnaryOp(ast.Not(), test))

    def visit_If(self, node: ast.If) -> None:
        platform = _of_platform(node.test)
        if platform is not None:  # only the branch of this platform can be tested
            self._visit_all(node.body if platform else node.orelse)
        elif ast.unparse(node.test) != "TYPE_CHECKING":
            self._test(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._test(test)
        self.generic_visit(node)

    # expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        if _of_platform(node) is not None:
            return
        for number, operator in enumerate(node.ops):
            turned = [*node.ops[:number], _COMPARISONS[type(operator)](), *node.ops[number + 1 :]]
            self._replace(node, ast.Compare(node.left, turned, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._replace(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _ARITHMETIC.get(type(node.op))
        if other is not None and not any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)):
            self._replace(node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._replace(node, ast.Constant(not node.value))
            case int() | float():
                self._replace(node, ast.Constant(node.value + 1))
            case str() if len(node.value.split()) < _SENTENCE:
                self._replace(node, ast.Constant(f"{node.value}XX"))
            case bytes():
                self._replace(node, ast.Constant(node.value + b"XX"))


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


def _of_platform(test: ast.expr) -> bool | None:
    """What a comparison of ``sys.platform`` or ``os.name`` gives here; ``None`` for other conditions."""
    if isinstance(test, ast.Compare) and ast.unparse(test.left) in ("sys.platform", "os.name"):
        return bool(eval(ast.unparse(test), {"sys": sys, "os": os}))
    return None


def _is_logging(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger.")
