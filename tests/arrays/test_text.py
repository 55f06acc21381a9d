"""Text that is longer than the dtype holds is refused; NumPy cuts it without a word."""

import numpy as np
import pytest

import hubarray as hub

LONG = "seven letters"
STRUCTURE = np.dtype([("id", "i4"), ("name", "U4")])


@pytest.fixture
def texts(root):
    return hub.array((4,), "t/x:v0", "U5", root=root)


TOO_LONG = [LONG, [LONG], np.array([LONG]), np.str_(LONG), ["a", LONG], np.array(["a", LONG], object)]


@pytest.mark.parametrize("value", TOO_LONG, ids=repr)
def test_text_that_does_not_fit_is_refused_on_every_way_in(texts, value):
    key = slice(0, np.size(value))
    for use in (
        lambda: texts.__setitem__(key, value),
        lambda: texts.append(np.atleast_1d(value)),
        lambda: texts.append(list(np.atleast_1d(value))),
    ):
        with pytest.raises(ValueError, match=r"13 characters does not fit U5.*seven letters.*astype\('U13'\)"):
            use()
    with pytest.raises(ValueError, match="13 characters"), texts.transaction() as t:
        t[key] = value
    assert texts[...].tolist() == [""] * 4
    assert texts.commit == 1


def test_text_that_fits_is_stored_whatever_it_comes_in(texts):
    for i, value in enumerate(["abcde", np.array("abc", "U99"), ["x"], np.array(["é"], object)]):
        texts[i : i + 1] = value
    assert texts[...].tolist() == ["abcde", "abc", "x", "é"]
    for value in (12345, np.arange(4), np.datetime64("2020"), None, float("nan"), True):
        with pytest.raises(hub.errors.ConfigError, match="U5 holds text"):
            texts[0] = value
    assert texts[0] == "abcde"


def test_bytes_and_fields_of_structures_are_judged_alike(root):
    array = hub.array(2, "t/b:v0", "S3", root=root)
    with pytest.raises(ValueError, match="4 characters does not fit S3"):
        array[0] = b"four"
    with pytest.raises(ValueError, match="4 characters does not fit S3"):
        array[0] = "four"
    records = hub.array(2, "t/r:v0", STRUCTURE, root=root)
    records[0] = (7, "four")
    for value in [(8, "fives"), [(8, "ok"), (9, "fives")], np.array([(8, "fives")], [("id", "i4"), ("name", "U9")])]:
        with pytest.raises(ValueError, match="in the field 'name' does not fit U4"):
            records[:] = value
    assert records[0].tolist() == (7, "four")


@pytest.mark.parametrize("codec", ["auto", "none", "zstd", [{"name": "bytes"}, {"name": "crc32c"}]])
def test_what_is_no_letter_is_not_written(root, codec):
    bad = np.array([65, 0x110000, 66], "u4").view("U1")
    array = hub.array(3, "t/letters:v0", "U1", codec=codec, root=root)
    array[:] = ["a", "\U0010ffff", "\ud800"]
    records = hub.array(3, "t/records:v0", STRUCTURE, root=root)
    structures = np.zeros(3, STRUCTURE)
    structures.view("u4")[6] = 1 << 31
    for target, value in ((array, bad), (records, structures)):
        before = target[...].tolist()
        with pytest.raises(hub.errors.ConfigError, match=r"code points beyond U\+10FFFF"):
            target[:] = value
        assert target[...].tolist() == before


def test_an_element_has_a_longest_size(root):
    with pytest.raises(hub.errors.ConfigError, match="20,000,000 bytes is more than the 16,777,216"):
        hub.array(1, "t/x:v0", "U5000000", root=root)
    widest = hub.array(1, "t/x:v0", "S16777216", root=root)
    widest[0] = b"x" * 16777216
    assert len(hub.load("t/x:v0", root=root)[0]) == 16777216


def test_an_import_takes_text_as_wide_as_it_comes(root):
    assert hub.import_(["a", "abc", ""], "t/x:v0", root=root)[...].tolist() == ["a", "abc", ""]
    assert hub.import_([b"a", b"abc"], "t/y:v0", root=root).dtype == np.dtype("S3")
    assert hub.import_(np.array(["a", "wider"], object), "t/z:v0", root=root).dtype == np.dtypes.StringDType()
    assert hub.import_(iter(["a", "abc"]), "t/w:v0", root=root)[...].tolist() == ["a", "abc"]
