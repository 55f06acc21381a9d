"""Compare two versions of hubarray, turn by turn: ``python -m benchmarks.compare CHECKOUT [--case WORDS]``.

One process per version runs the same cases on the same server. They take turns in a random order, so what else the
machine does falls on both alike, and a difference of a few percent shows.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1]
_SMALL_CALLS = (
    "200 samples from a folder",
    "20 batches from a folder",
    "1000 samples from memory",
    "100 assignments",
    "20 appends to a dataset",
    "1000 rows of a table",
)
_CHILD = "import hubarray, sys; sys.path.insert(0, sys.argv.pop(1)); from benchmarks import compare; compare.serve()"


def main() -> None:
    """Print the medians of both versions, and the median ratio of their turns, for each case."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        epilog="example: git worktree add ../before v0.1.0; python -m benchmarks.compare ../before --case 'bulk s3'",
    )
    parser.add_argument("checkout", type=Path, help="the folder of the version to compare this one with")
    parser.add_argument("--case", default="", metavar="WORDS", help="only cases whose names contain these words")
    parser.add_argument("--rounds", type=int, default=40, help="turns of each version (default %(default)s)")
    arguments = parser.parse_args()
    from benchmarks import places

    with (
        places.s3() as s3,
        tempfile.TemporaryDirectory(prefix="hubarray-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        where = [folder, s3.endpoint, s3.bucket, str(s3.server), arguments.case]
        before = stack.enter_context(_Version(arguments.checkout, where))
        after = stack.enter_context(_Version(HERE, where))
        print("| case | before (s) | after (s) | after / before |\n| --- | ---: | ---: | ---: |")
        for case in after.cases:
            if case not in before.cases:
                continue
            turns: dict[_Version, list[float]] = {before: [], after: []}
            for version in turns:
                version.run(case)
            for round_ in range(arguments.rounds):
                for version in random.Random(round_).sample(list(turns), 2):
                    turns[version].append(version.run(case))
            ratio = statistics.median(b / a for a, b in zip(turns[before], turns[after], strict=True))
            medians = (f"{statistics.median(seconds):.4f}" for seconds in turns.values())
            print(f"| {case} | {' | '.join(medians)} | {ratio:.3f} |", flush=True)


class _Version:
    """A process that runs cases with the hubarray of a checkout."""

    def __init__(self, checkout: Path, where: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(HERE), *where], cwd=checkout, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self.cases = self._line().split("\t")

    def __enter__(self) -> _Version:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate()

    def run(self, case: str) -> float:
        """Return the seconds that a case takes."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process of a version ended. Its output above says why.")
        return line.rstrip("\n")


def serve() -> None:
    """Run the cases that are asked for on the input, and print the seconds of each."""
    warnings.simplefilter("ignore")
    output, sys.stdout = sys.stdout, sys.stderr
    folder, endpoint, bucket, server, words = sys.argv[1:]
    cases = dict(_cases(Path(folder), endpoint, bucket, int(server), words))
    print("\t".join(cases), file=output, flush=True)
    for line in sys.stdin:
        print(cases[line.rstrip("\n")](), file=output, flush=True)


def _cases(
    folder: Path, endpoint: str, bucket: str, server: int, words: str
) -> Iterator[tuple[str, Callable[[], float]]]:
    """The cases whose names contain some words; what the others need is not made."""
    import hubarray as hub
    from benchmarks import data, epochs, loader, places
    from benchmarks.ours import OURS

    hub.configure(memory_cache_bytes=64 << 20, disk_cache_bytes=0)
    corner = places.Place("local", folder).corner("version")
    s3 = places.Place("s3", corner.folder, endpoint, bucket, corner.prefix, server)
    samples = loader._samples(10)
    bulk: dict[str, tuple[Callable[[], np.ndarray], tuple[int, ...]]] = {
        "197 KB": (partial(data.photographs, 150, 256), (1, 256, 256, 3)),
        "3 MB": (partial(data.photographs, 150, 256), (16, 256, 256, 3)),
        "8 MB float32": (partial(data.volume, (64, 512, 512)), (64, 128, 256)),
    }
    for place in (corner, s3):
        for chunk, (values, chunks) in bulk.items():
            case = f"bulk {place.kind}, {chunk}"
            if words in case:
                stored = place.corner("bulk")
                OURS.create(stored, values(), chunks)
                yield case, _timed(partial(OURS.open(stored), ...), place)
        for name, make in epochs.OURS_BY_SOURCE.items():
            case = f"epoch {place.kind}, {name}"
            if words in case:
                made = make(place.corner("epochs"), samples)
                epoch = made if callable(made) else next(iter(made.values()))
                yield case, _timed(lambda epoch=epoch: list(map(len, epoch())), place)
    if any(words in case for case in _SMALL_CALLS):
        calls = zip(_SMALL_CALLS, _small_calls(corner), strict=True)
        yield from ((case, call) for case, call in calls if words in case)
    if any(words in f"loader, {workers} workers" for workers in range(3)):
        for workers, epoch in loader.MAKERS["hubarray"](corner.corner("loader"), samples).items():
            case = f"loader, {workers} workers"
            if words in case:
                yield case, _timed(lambda epoch=epoch: list(map(len, epoch())), corner)


def _small_calls(place: Any) -> Iterator[Callable[[], float]]:
    """Calls that take microseconds or milliseconds each, a hundred or a thousand of them at a time."""
    import hubarray as hub

    root = hub.Root(place.corner("small").folder)
    array = hub.array((1000, 64, 64), "bench/array:v0", "f4", chunks=(1, 64, 64), root=root)
    array[...] = 1.0
    dataset = hub.dataset(
        {name: hub.ArraySpec((0, 64), dims=("row", None)) for name in "xy"}, "bench/set:v0", root=root
    )
    schema = hub.Schema({"x": hub.Field("f4", (64,)), "i": hub.Field("i8", index=True)})
    with hub.table_writer("bench/table:v0", schema, root=root) as writer, writer.partition("p") as partition:
        for i in range(1000):
            partition.append({"x": np.full(64, i, "f4"), "i": i})
    loader = hub.row_loader(hub.read_index("bench/table:v0", root=root), root)
    rows, values = np.zeros((2, 64)), itertools.count()
    pictures = hub.array((600, 128, 128, 3), "bench/pictures:v0", "u1", chunks=(1, 128, 128, 3), root=root)
    pictures[...] = (np.arange(600 * 128 * 128 * 3) // 37 % 251).reshape(pictures.shape)
    draw = random.Random(0)
    samples, batches = ([draw.sample(range(600), n) for _ in range(20)] for n in (10, 32))
    yield _timed(lambda: [pictures[i] for i in itertools.chain(*samples)], None)
    yield _timed(lambda: [pictures[batch] for batch in batches], None)
    yield _timed(lambda: [array[i] for i in range(1000)], place)
    yield _timed(lambda: [array.__setitem__(i, next(values)) for i in range(100)], place)
    yield _timed(lambda: [dataset.append({"x": rows, "y": rows}) for _ in range(20)], place)
    yield _timed(lambda: [loader.get_row(i) for i in range(1000)], place)


def _timed(work: Callable[[], Any], place: Any) -> Callable[[], float]:
    """Time some work, with empty caches where the data is in a bucket, or ``place`` is None."""
    from benchmarks.ours import cold

    def seconds() -> float:
        if place is None or place.kind == "s3":
            cold()
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return seconds


if __name__ == "__main__":
    main()
