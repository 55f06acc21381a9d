"""The code of the documents runs, and gives what they say."""

import ast
import io
import re
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import zarr
from PIL import Image

import hubarray as hub
from hubarray.cli.main import main
from tests.servers import ACCESS_KEY, SECRET_KEY

REPOSITORY = Path(__file__).parents[1]
HOW_TOS = sorted((REPOSITORY / "docs" / "how-to").glob("*.md"))
COMING_FROM = sorted((REPOSITORY / "docs" / "coming-from").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_first_steps_run(tmp_path, isolated):
    names = {"hub": hub}
    text = (REPOSITORY / "docs" / "getting-started.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(code, names)
    names["a"] = hub.array(3, "t/counts:v0", "i8")
    (example,) = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "docs" / "errors.md").read_text(), re.M | re.S)
    exec(example, names)
    assert names["a"][0] == 1


def test_the_code_of_the_page_on_tables_runs(capsys):
    names = {}
    text = (REPOSITORY / "docs" / "tables.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/tables.md", "exec"), names)
    assert "50 rows added" in capsys.readouterr().out
    assert names["usage"].shared > 0
    assert [len(name) for name in names["words"]] == [0, 1, 2, 3, 4]
    assert len(names["records"]) == 25


def test_the_code_of_the_page_on_datasets_runs(capsys):
    names = {}
    text = (REPOSITORY / "docs" / "datasets.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/datasets.md", "exec"), names)
    names["reader"].stop()
    names["reader"].join()
    assert "label: [0:10]" in capsys.readouterr().out
    assert names["ds"]["label"][3] == 1
    assert list(names["ds"]) == ["image", "label", "weight", "boxes"]


@pytest.mark.parametrize("document", ["docs/training.md", "docs/scale.md"])
def test_the_code_of_the_guides_runs(document, tmp_path, monkeypatch):
    import tensorflow as tf
    import xarray
    import zarr

    import hubarray as hub

    monkeypatch.chdir(tmp_path)
    images = hub.import_(np.random.default_rng(0).random((320, 4, 4), np.float32), "lab/images:v1")
    labels = hub.import_(np.arange(320) % 10, "lab/labels:v1")
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    hub.import_(np.random.default_rng(1).random((1000, 8, 8), np.float32), "lab/scans:v1")
    with ThreadPoolExecutor(4) as pool:
        names = {"hub": hub, "images": images, "labels": labels, "model": model, "zarr": zarr, "xarray": xarray}
        names |= {"a": images, "pool": pool, "load_samples": lambda i: np.full((100, 8, 8), i, np.float32)}
        blocks = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / document).read_text(), re.MULTILINE | re.DOTALL)
        assert len(blocks) >= 2
        try:
            for i, code in enumerate(blocks):
                exec(compile(code, f"{document}, block {i + 1}", "exec"), names)
        finally:
            if "client" in names:
                names["client"].close()
                names["cluster"].close()
    if "scans" in names:
        assert hub.load("lab/scans:v1")[905, 0, 0] == 9
        assert abs(float(hub.load("lab/scans:normalized").mean())) < 1e-4


@pytest.fixture
def buckets(s3_server, monkeypatch):
    """A reader's own buckets, with credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("ARCHIVE_KEY", ACCESS_KEY)
    monkeypatch.setenv("ARCHIVE_SECRET", SECRET_KEY)
    for bucket in ("our-bucket", "other-bucket", "archive-bucket"):
        # SeaweedFS makes a bucket when an administrator first writes to it.
        hub.Root(f"s3://{bucket}").store.put("ready", b"1")


def run_as_it_stands(page, text, names):
    """Python and the command line, in order; a comment that begins with a value says what the line gives."""
    for i, (language, code) in enumerate(BLOCK.findall(text)):
        if language == "sh":
            for line in code.splitlines():
                words = line.partition("#")[0].split()
                assert words[0] == "hubarray"
                # Whoever asks for differences is told of them by 3.
                assert main(words[1:]) == (3 if words[1] == "diff" else 0), line
        if language != "python":
            continue
        lines = code.splitlines()
        for node in ast.parse(code).body:
            where = f"{page}, block {i + 1}, line {node.lineno}"
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), where, "exec"), names)
                continue
            given = eval(compile(ast.Expression(node.value), where, "eval"), names)
            said = value_said(lines[node.end_lineno - 1][node.end_col_offset :])
            assert not said or given == said[0], f"{where}: gives {given}"


def value_said(comment):
    """The value that a comment begins with, in a list; none of a comment in words."""
    text = comment.strip().removeprefix("#").strip()
    for end in [len(text), *(result.start() for result in reversed(list(re.finditer(r"[,:;]", text))))]:
        try:
            return [eval(text[:end], {"__builtins__": {"slice": slice}})]
        except (SyntaxError, NameError, TypeError):
            continue
    return []


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_the_code_of_the_how_tos_runs_and_gives_what_its_comments_say(page, buckets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text().replace("-bucket/hub", f"-bucket/{page.stem}")
    if page.stem in ("train-from-a-bucket", "frameworks"):
        hub.configure(root=f"s3://our-bucket/{page.stem}")
        hub.import_(np.random.default_rng(0).random((320, 4, 4), np.float32), "lab/images:v1")
        hub.import_(np.arange(320) % 10, "lab/labels:v1")
        # A server of forks that another test began does not have the variables of this one.
        text = text.replace('"forkserver")', '"spawn")')
    run_as_it_stands(page.name, text, {"__name__": "reader"})


def png_files(count=20):
    """The bytes of PNG files, each a pixel larger than the one before."""
    images = (Image.fromarray(np.full((8, 8 + i, 3), i, np.uint8)) for i in range(count))
    for image in images:
        data = io.BytesIO()
        image.save(data, "png")
        yield data.getvalue()


def opened_icechunk():
    """Zarr's store of a session of Icechunk."""
    group = zarr.open_group(zarr.storage.MemoryStore())
    for name in ("temperature", "rain"):
        group.create_array(name, data=np.ones((10, 4), "f4"), dimension_names=("time", "x"))
    return {"session": SimpleNamespace(store=group.store)}


def opened_lance():
    """A Lance dataset, which gives tables and batches of Arrow."""
    table = pa.table({"frame": np.arange(1000), "speed": np.arange(1000) / 2})
    return {"ds": SimpleNamespace(to_table=lambda: table, to_batches=lambda: table.to_batches(max_chunksize=300))}


def decoded_samples():
    """Samples as a streaming dataset gives them, with images of Pillow."""
    return {"samples": [{"label": i, "image": Image.open(io.BytesIO(data))} for i, data in enumerate(png_files())]}


def written_archives():
    """Two archives of WebDataset in the current folder."""
    for number in range(2):
        with tarfile.open(f"train-{number:06}.tar", "w") as archive:
            for i, data in list(enumerate(png_files()))[10 * number : 10 * number + 10]:
                for suffix, content in (("cls", str(i).encode()), ("png", data)):
                    member = tarfile.TarInfo(f"{i:04}.{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return {}


# What a page has open from the library that its readers come from.
STAND_INS = {
    "icechunk": opened_icechunk,
    "lance": opened_lance,
    "litdata": decoded_samples,
    "mosaicml-streaming": decoded_samples,
    "webdataset": written_archives,
    "hugging-face": lambda: {"png_files": list(png_files())},
}


@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_the_code_for_those_who_come_from_elsewhere_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A column of Deep Lake gives NumPy arrays by rows and slices, and has a length.
    column = np.random.default_rng(0).integers(0, 255, (600, 4, 4, 3), np.uint8)
    names = {"__name__": "reader", "column": column} | STAND_INS.get(page.stem, dict)()
    run_as_it_stands(page.name, page.read_text(), names)
    if page.stem == "deeplake":
        assert (names["images"][...] == column).all()
        assert (names["growing"][...] == column).all()


def test_the_counts_of_the_performance_guide_are_there(capsys):
    photos = hub.array((64, 8), "lab/photos:v1")
    photos[:] = 1
    run_as_it_stands(
        "performance.md", (REPOSITORY / "docs" / "performance.md").read_text(), {"hub": hub, "photos": photos}
    )
    assert "requests" in capsys.readouterr().out


def test_what_a_comment_says_is_told_from_words():
    assert value_said("  # (2, 1): two commits") == [(2, 1)]
    assert value_said("# {'paper': 3}; hub.untag takes it away") == [{"paper": 3}]
    assert value_said("# exact, in memory") == value_said("# newest first") == value_said("") == []
