from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import hubarray as hub
from hubarray import config
from hubarray.arrays.metadata import metadata
from hubarray.blobs import fetch
from hubarray.datasets import description
from hubarray.history.log import version as versions
from hubarray.history.log.hints import hint_writer
from hubarray.tables.format import metadata as table_metadata
from tests import servers
from tests.proxy import FaultyProxy, faulty_proxy

hypothesis.settings.register_profile(
    "hubarray", deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck), print_blob=True
)
hypothesis.settings.load_profile("hubarray")

# Of a new bucket gcsfs asks Google first whether it has folders; it decides so when it is imported.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
TEST_SETTING = "HUBARRAY_TESTS"
ROOT_KINDS = ("local", "memory", "s3", "gs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use Chromium or Spark have targets of their own in the Makefile."""
    for item in items:
        for fixture, mark in (("browser", pytest.mark.browser), ("spark_session", pytest.mark.spark)):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)


def say(config: pytest.Config, what: str) -> None:
    """Tell whoever watches a terminal what the run waits for; a log of a run needs no such lines."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None and reporter.isatty:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            reporter.ensure_newline()
            reporter.write_line(what)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[servers.Server]:
    say(pytestconfig, "starting SeaweedFS, an S3 server …")
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(s3_server: servers.Server) -> Iterator[FaultyProxy]:
    """A proxy in front of the S3 server, which fails as a test plans it."""
    with faulty_proxy(s3_server.endpoint) as made:
        yield made


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[servers.Server]:
    say(pytestconfig, "starting fake-gcs-server, a GCS server …")
    with servers.fake_gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def make_root(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], hub.Root]]:
    """Makes an empty root of a kind: local, memory, s3 or gs."""
    in_memory: list[str] = []

    def make(kind: str) -> hub.Root:
        if kind == "local":
            return hub.Root(tmp_path_factory.mktemp("root"))
        if kind == "memory":
            in_memory.append(uuid.uuid4().hex)
            return hub.Root(f"memory://{in_memory[-1]}")
        server = request.getfixturevalue({"s3": "s3_server", "gs": "gcs_server"}[kind])
        return hub.Root(f"{server.url}/{uuid.uuid4().hex}", storage_options=server.options)

    yield make
    for folder in in_memory:
        servers.forget_memory(folder)


@pytest.fixture(params=ROOT_KINDS)
def any_root(request: pytest.FixtureRequest, make_root: Callable[[str], hub.Root]) -> hub.Root:
    return make_root(request.param)


@pytest.fixture
def root(make_root: Callable[[str], hub.Root]) -> hub.Root:
    return make_root("local")


@pytest.fixture
def s3_root(make_root: Callable[[str], hub.Root]) -> hub.Root:
    return make_root("s3")


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has its own default root, caches and config, and leaves no hint to be written."""
    for variable in [name for name in os.environ if name.startswith(("HUBARRAY_", "AWS_")) and name != TEST_SETTING]:
        monkeypatch.delenv(variable)
    folder = tmp_path_factory.mktemp("hub")
    empty = folder / "config.toml"
    empty.touch()
    monkeypatch.setenv("HUBARRAY_CONFIG", str(empty))
    monkeypatch.setattr(config, "_arguments", {})
    hub.configure(root=folder / "default-root", cache_dir=folder / "cache")
    yield folder
    hint_writer.flush()


@pytest.fixture
def forget(isolated: Path) -> Callable[[], None]:
    """What makes the next open begin as a new process would: new caches, nothing known."""
    counter = itertools.count()

    def start_afresh() -> None:
        hint_writer.flush()
        hub.configure(cache_dir=isolated / f"cache-{next(counter)}")
        fetch._shared._memory.clear()
        for one in (metadata, description, table_metadata):
            one._described.clear()

    return start_afresh


@pytest.fixture
def other_machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], object]:
    """Runs a function as another machine would: this process's versions do not learn of its commits."""

    def run(function: Callable[[], object]) -> object:
        own, versions._versions = versions._versions, versions._Versions()
        try:
            return function()
        finally:
            versions._versions = own

    return run
