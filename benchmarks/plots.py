"""A plot of each benchmark's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Row

OURS, PEER, LIMIT = "#d95f02", "#7570b3", "#bbbbbb"


def draw(path: Path, name: str, rows: list[Any]) -> None:
    """Write a plot, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    plot = _rates if rows and isinstance(rows[0], Row) else _TABLES.get(name)
    if plot is None:
        return
    figure = plot(pyplot, rows)
    figure.tight_layout()
    figure.savefig(path)


def _rates(pyplot: Any, rows: list[Row]) -> Any:
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(8, 2.6 * len(rows)), squeeze=False)
    for axis, row in zip(axes[:, 0], rows, strict=True):
        ranked = sorted(((n, t) for n, t in row.timings.items() if t.seconds), key=lambda item: -item[1].median)
        rates = [row.bytes / timing.median / 1e6 for _, timing in ranked]
        colours = [OURS if n == row.ours else LIMIT if n.startswith("limit") else PEER for n, _ in ranked]
        axis.barh([n for n, _ in ranked], rates, color=colours)
        axis.set_title(row.case, fontsize=9)
        axis.set_xlabel("MB/s")
    return figure


def _grid(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    labels = list(dict.fromkeys(row["chunks"] for row in rows))
    figure, axes = pyplot.subplots(1, len(labels), figsize=(4 * len(labels), 3.2), squeeze=False)
    for axis, label in zip(axes[0], labels, strict=True):
        for processes in sorted({row["processes"] for row in rows}):
            chosen = [row for row in rows if row["chunks"] == label and row["processes"] == processes]
            threads = [row["threads"] for row in chosen]
            axis.plot(threads, [r["hubarray, MB/s"] for r in chosen], marker="o", label=f"{processes} processes")
            axis.plot(threads, [r["bare, MB/s"] for r in chosen], linestyle=":", color="#999999")
        axis.set_title(f"{label} chunks (dotted: bare client)", fontsize=9)
        axis.set_xlabel("threads")
        axis.set_xscale("log", base=2)
    axes[0][0].set_ylabel("MB/s")
    axes[0][0].legend(fontsize=8)
    return figure


def _training(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = pyplot.subplots(1, len(models), figsize=(4 * len(models), 3.2), squeeze=False, sharey=True)
    for axis, model in zip(axes[0], models, strict=True):
        chosen = [row for row in rows if row["model"] == model]
        waits = [row["data wait, % of step"] for row in chosen]
        sources = [row["fed from"].replace(", ", "\n") for row in chosen]
        axis.bar(sources, [100 - wait for wait in waits], bottom=waits, color=LIMIT, label="the model")
        axis.bar(sources, waits, color=OURS, label="waiting for data")
        axis.tick_params(axis="x", labelsize=6)
        axis.set_title(model, fontsize=9)
    axes[0][0].set_ylabel("% of a step")
    axes[0][0].legend(fontsize=8)
    figure.suptitle(f"{rows[0]['card']}, torch {rows[0]['torch']}", fontsize=8)
    return figure


def _memory(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    measures = [measure for measure in rows[0] if measure != "contender"]
    figure, axes = pyplot.subplots(len(measures), 1, figsize=(8, 2.6 * len(measures)), squeeze=False)
    for axis, measure in zip(axes[:, 0], measures, strict=True):
        ranked = sorted(rows, key=lambda row: -row[measure])
        names = [row["contender"] for row in ranked]
        colours = [OURS if name == "hubarray" else PEER for name in names]
        axis.barh(names, [row[measure] for row in ranked], color=colours)
        axis.set_title(measure, fontsize=9)
        axis.set_xlabel("MB")
    return figure


def _scale(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.2))
    for axis, unit in zip(axes, ("requests", "bytes"), strict=True):
        for measure in rows[0]:
            if measure.endswith(unit):
                values = [row[measure] for row in rows]
                axis.plot([row["chunks"] for row in rows], values, marker="o", label=measure.partition(":")[0])
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel("chunks in the array")
        axis.set_ylabel(unit)
    axes[0].legend(fontsize=8)
    return figure


def _commits(pyplot: Any, rows: list[dict[str, Any]]) -> Any:
    figure, axis = pyplot.subplots(figsize=(5, 3.2))
    for store, chunks in dict.fromkeys((row["store"], row["chunks"]) for row in rows):
        chosen = [row for row in rows if (row["store"], row["chunks"], row["machines"]) == (store, chunks, 1)]
        label = f"{store}, a chunk {chunks.removeprefix('one ')}"
        axis.plot([row["writers"] for row in chosen], [row["commits/s"] for row in chosen], marker="o", label=label)
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("writers of one version, on one machine")
    axis.set_ylabel("commits/s")
    axis.legend(fontsize=8)
    return figure


_TABLES = {"grid": _grid, "training": _training, "memory": _memory, "scale": _scale, "commits": _commits}
