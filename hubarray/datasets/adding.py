"""Arrays that become part of a dataset: described, of the same root, or in memory."""

from __future__ import annotations

import numpy as np

from hubarray.arrays.handle import ArrayHandle
from hubarray.arrays.indexing import selection
from hubarray.arrays.metadata.spec import ArraySpec
from hubarray.arrays.write.operations import SetElements
from hubarray.datasets import growing, operations
from hubarray.datasets.operations import Step
from hubarray.errors import ConfigError
from hubarray.history.log.version import Version
from hubarray.values.foreign import unmasked
from hubarray.values.objects import plain_objects, refuse_objects


def steps_to_add(version: Version, name: str, array: ArraySpec | ArrayHandle | np.ndarray) -> list[Step]:
    """Steps that make an array part of a dataset of some version.

    Raises
    ------
    ConfigError
    """
    if isinstance(array, ArraySpec):
        with growing.about(name):
            return [operations.create(name, operations.entry_of(array.metadata(), array.attributes()))]
    if isinstance(array, ArrayHandle):
        return [operations.adoption(name, array, version)]
    if isinstance(array, np.ndarray):
        with growing.about(name):
            values: np.ndarray = plain_objects(unmasked(array))
        if values.dtype == object:
            refuse_objects(repr(name), values)
        with growing.about(name):
            metadata = ArraySpec(values.shape, values.dtype).metadata()
        steps = [operations.create(name, operations.entry_of(metadata, {}))]
        if values.size:
            values = values.astype(metadata.dtype, copy=False)
            whole = selection.parse(..., values.shape)
            steps.append(operations.on_array(name, SetElements(whole, whole.to_canonical(values))))
        return steps
    raise ConfigError(
        f"{name!r}: give a hub.ArraySpec, an array of hubarray under the same root, or one of NumPy, not a "
        f"{type(array).__name__}"
    )
