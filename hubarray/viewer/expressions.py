"""Filters as people write them, such as ``speed > 3 and camera == "front"``: read by a whitelist, never run. Pure."""

from __future__ import annotations

import ast
import itertools
import re
from typing import Any

from hubarray.errors import ConfigError

MAX_LETTERS = 1000
_MAX_CLAUSES = 64
# Before those are dropped of which another one asks for less.
_MAX_COMBINED = 1024
_TOO_MANY = f"the filter means more than {_MAX_CLAUSES} alternatives; write a simpler one"
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
_OPPOSITE = {
    "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in",
    "is null": "is valid", "is valid": "is null",
}  # fmt: skip
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
# Text between quotes is left as it is.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`([^`]{1,200})`""")

Clause = tuple[str, str, Any]


def clauses_of(text: str) -> list[list[Clause]]:
    """The conditions of an expression: rows pass where all of any of the lists hold.

    Parameters
    ----------
    text : str
        Comparisons of fields with values, ``and``, ``or``, ``not``, ``in``, brackets; ``&``, ``|`` and ``~`` as in
        pandas; ``is None`` for what is missing; names that Python would not read in backticks.

    Raises
    ------
    ConfigError
        It is something else, or means too many conditions.

    Examples
    --------
    >>> clauses_of('speed > 3 and camera.side in ["left", "right"]')
    [[('speed', '>', 3), ('camera.side', 'in', ['left', 'right'])]]
    >>> clauses_of("not x > 5"), clauses_of("note is None")
    ([[('x', '<=', 5)], [('x', 'is nan', None)]], [[('note', 'is null', None)]])
    """
    if len(text) > MAX_LETTERS:
        raise ConfigError(f"the filter has {len(text):,} letters, and {MAX_LETTERS:,} are read")
    quoted: dict[str, str] = {}

    prefix = "quoted"
    while prefix in text:
        prefix += "_"

    def stand_in(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return match.group(0)
        name = f"{prefix}{len(quoted)}"
        quoted[name] = match.group(1)
        return name

    try:
        tree = ast.parse(_QUOTED.sub(stand_in, text).strip(), mode="eval")
        return _Reader(quoted).any_of(tree.body, negated=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"{text[:200]!r} is not a filter: write such as  speed > 3 and camera == 'front'") from None


class _Reader:
    def __init__(self, quoted: dict[str, str]) -> None:
        self._quoted = quoted

    def any_of(self, node: ast.expr, *, negated: bool) -> list[list[Clause]]:
        """A condition as alternatives, each of clauses that all hold."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            return self.any_of(node.operand, negated=not negated)
        if isinstance(node, ast.BoolOp):
            return self._joined(node.values, isinstance(node.op, ast.And), negated)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return self._joined([node.left, node.right], isinstance(node.op, ast.BitAnd), negated)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            each = [
                self._alternatives(left, operation, right, negated)
                for left, operation, right in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return _product(each) if not negated else [clauses for alternatives in each for clauses in alternatives]
        if isinstance(node, (ast.Name, ast.Attribute)):
            return [[(self._field(node), "==", not negated)]]
        raise ConfigError("a filter is made of comparisons, such as  speed > 3 and camera == 'front'")

    def _alternatives(self, left: ast.expr, operation: ast.cmpop, right: ast.expr, negated: bool) -> list[list[Clause]]:
        """A comparison; of one that is negated also NaN, of which no comparison is true."""
        clause = self._clause(left, operation, right, negated)
        is_order = negated and clause[1] in ("<", "<=", ">", ">=")
        return [[clause], [(clause[0], "is nan", None)]] if is_order else [[clause]]

    def _joined(self, nodes: list[ast.expr], is_and: bool, negated: bool) -> list[list[Clause]]:
        each = [self.any_of(node, negated=negated) for node in nodes]
        if is_and != negated:
            return _product(each)
        return _bounded([clauses for alternatives in each for clauses in alternatives])

    def _clause(self, left: ast.expr, operation: ast.cmpop, right: ast.expr, negated: bool) -> Clause:
        word = _COMPARISONS.get(type(operation))
        if word is None:
            raise ConfigError("a filter compares with ==, !=, <, <=, >, >=, in and not in")
        if isinstance(left, (ast.Name, ast.Attribute)):
            field, value = self._field(left), _value(right)
        elif word in _TURNED:
            field, value, word = self._field(right), _value(left), _TURNED[word]
        else:
            raise ConfigError("a filter asks whether a field is in a list of values")
        if value is None or isinstance(operation, (ast.Is, ast.IsNot)):
            if value is not None or word not in ("==", "!="):
                raise ConfigError("None is compared with is, is not, == and !=, and nothing else with is")
            word = "is null" if word == "==" else "is valid"
        if word in ("in", "not in") and not isinstance(value, list):
            raise ConfigError("in takes a list of values, such as  camera in ['left', 'right']")
        return field, _OPPOSITE[word] if negated else word, value

    def _field(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{self._field(node.value)}.{node.attr}"
        if isinstance(node, ast.Name):
            return self._quoted.get(node.id, node.id)
        raise ConfigError("a filter compares a field with a value: one side is the name of a field")


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [_value(element) for element in node.elts]
        if not any(value is None or isinstance(value, list) for value in values):
            return values
    raise ConfigError(
        "a filter compares with plain values: numbers, text, True or False, and lists of them; or  x is None"
    )


def _product(each: list[list[list[Clause]]]) -> list[list[Clause]]:
    result: list[list[Clause]] = [[]]
    for alternatives in each:
        if len(result) * len(alternatives) > _MAX_COMBINED:
            raise ConfigError(_TOO_MANY)
        result = _bounded([clauses + other for clauses, other in itertools.product(result, alternatives)])
    return result


def _bounded(alternatives: list[list[Clause]]) -> list[list[Clause]]:
    """Alternatives without those of which another one asks for less."""
    # By how they are written, as 1 and True are equal.
    each = [{repr(clause): clause for clause in clauses} for clauses in alternatives]
    least: list[dict[str, Clause]] = []
    for clauses in sorted(each, key=len):
        if not any(other.keys() <= clauses.keys() for other in least):
            least.append(clauses)
    if len(least) > _MAX_CLAUSES:
        raise ConfigError(_TOO_MANY)
    return [list(clauses.values()) for clauses in each if any(clauses is other for other in least)]
