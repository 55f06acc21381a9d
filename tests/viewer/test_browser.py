"""The pages in a real browser."""

import numpy as np
import pytest

import hubarray as hub
from tests.viewer.conftest import get, pixel, wait_for_picture
from tests.viewer.test_answers import drive  # noqa: F401

EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
AXE_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


def problems(page):
    from importlib import resources

    axe = next(resources.files("axe_playwright_python").glob("axe.min.js"))
    page.evaluate(axe.read_text())
    result = page.evaluate("rules => axe.run(document, rules)", AXE_RULES)
    return [(item["id"], [node["html"][:200] for node in item["nodes"]][:3]) for item in result["violations"]]


@pytest.fixture
def photos(root, astronaut):
    a = hub.array((6, 512, 512, 3), "t/photos:v1", "u1", dims=("photo", "y", "x", "c"), root=root)
    a[:] = np.stack([np.roll(astronaut, 40 * i, 1) for i in range(6)])
    return "t/photos:v1"


def test_home_shows_all_names_finds_some_and_opens_one_by_the_keyboard(show, root):
    for i in range(30):
        hub.array(3, f"t/array{i:02}:v1", root=root)
    page = show()
    assert page.locator("tbody tr").count() == 30
    page.keyboard.press("/")
    page.keyboard.type("array17")
    assert page.locator("tbody tr").count() == 1
    page.wait_for_function("() => document.querySelector('tbody').textContent.includes('float64')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('array17')")
    page.wait_for_selector("h1:has-text('t/array17:v1@1')")
    page.keyboard.press("Escape")
    page.wait_for_selector("input[type=search]")


def test_home_shows_kinds_sizes_and_last_commits_and_sorts_by_them_without_data(show, root, drive):  # noqa: F811
    a = hub.array((100, 100), "t/large:v1", "f8", root=root)
    with a.transaction("the whole of it") as t:
        t[...] = np.random.default_rng(0).normal(size=(100, 100))
    hub.array(3, "t/small:v1", "u1", root=root)
    hub.array(3, "t/broken:v1", root=root)
    # A hint of the newest commit may lie beside it.
    (key,) = [item.key for item in root.store.list("t/broken/log/") if not item.key.endswith("head.json")]
    root.store.delete([key])
    root.store.put(key, b"junk")
    page = show()
    rows = "() => [...document.querySelectorAll('tbody tr')].map((row) => row.innerText)"
    page.wait_for_function(f"() => ({rows})().every((text) => !text.includes('…'))")
    told = {text.split()[0]: text for text in page.evaluate(rows)}
    assert "80.0 kB" in told["t/large:v1"]
    assert "the whole of it" in told["t/large:v1"]
    assert "array" in told["t/large:v1"]
    assert "table" in told["t/drive:v1"]
    assert key in told["t/broken:v1"]
    read_bytes = hub.stats().read_bytes
    page.get_by_role("button", name="Bytes").click()
    page.get_by_role("button", name="Bytes").click()
    page.wait_for_function(f"() => ({rows})()[0].startsWith('t/large:v1') || ({rows})()[0].startsWith('t/drive:v1')")
    names = [text.split()[0] for text in page.evaluate(rows)]
    assert names.index("t/large:v1") < names.index("t/small:v1")
    assert page.locator("th[aria-sort=descending]").text_content() == "Bytes"
    assert hub.stats().read_bytes - read_bytes < 20_000


def test_a_photograph_is_shown_with_its_colours_and_values(show, photos, astronaut):
    page = show(f"name={photos}")
    wait_for_picture(page)
    assert np.abs(np.array(pixel(page, 0.5, 0.5)[:3], int) - astronaut[256, 256]).max() < 40
    box = page.locator(".stage canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("() => document.querySelector('.note').textContent.includes(':')")
    shown = page.locator(".note").text_content()
    y, x = (int(part.split()[-1]) for part in shown.split(":")[0].split(","))
    assert shown.split(": ")[1] == " ".join(map(str, astronaut[y, x]))
    assert page.locator("code.line").text_content() == f'hub.load("{photos}@2")[0, :, :, :]'


def test_sliders_and_keys_move_along_the_other_axes(show, photos):
    page = show(f"name={photos}")
    wait_for_picture(page)
    page.locator("h1").click()
    page.keyboard.press("]")
    page.keyboard.press("]")
    assert page.locator("input[type=number]").first.input_value() == "2"
    assert "[2, :, :, :]" in page.locator("code.line").text_content()
    wait_for_picture(page)
    before = page.evaluate("() => ({...window.hubarrayPicture.view})")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("() => ({...window.hubarrayPicture.view})")
    assert after["scale"] > before["scale"]
    page.keyboard.press("0")
    assert page.evaluate("() => window.hubarrayPicture.view.scale") == pytest.approx(before["scale"])
    page.keyboard.press(" ")
    page.wait_for_function("() => Number(document.querySelector('input[type=number]').value) !== 2")
    page.keyboard.press(" ")


def test_a_composite_of_a_hundred_million_pixels_is_seen_whole_and_close(show, root, astronaut):
    composite = np.tile(astronaut, (20, 20, 1))[:10_000, :10_000]
    a = hub.array(composite.shape, "t/big:v1", "u1", chunks=(512, 512, 3), root=root)
    a[:] = composite
    page = show("name=t/big:v1")
    wait_for_picture(page)
    assert page.evaluate("() => window.hubarrayPicture.level()") >= 3
    page.evaluate("() => { const p = window.hubarrayPicture; p.view = {scale: 1, x: 5000, y: 7000}; p.moved(); }")
    wait_for_picture(page)
    assert page.evaluate("() => window.hubarrayPicture.level()") == 0
    wide, high = page.evaluate("() => window.hubarrayPicture.box()")
    at = composite[7000 + int(high / 2), 5000 + int(wide / 2)]
    assert np.abs(np.array(pixel(page, 0.5, 0.5)[:3], int) - at).max() <= 30
    # Over tiles that are there, it moves at least 30 times a second.
    rate = page.evaluate("""async () => {
        const p = window.hubarrayPicture;
        const begun = performance.now();
        for (let i = 0; i < 40; i += 1) { p.pan(i % 2 ? 3 : -3, 0); await new Promise(requestAnimationFrame); }
        return 40000 / (performance.now() - begun); }""")
    assert rate > 30


def test_only_tiles_in_sight_are_asked_for(show, root):
    a = hub.array((1 << 20, 1 << 20), "t/huge:v1", "u1", root=root)
    a[:64, :64] = 7
    asked = []
    page = show()
    page.on("request", lambda request: asked.append(request.url) if "api/picture" in request.url else None)
    page.goto(page.url.partition("#")[0] + "#name=t/huge:v1")
    wait_for_picture(page)
    assert len(asked) < 60


def test_three_cuts_of_a_volume_move_together(show, root):
    z, y, x = np.mgrid[:32, :40, :48]
    hub.store((z + y + x).astype("f4"), "t/volume:v1", root=root)
    page = show("name=t/volume:v1&mode=three cuts")
    page.wait_for_function("() => document.querySelectorAll('.cuts canvas').length === 3")
    page.wait_for_function(
        "() => document.querySelector('.note').textContent.includes('axis 0 16, axis 1 20, axis 2 24')"
    )
    page.locator(".cuts canvas").first.click(position={"x": 30, "y": 60})
    page.wait_for_function("() => !document.querySelector('.note').textContent.includes('axis 2 24')")


def test_a_ct_is_seen_through_the_windows_of_radiologists(show, root):
    z, y, x = np.mgrid[:9, :64, :64]
    body = np.where((y - 32) ** 2 + (x - 32) ** 2 < 500, 40, -1000) + 0 * z
    hub.store(body.astype("i2"), "t/ct:v1", root=root)
    page = show("name=t/ct:v1")
    wait_for_picture(page)
    page.get_by_label("CT window").select_option("bone")
    assert page.get_by_label("Minimum").input_value() == "-450"
    page.wait_for_timeout(300)
    wait_for_picture(page)
    assert 60 < pixel(page, 0.5, 0.5)[0] < 110
    low = page.get_by_label("Minimum")
    low.fill("9999")
    low.press("Enter")
    assert low.input_value() == "-450"


def test_what_is_set_stays_in_the_address_for_back_and_reload(show, root, drive):  # noqa: F811
    page = show(f"name={drive}")
    page.wait_for_selector("tbody tr")
    page.get_by_label("Filter").fill("t > 40")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[role=status]').textContent.startsWith('79 of')")
    page.locator("tbody a").first.click()
    page.wait_for_selector("h1:has-text('row 0 of')")
    page.go_back()
    page.wait_for_function("() => document.querySelector('[role=status]')?.textContent.startsWith('79 of')")
    page.reload()
    page.wait_for_function("() => document.querySelector('[role=status]')?.textContent.startsWith('79 of')")
    assert page.locator("code.line").text_content().startswith("hub.row_loader(hub.read_index(")


@pytest.mark.parametrize("values", [np.linspace(-1, 1, 4096).reshape(64, 64), np.exp(1j * np.arange(4096).reshape(64, 64) / 99),
                                    np.arange(4096).reshape(64, 64) % 3 == 0], ids=["float", "complex", "bool"])  # fmt: skip
def test_floats_complex_numbers_and_bools_are_drawn(show, root, values):
    hub.store(values, "t/x:v1", root=root)
    page = show("name=t/x:v1")
    wait_for_picture(page)
    if values.dtype.kind == "c":
        page.get_by_label("Part", exact=True).select_option("phase")
        wait_for_picture(page)
    page.get_by_label("Colormap", exact=True).select_option("viridis")
    page.wait_for_timeout(300)
    wait_for_picture(page)
    red, green, blue, _ = pixel(page, 0.5, 0.5)
    assert (red, green, blue) != (0, 0, 0)
    assert page.locator("canvas.bars").count() == 1


def test_a_signal_is_a_curve_and_text_is_a_list(show, root):
    hub.store(np.sin(np.arange(5000) / 50), "t/signal:v1", root=root)
    page = show("name=t/signal:v1")
    page.wait_for_selector(".u-wrap canvas")
    hub.store(np.array(["one", EVIL], object), "t/words:v1", root=root)
    page = show("name=t/words:v1")
    page.wait_for_selector("table.values td")
    assert page.locator("table.values td").all_text_contents() == ["one", EVIL]


def test_an_empty_array_and_a_deleted_name_say_so(show, root):
    hub.array((0, 4), "t/empty:v1", root=root)
    assert "no elements yet" in show("name=t/empty:v1").locator("main").text_content()
    hub.array(3, "t/gone:v1", root=root)
    hub.delete("t/gone:v1", root=root)
    page = show("name=t/gone:v1")
    assert "deleted" in page.locator(".bad").text_content()
    page.get_by_text("All names").click()
    page.wait_for_selector("input[type=search]")


def test_a_broken_chunk_says_which_and_the_rest_of_the_picture_is_there(show, root):
    hub.configure(disk_cache_bytes=0, memory_cache_bytes=0)
    a = hub.array((512, 512), "t/x:v1", "u1", chunks=(256, 256), codec="none", root=root)
    a[:] = np.random.default_rng(0).integers(100, 255, (512, 512), "u1")
    (pack,) = [item.key for item in root.store.list("t/x/packs/")]
    data = bytearray(root.store.get(pack))
    data[10] ^= 255
    root.store.delete([pack])
    root.store.put(pack, bytes(data))
    page = show("name=t/x:v1")
    page.wait_for_function(f"() => document.querySelector('.note').textContent.includes({pack!r})")
    page.wait_for_function("() => window.hubarrayPicture && window.hubarrayPicture.complete")
    assert min(pixel(page, 0.6, 0.75)[:3]) >= 90


def test_the_map_of_chunks_shows_what_was_written(show, root):
    a = hub.array((64, 64), "t/x:v1", "u1", chunks=(16, 16), root=root)
    a[:16, :32] = np.random.default_rng(0).integers(1, 99, (16, 32), "u1")
    page = show("name=t/x:v1&mode=chunks")
    page.wait_for_selector("text=2 of 16 are written")
    colours = page.evaluate("""() => { const c = document.querySelector("canvas[aria-label^='Chunk map']");
        const at = (x, y) => [...c.getContext('2d').getImageData(c.width * x, c.height * y, 1, 1).data].join();
        return [at(0.1, 0.1), at(0.4, 0.1), at(0.6, 0.6), at(0.9, 0.9)]; }""")
    assert colours[2] == colours[3]
    assert len({colours[0], colours[2]}) == 2


def test_a_curve_of_times_has_dates_beside_it(show, root):
    times = np.datetime64("2026-11-26", "s") + np.arange(0, 300_000, 300).astype("m8[s]")
    hub.store(times, "t/x:v1", root=root)
    page = show("name=t/x:v1")
    page.evaluate("() => { window.texts = []; const write = CanvasRenderingContext2D.prototype.fillText;"
        " CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { texts.push(text); return write.call(this, text, ...rest); }; }")  # fmt: skip
    page.wait_for_selector(".u-wrap canvas")
    page.evaluate("() => document.dispatchEvent(new Event('theme'))")
    page.wait_for_function("() => window.texts.some((one) => one.startsWith('2026-11-2'))")


def test_a_table_is_filtered_opened_and_walked_through(show, drive):  # noqa: F811
    page = show(f"name={drive}")
    page.wait_for_selector("tbody tr td img.thumb")
    assert page.locator("tbody tr").first.locator("td").count() >= 5
    page.keyboard.press("/")
    page.keyboard.type("speed > 2 and side == 'left'")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[role=status]').textContent.includes('50 of 120')")
    page.get_by_role("button", name="speed").click()
    page.get_by_role("button", name="speed").click()
    page.wait_for_function("() => document.querySelector('tbody td:nth-child(4)')?.textContent.includes('119')")
    page.get_by_label("Plot of").select_option("speed")
    page.wait_for_selector(".u-wrap canvas")
    page.get_by_label("Filter").fill("speed >")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status].bad")
    page.locator("tbody a").first.click()
    page.wait_for_selector("h1:has-text('row 0 of')")


def test_a_row_shows_its_image_its_boxes_and_its_points(show, drive):  # noqa: F811
    page = show(f"name={drive}&row=5")
    page.wait_for_function("() => document.querySelector('.picture img')?.naturalWidth === 64")
    assert page.evaluate("""() => { const c = document.querySelector('canvas.over');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((one) => one > 0); }""")
    page.wait_for_function("() => document.querySelector('canvas.cloud + p').textContent.includes('100 points')")
    page.keyboard.press("]")
    page.wait_for_selector("h1:has-text('row 6 of')")
    page.get_by_role("button", name="All rows").click()
    page.wait_for_selector("tbody tr")


def test_a_dataset_shows_its_arrays_side_by_side(show, root, astronaut):
    specs = {
        "image": hub.ArraySpec((0, 512, 512, 3), "u1", dims=("sample", "y", "x", "c")),
        "label": hub.ArraySpec(0, "i8", dims=("sample",)), "boxes": hub.ArraySpec((0, 2, 4), "f4", dims=("sample", None, None)),
    }  # fmt: skip
    ds = hub.dataset(specs, "t/ds:v1", root=root)
    ds.append({"image": np.stack([astronaut] * 3), "label": [7, 8, 9], "boxes": np.full((3, 2, 4), 50)})
    page = show("name=t/ds:v1")
    page.wait_for_function("() => document.querySelector('.picture img')?.naturalWidth === 512")
    page.keyboard.press("]")
    page.wait_for_function("() => document.querySelector('main').textContent.includes('rows(1)')")
    page.wait_for_function("() => [...document.querySelectorAll('td')].some((one) => one.textContent === '8')")
    page.locator(".card a").first.click()
    wait_for_picture(page)
    assert "[1, :, :, :]" in page.locator("code.line").text_content()


def test_names_attributes_and_messages_with_html_in_them_are_text(show, root):
    a = hub.array((4, 4), "t/x:v1", attrs={EVIL: EVIL}, root=root)
    with a.transaction(EVIL) as t:
        t[0] = 1
    ds = hub.dataset(
        {EVIL.replace("/", "")[:100]: hub.ArraySpec(0, str, dims=("s",))}, "t/ds:v1", attrs={EVIL: EVIL}, root=root
    )
    ds.append({next(iter(ds)): [EVIL]})
    schema = hub.Schema({"a<b>": hub.Field(str, index=True), "label": hub.Field(str), "words": hub.Field(str)})
    with (
        hub.table_writer("t/rows:v1", schema, attrs={EVIL: EVIL}, message=EVIL, root=root) as w,
        w.partition(EVIL) as p,
    ):
        p.append({"a<b>": EVIL, "label": EVIL, "words": EVIL})
    hub.tag("t/x:v1@1", "best", root=root)
    for fragment in (
        "name=t/rows:v1",
        "name=t/rows:v1&row=0",
        "name=t/rows:v1&tab=versions",
        f"name=t/rows:v1&filter={EVIL}",
        f"name=t/x:v1&mode={EVIL}&at={EVIL}&map={EVIL}&axes={EVIL}",
        f"name=t/x:v1&key={EVIL}",
        f"name=t/x:v1&tab={EVIL}",
        "",
        "name=t/x:v1&mode=about",
        "name=t/x:v1&tab=versions",
        "name=t/ds:v1",
        f"name={EVIL}",
    ):
        page = show(fragment)
        page.wait_for_timeout(400)
        assert page.title() != "taken"
        assert page.locator("main img[onerror], main script").count() == 0


def test_a_second_site_cannot_read_or_frame_the_page(page, viewer, root):
    hub.array(3, "t/x:v1", root=root)
    page.goto(viewer.url)
    page.evaluate("() => 1")
    answer = get(viewer.url)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "fragment",
    ["", "name=t/photos:v1", "name=t/photos:v1&mode=values", "name=t/photos:v1&mode=about", "name=t/photos:v1&mode=chunks",
     "name=t/photos:v1&tab=versions", "name=t/volume:v1&mode=three cuts", "name=t/volume:v1&mode=curve",
     "name=t/bands:v1&axes=1,2,0", "name=t/drive:v1", "name=t/drive:v1&row=1", "name=t/ds:v1", "name=t/none:v1", "help"],
)  # fmt: skip
def test_contrast_names_and_roles_pass_axe(browser, viewer, root, photos, drive, astronaut, fragment, theme):  # noqa: F811
    hub.store(np.zeros((8, 9, 10), "f4"), "t/volume:v1", root=root)
    hub.store(np.zeros((7, 64, 64), "f4"), "t/bands:v1", root=root)
    arrays = {"image": hub.ArraySpec((0, 512, 512, 3), "u1", dims=("sample", "y", "x", "c"))}
    hub.dataset(arrays, "t/ds:v1", attrs={"by": "me"}, root=root).append({"image": astronaut[np.newaxis]})
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(viewer.url + (f"#{fragment}" if fragment not in ("", "help") else ""))
    page.wait_for_selector("main h1, main .bad")
    if fragment == "help":
        page.keyboard.press("?")
    page.wait_for_timeout(600)
    result = problems(page)
    context.close()
    assert result == []


def test_a_phone_shows_it_without_scrolling_sideways(browser, viewer, photos, drive):  # noqa: F811
    context = browser.new_context(viewport={"width": 380, "height": 720}, has_touch=True)
    page = context.new_page()
    for fragment in ("", f"#name={photos}", f"#name={drive}&row=1"):
        page.goto(viewer.url + fragment)
        page.wait_for_selector("main h1")
        page.wait_for_timeout(500)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth + 1"), fragment
        assert page.evaluate("() => document.querySelector('main').scrollWidth <= innerWidth + 1"), fragment
    context.close()


def test_a_stopped_viewer_says_so(page, root):
    hub.array((4, 4), "t/x:v1", root=root)
    with hub.view(root=root, open_browser=False) as viewer:
        page.goto(viewer.url)
        page.wait_for_selector("tbody tr")
    page.locator("tbody a").first.click()
    page.wait_for_selector(".bad")
    assert "stopped" in page.locator(".bad").text_content()
