"""What a page keeps of what is set on it, and what happens when answers come late."""

import time

import numpy as np
import pytest

import hubarray as hub
from tests.viewer.conftest import pixel, wait_for_picture

# The first answer of a page comes after all that were asked for later.
LATE = """page => { const ask = window.fetch; let count = 0;
    window.fetch = async (url, options) => { const mine = `${url}`.includes(`api/${page}`) ? ++count : 0;
      const answer = await ask(url, options);
      if (mine === 1) await new Promise((done) => setTimeout(done, 1500));
      return answer; }; }"""


def volume(root):
    values = np.arange(12 * 300 * 400, dtype="f4").reshape(12, 300, 400)
    hub.store(values, "t/x:v1", root=root)
    return values


def test_zoom_window_part_and_tiles_are_found_again(show, root):
    hub.store(np.exp(1j * np.arange(1_000_000).reshape(1000, 1000) / 999), "t/x:v1", root=root)
    page = show("name=t/x:v1")
    wait_for_picture(page)
    page.get_by_label("Part", exact=True).select_option("phase")
    page.get_by_label("Tiles").select_option("webp")
    page.evaluate("() => { const p = window.hubarrayPicture; p.view = {scale: 4, x: 100, y: 200}; p.moved(); }")
    low = page.get_by_label("Minimum")
    low.fill("-1.5")
    low.press("Enter")
    page.wait_for_function("() => location.hash.includes('view=200,100,4') && location.hash.includes('window=-1.5')")
    line = page.locator("code.line").text_content()
    page.reload()
    page.wait_for_selector("main h1")
    wait_for_picture(page)
    assert page.get_by_label("Part", exact=True).input_value() == "phase"
    assert page.get_by_label("Tiles").input_value() == "webp"
    assert low.input_value() == "-1.5"
    assert page.evaluate("() => window.hubarrayPicture.view") == {"scale": 4, "x": 100, "y": 200}
    assert page.locator("code.line").text_content() == line
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('view=')")


def test_a_stretch_of_a_curve_and_a_page_of_values_are_found_again(show, root):
    hub.store(np.arange(20 * 3000, dtype="f8").reshape(20, 3000), "t/x:v1", root=root)
    page = show("name=t/x:v1&mode=curve&span=1000,1500&each=0")
    page.wait_for_selector(".u-wrap canvas")
    assert "1,000 to 1,499" in page.locator("main").text_content()
    assert "8 of 20 curves" in page.locator("main").text_content()
    assert page.locator("code.line").text_content().endswith("[0:8, 1000:1500]".replace("0:8", ":8"))
    page.get_by_role("tab", name="values").click()
    page.wait_for_selector("table.values td")
    page.get_by_label("Go to column").fill("2020")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('table.values').textContent.includes('2020')")
    page.wait_for_function("() => location.hash.includes('first=0,2016')")
    page.reload()
    page.wait_for_function("() => document.querySelector('table.values')?.textContent.includes('2020')")


def test_the_values_that_are_shown_are_those_of_the_headings_however_late_others_come(show, root):
    values = volume(root)
    page = show("name=t/x:v1&mode=values")
    page.wait_for_selector("table.values td")
    page.evaluate(LATE, "values")
    page.get_by_label("Next rows").click()
    page.get_by_label("Next rows").click()
    page.wait_for_timeout(2500)
    row = page.locator("table.values tr").nth(1)
    assert row.locator("th").text_content() == "64"
    assert float(row.locator("td").first.text_content()) == values[0, 64, 0]


@pytest.mark.parametrize("to", ["picture", "about", "three cuts"])
def test_what_was_on_its_way_for_another_way_of_looking_is_not_shown(show, root, to):
    volume(root)
    page = show("name=t/x:v1&mode=about")
    page.evaluate(LATE, "line")
    page.get_by_role("tab", name="curve").click()
    page.get_by_role("tab", name=to).click()
    page.wait_for_timeout(2500)
    assert page.locator(".u-wrap").count() == 0
    assert page.get_by_role("tab", name=to).get_attribute("aria-selected") == "true"
    assert page.locator(".stage").count() == {"picture": 1, "about": 0, "three cuts": 4}[to]


def test_a_slow_first_window_does_not_mix_a_picture_into_three_cuts(show, root):
    volume(root)
    page = show("name=t/x:v1&mode=about")
    page.evaluate(LATE, "window")
    page.get_by_role("tab", name="picture").click()
    page.get_by_role("tab", name="three cuts").click()
    page.wait_for_timeout(2500)
    page.get_by_label("axis 0, number").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.note').textContent.includes('axis 0 3')")
    assert page.locator(".cuts canvas").count() == 3


def test_a_screen_of_very_many_tiles_is_finished(browser, viewer, root):
    hub.array((1 << 16, 1 << 16), "t/x:v1", "u1", chunks=(4096, 4096), root=root)[0, 0] = 1
    context = browser.new_context(viewport={"width": 3840, "height": 2160}, device_scale_factor=2)
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(1) if "/picture" in request.url else None)
    page.goto(viewer.url + "#name=t/x:v1&view=0,0,0.0512")
    wait_for_picture(page, 90_000)
    count = len(asked)
    page.wait_for_timeout(1500)
    assert len(asked) == count
    assert page.evaluate("() => window.hubarrayPicture.inSight") > 400
    context.close()


def test_masks_signals_of_many_rows_and_far_apart_chunks_are_seen(show, page, root):
    mask = np.zeros((64, 96), "u1")
    mask[:, 48:] = 1
    hub.store(mask, "t/mask:v1", root=root)
    show("name=t/mask:v1")
    wait_for_picture(page)
    page.wait_for_timeout(300)
    box = page.evaluate("() => [window.hubarrayPicture.box(), window.hubarrayPicture.view]")
    (wide, _), view = box
    share = [(at - view["x"]) * view["scale"] / wide for at in (20, 80)]
    assert [pixel(page, item, 0.5)[0] for item in share] == [0, 255]
    hub.store(np.zeros((32, 20_000), "f4"), "t/eeg:v1", root=root)
    show("name=t/eeg:v1")
    page.wait_for_selector(".u-wrap canvas")
    a = hub.array((1 << 20, 1 << 20), "t/sparse:v1", "u1", chunks=(256, 256), root=root)
    a[900_000:900_300, 700_000:700_500] = 200
    show("name=t/sparse:v1&mode=chunks")
    page.wait_for_selector("text=6 of 16,777,216 are written")
    cell = page.evaluate("() => document.querySelector(\"canvas[aria-label^='Chunk map']\").width / 256")
    page.locator("canvas[aria-label^='Chunk map']").click(position={"x": 170.5 * cell, "y": 219.5 * cell})
    page.wait_for_selector(".stage canvas")
    wait_for_picture(page)
    assert page.evaluate("() => window.hubarrayPicture.view") == {"scale": 1, "x": 170 * 4096, "y": 219 * 4096}


def test_compared_commits_open_where_they_differ_and_show_what_was_appended(show, page, root):
    a = hub.array((4, 64, 64), "t/x:v1", "f4", chunks=(4, 64, 64), root=root)
    a[:] = 1
    a[2, 5, 7] = 3
    a.append(np.full((2, 64, 64), 9, "f4"))
    show("name=t/x:v1&tab=versions&one=2&two=3")
    page.wait_for_selector(".note:has-text('1 element that differ')")
    assert page.get_by_label("axis 0").input_value() == "2"
    assert "Chunks that changed: [0:4, 0:64, 0:64]" in page.locator("main").text_content()
    show("name=t/x:v1&tab=versions&one=3&two=4")
    page.wait_for_selector(".note:has-text('commit 3 ends before this')")
    page.wait_for_function("() => window.hubarrayPictures.every((one) => one.complete)")
    assert int(page.get_by_label("axis 0").input_value()) >= 4


def test_a_deleted_version_has_a_way_to_its_earlier_commits(show, page, root):
    a = hub.array((8, 8), "t/x:v1", "u1", root=root)
    a[:] = 1
    a[:] = 2
    hub.delete("t/x:v1", root=root)
    show("name=t/x:v1")
    page.get_by_role("button", name="Earlier commits").click()
    page.wait_for_selector("tbody tr")
    assert page.locator("tbody tr").first.text_content().startswith("4 deleted")
    page.get_by_label("Left: 2").check()
    page.get_by_label("Right: 3").check()
    page.wait_for_selector(".divider")


def test_senseless_addresses_show_what_there_is(show, page, root):
    volume(root)
    schema = hub.Schema({"t": hub.Field("i4", index=True)})
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        p.append({"t": 7})
    show("name=t/x:v1&at=1.5,0,0&view=a,b,c&window=5&span=9,1&each=77&first=x&axes=9,9,9&part=x&tiles=x")
    wait_for_picture(page)
    assert page.locator("code.line").text_content() == 'hub.load("t/x:v1@1")[2, :, :]'
    show("name=t/rows:v1&columns=%25")
    page.wait_for_selector("tbody tr")


def test_keys_do_nothing_behind_the_help(show, page, root):
    volume(root)
    show("name=t/x:v1")
    wait_for_picture(page)
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    for key in ("]", "m", "0"):
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    assert page.locator("input[type=number]").first.input_value() == "0"
    assert page.get_by_label("Colormap", exact=True).input_value() == "grey"


def test_a_number_beyond_the_end_is_the_last_one(show, page, root):
    volume(root)
    show("name=t/x:v1&at=11,0,0")
    wait_for_picture(page)
    number = page.get_by_label("axis 0, number")
    number.fill("77")
    number.press("Enter")
    assert number.input_value() == "11"


def test_a_table_and_an_array_are_walked_through_by_the_keyboard_alone(show, page, root):
    volume(root)
    schema = hub.Schema({"t": hub.Field("i4", index=True), "v": hub.Field("f4")})
    with hub.table_writer("t/rows:v1", schema, root=root) as w, w.partition("p") as p:
        for i in range(120):
            p.append({"t": i, "v": np.float32(i)})

    def tab_to(selector, most=60):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("one => document.activeElement.matches(one)", selector):
                return
        raise AssertionError(f"no Tab leads to {selector}")

    show()
    page.keyboard.press("/")
    page.keyboard.type("rows")
    page.keyboard.press("Enter")
    # The list that the page leaves has rows, and a search, too.
    page.wait_for_function("() => document.querySelector('[role=status]')?.textContent.startsWith('120 of')")
    page.keyboard.press("/")
    page.keyboard.type("t > 100")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[role=status]')?.textContent.startsWith('19 of')")
    tab_to("thead button")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=descending]")
    tab_to("tbody a")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('row 0 of 19')")
    page.keyboard.press("]")
    page.wait_for_selector("h1:has-text('row 1 of 19')")
    tab_to("select")
    page.keyboard.type("v")
    page.wait_for_selector(".u-wrap canvas")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_selector("input[type=search]")
    page.keyboard.press("/")
    page.keyboard.type("t/x")
    page.keyboard.press("Enter")
    page.wait_for_selector(".stage canvas")
    for expected in ("three cuts", "curve", "values", "chunks", "about"):
        tab_to("[role=tab]") if expected == "three cuts" else None
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[role=tab][aria-selected=true]:has-text('{expected}')")


def test_a_window_that_was_chosen_and_the_cuts_of_a_stack_with_channels_stay(show, page, root):
    hub.store(np.random.default_rng(0).integers(-1000, 1000, (12, 90, 120)).astype("i2"), "t/ct:v1", root=root)
    show("name=t/ct:v1&window=-900,-100")
    wait_for_picture(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/picture" in request.url else None)
    page.get_by_role("tab", name="three cuts").click()
    page.wait_for_function("() => document.querySelectorAll('.cuts canvas').length === 3")
    page.wait_for_timeout(800)
    assert page.get_by_label("Minimum").input_value() == "-900"
    assert asked
    assert all("low=-900" in item and "high=-100" in item for item in asked)
    assert "window=-900,-100" in page.url
    show("name=t/ct:v1&axes=1,2,0,0,1,2")
    wait_for_picture(page)
    page.get_by_role("tab", name="three cuts").click()
    page.wait_for_function("() => document.querySelectorAll('.cuts canvas').length === 3")


def test_what_is_broken_for_a_while_in_a_sample_is_asked_again(show, page, root, monkeypatch):
    from hubarray.viewer import dataset_pages

    specs = {name: hub.ArraySpec((4, 20), "f4", dims=("s", None)) for name in ("a", "b")}
    hub.dataset(specs, "t/ds:v1", root=root)
    read, failing = dataset_pages._sample, ["a"]

    def sometimes(found, key, at):
        if key in failing:
            raise hub.errors.UnavailableError("the bucket does not answer")
        return read(found, key, at)

    monkeypatch.setattr(dataset_pages, "_sample", sometimes)
    show("name=t/ds:v1")
    page.wait_for_selector(".card .bad:has-text('does not answer')")
    page.wait_for_selector(".card:has(h2:has-text('b')) .u-wrap")
    failing.clear()
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".card:has(h2:has-text('a')) .u-wrap")
    assert page.locator(".card .bad").count() == 0


def test_a_window_that_was_no_longer_awaited_leaves_none_behind(show, root, monkeypatch):
    from hubarray.viewer import array_pages

    values, looks, slow = volume(root), array_pages.looks, [1]
    monkeypatch.setattr(array_pages, "looks", lambda *rest: (slow and time.sleep(slow.pop())) or looks(*rest))
    page = show("name=t/x:v1&mode=about")
    page.get_by_role("tab", name="picture").click()
    page.wait_for_timeout(200)
    page.get_by_role("tab", name="curve").click()
    page.wait_for_selector(".u-wrap canvas")
    page.wait_for_timeout(300)
    page.get_by_role("tab", name="picture").click()
    wait_for_picture(page)
    assert float(page.get_by_label("Maximum").input_value()) > values[0].max() / 2
