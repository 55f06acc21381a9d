"""Packages that are imported when they are needed, and what to say when they are not there, or too old."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING

from hubarray import process
from hubarray.errors import MissingPackageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_DISTRIBUTIONS = {"PIL": "pillow"}


def needed(module: str, *, extra: str, why: str) -> ModuleType:
    """Import a package that hubarray does not install by itself.

    Raises
    ------
    MissingPackageError
        It is not there, or of a version that the extra rules out; with the command that installs it.
    """
    package = module.split(".")[0]
    try:
        with process.importing:
            imported = importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != package:
            raise
        raise MissingPackageError(
            f"{why} needs the package {package!r}, which is not installed: pip install 'hubarray[{extra}]'"
        ) from None
    version = getattr(sys.modules[package], "__version__", None)
    requirement = _requirement(_DISTRIBUTIONS.get(package, package), extra)
    if version and requirement and not requirement.specifier.contains(version, prereleases=True):
        raise MissingPackageError(
            f"{why} needs {requirement.name}{requirement.specifier}, and {version} is installed: "
            f"pip install --upgrade 'hubarray[{extra}]'"
        )
    return imported


@functools.cache
def _requirement(distribution: str, extra: str) -> Requirement | None:
    """The versions of a distribution that an extra of hubarray asks for."""
    try:
        known = metadata.requires("hubarray") or []
    except metadata.PackageNotFoundError:
        return None
    with process.importing:
        from packaging.requirements import Requirement
    for text in known:
        requirement = Requirement(text)
        if requirement.name == distribution and requirement.marker and requirement.marker.evaluate({"extra": extra}):
            return requirement
    return None
