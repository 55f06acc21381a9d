"""Run one benchmark, or all of them: ``python -m benchmarks [NAME] [--json]``."""

from __future__ import annotations

import argparse
import importlib
import json

NAMES = ("commits",)


def main() -> None:
    """Run what is asked for and print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", epilog="example: python -m benchmarks commits --json")
    parser.add_argument("name", nargs="?", choices=NAMES, help="which one; all of them without")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    results = {
        name: importlib.import_module(f"benchmarks.{name}").run()
        for name in ([arguments.name] if arguments.name else NAMES)
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for name, rows in results.items():
        print(f"## {name}\n")
        print("| " + " | ".join(rows[0]) + " |")
        print("|" + "---|" * len(rows[0]))
        for row in rows:
            print(
                "| "
                + " | ".join(f"{value:,.3g}" if isinstance(value, float) else str(value) for value in row.values())
                + " |"
            )


if __name__ == "__main__":
    main()
