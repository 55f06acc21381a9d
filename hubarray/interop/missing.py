"""Packages that are imported when they are needed, and what to say when they are not there."""

from __future__ import annotations

import importlib
from types import ModuleType

from hubarray.errors import MissingPackageError


def needed(module: str, *, extra: str, why: str) -> ModuleType:
    """Import a package that hubarray does not install by itself.

    Raises
    ------
    MissingPackageError
        With the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingPackageError(
            f"{why} needs the package {module.split('.')[0]!r}, which is not installed: pip install 'hubarray[{extra}]'"
        ) from None
