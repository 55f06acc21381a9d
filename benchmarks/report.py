"""Results as Markdown and JSON, and the plots beside them."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.harness import Row


def markdown(name: str, rows: list[Any], command: str) -> str:
    """A section with a table for each case."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [f"## {name}", "", f"`{command}`, {today}, {platform.machine()}, Python {platform.python_version()}", ""]
    if rows and not isinstance(rows[0], Row):
        return "\n".join([*lines, *_table(rows), ""])
    for row in rows:
        lines += [f"**{row.case}**" + (f" ({row.note})" if row.note else ""), ""]
        ranked = sorted(row.timings.items(), key=lambda item: item[1].median)
        lines += _table(
            [
                {
                    "contender": contender,
                    "median, ms": timing.median * 1e3,
                    "spread, ms": _spread(timing.seconds),
                    "MB/s": row.bytes / timing.median / 1e6 if timing.seconds else 0.0,
                    **_medians("processor, ms", timing.processor_seconds),
                    **_medians("server, ms", timing.server_seconds),
                    **timing.beside,
                    "": timing.error,
                }
                for contender, timing in ranked
            ]
        )
        lines.append("")
        lines += [
            f"* {'reached' if ok else '**NOT reached**'}: {text} ({value:.2f})" for text, value, ok in row.verdicts()
        ]
        lines.append("")
    return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return ""
    return f"{min(seconds) * 1e3:.3g} to {max(seconds) * 1e3:.3g}"


def _medians(column: str, seconds: list[float]) -> dict[str, float]:
    return {column: statistics.median(seconds) * 1e3} if seconds else {}


def _table(rows: list[dict[str, Any]]) -> list[str]:
    # Contenders that failed lack some columns; what went wrong comes last.
    columns = sorted({column: None for row in rows for column in row}, key=lambda column: column == "")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        values = (row.get(column, "") for column in columns)
        cells = (f"{value:,.3g}" if isinstance(value, float) else str(value) for value in values)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def keep(folder: Path, name: str, as_json: list[Any], text: str, rows: list[Any]) -> None:
    """Write ``name.json``, ``name.md`` and, where matplotlib is installed, ``name.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(as_json, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text)
    plots.draw(folder / f"{name}.svg", name, rows)
