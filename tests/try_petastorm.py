"""Whether Petastorm reads what hubarray writes for it: ``python tests/try_petastorm.py PYTHON``, of an environment of its.

Petastorm needs an older PyArrow and NumPy than hubarray, so ``make test-petastorm`` installs it beside.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np

import hubarray as hub

ROWS = 40
FIELDS = [
    hub.petastorm.UnischemaField("id", np.int64, (), hub.petastorm.ScalarCodec("LongType"), False),
    hub.petastorm.UnischemaField("small", np.uint8, (), hub.petastorm.ScalarCodec("ShortType"), False),
    hub.petastorm.UnischemaField("half", np.float32, (), hub.petastorm.ScalarCodec("FloatType"), False),
    hub.petastorm.UnischemaField("name", np.str_, (), hub.petastorm.ScalarCodec("StringType"), True),
    hub.petastorm.UnischemaField("price", Decimal, (), hub.petastorm.ScalarCodec("DecimalType(10, 2)"), False),
    hub.petastorm.UnischemaField("matrix", np.float64, (None, 2), hub.petastorm.NdarrayCodec(), False),
    hub.petastorm.UnischemaField("packed", np.int16, (3,), hub.petastorm.CompressedNdarrayCodec(), False),
    hub.petastorm.UnischemaField("image", np.uint8, (8, 8, 3), hub.petastorm.CompressedImageCodec("png"), False),
]
# Run by Petastorm's Python: its rows, as the text that the other side makes of them too.
READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from petastorm import make_reader
{shown}
with make_reader("file://" + sys.argv[1], reader_pool_type="dummy", num_epochs=1, shuffle_row_groups=False) as reader:
    print(json.dumps(sorted((shown(row._asdict()) for row in reader), key=lambda row: int(row["id"]))))
"""


def shown(row):
    """A row as text that is the same in both environments."""
    return {
        name: str(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)
        for name, value in row.items()
    }


def row_of(i: int) -> dict[str, object]:
    """A row."""
    return {
        "id": i, "small": i, "half": np.float32(i / 2), "name": None if i % 5 == 0 else f"row {i} é",
        "price": Decimal(25 * i).scaleb(-2), "matrix": np.full((i % 3 + 1, 2), i / 3), "packed": np.arange(3, dtype="i2") * i,
        "image": np.random.default_rng(i).integers(0, 255, (8, 8, 3), "u1"),
    }  # fmt: skip


def written(folder: Path) -> Path:
    """A dataset by ``parquet_writer``."""
    with hub.parquet_writer(
        folder / "written", hub.petastorm.Unischema("Rows", FIELDS), rows_per_row_group=7
    ) as writer:
        writer.write_rows(row_of(i) for i in range(ROWS))
    return folder / "written"


def with_metadata(folder: Path) -> Path:
    """The same, whose metadata were lost and are written again by the command."""
    path = written(folder / "again")
    for item in path.glob("_*"):
        if item.name != "_common_metadata":
            item.unlink()
    command = [sys.executable, "-m", "hubarray", "petastorm", "metadata", "--write", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def by_spark(folder: Path) -> Path:
    """A dataset that Spark wrote within ``materialize_dataset``."""
    from pyspark.sql import SparkSession

    from hubarray.petastorm.etl.dataset_metadata import materialize_dataset
    from hubarray.petastorm.unischema import dict_to_spark_row

    os.environ["PYSPARK_PYTHON"] = sys.executable
    schema = hub.petastorm.Unischema("Rows", FIELDS)
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    path = folder / "spark"
    with materialize_dataset(session, f"file://{path}", schema, 32):
        rows = [dict_to_spark_row(schema, row_of(i)) for i in range(ROWS)]
        session.createDataFrame(rows, schema.as_spark_schema()).write.parquet(f"file://{path}")
    session.stop()
    return path


def main(python: str) -> None:
    """Have Petastorm read each dataset, and compare."""
    expected = [shown(row_of(i)) for i in range(ROWS)]
    with tempfile.TemporaryDirectory() as name:
        for make in (written, with_metadata, by_spark):
            path = make(Path(name))
            command = [python, "-c", READ.replace("{shown}", inspect.getsource(shown)), str(path)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr[-3000:]
            result = json.loads(next(line for line in run.stdout.splitlines() if line.startswith("[")))
            assert result == expected, (
                make.__name__,
                next(pair for pair in zip(result, expected, strict=True) if pair[0] != pair[1]),
            )
            print(f"{make.__name__}: Petastorm reads all of {len(result)} rows")


if __name__ == "__main__":
    main(sys.argv[1])
