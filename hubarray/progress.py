"""A progress bar for long work, on a terminal or in a notebook only."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

_SECONDS_BEFORE_SHOWN = 1.0


class _Silent:
    def update(self, amount: int) -> None:
        """Nothing to show."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing to close."""


def announce(message: str) -> None:
    """Say on the error stream what is about to be done, where that is long or costly."""
    if sys.stderr is not None:
        print(message, file=sys.stderr)


def progress(total: int | None, what: str, unit: str = "B") -> Any:
    """A bar with ``update(amount)``, as a context manager; it appears after a second of work.

    Without a total it counts.

    Without a terminal or notebook it shows nothing.
    """
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return _Silent()
    # tqdm.auto warns in every notebook that has no ipywidgets.
    if "ipykernel" in sys.modules and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm
    else:
        from tqdm.std import tqdm
    return tqdm(total=total, desc=what, unit=unit, unit_scale=unit == "B", delay=_SECONDS_BEFORE_SHOWN, leave=False)
