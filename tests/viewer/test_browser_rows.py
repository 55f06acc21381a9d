"""Rows of tables and samples of datasets in a real browser."""

import numpy as np
import pytest

import hubarray as hub
from tests.viewer.conftest import api, get
from tests.viewer.test_answers import ask

FRONT, REAR = np.full((60, 80, 3), 90, "u1"), np.full((60, 80, 3), 160, "u1")


@pytest.fixture
def cars(root):
    schema = hub.Schema(
        {
            "t": hub.Field("M8[ms]", index=True),
            "speed": hub.Field("f4"),
            "front.image": hub.Field("u1", (None, None, 3), codec="png"),
            "front.boxes": hub.Field("f4", (None, 4)),
            "front.labels": hub.Field("i4", (None,)),
            "rear.image": hub.Field("u1", (None, None, 3), codec="png"),
            "rear.label": hub.Field(str),
            "lidar.points": hub.Field("f4", (None, 4)),
            "imu": hub.Field("f8", (None, 6)),
            "sound": hub.Field("i2", (None,)),
            "grid": hub.Field("f4", (2000, 8)),
        }
    )
    rng = np.random.default_rng(0)
    with hub.table_writer("t/cars:v1", schema, root=root) as w, w.partition("a") as p:
        for i in range(60):
            points = rng.normal(0, 10, (500, 4)).astype("f4")
            p.append({
                "t": np.datetime64("2026-11-26", "ms") + np.timedelta64(100 * i, "ms"), "speed": np.float32(i),
                "front.image": FRONT, "front.boxes": np.array([[10, 10, 40, 30], [50, 20, 70, 50]], "f4"),
                "front.labels": np.array([1, 2], "i4"), "rear.image": REAR, "rear.label": "van <b>",
                "lidar.points": points, "imu": rng.normal(0, 1, (5000, 6)), "sound": np.arange(9000, dtype="i2"),
                "grid": np.full((2000, 8), i, "f4"),
            })  # fmt: skip
    return "t/cars:v1"


def card(page, name):
    return page.locator(f".card:has(h2:has-text('{name}'))")


def drawn(page, name, x, y):
    """The colour over an image, at a place of the image."""
    return card(page, name).locator("canvas.over").evaluate(
        """(c, [x, y]) => [...c.getContext('2d').getImageData(c.width * x, c.height * y, 1, 1).data]""", [x, y]
    )  # fmt: skip


def test_boxes_and_labels_lie_on_the_images_that_they_belong_to(show, cars):
    page = show(f"name={cars}&row=5")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.picture img')].every((one) => one.naturalWidth === 80)"
    )
    # The edges of both boxes, in colours by their labels; and nothing within.
    first, second = drawn(page, "front.image", 10 / 80, 20 / 60), drawn(page, "front.image", 60 / 80, 20 / 60)
    assert first[3] > 200
    assert second[3] > 200
    assert first[:3] != second[:3]
    assert drawn(page, "front.image", 25 / 80, 25 / 60)[3] == 0
    assert card(page, "rear.image").locator("button").count() == 0
    assert card(page, "rear.image").locator(".caption").text_content() == "rear.label: van <b>"
    assert card(page, "front.image").locator(".caption").count() == 0
    # The same numbers as corner and size.
    toggle = card(page, "front.image").get_by_role("button")
    toggle.click()
    assert toggle.text_content() == "boxes: corner and size"
    assert drawn(page, "front.image", 30 / 80, 40 / 60)[3] > 200
    toggle.click()
    assert drawn(page, "front.image", 10 / 80, 20 / 60)[3] == 0


def test_points_are_drawn_in_space_and_turned(show, cars):
    page = show(f"name={cars}&row=5")
    page.wait_for_function("() => document.querySelector('canvas.cloud + p')?.textContent === '500 points'")
    canvas = page.locator("canvas.cloud")

    def lit():
        page.wait_for_timeout(300)
        return canvas.screenshot()

    before = lit()
    assert len(set(before)) > 50
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 90, steps=4)
    page.mouse.up()
    assert lit() != before


def test_what_is_ragged_and_long_is_a_curve_and_what_is_large_a_piece_of_it(show, cars):
    page = show(f"name={cars}&row=5")
    page.wait_for_selector(".u-wrap canvas")
    assert card(page, "sound").locator(".u-series").count() == 2
    assert card(page, "imu").locator(".u-series").count() == 7
    values = {item["name"]: item for item in _row(page)}
    assert max(values["sound"]["curves"]["value"]) == 8999
    assert len(values["imu"]["x"]) <= 2002


def _row(page):
    return page.evaluate("""async () => {
        const query = new URLSearchParams({name: 't/cars:v1', row: 5});
        return (await (await fetch(`api/row?${query}`)).json()).values; }""")


def test_a_scalar_is_seen_over_time_from_its_row_and_the_row_is_marked(show, cars):
    page = show(f"name={cars}&row=30")
    page.get_by_label("Plot of").select_option("speed")
    page.wait_for_selector("[aria-label='Plot'] .u-wrap canvas, .curves .u-wrap canvas")
    with page.expect_response(lambda answer: "api/curve" in answer.url) as told:
        page.get_by_label("Plot of").select_option("")
        page.get_by_label("Plot of").select_option("speed")
    result = told.value.json()
    assert (result["of"], result["y"][30], result["rows"][30]) == ("t", 30, 30)
    page.wait_for_timeout(300)
    marked = page.locator(".curves canvas").first.evaluate("""c => {
        const style = getComputedStyle(document.documentElement).getPropertyValue('--bad').trim();
        const probe = document.createElement('canvas').getContext('2d');
        probe.fillStyle = style; probe.fillRect(0, 0, 1, 1);
        const wanted = [...probe.getImageData(0, 0, 1, 1).data];
        const data = c.getContext('2d').getImageData(0, c.height / 2, c.width, 1).data;
        const places = [];
        for (let x = 0; x < c.width; x += 1) {
          if (wanted.every((one, i) => Math.abs(one - data[4 * x + i]) < 90)) places.push(x / c.width);
        }
        return places; }""")
    assert marked
    assert all(0.4 < item < 0.7 for item in marked)


def test_columns_are_turned_on_and_off_large_ones_too(show, cars):
    page = show(f"name={cars}")
    page.wait_for_selector("tbody tr td img.thumb")
    heads = lambda: page.locator("thead th").all_text_contents()[: len(page.locator("thead th").all())]  # noqa: E731
    assert "speed" in heads()
    assert "grid" not in heads()
    page.get_by_text("Columns", exact=True).click()
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "api/cell" in request.url else None)
    page.get_by_label("grid", exact=True).check()
    page.wait_for_function(
        "() => [...document.querySelectorAll('td[data-field=\"grid\"]')].some((one) => one.textContent.startsWith('2000'))"
    )
    # Rows that are out of sight are not read.
    assert 0 < len(asked) < 50
    page.get_by_label("speed", exact=True).uncheck()
    assert "speed" not in heads()
    page.reload()
    page.wait_for_selector("tbody tr td")
    assert "grid" in heads()
    assert "speed" not in heads()


def test_a_row_that_is_larger_than_memory_is_meant_for_is_read_by_parts(show, viewer, root, monkeypatch):
    from hubarray.viewer import row_pages

    monkeypatch.setattr(row_pages, "_LOT_BYTES", 1000)
    monkeypatch.setattr(row_pages, "_MAX_ROW_BYTES", 1 << 20)
    schema = hub.Schema({f"f{i}": hub.Field("f8", (1 << 16,)) for i in range(5)})
    with hub.table_writer("t/wide:v1", schema, root=root) as w, w.partition("a") as p:
        p.append({f"f{i}": np.full(1 << 16, i, "f8") for i in range(5)})
    result = {item["name"]: item["is"] for item in ask(viewer, "row", name="t/wide:v1", row=0)["values"]}
    assert result == {"f0": "curves", "f1": "curves", "f2": "curves", "f3": "late", "f4": "late"}
    page = show("name=t/wide:v1&row=0")
    page.locator(".card", has_text="f4").get_by_role("button", name="Load").click()
    page.wait_for_selector(".card:has(h2:has-text('f4')) .u-wrap")
    assert get(api(viewer, "row", name="t/wide:v1", row=0, field="nothing")).status == 400


def test_samples_of_a_dataset_have_their_labels_on_their_images(show, root, astronaut):
    specs = {
        "image": hub.ArraySpec((0, 512, 512, 3), "u1", dims=("sample", "y", "x", "c")),
        "label": hub.ArraySpec(0, str, dims=("sample",)),
        "boxes": hub.ArraySpec((0, 1, 4), "f4", dims=("sample", None, None)),
    }
    ds = hub.dataset(specs, "t/ds:v1", root=root)
    ds.append(
        {
            "image": np.stack([astronaut] * 2),
            "label": ["pilot", "Eileen"],
            "boxes": np.full((2, 1, 4), [[100, 100, 300, 300]]),
        }
    )
    page = show("name=t/ds:v1")
    page.wait_for_function("() => document.querySelector('.picture img')?.naturalWidth === 512")
    assert page.locator(".caption").text_content() == "label: pilot"
    assert drawn(page, "image", 100.5 / 512, 200 / 512)[3] > 200
    page.keyboard.press("]")
    page.wait_for_selector(".caption:has-text('Eileen')")
