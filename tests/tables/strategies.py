"""Random groups of fields, and rows for them, as users would give them."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hubarray.tables.format.schema import Field

DTYPES = ["u1", "i8", "f4", "c8", "?", "M8[us]", "U3", "S2"]
CODECS = [None, "lz4", "zstd", "blosc"]


@st.composite
def fields(draw, codecs=CODECS):
    dtype = draw(st.sampled_from([*DTYPES, str, bytes]))
    shape = () if dtype in (str, bytes) else tuple(draw(st.lists(st.none() | st.integers(1, 3), max_size=3)))
    return Field(dtype, shape, codec=draw(st.sampled_from(codecs)), nullable=draw(st.booleans()), group="g")


@st.composite
def values(draw, field):
    """A value of a field, as it reads back."""
    if field.nullable and draw(st.integers(0, 3)) == 0:
        return None
    if field.kind == "string":
        return draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
    if field.kind == "bytes":
        return draw(st.binary(max_size=9))
    shape = tuple(draw(st.integers(0, 3)) if n is None else n for n in field.shape)
    drawn = draw(hnp.arrays(field.dtype, shape))
    return drawn if shape else drawn[()]


def same(one, two):
    """Whether two values are the same, type and bits."""
    if one is None or isinstance(one, (str, bytes)):
        return type(one) is type(two) and one == two
    one, two = np.asarray(one), np.asarray(two)
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
