"""Settings of Sphinx: the guides as they are, the notebooks run, and the reference from the docstrings."""

import os
import tempfile

import hubarray

project = "hubarray"
author = "the hubarray authors"
copyright = f"2026, {author}"
version = release = hubarray.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"

myst_heading_anchors = 3
# Notebooks are kept without outputs, run here against a folder of their own, and shown with what they printed.
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True
_scratch = tempfile.TemporaryDirectory(prefix="hubarray-docs-")
os.environ["HUBARRAY_ROOT"] = f"{_scratch.name}/root"
os.environ["HUBARRAY_CACHE_DIR"] = f"{_scratch.name}/cache"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Without what their constructors take.
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# A type in a docstring, such as "dtype" or "bytes", is also the name of some attributes.
suppress_warnings = ["ref.python"]


def setup(app):
    """Leave out how objects are built: they come from functions."""
    app.connect("autodoc-skip-member", lambda app, what, name, *rest: True if name == "__init__" else None)
