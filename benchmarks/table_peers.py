"""Peers of tables: columns that are written at once, and scanned in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from benchmarks.peers import peers
from benchmarks.places import Place

STEP_ROWS = 16_384


class Scanner(Protocol):
    """Some columns in one peer. ``write`` stores them anew, durable when it returns."""

    def write(self) -> None: ...

    def scan(self, columns: list[str] | None, as_: str = "numpy") -> Iterator[dict[str, Any]]: ...


def scanners(base: Place, columns: dict[str, Any], arrow: pa.Table) -> tuple[dict[str, Scanner], list[str]]:
    """The peers that are installed and may be in a place, and the names of those that are absent."""
    contenders: dict[str, Scanner] = {"parquet": Parquet(base, arrow)}
    lance = Lance.of(base, arrow)
    if lance is not None:
        contenders["lance"] = lance
    if base.kind == "local":
        installed = {peer.name for peer in peers(base.kind)[0]}
        made: dict[str, Callable[[Place, dict[str, Any]], Scanner]] = {"h5py": HDF5, "deeplake (raw)": DeepLake}
        contenders |= {name: make(base, columns) for name, make in made.items() if name in installed}
        absent = [name for name in made if name not in installed]
    else:
        absent = []
    return contenders, absent + (["lance"] if lance is None else [])


def _columns_of(batch: pa.RecordBatch, as_: str) -> dict[str, Any]:
    if as_ == "arrow":
        return dict(zip(batch.schema.names, batch.columns, strict=True))
    columns_read = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_fixed_size_list(column.type):
            columns_read[name] = column.flatten().to_numpy().reshape(len(column), -1)
        else:
            columns_read[name] = column.to_pylist()
    return columns_read


class Parquet:
    """One Parquet file in the same store, row groups of 16,384 rows, without compression."""

    def __init__(self, base: Place, table: pa.Table) -> None:
        place = base.corner("parquet")
        if base.kind == "s3":
            options: dict[str, Any] = dict(place.options)
            self._files: Any = pafs.S3FileSystem(
                access_key=options["key"], secret_key=options["secret"], scheme="http", region="us-east-1",
                endpoint_override=place.endpoint.removeprefix("http://"),
            )  # fmt: skip
            self._path = f"{place.url.removeprefix('s3://')}/rows.parquet"
        else:
            self._files, self._path = pafs.LocalFileSystem(), f"{place.folder}/rows.parquet"
            place.folder.mkdir(parents=True)
        self._table, self._local = table, base.kind == "local"

    def write(self) -> None:
        """One file."""
        pq.write_table(self._table, self._path, filesystem=self._files, row_group_size=STEP_ROWS, compression="none",
                       use_dictionary=False)  # fmt: skip
        if self._local:
            # As ours, on the disk when it returns.
            os.sync()

    def table(self) -> pa.Table:
        """Everything."""
        return pq.read_table(self._path, filesystem=self._files)

    def scan(self, columns: list[str] | None, as_: str = "numpy") -> Iterator[dict[str, Any]]:
        """Batches of rows."""
        file = pq.ParquetFile(self._path, filesystem=self._files, pre_buffer=True)
        for batch in file.iter_batches(STEP_ROWS, columns=columns):
            yield _columns_of(batch, as_)


class Lance:
    """A dataset of Lance, whose names have no dots."""

    @staticmethod
    def of(base: Place, table: pa.Table) -> Lance | None:
        """One for a table, or None where it is not installed."""
        lance_peers = [peer for peer in peers(base.kind)[0] if peer.name == "lance"]
        return Lance(base, table, lance_peers[0]) if lance_peers else None

    def __init__(self, base: Place, table: pa.Table, peer: Any) -> None:
        self._where, self._local = peer._where(base.corner("lance")), base.kind == "local"
        self._table = table.rename_columns([name.replace(".", "_") for name in table.column_names])

    def write(self) -> None:
        """A version more."""
        import lance

        options = {key: value for key, value in self._where.items() if key != "uri"}
        lance.write_dataset(self._table, self._where["uri"], mode="overwrite", **options)
        if self._local:
            os.sync()

    def scan(self, columns: list[str] | None, as_: str = "numpy") -> Iterator[dict[str, Any]]:
        """Batches of rows."""
        import lance

        names = None if columns is None else [name.replace(".", "_") for name in columns]
        for batch in lance.dataset(**self._where).to_batches(columns=names, batch_size=STEP_ROWS):
            yield _columns_of(batch, as_)


class HDF5:
    """A dataset a column, without compression, in chunks of about 1 MiB; text of variable length."""

    def __init__(self, base: Place, columns: dict[str, Any]) -> None:
        self._folder, self._columns = base.corner("h5py").folder, columns
        self._folder.mkdir(parents=True)

    def write(self) -> None:
        """One file."""
        import h5py

        with h5py.File(self._folder / "rows.h5", "w") as file:
            for name, column in self._columns.items():
                if isinstance(column, np.ndarray):
                    rows = max(1, min(len(column), (1 << 20) // column[0].nbytes))
                    file.create_dataset(name, data=column, chunks=(rows, *column.shape[1:]))
                else:
                    file.create_dataset(name, data=column, dtype=h5py.string_dtype(), chunks=(4096,))
        os.sync()

    def scan(self, columns: list[str] | None, as_: str = "numpy") -> Iterator[dict[str, Any]]:
        """Batches of rows."""
        import h5py

        names = list(self._columns) if columns is None else columns
        with h5py.File(self._folder / "rows.h5", "r") as file:
            sets = {
                name: file[name] if isinstance(self._columns[name], np.ndarray) else file[name].asstr()
                for name in names
            }
            for first in range(0, len(self._columns[names[0]]), STEP_ROWS):
                yield {name: values[first : first + STEP_ROWS] for name, values in sets.items()}


class DeepLake:
    """Columns of fixed shape, which it stores as they are in memory, and of text."""

    def __init__(self, base: Place, columns: dict[str, Any]) -> None:
        self._folder, self._columns, self._written = base.corner("deeplake").folder, columns, 0

    def write(self) -> None:
        """A dataset of its own."""
        import deeplake

        self._written += 1
        dataset = deeplake.create(self._path())
        for name, column in self._columns.items():
            kind = deeplake.types.Text()
            if isinstance(column, np.ndarray):
                kind = deeplake.types.Array(str(column.dtype), shape=list(column.shape[1:]))
            dataset.add_column(name.replace(".", "_"), kind)
        for first in range(0, len(next(iter(self._columns.values()))), STEP_ROWS):
            parts = {
                name.replace(".", "_"): column[first : first + STEP_ROWS] for name, column in self._columns.items()
            }
            dataset.append(parts)
        dataset.commit()
        os.sync()

    def scan(self, columns: list[str] | None, as_: str = "numpy") -> Iterator[dict[str, Any]]:
        """Batches of rows."""
        import deeplake

        dataset = deeplake.open_read_only(self._path())
        names = [name.replace(".", "_") for name in (self._columns if columns is None else columns)]
        for first in range(0, len(dataset), STEP_ROWS):
            last = min(len(dataset), first + STEP_ROWS)
            yield {name: dataset[name][first:last] for name in names}

    def _path(self) -> str:
        return str(self._folder / f"rows{self._written}")
