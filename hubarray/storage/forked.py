"""obstore in a forked child: its library is loaded a second time, so that it has threads of its own.

The library keeps one set of threads a process, which a fork leaves behind; every call then waits for them for ever. The
loader knows libraries by their files, so a copy of the file, in memory, is another library that starts afresh. It costs
50 ms and 15 MB a child, and its requests are as fast as the parent's.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

from hubarray import process

_LIBRARY = "obstore._obstore"
_ENGINE = "hubarray.storage.objectstore"
# What was loaded before the fork is kept for good: its end would wait for threads that are not here.
_inherited: list[ModuleType] = []
_loaded_in = os.getpid()
# Where the library lies; a copy of it says a place that is no more.
_file = ""


def has_live_obstore() -> bool:
    """Return whether this process can use obstore. In a forked child, it is loaded again if the system allows it."""
    global _loaded_in
    if _loaded_in == os.getpid() or _LIBRARY not in sys.modules:
        _loaded_in = os.getpid()
        return True
    if not hasattr(os, "memfd_create"):
        return False
    with process.importing:
        if _loaded_in != os.getpid() and _load_again(sys.modules[_LIBRARY]):
            _loaded_in = os.getpid()
    return _loaded_in == os.getpid()


def _load_again(library: ModuleType) -> bool:
    """Replace obstore, and the engine that stands on it, by others that load a copy of its library."""
    global _file
    _file = _file or library.__file__ or ""
    old = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name == _ENGINE or name.split(".")[0] == "obstore"
    }
    copy = -1
    try:
        copy = os.memfd_create("hubarray-obstore")
        with open(_file, "rb") as file, os.fdopen(copy, "wb", closefd=False) as memory:
            memory.write(file.read())
        # With the process's number: the loader would take an equal path for the library of a parent.
        loader = ExtensionFileLoader(_LIBRARY, f"/proc/{os.getpid()}/fd/{copy}")
        spec = importlib.util.spec_from_file_location(_LIBRARY, loader.path, loader=loader)
        if spec is None:
            raise ImportError(_LIBRARY)
        sys.modules[_LIBRARY] = importlib.util.module_from_spec(spec)
        # It makes modules of its own, such as obstore.exceptions.
        loader.exec_module(sys.modules[_LIBRARY])
        importlib.import_module("obstore")
    except (OSError, ImportError):
        sys.modules.update(old)
        return False
    finally:
        if copy >= 0:
            os.close(copy)
    _inherited.extend(old.values())
    return True
