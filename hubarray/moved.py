"""Old names of modules, for pickles: they name the module in which a class was when they were made."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Of 0.1, those whose classes and functions pickles name.
MOVED = {
    "hubarray.tables.diff": "hubarray.tables.index.diff",
    "hubarray.tables.loader": "hubarray.tables.read.loader",
    "hubarray.tables.part": "hubarray.tables.format.part",
    "hubarray.tables.schema": "hubarray.tables.format.schema",
    "hubarray.tables.service_column": "hubarray.tables.format.index_column",
    "hubarray.tables.worker": "hubarray.tables.write.worker",
    "hubarray.arrays.worker": "hubarray.arrays.write.worker",
    "hubarray.history.timeline": "hubarray.history.log.timeline",
    "hubarray.history.verify": "hubarray.history.maintenance.verify",
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a module under its old name, as one that has the names of the new one."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        moved = vars(importlib.import_module(MOVED[module.__name__]))
        vars(module).update({name: value for name, value in moved.items() if not name.startswith("__")})


def install() -> None:
    """Have Python find moved modules; it asks last, for modules that nothing else has."""
    sys.meta_path.append(_Finder())
