"""Petastorm's ``petastorm.etl.dataset_metadata``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from hubarray.errors import NotFoundError
from hubarray.errors import SourceError as PetastormMetadataError
from hubarray.errors import SourceError as PetastormMetadataGenerationError
from hubarray.interop.spark import readers as spark_readers
from hubarray.petastorm.making import refuse_filesystem
from hubarray.readers.factory import make_reader
from hubarray.readers.fields.unischema import Unischema


def materialize_dataset(
    spark: Any,
    dataset_url: Any,
    schema: Unischema,
    row_group_size_mb: float | None = None,
    use_summary_metadata: bool = False,
    filesystem_factory: Any = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> AbstractContextManager[None]:
    """As :func:`hubarray.petastorm.materialize_dataset`, called as Petastorm 0.13 is.

    Parameters
    ----------
    spark, dataset_url, schema, row_group_size_mb, storage_options
        Same as in :func:`hubarray.petastorm.materialize_dataset`.
    use_summary_metadata : bool
        Changes nothing: a summary is always written.
    filesystem_factory
        Refused: clients are made by fsspec, with ``storage_options``.

    Raises
    ------
    ConfigError
        ``filesystem_factory`` was given.
    """
    refuse_filesystem(filesystem_factory, "filesystem_factory")
    return spark_readers.materialize_dataset(
        spark, dataset_url, schema, row_group_size_mb, storage_options=storage_options
    )


def get_schema_from_dataset_url(
    dataset_url_or_urls: Any,
    hdfs_driver: str = "libhdfs3",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Unischema:
    """The schema of a dataset; of plain Parquet the one that its files say.

    Parameters
    ----------
    dataset_url_or_urls
        Same as in :func:`hubarray.make_reader`.
    hdfs_driver : str
        Changes nothing.
    storage_options : mapping, optional
    filesystem
        Refused.

    Raises
    ------
    ConfigError
        ``filesystem`` was given.
    PetastormMetadataError
        The dataset does not exist, or its schema cannot be read.
    """
    refuse_filesystem(filesystem, "filesystem")
    try:
        with make_reader(dataset_url_or_urls, reader_pool_type="dummy", storage_options=storage_options) as reader:
            return reader.schema
    except NotFoundError as error:
        raise PetastormMetadataError(*error.args) from None


__all__ = [
    "PetastormMetadataError", "PetastormMetadataGenerationError", "get_schema_from_dataset_url", "materialize_dataset",
]  # fmt: skip
