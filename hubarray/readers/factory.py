"""`make_reader` and `make_batch_reader`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubarray.blobs.pools import core_count
from hubarray.errors import ConfigError, NoDataAvailableError
from hubarray.readers.fields.filters import FilteredPredicate, FilterPredicate
from hubarray.readers.fields.ngram import NGram
from hubarray.readers.fields.predicates import PredicateBase
from hubarray.readers.fields.source import Source
from hubarray.readers.fields.transform import TransformSpec, transform_schema
from hubarray.readers.fields.unischema import Unischema, UnischemaField, no_field
from hubarray.readers.open_source import narrowed, open_source
from hubarray.readers.order.cursor import EpochCursor, cut_units, uniform_units
from hubarray.readers.order.distributed import place_in_the_world
from hubarray.readers.order.permutation import chosen_seed
from hubarray.readers.order.planning import DEFAULT_BUFFER_BYTES, GROUPS_HELD, is_kept, sizes
from hubarray.readers.pipeline.pipeline import Pipeline
from hubarray.readers.pipeline.windows import has_repeated_rows
from hubarray.readers.pipeline.worker_pools import pool_of
from hubarray.readers.reader import Reader
from hubarray.readers.reader_options import ReaderOptions


def make_reader(
    source: Any,
    schema_fields: Sequence[UnischemaField | str] | NGram | None = None,
    *,
    reader_pool_type: str = "thread",
    workers_count: int | None = None,
    results_queue_size: int = 16,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: PredicateBase | None = None,
    rowgroup_selector: Any = None,
    num_epochs: int | None = 1,
    cur_shard: int | str | None = None,
    shard_count: int | None = None,
    shard_balance: str | None = None,
    cache_type: str = "null",
    cache_location: str | os.PathLike[str] | None = None,
    cache_size_limit: int | None = None,
    transform_spec: TransformSpec | None = None,
    filters: Any = None,
    ragged: str = "list",
    on_error: str = "raise",
    storage_options: Mapping[str, Any] | None = None,
    root: Any = None,
    max_decoded_bytes: int | None = None,
) -> Reader:
    """Read a dataset row by row, in epochs.

    Parameters
    ----------
    source : str, Array, Table, index, mapping, path or list of paths
        The name of an array, dataset or table; an index of tables, which you may have joined and filtered; a mapping of
        arrays of equal length, ``{"image": "lab/a:v1", "label": "lab/b:v1"}``; or a Petastorm dataset or other Parquet,
        as the path or URL of a file or folder, or as a list of files. The field of a single array is called ``value``.
        Instead of a packed array, you can pass ``a.decoded``.
    schema_fields : list of UnischemaField or str, or NGram, optional
        The fields to read, as names and as patterns that match a whole name; all by default. An :class:`NGram` gives
        windows.
    reader_pool_type : "thread", "process" or "dummy"
        Where rows are read, decoded and transformed. Use processes for transforms in Python; your script does not need
        to guard ``__main__``. All pools give the same rows in the same order.
    workers_count : int, optional
        The default is the number of cores, and at least 4 for files on a network.
    results_queue_size : int
        Maximum number of row groups that are loaded ahead.
    seed : int, optional
        Seed of the order. By default, the reader chooses one and keeps it in its state. With shards, the default is 0.
    shuffle_rows : bool
        Shuffle rows within several row groups, about 64 MiB.
    shuffle_row_groups : bool
        Read row groups, or rows that are stored together, in a different order in each epoch.
    shuffle_row_drop_partitions : int
        Divide each row group into this number of parts, which are shuffled separately.
    predicate : PredicateBase, optional
        Selects rows. Its fields are read first, and the other fields only for rows that pass.
    rowgroup_selector : RowGroupSelectorBase, optional
        Selects row groups by an index from :func:`hubarray.petastorm.build_rowgroup_index` or Petastorm.
    num_epochs : int or None
        None repeats forever.
    cur_shard, shard_count : int, optional
        The number of this shard, and of all shards. ``cur_shard="auto"`` uses torch.distributed, or the environment of
        Horovod or MPI.
    shard_balance : "exact", "drop" or "pad", optional
        "exact" gives every row once, and shards differ by at most one row. "drop" gives equal shards and leaves out a
        different remainder in each epoch. "pad" gives equal shards and repeats some rows. The default is "exact". An
        epoch that continues from a state ends as the state says.
    cache_type : "null" or "local-disk"
        Keep row groups of Parquet on this machine, as they are before the predicate and the transform.
    cache_location, cache_size_limit : path and bytes, optional
        The default is a folder of hubarray's cache, and 10 GiB. This applies to Parquet only. For tables and arrays,
        set ``hub.configure(cache_dir=..., disk_cache_bytes=...)``.
    transform_spec : TransformSpec, optional
        A function of rows that runs on the workers, after the predicate.
    filters : list or pyarrow expression, optional
        Same as in :func:`pyarrow.parquet.read_table`. Filters on partition keys, on index fields of a table or on
        statistics do not read rows.
    ragged : "list", "pad" or "nested"
        How batches contain rows of different shapes: as a list, padded with zeros, or as nested tensors of PyTorch.
    on_error : "raise" or "skip"
        What to do with unreadable rows and files. ``diagnostics`` counts the skipped ones.
    storage_options : mapping, optional
        Options of fsspec for URLs of Parquet.
    root : optional
        Root of names.
    max_decoded_bytes : int, optional
        How many bytes the columns of a row group of Parquet may decode to. The setting of this name is 1 GiB by
        default. A larger row group raises SourceError before memory is allocated.

    Returns
    -------
    Reader

    Raises
    ------
    ConfigError, NotFoundError, SourceError
    NoDataAvailableError
        The source has fewer rows than shards.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(6, "docs/make-reader:v0", dtype="int64")
    >>> a[:] = [0, 1, 2, 3, 4, 5]
    >>> with hub.make_reader("docs/make-reader:v0", predicate=hub.petastorm.in_set([1, 4], "value"), seed=0) as reader:
    ...     sorted(int(row.value) for row in reader)
    [1, 4]
    """
    options = ReaderOptions(
        schema_fields=schema_fields, reader_pool_type=reader_pool_type, workers_count=workers_count,
        results_queue_size=results_queue_size, seed=seed, shuffle_rows=shuffle_rows,
        shuffle_row_groups=shuffle_row_groups, shuffle_row_drop_partitions=shuffle_row_drop_partitions,
        predicate=predicate, rowgroup_selector=rowgroup_selector, num_epochs=num_epochs, cur_shard=cur_shard,
        shard_count=shard_count, shard_balance=shard_balance, cache_type=cache_type,
        cache_location=cache_location, cache_size_limit=cache_size_limit, transform_spec=transform_spec,
        filters=filters, ragged=ragged, on_error=on_error, storage_options=storage_options, root=root,
        max_decoded_bytes=max_decoded_bytes,
    )  # fmt: skip
    return build_reader(source, options, batched=False)


def make_batch_reader(
    source: Any,
    schema_fields: Sequence[UnischemaField | str] | None = None,
    **options: Any,
) -> Reader:
    """Read a dataset in batches, which are named tuples of the columns of a row group, or of rows stored together.

    It supports everything that :func:`make_reader` supports, except :class:`NGram`. Predicates and transforms get a
    pandas DataFrame of the whole batch.

    Parameters
    ----------
    source, schema_fields
        Same as in :func:`make_reader`.
    **options
        The options of :func:`make_reader`.

    Returns
    -------
    Reader

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(6, "docs/make-batch-reader:v0", dtype="int64")
    >>> a[:] = [0, 1, 2, 3, 4, 5]
    >>> with hub.make_batch_reader("docs/make-batch-reader:v0", shuffle_row_groups=False) as reader:
    ...     sum(int(batch.value.sum()) for batch in reader)
    15
    """
    if isinstance(schema_fields, NGram):
        raise ConfigError("make_batch_reader has no windows; make_reader takes an NGram")
    known = [field.name for field in dataclasses.fields(ReaderOptions) if field.name != "schema_fields"]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(f"make_batch_reader has no option {unknown[0]!r}; there are {', '.join(known)}")
    return build_reader(source, ReaderOptions(schema_fields=schema_fields, **options), batched=True)


def build_reader(data: Any, options: ReaderOptions, *, batched: bool) -> Reader:
    """Build a reader of rows, or of batches.

    Raises
    ------
    ConfigError, NotFoundError, SourceError, NoDataAvailableError
    """
    options.check()
    rank, world = place_in_the_world(options.cur_shard, options.shard_count)
    source = open_source(
        data, storage_options=options.storage_options, cache=options.cache(),
        skip_errors=options.on_error == "skip", root=options.root, fields=options.schema_fields,
        max_decoded_bytes=options.max_decoded_bytes,
    )  # fmt: skip
    _check_cache(options, source)
    if options.rowgroup_selector is not None:
        source = _selected(source, options.rowgroup_selector)
    predicate = options.predicate
    if predicate is not None and not isinstance(predicate, PredicateBase):
        raise ConfigError(
            f"predicate must be a PredicateBase, not {type(predicate).__name__}; wrap a function with "
            "hub.petastorm.in_lambda"
        )
    rest: PredicateBase | None = None
    if options.filters is not None:
        source, rest = narrowed(source, FilterPredicate(options.filters, _filter_schema(source)))
    if predicate is not None:
        _known(predicate, _filter_schema(source))
        source, predicate = narrowed(source, predicate, batched=batched)
    if rest is not None:
        predicate = rest if predicate is None else FilteredPredicate(rest, predicate)
    if not source.rows:
        raise NoDataAvailableError(f"{source.where}: there are no rows, or none that pass filters and predicate")
    fields, ngram = _selected_fields(options.schema_fields, source.schema, options.transform_spec)
    if ngram is not None and has_repeated_rows(source):
        raise ConfigError(
            f"NGram: some rows of {source.where} occur several times, as with hub.balanced, and would be neighbours "
            "in time; use each row once"
        )
    view = source.schema.create_schema_view(fields)
    transform = options.transform_spec
    schema = view if transform is None else transform_schema(view, transform)
    if ngram is not None and transform is not None:
        ngram.resolve(schema if ngram.timestamp_field in schema.fields else _with(schema, source, ngram))
    pipeline = Pipeline(
        source, list(view.fields), predicate=predicate, transform=transform, ngram=ngram, schema=schema,
        batched=batched, skip_errors=options.on_error == "skip",
    )  # fmt: skip
    mode = options.shard_balance or "exact"
    if mode != "exact" and pipeline.decides:
        raise ConfigError(f"shard_balance={mode!r}: {_undecided(pipeline)}, or shard_balance='exact'")
    seed = options.seed
    sharded = options.cur_shard is not None or options.shard_count is not None
    # Of this machine's files no request is waited for: more threads than cores stand in each other's way.
    least = 2 if getattr(source, "is_near", False) else 4
    workers = options.workers_count or max(least, core_count())
    shuffle_rows = bool(options.shuffle_rows)
    bounds, unit_rows, group_rows = _grouped(source, world, shuffle_rows, options)
    pool = pool_of(options.reader_pool_type, pipeline, workers)
    ahead = min(workers, options.results_queue_size) if source.unit_bounds is not None else 2
    loop = EpochCursor(
        source.identity(), source.where, bounds=bounds, unit_rows=unit_rows,
        group_rows=1 if batched and unit_rows == 0 else group_rows, mode=mode,
        own_mode=options.shard_balance is None and not pipeline.decides,
        seed=chosen_seed() if seed is None and not sharded else int(seed or 0), own_seed=seed is None,
        shuffle_units=bool(options.shuffle_row_groups), shuffle_rows=shuffle_rows, rank=rank, world_size=world,
        step_rows=world, parts=int(options.shuffle_row_drop_partitions), whole_intervals=batched,
    )  # fmt: skip
    return Reader(
        pipeline, pool, loop, num_epochs=options.num_epochs, batched=batched, ragged=options.ragged, ahead=ahead
    )  # fmt: skip


def _undecided(pipeline: Pipeline) -> str:
    """Why only the rows say how many items there are, and what to do."""
    if pipeline.ngram is not None:
        return "only the rows decide where windows begin; use rows"
    if pipeline.predicate is not None:
        return (
            "the predicate can only be applied to rows that are read; use filters= on partition keys, index fields "
            "or what Parquet's statistics decide"
        )
    if pipeline.skip_errors:
        return "how many rows cannot be read is not known before; use on_error='raise'"
    return "only the transform decides how many rows it gives; use make_reader, whose transform takes a row"


def _grouped(source: Source, world: int, shuffle_rows: bool, options: ReaderOptions) -> tuple[np.ndarray, int, int]:
    parts = options.shuffle_row_drop_partitions
    if source.unit_bounds is not None:
        fitting = int(DEFAULT_BUFFER_BYTES / GROUPS_HELD / source.row_bytes)
        return cut_units(source.unit_bounds, parts), 0, max(1, fitting) if shuffle_rows else 1
    shuffled = shuffle_rows or options.shuffle_row_groups
    loop_sizes = sizes(
        source.rows, source.row_bytes, source.chunk_rows, intervals=world, world_size=world, shuffle=shuffled
    )  # fmt: skip
    # What fits a group is one: edges of groups are aimed at halves.
    group_rows = (
        2 * source.rows if shuffle_rows and is_kept(source.rows, source.row_bytes, None) else loop_sizes.group_rows
    )
    return cut_units(uniform_units(source.rows, loop_sizes.unit_rows), parts), loop_sizes.unit_rows, group_rows


def _check_cache(options: ReaderOptions, source: Source) -> None:
    """Refuse a place for row groups where there are none, or where none are kept."""
    named = [name for name in ("cache_location", "cache_size_limit") if getattr(options, name) is not None]
    if options.cache_type == "null":
        if named:
            raise ConfigError(f"{named[0]}: nothing is cached without cache_type='local-disk'")
        return
    if not hasattr(source, "cache_counts"):
        for name in named:
            raise ConfigError(
                f"{name}={getattr(options, name)!r}: applies only to Parquet; tables and arrays use hubarray's cache, "
                "which hub.configure(cache_dir=..., disk_cache_bytes=...) sets"
            )


def _selected_fields(
    fields: Any, schema: Unischema, transform: TransformSpec | None
) -> tuple[Sequence[UnischemaField | str], NGram | None]:
    if isinstance(fields, NGram):
        fields.resolve(schema)
        return fields.field_names(), fields
    if fields is None:
        return list(schema.fields), None
    if not isinstance(fields, (list, tuple, set)) or not fields:
        raise ConfigError("schema_fields: give a list of names or patterns, or an NGram")
    return list(fields), None


def _with(schema: Unischema, source: Source, ngram: NGram) -> Unischema:
    """A schema, and the timestamp's field, which windows need though the transform removed it."""
    return Unischema("windows", [*schema.fields.values(), source.schema.fields[ngram.timestamp_field]])


def _filter_schema(source: Source) -> Unischema:
    schema: Unischema = getattr(source, "filter_schema", source.schema)
    return schema


def _known(predicate: PredicateBase, schema: Unischema) -> None:
    for name in sorted(predicate.get_fields()):
        if name not in schema.fields:
            raise no_field(schema, name, "predicate")


def _selected(source: Source, selector: Any) -> Source:
    if not hasattr(selector, "select_row_groups"):
        raise ConfigError(
            f"rowgroup_selector must be a selector such as hub.petastorm.SingleIndexSelector, "
            f"not {type(selector).__name__}"
        )
    select = getattr(source, "selected", None)
    if select is None:
        raise ConfigError(f"rowgroup_selector: {source.where} has no indexes of row groups; filters= is for tables")
    selected: Source = select(selector)
    return selected
