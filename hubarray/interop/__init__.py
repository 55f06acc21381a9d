"""Thin adapters between the one engine and the packages that people already use; imported when first asked for."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in {module.name for module in pkgutil.iter_modules(__path__)}:
        raise AttributeError(f"module 'hubarray.interop' has no attribute {name!r}")
    return importlib.import_module(f"hubarray.interop.{name}")
