"""Transforms: a function of rows that runs on the workers, and what it does to the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.fields.cell_codecs import shape_fits
from hubarray.readers.fields.unischema import Unischema, UnischemaField
from hubarray.values.foreign import plain_array

# What Petastorm takes in place of a field.
EditedField = UnischemaField | tuple[str, Any, tuple[int | None, ...], bool]


class TransformSpec:
    """A function of rows, run on the workers after the predicate, and the schema of what it gives.

    Parameters
    ----------
    func : callable, optional
        A function that takes and returns a row as a dictionary in :func:`hubarray.make_reader`, and a DataFrame with
        any number of rows in :func:`hubarray.make_batch_reader`. None to edit the schema alone.
    edit_fields : list of UnischemaField, or of (name, numpy_dtype, shape, nullable)
        Fields that it adds or changes.
    removed_fields : list of str
        Fields that it drops.
    selected_fields : list of str
        Fields that it keeps, in this order; instead of ``removed_fields``.
    """

    def __init__(
        self,
        func: Callable[[Any], Any] | None = None,
        edit_fields: Sequence[EditedField] | None = None,
        removed_fields: Sequence[str] | None = None,
        selected_fields: Sequence[str] | None = None,
    ) -> None:
        if removed_fields and selected_fields is not None:
            raise ConfigError("TransformSpec: give removed_fields or selected_fields, not both")
        if func is not None and not callable(func):
            raise ConfigError(f"TransformSpec: func={func!r} is not a function"[:200])
        self.func = func
        self.edit_fields = [_edited(field) for field in _listed("edit_fields", edit_fields)]
        self.removed_fields = [str(field) for field in _listed("removed_fields", removed_fields)]
        self.selected_fields = (
            None if selected_fields is None else [str(field) for field in _listed("selected_fields", selected_fields)]
        )


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes)) or not hasattr(values or (), "__iter__"):
        raise ConfigError(f"TransformSpec: {name}={values!r}: give a list"[:200])
    return list(values or ())


def _edited(field: Any) -> UnischemaField:
    if isinstance(field, UnischemaField):
        return field
    if not isinstance(field, (tuple, list)) or len(field) != 4 or not isinstance(field[0], str):
        raise ConfigError(
            f"TransformSpec: edit_fields has {field!r}: give a UnischemaField, or "
            "(name, numpy_dtype, shape, nullable), such as ('mean', np.float32, (), False)"
        )
    try:
        np.dtype(None if field[1] is Decimal else field[1])
    except TypeError:
        raise ConfigError(
            f"TransformSpec: edit_fields has {field!r}: {field[1]!r} is not a dtype of NumPy's"[:300]
        ) from None
    shape = field[2] if field[2] is None or isinstance(field[2], (tuple, list)) else (field[2],)
    return UnischemaField(field[0], field[1], tuple(shape or ()), None, bool(field[3]))


def edit_field(
    name: str, numpy_dtype: Any, shape: tuple[int | None, ...], nullable: bool = False
) -> tuple[str, Any, tuple[int | None, ...], bool]:
    """An entry of ``edit_fields``, as Petastorm makes it."""
    return name, numpy_dtype, shape, nullable


def transform_schema(schema: Unischema, spec: TransformSpec) -> Unischema:
    """The schema of what a transform gives.

    Raises
    ------
    ConfigError
        It removes or selects a field that there is not.
    """
    edited = {field.name: field for field in spec.edit_fields}
    known = [*schema.fields, *(name for name in edited if name not in schema.fields)]
    for name in [*spec.removed_fields, *(spec.selected_fields or ())]:
        if name not in known:
            raise ConfigError(f"TransformSpec: there is no field {name!r}; there are {', '.join(known)}"[:400])
    names = known if spec.selected_fields is None else spec.selected_fields
    fields = [edited.get(name, schema.fields.get(name)) for name in names if name not in spec.removed_fields]
    return Unischema("transformed", [field for field in fields if field is not None])


def as_declared(field: UnischemaField, value: Any, *, batched: bool = False, is_edited: bool = True) -> Any:
    """The value, or values, that a transform gave for a field, in the dtype that the schema says.

    Arrays, those of PyTorch and others too, lists, numbers and text are judged, and become NumPy's; other objects are
    left as they are.

    Parameters
    ----------
    is_edited : bool
        Whether the transform says what it gives for the field. If not, as in many a program of Petastorm's, arrays and
        numbers of another shape or kind than the source has are taken as they are.

    Raises
    ------
    ConfigError
        It is null where it may not be, its shape is another one, or its dtype does not become the one that is said
        without loss of its kind.
    """
    if field.numpy_dtype is Decimal:
        return value
    dtype = np.dtype(field.numpy_dtype)
    if value is None:
        if not field.nullable:
            raise _refused(field, "as null", "it is not nullable")
        return value
    if dtype.kind == "O":
        return value
    if not isinstance(value, (np.generic, bool, int, float, str, bytes)):
        try:
            plain = plain_array(value)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"the transform gave {field.name!r}: {error}") from None
        # A tensor without axes is a number.
        value = value if plain is None else plain[()]
    is_list = isinstance(value, (list, tuple)) and bool(field.shape)
    if not (is_list or isinstance(value, (np.ndarray, np.generic, bool, int, float, str, bytes))):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        # Lists of unequal lengths, which are no array.
        if None not in field.shape:
            raise _refused(field, "as lists of unequal lengths", str(field.shape)) from None
        return value
    if not array.size and dtype.kind not in "US":
        # Nothing that could be of another kind.
        if is_list and not shape_fits(field.shape, array.shape) and None in field.shape:
            return np.zeros([n or 0 for n in field.shape], dtype)
        array = value = array.astype(dtype)
    shape = array.shape[1:] if batched else array.shape
    is_plain = isinstance(value, (bool, int, float))
    if not is_edited and _is_number(dtype) and _is_number(array.dtype):
        # A number of Python's has no dtype of its own; of others no value decides what becomes of the dtype.
        is_kin = array.dtype.kind in "iuf" and np.can_cast(array.dtype, dtype, "same_kind" if is_plain else "safe")
        fits = is_kin and shape_fits(field.shape, shape)
        if not fits or (is_plain and array.dtype.kind in "iu" and array.astype(dtype) != array):
            return array if is_list else array[()]
    if not shape_fits(field.shape, shape):
        raise _refused(field, f"with shape {shape}", str(field.shape))
    if is_plain and array.dtype == dtype:
        # Of numbers of Python's a batch would be a list.
        return array[()]
    if array.dtype == dtype or array.dtype.kind == "O" or (dtype.kind in "US" and array.dtype.kind in "US"):
        return array if is_list else value
    whole = array.dtype.kind in "iu" and dtype.kind in "iu"
    is_text = dtype.kind in "US" or array.dtype.kind in "US"
    with np.errstate(over="ignore"):
        made = array.astype(dtype) if whole or (not is_text and np.can_cast(array.dtype, dtype, "same_kind")) else None
    if made is None or (whole and not (made == array).all()):
        raise _refused(field, f"as {array.dtype}", str(dtype))
    if made.dtype.kind in "fc" and (np.isinf(made) & ~np.isinf(array)).any():
        raise _refused(field, f"as {array.dtype}, with numbers beyond {dtype}", str(dtype))
    return made if batched or made.ndim else made[()]


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether it is a number's, those of ml_dtypes included, which NumPy takes for bytes."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)


def _refused(field: UnischemaField, shown_value: str, said: str) -> ConfigError:
    return ConfigError(
        f"the transform gave {field.name!r} {shown_value}, and the schema says {said}; say in edit_fields what it gives"
    )
