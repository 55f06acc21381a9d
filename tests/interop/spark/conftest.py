from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def spark_session() -> Iterator[object]:
    from pyspark.sql import SparkSession

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Spark 4.3 has not caught up with pandas 3, of which nothing is used here.
        warnings.simplefilter("ignore", FutureWarning)
        # Two executors of their own, that may fail a task twice.
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
        made = (
            builder.config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
            .config("spark.task.maxFailures", "3")
            .getOrCreate()
        )
        yield made
        made.stop()
