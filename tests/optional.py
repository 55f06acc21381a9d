"""Packages that ``make test-newest`` does without: they are imported where a test uses them, so that all tests are
found without them."""

import importlib


class Optional:
    """A module that is imported when an attribute of it is looked up.

    Examples
    --------
    >>> Optional("math").sqrt(4)
    2.0
    """

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            # pytest asks every name of a test module for such attributes.
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
