"""Safety across forks: a child makes new locks, threads and connections.

A lock that another thread held at the moment of a fork stays locked in the child for ever, and a pool's threads do not
exist there. Objects that have them register here, and are called in the child before anything else runs. Objects with
threads of other libraries are not even dropped there, because their destructors may wait for a lock that such a thread
held. A fork waits for imports that are under way.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")

importing = threading.RLock()
"""Held while something is imported at its first use. A fork takes it too: a child could neither finish an import that
another thread was in the midst of, nor begin it again."""
# Whoever forks may itself be what an import waits for.
_IMPORT_SECONDS = 30


def uptime_seconds() -> float:
    """Seconds that pass also while the machine sleeps, unlike ``time.monotonic`` on Linux.

    Checks of a grace period must count the time during which a laptop is suspended.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class cached_property(Generic[T]):  # noqa: N801 - named as what it stands in for
    """The :func:`functools.cached_property` of Python 3.12: without a lock.

    Before, one lock of the class is held while a value is computed for any
    instance: a child forked in that moment could never compute one. Two threads
    at once may compute the value twice.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object, owner: type) -> T | cached_property[T]:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class ForkAware(Protocol):
    """Something that must rebuild its locks, threads or connections in a forked child."""

    def after_fork(self) -> None:
        """Make new locks, threads and connections. Runs in the child."""


_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_forks = 0


def register(thing: ForkAware) -> None:
    """Have ``thing.after_fork()`` called in every forked child for as long as it lives."""
    _aware.add(thing)


def is_forked_child() -> bool:
    """Whether this process is a fork of one that had imported hubarray."""
    return _forks > 0


def _before_fork() -> None:
    importing.acquire(timeout=_IMPORT_SECONDS)


def _after_fork_in_parent() -> None:
    with contextlib.suppress(RuntimeError):
        importing.release()


def _after_fork_in_child() -> None:
    global _forks, importing
    importing = threading.RLock()
    _forks += 1
    errors = []
    for thing in list(_aware):
        # One that fails is told, once all others know.
        try:
            thing.after_fork()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def python_command(*arguments: str) -> dict[str, Any]:
    """Return the ``args`` and ``env`` of :class:`subprocess.Popen` that run this Python.

    The child never imports from the current folder, which may hold whatever a dataset was unpacked with. Otherwise it
    finds what this process finds.

    Parameters
    ----------
    *arguments : str
        Behind the options of the interpreter: ``"-m", "package.module", ...`` or the path of a script.
    """
    folders = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    return {"args": [sys.executable, "-P", *arguments], "env": os.environ | {"PYTHONPATH": folders}}
