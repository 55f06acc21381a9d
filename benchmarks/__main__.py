"""Run one benchmark, or all of them: ``python -m benchmarks [NAME] [--json]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import hubarray as hub
from benchmarks import report
from benchmarks.harness import Row

CASES = {
    "samples": "reads",
    "batches": "reads",
    "bulk_local": "reads",
    "bulk_s3": "reads",
    "random_s3": "reads",
    "loop_s3": "reads",
    "disk_cache": "disk_cache",
    "packs": "packs",
    "bulk_write": "writes",
    "assignments": "writes",
    "scale": "scale",
    "memory": "memory",
    "loader": "loader",
    "training": "training",
    "grid": "grid",
    "commits": "commits",
    "datasets": "datasets",
    "tables": "tables",
    "table_costs": "tables",
    "table_scans": "table_scans",
    "table_index": "table_scans",
    "table_sharing": "table_sharing",
    "epochs": "epochs",
    "forked_workers": "epochs",
    "shuffle_quality": "shuffling",
}
RESULTS = Path(__file__).parent / "results"


def run(name: str, megabytes: int) -> list[Any]:
    """The rows of one benchmark."""
    with tempfile.TemporaryDirectory(prefix="hubarray-bench-") as folder:
        hub.configure(root=f"{folder}/root", cache_dir=f"{folder}/cache")
        rows: list[Any] = getattr(importlib.import_module(f"benchmarks.{CASES[name]}"), name)(megabytes)
        return rows


def main() -> None:
    """Run what is asked for, print tables or JSON, and keep both with plots."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog="examples: python -m benchmarks bulk_s3 --json; python -m benchmarks samples --megabytes 100",
    )
    parser.add_argument("name", nargs="?", choices=list(CASES), help="which one; all of them without")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--megabytes", type=int, default=1000, help="how much data the bulk cases move (default 1000)")
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="where tables, JSON and plots are written, over what is there (default %(default)s)",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    everything = {}
    for name in [arguments.name] if arguments.name else CASES:
        print(f"running {name} ...", file=sys.stderr)
        rows = run(name, arguments.megabytes)
        as_json = [row.as_json() if isinstance(row, Row) else row for row in rows]
        everything[name] = as_json
        text = report.markdown(name, rows, f"python -m benchmarks {name} --megabytes {arguments.megabytes}")
        report.keep(arguments.results, name, as_json, text, rows)
        if not arguments.json:
            print(text)
    if arguments.json:
        print(json.dumps(everything, indent=2))


if __name__ == "__main__":
    main()
