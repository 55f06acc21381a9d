"""Two commits side by side in a real browser."""

import itertools
import threading

import numpy as np
import pytest

import hubarray as hub
from hubarray.viewer import change_pages
from tests.viewer.test_answers import ask

OUTLINES = "() => [...new Set(window.hubarrayPictures.map((one) => JSON.stringify(one.outlines)))].map(JSON.parse)"


def seen(page, row, column):
    """The colour at an element of the array, on the picture that shows it there."""
    return page.evaluate(
        """([row, column]) => {
        const [left, right] = window.hubarrayPictures;
        const {scale, x, y} = left.view;
        const [at, down] = [(column - x) * scale, (row - y) * scale];
        const one = at < left.clip(...left.box())[2] ? left : right;
        const ratio = window.devicePixelRatio;
        return [...one.canvas.getContext('2d').getImageData(at * ratio, down * ratio, 1, 1).data].slice(0, 3); }""",
        [row, column],
    )


def settled(page, text):
    page.wait_for_selector(f".note:has-text('{text}')")
    page.wait_for_function("() => window.hubarrayPictures.every((one) => one.complete)")


def test_what_changed_is_outlined_by_its_chunks_at_once_and_by_its_elements_then(show, page, root, monkeypatch):
    a = hub.array((3, 256, 256), "t/x:v1", "u1", chunks=(1, 64, 64), root=root)
    a[:] = 60
    a[1, 70:90, 100:120] = 200
    a[2, 10, 10] = 1
    compared, differ, calls = threading.Event(), change_pages._differ, itertools.count()

    def held(*pair):
        # The first comparison finds the place at which the page opens.
        return differ(*pair) if next(calls) == 0 else compared.wait(20) and differ(*pair)

    monkeypatch.setattr(change_pages, "_differ", held)
    show("name=t/x:v1&tab=versions&one=2&two=3")
    # The elements are still being compared, so the pictures are not complete.
    page.wait_for_selector(".note:has-text('chunks that changed')")
    assert page.evaluate(OUTLINES) == [[[[64, 128], [64, 128]]]]
    compared.set()
    settled(page, "400 elements that differ")
    assert page.evaluate(OUTLINES) == [[[[70, 90], [100, 120]]]]
    # The line of the outline is on both sides of the slider, the old values left and the new ones right of it.
    assert seen(page, 80, 110) == [60, 60, 60]
    red = seen(page, 80, 100)
    assert red[0] > 150 > red[1]
    slider = page.get_by_label("Divider between left and right")
    slider.focus()
    slider.press("Home")
    settled(page, "400 elements that differ")
    assert seen(page, 80, 110) == [200, 200, 200]
    red = seen(page, 80, 100)
    assert red[0] > 150 > red[1]
    # In another plane nothing is outlined.
    page.get_by_label("axis 0").fill("0")
    page.wait_for_function("() => window.hubarrayPictures.every((one) => one.outlines.length === 0)")


def test_chunks_are_outlined_where_their_elements_are_too_many_to_look_at(viewer, root):
    a = hub.array((1 << 14, 1 << 14), "t/x:v1", "f8", chunks=(256, 256), root=root)
    a[::256, ::256] = 1
    result = ask(viewer, "changes", one="t/x:v1@1", two="t/x:v1@2")
    given = {"one": "t/x:v1@1", "two": "t/x:v1@2", "y": 0, "x": 1, "at": "0,0"}
    (region,) = result["regions"]
    view = ",".join(str(item) for side in region for item in side)
    assert ask(viewer, "differing", view=view, **given) == {"box": None, "elements": None}
    assert ask(viewer, "differing", view="0,256,256,512", **given) == {"box": [[0, 1], [256, 257]], "elements": 1}
    assert ask(viewer, "differing", view="1,256,1,256", **given) == {"box": None, "elements": 0}


@pytest.mark.parametrize("dtype", ["f4", "c8", "M8[s]", "bool"])
def test_what_is_no_number_on_both_sides_does_not_differ(viewer, root, dtype):
    a = hub.array((8, 8), "t/x:v1", dtype, chunks=(8, 8), root=root)
    nothing = {"f": np.nan, "c": np.nan, "M": np.datetime64("NaT"), "b": True}[np.dtype(dtype).kind]
    a[2:4] = nothing
    a[5, 5] = 1 if dtype != "M8[s]" else np.datetime64(1, "s")
    given = {"one": "t/x:v1@2", "two": "t/x:v1@3", "y": 0, "x": 1, "at": "0,0", "view": "0,8,0,8"}
    assert ask(viewer, "differing", **given) == {"box": [[5, 6], [5, 6]], "elements": 1}


def test_two_signals_lie_over_each_other_in_the_row_that_changed(show, page, root):
    a = hub.array((4, 5000), "t/signals:v1", "f4", chunks=(1, 5000), root=root)
    a[:] = np.sin(np.arange(5000) / 50)
    a[2, 1000:2000] = 7
    with page.expect_response(lambda answer: "api/line" in answer.url and "%404" not in answer.url) as told:
        show("name=t/signals:v1&tab=versions&one=2&two=3")
    assert "at=2%2C0" in told.value.url
    page.wait_for_selector(".u-wrap canvas")
    legend = page.locator(".u-legend .u-label").all_text_contents()
    assert legend[1:] == ["commit 2", "commit 3"]
    assert page.get_by_label("axis 0").input_value() == "2"
    with page.expect_response(lambda answer: "api/line" in answer.url) as told:
        page.get_by_label("axis 0").fill("3")
    assert "at=3%2C0" in told.value.url


def test_arrays_that_have_grown_and_tables_are_compared_too(show, page, root):
    a = hub.array((2, 64, 64), "t/x:v1", "u1", chunks=(1, 64, 64), root=root)
    a[:] = 5
    a.append(np.full((1, 64, 64), 9, "u1"))
    show("name=t/x:v1&tab=versions&one=2&two=3")
    page.wait_for_selector(".divider")
    assert "The shape was (2, 64, 64), and is (3, 64, 64)" in page.locator("main").text_content()
    schema = hub.Schema({"a": hub.Field("i4")})
    with hub.table_writer("t/rows:v1", schema, growing=True, root=root) as w, w.partition("p") as p:
        p.append({"a": 1})
    with hub.table_writer("t/rows:v1", root=root) as w, w.partition("q") as p:
        p.append({"a": 2})
    show("name=t/rows:v1&tab=versions")
    page.wait_for_selector("pre.line")
    assert page.locator("pre.line").text_content()
