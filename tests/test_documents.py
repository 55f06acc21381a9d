"""The documents say what is so."""

import ast
import configparser
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from hubarray import errors
from hubarray.cli.main import main
from tests.servers import ACCESS_KEY, SECRET_KEY

REPOSITORY = Path(__file__).parents[1]
HOW_TOS = sorted((REPOSITORY / "docs" / "how-to").glob("*.md"))
COMING_FROM = sorted((REPOSITORY / "docs" / "coming-from").glob("*.md"))
DOCUMENTS = [
    *(Path(name) for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(
        path.relative_to(REPOSITORY)
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        if "_build" not in path.parts
    ),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
    assert [one for one in named if not any((place / one).exists() for place in places)] == []


def _layers(contract):
    """The layers of a contract of import-linter, as sets of packages that may stand beside each other."""
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg")
    lines = setup[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [set(re.findall(r"\w+", line)) for line in lines if line and not line.startswith("#")]


def test_the_architecture_shows_the_packages_that_the_linter_holds():
    rows = re.findall(r"^\| (`.*?) \| (.*?) ?\|", (REPOSITORY / "docs" / "architecture.md").read_text(), re.MULTILINE)
    rows = rows[: next(i for i, (name, _) in enumerate(rows) if "`names`" in name) + 6]
    assert [set(re.findall(r"`(\w+)`", names)) for names, _ in rows] == _layers("layers")
    for names, inside in rows:
        if inside:
            package = (re.findall(r"`(\w+)`: ", inside) or re.findall(r"`(\w+)`", names))[0]
            shown = [set(re.findall(r"`(\w+)`", layer)) for layer in inside.removeprefix(f"`{package}`: ").split(";")]
            folders = {path.name for path in (REPOSITORY / "hubarray" / package).iterdir() if path.is_dir()}
            held = [layer if package == "api" else layer & folders for layer in _layers(package)]
            assert shown == [layer for layer in held if layer]


def test_the_reference_has_every_public_name():
    named = re.findall(r"^\.\. auto\w+:: (\w+)$", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(hub.__all__)


def test_the_reference_has_every_method_of_an_array_once():
    named = re.findall(
        r"^\.\. auto\w+:: Array\.([a-z]\w*)$", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE
    )
    # For code that works on records and chunks, which no user's does.
    inside = {"state", "newest_state", "seen_record", "commit_operation", "view_of_workers"}
    assert sorted(named) == [name for name in dir(hub.Array) if not name.startswith("_") and name not in inside]


def test_every_runtime_dependency_has_its_reason():
    """setup.cfg and docs/decisions/0001-dependencies.md name the same packages."""
    wanted = re.search(r"install_requires =\n((?: {4}.*\n)+)", (REPOSITORY / "setup.cfg").read_text())
    assert wanted is not None
    packages = re.findall(r"^ {4}([a-z0-9]+)", wanted.group(1), re.MULTILINE)
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
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, hub.HubError)]
    said = {one.__name__: (one.__doc__.split("\n")[0].removesuffix("."), one.remedy) for one in classes}
    del said["HubError"]
    assert {name: (cause[0].upper() + cause[1:], remedy) for name, cause, remedy in _plain(rows)} == {
        name: (cause.replace("`", ""), remedy) for name, (cause, remedy) in said.items()
    }


def _plain(rows):
    return [[cell.replace("`", "") for cell in row] for row in rows]


def test_the_first_steps_run(tmp_path, isolated):
    names = {"hub": hub}
    text = (REPOSITORY / "docs" / "getting-started.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(code, names)
    names["a"] = hub.array(3, "t/counts:v0", "i8")
    (example,) = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "docs" / "errors.md").read_text(), re.M | re.S)
    exec(example, names)
    assert names["a"][0] == 1


def test_the_code_of_the_page_on_tables_runs(capsys):
    names = {}
    text = (REPOSITORY / "docs" / "tables.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/tables.md", "exec"), names)
    assert "50 rows added" in capsys.readouterr().out
    assert names["usage"].shared > 0
    assert [len(one) for one in names["words"]] == [0, 1, 2, 3, 4]
    assert len(names["records"]) == 25


def test_the_code_of_the_page_on_datasets_runs(capsys):
    names = {}
    text = (REPOSITORY / "docs" / "datasets.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/datasets.md", "exec"), names)
    names["reader"].stop()
    names["reader"].join()
    assert "label: [0:10]" in capsys.readouterr().out
    assert names["ds"]["label"][3] == 1
    assert list(names["ds"]) == ["image", "label", "weight", "boxes"]


@pytest.mark.parametrize("document", ["docs/training.md", "docs/scale.md"])
def test_the_code_of_the_guides_runs(document, tmp_path, monkeypatch):
    import tensorflow as tf
    import xarray
    import zarr

    import hubarray as hub

    monkeypatch.chdir(tmp_path)
    images = hub.import_(np.random.default_rng(0).random((320, 4, 4), np.float32), "lab/images:v1")
    labels = hub.import_(np.arange(320) % 10, "lab/labels:v1")
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    hub.import_(np.random.default_rng(1).random((1000, 8, 8), np.float32), "lab/scans:v1")
    with ThreadPoolExecutor(4) as pool:
        names = {"hub": hub, "images": images, "labels": labels, "model": model, "zarr": zarr, "xarray": xarray}
        names |= {"a": images, "pool": pool, "load_samples": lambda i: np.full((100, 8, 8), i, np.float32)}
        blocks = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / document).read_text(), re.MULTILINE | re.DOTALL)
        assert len(blocks) >= 2
        try:
            for i, code in enumerate(blocks):
                exec(compile(code, f"{document}, block {i + 1}", "exec"), names)
        finally:
            if "client" in names:
                names["client"].close()
                names["cluster"].close()
    if "scans" in names:
        assert hub.load("lab/scans:v1")[905, 0, 0] == 9
        assert abs(float(hub.load("lab/scans:normalized").mean())) < 1e-4


@pytest.fixture
def buckets(s3_server, monkeypatch):
    """A reader's own buckets, with credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("ARCHIVE_KEY", ACCESS_KEY)
    monkeypatch.setenv("ARCHIVE_SECRET", SECRET_KEY)
    for bucket in ("our-bucket", "other-bucket", "archive-bucket"):
        # SeaweedFS makes a bucket when an administrator first writes to it.
        hub.Root(f"s3://{bucket}").store.put("ready", b"1")


def run_as_it_stands(page, text, names):
    """Python and the command line, in order; a comment that begins with a value says what the line gives."""
    for i, (language, code) in enumerate(BLOCK.findall(text)):
        if language == "sh":
            for line in code.splitlines():
                words = line.partition("#")[0].split()
                assert words[0] == "hubarray"
                # Whoever asks for differences is told of them by 3.
                assert main(words[1:]) == (3 if words[1] == "diff" else 0), line
        if language != "python":
            continue
        lines = code.splitlines()
        for node in ast.parse(code).body:
            where = f"{page}, block {i + 1}, line {node.lineno}"
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), where, "exec"), names)
                continue
            given = eval(compile(ast.Expression(node.value), where, "eval"), names)
            said = value_said(lines[node.end_lineno - 1][node.end_col_offset :])
            assert not said or given == said[0], f"{where}: gives {given}"


def value_said(comment):
    """The value that a comment begins with, in a list; none of a comment in words."""
    text = comment.strip().removeprefix("#").strip()
    for end in [len(text), *(found.start() for found in reversed(list(re.finditer(r"[,:;]", text))))]:
        try:
            return [eval(text[:end], {"__builtins__": {"slice": slice}})]
        except (SyntaxError, NameError, TypeError):
            continue
    return []


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_the_code_of_the_how_tos_runs_and_gives_what_its_comments_say(page, buckets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text().replace("-bucket/hub", f"-bucket/{page.stem}")
    if page.stem in ("train-from-a-bucket", "frameworks"):
        hub.configure(root=f"s3://our-bucket/{page.stem}")
        hub.import_(np.random.default_rng(0).random((320, 4, 4), np.float32), "lab/images:v1")
        hub.import_(np.arange(320) % 10, "lab/labels:v1")
        # A server of forks that another test began does not have the variables of this one.
        text = text.replace('"forkserver")', '"spawn")')
    run_as_it_stands(page.name, text, {"__name__": "reader"})


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_the_code_for_those_who_come_from_elsewhere_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A column of Deep Lake gives NumPy arrays by rows and slices, and has a length.
    column = np.random.default_rng(0).integers(0, 255, (600, 4, 4, 3), np.uint8)
    names = {"__name__": "reader", "column": column}
    run_as_it_stands(page.name, page.read_text(), names)
    if page.stem == "deeplake":
        assert (names["images"][...] == column).all()
        assert (names["growing"][...] == column).all()


def test_the_contents_have_every_page_in_the_list_and_in_the_tree():
    docs = REPOSITORY / "docs"
    text = (docs / "index.md").read_text()
    listed = re.findall(r"^\* \[[^\]]+\]\(([^)]+)\.md\)", text, re.MULTILINE)
    tree = re.findall(r"^([\w/-]+)$", text, re.MULTILINE)
    # What one begins with is shown as a tree, because links do not follow the folder of notebooks, which is one.
    assert tree == ["getting-started", *(one for one in tree if one.startswith("notebooks/")), *listed]
    pages = {str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md") if "_build" not in path.parts}
    notebooks = {f"notebooks/{path.stem}" for path in (REPOSITORY / "notebooks").glob("*.ipynb")}
    decisions = {one for one in pages if one.startswith("decisions/0")}
    assert set(tree) == (pages | notebooks) - decisions - {"index"}


def test_the_counts_of_the_performance_guide_are_there(capsys):
    photos = hub.array((64, 8), "lab/photos:v1")
    photos[:] = 1
    run_as_it_stands(
        "performance.md", (REPOSITORY / "docs" / "performance.md").read_text(), {"hub": hub, "photos": photos}
    )
    assert "requests" in capsys.readouterr().out


def test_what_a_comment_says_is_told_from_words():
    assert value_said("  # (2, 1): two commits") == [(2, 1)]
    assert value_said("# {'paper': 3}; hub.untag takes it away") == [{"paper": 3}]
    assert value_said("# exact, in memory") == value_said("# newest first") == value_said("") == []
