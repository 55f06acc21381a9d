"""Pictures of arrays in a real browser: what is asked for and when, and the line of Python for what is seen."""

import ast
import json
import threading
from urllib.parse import quote

import numpy as np
import pytest
from skimage import data

import hubarray as hub
from tests.viewer.conftest import pixel, wait_for_picture


@pytest.fixture
def copied(page, viewer, root):
    """What the button puts on the clipboard, run as the Python that it is."""
    hub.configure(root=root.url)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=viewer.url.rsplit("/", 2)[0])

    def run():
        page.get_by_role("button", name="Copy code").click()
        page.wait_for_selector("#status:has-text('Copied')")
        line = page.evaluate("() => navigator.clipboard.readText()")
        assert line == page.locator("code.line").text_content()
        # Written by the page; that no name makes it more than a look has a test below.
        *before, last = ast.parse(line).body
        names = {"hub": hub, "np": np}
        exec(compile(ast.Module(before, []), "line", "exec"), names)
        return eval(compile(ast.Expression(last.value), "line", "eval"), names)

    return run


def look(page, **view):
    page.evaluate("view => { const p = window.hubarrayPicture; p.view = view; p.moved(); }", view)
    wait_for_picture(page)


def test_the_line_reads_what_is_on_the_screen_and_no_more(show, root, copied):
    values = np.arange(3 * 4000 * 5000, dtype="u4").reshape(3, 4000, 5000)
    hub.store(values, "t/big:v1", root=root)
    page = show("name=t/big:v1&at=2,0,0")
    wait_for_picture(page)
    # All of it is seen by every so many elements.
    step = page.evaluate("() => 2 ** window.hubarrayPicture.level()")
    assert step > 1
    np.testing.assert_array_equal(copied(), values[2, ::step, ::step])
    look(page, scale=1, x=1000, y=300)
    wide, high = page.evaluate("() => window.hubarrayPicture.box()")
    result = copied()
    np.testing.assert_array_equal(result, values[2, 300 : 300 + result.shape[0], 1000 : 1000 + result.shape[1]])
    assert (0 <= result.shape[0] - high <= 1, 0 <= result.shape[1] - wide <= 1) == (True, True)


@pytest.mark.parametrize("part", ["abs", "phase", "real", "imag"])
def test_the_line_of_complex_numbers_gives_the_part_that_is_seen(show, root, copied, part):
    values = np.exp(1j * np.arange(4096).reshape(64, 64) / 99)
    hub.store(values, "t/x:v1", root=root)
    page = show("name=t/x:v1")
    wait_for_picture(page)
    page.get_by_label("Part", exact=True).select_option(part)
    expected = {"abs": np.abs, "phase": np.angle, "real": np.real, "imag": np.imag}[part](values)
    np.testing.assert_array_equal(copied(), expected)


def test_the_line_of_three_cuts_of_a_curve_and_of_values_reads_just_these(show, page, root, copied):
    values = np.arange(32 * 40 * 48, dtype="f4").reshape(32, 40, 48)
    hub.store(values, "t/volume:v1", root=root)
    show("name=t/volume:v1&mode=three cuts")
    page.wait_for_function("() => document.querySelectorAll('.cuts canvas').length === 3")
    for result, expected in zip(copied(), (values[16], values[:, 20], values[:, :, 24]), strict=True):
        np.testing.assert_array_equal(result, expected)
    show("name=t/volume:v1&mode=curve&at=3,7,0")
    page.wait_for_selector(".u-wrap canvas")
    np.testing.assert_array_equal(copied(), values[3, 7])
    page.get_by_label("One line per").select_option("1")
    page.wait_for_function("() => document.querySelectorAll('.u-series').length === 9")
    np.testing.assert_array_equal(copied(), values[3, 7:15])
    show("name=t/volume:v1&mode=values&at=3,0,0")
    page.wait_for_selector("table.values td")
    page.get_by_role("button", name="Next rows").click()
    page.wait_for_function("() => document.querySelector('code.line').textContent.includes('32:')")
    np.testing.assert_array_equal(copied(), values[3, 32:, :12])


def test_a_curve_that_was_come_closer_to_is_the_line_too(show, page, root, copied):
    values = np.sin(np.arange(5000) / 50)
    hub.store(values, "t/signal:v1", root=root)
    show("name=t/signal:v1")
    page.wait_for_selector(".u-over")
    box = page.locator(".u-over").bounding_box()
    for move, share in (
        (page.mouse.move, 0.25),
        (page.mouse.down, None),
        (page.mouse.move, 0.5),
        (page.mouse.up, None),
    ):
        move(*(() if share is None else (box["x"] + box["width"] * share, box["y"] + 50)))
    page.wait_for_selector("button:has-text('Show all'):visible")
    result = copied()
    assert 1200 < len(result) < 1300
    first = int(np.flatnonzero(values == result[0])[0])
    assert 1150 < first < 1300
    np.testing.assert_array_equal(result, values[first : first + len(result)])


def test_the_line_of_an_array_of_a_dataset_is_nothing_but_a_look(show, root, copied):
    name = 'x"]; __import__("os").system("id") #'
    ds = hub.dataset({name: hub.ArraySpec((20, 30))}, "t/ds:v1", root=root)
    ds[name][...] = np.arange(600).reshape(20, 30)
    page = show(f"name=t/ds:v1&key={quote(name, safe='')}")
    wait_for_picture(page)
    assert page.locator("code.line").text_content() == f'hub.load("t/ds:v1@2")[{json.dumps(name)}][:, :]'
    np.testing.assert_array_equal(copied(), np.arange(600).reshape(20, 30))


def test_any_axes_are_rows_columns_and_channels(show, root, astronaut):
    stack = np.stack([np.roll(astronaut, 30 * i, 0) for i in range(5)])
    hub.store(np.ascontiguousarray(stack.transpose(3, 1, 0, 2)), "t/x:v1", root=root)
    page = show("name=t/x:v1&mode=picture&at=0,0,2,0")
    wait_for_picture(page)
    page.get_by_label("Rows", exact=True).select_option("1")
    page.get_by_label("Channels").select_option("0")
    page.wait_for_timeout(300)
    wait_for_picture(page)
    assert np.abs(np.array(pixel(page, 0.5, 0.5)[:3], int) - stack[2, 256, 256]).max() < 40
    page.get_by_label("Rows", exact=True).select_option("3")
    page.wait_for_timeout(300)
    wait_for_picture(page)
    # Rows and columns have changed places.
    look(page, scale=1, x=100, y=200)
    assert pixel(page, 0, 0)[:3] == stack[2, 100, 200].tolist()
    assert page.get_by_label("Columns").input_value() == "1"
    page.reload()
    page.wait_for_selector("main h1")
    assert [page.get_by_label(item, exact=True).input_value() for item in ("Rows", "Columns", "Channels")] == [
        "3",
        "1",
        "0",
    ]


def test_of_many_channels_three_are_the_colours(show, root, copied):
    bands = np.stack([np.full((64, 64), 20 * i, "u1") for i in range(12)])
    hub.store(bands, "t/bands:v1", root=root)
    page = show("name=t/bands:v1")
    wait_for_picture(page)
    page.get_by_label("Channels").select_option("0")
    for colour, band in (("Red", 11), ("Green", 3), ("Blue", -1)):
        field = page.get_by_label(f"{colour}, channel")
        field.fill(str(band))
        field.press("Enter")
    low, high = page.get_by_label("Minimum"), page.get_by_label("Maximum")
    low.fill("0")
    low.press("Enter")
    high.fill("255")
    high.press("Enter")
    page.wait_for_timeout(300)
    wait_for_picture(page)
    assert pixel(page, 0.5, 0.5)[:3] == [220, 60, 0]
    np.testing.assert_array_equal(copied(), bands[[11, 3]])


def test_the_histogram_counts_what_is_in_sight(show, root):
    values = np.zeros((2000, 2000), "f4")
    values[1000:] = 5
    hub.store(values, "t/x:v1", root=root)
    page = show("name=t/x:v1")
    wait_for_picture(page)
    assert page.locator("canvas.bars").get_attribute("title") == "0.0000 to 5.0000"
    look(page, scale=1, x=0, y=100)
    page.wait_for_function("() => document.querySelector('canvas.bars').title === '0.0000 to 0.0000'")
    look(page, scale=1, x=0, y=1300)
    page.wait_for_function("() => document.querySelector('canvas.bars').title === '5.0000 to 5.0000'")
    page.get_by_role("button", name="Auto contrast").click()
    page.wait_for_function("() => document.querySelector(\"[aria-label='Minimum']\").value === '5'")


@pytest.mark.parametrize("kind", ["webp", "jpeg"])
def test_over_a_slow_line_tiles_may_be_smaller(show, root, kind):
    hub.store(data.astronaut(), "t/photo:v1", root=root)
    page = show("name=t/photo:v1")
    wait_for_picture(page)
    exact = pixel(page, 0.5, 0.5)
    with page.expect_response(lambda answer: f"as={kind}" in answer.url) as told:
        page.get_by_label("Tiles").select_option(kind)
    assert told.value.headers["content-type"] == f"image/{kind}"
    wait_for_picture(page)
    assert np.abs(np.subtract(pixel(page, 0.5, 0.5), exact)).max() < 24


class Gate:
    """Holds answers back until they may go on, and counts them."""

    def __init__(self, monkeypatch):
        from hubarray.viewer import array_pages

        self.open, self.begun, encoded = threading.Event(), 0, array_pages.drawing.encoded

        def slow(*arguments):
            self.begun += 1
            self.open.wait(30)
            return encoded(*arguments)

        monkeypatch.setattr(array_pages.drawing, "encoded", slow)


def test_a_coarse_look_comes_first_and_the_page_says_how_much_is_to_come(show, page, root, monkeypatch):
    values = np.random.default_rng(0).integers(0, 255, (4096, 4096), "u1")
    hub.store(values, "t/x:v1", chunks=(64, 64), root=root)
    asked = []
    page.on("request", lambda request: asked.append("coarse=1" in request.url) if "/picture" in request.url else None)
    gate = Gate(monkeypatch)
    show("name=t/x:v1")
    page.wait_for_function("() => /^\\d+ to come$/.test(document.querySelector('.busy')?.textContent)")
    # The page answers while its picture is slow.
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    assert all(asked)
    gate.open.set()
    wait_for_picture(page)
    assert page.locator(".busy").is_hidden()
    coarse = asked.count(True)
    assert (coarse, asked[:coarse]) == (len(asked) - coarse, [True] * coarse)


def test_tiles_that_are_no_longer_wanted_are_not_fetched(show, page, viewer, root, monkeypatch):
    a = hub.array((1 << 20, 1 << 20), "t/huge:v1", "u1", root=root)
    a[:64, :64] = 7
    show("name=t/huge:v1")
    wait_for_picture(page)
    gate = Gate(monkeypatch)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/picture" in request.url else None)
    page.evaluate("""async () => {
        const p = window.hubarrayPicture;
        for (let i = 0; i < 20; i += 1) {
          p.view = {scale: 1, x: i * 40000, y: i * 40000}; p.draw();
          await new Promise((done) => setTimeout(done, 50)); } }""")
    running, expected = page.evaluate("() => [window.hubarrayPicture.running.size, window.hubarrayPicture.wanted.size]")
    assert (running <= 5, expected <= 40) == (True, True)
    gate.open.set()
    wait_for_picture(page)
    # Twenty views of about twenty tiles: the server made those that it had begun, and those of the last one.
    assert len(asked) > 60
    assert gate.begun <= expected + 6 + 5


def test_what_fails_for_a_while_is_asked_again_and_what_is_broken_when_somebody_says_so(show, page, root, monkeypatch):
    from hubarray.viewer import array_pages

    hub.store(np.full((256, 256), 200, "u1"), "t/x:v1", root=root)
    encoded, failing = array_pages.drawing.encoded, [hub.errors.UnavailableError("the bucket does not answer")]

    def once(*arguments):
        if failing:
            raise failing.pop()
        return encoded(*arguments)

    monkeypatch.setattr(array_pages.drawing, "encoded", once)
    show("name=t/x:v1")
    page.wait_for_function("() => document.querySelector('.note')?.textContent.includes('does not answer')")
    page.wait_for_function(
        "() => !window.hubarrayPicture.wanted.size && document.querySelector('.retry').hidden", timeout=9000
    )
    assert pixel(page, 0.5, 0.5)[0] == 200
    failing.append(hub.errors.CorruptDataError("chunk 0 is broken"))
    page.get_by_label("Colormap", exact=True).select_option("viridis")
    page.wait_for_selector(".retry:visible")
    page.keyboard.press("Escape")
    page.go_back()
    page.wait_for_selector(".stage canvas")
    wait_for_picture(page)
    failing.append(hub.errors.CorruptDataError("chunk 0 is broken"))
    page.get_by_label("Colormap", exact=True).select_option("magma")
    page.wait_for_selector(".retry:visible")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".retry", state="hidden")
    wait_for_picture(page)


def test_the_space_bar_opens_what_has_the_focus(show, root):
    hub.array((8, 8), "t/x:v1", attrs={"camera": "left"}, root=root)
    page = show("name=t/x:v1&mode=about")
    page.locator("summary").focus()
    page.keyboard.press(" ")
    assert page.locator("details").get_attribute("open") is not None
    assert "left" in page.locator("details").text_content()
    tabs = page.get_by_role("tab")
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
