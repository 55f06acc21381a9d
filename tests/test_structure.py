"""What the tree promises: nobody reaches into what another module keeps to itself."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hubarray"
FILES = sorted(PACKAGE.rglob("*.py"))
# What other packages have no public name for.
OF_OTHERS = {
    "_actions", "_choices_actions", "_SubParsersAction",  # argparse, which lists its options nowhere else
    "_strip_protocol", "_rm_file",  # fsspec, whose filesystems are written with them
    "_meta",  # Dask
    "_Unpickler",  # pickle, whose public one has opcodes that cannot be changed
    "_fields", "_make", "_replace",  # namedtuple, whose names are public
}  # fmt: skip


def _own_names(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and _is_self(node.value):
            yield node.attr


def _is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[path.parts.index("hubarray") :]))
def test_private_names_are_used_where_they_are_defined(path):
    tree = ast.parse(path.read_text())
    allowed = {*_own_names(tree), *OF_OTHERS}
    found = [
        f"{path.name}:{node.lineno} {node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not _is_self(node.value)
        and node.attr not in allowed
    ]
    assert found == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[path.parts.index("hubarray") :]))
def test_a_docstring_names_its_thing_first(path):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented))
    assert [text for node in nodes if (text := ast.get_docstring(node) or "").startswith("What ")] == []


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("viewer/static/*.*")), ids=lambda path: path.name)
def test_no_line_of_the_page_is_longer_than_120(path):
    assert [n for n, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120] == []
