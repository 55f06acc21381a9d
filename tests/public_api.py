"""The public interface as text; ``python -m tests.public_api`` writes it into public_api.txt.

It has every public name with what a caller depends on: parameters with their
kinds and defaults, the members of classes, and what these derive from. It has
no annotations: types are mypy's. Of special methods it has the names, for
Python says how they are called.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hubarray as hub

FILE = Path(__file__).with_name("public_api.txt")
ACCEPT = "python -m tests.public_api"
MODULES = (hub, hub.errors, hub.results, hub.petastorm)
# All other classes are made by functions, so how is not public.
MADE_BY_CALLERS = {"ArraySpec", "Root"}
# What Python adds to a class, more of it with each release, and what changes nothing for a caller.
OF_PYTHON = {
    "__abstractmethods__", "__annotations__", "__class_getitem__", "__dataclass_fields__", "__dataclass_params__",
    "__delattr__", "__dict__", "__doc__", "__firstlineno__", "__init__", "__match_args__", "__module__", "__new__",
    "__orig_bases__", "__parameters__", "__post_init__", "__replace__", "__repr__", "__setattr__", "__slotnames__", "__slots__",
    "__static_attributes__", "__str__", "__weakref__",
}  # fmt: skip


def described() -> str:
    """The whole interface: a line for each name, and one for each member."""
    lines = ["# What changes here changes for all who use hubarray."]
    for module in MODULES:
        lines += [f"# {module.__name__}"] if module is not hub else []
        for name in public_names(module):
            item = getattr(module, name)
            lines += _class(name, item) if inspect.isclass(item) else [f"{name}{_signature(item)}"]
    return "\n".join(lines) + "\n"


def public_names(module: ModuleType) -> list[str]:
    """Names of a module that are no modules, and that hubarray itself does not have."""
    errors = [
        name for name, item in vars(hub.errors).items() if inspect.isclass(item) and issubclass(item, hub.HubError)
    ]
    names = errors if module is hub.errors else module.__all__
    taken = {*hub.__all__, *errors}
    return sorted(
        name
        for name in names
        if not inspect.ismodule(getattr(module, name))
        and (module is hub or name not in (hub.__all__ if module is hub.errors else taken))
    )


def _class(name: str, one: type) -> Iterator[str]:
    bases = [base.__name__ for base in one.__mro__[1:] if _is_public(base)]
    yield f"class {name}{_signature(one) if name in MADE_BY_CALLERS else ''}{' is ' * bool(bases)}{', '.join(bases)}"
    members: dict[str, Any] = {}
    for base in reversed(one.__mro__):
        if base.__module__.startswith("hubarray."):
            members |= dict.fromkeys(inspect.get_annotations(base)) | vars(base)
    fields = {field.name for field in dataclasses.fields(one)} if dataclasses.is_dataclass(one) else set[str]()
    for member in sorted(members):
        special = member.startswith("__") and member.endswith("__")
        hidden = member in OF_PYTHON or (special and members[member] is None)
        if not hidden and (special or not member.startswith("_")):
            yield f"    {member}{'' if special or member in fields else _called(members[member])}"


def _is_public(base: type) -> bool:
    if base.__module__ == "builtins":
        return base not in (object, Exception, BaseException)
    return base.__module__.startswith("hubarray.") and any(base.__name__ in public_names(module) for module in MODULES)


def _called(value: Any) -> str:
    if isinstance(value, classmethod | staticmethod):
        return f"{_signature(value.__func__)}  # {type(value).__name__}"
    if inspect.isroutine(value) and not isinstance(value, functools.cached_property):
        return _signature(value)
    return "  # may be set" if isinstance(value, property) and value.fset else ""


def _signature(one: Any) -> str:
    signature = inspect.signature(one)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(bare))


if __name__ == "__main__":
    FILE.write_text(described())
