"""Petastorm's ``petastorm.etl.dataset_metadata``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hubarray.errors import NotFoundError
from hubarray.errors import SourceError as PetastormMetadataError
from hubarray.errors import SourceError as PetastormMetadataGenerationError
from hubarray.interop.spark_readers import materialize_dataset
from hubarray.readers.making import make_reader
from hubarray.readers.unischema import Unischema


def get_schema_from_dataset_url(
    dataset_url_or_urls: Any, *, storage_options: Mapping[str, Any] | None = None, **without_meaning: Any
) -> Unischema:
    """The schema of a dataset; of plain Parquet the one that its files say.

    Parameters
    ----------
    dataset_url_or_urls
        As of :func:`hubarray.make_reader`.
    storage_options : mapping, optional
    **without_meaning
        Petastorm's ``hdfs_driver``.

    Raises
    ------
    PetastormMetadataError
        There is no dataset, or its schema cannot be read.
    """
    try:
        with make_reader(dataset_url_or_urls, reader_pool_type="dummy", storage_options=storage_options) as reader:
            return reader.schema
    except NotFoundError as error:
        raise PetastormMetadataError(*error.args) from None


__all__ = [
    "PetastormMetadataError", "PetastormMetadataGenerationError", "get_schema_from_dataset_url", "materialize_dataset",
]  # fmt: skip
