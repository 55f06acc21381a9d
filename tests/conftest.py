from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
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


# What `make test-newest` leaves out, by the reason: patterns of the tests' names.
LEFT_OUT_OF_NEWEST = {
    "needs PyTorch, TensorFlow, Spark or PyAV": [
        r"arrays/test_ml_dtypes\.py::test_frameworks_take_them_and_give_them",
        r"arrays/test_strings\.py::test_(pytorch_gets_text_beside_tensors|tensorflow_gets_text)",
        r"conversions/.*[-[](sparse )?tensor\b",
        r"conversions/.*\[variable of TensorFlow\]",
        r"datasets/test_members\.py::test_what_split_and_balanced_give_are_rows_of_a_dataset",
        r"datasets/test_requests\.py::.*for PyTorch\]",
        r"datasets/test_training\.py::test_(pytorch_gets|columns_rows_and|tensorflow_gets|splits_and_balance)",
        r"hostile/test_tables\.py::.*\[tensors\]",
        r"interop/import_/test_import\.py::test_(audio|video)_comes",
        r"interop/import_/test_import\.py::test_sources_with_parts_missing_are_refused",
        r"interop/import_/test_import\.py::test_what_is_broken_or_unequal_is_refused",
        r"interop/import_/test_openers\.py::.*\[(flac|wav|mkv)",
        r"interop/spark/",
        r"interop/statistics/test_decoded\.py::test_frameworks_take_values",
        r"interop/tensorflow/",
        r"interop/test_array_likes\.py::.*\[tensor",
        r"interop/test_array_likes\.py::test_(a_sparse_tensor|text_and_views|a_transform_may_turn)",
        r"interop/test_(distributed|frameworks|intervals|training|loaders)\.py",
        r"interop/test_petastorm_names\.py::.*\[pytorch\]",
        r"interop/test_petastorm_names\.py::test_a_program_of_petastorms_runs",
        r"interop/test_sources\.py::.*\[audio",
        r"interop/torch/",
        r"readers/fields/test_transform_values\.py::test_(tensors|a_tensor|a_list_of_tensors|numbers_of_python|tensorflow)",
        r"readers/fields/test_transform_values\.py::test_arrays_(that_are_not_what|of_which_nothing)",
        r"readers/parquet/test_spark_types\.py::test_(decimals_have|folders_keep)",
        r"readers/parquet/test_spark_types\.py::.*<lambda>",
        r"readers/pipeline/test_buffers\.py::test_what_somebody_sees_stays_as_it_is",
        r"readers/pipeline/test_memory_and_workers\.py::test_(what_workers_hand_over|a_broken_deal)",
        r"readers/test_array_columns\.py",
        r"readers/test_robustness\.py::test_(a_loader_over_rows|loaders_under_petastorms|lists_within_lists)",
        r"readers/test_shares\.py::test_workers_change_neither_the_rows_of_a_table_nor_their_order",
        r"readers/test_splits\.py::test_rows_of_a_value_stay_together",
        r"sources/test_media_files\.py",
        r"tables/read/test_loader\.py::test_(every_way_to_read_gives_tensors|tensors_of)",
        r"test_benchmarks\.py::test_two_versions_are_compared_turn_by_turn",
        r"test_documents\.py::test_the_code_of_the_guides_runs",
        r"test_documents\.py::.*\[(frameworks|train-from-a-bucket)\]",
        r"test_extras\.py::.*\[(torch|tensorflow|av)-",
        r"test_readme\.py",
    ],
}


def pytest_report_header() -> list[str]:
    """Print what is left out."""
    if os.environ.get(TEST_SETTING) != "newest":
        return []
    lists = LEFT_OUT_OF_NEWEST.items()
    return [f"left out, {reason}: {pattern}" for reason, patterns in lists for pattern in patterns]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that use Chromium or Spark have targets of their own in the Makefile."""
    if os.environ.get(TEST_SETTING) == "newest":
        pattern = re.compile("|".join(f"^tests/{item}" for item in itertools.chain(*LEFT_OUT_OF_NEWEST.values())))
        left_out = [item for item in items if pattern.search(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not pattern.search(item.nodeid)]
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
def in_memory() -> list[str]:
    """The folders of roots in memory."""
    return []


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes an empty folder. pytest numbers its own, for which it lists all of them, and a run has thousands."""
    folders = tmp_path_factory.mktemp("folders")
    return lambda: Path(tempfile.mkdtemp(dir=folders))


@pytest.fixture(scope="session")
def make_root(
    request: pytest.FixtureRequest, make_folder: Callable[[], Path], in_memory: list[str]
) -> Callable[[str], hub.Root]:
    """Makes an empty root of a kind: local, memory, s3 or gs."""

    def make(kind: str) -> hub.Root:
        if kind == "local":
            return hub.Root(make_folder())
        if kind == "memory":
            in_memory.append(uuid.uuid4().hex)
            return hub.Root(f"memory://{in_memory[-1]}")
        server = request.getfixturevalue({"s3": "s3_server", "gs": "gcs_server"}[kind])
        return hub.Root(f"{server.url}/{uuid.uuid4().hex}", storage_options=server.options)

    return make


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
def isolated(make_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, in_memory: list[str]) -> Iterator[Path]:
    """Each test has its own default root, caches and config, and leaves no hint to be written and no root in memory."""
    others = len(in_memory)
    for variable in [name for name in os.environ if name.startswith(("HUBARRAY_", "AWS_")) and name != TEST_SETTING]:
        monkeypatch.delenv(variable)
    folder = make_folder()
    empty = folder / "config.toml"
    empty.touch()
    monkeypatch.setenv("HUBARRAY_CONFIG", str(empty))
    monkeypatch.setattr(config, "_arguments", {})
    hub.configure(root=folder / "default-root", cache_dir=folder / "cache")
    yield folder
    hint_writer.flush()
    # fsspec's memory is one for the whole process, and each listing looks at all of it.
    while len(in_memory) > others:
        servers.forget_memory(in_memory.pop())


@pytest.fixture
def forget(isolated: Path) -> Callable[[], None]:
    """What makes the next open begin as a new process would: new caches, nothing known."""
    counter = itertools.count()

    def start_afresh() -> None:
        hint_writer.flush()
        hub.configure(cache_dir=isolated / f"cache-{next(counter)}")
        fetch._shared._memory.clear()
        for item in (metadata, description, table_metadata):
            item._described.clear()

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
