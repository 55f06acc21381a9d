"""Methods by which handles are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubarray import process


class Viewed:
    """Handles that are looked at in the browser."""

    __slots__ = ()

    def view(self, **options: Any) -> Any:
        """This name in the browser, and its commit if it is fixed to one: :func:`hubarray.view` with its options."""
        with process.importing:
            from hubarray.viewer.serving import view_handle
        return view_handle(self, **options)


class RowsShown(Viewed):
    """Handles on rows, of which one is drawn at a time."""

    __slots__ = ()

    def show(self, row: int, columns: str | Sequence[str] | None = None) -> Any:
        """Draw the images, points and curves of one row with matplotlib: boxes over images, points from above.

        Parameters
        ----------
        row : int
        columns : str or sequence of str, optional
            As rows are read; all by default.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        ConfigError
            There is nothing to draw.
        MissingPackageError
        """
        with process.importing:
            from hubarray.interop.notebook.plots import show_row
        return show_row(self, row, columns)
