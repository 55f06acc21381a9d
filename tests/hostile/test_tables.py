"""Tables of strangers, who give whatever they store its right hash: read, or refused by an error of ours."""

import base64
import random
import time
import tracemalloc

import pytest

import hubarray as hub
from hubarray.blobs.pack import PackWriter
from hubarray.blobs.ref import blob_hash
from hubarray.errors import HubError
from hubarray.history.log.hints import hint_writer
from hubarray.names import parse
from hubarray.tables.write import group_writer
from tests.hostile.forge import forge
from tests.optional import Optional
from tests.rounds import rounds
from tests.tables import rows as model

torch = Optional("torch")

FOUND = {key: model.drive(key, 9) for key in ("a", "b")}
NUMBERS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), b"\1\0\0\0", b"\0\0\0\x80")


def altered(rng, data):
    data = bytearray(data)
    kind = rng.choice(["bits", "bits", "cut", "longer", "number", "number"])
    if kind == "bits":
        for _ in range(rng.choice([1, 2, 5])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    elif kind == "longer":
        data += rng.randbytes(rng.randrange(1, 40))
    elif len(data) > 8:
        at = rng.randrange(len(data) - 4)
        data[at : at + 4] = rng.choice(NUMBERS)
    return bytes(data)


class Stranger:
    """A writer that alters the n-th block, or the n-th blob: a part, a piece of the index, a chunk file."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.what = self.rng.choice(["block", "blob"])
        self.countdown = self.rng.randrange(1, 60 if self.what == "block" else 45)

    def turn(self, what):
        self.countdown -= what == self.what
        return what == self.what and self.countdown == 0

    def write(self, name, root, monkeypatch):
        add, encode = PackWriter.add, group_writer.encode

        def added(packs, data):
            if not self.turn("blob"):
                return add(packs, data)
            pieces = data if isinstance(data, list) else [data]
            return add(packs, altered(self.rng, b"".join(map(bytes, pieces))))

        def encoded(group, columns):
            pieces = encode(group, columns)
            if not self.turn("block"):
                return pieces
            body = altered(self.rng, b"".join(map(bytes, pieces[1:])))
            return [blob_hash(body), body]

        with monkeypatch.context() as patch:
            patch.setattr(PackWriter, "add", added)
            patch.setattr(group_writer, "encode", encoded)
            model.write(name, FOUND, root)


def uses(root, folder):
    index = hub.read_index("me/t:v1", root=root)
    loader = hub.row_loader(index, root=root)
    table = hub.load("me/t:v1", root=root)
    every = range(len(loader))
    yield lambda: loader.get_row(11)
    yield lambda: loader.get_row(11, encoded=True)
    yield lambda: loader.get_rows(8, offsets=range(-5, 1), pad="edge")
    yield lambda: loader.get_batch(every)
    yield lambda: loader.get_columns(every)
    yield lambda: loader.get_columns(every, as_="arrow").validate(full=True)
    yield lambda: list(table)
    yield lambda: hub.read_index("me/t:v1", filters=[("partition", "==", "a"), ("frame", ">", 3)], root=root)
    yield lambda: table.partition_rows
    yield lambda: table._repr_html_()
    yield lambda: hub.diff("me/t:v1", "me/honest:v1", root=root)
    yield lambda: hub.diff("me/t:v1", "me/honest:v1", on=["log_id", "frame"], root=root)
    yield lambda: hub.verify("me/t:v1", root=root)
    yield lambda: hub.du("me/t:v1", root=root)
    yield lambda: hub.write_index(index, "me/moved:v1", move=True, root=root)
    yield lambda: hub.write_index(index, "me/shared:v1", root=root)
    yield lambda: model.write("me/again:v1", FOUND, root, reference="me/t:v1")
    yield lambda: hub.export("me/t:v1", folder / "t.parquet", root=root)


@pytest.mark.parametrize("seed", range(rounds(25, 500)))
def test_whatever_has_its_right_hash_is_read_or_refused(root, forget, monkeypatch, tmp_path, seed):
    model.write("me/honest:v1", FOUND, root)
    try:
        Stranger(seed).write("me/t:v1", root, monkeypatch)
        forget()
        for use in uses(root, tmp_path):
            try:
                use()
            except HubError as error:
                assert str(error)
    except HubError as error:
        # Refused as soon as it was written, or opened.
        assert str(error)
    model.assert_rows(list(hub.load("me/honest:v1", root=root)), [row for rows in FOUND.values() for row in rows])


def forged(root, change):
    """A small table whose newest record says something else, with right hashes."""
    model.write("t/x:v0", FOUND, root)
    hub.flush()
    forge(root, change)
    hint_writer.forget(root.store, parse("t/x:v0"))


READS = {
    "read_index": lambda root: hub.read_index("t/x:v0", root=root),
    "filters": lambda root: hub.read_index("t/x:v0", filters=[("frame", ">", 3)], root=root),
    "slice": lambda root: hub.load("t/x:v0", root=root)[:],
    "numbers": lambda root: hub.load("t/x:v0", root=root).loader().numbers,
    "columns": lambda root: hub.load("t/x:v0", root=root).loader().get_columns(range(5), "frame"),
    "rows": lambda root: next(iter(hub.load("t/x:v0", root=root))),
    "reader": lambda root: hub.make_reader("t/x:v0", root=root),
    "tensors": lambda root: next(iter(hub.load("t/x:v0", root=root).to_pytorch(iterable=True).loader(num_workers=0))),
}
# Which would be imported while the time is taken.
assert torch


@pytest.mark.parametrize("read", READS)
def test_rows_that_only_a_record_speaks_of_take_neither_time_nor_memory(root, forget, read):
    def change(fields):
        last = fields["table"]["appends"][-1]
        last["rows"] = (1 << 40) - 18

    forged(root, change)
    forget()
    if read == "tensors":
        import torch  # noqa: F401, which takes seconds the first time
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(hub.errors.CorruptDataError, match=r"no blob number|131072 are expected"):
            READS[read](root)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 5


def test_verify_finds_what_hashes_do_not_tell(root, forget):
    def drop_the_first_ref(fields):
        fields["overlay"] = base64.b64encode(base64.b64decode(fields["overlay"])[60:]).decode()

    forged(root, drop_the_first_ref)
    forget()
    with pytest.raises(hub.errors.CorruptDataError):
        hub.load("t/x:v0", root=root)[0]
    (problem,) = hub.verify("t/x:v0", root=root).problems
    assert "no blob number 0" in problem.what
