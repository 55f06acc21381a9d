"""Every kind of attribute at every entry point: the same value comes back, or the same error."""

import math

import h5py
import pytest

import hubarray as hub
from tests.conversions.attributes import ATTRIBUTE_ENTRIES, ATTRIBUTES, SOURCES, Refused
from tests.conversions.entries import NAME


def is_same(found, wanted):
    """Of the same types too, and with NaN where NaN is."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    if isinstance(found, dict):
        return list(found) == list(wanted) and all(is_same(found[key], wanted[key]) for key in found)
    return found == wanted or (isinstance(found, float) and math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("kind", ATTRIBUTES)
@pytest.mark.parametrize("entry", ATTRIBUTE_ENTRIES)
def test_an_attribute_is_kept_or_refused(entry, kind, root):
    make, expected = ATTRIBUTES[kind]
    run = ATTRIBUTE_ENTRIES[entry].run
    if isinstance(expected, Refused):
        with pytest.raises(hub.errors.ConfigError, match=f"attrs.*{expected}"):
            run(root, make())
        assert all(not hub.load(name, root=root).attrs for name in hub.list(root=root))
    else:
        assert is_same(run(root, make()), expected)


@pytest.mark.parametrize("kind", ATTRIBUTES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("write", [hub.store, hub.import_])
def test_an_attribute_of_a_source_is_kept_or_left_out_with_a_warning(write, source, kind, root, recwarn, caplog):
    make, expected = ATTRIBUTES[kind]
    try:
        given = SOURCES[source](make())
    except Exception:
        # The source itself does not take it.
        return
    try:
        stored = write(given, NAME, root=root)
    except hub.HubError as error:
        assert isinstance(expected, Refused)
        assert "attr" in str(error)
        return
    attrs = (stored["x"] if stored.kind == "dataset" else stored).attrs
    warned = (
        any("left out: a" in str(item.message) for item in recwarn.list) or "attribute a is too large" in caplog.text
    )
    assert ("a" in attrs) != warned
    if "a" in attrs and not isinstance(given, h5py.Dataset) and not isinstance(expected, Refused):
        assert is_same(attrs["a"], expected) or source == "array of Zarr"
