"""Create, open, list and compare what is stored under names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hubarray import names
from hubarray.api import registry
from hubarray.api.resolve import RootLike, checked_grace, existing, locate, suggestions
from hubarray.arrays.diff import Diff
from hubarray.arrays.metadata.metadata import metadata_of
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.write.operations import Overwrite, creation
from hubarray.errors import AlreadyExistsError, ConfigError, NotFoundError
from hubarray.history.commits.commit import commit, create_version
from hubarray.history.log import listing, timeline
from hubarray.history.log.hints import hint_writer
from hubarray.history.log.timeline import Commit
from hubarray.history.log.version import version_of
from hubarray.history.records.record import Record
from hubarray.redaction import shown_url
from hubarray.storage.url import resolve

if TYPE_CHECKING:
    from hubarray.handles.array import Array
    from hubarray.tables.index.diff import TableDiff


def array(
    shape: int | tuple[int, ...],
    name: str,
    dtype: Any = "float64",
    chunks: Any = "auto",
    codec: Any = "auto",
    fill_value: Any = 0,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    *,
    root: RootLike = None,
    message: str | None = None,
    grace_seconds: float | None = None,
    dims: Sequence[str | None] | None = None,
) -> Array:
    """Create an array under a name, or open the existing one if its description is the same.

    Costs the same few requests for every shape. Elements that were never written take no space.

    Parameters
    ----------
    shape : int or tuple of int
    name : str
        ``owner/name:version``. The owner defaults to ``public`` and the version to ``main``.
    dtype : dtype, default float64
        Any fixed-size NumPy dtype except ``longdouble``, ``clongdouble`` and structures with nested or array fields.
        ``str`` is text of any length, NumPy's ``StringDType``. ``"bfloat16"`` and the float8 types need ml_dtypes.
        Values are stored little-endian and unpadded.
    chunks : "auto", "cube", int or tuple of int
        Shape of a chunk. ``"auto"`` chooses by the size of a sample, ``a[i]``. ``"cube"`` divides all axes alike, for
        volumes that are read in boxes or in slices of any direction.
    codec : str, mapping or list
        ``"auto"`` (blosc-lz4, or zstd for text of any length), ``"blosc-lz4"`` (fast, and small if neighbors are
        alike), ``"blosc-zstd"`` (smaller and slower), ``"zstd"`` (small, without shuffling bytes), ``"gzip"`` (readable
        everywhere), ``"lz4"`` (fast, without shuffling bytes), ``"none"`` (uncompressed), or a Zarr v3 list of codecs.
        With the package imagecodecs, a chunk can be an encoded image: ``"png"`` (lossless, readable everywhere),
        ``"jpeg"`` (small photographs, lossy), ``"webp"`` (color images, smaller than PNG; lossy with a quality) or
        ``"jpegxl"`` (smallest; lossy with a quality). A quality is from 1 to 100: ``{"name": "jpeg", "quality": 90}``.
        A lossy codec changes values. Each assignment to a part of an image changes the rest of the image a little.
    fill_value
        Value of elements that were never written. 0 and None mean ``np.zeros((), dtype)``.
    attrs : mapping, optional
        JSON values, at most 64 KiB. If the array exists, its attributes do not change.
    overwrite : bool
        Replace what is under the name. The old commits stay in the log.
    root : str, path or Root, optional
        The configured root by default.
    message : str, optional
        Message of the commit in the log.
    grace_seconds : float, optional
        How long unreferenced data is safe from collection; 7 days by default. An existing or deleted version keeps its
        period, which can only become longer.
    dims : sequence of (str or None), optional
        One name per axis, as xarray and other Zarr readers use them.

    Returns
    -------
    Array

    Raises
    ------
    AlreadyExistsError
        The name belongs to an array with another description. The message shows both.
    InvalidNameError, ConfigError, FrozenError, StorageError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array((1000, 64, 64), "docs/example:v0", dtype="uint8")
    >>> a[0] = 7
    >>> a[0:2, 0, 0]
    array([7, 0], dtype=uint8)
    """
    where, parsed = locate(name, root)
    spec = ArraySpec(shape, dtype, chunks, codec, fill_value, dims, attrs)
    metadata, attributes = spec.metadata(), spec.attributes()
    version = version_of(where, parsed)
    base = version.newest()
    if base is None or base.head.kind == "deleted":
        draft = creation(metadata, attributes, message="create")
        head = {} if grace_seconds is None else {"grace_seconds": checked_grace(grace_seconds)}
        record, _ = create_version(version, draft, base=base, message=message, **head)
    elif overwrite:
        registry.require(base, "array", "delete it first, or choose another version")
        record = commit(version, Overwrite(metadata, attributes), base=base, message=message)
        return registry.handle(where, version, record)
    else:
        record = base
    _check_same(record, spec)
    return registry.handle(where, version, record)


def load(name: str, *, at: Any = None, root: RootLike = None) -> Any:
    """Open what is stored under a name, without reading data.

    Costs at most 3 requests if the version's hint is current: the hint, the newest record and a probe for a newer
    record. ``name@number`` costs one request.

    Parameters
    ----------
    name : str
        ``name``, ``owner/name:v1``, ``owner/name:v1@12``, or ``owner/name:v1@paper`` for a commit that :func:`tag`
        named. A name with an owner may follow the URL of a root: ``s3://bucket/hub/owner/name:v1``.
    at : str or datetime, optional
        Open the commit that was the newest at this time (ISO 8601, UTC by default). The result is read-only, as for
        ``name@number``.
    root : str, path or Root, optional

    Returns
    -------
    Array, Dataset or Table

    Raises
    ------
    NotFoundError
        The message lists similar names, or the versions of the name.
    InvalidNameError, ConfigError, AccessDeniedError, StorageError

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/loaded:v0", dtype="int64")
    >>> a[:] = [1, 2, 3]
    >>> hub.load("docs/loaded:v0")[1:]
    array([2, 3])
    >>> hub.load("docs/loaded:v0@1")[1:]
    array([0, 0])
    """
    where, parsed = locate(name, root, commit_allowed=True)
    if at is not None:
        if parsed.commit is not None:
            raise ConfigError(f"{shown_url(name)}: give a commit number or at=, not both")
        moment = timeline.parse_moment(at)
        version, newest = existing(where, parsed)
        parsed = parsed.at(timeline.number_at(version, newest, moment))
    try:
        array: Array = registry.opened(where, parsed)
        return array
    except NotFoundError as error:
        raise NotFoundError(f"{error}{suggestions(where, parsed)}") from None


def exists(name: str, *, root: RootLike = None) -> bool:
    """Return whether a version, or one of its commits, exists and is not deleted.

    Examples
    --------
    >>> import hubarray as hub
    >>> hub.exists("docs/nothing-here:v0")
    False
    """
    try:
        where, parsed = locate(name, root, commit_allowed=True)
        if parsed.commit is None:
            return listing.is_live(where.store, parsed)
        return version_of(where, parsed).cached(parsed.commit).head.kind != "deleted"
    except NotFoundError:
        return False


def list_(prefix: str = "", *, root: RootLike = None) -> list[str]:
    """Return the versions under a root, sorted, as ``owner/name:version``.

    Parameters
    ----------
    prefix : str
        Empty, an owner, or the beginning of ``owner/name``.
    root : str, path or Root, optional

    Notes
    -----
    Costs one listing per owner and name, and up to three parallel requests per version, including deleted ones. A
    damaged version that cannot be opened is listed with a warning.

    Examples
    --------
    >>> import hubarray as hub
    >>> _ = hub.array(3, "listed/one:v0"), hub.array(3, "listed/two:v0")
    >>> hub.list("listed")
    ['listed/one:v0', 'listed/two:v0']
    """
    owner, beginning = names.parse_prefix(prefix)
    return [str(name) for name in listing.live_versions(resolve(root).store, owner, beginning)]


def log(name: str, *, root: RootLike = None) -> Iterator[Commit]:
    """Yield the commits of a version, newest first. Each costs one small request when it is needed.

    Parameters
    ----------
    name : str
        ``owner/name:version``, or ``...@number`` or ``...@tag`` to start at a commit.
    root : str, path or Root, optional

    Yields
    ------
    Commit

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array(3, "docs/logged:v0")
    >>> a[0] = 1
    >>> [(commit.number, commit.message) for commit in hub.log("docs/logged:v0")]
    [(2, 'set elements in 1 chunk'), (1, 'create')]
    """
    where, parsed = locate(name, root, commit_allowed=True)
    version = version_of(where, parsed)
    if parsed.commit is not None:
        return timeline.history(version, version.cached(parsed.commit))
    try:
        return timeline.history(version, version.refresh())
    except NotFoundError as error:
        raise NotFoundError(f"{error}{suggestions(where, parsed)}") from None


def diff(
    a: str, b: str, *, elements: bool = False, on: str | Sequence[str] | None = None, root: RootLike = None
) -> Diff | TableDiff:
    """Compare two versions or commits: arrays by chunks and regions, tables by rows and columns.

    Comparing arrays reads the manifest nodes that they do not share, and no data. Comparing tables reads the index
    fields that both have, and the blocks whose digests differ.

    Parameters
    ----------
    a, b : str
        Versions or commits.
    elements : bool
        Read the chunks that differ, and compare their elements. Regions are then the smallest boxes within each chunk,
        and ``elements`` counts the differences.
    on : str or sequence of str, optional
        Index fields that pair the rows of two tables. Their values must be unique within a table. By default, rows are
        paired by partition and position.

    Returns
    -------
    Diff or TableDiff
        False if nothing differs.

    Examples
    --------
    >>> import hubarray as hub
    >>> a = hub.array((100, 8), "docs/compared:v0", chunks=(10, 8))
    >>> a[35] = 1
    >>> hub.diff("docs/compared:v0@1", "docs/compared:v0").regions
    ((slice(30, 40, None), slice(0, 8, None)),)
    """
    sides = []
    for name in (a, b):
        where, parsed = locate(name, root, commit_allowed=True)
        version = version_of(where, parsed)
        record = version.cached(parsed.commit) if parsed.commit else existing(where, parsed)[1]
        if record.head.kind == "deleted":
            raise NotFoundError(f"{parsed}: is deleted at this commit")
        sides.append((version, record))
    before, after = sides
    if before[1].head.kind != after[1].head.kind:
        kinds_there = f"{before[1].head.kind} and {after[1].head.kind}"
        raise ConfigError(f"{shown_url(a)} and {shown_url(b)} are of two kinds, {kinds_there}: nothing to compare")
    fields = [on] if isinstance(on, str) else on
    difference: Diff | TableDiff = registry.kind_of(before[1]).diff(before, after, elements=elements, on=fields)
    return difference


def flush() -> None:
    """Write the hints of this process's newest commits now, not within two seconds or at exit.

    Commits are durable without it. It only saves the next reader some probes.
    """
    hint_writer.flush()


def _check_same(record: Record, spec: ArraySpec) -> None:
    registry.require(record, "array", "choose another version")
    metadata = metadata_of(record)
    if not spec.matches(metadata):
        raise AlreadyExistsError(
            f"{record.name.at(None)}: exists and is another array: it has {metadata.describe()}; the arguments say "
            f"{spec.metadata().describe()}. Open it with hub.load, choose another version, or pass overwrite=True for "
            "a new generation."
        )
