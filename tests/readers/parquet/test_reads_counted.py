"""Bytes and requests that readers of Parquet cost, counted between them and an S3 server."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.readers.parquet.files import located
from hubarray.readers.parquet.footers import metadata
from hubarray.readers.pipeline import pipeline
from tests.proxy import faulty_proxy
from tests.readers.pipeline.test_memory_and_workers import broken

GROUPS, ROWS = 8, 10
HEAVY = 40_000
GROUP_BYTES = ROWS * HEAVY
# Footers, light columns and what S3 says around them.
BESIDE = 0.5 * GROUP_BYTES


class Counted:
    """An S3 folder behind a proxy, and what was asked of it since it was last looked at."""

    def __init__(self, server, proxy):
        self._proxy, self.url = proxy, f"{server.url}/counted"
        self.options, self._direct = server.options | {"endpoint_url": proxy.endpoint}, server.options
        self._gets, self._before = [], 0
        proxy.plan = self._note

    def _note(self, method, path):
        if method == "GET" and ".parquet" in path:
            self._gets.append(path.partition("?")[0].rpartition("/")[2])

    def look(self):
        """Bytes of replies, and the files that were read, a name for each request."""
        gets, self._gets = self._gets, []
        before, self._before = self._before, self._proxy.body_bytes
        return self._before - before, gets

    def write(self, name, groups):
        """A file of row groups with a light and a heavy column."""
        filesystem = located(self.url, self._direct).client.filesystem
        with (
            filesystem.open_output_stream(f"bkt/counted/{name}") as out,
            pq.ParquetWriter(out, pa.schema([("id", pa.int64()), ("heavy", pa.binary())]), compression="none",
                             use_dictionary=False) as writer,
        ):  # fmt: skip
            for some in groups:
                heavy = [np.random.default_rng(int(i)).bytes(HEAVY) for i in some]
                writer.write_table(pa.table({"id": some, "heavy": pa.array(heavy, pa.binary())}))

    def reader(self, make=hub.make_reader, fields=None, **options):
        """A reader, from whose opening on is counted."""
        result = make(self.url, fields, storage_options=self.options, seed=3, **options)
        self.look()
        return result

    def read(self, make=hub.make_reader, fields=None, **options):
        """The ids that a reader gives, in their order, and what that cost after it was opened."""
        with self.reader(make, fields, **options) as reader:
            items = list(reader)
        ids = [int(i) for item in items for i in np.atleast_1d(item.id)]
        return sorted(ids), *self.look()


@pytest.fixture(scope="module")
def server(s3_server):
    with faulty_proxy(s3_server.endpoint) as proxy:
        yield s3_server, proxy


@pytest.fixture
def counted(server):
    result = Counted(*server)
    client = located(result.url, server[0].options).client.filesystem
    client.create_dir("bkt/counted")
    client.delete_dir_contents("bkt/counted")
    metadata._remembered.clear()
    return result


@pytest.fixture
def one_file(counted):
    counted.write("rows.parquet", np.arange(GROUPS * ROWS).reshape(GROUPS, ROWS))
    return counted


MAKERS = [hub.make_reader, hub.make_batch_reader]


def rows_of(ids):
    """A predicate that only the rows decide: statistics are not asked about sets of floats."""
    return hub.petastorm.in_set([float(i) for i in ids], "id")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_an_epoch_reads_every_byte_once(one_file, make, shuffle_rows):
    ids, read, _ = one_file.read(make, shuffle_rows=shuffle_rows)
    assert ids == list(range(GROUPS * ROWS))
    assert GROUPS * GROUP_BYTES < read < GROUPS * GROUP_BYTES + BESIDE


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("passing", [[], [7], [11, 12, 17, 42]])
def test_heavy_columns_cost_their_bytes_only_of_row_groups_where_a_row_passes(one_file, make, passing):
    ids, read, _ = one_file.read(make, predicate=rows_of(passing))
    assert ids == passing
    groups = len({i // ROWS for i in passing})
    assert groups * GROUP_BYTES <= read < groups * GROUP_BYTES + BESIDE


def test_the_fields_of_a_predicate_are_read_first_and_the_others_after_it(one_file, monkeypatch):
    text = "columns = dict(self.source.read(rows, names))"
    both = broken(pipeline, text, "columns = dict(self.source.read(rows, [*names, *self.columns]))")
    monkeypatch.setattr(pipeline.Pipeline, "_load", both.Pipeline._load)
    ids, read, _ = one_file.read(predicate=rows_of([7]))
    assert ids == [7]
    assert read > GROUPS * GROUP_BYTES, "a reader that is broken is seen"


@pytest.mark.parametrize("make", MAKERS)
def test_fields_that_nobody_wants_cost_nothing(one_file, make):
    ids, read, _ = one_file.read(make, ["id"])
    assert ids == list(range(GROUPS * ROWS))
    assert read < BESIDE


@pytest.mark.parametrize("make", MAKERS)
def test_row_groups_that_statistics_rule_out_cost_neither_bytes_nor_requests(one_file, make):
    _, _, every = one_file.read(make)
    ids, read, gets = one_file.read(make, filters=[("id", ">=", 20), ("id", "<", 40)])
    assert ids == list(range(20, 40))
    assert 2 * GROUP_BYTES < read < 2 * GROUP_BYTES + BESIDE
    assert len(gets) <= len(every) * 2 / GROUPS + 1


def test_what_statistics_leave_undecided_costs_light_columns_and_the_row_groups_where_a_row_passes(one_file):
    ids, read, _ = one_file.read(filters=[("id", ">=", 18), ("id", "<", 40)])
    assert ids == list(range(18, 40))
    assert 3 * GROUP_BYTES < read < 3 * GROUP_BYTES + BESIDE
    ids, read, _ = one_file.read(filters=[("id", "<", 50)], predicate=rows_of([33, 71]))
    assert ids == [33]
    assert GROUP_BYTES < read < GROUP_BYTES + BESIDE


def test_files_that_statistics_rule_out_are_not_asked_for(counted):
    for number in range(4):
        counted.write(f"{number}.parquet", [np.arange(number * 10, number * 10 + 10)])
    ids, read, gets = counted.read(filters=[[("id", "<", 10)], [("id", ">=", 30)]])
    assert ids == [*range(10), *range(30, 40)]
    assert set(gets) == {"0.parquet", "3.parquet"}
    assert 2 * GROUP_BYTES < read < 2 * GROUP_BYTES + BESIDE


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_together_read_as_many_row_groups_again_as_there_are_edges_between_them_at_most(one_file, shards):
    ids, read = [], 0
    for shard in range(shards):
        some, cost, _ = one_file.read(cur_shard=shard, shard_count=shards)
        ids, read = ids + some, read + cost
    assert sorted(ids) == list(range(GROUPS * ROWS))
    assert read < (GROUPS + shards - 1) * GROUP_BYTES + shards * BESIDE


def test_what_is_left_of_an_epoch_costs_what_is_left(one_file):
    with one_file.reader(num_epochs=1) as reader:
        begun = [int(next(reader).id) for _ in range(5 * ROWS)]
        state = reader.state_dict()
    with one_file.reader() as reader:
        reader.load_state_dict(state)
        rest = [int(row.id) for row in reader]
    assert sorted(begun + rest) == list(range(GROUPS * ROWS))
    read, _ = one_file.look()
    assert 3 * GROUP_BYTES < read < 3 * GROUP_BYTES + BESIDE
