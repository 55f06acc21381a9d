"""Every kind of value at every entry point: stored as it is, converted with its value kept, or refused by name."""

import numpy as np
import pytest

import hubarray as hub
from tests.conversions import matrix
from tests.conversions.entries import ENTRIES
from tests.conversions.kinds import KINDS, each, plain


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_value_has_the_outcome_that_is_kept_at_every_entry_point(kind, tmp_path):
    outcomes = {}
    for name in matrix.entries():
        (folder := tmp_path / name).mkdir()
        outcomes[name] = matrix.outcome(name, kind, hub.Root(folder))
        if not isinstance(outcomes[name], Exception):
            _check_stored(kind, name, outcomes[name])
    assert matrix.described(kind, outcomes) == matrix.kept()[kind], f"if this is meant: {matrix.ACCEPT}"


def _check_stored(kind, name, stored):
    """What is stored is what was given, or NumPy's cast of it where that may differ."""
    for item, given in zip(stored, each(KINDS[kind].value())[-len(stored) :], strict=True):
        result, expected = plain(item), plain(given)
        if name.startswith("fill_value") and given is None:
            # None is the fill value that an array has when none is given.
            expected = plain(np.zeros((), stored.dtype)[()])
        if isinstance(result, bytes) and isinstance(expected, str):
            expected = expected.encode()
        if KINDS[kind].casts:
            with np.errstate(all="ignore"):
                expected = plain(np.asarray(expected).astype(np.asarray(item).dtype)[()])
        assert result == expected or (result is None and expected is None), (
            f"{name}: {result!r} is stored of {expected!r}"
        )


def test_every_kind_is_in_the_matrix_once():
    assert list(matrix.kept()) == list(KINDS)
    assert len(KINDS) * len(ENTRIES) >= 40 * 25
