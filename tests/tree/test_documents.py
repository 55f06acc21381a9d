"""The documents agree with the tree: links lead somewhere, tests and files that are named exist, lists are whole."""

import configparser
import functools
import re
from pathlib import Path

import pytest

import hubarray as hub
from hubarray import errors
from tests.public_api import MODULES, public_names

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = [
    *(Path(name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")),
    *(
        path.relative_to(REPOSITORY)
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        if "_build" not in path.parts
    ),
]


@pytest.mark.parametrize("document", ["docs/reliability.md", "docs/security.md"])
def test_every_promise_names_a_test_that_exists(document):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (REPOSITORY / document).read_text())
    assert len(named) > 20
    for file, function in named:
        assert f"def {function}(" in (REPOSITORY / file).read_text(), f"{file}::{function}"


def test_every_file_of_tests_that_a_document_names_is_there():
    documents = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {file for path in documents for file in re.findall(r"\btests/[\w/]+\.py", path.read_text())}
    assert len(named) > 30
    assert sorted(file for file in named if not (REPOSITORY / file).exists()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere_and_have_words(document):
    path = REPOSITORY / document
    for words, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", without_code(path.read_text())):
        assert words, f"{target}: shown as nothing where pages are not built"
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target


def without_code(text):
    return re.sub(r"`[^`\n]*`", "code", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text):
    """What stands after # in links to the headings of a page, as GitHub and the built pages have it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_those_of_the_headings():
    assert anchors("# One\n\n```\n# not one\n```\n## What `a[0]`, and why\n") == {"one", "what-a0-and-why"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_no_line_is_longer_than_120_but_rows_of_tables_and_single_words(document):
    lines = (REPOSITORY / document).read_text().splitlines()
    breakable = {i: line for i, line in enumerate(lines, 1) if not line.startswith("|") and len(line.split()) > 1}
    assert {i: line for i, line in breakable.items() if len(line) > 120} == {}


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_for_newcomers_are_there(document):
    named = re.findall(r"`([\w/]+(?:\.py|\.cfg|\.md|/))`", (REPOSITORY / document).read_text())
    assert len(named) > 20
    package = REPOSITORY / "hubarray"
    places = [REPOSITORY, package, REPOSITORY / "docs", *package.iterdir(), *(REPOSITORY / "tests").iterdir()]
    assert [item for item in named if not any((place / item).exists() for place in places)] == []


def _layers(contract):
    """The layers of a contract of import-linter, as sets of packages that may stand beside each other."""
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    lines = setup[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [set(re.findall(r"\w+", line)) for line in lines if line and not line.startswith("#")]


def test_the_architecture_shows_the_packages_that_the_linter_holds():
    rows = re.findall(r"^\| (`.*?) \| (.*?) ?\|", (REPOSITORY / "docs" / "architecture.md").read_text(), re.MULTILINE)
    rows = rows[: len(_layers("layers"))]
    assert [set(re.findall(r"`(\w+)`", names)) for names, _ in rows] == _layers("layers")
    for names, inside in rows:
        if inside:
            package = (re.findall(r"`(\w+)`: ", inside) or re.findall(r"`(\w+)`", names))[0]
            shown = [set(re.findall(r"`(\w+)`", layer)) for layer in inside.removeprefix(f"`{package}`: ").split(";")]
            folders = {path.name for path in (REPOSITORY / "hubarray" / package).iterdir() if path.is_dir()}
            held = [layer if package == "api" else layer & folders for layer in _layers(package)]
            assert shown == [layer for layer in held if layer]


def test_the_reference_has_every_public_name():
    pattern = r"^\.\. auto\w+:: (?:hubarray\.)?((?:(?:errors|petastorm|results)\.)?\w+)$"
    named = re.findall(pattern, (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE)
    expected = [
        f"{module.__name__}.{name}".removeprefix("hubarray.") for module in MODULES for name in public_names(module)
    ]
    assert sorted(named) == sorted(expected)


def test_the_reference_has_every_method_of_an_array_once():
    named = re.findall(
        r"^\.\. auto\w+:: Array\.([a-z]\w*)$", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE
    )
    # For code that works on records and chunks, which no user's does.
    inside = {"state", "newest_state", "seen_record", "commit_operation", "view_of_workers"}
    assert sorted(named) == [name for name in dir(hub.Array) if not name.startswith("_") and name not in inside]


def test_every_runtime_dependency_has_its_reason():
    """setup.cfg and docs/decisions/0001-dependencies.md name the same packages."""
    expected = re.search(r"install_requires =\n((?: {4}.*\n)+)", (REPOSITORY / "setup.cfg").read_text())
    assert expected is not None
    packages = re.findall(r"^ {4}([a-z0-9]+)", expected.group(1), re.MULTILINE)
    reasons = (REPOSITORY / "docs" / "decisions" / "0001-dependencies.md").read_text()
    headings = " ".join(re.findall(r"\*\*([^*]+)\.\*\*", reasons))
    assert packages
    assert [package for package in packages if package not in headings] == []


def test_decisions_are_numbered_without_a_gap_and_the_index_has_each_by_its_title():
    folder = REPOSITORY / "docs" / "decisions"
    index = (folder / "index.md").read_text()
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        assert title.startswith(f"{number}. ")
        assert f"* [{title}]({page.name})\n" in index
        assert f"\n{page.stem}\n" in index


def test_the_glossary_has_every_word_of_the_tree():
    text = (REPOSITORY / "docs" / "FORMAT.md").read_text()
    for word in ("pack", "manifest", "record", "hint", "referrer", "overlay", "line", "generation", "stub"):
        assert re.search(rf"^\| {word} \|", text, re.MULTILINE), word


def test_every_error_has_its_cause_and_remedy_as_its_class_says_them():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", (REPOSITORY / "docs" / "errors.md").read_text(), re.MULTILINE)
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, hub.HubError)]
    said = {item.__name__: (item.__doc__.split("\n")[0].removesuffix("."), item.remedy) for item in classes}
    del said["HubError"]
    assert {name: (cause[0].upper() + cause[1:], remedy) for name, cause, remedy in _plain(rows)} == {
        name: (cause.replace("`", ""), remedy) for name, (cause, remedy) in said.items()
    }


def _plain(rows):
    return [[cell.replace("`", "") for cell in row] for row in rows]


def test_the_contents_have_every_page_in_the_list_and_in_the_tree():
    docs = REPOSITORY / "docs"
    text = (docs / "index.md").read_text()
    listed = re.findall(r"^\* \[[^\]]+\]\(([^)]+)\.md\)", text, re.MULTILINE)
    tree = re.findall(r"^([\w/-]+)$", text, re.MULTILINE)
    # What one begins with is shown as a tree, because links do not follow the folder of notebooks, which is one.
    assert tree == ["getting-started", *(item for item in tree if item.startswith("notebooks/")), *listed]
    pages = {str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md") if "_build" not in path.parts}
    notebooks = {f"notebooks/{path.stem}" for path in (REPOSITORY / "notebooks").glob("*.ipynb")}
    decisions = {page for page in pages if page.startswith("decisions/0")}
    assert set(tree) == (pages | notebooks) - decisions - {"index"}


# As conda-forge calls them.
CONDA_NAMES = {"dask": "dask-core", "xxhash": "python-xxhash"}


def test_the_version_is_the_same_wherever_it_is_written():
    recipe = (REPOSITORY / "recipe" / "meta.yaml").read_text()
    citation = (REPOSITORY / "CITATION.cff").read_text()
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    assert re.search(r'version = "([^"]+)"', recipe).group(1) == hub.__version__
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == hub.__version__
    assert re.search(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE).group(1) == hub.__version__


def test_the_recipe_of_conda_wants_what_setup_cfg_wants():
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg")
    expected = re.findall(r"^([\w-]+)(.*)$", settings["options"]["install_requires"].strip(), re.MULTILINE)
    recipe = (REPOSITORY / "recipe" / "meta.yaml").read_text()
    run = re.findall(r"^    - ([\w-]+) ?(.*)$", recipe.partition("  run:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert run[0] == ("python", settings["options"]["python_requires"])
    assert run[1:] == [(CONDA_NAMES.get(name, name), bound) for name, bound in expected]


def test_an_entry_of_the_changelog_is_one_line():
    lines = (REPOSITORY / "CHANGELOG.md").read_text().partition("## [")[2].splitlines()
    assert [line for line in lines if line.startswith(" ")] == []


def test_a_decision_has_the_same_four_headings_as_the_others():
    expected = ["Decided.", "Why.", "Rejected.", "What follows."]
    # The first is a list of packages, each with its reason.
    for path in sorted((REPOSITORY / "docs" / "decisions").glob("0*.md"))[1:]:
        assert re.findall(r"^\*\*([A-Z][a-z ]+\.)\*\*", path.read_text(), re.MULTILINE) == expected, path.name


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_every_public_name_in_the_documents_is_there():
    names = set()
    for document in DOCUMENTS:
        if document.name != "CHANGELOG.md" and "decisions" not in document.parts:
            names |= set(re.findall(r"`(hub(?:\.[A-Za-z_]\w*)+)", (REPOSITORY / document).read_text()))
    assert len(names) > 60
    for name in sorted(names):
        result = functools.reduce(getattr, name.split(".")[1:], hub)
        assert result is not None, name
