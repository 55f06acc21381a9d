"""Refuse Python's operators on an array, with a message that shows what to write instead.

They would read the whole array. Without this class, ``a == 0`` would silently be ``False``.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

_BINARY = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_OTHERS = ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert")


class NoOperators:
    """Base class whose operators, truth value and ``in`` raise TypeError, and NumPy's other methods AttributeError."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an array has no truth value; compare elements, such as (a[...] == 0).all(), or use len(a)")

    def __float__(self) -> float:
        raise TypeError("one element becomes a number once it is read: float(a[()]), or float(a[0, 0])")

    def __int__(self) -> int:
        raise TypeError("one element becomes a number once it is read: int(a[()]), or int(a[0, 0])")

    def __delitem__(self, key: object) -> NoReturn:
        raise ValueError("elements cannot be deleted, as in NumPy; assign what should be there, or a.resize(...)")

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise AttributeError(
                f"an array in a bucket has no {name!r}, which would have to read all of it; read first, such as "
                f"a[...].{name} or a[0:10].{name}"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __contains__(self, value: object) -> bool:
        raise TypeError("'in' would read the whole array; write: value in a[...]")


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: Any) -> NoReturn:
        raise TypeError(f"{name} would have to read the whole array; read first, such as a[...] or a[0:10]")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused."
    return refuse


for _name in _BINARY:
    for _variant in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(NoOperators, _variant, _refusing(_variant))
for _name in _OTHERS:
    setattr(NoOperators, f"__{_name}__", _refusing(f"__{_name}__"))
