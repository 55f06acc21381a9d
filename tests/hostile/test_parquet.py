"""Parquet of somebody else's: whatever its footer says, it is read, or refused by an error; the process goes on."""

import io
import json
import os
import subprocess
import sys
import textwrap
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hubarray as hub
from hubarray.errors import SourceError
from hubarray.readers.fields.cell_codecs import CompressedNdarrayCodec, NdarrayCodec
from hubarray.readers.parquet import summary
from hubarray.readers.parquet.files import listed, located
from hubarray.readers.parquet.source import parquet_source
from tests.rounds import rounds

# Each folder is read by one process for all of them: where Arrow ends it, this test hears of the folder.
READER = """
import os, sys
import hubarray as hub

for folder in sorted(os.listdir(sys.argv[1])):
    print(folder, flush=True)
    for options in ({}, {"filters": [("id", "<", 7), ("real", ">=", 0), ("text", "!=", "t3")]}):
        try:
            with hub.make_batch_reader(os.path.join(sys.argv[1], folder), workers_count=1, **options) as reader:
                for batch in reader:
                    pass
        except hub.HubError:
            pass
print("done")
"""


def _file():
    count = 12
    table = pa.table({
        "id": np.arange(count), "real": np.arange(count, dtype="f4"), "text": [f"t{i}" for i in range(count)],
        "list": [[i] * (i % 3) for i in range(count)],
    })  # fmt: skip
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=4)
    return table, out.getvalue()


def _read_all(folder):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READER), str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"HUBARRAY_DISK_CACHE_BYTES": "0"},
    )


@pytest.mark.parametrize("which", ["a file", "a summary"])
def test_a_footer_with_any_damage_is_read_or_refused_and_ends_no_process(tmp_path, which):
    table, data = _file()
    (length,) = np.frombuffer(data[-8:-4], "<u4").tolist()
    draw = np.random.default_rng(0)
    for i in range(rounds(12, 400)):
        folder = tmp_path / "all" / f"{i:04d}"
        folder.mkdir(parents=True)
        spoiled = bytearray(data)
        for _ in range(int(draw.integers(1, 4))):
            at = len(data) - 8 - int(draw.integers(1, length))
            spoiled[at] = int(draw.integers(256))
        if which == "a file":
            (folder / "x.parquet").write_bytes(spoiled)
            continue
        pq.write_table(table, folder / "x.parquet", row_group_size=4)
        # Nothing but a footer, as a summary has it.
        (folder / "_metadata").write_bytes(b"PAR1" + spoiled[-8 - length :])
        os.utime(folder / "x.parquet", (1, 1))
    done = _read_all(tmp_path / "all")
    assert done.returncode == 0, (done.stdout[-20:], done.stderr[-2000:])
    assert done.stdout.endswith("done\n")


def test_a_file_that_is_rewritten_beside_a_reader_is_an_error_though_its_size_is_the_same(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": np.arange(2000)}), path, row_group_size=100)
    data = path.read_bytes()
    with hub.make_reader(str(path), shuffle_row_groups=False, workers_count=1, results_queue_size=1) as reader:
        next(reader)
        path.write_bytes(data)
        with pytest.raises(SourceError, match="was changed since the dataset was opened"):
            list(reader)


def test_a_file_that_is_rewritten_in_a_bucket_is_an_error_too(s3_server):
    url, options = f"{s3_server.url}/rewritten", s3_server.options
    schema = hub.petastorm.Unischema("Rows", [hub.petastorm.UnischemaField("id", np.int64)])

    def write(values):
        with hub.parquet_writer(url, schema, rows_per_row_group=100, storage_options=options) as writer:
            writer.write_rows({"id": i} for i in values)

    write(range(2000))
    location = located(url, options)
    (file,) = listed(location)
    with location.client.filesystem.open_input_file(file.path) as opened:
        data = opened.read()
    with hub.make_reader(
        url, shuffle_row_groups=False, workers_count=1, results_queue_size=1, storage_options=options
    ) as reader:
        next(reader)
        # Stores tell times of a second.
        time.sleep(1.1)
        with location.client.filesystem.open_output_stream(file.path) as out:
            out.write(data)
        with pytest.raises(SourceError, match="was changed since the dataset was opened"):
            list(reader)


def test_a_summary_that_is_older_than_a_file_is_not_believed_of_it(tmp_path):
    table, _ = _file()
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=4)
    collected = []
    pq.write_table(table.slice(0, 5), tmp_path / "old.parquet", metadata_collector=collected)
    (tmp_path / "old.parquet").unlink()
    collected[0].set_file_path("x.parquet")
    pq.write_metadata(table.schema, tmp_path / "_metadata", metadata_collector=collected)
    os.utime(tmp_path / "_metadata", (1, 1))
    with hub.make_reader(str(tmp_path), ["id"]) as reader:
        assert sorted(int(row.id) for row in reader) == list(range(12))


def test_a_summary_that_says_other_rows_than_the_file_is_an_error_that_names_it(tmp_path):
    table, _ = _file()
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=4)
    source = parquet_source(str(tmp_path))
    told = json.loads(summary.summary_bytes(source.files, source._footers))
    text = json.dumps(told).replace("[4, 4, 4]", "[5, 4, 3]")
    assert "[5, 4, 3]" in text
    (tmp_path / summary.NAME).write_text(text)
    with (
        hub.make_reader(str(tmp_path), ["id"]) as reader,
        pytest.raises(SourceError, match=r"write the summary\s+anew"),
    ):
        list(reader)


def test_an_empty_parquet_file_is_named(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").touch()
    with pytest.raises(SourceError, match=r"b\.parquet"):
        hub.make_reader(str(tmp_path))


@pytest.mark.parametrize("name", ["²", "9" * 30, "--5", "-", "0x1"])
def test_folders_whose_names_are_almost_numbers_are_text(tmp_path, name):
    (tmp_path / f"n={name}").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / f"n={name}" / "a.parquet")
    with hub.make_reader(str(tmp_path)) as reader:
        assert [str(row.n) for row in reader] == [name]


def _npy_header(shape, descr="'|V0'"):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


def test_a_cell_that_says_endlessly_many_values_of_no_bytes_is_refused(tmp_path):
    field = hub.petastorm.UnischemaField("x", np.void, (None,), NdarrayCodec())
    with pytest.raises(SourceError):
        NdarrayCodec().decode(field, _npy_header((1 << 40,)))


def test_a_cell_with_damage_in_any_compression_is_refused(tmp_path):
    field = hub.petastorm.UnischemaField("x", np.uint8, (None,), CompressedNdarrayCodec())
    plain = io.BytesIO()
    np.save(plain, np.arange(200, dtype="u1"))
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as file:
            file.writestr("arr.npy", plain.getvalue())
        whole = out.getvalue()
        for at in range(35, len(whole), 7):
            data = bytearray(whole)
            data[at] ^= 0x55
            try:
                value = CompressedNdarrayCodec().decode(field, bytes(data))
            except SourceError:
                continue
            assert np.array_equal(value, np.arange(200))


def test_text_that_is_no_unicode_is_an_error_that_names_the_row_group(tmp_path):
    text = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"t": text}), tmp_path / "x.parquet")
    with hub.make_reader(str(tmp_path / "x.parquet")) as reader, pytest.raises(SourceError, match="row group 0"):
        list(reader)
