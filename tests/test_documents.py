"""The documents say what is so."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def test_every_promise_names_a_test_that_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (REPOSITORY / "docs" / "reliability.md").read_text())
    assert len(named) > 30
    for file, function in named:
        assert f"def {function}(" in (REPOSITORY / file).read_text(), f"{file}::{function}"


@pytest.mark.parametrize("document", ["README.md", "CHANGELOG.md", "docs/FORMAT.md"])
def test_links_to_files_lead_somewhere(document):
    path = REPOSITORY / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


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
