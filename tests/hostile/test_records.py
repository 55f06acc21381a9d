"""What a record or a node may not say, one by one, on every kind of root: the error names key and field."""

import base64
import json

import numpy as np
import pytest

import hubarray as hub
from hubarray.blobs.ref import REF
from hubarray.history.records.manifest import FANOUT
from hubarray.history.records.overlay import _ENTRY
from tests.hostile.forge import NAME, RECORD, children, forge, newest, put_node, record_bytes, small_array

TRAVERSAL = "../../../../../../../../../../tmp/x"


def _overlay(*numbers, pack=b"\1" * 16, length=5, offset=0, home=0):
    entries = np.zeros(len(numbers), _ENTRY)
    entries["number"] = numbers
    entries["ref"]["pack"] = np.frombuffer(pack, "u1")
    entries["ref"]["length"], entries["ref"]["offset"], entries["ref"]["home"] = length, offset, home
    return base64.b64encode(entries.tobytes()).decode()


def _head(**changes):
    return lambda fields: fields["head"].update(changes)


def _array(**changes):
    return lambda fields: fields["array"].update(changes)


def _chunks(*lengths):
    return _array(chunk_grid={"name": "regular", "configuration": {"chunk_shape": list(lengths)}})


def _manifest(**changes):
    return lambda fields: fields["manifest"].update(changes)


def _body(**changes):
    return lambda fields: fields.update(changes)


FIELDS = {
    "head.id": _head(id="../../x"),
    "head.line": _head(line=3),
    "head.generation": _head(generation="F" * 32),
    "head.time": _head(time="2026-11-22T10:00:00"),
    "head.time ": _head(time="yesterday"),
    "head.author": _head(author=["me"]),
    "head.message": _head(message=None),
    "head.parent": _head(parent="x"),
    "head.frozen": _head(frozen="no"),
    "head.expired_to": _head(expired_to=10**9),
    "head.expired_to ": _head(expired_to=-1),
    "head.grace_seconds": _head(grace_seconds=-5),
    "head.grace_seconds ": _head(grace_seconds=10**30),
    "head.source": _head(source="../x"),
    "head.source ": _head(source="t/x:v0"),
    "head.surprise": _head(surprise=1),
    "array.shape": _array(shape=[-1, 4]),
    "array.shape ": _array(shape="3000"),
    "array.shape  ": _array(shape=[2**63, 4]),
    "array.shape   ": _array(shape=[2**60, 2**20]),
    "array.shape    ": _array(shape=[True, 4]),
    "chunk_shape": _chunks(0, 4),
    "chunk_shape ": _chunks(1),
    "chunk_shape  ": _chunks(1.5, 4),
    "array": _chunks(2**30, 2**20),
    "array ": _array(codecs=[]),
    "array  ": _array(codecs=[{"name": "bytes"}] * 50),
    "array   ": _array(codecs="bytes"),
    "array      ": _array(codecs=[{"name": "vlen-bytes"}]),
    "array    ": _array(fill_value="x"),
    "array     ": _array(fill_value=2**40),
    "array       ": _array(
        data_type={"name": "fixed_length_utf32", "configuration": {"length_bytes": 1_900_000_000}},
        fill_value="x",
        shape=[0],
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1]}},
    ),
    "array.chunk_grid": _array(chunk_grid=3),
    "attrs": _body(attrs=[]),
    "tags": _body(tags={"1x": 1}),
    "tags ": _body(tags={"x": 10**9}),
    "tags  ": _body(tags={f"t{i}": 1 for i in range(1001)}),
    "homes": _body(homes=["t/x", TRAVERSAL]),
    "homes ": _body(homes=["t/y"]),
    "homes  ": _body(homes="t/x"),
    "numbering_grid": _body(numbering_grid=[0]),
    "numbering_grid ": _body(numbering_grid="x"),
    "chunk_shape   ": _body(numbering_grid=[1, 1, 1]),
    "manifest.id": _manifest(id=TRAVERSAL),
    "manifest.home": _manifest(home="../.."),
    "manifest.home ": _manifest(home="t/other"),
    "manifest.depth": _manifest(depth=10**9),
    "manifest.depth ": _manifest(depth=0),
    "manifest.length": _manifest(length=10**12),
    "manifest.xxh3": _manifest(xxh3="x"),
    "manifest": _body(manifest=[]),
    "overlay": _body(overlay=_overlay(7, 3)),
    "overlay ": _body(overlay=_overlay(3, 3)),
    "overlay  ": _body(overlay="not base64"),
    "overlay   ": _body(overlay="AAAA"),
    "overlay    ": _body(overlay=_overlay(3, home=7)),
    "overlay     ": _body(overlay=_overlay(3, length=2**62)),
    "overlay      ": _body(overlay=_overlay(3, offset=2**63)),
    "overlay       ": _body(overlay=_overlay(*range(257))),
    "overlay_homes": _body(overlay_homes=["t/x", TRAVERSAL]),
    "changed": _body(changed=[[5, 1], [3, 1]]),
    "changed ": _body(changed=[[0, 2**64 + 1]]),
    "changed  ": _body(changed=[["0", 1]]),
    "changed.id": _body(changed={"home": "t/x", "id": TRAVERSAL, "length": 16, "xxh3": "0" * 32}),
}


def _uses(root):
    return {
        "load": lambda: hub.load(NAME, root=root)[0],
        "fixed": lambda: hub.load(f"{NAME}@{5}", root=root)[0],
        "copy": lambda: hub.copy(NAME, "t/made", root=root),
    }


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_cannot_be_is_refused_with_its_name(root, forget, field):
    small_array(root)
    key = forge(root, FIELDS[field])
    forget()
    with pytest.raises(hub.errors.CorruptDataError) as caught:
        hub.load(NAME, root=root)[0]
    assert key in str(caught.value)
    assert field.strip() in str(caught.value)
    assert {problem.key for problem in hub.verify("t/x", data=False, root=root).problems} >= {key} or "array" in field


def test_numbers_that_are_no_letters_are_refused_as_text(root, forget):
    array = hub.array(3, NAME, "i4", chunks=3, codec="none", root=root)
    array[...] = [-1, 0x110000, 65]
    described = {
        "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4}},
        "fill_value": "", "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }  # fmt: skip
    forge(root, _array(**described))
    forget()
    array = hub.load(NAME, root=root)
    for key in (0, slice(None), [2, 0], (Ellipsis,)):
        with pytest.raises(hub.errors.CorruptDataError, match=r"packs/.* no text|code points beyond"):
            array[key]


@pytest.mark.parametrize("field", ["manifest.id", "overlay", "homes", "array", "head.id", "manifest.depth"])
def test_every_kind_of_root_refuses_it(served, forget, field):
    small_array(served.own)
    key = forge(served.own, FIELDS[field])
    forget()
    with pytest.raises(hub.errors.CorruptDataError) as caught:
        hub.load(NAME, root=served.read)[0]
    assert key in str(caught.value)
    assert field in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        _head(kind="volume"),
        _array(data_type="float8_e9m9"),
        _array(data_type={"name": "variable_length_utf8", "configuration": {}}),
        _array(chunk_grid={"name": "rectilinear", "configuration": {"chunk_shape": [1, 4]}}),
        _array(codecs=[{"name": "bytes"}, {"name": "acme.crush", "configuration": {}}]),
    ],
)
def test_what_only_a_newer_version_may_know_says_to_upgrade(root, forget, change):
    small_array(root)
    key = forge(root, change)
    forget()
    with pytest.raises(hub.errors.FormatVersionError, match="upgrade hubarray") as caught:
        hub.load(NAME, root=root)[0]
    assert key in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"hubarray":1,"head":{"number":Infinity}}',
        b'{"hubarray":1,"head":' + b"[" * 100_000,
        b'{"hubarray":' + b"1" * 10_000 + b"}",
        b'{"hubarray":1}\xff\xfe',
        b"\0" * 1000,
    ],
)
def test_a_record_that_is_no_json_of_ours_is_refused(root, forget, raw):
    import blake3

    small_array(root)
    key = RECORD.format(newest(root))
    root.store.put(key, raw + b',\n"blake3":"' + blake3.blake3(raw + b",\n").hexdigest().encode() + b'"}\n')
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=key):
        hub.load(NAME, root=root)


def test_nothing_outside_the_target_is_touched_by_a_transfer_of_a_prepared_root(served, tmp_path, forget):
    """Ids and homes that lead out of a root are refused before any key is made of them."""
    target = tmp_path / "a" / "target"
    target.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    small_array(served.own)
    for field in ("manifest.id", "manifest.home", "homes", "overlay_homes", "changed.id"):
        before = bytes(served.own.store.get(RECORD.format(newest(served.own))))
        forge(served.own, FIELDS[field])
        forget()
        with pytest.raises(hub.errors.CorruptDataError):
            hub.transfer(NAME, target, root=served.read)
        with pytest.raises(hub.errors.CorruptDataError):
            hub.copy(NAME, "t/made", root=served.own)
        served.own.store.put(RECORD.format(newest(served.own)), before)
    assert victim.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "victim"]
    assert [path for path in target.rglob("*") if path.is_file() and "referrers" in str(path)] == []


@pytest.mark.parametrize("table", [["t/x", "../.."], ["../.."], [], "t/x", [3], ["t/other"]])
def test_a_node_may_name_homes_only_and_its_own_first(served, forget, table):
    small_array(served.own)
    node = put_node(served.own, np.zeros(FANOUT, REF), 0, table=table)
    forge(served.own, _body(manifest=node | {"depth": 1}, overlay="", overlay_homes=["t/x"]))
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=node["id"]):
        hub.load(NAME, root=served.read)[0]
    assert any(node["id"] in problem.key for problem in hub.verify("t/x:v0", data=False, root=served.read).problems)


def test_bytes_after_a_nodes_frame_are_refused(served, forget):
    small_array(served.own)
    node = put_node(served.own, np.zeros(FANOUT, REF), 0, after=b"and more")
    forge(served.own, _body(manifest=node | {"depth": 1}, overlay="", overlay_homes=["t/x"]))
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match=node["id"]):
        hub.load(NAME, root=served.read)[0]


def test_nodes_that_share_children_are_no_tree(root, forget):
    """Two kilobytes that stand for 10^15 leaves end at once."""
    small_array(root)
    node = put_node(root, np.zeros(FANOUT, REF), 0, id="00" * 16)
    for level in range(1, 6):
        node = put_node(root, children(*[node] * FANOUT), level, id=f"{level:02x}" * 16)
    forge(root, _body(manifest=node | {"depth": 6}, overlay="", overlay_homes=["t/x"]))
    forget()
    for use in (lambda: hub.load(NAME, root=root)[5], lambda: hub.diff(f"{NAME}@2", NAME, root=root)):
        with pytest.raises(hub.errors.CorruptDataError, match="refers to one node twice"):
            use()
    assert hub.verify("t/x:v0", data=False, root=root).problems


def test_inner_nodes_that_are_met_again_on_another_way_are_no_tree(root, forget):
    """Each node refers to others once, and still every level doubles what is to be walked through."""
    small_array(root)
    below = [put_node(root, np.zeros(FANOUT, REF), 0, id=f"0{i}" * 16) for i in range(2)]
    for level in range(1, 6):
        below = [put_node(root, children(*below), level, id=f"{level}{i}" * 16) for i in range(2)]
    forge(root, _body(manifest=below[0] | {"depth": 6}, overlay="", overlay_homes=["t/x"]))
    forget()
    for use in (
        lambda: hub.export(NAME, root.store.folder.parent / "x", root=root),
        lambda: hub.diff(f"{NAME}@2", NAME, root=root),
    ):
        with pytest.raises(hub.errors.CorruptDataError, match="twice"):
            use()


def test_a_hint_that_is_far_ahead_costs_no_loop(served, forget):
    from hubarray.history.log.hints import encode_hint

    small_array(served.own)
    served.own.store.put("t/x/log/v0/head.json", encode_hint(10**15))
    forget()
    with pytest.raises(hub.errors.CorruptDataError, match="commits were lost"):
        hub.load(NAME, root=served.read)
    problems = hub.verify("t/x:v0", data=False, root=served.read).problems
    assert len(problems) < 1100
    assert any("records before it" in problem.what for problem in problems)


def test_a_record_numbered_without_end_costs_no_loop(root, forget):
    small_array(root)
    number = 10**15
    fields = json.loads(bytes(root.store.get(RECORD.format(5))))
    fields["head"]["number"] = number
    root.store.put(RECORD.format(number), record_bytes(fields))
    from hubarray.history.log.hints import encode_hint

    root.store.put("t/x/log/v0/head.json", encode_hint(number))
    forget()
    hub.load(NAME, root=root)
    assert len(hub.verify("t/x:v0", data=False, root=root).problems) < 1100
    for use in (lambda: hub.collect_garbage("t/x", root=root), lambda: list(hub.log(NAME, root=root))):
        with pytest.raises(hub.errors.CorruptDataError, match="gap"):
            use()


def test_strangers_and_damaged_versions_do_not_hide_the_others(served, forget, caplog, capsys):
    from hubarray.cli.main import main

    small_array(served.own)
    hub.array(3, "t/healthy", root=served.own)
    hub.flush()
    served.own.store.put("t/raw data/notes.txt", b"x")
    served.own.store.put("raw data/x/notes.txt", b"x")
    served.own.store.put("t/x/log/not a version/head.json", b"x")
    served.own.store.put(RECORD.format(newest(served.own)), b'{"hubarray":1,"head":{"number":Infinity}}')
    forget()
    assert hub.list(root=served.read) == ["t/healthy:main", "t/x:v0"]
    assert "t/x:v0 cannot be opened" in caplog.text
    for extra in ([], ["--long"]):
        assert main(["ls", "--json", "--root", served.read.url, *extra]) == 0 or served.read.url.startswith("s3")
        if served.read.url.startswith("s3"):
            return
        rows = json.loads(capsys.readouterr().out)
        assert [(row["name"], row["state"]) for row in rows] == [("t/healthy:main", ""), ("t/x:v0", "damaged")]
        assert "Infinity" in rows[1]["problem"] or "record" in rows[1]["problem"]
