"""The entry points are found from the public interface: one that takes values and is not in the matrix fails here."""

import re

import hubarray as hub
from tests import public_api
from tests.conversions.attributes import ATTRIBUTE_ENTRIES
from tests.conversions.entries import ENTRIES

# What NumPy computes from an array: a value that takes part in it is not stored.
COMPUTING = re.compile(
    r"__(abs|add|and|array|array_function|array_ufunc|bool|contains|divmod|float|floordiv|ge|gt|int|invert|le|lshift|lt|"
    r"matmul|mod|mul|ne|neg|or|pos|pow|r[a-z]+|rshift|sub|truediv|xor|eq|hash)__|all|any|argmax|argmin|histogram|max|mean|"
    r"median|min|percentile|prod|quantile|std|sum|var"
)
# a += 1 is refused, whatever is added.
IN_PLACE = re.compile(r"__i(?!ter|nit)[a-z]+__")
# What Python calls by itself.
OF_PYTHON = re.compile(r"__(enter|exit|getattr|getitem|delitem|iter|len|next|reduce|bytes|getnewargs|contains)__")

# Public functions and methods that have parameters and take no value that is stored.
NO_VALUES = """
    Array.dims Array.prefetch Array.read_rows Array.resize Array.show Array.to_dask
    Array.to_pytorch Array.to_tensorflow Array.to_zarr_store Array.transaction Array.undo Array.view
    ArraySpec.matches Commit.of Compaction.plus
    CompressedImageCodec.decode CompressedNdarrayCodec.decode NdarrayCodec.decode ScalarCodec.decode
    Dataset.diff Dataset.drop Dataset.rename Dataset.resize Dataset.rows Dataset.samples
    Dataset.show Dataset.to_pytorch Dataset.to_tensorflow Dataset.to_xarray Dataset.to_zarr_store Dataset.transaction
    Dataset.undo Dataset.view
    DatasetArray.dims DatasetArray.prefetch DatasetArray.read_rows DatasetArray.resize
    DatasetArray.show DatasetArray.to_dask DatasetArray.to_pytorch DatasetArray.to_tensorflow
    DatasetArray.to_zarr_store DatasetArray.transaction DatasetArray.undo DatasetArray.view
    DatasetTransaction.append_fill DatasetTransaction.array DatasetTransaction.is_of
    Field.from_json IntersectIndexSelector.select_row_groups NGram.anchors NGram.resolve
    ArrayPart.mask ArrayPartWriter.close PredicateBase.do_include
    Reader.load_state_dict Reader.set_group_rows VerifyReport.add Root Root.below Root.__getstate__ Root.__setstate__
    RowGroupSelectorBase.select_row_groups
    RowLoader.are_exclusive RowLoader.at RowLoader.check_columns RowLoader.column RowLoader.get_batch
    RowLoader.get_columns RowLoader.get_row RowLoader.get_rows RowLoader.iter_columns RowLoader.iter_rows
    RowLoader.read_columns RowLoader.suffix RowLoader.to_pytorch RowLoader.to_tensorflow
    Schema.from_json Schema.groups_of SingleIndexSelector.select_row_groups Stats.__sub__
    Table.index Table.show Table.to_pytorch Table.to_tensorflow Table.view
    TablePart.from_bytes TableWorker.stage TableWriter.partition
    Transaction.append_fill Transaction.apply Transaction.begin Transaction.dims Transaction.is_of
    Transaction.require_addable UnionIndexSelector.select_row_groups
    Unischema.create_schema_view Unischema.from_arrow_schema Unischema.from_json Unischema.make_namedtuple
    WeightedSamplingReader.load_state_dict WeightedSamplingReader.set_group_rows
    balanced build_rowgroup_index collect_garbage compact configure copy dataset_as_rdd delete diff du exists expire
    export flush freeze in_intersection.do_include in_intersection.mask in_lambda.do_include in_negate.do_include
    in_negate.mask in_pseudorandom_split.do_include in_pseudorandom_split.mask in_reduce.do_include in_reduce.mask
    in_set.do_include in_set.mask list load log make_batch_reader make_petastorm_dataset make_reader
    make_spark_converter materialize_dataset join join_asof merge_version read_index references rename repair restore
    retry row_loader split stats tag tags tf_tensors transfer undo untag verify view
"""


def _public():
    """Names of the public interface that have parameters, or may be set."""
    around = ""
    for line in public_api.described().splitlines():
        if line.startswith("class "):
            around = re.match(r"class (\w+)", line)[1]
            if "(" in line.partition(" is ")[0]:
                yield around
        elif line.startswith("    "):
            name, parameters = re.match(r"    (\w+)(?:\(self,? ?(.*)\)|.*)", line).groups()
            settable = line.endswith("may be set")
            special = name.startswith("__")
            if special or settable or (parameters and parameters != "/") or "method" in line:
                yield f"{around}.{name}"
        elif not line.startswith("#"):
            yield line.partition("(")[0]


def _takes_none(name):
    member = name.rpartition(".")[2]
    return name in NO_VALUES.split() or any(known.fullmatch(member) for known in (COMPUTING, IN_PLACE, OF_PYTHON))


def test_every_public_name_is_in_the_matrix_or_takes_no_values():
    covered = {name for item in [*ENTRIES.values(), *ATTRIBUTE_ENTRIES.values()] for name in item.covers}
    unlisted = [name for name in _public() if name not in covered and not _takes_none(name)]
    assert unlisted == [], "give each an entry in tests/conversions, or say here that it stores no value"


def test_what_is_said_to_be_covered_is_public():
    public = set(_public())
    covered = {name for item in [*ENTRIES.values(), *ATTRIBUTE_ENTRIES.values()] for name in item.covers}
    assert covered - {name for name in covered if name.endswith(".attrs")} <= public
    assert public >= set(NO_VALUES.split())


def test_arithmetic_in_place_is_refused(root):
    array = hub.array(3, "lab/x:v1", "i4", root=root)
    for name in (line.strip() for line in public_api.described().splitlines() if IN_PLACE.fullmatch(line.strip())):
        operator = getattr(array, name, None)
        try:
            operator(1)
        except TypeError:
            continue
        raise AssertionError(name)
    assert array.refresh().commit == 1
