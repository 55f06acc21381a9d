"""Results as Markdown, JSON and plots."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

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


def _table(rows: list[dict[str, Any]]) -> list[str]:
    header = "| " + " | ".join(rows[0]) + " |"
    lines = [header, "|" + "---|" * len(rows[0])]
    for row in rows:
        cells = (f"{value:,.3g}" if isinstance(value, float) else str(value) for value in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def keep(folder: Path, name: str, as_json: list[Any], text: str, rows: list[Any]) -> None:
    """Write ``name.json``, ``name.md`` and, where matplotlib is installed, ``name.svg``."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(as_json, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text)
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    if rows and isinstance(rows[0], Row):
        _bars(pyplot, rows, folder / f"{name}.svg")
    elif name == "grid":
        _lines(pyplot, rows, folder / "grid.svg")
    elif name == "waits":
        _waits(pyplot, rows, folder / "waits.svg")


def _bars(pyplot: Any, rows: list[Row], path: Path) -> None:
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(8, 2.6 * len(rows)), squeeze=False)
    for axis, row in zip(axes[:, 0], rows, strict=True):
        ranked = sorted(((n, t) for n, t in row.timings.items() if t.seconds), key=lambda item: -item[1].median)
        rates = [row.bytes / timing.median / 1e6 for _, timing in ranked]
        colours = ["#d95f02" if n == row.ours else "#bbbbbb" if n.startswith("limit") else "#7570b3" for n, _ in ranked]
        axis.barh([n for n, _ in ranked], rates, color=colours)
        axis.set_title(row.case, fontsize=9)
        axis.set_xlabel("MB/s")
    figure.tight_layout()
    figure.savefig(path)


def _lines(pyplot: Any, rows: list[dict[str, Any]], path: Path) -> None:
    labels = list(dict.fromkeys(row["chunks"] for row in rows))
    figure, axes = pyplot.subplots(1, len(labels), figsize=(4 * len(labels), 3.2), squeeze=False)
    for axis, label in zip(axes[0], labels, strict=True):
        for processes in sorted({row["processes"] for row in rows}):
            some = [row for row in rows if row["chunks"] == label and row["processes"] == processes]
            axis.plot(
                [r["threads"] for r in some],
                [r["hubarray, MB/s"] for r in some],
                marker="o",
                label=f"{processes} processes",
            )
            axis.plot([r["threads"] for r in some], [r["bare, MB/s"] for r in some], linestyle=":", color="#999999")
        axis.set_title(f"{label} chunks (dotted: bare client)", fontsize=9)
        axis.set_xlabel("threads")
        axis.set_xscale("log", base=2)
    axes[0][0].set_ylabel("MB/s")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def _waits(pyplot: Any, rows: list[dict[str, Any]], path: Path) -> None:
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = pyplot.subplots(1, len(models), figsize=(4 * len(models), 3.2), squeeze=False, sharey=True)
    for axis, model in zip(axes[0], models, strict=True):
        some = [row for row in rows if row["model"] == model]
        waits = [row["data wait, % of step"] for row in some]
        sources = [row["fed from"] for row in some]
        axis.bar(sources, [100 - wait for wait in waits], bottom=waits, color="#bbbbbb", label="the model")
        axis.bar(sources, waits, color="#d95f02", label="waiting for data")
        axis.set_title(f"{model} model", fontsize=9)
    axes[0][0].set_ylabel("% of a step")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
