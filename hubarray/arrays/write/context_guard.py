"""Blocks of ``with`` that are begun once, and belong to the process that began them."""

from __future__ import annotations

import os

from hubarray.errors import HubError, ReadOnlyError


class BlockLife:
    """Whether a transaction is new, open or ended.

    Parameters
    ----------
    of : str
        How the caller's code has it, ``array.transaction()``, for errors.
    """

    def __init__(self, of: str) -> None:
        self._of, self._state, self._process = of, "new", os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether it was begun and has not ended."""
        return self._state == "open"

    def require_new(self) -> None:
        """Refuse to begin again.

        Raises
        ------
        HubError
        """
        if self._state != "new":
            raise HubError(f"a transaction is used once; begin another one with {self._of}")

    def begin(self) -> None:
        """From now on it is open."""
        self._state = "open"

    def end(self) -> None:
        """From now on it has ended.

        Raises
        ------
        ReadOnlyError
            In another process, which commits nothing.
        """
        self._state = "ended"
        if os.getpid() != self._process:
            raise ReadOnlyError("a transaction belongs to the process that began it, so this one commits nothing")

    def require_open(self) -> None:
        """Refuse what is done outside the block, or elsewhere.

        Raises
        ------
        HubError, ReadOnlyError
        """
        if self._state == "new":
            raise HubError(f"the transaction has not begun; enter it by `with {self._of} as t:`")
        if self._state != "open":
            raise ReadOnlyError("the transaction has ended; changes after its block are not part of it")
        if os.getpid() != self._process:
            raise ReadOnlyError("a transaction belongs to the process that began it; begin one in this process")
