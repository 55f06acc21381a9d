"""Join indexes like pandas. The names of service columns say on what rows were joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.tables.format.index_column import is_service, merge_id, parse
from hubarray.tables.format.schema import PARTITION
from hubarray.tables.index.join_keys import tables_with_keys
from hubarray.tables.read.loader import loader_of

if TYPE_CHECKING:
    import pandas as pd

_OTHER_PARTITION = "partition of the second index"


def join(
    a: pd.DataFrame,
    b: pd.DataFrame,
    on: str | Sequence[str],
    how: str = "inner",
    *,
    suffixes: tuple[str, str] | None = None,
) -> pd.DataFrame:
    """Join two indexes, like ``pd.merge``, so that loaders can read windows over both tables.

    This reads the stored keys of the rows again: one request per slab, unless the caches have it. You can also join on
    keys that you have changed, or that are not index fields of both tables. Windows over both tables then raise an
    error, as with :func:`join_asof`.

    Parameters
    ----------
    a, b : DataFrame
        Indexes, which may be filtered or joined.
    on : str or sequence of str
        Columns of both indexes.
    how : "inner", "left", "right" or "outer"
        If a table lacks a row, its columns are None.
    suffixes : (str, str), optional
        Suffixes for fields and columns that both have. Without them, such names raise an error. The column
        ``partition`` is that of the first index, or of the second for rows that only the second has.

    Returns
    -------
    DataFrame

    Raises
    ------
    ConfigError
    """
    import pandas as pd

    keys = _keys(on, a, b)
    if how not in ("inner", "left", "right", "outer"):
        raise ConfigError(f"how={how!r}: give 'inner', 'left', 'right' or 'outer'")
    left, right = _sides(a, b, keys, suffixes, links=keys, fills=how in ("right", "outer"))
    if PARTITION in keys:
        # Categories of their own are not merged.
        left, right = (frame.assign(**{PARTITION: _plain(frame[PARTITION])}) for frame in (left, right))
    left, right = _exact_integers(left, right, keys)
    if how != "inner":
        left, right = _nullable(left, keys), _nullable(right, keys)
    try:
        joined = pd.merge(left, right, on=keys, how=how, suffixes=suffixes or ("", ""))
        return _one_partition(joined) if _OTHER_PARTITION in joined.columns else joined
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"on={keys}: {error}") from None


def join_asof(
    a: pd.DataFrame,
    b: pd.DataFrame,
    on: str,
    *,
    by: str | Sequence[str] | None = None,
    tolerance: Any = None,
    direction: str = "backward",
    suffixes: tuple[str, str] | None = None,
) -> pd.DataFrame:
    """Join each row of an index with the nearest row of another, for streams of different rates.

    The result has the rows of ``a`` in their order. Neither index needs to be sorted. You can load single rows of the
    result, but not windows over both tables, because their neighbors differ. Publish the result with
    :func:`write_index` first.

    Parameters
    ----------
    a, b : DataFrame
    on : str
        A column of both indexes with numbers or times, without nulls.
    by : str or sequence of str, optional
        Columns that must be equal.
    tolerance : number or Timedelta, optional
        Maximum distance. Without a match, the columns of the table of ``b`` are None.
    direction : "backward", "forward" or "nearest"
    suffixes : (str, str), optional

    Returns
    -------
    DataFrame

    Raises
    ------
    ConfigError
    """
    import pandas as pd

    equal = [] if by is None else _keys(by, a, b)
    (key,) = _keys(on, a, b)
    left, right = _sides(a, b, [*equal, key], suffixes, links=())
    right = _nullable(right, [*equal, key])
    if left[key].isna().any() or right[key].isna().any():
        raise ConfigError(f"on={key!r}: has nulls, which are near to nothing; filter them out")
    left, right = _of_one_unit(left, right, key)
    if PARTITION in equal:
        # Categories of their own are not merged.
        left, right = (frame.assign(**{PARTITION: _plain(frame[PARTITION])}) for frame in (left, right))
    left, right = _exact_integers(left, right, [*equal, key])
    order = np.argsort(left[key].to_numpy(), kind="stable")
    try:
        joined = pd.merge_asof(
            left.iloc[order], right.sort_values(key, kind="stable"), on=key, by=equal or None, tolerance=tolerance,
            direction=direction, suffixes=suffixes or ("", ""),
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise ConfigError(f"on={key!r}: {error}") from None
    return joined.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def _of_one_unit(left: pd.DataFrame, right: pd.DataFrame, key: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Times that two clocks tell in different units, in the finer one."""
    dtypes = [frame[key].dtype for frame in (left, right)]
    if dtypes[0] == dtypes[1] or not all(isinstance(dtype, np.dtype) and dtype.kind in "mM" for dtype in dtypes):
        return left, right
    if dtypes[0].kind != dtypes[1].kind:
        return left, right
    finer = np.promote_types(dtypes[0], dtypes[1])
    return left.astype({key: finer}), right.astype({key: finer})


def _exact_integers(left: pd.DataFrame, right: pd.DataFrame, keys: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keys of signed and unsigned numbers in one type, which holds all of them: pandas would compare them as floats.

    Raises
    ------
    ConfigError
        No type of 64 bits holds both.
    """
    from pandas.api.types import is_integer_dtype, is_signed_integer_dtype

    for key in keys:
        dtypes = [frame[key].dtype for frame in (left, right)]
        if not all(map(is_integer_dtype, dtypes)) or len({is_signed_integer_dtype(dtype) for dtype in dtypes}) == 1:
            continue
        key_columns = [frame[key].dropna() for frame in (left, right)]
        lows = [int(column.min()) if len(column) else 0 for column in key_columns]
        highs = [int(column.max()) if len(column) else 0 for column in key_columns]
        fits = "Int64" if max(highs) < 1 << 63 else "UInt64" if min(lows) >= 0 else None
        if fits is None:
            raise ConfigError(
                f"on={key!r}: is {dtypes[0]} in one index and {dtypes[1]} in the other, and no type holds all of "
                "them; first filter out values that are negative or beyond 2**63"
            )
        nullable = any(frame[key].isna().any() for frame in (left, right))
        kind = fits if nullable else fits.lower()
        left, right = (frame.astype({key: kind}) for frame in (left, right))
    return left, right


def _plain(column: pd.Series) -> pd.Series:
    categories = getattr(column.dtype, "categories", None)
    return column if categories is None else column.astype(categories.dtype)


def _one_partition(frame: pd.DataFrame) -> pd.DataFrame:
    """The first index's partition, and where that has no row, the second's."""
    other, own = frame[_OTHER_PARTITION], frame[PARTITION]
    whole = own.astype(object).where(own.notna(), other.astype(object))
    return frame.assign(**{PARTITION: whole.astype("category")}).drop(columns=_OTHER_PARTITION)


def _nullable(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Whole numbers and bools as pandas' nullable types: as floats beside nulls, large ones would be others."""
    from pandas.api.types import is_bool_dtype, is_integer_dtype, pandas_dtype

    names = {}
    for name in frame.columns:
        dtype = frame[name].dtype
        if name in keys or is_service(name) or not isinstance(dtype, np.dtype):
            continue
        if is_bool_dtype(dtype):
            names[name] = pandas_dtype("boolean")
        elif is_integer_dtype(dtype):
            names[name] = pandas_dtype(dtype.name.replace("i", "I", 1).replace("u", "U", 1))
    return frame.astype(names) if names else frame


def _refuse_mixed_keys(keys: Sequence[str], a: pd.DataFrame, b: pd.DataFrame) -> None:
    from pandas.api.types import is_float_dtype, is_integer_dtype

    for key in keys:
        first, second = a[key].dtype, b[key].dtype
        if (is_integer_dtype(first) and is_float_dtype(second)) or (is_float_dtype(first) and is_integer_dtype(second)):
            raise ConfigError(
                f"on={key!r}: is {first} in one index and {second} in the other, and as floats whole numbers beyond "
                "2**53 are equal to others; cast one of them first, .astype('Int64')"
            )


def _keys(on: str | Sequence[str], a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    for which, frame in (("first", a), ("second", b)):
        if not hasattr(frame, "columns") or not hasattr(frame, "merge"):
            raise ConfigError(
                f"the {which} index is a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}, but a "
                "DataFrame of pandas is expected, as hub.read_index gives"
            )
    if not isinstance(on, (str, list, tuple)):
        raise ConfigError(f"on={on!r}: give the name of a column of both indexes, or several")
    keys = [on] if isinstance(on, str) else list(on)
    for key in filter(is_service, keys):
        raise ConfigError(f"on={key[:80]!r}: numbers the rows of one table; join on a field that both tables have")
    for key in keys:
        for which, frame in (("first", a), ("second", b)):
            if key not in frame.columns:
                raise ConfigError(f"on={key!r}: the {which} index has no such column; it has {_shown(frame)}")
    _refuse_mixed_keys(keys, a, b)
    if not keys:
        raise ConfigError("on: name one column of both indexes at least")
    return keys


def _shown(frame: pd.DataFrame) -> str:
    return ", ".join(str(name) for name in frame.columns if not is_service(name))[:300]


def _sides(
    a: pd.DataFrame,
    b: pd.DataFrame,
    keys: Sequence[str],
    suffixes: tuple[str, str] | None,
    *,
    links: Sequence[str],
    fills: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both indexes with service columns that know of the merge, and without a second partition.

    Unless it ``fills`` the first where only the second index has a row; then it has another name. ``links`` are the
    keys by which neighbouring rows belong together, too.
    """
    if PARTITION in a.columns and PARTITION in b.columns and PARTITION not in keys:
        b = b.rename(columns={PARTITION: _OTHER_PARTITION}) if fills else b.drop(columns=PARTITION)
    clashing = _clashing(a, b, keys)
    if clashing and suffixes is None:
        raise ConfigError(
            f"both tables have {', '.join(sorted(clashing))[:300]}; give suffixes=('_a', '_b'), or "
            "join on key columns that both have"
        )
    pair = suffixes or ("", "")
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(suffix, str) for suffix in pair)
    if not is_pair or (clashing and pair[0] == pair[1]):
        raise ConfigError(f"suffixes={suffixes!r}: give two different ones")
    columns = [{name: parse(name) for name in frame.columns if is_service(name)} for frame in (a, b)]
    merge_name = merge_id(keys, *(own.values() for own in columns))
    having = [tables_with_keys(frame, links) if links else set() for frame in (a, b)]
    sides = []
    for frame, own, with_keys, side, suffix in zip((a, b), columns, having, "lr", pair, strict=True):
        # Without a field it still says that the tables were merged.
        merged = [(merge_name + side, "")]
        linked = [(merge_name + side, key) for key in links if key != PARTITION] if all(having) else []
        renamed: Mapping[str, str] = {
            name: str(column.merged((linked if name in with_keys else ()) or merged, suffix=suffix if clashing else ""))
            for name, column in own.items()
        }
        sides.append(frame.rename(columns=dict(renamed)))
    return sides[0], sides[1]


def _clashing(a: pd.DataFrame, b: pd.DataFrame, keys: Sequence[str]) -> set[str]:
    """The names of fields and columns that both sides have, besides the keys."""
    has = []
    for frame in (a, b):
        own = {str(name) for name in frame.columns if not is_service(name)}
        has.append((own | set(loader_of(frame, None).columns)) - set(keys))
    return has[0] & has[1]
