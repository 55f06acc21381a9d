"""Transforms: a function of rows that runs on the workers, and what it does to the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from hubarray.errors import ConfigError
from hubarray.readers.field_codecs import shape_fits
from hubarray.readers.unischema import Unischema, UnischemaField

# What Petastorm takes in place of a field.
EditedField = UnischemaField | tuple[str, Any, tuple[int | None, ...], bool]


class TransformSpec:
    """A function of rows, run on the workers after the predicate, and the schema of what it gives.

    Parameters
    ----------
    func : callable, optional
        Of :func:`hubarray.make_reader`, takes and gives a row as a dictionary; of :func:`hubarray.make_batch_reader`
        a DataFrame, of as many rows as it likes. None to edit the schema alone.
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
        self.func = func
        self.edit_fields = [
            one if isinstance(one, UnischemaField) else UnischemaField(one[0], one[1], tuple(one[2]), None, one[3])
            for one in edit_fields or ()
        ]
        self.removed_fields = list(removed_fields or ())
        self.selected_fields = None if selected_fields is None else list(selected_fields)


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
    kept = known if spec.selected_fields is None else spec.selected_fields
    fields = [edited.get(name, schema.fields.get(name)) for name in kept if name not in spec.removed_fields]
    return Unischema("transformed", [one for one in fields if one is not None])


def as_declared(field: UnischemaField, value: Any, *, batched: bool = False) -> Any:
    """The value, or values, that a transform gave for a field that ``edit_fields`` declares, in the declared dtype.

    Arrays and numbers are judged; other objects, such as tensors, are left as they are.

    Raises
    ------
    ConfigError
        Its shape is another one, or its dtype does not become the declared one without loss of its kind.
    """
    kind = field.numpy_dtype
    if isinstance(value, bool) or not isinstance(value, (np.ndarray, np.generic, int, float)) or kind is Decimal:
        return value
    found, dtype = np.asarray(value), np.dtype(kind)
    if dtype.kind == "O":
        return value
    shape = found.shape[1:] if batched else found.shape
    if not shape_fits(field.shape, shape):
        raise ConfigError(f"the transform gave {field.name!r} with shape {shape}, and edit_fields says {field.shape}")
    if found.dtype == dtype or found.dtype.kind in "OUS" or dtype.kind in "US":
        return value
    whole = found.dtype.kind in "iu" and dtype.kind in "iu"
    made = found.astype(dtype) if whole or np.can_cast(found.dtype, dtype, "same_kind") else None
    if made is None or (whole and not (made == found).all()):
        raise ConfigError(f"the transform gave {field.name!r} as {found.dtype}, and edit_fields says {dtype}")
    return made if batched or made.ndim else made[()]
