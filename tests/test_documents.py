"""The documents say what is so."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hubarray as hub
from hubarray import errors

REPOSITORY = Path(__file__).parents[1]


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


@pytest.mark.parametrize("document", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/FORMAT.md"])
def test_links_to_files_lead_somewhere(document):
    path = REPOSITORY / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_for_newcomers_are_there(document):
    named = re.findall(r"`([\w/]+(?:\.py|\.cfg|\.md|/))`", (REPOSITORY / document).read_text())
    assert len(named) > 20
    package = REPOSITORY / "hubarray"
    places = [REPOSITORY, package, REPOSITORY / "docs", *package.iterdir(), *(REPOSITORY / "tests").iterdir()]
    assert [one for one in named if not any((place / one).exists() for place in places)] == []


def test_the_reference_has_every_public_name():
    named = re.findall(r"^\.\. auto\w+:: (\w+)$", (REPOSITORY / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(hub.__all__)


def test_every_runtime_dependency_has_its_reason():
    """setup.cfg and docs/decisions/0001-dependencies.md name the same packages."""
    wanted = re.search(r"install_requires =\n((?: {4}.*\n)+)", (REPOSITORY / "setup.cfg").read_text())
    assert wanted is not None
    packages = re.findall(r"^ {4}([a-z0-9]+)", wanted.group(1), re.MULTILINE)
    reasons = (REPOSITORY / "docs" / "decisions" / "0001-dependencies.md").read_text()
    headings = " ".join(re.findall(r"\*\*([^*]+)\.\*\*", reasons))
    assert packages
    assert [package for package in packages if package not in headings] == []


def test_the_glossary_has_every_word_of_the_tree():
    text = (REPOSITORY / "docs" / "FORMAT.md").read_text()
    for word in ("pack", "manifest", "record", "hint", "referrer", "overlay", "line", "generation", "stub"):
        assert re.search(rf"^\| {word} \|", text, re.MULTILINE), word


def test_every_error_has_its_cause_and_remedy():
    named = re.findall(r"^\| `(\w+)` \|", (REPOSITORY / "docs" / "errors.md").read_text(), re.MULTILINE)
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, hub.HubError)]
    assert sorted(named) == sorted(one.__name__ for one in classes if one is not hub.HubError)


def test_the_first_steps_run(tmp_path, isolated):
    names = {"hub": hub}
    text = (REPOSITORY / "docs" / "getting-started.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(code, names)
    names["a"] = hub.array(3, "t/counts:v0", "i8")
    (example,) = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "docs" / "errors.md").read_text(), re.M | re.S)
    exec(example, names)
    assert names["a"][0] == 1


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
