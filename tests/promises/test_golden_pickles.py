"""Pickles of handles that version 0.1 made load, or are refused by name."""

import pickle
from pathlib import Path

import pytest

import hubarray as hub
from tests.golden.make_pickles import ROOT, stored

PICKLES = Path(__file__).parents[1] / "golden" / "pickles"


@pytest.fixture
def now(isolated):
    """The handles of now, of the same names."""
    for name in ("t/a:v1", "t/d:v1", "t/t:v1"):
        if hub.exists(name, root=ROOT):
            hub.delete(name, root=ROOT)
    return stored()


@pytest.mark.parametrize("name", sorted(path.stem for path in PICKLES.glob("*.pickle")))
def test_a_pickle_of_an_earlier_version_is_what_it_was_or_is_refused_by_name(now, name):
    try:
        found = pickle.loads((PICKLES / f"{name}.pickle").read_bytes())
    except hub.HubError as error:
        assert "t/" in str(error)
    else:
        assert type(found) is type(now[name])


def test_handles_of_an_earlier_version_read(now):
    def old(name):
        return pickle.loads((PICKLES / f"{name}.pickle").read_bytes())

    assert old("array")[...].tolist() == [0, 1, 2, 3, 4, 5]
    assert old("dataset")["x"][1] == 1
    # Another table has its name now.
    with pytest.raises(hub.errors.NotFoundError, match="was deleted and created again"):
        old("table")[0]
    assert old("schema") == now["schema"]
    assert hub.load("t/a:v1", root=old("root"))[2] == 2
