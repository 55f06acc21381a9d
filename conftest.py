"""Doctests of the package run with a root of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubarray import config


@pytest.fixture(autouse=True)
def _doctest_root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setenv("HUBARRAY_CONFIG", str(tmp_path / "config.toml"))
        (tmp_path / "config.toml").touch()
        monkeypatch.setattr(config, "_arguments", {"root": str(tmp_path / "root"), "cache_dir": str(tmp_path / "c")})
