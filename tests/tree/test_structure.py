"""What the tree promises: imports without a cycle, names that mean one thing, and private names that stay private."""

import ast
import builtins
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "hubarray"
FILES = sorted(PACKAGE.rglob("*.py"))
# What other packages have no public name for.
OF_OTHERS = {
    "_actions", "_choices_actions", "_SubParsersAction",  # argparse, which lists its options nowhere else
    "_get_kwargs_from_urls", "_strip_protocol", "_rm_file",  # fsspec, whose filesystems are written with them
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


def _parsed():
    for path in FILES:
        yield "/".join(path.parts[path.parts.index("hubarray") :]), ast.parse(path.read_text())


def test_private_names_are_used_where_they_are_defined():
    result = []
    for name, tree in _parsed():
        allowed = {*_own_names(tree), *OF_OTHERS}
        result += [
            f"{name}:{node.lineno} {node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and not _is_self(node.value)
            and node.attr not in allowed
        ]
    assert result == []


def test_a_docstring_names_its_thing_first():
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ((name, node) for name, tree in _parsed() for node in ast.walk(tree) if isinstance(node, documented))
    assert [name for name, node in nodes if (ast.get_docstring(node) or "").startswith("What ")] == []


def test_no_line_of_the_page_is_longer_than_120():
    lines = ((path.name, line) for path in PACKAGE.glob("viewer/static/*.*") for line in path.read_text().splitlines())
    assert [name for name, line in lines if len(line) > 120] == []


def _module(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path) for path in FILES}


def _imported(tree):
    """Modules that a file imports anywhere but for type checking, and those that a string names to be imported."""
    checked_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in checked_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0] if "." in node.value else ""


def test_imports_have_no_cycle_with_those_in_functions_and_names_in_strings():
    graph = {}
    for path in FILES:
        module = _module(path)
        # Old names of modules are there to be found in pickles.
        if module not in ("hubarray.moved", "hubarray.__main__"):
            graph[module] = {name for name in _imported(ast.parse(path.read_text())) if name in MODULES} - {module}
    assert dict(_cycles(graph)) == {}


def _cycles(graph):
    """Modules that stay when those that import nothing of the rest are taken away again and again."""
    while leaves := [module for module, imported in graph.items() if not imported & graph.keys()]:
        for module in leaves:
            del graph[module]
    # And those that nothing of the rest imports: what stays lies on a cycle, or between two.
    while roots := [module for module in graph if not any(module in graph[other] for other in graph)]:
        for module in roots:
            del graph[module]
    yield from graph.items()


# What means the same wherever it stands: the handle of a kind, its differences, the readers of a framework.
SHARED_FILES = {
    "arrays", "attributes", "base", "datasets", "diff", "frames", "handle", "kind", "loader", "merge", "metadata",
    "operations", "parquet", "readers", "rows", "snapshot", "source", "staging", "statistics", "store", "streams",
    "tables", "transaction", "versions", "windows", "worker",
}  # fmt: skip
# Its modules and classes have the names of Petastorm's.
DROP_IN = PACKAGE / "petastorm"


def test_no_class_and_no_file_name_is_there_twice_unless_it_means_the_same():
    files = [path for path in FILES if DROP_IN not in path.parents and path.name != "__init__.py"]
    classes = Counter(
        node.name for path in files for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    stems = Counter(path.stem for path in files)
    assert [name for name, count in classes.items() if count > 1] == []
    assert {stem for stem, count in stems.items() if count > 1} <= SHARED_FILES


def test_no_error_message_has_a_line_break():
    """HubError shows them escaped, because names from a bucket may have some."""
    breaks = [
        f"{name}:{constant.lineno}"
        for name, tree in _parsed()
        for call in ast.walk(tree)
        if isinstance(call, ast.Raise)
        for constant in ast.walk(call)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and "\n" in constant.value
    ]
    assert breaks == []


def _described_parameters(docstring):
    """The names under Parameters in a docstring of numpydoc."""
    section = docstring.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def test_docstrings_describe_parameters_that_a_function_has():
    others = []
    for name, tree in _parsed():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            arguments = function.args
            # Some describe the options that they pass on.
            if arguments.kwarg is None or arguments.kwarg.arg != "options":
                every = (
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    arguments.vararg,
                    arguments.kwarg,
                )
                described = _described_parameters(ast.get_docstring(function) or "")
                own = {argument.arg for argument in every if argument is not None}
                others += [f"{name}:{function.lineno} {other}" for other in sorted(described - own)]
    assert others == []


# What a field of a docstring may be that no file of the package makes or imports.
FOREIGN_TYPES = {"Arrow", "DataFrame", "Figure", "Lock", "Semaphore", "Struct", "Timedelta"}
TYPE_LINE = re.compile(r"^ *[\w*, ]+ : (.+)$", re.MULTILINE)


def _names_made(tree):
    """The names that a file makes or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_types_in_docstrings_exist():
    trees = list(_parsed())
    known = FOREIGN_TYPES.union(dir(builtins), *(_names_made(tree) for _, tree in trees))
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    unknown = []
    for name, tree in trees:
        for node in (node for node in ast.walk(tree) if isinstance(node, documented)):
            for line in TYPE_LINE.findall(ast.get_docstring(node) or ""):
                # Quoted values and names within a package of others are not ours.
                plain = re.sub(r'"[^"]*"|[\w.]+\.\w+', "", line)
                unknown += [f"{name}:{node.lineno} {word}" for word in re.findall(r"\b[A-Z][a-z]\w*", plain)
                            if word not in known]  # fmt: skip
    assert unknown == []


def test_no_assertion_of_the_tests_is_a_list_of_answers():
    """A list of one answer is true, whatever the answer is."""
    answers = (ast.Call, ast.Compare, ast.BoolOp)
    lists = [
        f"{path}:{node.lineno}"
        for path in sorted((PACKAGE.parent / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.ListComp) and isinstance(node.test.elt, answers)
    ]
    assert lists == []
